#!/usr/bin/env python3
"""The pipeline schedule of a scenario, from schedule.json: which pass of which micro-batch each stage runs when. Above
on paper, where every pass of a chunk takes one unit (a whole backward pass two) and transfers nothing; below as it was
simulated.

usage: schedule.py DIR [--out DIR]
"""

import style
from matplotlib.collections import PolyCollection
from matplotlib.patches import Rectangle
from style import plt

PASSES = {"F": "forward", "B": "backward", "I": "backward, inputs", "W": "backward, weights"}
COLOURS = {"F": "#4c7fc4", "B": "#c8553d", "I": "#e0862f", "W": "#5f9e5f"}
LIGHTEST = 0.55           # how much white the last chunk has in it
BAR = 0.86                # of a stage's row
FONT, FONT_LEAST = 7.5, 4.5  # points
DIGIT = 0.64              # of the font's size: width of a digit
MARGIN = 1.1              # inches beside the rows
NARROW, WIDE = 13.0, 24.0  # inches
UNITS_PER_INCH = 5.0


def mixed(colour, white):
    """The colour with so much white in it."""
    parts = [int(colour[i:i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(part + (255 - part) * white):02x}" for part in parts)


def colour_of(letter, chunk, chunks):
    return mixed(COLOURS[letter], LIGHTEST * chunk / max(1, chunks - 1) if chunks > 1 else 0.0)


def draw_stages(axis, drawing, chunks, scale, inches):
    """One row per stage, the first on top; times multiplied by scale, over so many inches. Frames hold
    passes that are meant to overlap."""
    step = drawing["step"] * scale
    shapes, pairs = {}, []
    for stage, slots in enumerate(drawing["slots"]):
        axis.add_patch(Rectangle((0, stage - BAR / 2), step, BAR, color="#eef0f3", linewidth=0, zorder=0))
        for slot, after in zip(slots, slots[1:] + slots[-1:]):
            begin, end = slot["begin"] * scale, slot["end"] * scale
            top, bottom = stage - BAR / 2, stage + BAR / 2
            shapes.setdefault((slot["pass"], slot["chunk"]), []).append(
                [(begin, top), (end, top), (end, bottom), (begin, bottom)])
            if slot["paired"]:
                both = after["end"] * scale
                pairs.append([(begin, top), (both, top), (both, bottom), (begin, bottom)])
            text = str(slot["micro_batch"])
            size = min(FONT, 72.0 * inches * (end - begin) / step / (DIGIT * (0.6 + len(text))))
            if size >= FONT_LEAST:
                axis.text((begin + end) / 2, stage, text, ha="center", va="center", fontsize=size, clip_on=True,
                          zorder=3, color="white" if slot["chunk"] == 0 else style.INK)
    for (letter, chunk), boxes in shapes.items():
        edge = "white" if len(boxes) < 500 else "none"
        axis.add_collection(PolyCollection(boxes, facecolors=colour_of(letter, chunk, chunks), edgecolors=edge,
                                           linewidths=0.6, zorder=1))
    axis.add_collection(PolyCollection(pairs, facecolors="none", edgecolors=style.INK, linewidths=0.9, zorder=2))
    stages = len(drawing["slots"])
    axis.set_xlim(0, step)
    axis.set_ylim(stages - 0.5, -0.5)
    axis.set_yticks(range(stages))
    axis.set_yticklabels([f"stage {s}" for s in range(stages)], color=style.INK)
    axis.tick_params(axis="y", length=0)
    axis.grid(False)
    axis.spines["left"].set_visible(False)


def idle(drawing):
    share, within = drawing["idle_share"], drawing["idle_share_within"]
    text = f"stages idle {100 * share:.1f} % of the step"
    if share - within > 0.0005:
        text += f", {100 * within:.1f} % between their first pass and their last"
    return text


def name_passes(axis, data):
    """A legend entry per pass, and, where there are several chunks, one for the darkest and one for the lightest."""
    used = {slot["pass"] for slots in data["ideal"]["slots"] for slot in slots}
    chunks = data["chunks"]
    handles = [Rectangle((0, 0), 1, 1, color=COLOURS[letter]) for letter in PASSES if letter in used]
    labels = [name for letter, name in PASSES.items() if letter in used]
    if chunks > 1:
        for chunk in (0, chunks - 1):
            handles.append(Rectangle((0, 0), 1, 1, color=mixed(style.MUTED, LIGHTEST if chunk else 0.0)))
            labels.append(f"chunk {chunk}")
    axis.legend(handles, labels, loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncol=len(labels), frameon=False,
                fontsize=9, handlelength=1, columnspacing=1.4, borderaxespad=0.2)


def draw(data):
    """The figure, or None where there is no schedule."""
    if not data["ideal"]["slots"]:
        return None
    stages, chunks = data["stages"], data["chunks"]
    width = min(WIDE, max(NARROW, data["ideal"]["step"] / UNITS_PER_INCH))
    row = 0.36 if stages <= 8 else 0.28
    figure, (ideal, run) = plt.subplots(2, 1, figsize=(width, 2.6 + 2 * row * stages))
    draw_stages(ideal, data["ideal"], chunks, 1.0, width - MARGIN)
    ideal.set_title(f"{data['schedule']} on paper, {stages} stages, {data['micro_batches']} micro-batches: "
                    f"{idle(data['ideal'])}", pad=26)
    ideal.set_xlabel(f"time ({data['ideal']['unit']})")
    unit, size = style.time_unit(data["run"]["step"])
    draw_stages(run, data["run"], chunks, 1.0 / size, width - MARGIN)
    run.set_title(f"As simulated ({data['name']}): {idle(data['run'])}")
    run.set_xlabel(f"time in the step ({unit}), until the last pass ends")
    name_passes(ideal, data)
    return figure


if __name__ == "__main__":
    import plot

    plot.main_of("schedule", draw, ["schedule.json"])

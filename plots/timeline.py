#!/usr/bin/env python3
"""The schedule of the recorded ranks: what ran when on each stream, from trace.json of a run.

A step of few micro-batches is drawn once, with all of its streams. One of many would be a grey wall: then compute alone
is drawn over the whole step, and all streams over a window that a few micro-batches fill.

usage: timeline.py DIR [--out DIR]
"""

import style
from matplotlib.ticker import FuncFormatter
from style import plt

RANKS_MOST = 16
STREAM_HEIGHT = 0.26   # of a communication stream, where a compute stream is 1
WHOLE_HEIGHT = 0.62    # of a compute stream in the picture of the whole step, where there is a window beside it
PIXELS = 1600.0        # across the picture: blocks nearer than one are drawn as one
IDLE = 0.004           # of the time shown: streams busy for less on every rank are left out
HAIRLINE = 1.5         # pixels: recomputation that takes less is drawn as part of the pass that it belongs to
HIDDEN = "hidden"      # among the phases that are drawn: some recomputation is not
NUMBERED_GAP = 0.02    # of the time shown: parts of a micro-batch nearer than this share one number
NUMBER_WIDTH = 0.016   # of the time shown: what a number needs
PASSES_MOST = 70       # of micro-batches on one compute stream that are still told apart
PASSES_IN_WINDOW = 14
SHAPES_MOST = 400      # of one kind on one stream: more are a picture inside the SVG, which would be megabytes else


class Block:
    """Neighbouring slices of one stream that look alike."""

    def __init__(self, begin, end, category, micro_batch):
        self.begin, self.end, self.category, self.micro_batch = begin, end, category, micro_batch


def read_ranks(trace):
    """[(name, [(stream, slices)])] in the order of ranks, compute streams first; times in milliseconds."""
    names, streams, slices = {}, {}, {}
    for event in trace["traceEvents"]:
        if event["ph"] == "M" and event["name"] == "process_name":
            names[event["pid"]] = event["args"]["name"]
        elif event["ph"] == "M" and event["name"] == "thread_name":
            streams[event["pid"], event["tid"]] = event["args"]["name"]
        elif event["ph"] == "X":
            begin = event["ts"] / 1e3
            slices.setdefault((event["pid"], event["tid"]), []).append(
                (begin, begin + event["dur"] / 1e3, event["cat"], event["args"].get("micro_batch", -1)))
    ranks = []
    for pid in sorted(names):
        rows = [(streams[key], sorted(slices[key])) for key in sorted(streams) if key[0] == pid and key in slices]
        ranks.append((names[pid], sorted(rows, key=lambda row: not is_compute(row[0]))))
    return ranks


def within(ranks, begin, end):
    """What lies between two times, slices cut off there."""
    def cut(slices):
        return [(max(a, begin), min(b, end), category, batch) for a, b, category, batch in slices
                if b > begin and a < end]

    return [(name, [(stream, cut(slices)) for stream, slices in rows]) for name, rows in ranks]


def without_idle_streams(ranks, span):
    """Leaves out streams that are busy for too short a time on all ranks to be seen. Waiting is not being busy."""
    busy = {}
    for _, rows in ranks:
        for stream, slices in rows:
            time = sum(end - begin for begin, end, category, _ in slices if category != "wait")
            busy[stream] = max(busy.get(stream, 0.0), time)
    seen = {stream for stream, time in busy.items() if is_compute(stream) or time >= IDLE * span}
    return [(name, [row for row in rows if row[0] in seen]) for name, rows in ranks]


def without_hairlines(slices, span):
    """Recomputation of a few kernels would be hairlines through the backward passes that it belongs to."""
    least = HAIRLINE * span / PIXELS
    return [(begin, end, "backward" if category == "recompute" and end - begin < least else category, batch)
            for begin, end, category, batch in slices]


def merged(slices, least_gap, apart=True):
    """Slices joined where they look alike and lie closer together than least_gap; micro-batches kept apart or not."""
    blocks = []
    for begin, end, category, micro_batch in slices:
        last = blocks[-1] if blocks else None
        alike = last and last.category == category and (not apart or last.micro_batch == micro_batch)
        if alike and begin - last.end < least_gap:
            last.end = max(last.end, end)
        else:
            blocks.append(Block(begin, end, category, micro_batch))
    return blocks


def is_compute(stream):
    return stream == "compute"


def is_pass(piece):
    _, _, category, micro_batch = piece
    return micro_batch >= 0 and category in ("forward", "backward")


def passes(ranks):
    """[(begin, end)] of micro-batches' passes on the compute stream that has most of them."""
    most = []
    for _, rows in ranks:
        for stream, slices in rows:
            if is_compute(stream):
                blocks = merged([piece for piece in slices if is_pass(piece)], float("inf"))
                most = max(most, [(block.begin, block.end) for block in blocks], key=len)
    return most


def window_of(ranks):
    """(begin, end) of the passes in the middle of a step that has too many to tell apart; None where it has not."""
    all_passes = passes(ranks)
    if len(all_passes) <= PASSES_MOST:
        return None
    first = (len(all_passes) - PASSES_IN_WINDOW) // 2
    return all_passes[first][0], all_passes[first + PASSES_IN_WINDOW - 1][1]


def draw_ranks(axis, ranks, begin, end, compute_height, numbered):
    """Draws rows from the top down and returns the phases that are in them."""
    span = end - begin
    used = set()
    top = 0.0
    ticks = []
    for name, rows in ranks:
        for stream, slices in rows:
            height = compute_height if is_compute(stream) else STREAM_HEIGHT
            shown = without_hairlines(slices, span)
            if shown != slices:
                used.add(HIDDEN)
            blocks = merged(shown, span / PIXELS, apart=numbered)
            for category in sorted({block.category for block in blocks}):
                spans = [(b.begin, b.end - b.begin) for b in blocks if b.category == category]
                axis.broken_barh(spans, (top + 0.04, height - 0.06), linewidth=0,
                                 facecolors=style.PHASES.get(category, style.OTHER),
                                 rasterized=len(spans) > SHAPES_MOST)
                used.add(category)
            middle = top + height / 2
            if not is_compute(stream):
                axis.annotate(stream.replace("_", " "), (end, middle), xytext=(4, 0), textcoords="offset points",
                              va="center", fontsize=6.5, color=style.MUTED, annotation_clip=False)
            else:
                ticks.append((middle, name.replace("role", "stage")))
                if numbered:
                    of_batches = [piece for piece in slices if is_pass(piece)]
                    number_micro_batches(axis, merged(of_batches, NUMBERED_GAP * span), middle, span)
            top += height
        top += row_gap(rows)
    axis.set_xlim(begin, end)
    axis.set_ylim(top - 0.1, -0.05)
    axis.set_yticks([y for y, _ in ticks])
    axis.set_yticklabels([name for _, name in ticks], color=style.INK)
    unit, size = style.time_unit(min(end / 1e3, 60.0))  # ticks are round numbers of seconds or less
    axis.xaxis.set_major_formatter(FuncFormatter(lambda time, _: f"{time / 1e3 / size:,.6g}"))
    axis.set_xlabel(f"time in the step ({unit})")
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="y", visible=False)
    axis.spines["left"].set_visible(False)
    return used


def row_gap(rows):
    return 0.3 if len(rows) > 1 else 0.0


def height_of(ranks, compute_height):
    heights = [compute_height if is_compute(stream) else STREAM_HEIGHT for _, rows in ranks for stream, _ in rows]
    return sum(heights) + sum(row_gap(rows) for _, rows in ranks)


def number_micro_batches(axis, blocks, y, span):
    """Writes the micro-batch into blocks that are wide enough to hold a number."""
    for block in blocks:
        if block.end - block.begin > NUMBER_WIDTH * span:
            axis.text((block.begin + block.end) / 2, y, str(block.micro_batch), ha="center", va="center", fontsize=7,
                      color="white", clip_on=True,
                      bbox={"facecolor": style.PHASES[block.category], "linewidth": 0, "pad": 1})


def name_phases(axis, used):
    phases = [phase for phase in style.PHASES if phase in used]
    handles = [plt.Rectangle((0, 0), 1, 1, color=style.PHASES[phase]) for phase in phases]
    names = {"backward": "backward (with recomputation)"} if HIDDEN in used and "recompute" not in used else {}
    labels = [names.get(phase, phase.replace("_", " ")) for phase in phases]
    axis.legend(handles, labels, loc="lower left", bbox_to_anchor=(-0.01, 1.0),
                ncol=len(phases), frameon=False, fontsize=9, handlelength=1, columnspacing=1.4, borderaxespad=0.2)


def draw_once(ranks, end, left_out):
    ranks = without_idle_streams(ranks, end)
    figure, axis = plt.subplots(figsize=(12, 1.6 + 0.42 * height_of(ranks, 1.0)))
    used = draw_ranks(axis, ranks, 0.0, end, 1.0, numbered=True)
    name_phases(axis, used)
    axis.set_xlabel(axis.get_xlabel() + left_out)
    axis.set_title("What ran when: compute (tall) and communication (thin) of one rank per pipeline stage", pad=26)
    return figure


def draw_with_window(ranks, end, window, left_out):
    compute = [(name, [row for row in rows if is_compute(row[0])]) for name, rows in ranks]
    detail = without_idle_streams(within(ranks, *window), window[1] - window[0])
    heights = [height_of(compute, WHOLE_HEIGHT), height_of(detail, 1.0)]
    figure, (whole, close) = plt.subplots(2, 1, figsize=(12, 2.9 + 0.42 * sum(heights)),
                                          gridspec_kw={"height_ratios": [heights[0] + 1.2, heights[1] + 1.2]})
    used = draw_ranks(whole, compute, 0.0, end, WHOLE_HEIGHT, numbered=False)
    whole.axvspan(*window, facecolor="none", edgecolor=style.INK, linewidth=1.2, zorder=3)
    whole.set_title("The whole step: compute of one rank per pipeline stage; the frame is what is shown below", pad=26)
    used |= draw_ranks(close, detail, *window, 1.0, numbered=True)
    close.set_title("In the middle of it: compute (tall) and communication (thin), micro-batches numbered")
    whole.set_xlabel("")
    close.set_xlabel(close.get_xlabel() + left_out)
    name_phases(whole, used)
    return figure


def draw(trace):
    """The figure, or None where no rank was recorded."""
    ranks = read_ranks(trace)
    if not ranks:
        return None
    more = len(ranks) - RANKS_MOST
    left_out = f"; {more} more ranks are not shown" if more > 0 else ""
    ranks = ranks[:RANKS_MOST]
    end = max(end for _, rows in ranks for _, slices in rows for _, end, _, _ in slices)
    window = window_of(ranks)
    if window is None:
        return draw_once(ranks, end, left_out)
    return draw_with_window(ranks, end, window, left_out)


if __name__ == "__main__":
    import plot

    plot.main_of("timeline", draw, ["trace.json"])

#!/usr/bin/env python3
"""The schedule of the recorded ranks: what ran when on each stream, from trace.json of a run.

usage: timeline.py DIR [--out DIR]
"""

import style
from style import plt

RANKS_MOST = 16
STREAM_HEIGHT = 0.26  # of a communication stream, where a compute stream is 1
PIXELS = 1600.0       # across the picture: blocks nearer than one are drawn as one
IDLE = 0.004          # of the step: streams busy for less on every rank are left out
NUMBERED_GAP = 0.02   # of the step: parts of a micro-batch nearer than this share one number


class Block:
    """Neighbouring slices of one stream that look alike."""

    def __init__(self, begin, end, category, micro_batch):
        self.begin, self.end, self.category, self.micro_batch = begin, end, category, micro_batch


def read_ranks(trace):
    """[(name, [(stream, slices)])] in the order of ranks and streams; times in milliseconds."""
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
        ranks.append((names[pid], rows))
    return without_idle_streams(ranks)


def without_idle_streams(ranks):
    """Leaves out streams that are busy for too short a time on all ranks to be seen."""
    span = max((end for _, rows in ranks for _, slices in rows for _, end, _, _ in slices), default=0.0)
    busy = {}
    for _, rows in ranks:
        for stream, slices in rows:
            time = sum(end - begin for begin, end, _, _ in slices)
            busy[stream] = max(busy.get(stream, 0.0), time)
    seen = {stream for stream, time in busy.items() if is_compute(stream) or time >= IDLE * span}
    return [(name, [row for row in rows if row[0] in seen]) for name, rows in ranks]


def merged(slices, least_gap):
    """Slices joined where they look alike and lie closer together than least_gap."""
    blocks = []
    for begin, end, category, micro_batch in slices:
        last = blocks[-1] if blocks else None
        if last and last.category == category and last.micro_batch == micro_batch and begin - last.end < least_gap:
            last.end = max(last.end, end)
        else:
            blocks.append(Block(begin, end, category, micro_batch))
    return blocks


def is_compute(stream):
    return stream == "compute"


def draw(trace):
    """The figure, or None where no rank was recorded."""
    ranks = read_ranks(trace)
    if not ranks:
        return None
    left_out = max(0, len(ranks) - RANKS_MOST)
    ranks = ranks[:RANKS_MOST]
    span = max(end for _, rows in ranks for _, slices in rows for _, end, _, _ in slices)
    heights = [sum(1.0 if is_compute(stream) else STREAM_HEIGHT for stream, _ in rows) + 0.35 for _, rows in ranks]
    figure, axis = plt.subplots(figsize=(12, 1.6 + 0.42 * sum(heights)))
    used = set()
    top = 0.0
    ticks = []
    for (name, rows), height in zip(ranks, heights):
        y = top
        for stream, slices in sorted(rows, key=lambda row: not is_compute(row[0])):
            thickness = 1.0 if is_compute(stream) else STREAM_HEIGHT
            blocks = merged(slices, span / PIXELS)
            for category in sorted({block.category for block in blocks}):
                spans = [(b.begin, b.end - b.begin) for b in blocks if b.category == category]
                axis.broken_barh(spans, (y + 0.04, thickness - 0.06), linewidth=0,
                                 facecolors=style.PHASES.get(category, style.OTHER))
                used.add(category)
            if is_compute(stream):
                number_micro_batches(axis, merged(slices, NUMBERED_GAP * span), y + thickness / 2, span)
                ticks.append((y + thickness / 2, name))
            elif height < 8:
                axis.annotate(stream.replace("_", " "), (span, y + thickness / 2), xytext=(4, 0),
                              textcoords="offset points",
                              va="center", fontsize=6.5, color=style.MUTED, annotation_clip=False)
            y += thickness
        top += height
    axis.set_xlim(0, span)
    axis.set_ylim(top - 0.3, -0.05)
    axis.set_yticks([y for y, _ in ticks])
    axis.set_yticklabels([name for _, name in ticks], color=style.INK)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="y", visible=False)
    axis.spines["left"].set_visible(False)
    axis.set_xlabel("time in the step (ms)" + (f"; {left_out} more ranks are not shown" if left_out else ""))
    axis.set_title("What ran when: compute (tall) and communication (thin) of one rank per role", pad=26)
    phases = [phase for phase in style.PHASES if phase in used]
    handles = [plt.Rectangle((0, 0), 1, 1, color=style.PHASES[phase]) for phase in phases]
    axis.legend(handles, [phase.replace("_", " ") for phase in phases], loc="lower left", bbox_to_anchor=(-0.01, 1.0),
                ncol=len(phases), frameon=False, fontsize=9, handlelength=1, columnspacing=1.4, borderaxespad=0.2)
    return figure


def number_micro_batches(axis, blocks, y, span):
    """Writes the micro-batch into blocks that are wide enough to hold a number."""
    for block in blocks:
        if block.micro_batch >= 0 and block.end - block.begin > 0.016 * span:
            axis.text((block.begin + block.end) / 2, y, str(block.micro_batch), ha="center", va="center", fontsize=7,
                      color="white" if block.category in ("forward", "backward") else style.INK,
                      bbox={"facecolor": style.PHASES.get(block.category, style.OTHER), "linewidth": 0, "pad": 1})


if __name__ == "__main__":
    import plot

    plot.main_of("timeline", draw, ["trace.json"])

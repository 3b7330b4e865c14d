#!/usr/bin/env python3
"""How busy the recorded GPUs are over the step, their memory, and how long collectives take: from metrics.csv of a run.

usage: utilization.py DIR [--out DIR]
"""

import csv
import os

import numpy
import style
from style import plt

LINES_MOST = 4  # ranks whose memory is drawn; of more, the extremes
OPERATIONS_MOST = 8
# Of operations, told apart by shape as well as by colour, and hollow: those that lie upon one another are all seen.
COLOURS = ["#1f4e9c", "#e08a2e", "#c24d4a", "#3a9a96", "#7b52ab", "#7d8a1f", "#e377c2", "#22262b"]
MARKERS = [("o", 6.5), ("s", 3.5), ("^", 5), ("v", 5), ("D", 4), ("+", 5.5), ("x", 5), ("*", 6)]  # and sizes


def read_metrics(folder, file="metrics.csv"):
    """{metric: {labels: [(time, value)]}}, labels as a tuple of (name, value)."""
    metrics = {}
    with open(os.path.join(folder, file), encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            labels = tuple(tuple(label.split("=", 1)) for label in row["labels"].split(";") if label)
            series = metrics.setdefault(row["metric"], {}).setdefault(labels, [])
            series.append((float(row["time_s"]), float(row["value"])))
    return metrics


def rank_of(labels):
    return int(dict(labels)["rank"])


def by_rank(series):
    return sorted(series.items(), key=lambda item: rank_of(item[0]))


def as_steps(points):
    """Edges and values of points that stand at the ends of equal bins."""
    times = [time for time, _ in points]
    width = times[1] - times[0] if len(times) > 1 else times[0]
    return [times[0] - width] + times, [value for _, value in points]


def draw_lines(axis, series, unit, scale):
    for (labels, points), colour in zip(by_rank(series), style.LINES):
        edges, values = as_steps(points)
        scaled = [scale * value for value in values]
        axis.stairs(scaled, [unit * edge for edge in edges], color=colour, linewidth=1.8, baseline=None)
        if len(series) == 1:
            axis.stairs(scaled, [unit * edge for edge in edges], color=colour, alpha=0.18, fill=True)


def name_ranks(axis, series):
    """Names lines in a row below the title, where nothing else is."""
    handles = [plt.Line2D([], [], color=colour) for _, colour in zip(series, style.LINES)]
    axis.set_title(axis.get_title(loc="left"), pad=26)
    axis.legend(handles, [f"rank {rank_of(labels)}" for labels, _ in by_rank(series)], frameon=False, fontsize=9,
                ncol=len(handles), loc="lower left", bbox_to_anchor=(-0.01, 1.0), borderaxespad=0.2)


def draw_map(figure, axis, series, unit):
    rows = by_rank(series)
    edges, _ = as_steps(rows[0][1])
    image = axis.pcolormesh([unit * edge for edge in edges], numpy.arange(len(rows) + 1),
                            [[100 * value for _, value in points] for _, points in rows], cmap="Blues", vmin=0,
                            vmax=100, rasterized=True)
    axis.set_yticks(numpy.arange(len(rows)) + 0.5)
    axis.set_yticklabels([f"rank {rank_of(labels)}" for labels, _ in rows])
    axis.invert_yaxis()
    axis.grid(False)
    figure.colorbar(image, ax=axis, label="% of the time", pad=0.01)


def draw_compute(figure, axis, series, unit):
    axis.set_title("Compute kernels running")
    if len(series) > 1:
        draw_map(figure, axis, series, unit)
        return
    draw_lines(axis, series, unit, 100)
    axis.set_ylabel("% of the time")
    axis.set_ylim(0, 104)


def draw_memory(axis, series, unit):
    rows = dict(by_rank(series)[:LINES_MOST]) if len(series) <= LINES_MOST else extremes(series)
    axis.set_title("GPU memory, by the GPU's clock")
    draw_lines(axis, rows, unit, 2.0**-30)
    axis.set_ylabel("GiB allocated")
    axis.set_ylim(bottom=0)
    if len(rows) > 1:
        name_ranks(axis, rows)


def extremes(series):
    ordered = sorted(by_rank(series), key=lambda item: -max(value for _, value in item[1]))
    return dict([ordered[0], ordered[-1]])


def draw_operations(axis, metrics, unit):
    lines = {}
    for metric, series in sorted(metrics.items()):
        if not metric.startswith("nccl_"):
            continue
        for labels, points in by_rank(series):
            name = f"{metric[len('nccl_'):-len('_time_ms')]}, {dict(labels)['group'].replace('_', ' ')}"
            lines.setdefault(name, []).extend(points)
    # A point is a mean over an interval: those that go on all the time have most points.
    busiest = sorted(lines.items(), key=lambda item: (-len(item[1]), item[0]))[:OPERATIONS_MOST]
    axis.set_title("Collectives and transfers, from posting to end (waiting included)")
    axis.set_ylabel("ms")
    axis.set_yscale("log")
    for (name, points), colour, (marker, size) in zip(busiest, COLOURS, MARKERS):
        # Not clipped: those at the end of the step stay whole.
        axis.plot([unit * time for time, _ in points], [value for _, value in points], marker, color=colour, label=name,
                  markersize=size, markerfacecolor="none", markeredgewidth=1.0, clip_on=False, zorder=3)
    style.plain_ticks(axis)
    axis.legend(frameon=False, fontsize=9, ncol=3, loc="upper left", bbox_to_anchor=(0.0, -0.25), markerscale=1.4,
                borderaxespad=0.2)


def draw(metrics):
    """The figure, or None where no rank was recorded."""
    if "gpu_compute_utilization" not in metrics:
        return None
    compute = metrics["gpu_compute_utilization"]
    memory = metrics.get("gpu_memory_usage_bytes", {})
    operations = any(metric.startswith("nccl_") for metric in metrics)
    heights = [1.3 if len(compute) == 1 else 0.5 + 0.14 * len(compute)]
    heights += [1.3] * bool(memory) + [1.5] * operations
    end = max(time for series in compute.values() for time, _ in series)
    name, size = style.time_unit(end)
    figure, axes = plt.subplots(len(heights), 1, figsize=(11, 1.2 + 1.75 * sum(heights)), sharex=True, squeeze=False,
                                gridspec_kw={"height_ratios": heights})
    rows = [row[0] for row in axes]
    draw_compute(figure, rows[0], compute, 1 / size)
    if memory:
        draw_memory(rows[1], memory, 1 / size)
    if operations:
        draw_operations(rows[-1], metrics, 1 / size)
    rows[-1].set_xlim(0, end / size)
    rows[-1].set_xlabel(f"time in the step ({name})")
    return figure


if __name__ == "__main__":
    import plot

    plot.main_of("utilization", draw, ["metrics.csv"])

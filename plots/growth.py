#!/usr/bin/env python3
"""What a simulation costs against the number of GPUs, folded and not: from the JSON of tests/bench/scale.py.

usage: growth.py FILE [--out DIR]
"""

import argparse
import json
import os

import style
from style import plt

COLOURS = {"folded": style.LINES[0], "unfolded": style.LINES[2]}
TICKS_EVERY = 3  # of the sizes measured


def series_of(results):
    """{name: rows by GPUs}, folded first."""
    series = {}
    for row in sorted(results["growth"], key=lambda row: (row["name"], row["gpus"])):
        series.setdefault(row["name"], []).append(row)
    return series


def count_axis(axis, counts):
    axis.set_xscale("log", base=2)
    axis.set_xlim(counts[0] / 1.3, counts[-1] * 1.5)
    ticks = counts[::-1][::TICKS_EVERY][::-1]
    axis.set_xticks(ticks)
    axis.set_xticklabels([f"{n:,}" for n in ticks])
    axis.minorticks_off()
    axis.set_xlabel("GPUs simulated (n)")


def decades(axis, values):
    """A logarithmic y axis with some room around the values."""
    axis.set_yscale("log")
    axis.set_ylim(min(values) / 1.8, max(values) * 2.5)
    style.plain_ticks(axis)


def draw_quantity(axis, title, unit, series, value, counts, places):
    """One panel; `places` says where the names of lines stand: {name: (which point, offset in points)}."""
    axis.set_title(title)
    axis.set_ylabel(unit)
    decades(axis, [value(row) for rows in series.values() for row in rows])
    count_axis(axis, counts)
    for name, rows in series.items():
        xs = [row["gpus"] for row in rows]
        ys = [value(row) for row in rows]
        axis.plot(xs, ys, "o-", color=COLOURS.get(name, style.OTHER))
        which, offset = places[name]
        axis.annotate(name, (xs[which], ys[which]), xytext=offset, textcoords="offset points", fontsize=10,
                      ha="right" if offset[0] < 0 else "left", va="center", color=COLOURS.get(name, style.OTHER))


def draw(results):
    """The figure, or None where there are no two sizes."""
    series = series_of(results)
    counts = sorted({row["gpus"] for rows in series.values() for row in rows})
    if len(counts) < 2:
        return None
    figure, axes = plt.subplots(1, 3, figsize=(14.5, 4.9))
    figure.suptitle("What simulating a step costs: Llama 3 70B, tensor 8, pipeline 8, data parallel from 1", x=0.012,
                    ha="left", fontsize=13, fontweight="bold")
    beside = {"folded": (-1, (-14, 12)), "unfolded": (-1, (8, 4))}
    above = {**beside, "unfolded": (-1, (-4, 12))}
    draw_quantity(axes[0], "Time on one core", "s of CPU time", series, lambda row: row["cpu_s"], counts, beside)
    draw_quantity(axes[1], "Classes of ranks played out", "classes", series, lambda row: row["rank_classes"], counts,
                  beside)
    draw_quantity(axes[2], "Memory", "peak MiB", series, lambda row: row["peak_bytes"] / 2**20, counts, above)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help="JSON that tests/bench/scale.py wrote")
    parser.add_argument("--out", help="folder for the pictures (that of the file)")
    arguments = parser.parse_args()
    with open(arguments.file, encoding="utf-8") as file:
        figure = draw(json.load(file))
    if figure is None:
        raise SystemExit("error: one size alone does not grow")
    for path in style.save(figure, arguments.out or os.path.dirname(os.path.abspath(arguments.file)), "growth"):
        print(path)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""How far simulated training steps are from measured ones: from validation.csv of `orrery validate --out`.

usage: validation.py DIR [--out DIR] [--quiet]
"""

import csv
import math
import os

import style
from style import plt

COLOURS = style.LINES + ["#b5739d", "#d4a72c", "#6b7d2a", "#5b8fd0", "#a0522d", "#8c8f96"]
BAND = 0.1  # shaded around equality
CLIP = 0.5  # larger errors stand in the outermost bins


def read_validation(folder, name="validation.csv"):
    """[(source, measured, simulated, doubtful)] of the rows that were simulated."""
    rows = []
    with open(os.path.join(folder, name), encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["step_time_s"]:
                measured, simulated = float(row["measured_step_time_s"]), float(row["step_time_s"])
                rows.append((row["group"], measured, simulated, bool(row["suspect"])))
    return rows


def sources_of(rows):
    """Sources, those with most rows first, so that small ones are drawn over them; and colours by name."""
    names = sorted({row[0] for row in rows})
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    count = {name: sum(row[0] == name for row in rows) for name in names}
    return sorted(names, key=lambda name: (-count[name], name)), colours


def mean_error(rows):
    return sum(abs(simulated / measured - 1) for _, measured, simulated, _ in rows) / len(rows)


def draw_parity(rows):
    """Predicted against measured, or None where there is nothing."""
    if not rows:
        return None
    figure, axis = plt.subplots(figsize=(9.8, 6.9))
    figure.suptitle("Training steps as published and as simulated", x=0.012, ha="left", fontsize=13, fontweight="bold")
    values = [value for row in rows for value in row[1:3]]
    low, high = min(values) / 1.3, max(values) * 1.3
    axis.fill_between([low, high], [low * (1 - BAND), high * (1 - BAND)], [low * (1 + BAND), high * (1 + BAND)],
                      color=style.GRID, linewidth=0, label=f"within {100 * BAND:.0f} %")
    axis.plot([low, high], [low, high], color=style.MUTED, linewidth=1)
    names, colours = sources_of(rows)
    for name in names:
        sound = [row for row in rows if row[0] == name and not row[3]]
        doubtful = [row for row in rows if row[0] == name and row[3]]
        label = f"{name}: doubtful rows alone"
        if sound:
            label = f"{name}: {len(sound)} rows, {100 * mean_error(sound):.1f} %"
        axis.scatter([row[1] for row in sound], [row[2] for row in sound], s=22, color=colours[name], alpha=0.75,
                     linewidth=0, label=label)
        axis.scatter([row[1] for row in doubtful], [row[2] for row in doubtful], s=26, facecolor="none",
                     edgecolor=colours[name], linewidth=0.9)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlim(low, high)
    axis.set_ylim(low, high)
    axis.set_aspect("equal")
    style.plain_ticks(axis)
    axis.set_xticks(axis.get_yticks())
    axis.set_xlim(low, high)
    axis.xaxis.set_major_formatter(axis.yaxis.get_major_formatter())
    axis.minorticks_off()
    axis.set_xlabel("measured step time (s)")
    axis.set_ylabel("simulated step time (s)")
    title = "sources, and mean error"
    if any(row[3] for row in rows):
        title += "\n(hollow: rows that their own\nsource makes doubtful)"
    axis.legend(title=title, fontsize=9, title_fontsize=9, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False,
                alignment="left")
    return figure


def draw_errors(rows):
    """A histogram of signed errors per source, or None where there is nothing."""
    sound = [row for row in rows if not row[3]]
    if not sound:
        return None
    names, colours = sources_of(rows)
    names = sorted(name for name in names if any(row[0] == name for row in sound))
    columns = min(3, len(names))
    lines = math.ceil(len(names) / columns)
    figure, axes = plt.subplots(lines, columns, figsize=(4.2 * columns, 2.4 * lines + 0.8), squeeze=False, sharex=True)
    figure.suptitle("Errors of simulated step times (simulated / measured - 1)", x=0.012, ha="left", fontsize=13,
                    fontweight="bold")
    edges = [i * 0.05 - CLIP for i in range(round(2 * CLIP / 0.05) + 1)]
    for place, axis in enumerate(axes.flat):
        if place >= len(names):
            axis.set_visible(False)
            continue
        name = names[place]
        errors = [row[2] / row[1] - 1 for row in sound if row[0] == name]
        axis.hist([min(max(error, -CLIP), CLIP - 1e-9) for error in errors], bins=edges, color=colours[name])
        axis.axvline(0, color=style.MUTED, linewidth=1)
        bias = sum(errors) / len(errors)
        axis.axvline(bias, color=style.INK, linewidth=1.2, linestyle=":")
        size = sum(abs(error) for error in errors) / len(errors)
        axis.set_title(f"{name}\n{len(errors)} rows, mean {100 * size:.1f} %, bias {100 * bias:+.1f} %", fontsize=10)
        axis.set_xlim(-CLIP, CLIP)
        axis.set_xticks([-0.4, -0.2, 0, 0.2, 0.4], ["-40 %", "-20 %", "0", "+20 %", "+40 %"])
        axis.yaxis.get_major_locator().set_params(integer=True)
        axis.set_ylabel("rows")
    return figure


if __name__ == "__main__":
    import plot

    arguments = plot.arguments_of(__doc__)
    contents = read_validation(arguments.folder)
    for name, draw in (("parity", draw_parity), ("errors", draw_errors)):
        figure = draw(contents)
        if figure is None:
            raise SystemExit(f"error: nothing to draw in {arguments.folder}")
        plot.save(figure, arguments, name)

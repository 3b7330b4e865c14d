#!/usr/bin/env python3
"""One bar per run of a sweep: how long a step takes and where the time goes.

usage: breakdown.py DIR [--out DIR]
"""

import style
from style import plt

RUNS_MOST = 40  # bars that fit on a page


def draw(results):
    """The figure, or None where there is no run."""
    runs = [run for run in results["runs"] if "summary" in run]
    if not runs:
        return None
    left_out = max(0, len(runs) - RUNS_MOST)
    runs = runs[:RUNS_MOST]
    longest = max(run["summary"]["step"]["time_s"] for run in runs)
    unit, size = style.time_unit(longest)
    figure, axis = plt.subplots(figsize=(11.5, 1.9 + 0.42 * len(runs)))
    axis.set_title(f"{runs[0]['summary']['scenario']}: where a step's time goes", pad=26)
    legend = {}
    for row, run in enumerate(runs):
        left = 0.0
        for name, seconds, colour in style.breakdown_parts(run["summary"]):
            if seconds <= 0:
                continue
            bar = axis.barh(row, seconds / size, 0.66, left, color=colour, edgecolor="white", linewidth=0.6)
            if seconds >= 0.002 * longest:
                legend.setdefault(name, bar)
            left += seconds / size
        step = run["summary"]["step"]
        text = f"{left:#.3g} {unit}".replace(". ", " ")
        if "mfu" in step:
            text += f", MFU {100 * step['mfu']:.0f} %"
        if run["summary"]["memory"].get("fits") is False:
            text += ", does not fit"
        axis.annotate(text, (left, row), xytext=(6, 0), textcoords="offset points", va="center", fontsize=9)
    axis.set_xlim(0, 1.25 * longest / size)
    axis.set_ylim(len(runs) - 0.5, -0.5)
    axis.set_yticks(range(len(runs)))
    axis.set_yticklabels([run["name"] for run in runs], color=style.INK)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="y", visible=False)
    axis.spines["left"].set_visible(False)
    axis.set_xlabel(f"time of a step ({unit})" + (f"; {left_out} more runs are not shown" if left_out else ""))
    axis.legend([legend[name] for name in legend], list(legend), loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncol=6,
                frameon=False, fontsize=8.5, handlelength=0.9, columnspacing=1.1, handletextpad=0.5,
                borderaxespad=0.2)
    return figure


if __name__ == "__main__":
    import plot

    plot.main_of("breakdown", draw, ["results.json"])

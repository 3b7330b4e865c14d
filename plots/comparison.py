#!/usr/bin/env python3
"""The runs of a comparison: where a step's time goes, and what the peak of memory consists of, a bar a run.

usage: comparison.py DIR [--out DIR]
"""

import style
from style import plt

TAGS = {
    "weights": "#2f5597",
    "gradients": "#5b8fd0",
    "optimizer_state": "#a9c6ea",
    "activations": "#e08a2e",
    "gathered_parameters": "#8c6bb8",
    "communication_buffers": "#c24d4a",
    "logits": "#3a9a96",
    "workspace": "#d4a72c",
    "framework": "#8c8f96",
}
GIB = 2.0**30


def stacked(axis, rows, unit_size, smallest):
    """Draws rows of [(name, amount, colour)]; returns {name: a bar} of those that can be seen, and the totals."""
    legend, totals = {}, []
    for row, parts in enumerate(rows):
        left = 0.0
        for name, amount, colour in parts:
            if amount <= 0:
                continue
            bar = axis.barh(row, amount / unit_size, 0.66, left, color=colour, edgecolor="white", linewidth=0.6)
            if amount >= smallest:
                legend.setdefault(name, bar)
            left += amount / unit_size
        totals.append(left)
    return legend, totals


def dress(axis, names, totals, texts, legend, label, title):
    for row, (total, text) in enumerate(zip(totals, texts)):
        axis.annotate(text, (total, row), xytext=(6, 0), textcoords="offset points", va="center", fontsize=9)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.set_yticks(range(len(names)))
    axis.set_yticklabels(names, color=style.INK)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="y", visible=False)
    axis.spines["left"].set_visible(False)
    axis.set_xlabel(label)
    rows = -(-len(legend) // 4)
    axis.set_title(title, pad=12 + 14 * rows)
    axis.legend(list(legend.values()), list(legend), loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncol=4,
                frameon=False, fontsize=8.5, handlelength=0.9, columnspacing=1.1, handletextpad=0.5,
                borderaxespad=0.2)


def draw(results):
    """The figure, or None where there is no run."""
    runs = [run for run in results["runs"] if "summary" in run]
    if not runs:
        return None
    summaries = [run["summary"] for run in runs]
    names = [run["name"] for run in runs]
    figure, (time, memory) = plt.subplots(1, 2, figsize=(14, 2.3 + 0.45 * len(runs)), width_ratios=(1.15, 1))
    figure.suptitle(results.get("scenario", ""), x=0.01, ha="left", fontweight="bold", fontsize=12)

    longest = max(summary["step"]["time_s"] for summary in summaries)
    unit, size = style.time_unit(longest)
    legend, totals = stacked(time, [style.breakdown_parts(s) for s in summaries], size, 0.002 * longest)
    texts = [f"{total:#.3g} {unit}".replace(". ", " ") +
             (f", MFU {100 * s['step']['mfu']:.0f} %" if "mfu" in s["step"] else "")
             for total, s in zip(totals, summaries)]
    time.set_xlim(0, 1.3 * longest / size)
    dress(time, names, totals, texts, legend, f"time of a step ({unit})", "Where a step's time goes")

    most = max(s["memory"]["peak_bytes"] for s in summaries)
    rows = [[(tag.replace("_", " "), s["memory"]["by_tag"].get(tag, 0), colour) for tag, colour in TAGS.items()]
            for s in summaries]
    legend, totals = stacked(memory, rows, GIB, 0.002 * most)
    limits = {s["memory"]["limit_bytes"] for s in summaries if "limit_bytes" in s["memory"]}
    texts = [f"{total:#.3g} GiB".replace(". ", " ") + (", does not fit" if s["memory"].get("fits") is False else "")
             for total, s in zip(totals, summaries)]
    near = [limit for limit in limits if limit < 1.6 * most]
    memory.set_xlim(0, 1.3 * max([most] + near) / GIB)
    for limit in near:
        memory.axvline(limit / GIB, color=style.INK, linewidth=1.2, linestyle=(0, (4, 3)))
    has = "dashed: what a GPU has" if near else " or ".join(f"a GPU has {limit / GIB:.3g}" for limit in sorted(limits))
    dress(memory, names, totals, texts, legend, "memory of the fullest GPU at its peak (GiB)" + (has and f"; {has}"),
          "What the memory is for")
    return figure


if __name__ == "__main__":
    import plot

    plot.main_of("comparison", draw, ["comparison.json"])

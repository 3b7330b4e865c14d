#!/usr/bin/env python3
"""Time, speedup, where it goes and what is sent, against the number of GPUs: from results.json of a sweep.

usage: speedup.py DIR [--out DIR]
"""

import math

import style
from style import plt

SERIES_MOST = 6  # lines that one can still tell apart
TICKS_MOST = 7
BARS_WITH_NUMBERS = 9


def gpus(run):
    return run["summary"]["cluster"]["gpus"]


def setting(key, value):
    """A setting in few words: "tensor 4", "zero3"."""
    words = key.split(".")
    name = words[-2] if words[-1] == "kind" and len(words) > 1 else words[-1]
    return f"{name.replace('_', ' ')} {value}" if isinstance(value, (int, float)) else str(value)


def series_of(results):
    """[(label, runs by GPUs)]: runs that differ in the number of GPUs alone make one line."""
    axes = {key for law in results.get("growth", []) for key in law["axes"]}
    lines = {}
    for run in results["runs"]:
        if "summary" not in run:
            continue
        others = ", ".join(setting(key, value) for key, value in run["set"].items() if key not in axes)
        lines.setdefault(others, []).append(run)
    lines = {label: sorted(runs, key=gpus) for label, runs in lines.items()}
    return [(label, runs) for label, runs in lines.items() if len({gpus(run) for run in runs}) > 1]


def duration(run):
    """Seconds that are plotted: of the whole training where it is known, else of a step."""
    summary = run["summary"]
    return summary["training"]["time_s"] if "training" in summary else summary["step"]["time_s"]


def ideal(run, operations):
    """Seconds of the bare formula `operations` P T / (n X), T the tokens that are plotted; None without a peak or
    tokens (image models)."""
    summary = run["summary"]
    peak = summary["cluster"].get("peak_tflops_per_gpu")
    if not peak or "tokens" not in summary["step"]:
        return None
    tokens = summary["training"]["tokens"] if "training" in summary else summary["step"]["tokens"]
    return operations * summary["model"]["active_parameters"] * tokens / (gpus(run) * peak * 1e12)


def ideal_lines(runs):
    """[(operations, label, line width)]: the formula as people quote it, and what it is without recomputation."""
    lines = [(8, "ideal: 8 P T / (n X)", 1.5)]
    if any(run["summary"].get("training", {}).get("ideal_operations_per_parameter") == 6 for run in runs):
        lines.append((6, "6 P T / (n X): without\nrecomputation", 0.8))
    return lines


def ticks_among(counts):
    """Of the counts as many as can be read side by side on a logarithmic axis, the first and the last among them."""
    least_ratio = (counts[-1] / counts[0]) ** (1 / TICKS_MOST)
    ticks = [counts[-1]]
    for count in reversed(counts):
        if ticks[-1] / count >= least_ratio:
            ticks.append(count)
    if ticks[-1] != counts[0]:
        ticks[-1] = counts[0]
    return ticks[::-1]


def gpu_axis(axis, counts):
    axis.set_xscale("log", base=2)
    axis.set_xlim(counts[0] / 1.25, counts[-1] * 1.9)  # room for labels at the right
    ticks = ticks_among(counts)
    axis.set_xticks(ticks)
    axis.set_xticklabels([f"{n:,}" for n in ticks])
    axis.minorticks_off()
    axis.set_xlabel("GPUs (n)")


def end_labels(axis, items):
    """Labels at the right end of lines, [(x, y, text, colour)], moved apart on a logarithmic axis."""
    low, high = (math.log(limit) for limit in axis.get_ylim())
    moved = style.spread_labels([math.log(y) for _, y, _, _ in items], 0.065 * (high - low))
    for (x, _, text, colour), y in zip(items, moved):
        axis.annotate(text, (x, math.exp(y)), xytext=(8, 0), textcoords="offset points", va="center", color=colour,
                      fontsize=9)


def draw_time(axis, series, counts):
    longest = max(duration(run) for _, runs in series for run in runs)
    unit, size = style.time_unit(longest)
    whole = "training" in series[0][1][0]["summary"]
    axis.set_title("Time of the whole training" if whole else "Time of a step")
    axis.set_ylabel(unit)
    axis.set_yscale("log")
    labels = []
    for (label, runs), colour in zip(series, style.LINES):
        xs = [gpus(run) for run in runs]
        ys = [duration(run) / size for run in runs]
        axis.plot(xs, ys, "o-", color=colour)
        labels.append((xs[-1], ys[-1], label or "simulated", colour))
    for operations, text, width in ideal_lines(series[0][1]):
        dashed = [(gpus(run), ideal(run, operations) / size) for run in series[0][1] if ideal(run, operations)]
        if dashed:
            axis.plot(*zip(*dashed), "--", color=style.MUTED, linewidth=width)
            labels.append((*dashed[-1], text, style.MUTED))
    gpu_axis(axis, counts)
    if len(labels) > len(series):
        axis.set_xlabel("GPUs (n);  P parameters, T tokens, X FLOP/s of a GPU")
    style.plain_ticks(axis)
    end_labels(axis, labels)


def draw_speedup(axis, series, counts):
    axis.set_title("Speedup, and efficiency against linear")
    axis.set_ylabel(f"times as fast as {counts[0]:,} GPUs")
    axis.set_yscale("log", base=2)
    axis.plot(counts, [n / counts[0] for n in counts], "--", color=style.MUTED, linewidth=1.5)
    labels = [(counts[-1], counts[-1] / counts[0], "linear", style.MUTED)]
    for (label, runs), colour in zip(series, style.LINES):
        first = runs[0]
        xs = [gpus(run) for run in runs]
        # Work per second, so that a sweep in which the batch grows with the GPUs is measured fairly too.
        steps = [run["summary"]["step"] for run in runs]
        rate = [step.get("tokens_per_s", step.get("images_per_s")) for step in steps]
        base = rate[0] * counts[0] / gpus(first)
        ys = [r / base for r in rate]
        axis.plot(xs, ys, "o-", color=colour)
        marked = ticks_among(xs) if len(series) == 1 else []
        for x, y in zip(xs, ys):
            if x not in marked or x in (xs[0], xs[-1]):  # the last is in the label of the line
                continue
            axis.annotate(f"{100 * y * counts[0] / x:.0f} %", (x, y), xytext=(4, -13), textcoords="offset points",
                          fontsize=9, color=colour)
        name = f"{label or 'simulated'} ({100 * ys[-1] * counts[0] / xs[-1]:.0f} %)"
        labels.append((xs[-1], ys[-1], name, colour))
    gpu_axis(axis, counts)
    style.plain_ticks(axis)
    end_labels(axis, labels)


def draw_breakdown(axis, label, runs):
    axis.set_title("Where a step's time goes" + (f" ({label})" if label else ""))
    axis.set_ylabel("% of the step")
    bottoms = [0.0] * len(runs)
    names = {}  # in stacking order; runs may have different kinds of communication
    for run in runs:
        for place, (name, _, colour) in enumerate(style.breakdown_parts(run["summary"])):
            names.setdefault(name, (place, colour))
    shown = []
    for name, (_, colour) in sorted(names.items(), key=lambda item: (item[1][0], item[0])):
        heights = []
        for run in runs:
            parts = {part: seconds for part, seconds, _ in style.breakdown_parts(run["summary"])}
            heights.append(100 * parts.get(name, 0.0) / run["summary"]["step"]["time_s"])
        if max(heights) < 0.2:
            continue
        axis.bar(range(len(runs)), heights, 0.72, bottoms, color=colour, edgecolor="white", linewidth=0.8)
        shown.append((name, colour, bottoms[-1] + heights[-1] / 2))
        for i, height in enumerate(heights):
            if height >= 9 and len(runs) <= BARS_WITH_NUMBERS:
                axis.text(i, bottoms[i] + height / 2, f"{height:.0f}", ha="center", va="center", fontsize=8.5,
                          color=style.INK if colour == style.BUBBLE else "white")
        bottoms = [b + h for b, h in zip(bottoms, heights)]
    axis.set_ylim(0, 100)
    axis.set_xlim(-0.6, len(runs) - 0.4 + 0.42 * len(runs))
    every = -(-len(runs) // BARS_WITH_NUMBERS)
    shown_ticks = range((len(runs) - 1) % every, len(runs), every)  # the last bar is named
    axis.set_xticks(list(shown_ticks))
    axis.set_xticklabels([f"{gpus(runs[i]):,}" for i in shown_ticks])
    axis.set_xlabel("GPUs")
    axis.grid(False)
    moved = style.spread_labels([y for _, _, y in shown], 7)
    shift = max(0, max(moved) - 97)
    for (name, colour, _), y in zip(shown, moved):
        axis.text(len(runs) - 0.5, y - shift, name, va="center", fontsize=9,
                  color=colour if colour != style.BUBBLE else style.MUTED)


def draw_growth(axis, label, runs, laws, counts):
    axis.set_title("What is sent and waited for; lines: fitted powers of n" + (f" ({label})" if label else ""))
    axis.set_ylabel(f"relative to {counts[0]:,} GPUs")
    axis.set_yscale("log")
    figures = [
        ("messages", "messages", lambda s: s["communication"]["messages"], style.COMMUNICATION["pipeline"]),
        ("bytes", "bytes", lambda s: s["communication"]["bytes"], style.COMMUNICATION["context"]),
        ("exposed_communication_s", "exposed communication",
         lambda s: sum(s["breakdown"]["exposed_communication_s"].values()), style.COMMUNICATION["data"]),
    ]
    labels = []
    for quantity, name, value, colour in figures:
        points = [(gpus(run), value(run["summary"])) for run in runs if value(run["summary"]) > 0]
        if len(points) < 2:
            continue
        xs = [x for x, _ in points]
        ys = [y / points[0][1] for _, y in points]
        axis.plot(xs, ys, "o", color=colour)
        law = laws.get(quantity)
        text = name
        if law and "exponent" in law:
            along = [x for x in xs if x in law.get("gpus", xs)]  # others are played out in another way
            fitted = [law["coefficient"] * x ** law["exponent"] / points[0][1] for x in along]
            axis.plot(along, fitted, "-", color=colour, linewidth=1.5)
            text += f" $\\sim n^{{{law['exponent']:.2f}}}$"
        labels.append((xs[-1], ys[-1], text, colour))
    gpu_axis(axis, counts)
    if labels:
        axis.set_xlim(right=counts[-1] * (counts[-1] / counts[0]) ** 0.75)
        style.plain_ticks(axis)
        end_labels(axis, labels)


def draw(results):
    """The figure, or None where the number of GPUs does not vary."""
    series = series_of(results)[:SERIES_MOST]
    if not series:
        return None
    counts = sorted({gpus(run) for _, runs in series for run in runs})
    label, runs = series[0]
    laws = {}
    for law in results.get("growth", []):
        laws.setdefault(law["quantity"], law)  # the first combination's, as drawn
    summary = runs[0]["summary"]
    figure, axes = plt.subplots(2, 2, figsize=(11.5, 8.4))
    figure.suptitle(f"{summary['scenario']}  ({summary['cluster']['gpu']})", x=0.014, ha="left", fontsize=13,
                    fontweight="bold")
    draw_time(axes[0][0], series, counts)
    draw_speedup(axes[0][1], series, counts)
    draw_breakdown(axes[1][0], label, runs)
    draw_growth(axes[1][1], label, runs, laws, [gpus(run) for run in runs])
    return figure


if __name__ == "__main__":
    import plot

    plot.main_of("speedup", draw, ["results.json"])

"""What all plots share: fonts, colours, reading result files, and saving so that equal figures give equal bytes."""

import json
import os
import sys

try:
    import matplotlib
    import matplotlib.ticker
except ImportError:
    sys.exit("error: plots need matplotlib\n  note: apt install python3-matplotlib")

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend is chosen first)

INK = "#22262b"
MUTED = "#6b7280"
GRID = "#e3e6ea"

# Where a step's time goes. Blue is useful work; the rest is what one would like to be rid of.
COMPUTE = "#3f6fb5"
BUBBLE = "#c6ccd4"
WAITING = "#bfa57c"
DATA_STALL = "#7aa35a"
OTHER = "#8c8f96"
COMMUNICATION = {
    "tensor": "#e08a2e",
    "data": "#c24d4a",
    "pipeline": "#8c6bb8",
    "context": "#3a9a96",
    "expert": "#b5739d",
}
MORE_COMMUNICATION = ["#d4a72c", "#6b7d2a", "#a0522d", "#d98fb5"]

PHASES = {
    "forward": "#5b8fd0",
    "backward": "#2f5597",
    "weight_gradient": "#6d8b3c",
    "recompute": "#a9c6ea",
    "gradient_reduction": "#c24d4a",
    "parameter_gather": "#e08a2e",
    "optimizer": "#5f9e5f",
    "other": "#9aa0a8",
    "wait": "#cdd3da",
}

LINES = ["#3f6fb5", "#e08a2e", "#c24d4a", "#3a9a96", "#8c6bb8", "#7aa35a"]

plt.rcParams.update(
    {
        "figure.dpi": 100,
        "figure.constrained_layout.use": True,
        "figure.constrained_layout.w_pad": 0.12,  # inches around each panel
        "figure.constrained_layout.h_pad": 0.12,
        "savefig.dpi": 160,
        "font.family": "DejaVu Sans",
        "font.size": 10,
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": MUTED,
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.titlepad": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": GRID,
        "grid.linewidth": 0.8,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "lines.linewidth": 2.2,
        "lines.markersize": 6,
        "svg.hashsalt": "orrery",  # ids in the SVG stay the same
        "svg.fonttype": "none",
    }
)


def communication_colour(kind):
    """The colour of a kind of communication; kinds without one of their own get theirs by name."""
    if kind in COMMUNICATION:
        return COMMUNICATION[kind]
    return MORE_COMMUNICATION[sum(kind.encode()) % len(MORE_COMMUNICATION)]


def read_json(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)


def save(figure, folder, name):
    """Writes NAME.svg and NAME.png beside and renames them; the same figure gives the same bytes."""
    os.makedirs(folder, exist_ok=True)
    written = []
    for ending, metadata in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
        path = os.path.join(folder, f"{name}.{ending}")
        figure.savefig(path + ".part", format=ending, metadata=metadata)
        os.replace(path + ".part", path)
        written.append(path)
    plt.close(figure)
    return written


def breakdown_parts(summary):
    """[(label, seconds, colour)] of a summary's step, in the order in which they are stacked."""
    breakdown = summary["breakdown"]
    parts = [("compute", breakdown["compute_s"], COMPUTE)]
    for kind, seconds in sorted(breakdown["exposed_communication_s"].items()):
        parts.append((f"{kind} communication", seconds, communication_colour(kind)))
    waiting = summary.get("imbalance", {}).get("waiting_s", 0.0)  # a part of the bubble
    parts.append(("pipeline bubble", max(0.0, breakdown["bubble_s"] - waiting), BUBBLE))
    parts.append(("waiting for late ranks", waiting, WAITING))
    parts.append(("waiting for input", breakdown["data_stall_s"], DATA_STALL))
    parts.append(("host and launches", breakdown["other_s"], OTHER))
    return parts


def plain_ticks(axis):
    """Ticks without exponents on a logarithmic y axis: 1, 2, 5 a decade, more or fewer by how much it spans."""
    low, high = axis.get_ylim()
    subs = (1, 2, 5) if high / low > 15 else (1, 1.5, 2, 3, 4, 5, 6, 8)
    if high / low > 1e4:
        subs = (1,)
    axis.yaxis.set_major_locator(matplotlib.ticker.LogLocator(base=10, subs=subs, numticks=30))
    axis.yaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axis.yaxis.set_minor_locator(matplotlib.ticker.NullLocator())


def time_unit(seconds):
    """(unit, seconds per unit) that suits a span of time."""
    for unit, size in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= 2 * size or (unit == "s" and seconds >= 0.5):
            return unit, size
    return "us", 1e-6


def spread_labels(positions, least_gap):
    """Moves label positions apart, keeping their order, so that neighbours are at least least_gap apart."""
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    moved = list(positions)
    for _ in range(50):
        for a, b in zip(order, order[1:]):
            overlap = least_gap - (moved[b] - moved[a])
            if overlap > 1e-9:
                moved[a] -= overlap / 2
                moved[b] += overlap / 2
    return moved

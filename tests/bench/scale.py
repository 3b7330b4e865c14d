#!/usr/bin/env python3
"""Whole steps at scale: time, memory and classes, and how they grow with the number of GPUs.

usage: scale.py [--out FILE] [--binary PATH] [--runs N] [--quick]

Each run is a process of its own (`orrery run ... --json`), one thread, one at a time: so its peak of resident memory is
known, and what the kernel counts as its CPU time. Medians over the runs; on a machine that others use too, wall time
says what there was to wait for and CPU time what the work costs. A run that takes longer than a minute is the last of
its row. Peaks below that of Python itself, some 15 MiB, cannot be seen. A step with slow parts is played twice, as its
summary compares it with one without.
Prints tables as Markdown and writes JSON for plots/growth.py. Nothing but the standard library.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LLAMA = "scenarios/llama3-405b-16384xh100.yaml"
LONG_S = 60  # a run that is longer is not repeated

# name, scenario, overrides, targets: wall seconds, GiB (None: no target)
STEPS = [
    ("GPT-3 175B, 1,024 A100", "scenarios/gpt3-175b-1024xa100.yaml", {}, 0.5, None),
    ("Llama 3 405B, 16,384 H100", LLAMA, {}, 2, 1),
    ("Llama 3 405B, 65,536 H100", LLAMA,
     {"cluster.nodes": 8192, "parallelism.data": 512, "training.global_batch": 8192}, 5, None),
    ("Llama 3 405B, 131,072 H100", LLAMA,
     {"cluster.nodes": 16384, "parallelism.data": 1024, "training.global_batch": 16384}, 10, 4),
    ("16,384 H100, one GPU 10 % slower", LLAMA, {"variation.slow": "[{gpu: 17, compute: 0.9}]"}, 5, None),
    ("16,384 H100, ECMP (hardly folds)", LLAMA, {"cluster.fabric.routing": "ecmp"}, 240, 8),
]

# Weak scaling: one plan, a replica of 64 GPUs at a time, 16 sequences each.
GROWTH = """
name: Llama 3 70B, tensor 8, pipeline 8
cluster:
  node: dgx-h100
  nodes: 8
  fabric: {kind: rail-optimized, link: ndr-infiniband}
model: llama3-70b
training: {sequence_length: 8192, global_batch: 16, micro_batch: 1, precision: bf16, optimizer: adamw,
           recompute: selective, framework: megatron-lm}
parallelism: {tensor: 8, pipeline: 8, data: 1, sequence_parallel: true, schedule: 1f1b, sharding: zero1}
simulation: {fidelity: coupled}
"""
REPLICA = 64
GROWTH_GPUS = [64 * 2**i for i in range(12)]  # to 131,072
UNFOLDED_GPUS_MOST = 1024


def timed(command):
    """(summary, wall seconds, CPU seconds, peak bytes) of a command that prints a summary as JSON."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        begin = time.monotonic()
        process = subprocess.Popen(command, stdout=output, stderr=errors, cwd=ROOT)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        text = output.read()
        if not text:
            sys.exit(f"error: {' '.join(command)}\n{errors.read().decode()}")
    return json.loads(text), wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def measure(arguments, scenario, settings, fold=True):
    """One row: medians, and the least and the most wall time."""
    command = [arguments.binary, "run", scenario, "--json", "-q"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    if not fold:
        command.append("--no-fold")
    runs = []
    while len(runs) < arguments.runs:
        runs.append(timed(command))
        if runs[-1][1] > LONG_S:
            break
    simulation = runs[0][0]["simulation"]
    wall = statistics.median(run[1] for run in runs)
    return {
        "gpus": simulation["ranks"],
        "folded": fold,
        "runs": len(runs),
        "wall_s": wall,
        "wall_least_s": min(run[1] for run in runs),
        "wall_most_s": max(run[1] for run in runs),
        "cpu_s": statistics.median(run[2] for run in runs),
        "peak_bytes": max(run[3] for run in runs),
        "rank_classes": simulation["rank_classes"],
        "events": simulation["events"],
        "flows": simulation["flows"],
        "step_s": runs[0][0]["step"]["time_s"],
        "fingerprint": runs[0][0]["fingerprint"],
    }


def verdict(row):
    if "target_s" not in row:
        return ""
    wanted = f"{row['target_s']:g} s" + (f", {row['target_gib']:g} GiB" if row["target_gib"] else "")
    met = row["wall_s"] <= row["target_s"] and row["peak_bytes"] <= (row["target_gib"] or 1e9) * 2**30
    return f"{wanted}: {'met' if met else 'missed'}"


def show(rows, title):
    print(f"\n{title}\n")
    print("| what | GPUs | classes | events | wall (least to most) | CPU | events/CPU s | peak RSS | target |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---|")
    for row in rows:
        print(
            f"| {row['name']} | {row['gpus']:,} | {row['rank_classes']:,} | {row['events']:,} "
            f"| {row['wall_s']:.2f} s ({row['wall_least_s']:.2f} to {row['wall_most_s']:.2f}) | {row['cpu_s']:.2f} s "
            f"| {row['events'] / max(row['cpu_s'], 0.01):,.0f} | {row['peak_bytes'] / 2**20:.0f} MiB | {verdict(row)} |"
        )
    sys.stdout.flush()


def named(row, name, **more):
    return {"name": name, **row, **more}


def steps(arguments):
    rows = []
    for name, scenario, settings, seconds, gib in STEPS:
        if arguments.quick and seconds > 60:
            continue
        row = measure(arguments, scenario, settings)
        rows.append(named(row, name, target_s=seconds, target_gib=gib))
    return rows


def growth(arguments, folder):
    """Folded at every size, unfolded as far as that is feasible; equal results are checked."""
    scenario = write(folder, "growth.yaml", GROWTH)
    rows = []
    for gpus in GROWTH_GPUS:
        data = gpus // REPLICA
        settings = {"cluster.nodes": gpus // 8, "parallelism.data": data, "training.global_batch": 16 * data}
        rows.append(named(measure(arguments, scenario, settings), "folded"))
        if gpus <= UNFOLDED_GPUS_MOST:
            rows.append(named(measure(arguments, scenario, settings, fold=False), "unfolded"))
            if rows[-1]["step_s"] != rows[-2]["step_s"]:
                sys.exit(f"error: at {gpus} GPUs the folded step takes {rows[-2]['step_s']} s, the unfolded one "
                         f"{rows[-1]['step_s']} s")
    return rows


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="JSON file to write")
    parser.add_argument("--binary", default=os.path.join(ROOT, "build", "release", "sim", "app", "orrery"))
    parser.add_argument("--runs", type=int, default=3, help="runs of each row (3)")
    parser.add_argument("--quick", action="store_true", help="leave out what takes minutes")
    arguments = parser.parse_args()
    arguments.binary = os.path.abspath(arguments.binary)
    os.environ.setdefault("ORRERY_ROOT", ROOT)
    results = {"machine": {"cores": os.cpu_count(), "load": os.getloadavg()[0]}}
    with tempfile.TemporaryDirectory() as folder:
        results["growth"] = growth(arguments, folder)
        show(results["growth"], "Growth: Llama 3 70B, tensor 8, pipeline 8, data parallel from 1")
        results["steps"] = steps(arguments)
        show(results["steps"], "Steps")
    if arguments.out:
        path = os.path.abspath(arguments.out)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
        os.replace(path + ".part", path)
        print(f"\nwrote {arguments.out}")


if __name__ == "__main__":
    main()

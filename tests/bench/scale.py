#!/usr/bin/env python3
"""Whole steps at scale: time, memory and classes, and how they grow with the GPUs; a ring, message by message.

usage: scale.py [--out FILE] [--binary PATH] [--benchmarks FOLDER] [--only TABLE] [--runs N] [--quick]

Each run is a process of its own (`orrery run ... --json`), one thread, one at a time: so its peak of resident memory is
known, and what the kernel counts as its CPU time. Medians over the runs; on a machine that others use too, wall time
says what there was to wait for and CPU time what the work costs. A run that takes longer than a minute is the last of
its row. Peaks below that of Python itself, some 15 MiB, cannot be seen. A step with slow parts is played twice, as its
summary compares it with one without.
The ring all-reduce is measured by the Google Benchmark programs, where they are built (preset `bench`); without them
its rows are left out, and the output says so.
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
     {"cluster.nodes": 8192, "parallelism.data": 512, "training.global_batch": 8192}, 5, 4),
    ("Llama 3 405B, 131,072 H100", LLAMA,
     {"cluster.nodes": 16384, "parallelism.data": 1024, "training.global_batch": 16384}, 10, 4),
    ("16,384 H100, one GPU 10 % slower", LLAMA, {"variation.slow": "[{gpu: 1024, compute: 0.9}]"}, 5, None),
    ("16,384 H100, ECMP (hardly folds)", LLAMA, {"cluster.fabric.routing": "ecmp"}, 240, 8),
]

# A ring all-reduce of 1 GiB: name, benchmark program, its benchmark, target in wall seconds (None: no target).
RINGS = [
    ("4,096 GPUs, one a node, every message, unfolded", "bench_all_reduce",
     "all_reduce/gpus:4096/per_node:1/message:1/folded:0", 8),
    ("the same ring on the bare fluid network", "bench_fluid", "ring/256/16", None),
    ("4,096 GPUs, one a node, coupled, folded", "bench_all_reduce",
     "all_reduce/gpus:4096/per_node:1/message:0/folded:1", 0.01),
    ("set-up of that", "bench_all_reduce", "set_up/gpus:4096/per_node:1/message:0/folded:1", None),
    ("4,096 GPUs, eight a node, coupled, folded", "bench_all_reduce",
     "all_reduce/gpus:4096/per_node:8/message:0/folded:1", 0.01),
    ("set-up of that", "bench_all_reduce", "set_up/gpus:4096/per_node:8/message:0/folded:1", None),
    ("4,096 GPUs, eight a node, coupled, unfolded", "bench_all_reduce",
     "all_reduce/gpus:4096/per_node:8/message:0/folded:0", None),
    ("512 GPUs, eight a node, every message, folded", "bench_all_reduce",
     "all_reduce/gpus:512/per_node:8/message:1/folded:1", None),
    ("512 GPUs, eight a node, every message, unfolded", "bench_all_reduce",
     "all_reduce/gpus:512/per_node:8/message:1/folded:0", None),
]
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}

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
parallelism: {tensor: 8, pipeline: 8, data: 1, sequence_parallel: true, schedule: 1f1b, sharding: distributed-optimizer}
simulation: {fidelity: coupled}
"""
REPLICA = 64
GROWTH_GPUS = [64 * 2**i for i in range(12)]  # to 131,072
UNFOLDED_GPUS_MOST = 4096


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
    if row.get("target_s") is None:
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


def rings(arguments):
    """Medians over the repetitions of each benchmark, or None where the programs are not built."""
    rows = []
    for name, program, benchmark, seconds in RINGS:
        path = os.path.join(arguments.benchmarks, program)
        if not os.path.exists(path):
            print(f"\n{path} is not built (cmake --preset bench && cmake --build --preset bench): the ring is left out")
            return None
        output = timed([path, f"--benchmark_filter=^{benchmark}$", "--benchmark_format=json",
                        f"--benchmark_repetitions={arguments.runs}"])
        repetitions = [each for each in output[0]["benchmarks"] if each["run_type"] == "iteration"]
        if not repetitions:
            sys.exit(f"error: {path} has no benchmark {benchmark}")
        unit = SECONDS[repetitions[0]["time_unit"]]
        wall = [each["real_time"] * unit for each in repetitions]
        rows.append({
            "name": name,
            "benchmark": f"{program} {benchmark}",
            "runs": len(repetitions),
            "wall_s": statistics.median(wall),
            "wall_least_s": min(wall),
            "wall_most_s": max(wall),
            "cpu_s": statistics.median(each["cpu_time"] * unit for each in repetitions),
            "peak_bytes": output[3],
            "rank_classes": whole(repetitions[0].get("classes")),
            "messages": whole(repetitions[0].get("messages")),
            "simulated_ms": repetitions[0].get("simulated_ms"),
            "target_s": seconds,
            "target_gib": None,
        })
    return rows


def whole(number):
    return None if number is None else round(number)


def show_rings(rows):
    print("\nRing all-reduce of 1 GiB\n")
    print("| what | classes | messages | wall (least to most) | CPU | peak RSS | target |")
    print("|---|---:|---:|---:|---:|---:|---|")
    for row in rows:
        counts = ["" if row[key] is None else f"{row[key]:,}" for key in ("rank_classes", "messages")]
        print(f"| {row['name']} | {counts[0]} | {counts[1]} | {milliseconds(row['wall_s'])} "
              f"({milliseconds(row['wall_least_s'])} to {milliseconds(row['wall_most_s'])}) "
              f"| {milliseconds(row['cpu_s'])} | {row['peak_bytes'] / 2**20:.0f} MiB | {verdict(row)} |")
    sys.stdout.flush()


def milliseconds(seconds):
    return f"{seconds * 1e3:,.2f} ms" if seconds < 0.1 else f"{seconds * 1e3:,.0f} ms"


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
            for key in ("step_s", "fingerprint"):
                if rows[-1][key] != rows[-2][key]:
                    sys.exit(f"error: at {gpus} GPUs the folded run has {key} {rows[-2][key]}, the unfolded one "
                             f"{rows[-1][key]}")
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
    parser.add_argument("--benchmarks", default=os.path.join(ROOT, "build", "bench", "tests", "bench"),
                        help="folder of the benchmark programs, for the ring (build/bench/tests/bench)")
    parser.add_argument("--only", choices=["growth", "steps", "rings"], help="one of the tables")
    parser.add_argument("--runs", type=int, default=3, help="runs of each row (3)")
    parser.add_argument("--quick", action="store_true", help="leave out what takes minutes")
    arguments = parser.parse_args()
    arguments.binary = os.path.abspath(arguments.binary)
    os.environ.setdefault("ORRERY_ROOT", ROOT)
    results = {"machine": {"cores": os.cpu_count(), "load": os.getloadavg()[0]}}
    with tempfile.TemporaryDirectory() as folder:
        if arguments.only in (None, "growth"):
            results["growth"] = growth(arguments, folder)
            show(results["growth"], "Growth: Llama 3 70B, tensor 8, pipeline 8, data parallel from 1")
        if arguments.only in (None, "steps"):
            results["steps"] = steps(arguments)
            show(results["steps"], "Steps")
        if arguments.only in (None, "rings"):
            results["rings"] = rings(arguments)
            if results["rings"] is not None:
                show_rings(results["rings"])
    if arguments.out:
        path = os.path.abspath(arguments.out)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
        os.replace(path + ".part", path)
        print(f"\nwrote {arguments.out}")


if __name__ == "__main__":
    main()

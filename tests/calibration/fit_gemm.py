#!/usr/bin/env python3
"""Fits the GEMM constants of KernelConstants on gemm.csv and prints them with their errors.

The form is the one in sim/exec/kernel_time.hpp. Objective: mean |predicted / measured - 1|. "cross" is the error over
shapes that were not fitted: five folds, all rows of one (m, n, k) in one fold. Nelder-Mead from several starts with a
fixed seed, so that two runs print the same. Takes some minutes: python3 fit_gemm.py [gpu ...]
"""
import csv
import os
import sys

import numpy as np
from scipy.optimize import minimize

HERE = os.path.dirname(os.path.abspath(__file__))
TILES = [(256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 128), (64, 64)]
SPLITS = [1, 2, 4, 8]
BEST = 256 * 128 / (256 + 128)
BYTES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1}

# gpu: (SMs, memory bandwidth, {precision: peak}); as in topology/catalog/gpus.
GPUS = {
    "v100-16gb-sxm": (80, 900e9, {"fp16": 125e12, "fp32": 15.7e12}),
    "a100-80gb-pcie": (108, 1935e9, {"bf16": 312e12}),
    "a100-40gb-pcie": (108, 1555e9, {"bf16": 312e12, "fp16": 312e12, "tf32": 156e12, "fp32": 19.5e12}),
    "h100-80gb-sxm": (132, 3350e9, {"bf16": 989e12, "fp16": 989e12, "fp8": 1979e12, "tf32": 494.5e12, "fp32": 66.9e12}),
    "h800-80gb-pcie": (114, 2039e9, {"bf16": 756e12, "fp16": 756e12, "tf32": 378e12, "fp32": 51.2e12}),
    "h20-96gb-sxm": (78, 4000e9, {"bf16": 148e12, "fp16": 148e12, "tf32": 74e12, "fp32": 44e12}),
    "b200-180gb-sxm": (148, 7672e9, {"bf16": 2250e12, "fp8": 4500e12}),
    "l4": (60, 300e9, {"bf16": 121e12, "fp16": 121e12, "tf32": 60e12, "fp32": 30.3e12}),
    "a40": (84, 696e9, {"bf16": 149.7e12, "fp16": 149.7e12, "tf32": 74.8e12, "fp32": 37.4e12}),
    "a10g": (80, 600e9, {"bf16": 70e12, "fp16": 70e12, "tf32": 35e12, "fp32": 31.5e12}),
    "rtx-4090": (128, 1008e9, {"bf16": 165.2e12, "fp16": 165.2e12, "tf32": 82.6e12, "fp32": 82.6e12}),
}


class Rows:
    """Rows of one GPU; `group` names the rate constant that a row shares with others."""

    def __init__(self, gpu, group_of):
        with open(os.path.join(HERE, "gemm.csv")) as f:
            rows = [r for r in csv.DictReader(f) if r["gpu"] == gpu and group_of(r)]
        self.sms, self.bandwidth, peaks = GPUS[gpu]
        self.groups = sorted({group_of(r) for r in rows})
        self.group = np.array([self.groups.index(group_of(r)) for r in rows])
        self.batch, self.m, self.n, self.k, output = (
            np.array([float(r[c]) for r in rows]) for c in ("batch", "m", "n", "k", "output_bytes"))
        self.peak = np.array([peaks[r["precision"]] for r in rows])
        element = np.array([BYTES[r["precision"]] for r in rows])
        self.bytes = self.batch * (element * (self.m * self.k + self.k * self.n) + output * self.m * self.n)
        self.time = 2 * self.batch * self.m * self.n * self.k / np.array([float(r["tflops"]) for r in rows]) / 1e12
        self.shape = list(zip(self.m, self.n, self.k))

    def take(self, index):
        part = object.__new__(Rows)
        part.__dict__.update(self.__dict__)
        for name in ("group", "batch", "m", "n", "k", "peak", "bytes", "time"):
            setattr(part, name, getattr(self, name)[index])
        part.shape = [self.shape[i] for i in index]
        return part


NAMES = ["tile_overhead", "depth_overhead", "last_wave", "fixed_us", "memory_rate"]
A100_SHAPE = [64, 140, 0.7, 1.5, 0.8]  # as fitted below; used when the A100 is not among the chosen
LOW = np.array([0, 0, 0, 1.5, 0.5])  # no fixed time below the kernel gap
HIGH = np.array([80, 400, 1, 15, 0.95])


def predict(shape_constants, rates, d):
    c, k0, q, fixed, memory = shape_constants
    per_sm = np.asarray(rates)[d.group] * d.peak / d.sms
    least = np.full(len(d.m), np.inf)
    for a, b in TILES:
        h = a * b / (a + b)
        blocks = d.batch * np.ceil(d.m / a) * np.ceil(d.n / b)
        for s in SPLITS:
            tile = 2 * a * b * (np.ceil(d.k / s) + k0) * (1 + c / h) / (1 + c / BEST) / per_sm
            w = blocks * s / d.sms
            waves = np.maximum(1, w + q * (np.ceil(w) - w))
            reduction = 4 * s * d.batch * d.m * d.n / d.bandwidth if s > 1 else 0
            least = np.minimum(least, waves * tile + reduction)
    return fixed * 1e-6 + np.maximum(d.bytes / (memory * d.bandwidth), least)


def errors(shape_constants, rates, d):
    return np.abs(predict(shape_constants, rates, d) / d.time - 1)


def fit(d, fixed=None, starts=4, first=None):
    """Returns (shape constants, rates, error, unit-cube point). `fixed`: {name: value}."""
    fixed = fixed or {}
    free = [i for i, name in enumerate(NAMES) if name not in fixed]
    groups = len(d.groups)

    def unpack(z):
        constants = np.array([fixed.get(name, 0.0) for name in NAMES])
        z = np.clip(z, 0, 1)
        constants[free] = LOW[free] + z[groups:] * (HIGH - LOW)[free]
        return constants, 0.3 + 0.7 * z[:groups]

    def loss(z):
        outside = np.sum(np.maximum(0, z - 1) + np.maximum(0, -z))
        return np.mean(errors(*unpack(z), d)) + outside

    random = np.random.default_rng(1)
    points = [first] if first is not None else [random.uniform(0.2, 0.8, groups + len(free)) for _ in range(starts)]
    best = None
    for z in points:
        for evaluations in (2500, 1500):
            result = minimize(loss, z, method="Nelder-Mead",
                              options={"maxfev": evaluations, "xatol": 1e-5, "fatol": 1e-7})
            z = result.x
        if best is None or result.fun < best.fun:
            best = result
    constants, rates = unpack(best.x)
    return constants, rates, best.fun, best.x


def cross(d, fixed, first, folds=5):
    shapes = sorted(set(d.shape))
    order = np.random.default_rng(2).permutation(len(shapes))
    fold_of = {shapes[j]: i % folds for i, j in enumerate(order)}
    fold = np.array([fold_of[s] for s in d.shape])
    held_out = []
    for i in range(folds):
        constants, rates, _, _ = fit(d.take(np.where(fold != i)[0]), fixed, first=first)
        held_out.extend(errors(constants, rates, d.take(np.where(fold == i)[0])))
    return np.mean(held_out)


def report(gpu, group_of, fixed=None, starts=4):
    d = Rows(gpu, group_of)
    constants, rates, error, point = fit(d, fixed, starts)
    text = " ".join(f"{n}={v:.4g}" for n, v in zip(NAMES, constants))
    text += " " + " ".join(f"rate[{g}]={r:.3f}" for g, r in zip(d.groups, rates))
    print(f"{gpu}: {len(d.m)} rows, error {100 * error:.2f} %, cross {100 * cross(d, fixed, point):.2f} %\n  {text}")
    each = errors(constants, rates, d)
    for i, g in enumerate(d.groups):
        print(f"    {g}: {np.sum(d.group == i)} rows, {100 * np.mean(each[d.group == i]):.2f} %", flush=True)
    return dict(zip(NAMES, constants))


def hot(r):
    """Square products that heat the GPU up."""
    return r["precision"] if r["set"] == "squares" and int(r["m"]) >= 4096 else None


def only(*sets):
    return lambda r: r["precision"] if r["set"] in sets else None


def main():
    chosen = sys.argv[1:] or list(GPUS)
    family = None
    if "a100-80gb-pcie" in chosen or len(sys.argv) == 1:
        family = report("a100-80gb-pcie", only("sweep"), {"memory_rate": 0.8})
    if "v100-16gb-sxm" in chosen:
        shape = report("v100-16gb-sxm", lambda r: "fp16" if (r["set"], r["precision"]) == ("sweep", "fp16") else None)
        report("v100-16gb-sxm", lambda r: hot(r) if r["precision"] == "fp32" else None, shape, starts=2)
    if "h100-80gb-sxm" in chosen:
        shape = report("h100-80gb-sxm", lambda r: r["precision"] if r["precision"] in ("bf16", "fp16", "fp8") else None)
        report("h100-80gb-sxm", lambda r: hot(r) if r["precision"] in ("fp32", "tf32") else None, shape, starts=2)
    if "b200-180gb-sxm" in chosen:
        # The sweep's machine is slower than the other three sources agree on: a rate of its own.
        report("b200-180gb-sxm", lambda r: "sweep" if r["set"] == "sweep" else r["precision"], starts=3)
        report("b200-180gb-sxm", lambda r: r["precision"] if r["set"] != "sweep" else None)
    # GPUs of which only square products are published: the rates alone, on sizes that heat the GPU up (4096 and more),
    # with the shape constants of the A100.
    family = family or dict(zip(NAMES, A100_SHAPE))
    for gpu in chosen:
        if gpu in ("a100-80gb-pcie", "v100-16gb-sxm", "h100-80gb-sxm", "b200-180gb-sxm"):
            continue
        report(gpu, hot, family, starts=2)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Fits the attention constants of KernelConstants on attention.csv and prints them with their errors.

The form is the one in sim/exec/kernel_time.hpp. Forward and backward are fitted together, with rates and tails of their
own; "cross" leaves out each (direction, causal, head dimension) with its sequence length in turn, that is one row at a
time. Objective: mean |predicted / measured - 1|; Nelder-Mead from several starts, fixed seed.

Held fixed: the start-up, 10 us (the time of an empty grid plus the preprocess kernels; not separable from the tail).
A100 rows have one sequence length, so r0 and d0 come from FlashAttention-2 on H100, the same software; for B200 from
cuDNN there. On the A100, value heads of 128 are padded to query heads of 192, as FlashAttention-2 requires equal sizes.
"""
import csv
import os

import numpy as np
from scipy.optimize import minimize

HERE = os.path.dirname(os.path.abspath(__file__))
GPUS = {"a100-80gb-pcie": (312e12, 108), "b200-180gb-sxm": (2250e12, 148), "h100-80gb-sxm": (989e12, 132)}
NAMES = ["forward_rate", "backward_rate", "head_overhead", "depth_overhead", "forward_tail", "backward_tail"]
LOW = np.array([0.2, 0.2, 0, 0, 0, 0])
HIGH = np.array([1, 1, 120, 300, 1.5, 1.5])
FIXED = 10e-6


def load(gpu, implementation):
    with open(os.path.join(HERE, "attention.csv")) as f:
        rows = [r for r in csv.DictReader(f) if r["gpu"] == gpu and r["implementation"] == implementation]
    data = {c: np.array([float(r[c]) for r in rows]) for c in ("causal", "heads_x_batch", "sequence", "head_dim",
                                                               "value_dim", "time_us")}
    data["backward"] = np.array([r["direction"] == "backward" for r in rows])
    value = data["head_dim"] if gpu.startswith("a100") else data["value_dim"]
    data["flops"] = (2 * data["sequence"] ** 2 * data["heads_x_batch"] * (data["head_dim"] + value)
                     * np.where(data["backward"], 2.5, 1) / (1 + data["causal"]))
    return data


def predict(p, d, gpu):
    peak, sms = GPUS[gpu]
    forward, backward, d0, r0, forward_tail, backward_tail = p
    rate = np.where(d["backward"], backward, forward) * peak / sms * (1 + d0 / 128) / (1 + d0 / d["head_dim"])
    keys = d["sequence"] / (1 + d["causal"])
    work = d["flops"] * (1 + (r0 + 64 * d["causal"]) / keys)
    block = d["flops"] * (1 + d["causal"]) / d["heads_x_batch"] / np.ceil(d["sequence"] / 128)
    return FIXED + (work / sms + np.where(d["backward"], backward_tail, forward_tail) * block) / rate


def errors(p, d, gpu):
    return np.abs(predict(p, d, gpu) / (d["time_us"] * 1e-6) - 1)


def fit(d, gpu, fixed, first=None):
    free = [i for i, name in enumerate(NAMES) if name not in fixed]

    def unpack(z):
        p = np.array([fixed.get(name, 0.0) for name in NAMES])
        p[free] = LOW[free] + np.clip(z, 0, 1) * (HIGH - LOW)[free]
        return p

    def loss(z):
        return np.mean(errors(unpack(z), d, gpu)) + np.sum(np.maximum(0, z - 1) + np.maximum(0, -z))

    random = np.random.default_rng(1)
    best = None
    for z in [first] if first is not None else random.uniform(0.1, 0.9, (10, len(free))):
        for evaluations in (3000, 2000):
            result = minimize(loss, z, method="Nelder-Mead",
                              options={"maxfev": evaluations, "xatol": 1e-6, "fatol": 1e-8})
            z = result.x
        if best is None or result.fun < best.fun:
            best = result
    return unpack(best.x), best.x


def report(gpu, implementation, fixed):
    d = load(gpu, implementation)
    p, point = fit(d, gpu, fixed)
    each = errors(p, d, gpu)
    held_out = []
    for i in range(len(each)):
        part = {k: np.delete(v, i) for k, v in d.items()}
        one = {k: v[i:i + 1] for k, v in d.items()}
        held_out.append(errors(fit(part, gpu, fixed, first=point)[0], one, gpu)[0])
    back = d["backward"]
    print(f"{gpu} {implementation}: {len(each)} rows, error {100 * each.mean():.2f} % (forward "
          f"{100 * each[~back].mean():.2f}, backward {100 * each[back].mean():.2f}), "
          f"cross {100 * np.mean(held_out):.2f} %")
    print("  " + " ".join(f"{n}={v:.3g}" for n, v in zip(NAMES, p)), flush=True)
    return dict(zip(NAMES, p))


def main():
    fitted = {i: report("h100-80gb-sxm", i, {}) for i in ("fa2", "cudnn", "fa3")}
    shared = ("head_overhead", "depth_overhead")
    report("a100-80gb-pcie", "simumax", {k: fitted["fa2"][k] for k in shared})
    report("b200-180gb-sxm", "simumax", {k: fitted["cudnn"][k] for k in shared})


if __name__ == "__main__":
    main()

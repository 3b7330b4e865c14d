#!/usr/bin/env python3
"""Fits start-up time and fraction of nominal memory bandwidth of memory-bound kernels on memory.csv.

For each GPU, operation and implementation: time = fixed + bytes / (rate x nominal), least mean |relative error|.
The catalogue takes the rate of the implementation that frameworks run by default; the others show the spread.
"""
import collections
import csv
import os

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
BANDWIDTH = {"a100-80gb-sxm": 2039e9, "h100-80gb-sxm": 3350e9, "b200-180gb-sxm": 8000e9, "rtx-3090": 936e9}


def fit(size, time, bandwidth):
    best = (np.inf, 0.0, 0.0)
    for fixed in np.arange(1.5, 30.1, 0.5) * 1e-6:
        for rate in np.arange(0.02, 1.0, 0.005):
            error = np.mean(np.abs((fixed + size / (rate * bandwidth)) / time - 1))
            if error < best[0]:
                best = (error, fixed, rate)
    return best


def main():
    groups = collections.OrderedDict()
    with open(os.path.join(HERE, "memory.csv")) as f:
        for r in csv.DictReader(f):
            key = (r["gpu"], r["kind"], r["operation"], r["implementation"])
            groups.setdefault(key, []).append((float(r["bytes"]), float(r["time_us"]) * 1e-6))
    for (gpu, kind, operation, implementation), rows in groups.items():
        size, time = np.array(rows).T
        error, fixed, rate = fit(size, time, BANDWIDTH[gpu])
        print(f"{gpu:15} {kind:14} {operation:45} {implementation:25} {len(rows):2} rows: rate {rate:.3f} "
              f"fixed {fixed * 1e6:4.1f} us, error {100 * error:.1f} %")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Simulates every published step and records how far off the results are: bounds.csv and accuracy.md beside this file,
scenarios/measured/accuracy.csv, the table in the project's README.md and the picture that it shows.

usage: tests/validation/record.py [DIR]     DIR: what `orrery validate --out` wrote already

Run it after a change that moves errors on purpose, and look at the difference before it is committed: bounds that
become wider need a reason.
"""

import glob
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BEGIN, END = "<!-- accuracy: begin -->\n", "<!-- accuracy: end -->\n"


def simulate(folder):
    tables = sorted(glob.glob(os.path.join(ROOT, "tests/validation/steps/*.csv")))
    subprocess.run([os.path.join(ROOT, "orrery"), "validate", *tables, "--bounds", "none", "--out", folder], check=True)


def splice(path, table):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    with open(path, "w", encoding="utf-8") as file:
        file.write(before + BEGIN + table + END + after)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build/validation")
    if len(sys.argv) == 1:
        simulate(folder)
    places = {"bounds.csv": "tests/validation", "accuracy.md": "tests/validation", "accuracy.csv": "scenarios/measured"}
    for name, place in places.items():
        shutil.copyfile(os.path.join(folder, name), os.path.join(ROOT, place, name))
    with open(os.path.join(folder, "accuracy.md"), encoding="utf-8") as file:
        splice(os.path.join(ROOT, "README.md"), file.read())
    subprocess.run([os.path.join(ROOT, "orrery"), "plot", folder, "--quiet"], check=True)
    shutil.copyfile(os.path.join(folder, "parity.png"), os.path.join(ROOT, "plots/pictures/parity.png"))


if __name__ == "__main__":
    main()

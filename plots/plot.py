#!/usr/bin/env python3
"""Draws what a folder of results holds: see the README. Reads result files only.

usage: plot.py DIR [--out DIR] [--quiet]
"""

import argparse
import os
import sys

import style


def arguments_of(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("folder", help="folder with result files")
    parser.add_argument("--out", help="folder for the pictures (the same)")
    parser.add_argument("--quiet", action="store_true", help="do not name the files written")
    return parser.parse_args()


def save(figure, arguments, name):
    for path in style.save(figure, arguments.out or arguments.folder, name):
        if not arguments.quiet:
            print(path)


def main_of(name, draw, files):
    """What each script does when it is run by itself."""
    arguments = arguments_of(sys.modules["__main__"].__doc__)
    try:
        contents = [read(arguments.folder, file) for file in files]
    except FileNotFoundError as missing:
        sys.exit(f"error: {missing.filename} does not exist")
    figure = draw(*contents)
    if figure is None:
        sys.exit(f"error: nothing to draw in {arguments.folder}")
    guarded(lambda: save(figure, arguments, name))


def read(folder, file):
    if file.endswith(".json"):
        return style.read_json(folder, file)
    if file == "validation.csv":
        import validation

        return validation.read_validation(folder, file)
    import utilization

    return utilization.read_metrics(folder, file)


def main():
    import breakdown
    import comparison
    import schedule
    import speedup
    import timeline
    import utilization
    import validation

    kinds = [
        ("results.json", [("speedup", speedup.draw), ("breakdown", breakdown.draw)]),
        ("comparison.json", [("comparison", comparison.draw)]),
        ("validation.csv", [("parity", validation.draw_parity), ("errors", validation.draw_errors)]),
        ("metrics.csv", [("utilization", utilization.draw)]),
        ("trace.json", [("timeline", timeline.draw)]),
        ("schedule.json", [("schedule", schedule.draw)]),
    ]
    arguments = arguments_of(__doc__)
    drawn = 0
    for file, figures in kinds:
        if not os.path.exists(os.path.join(arguments.folder, file)):
            continue
        contents = read(arguments.folder, file)
        for name, draw in figures:
            figure = draw(contents)
            if figure is not None:
                save(figure, arguments, name)
                drawn += 1
    if drawn == 0:
        names = ", ".join(file for file, _ in kinds)
        sys.exit(f"error: nothing to draw in {arguments.folder}\n  note: looked for {names}")


def guarded(work):
    """Runs it; a disk that is full or a closed output ends with a sentence and status 1, a closed pipe quietly."""
    try:
        work()
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered has nowhere to go
        sys.exit(1 if isinstance(error, BrokenPipeError) else f"error: cannot write: {error}")


if __name__ == "__main__":
    guarded(main)

"""Runs kernels of test/GPU/configurations.txt on the emulator.

    configurations.py FILE [--bin DIR] [--all] [--targets NAMES] [--jobs N]
        [--schedules N]

Every kernel that is assembled for a GPU also runs at small sizes, against the
float64 reference, under several schedules which have to come to the same bits.
Without --all as few kernels as take each alternative of each line at least once
for sm_80 and sm_90a, and for one of the other targets, whose kernels are those
of sm_80 with other tiles; and each line for each target.
"""

import argparse
import concurrent.futures
import itertools
import os
import subprocess
import sys

TARGETS = ("sm_80", "sm_90a", "sm_86", "sm_89", "sm_100a")
ALONE = TARGETS[:2]


def expand(path, names):
    """(target, options, schedule) and the alternatives it takes."""
    result = {}
    for number, line in enumerate(open(path)):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        _, targets, *groups = [part.strip() for part in line.split("|")]
        for combination in itertools.product(*(group.split() for group in groups)):
            options, _, schedule = ",".join(c for c in combination
                                            if c != "-").partition("schedule=")
            schedule = schedule.replace("/", ", ").replace(":", " = ")
            for target in targets.split():
                if target in names:
                    key = (target, options.strip(","), schedule)
                    takes = {(target if target in ALONE else "another", number, c)
                             for c in combination}
                    result.setdefault(key, set()).update(takes, {(target, number)})
    return result


def cover(kernels):
    """Few that take all that any of them takes."""
    left = set().union(*kernels.values())
    chosen = []
    while left:
        best = max(kernels, key=lambda k: len(kernels[k] & left))
        chosen.append(best)
        left -= kernels[best]
    return chosen


def small(options, schedule):
    """The options at sizes of a few tiles: tiles of a head group's rows are short."""
    given = [o for o in options.split(",") if not o.startswith(("sq=", "sk="))]
    given = [o.replace("window=1023:0", "window=70:0") for o in given]
    said = dict(o.split("=") for o in given if o)
    names = said.keys()
    sk = 150 if "sequences" in names else 220
    if "page" in names and "lengths" not in names:
        sk = -(-sk // int(said["page"])) * int(said["page"])
    given += ["sq=%d" % (21 if "block_q = 8" in schedule else 150), "sk=%d" % sk]
    if "hq" not in names:
        given.append("hq=2")
    return ",".join(given)


def program(options):
    """What attn-run takes for a line with program=NAME: as the package's list
    of programs has it, whose first line for a program is taken."""
    name = dict(option.split("=") for option in options.split(","))["program"]
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Package")
    with open(os.path.join(folder, "programs.txt")) as lines:
        for line in lines:
            if line.startswith(f"{name}.mlir "):
                file, *arguments = line.split()
                return [os.path.join(folder, "programs", file), *arguments]
    sys.exit(f"expected a line for {name}.mlir in programs.txt")


def run(tools, schedules, kernel):
    target, options, schedule = kernel
    command = [f"{tools}/attn-run", "--device", f"emulator:{target}", "--check"]
    if "program=" in options:
        command += program(options)
    else:
        command += ["--attention", small(options, schedule)]
    if schedule:
        command += ["--schedule", f"#attn.schedule<{schedule}>"]
    done = subprocess.run(command, capture_output=True, text=True,
                          env=dict(os.environ, ATTN_EMULATOR=f"sweep:{schedules}"))
    if done.returncode == 0:
        return ""
    return (
        f"ATTN_EMULATOR=sweep:{schedules} "
        + " ".join(f"'{c}'" for c in command)
        + "\n"
        + done.stderr
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--schedules", type=int, default=8)
    options = parser.parse_args()
    kernels = expand(options.file, options.targets.split(","))
    chosen = list(kernels) if options.all else cover(kernels)
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for error in pool.map(lambda k: run(options.bin, options.schedules, k), chosen):
            failures += bool(error)
            print(error, end="", flush=True)
    print(f"{len(chosen)} of {len(kernels)} kernels, {failures} failed")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())

"""Compiles attention of 16-bit types for warps and fails where registers spill.

    spills.py FOLDER TARGET...
"""

import os
import subprocess
import sys


def main():
    path, targets = os.path.join(sys.argv[1], "kernel"), sys.argv[2:]
    assemble = os.path.join(os.path.dirname(os.path.abspath(__file__)), "assemble.py")
    bad = 0
    for target in targets:
        for d in (64, 128):
            for options in ("dtype=bf16", "dtype=f16,causal=bottom_right"):
                spec = "d=%d,%s" % (d, options)
                commands = (
                    ["attn-compile", "--attention", spec, "--target", target, "-o", path],
                    [sys.executable, assemble, target, path + ".ptx"],
                )
                for command in commands:
                    done = subprocess.run(command, stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT, text=True)
                    print(target, spec, done.stdout, end="")
                    if done.returncode:
                        bad += 1
                        break
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())

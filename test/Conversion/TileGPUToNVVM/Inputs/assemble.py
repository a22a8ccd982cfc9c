"""Assembles PTX with ptxas; fails on spills and on warnings about products.

    assemble.py ARCH [FILE] [spills=BYTES]

Prints one line for each kernel: registers, spills. Warnings C7504 to C7514 say
that the assembler serialised products or gave up the registers of roles.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile


def find_ptxas():
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return shutil.which("ptxas") or os.path.join(home, "bin", "ptxas")


def main():
    arch = sys.argv[1]
    allowed = sum(int(a[7:]) for a in sys.argv[2:] if a.startswith("spills="))
    files = [a for a in sys.argv[2:] if "=" not in a]
    text = open(files[0]).read() if files else sys.stdin.read()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernel.ptx")
        with open(path, "w") as ptx:
            ptx.write(text)
        done = subprocess.run(
            [find_ptxas(), "-v", "-arch=" + arch, path, "-o", path + ".cubin"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    log = done.stdout
    bad = done.returncode != 0
    name = "?"
    for line in log.splitlines():
        if match := re.search(r"Compiling entry function '(\w+)'", line):
            name = match[1]
        if match := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill", line):
            spills = int(match[1]) + int(match[2])
            print(name, "spills", spills)
            bad |= spills > allowed
        if match := re.search(r"Used (\d+) registers", line):
            print(name, "registers", match[1])
        if re.search(r"C75(0[4-9]|1[0-6])", line):
            bad = True
    if bad:
        sys.exit(log)


main()

"""What ptxas says of a kernel. Used by the tests that assemble.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import re
import shutil
import subprocess
import tempfile


def find():
    """The path of the assembler, or None."""
    path = shutil.which("ptxas")
    if path:
        return path
    for folder in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        path = os.path.join(folder or "", "bin", "ptxas")
        if folder and os.access(path, os.X_OK):
            return path
    return None


def version():
    return subprocess.run([find(), "--version"], capture_output=True, text=True).stdout


class Result:
    """`error` is None where the text assembles without a complaint: C7504 to
    C7516 say that products are serialised or registers of roles given up."""

    def __init__(self, log, status):
        self.log = log
        # (name, registers, bytes of spills) of each kernel.
        self.kernels = []
        self.error = None if status == 0 else log.strip()
        name, spills = "?", 0
        for line in log.splitlines():
            if match := re.search(r"Compiling entry function '(\w+)'", line):
                name = match[1]
            if match := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill", line):
                spills = int(match[1]) + int(match[2])
            if match := re.search(r"Used (\d+) registers", line):
                self.kernels.append((name, int(match[1]), spills))
            if not self.error and re.search(r"C75(0[4-9]|1[0-6])", line):
                self.error = line.strip()
        if not self.error and not self.kernels:
            self.error = "expected ptxas to tell of a kernel, but got none"

    def spills(self):
        return sum(spills for _, _, spills in self.kernels)


def assemble(text, arch):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernel.ptx")
        with open(path, "w") as ptx:
            ptx.write(text)
        done = subprocess.run(
            [find(), "-v", "-arch=" + arch, path, "-o", path + ".cubin"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    return Result(done.stdout, done.returncode)

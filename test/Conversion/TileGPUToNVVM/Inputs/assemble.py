"""Assembles PTX with ptxas; fails on spills and on warnings about products.

    assemble.py ARCH [FILE] [spills=BYTES]

Prints two lines for each kernel: spills, registers.
"""

import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3,
                             "GPU"))
import ptxas

allowed = sum(int(a[7:]) for a in sys.argv[2:] if a.startswith("spills="))
files = [a for a in sys.argv[2:] if "=" not in a]
result = ptxas.assemble((open(files[0]) if files else sys.stdin).read(), sys.argv[1])
for name, registers, spills in result.kernels:
    print(name, "spills", spills)
    print(name, "registers", registers)
if result.error or any(spills > allowed for _, _, spills in result.kernels):
    sys.exit(result.log)

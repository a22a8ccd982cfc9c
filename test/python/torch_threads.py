# RUN: %python %s
# REQUIRES: torch
"""First calls of a process, on many threads at once, with gradients.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import subprocess
import sys

# Threads change as often as they can, so that some find modules half imported.
PROGRAM = """
import sys
from concurrent.futures import ThreadPoolExecutor

import torch

import attn

sys.setswitchinterval(1e-4)
torch.set_num_threads(1)


def gradient(number):
    q = torch.randn(1, 1, 8, 16, generator=torch.Generator().manual_seed(7))
    q.requires_grad_()
    attn.attention(q, q, q).sum().backward()
    return q.grad


with ThreadPoolExecutor(12) as pool:
    gradients = list(pool.map(gradient, range(12)))
assert gradients[0].abs().max() > 0
assert all(torch.equal(x, gradients[0]) for x in gradients)
"""

for _ in range(3):
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
print("ok")

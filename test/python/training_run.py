# RUN: %python %s
# REQUIRES: torch
"""The example trains: with softmax it has the losses that torch's own attention has,
with sigmoids and with dropout they fall too.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import contextlib
import io
import os
import sys
import tempfile

try:
    import torch
except ImportError:
    print("no torch: nothing was tested")
    sys.exit()

import attn

examples = os.path.join(os.path.dirname(os.path.dirname(attn.__file__)), "examples")
sys.path.insert(0, examples)
import train

# Small as it is, it gains nothing by threads.
torch.set_num_threads(1)
attn.set_num_threads(1)

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "text")
    with open(path, "wb") as text:
        for name in sorted(os.listdir(examples)):
            if name.endswith(".py"):
                with open(os.path.join(examples, name), "rb") as source:
                    text.write(source.read())

    def losses(*options, steps=30):
        small = "--layers 2 --heads 2 --width 32 --context 48 --batch 4 --rate 3e-3"
        small += " --steps %d" % steps
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            found = train.main([path, *small.split(), *options])
        assert "step 10: loss" in printed.getvalue()
        return found

    want = losses("--attention", "torch")
    got = losses("--attention", "softmax")
    assert max(abs(a - b) for a, b in zip(got, want)) < 2e-3, (got, want)
    assert want[-1] < want[0] - 1.0
    for options in (("--attention", "sigmoid_sum"), ("--dropout", "0.1")):
        found = losses(*options)
        assert found[-1] < found[0] - 1.0, (options, found)
        assert losses(*options, steps=10) == found[:10], options

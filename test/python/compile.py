# RUN: %python %s
"""attn.compile: a handle to look into and to run; `python -m attn`.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import gc
import os
import subprocess
import sys
import tempfile
import threading

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import reference
from reference import check, qkv

import attn

rng = np.random.default_rng(11)
q, k, v = qkv(rng)

# From operands.
kernel = attn.compile(q, k, v, causal="bottom_right", softcap=3.0, return_lse=True)
assert [arg.name for arg in kernel.inputs] == ["q", "k", "v", "softcap"]
assert [arg.name for arg in kernel.outputs] == ["o", "lse"]
assert kernel.inputs[0].shape == (-1, -1, -1, 40)
assert kernel.inputs[1].dims[:3] == ("b", "hk", "sk")
assert kernel.inputs[3].shape is None and kernel.inputs[3].dtype == "f32"
assert kernel.target == attn.host_target()
assert "attn.attention" in kernel.mlir("input")
assert "attn.aggregate" in kernel.mlir("aggregate")
assert "tile." in kernel.mlir("tile")
assert "llvm.func" in kernel.mlir("llvm")
assert "block_q" in kernel.explain()
assert kernel.timings and all(ms >= 0 for ms in kernel.timings.values())
assert "q: f32[b, hq, sq, 40]" in repr(kernel)
want, want_lse = reference.attention(q, k, v, causal="bottom_right", softcap=3.0)
out, lse = kernel(q, k, v, 3.0)
check("kernel", out, want)
check("kernel lse", lse, want_lse)
out, lse = kernel(q, k, v=v, softcap=3.0)
check("by name", out, want)
for inputs, named, found in (
    ((q,), dict(v=v), "but got 2, without k, softcap"),
    ((q, k, v, 3.0), dict(causal=1), "but got 4 and causal"),
    ((q, k, v, 3.0, 1), {}, "but got 5"),
    ((), {}, "but got 0, without q, k, v, softcap"),
):
    try:
        kernel(*inputs, **named)
    except TypeError as error:
        assert str(error).endswith(found), error
    else:
        raise AssertionError("expected an error of inputs that do not fit")
mine = np.zeros_like(out), np.zeros_like(lse)
assert kernel(q, k, v, 3.0, out=mine)[0] is mine[0]
assert np.array_equal(mine[0], out) and np.array_equal(mine[1], lse)
other = qkv(rng, b=1, hq=2, sq=5, sk=9)
check("other sizes", kernel(*other, 3.0)[0],
      reference.attention(*other, causal="bottom_right", softcap=3.0)[0])

# Stopped on the way, and dumped.
with tempfile.TemporaryDirectory() as folder:
    stopped = attn.compile(q, k, v, until_after="tile", dump_phases_to=folder)
    assert any("tile" in name for name in os.listdir(folder))
assert "tile." in stopped.mlir()
reference.fails(ValueError, "compiled to the end", stopped, q, k, v)

# From text; two functions.
TEXT = """
func.func @first(%q: tensor<?x?x?x40xf32>, %k: tensor<?x?x?x40xf32>,
                 %v: tensor<?x?x?x24xf32>) -> tensor<?x?x?x24xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x40xf32>)
      keys(%k : tensor<?x?x?x40xf32>) values(%v : tensor<?x?x?x24xf32>)
      -> tensor<?x?x?x24xf32>
  return %o : tensor<?x?x?x24xf32>
}
func.func @causal(%q: tensor<?x?x?x40xf32>, %k: tensor<?x?x?x40xf32>,
                  %v: tensor<?x?x?x24xf32>) -> tensor<?x?x?x24xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x40xf32>)
      keys(%k : tensor<?x?x?x40xf32>) values(%v : tensor<?x?x?x24xf32>)
      {causal = #attn.causal<top_left>} -> tensor<?x?x?x24xf32>
  return %o : tensor<?x?x?x24xf32>
}
"""
for entry, options in [(None, {}), ("first", {}), ("causal", {"causal": "top_left"})]:
    kernel = attn.compile(TEXT, entry=entry)
    assert kernel.name == (entry or "first")
    check("text", kernel(q, k, v), reference.attention(q, k, v, **options)[0])
check("bytes", attn.compile(TEXT.encode())(q, k, v), reference.attention(q, k, v)[0])
try:
    attn.compile("func.func @f() { return %x : f32 }", source_name="mine.mlir")
    raise AssertionError("undefined value accepted")
except ValueError as error:
    assert "mine.mlir" in str(error), error

# Handles are freed, and one kernel runs in many threads at once.
kernel = attn.compile(TEXT)
want = kernel(q, k, v)
results = [None] * 4


def work(slot):
    results[slot] = all(np.array_equal(kernel(q, k, v), want) for _ in range(20))


threads = [threading.Thread(target=work, args=(slot,)) for slot in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert all(results)
del kernel, stopped
gc.collect()

# The command.
text = subprocess.run(
    [sys.executable, "-m", "attn"], check=True, capture_output=True, text=True
).stdout
assert text.startswith("attn " + attn.__version__) and attn.host_target() in text
assert subprocess.run([sys.executable, "-m", "attn", "x"],
                      capture_output=True).returncode

# A library that is not there is an ImportError that says so.
result = subprocess.run(
    [sys.executable, "-c", "import attn"],
    env=dict(os.environ, ATTN_LIBRARY="/nonexistent/libattn.so"),
    capture_output=True,
    text=True,
)
assert result.returncode and "loading it failed" in result.stderr.splitlines()[-1]

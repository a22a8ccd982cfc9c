# RUN: %python %s
"""Sums of weights below the normal numbers of float32.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

Of one key that a row sees the output is the key's value, whatever its weight, as
long as that is a number: a GPU's estimate of such a sum's reciprocal is an infinity.
"""

import ml_dtypes
import numpy as np

import attn

AVERAGE = """
attn.monoid @average cocycle stats() components(value, unit) outputs("o") {
  lift {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %negative = arith.negf %s : f32
    %e = math.exp %negative : f32
    %more = arith.addf %one, %e : f32
    %w = arith.divf %one, %more : f32
    attn.yield %w, %w : f32, f32
  }
  finalize {
  ^bb0(%acc: f32, %sum: f32):
    %zero = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %quot = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %quot : f32
    attn.yield %o : f32
  }
}
"""

rng = np.random.default_rng(8)
bf16 = ml_dtypes.bfloat16
q = np.ones((1, 1, 64, 16), bf16)
v = rng.uniform(0.5, 1, (1, 1, 64, 64)).astype(bf16)
for score in (-86.0, -87.5, -88.0, -90.0, -200.0, -5.0):
    k = np.zeros((1, 1, 64, 16), bf16)
    k[..., :2] = bf16(score / 2)
    for target in ("cpu", "emulator:sm_90a", "emulator:sm_80"):
        run = attn.compile(q, k, v, monoid=AVERAGE, scale=1.0, causal="top_left",
                           target=None if target == "cpu" else target)
        o = np.asarray(run(q, k, v, scale=1.0)).astype("f")[0, 0]
        assert np.isfinite(o).all(), (target, score)
        # The first row sees one key. What is below the normal numbers has few bits,
        # and may be 0.
        near = np.abs(o[0] - v[0, 0, 0].astype("f")).max() < 0.02
        assert near or score < -87.3 and not o[0].any(), (target, score, o[0])

# RUN: %python %s
"""Scales of any size, with rows that see no key, beside float64.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import ml_dtypes
import numpy as np

import attn

# A row that has seen no key yet has an anchor all the same: of every scale, and
# where an exponent's factor is above 1 and the scale below.
for scale in (0.1, 0.5, 0.7, 0.8, 0.99, 1.0, 1.3, -0.8):
    for target in (None, "emulator:sm_90a", "emulator:sm_80"):
        kernel = attn.compile(
            """func.func @f(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                %sinks: tensor<?xf32>) -> tensor<?x?x?x64xbf16> {
              %scale = arith.constant SCALE : f32
              %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>) keys(%k
                  : tensor<?x?x?x64xbf16>)
                  values(%k : tensor<?x?x?x64xbf16>) scale(%scale) sinks(%sinks
                      : tensor<?xf32>)
                  {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x64xbf16>
              return %o : tensor<?x?x?x64xbf16>
            }""".replace(
                "SCALE", f"{scale:e}"
            ),
            target=target,
        )
        narrow = attn.compile(
            """func.func @f(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>,
                %sinks: tensor<?xf32>, %scale: f32) -> tensor<?x?x?x16xf32> {
              %o = attn.attention queries(%q : tensor<?x?x?x16xf32>) keys(%k
                  : tensor<?x?x?x16xf32>)
                  values(%k : tensor<?x?x?x16xf32>) scale(%scale) sinks(%sinks
                      : tensor<?xf32>)
                  {causal = #attn.causal<bottom_right>} -> tensor<?x?x?x16xf32>
              return %o : tensor<?x?x?x16xf32>
            }""",
            target=target,
        )
        for run, d, extra in ((kernel, 64, ()), (narrow, 16, (scale,))):
            draw = np.random.default_rng(1).standard_normal
            q, k = (draw((1, 2, n, d)).astype("f") for n in (130, 100))
            q, k = ((x.astype(ml_dtypes.bfloat16) for x in (q, k)) if d == 64
                    else (q, k))
            sinks = np.array([0.5, -np.inf], "f")
            o = np.asarray(run(q, k, sinks, *extra)).astype("f8")
            q, k = (x.astype("f8") for x in (q, k))
            s = q @ k.swapaxes(-1, -2) * scale
            s = np.where(np.arange(100) <= np.arange(130)[:, None] - 30, s, -np.inf)
            s = np.concatenate([s, np.broadcast_to(sinks[:, None, None],
                                                   (1, 2, 130, 1))], -1)
            most = s.max(-1, keepdims=True)
            p = np.exp(s - np.where(np.isinf(most), 0, most))
            want = p[..., :-1] @ k / np.maximum(p.sum(-1, keepdims=True), 1e-300)
            assert np.abs(o - want).max() < (0.05 if d == 64 else 1e-4), (scale, target,
                                                                          d)
print("ok")

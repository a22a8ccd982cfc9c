# RUN: %python %s
# REQUIRES: ml_dtypes
"""Softcaps at their ends: caps so small or scales so large that score / cap leaves
f32, infinite scores, and an infinite cap, which is none. In f32 and, where the
tangent is approximate, in bf16."""
import ml_dtypes
import numpy as np

import attn

RNG = np.random.default_rng(0)
Q, K, V = (RNG.standard_normal((1, 2, 40, 16)).astype(np.float32) for _ in range(3))


def reference(q, k, v, scale, cap):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    with np.errstate(all="ignore"):
        s = q @ k.swapaxes(-1, -2) * scale
        if np.isfinite(cap):
            s = cap * np.tanh(s / cap)
        w = np.exp(s - s.max(-1, keepdims=True))
        lse = np.log(w.sum(-1)) + s.max(-1)
        return w / w.sum(-1, keepdims=True) @ v, lse


for dtype, bound in ((np.float32, 2e-5), (ml_dtypes.bfloat16, 2e-2)):
    q, k, v = (x.astype(dtype) for x in (Q, K, V))
    for scale, cap in ((0.25, 20.0), (0.25, 1e-30), (0.25, 1e-40), (1e30, 1e-6),
                       (1e30, 1e-30), (1e14, 5.0), (0.25, 1e30), (0.25, 3e38),
                       (0.25, np.inf)):
        out, lse = attn.attention(q, k, v, scale=scale, softcap=cap, return_lse=True)
        want, want_lse = reference(q, k, v, scale, cap)
        error = np.abs(np.asarray(out, np.float64) - want).max()
        assert error < bound, (dtype, scale, cap, error)
        assert np.abs(lse - want_lse).max() < 2 * bound, (dtype, scale, cap)
    # Scores that are infinite count as the cap.
    q = q.copy()
    q[0, :, 3, :] = np.inf
    k = np.abs(K).astype(dtype)
    k[0, :, ::2, :] *= -1
    out = attn.attention(q, k, v, softcap=2.0)
    want, _ = reference(q, k, v, 0.25, 2.0)
    assert np.abs(np.asarray(out, np.float64) - want).max() < bound, dtype

for cap in (-1.0, -np.inf, np.nan):
    try:
        attn.attention(Q, K, V, softcap=cap)
        raise SystemExit("softcap %s was taken" % cap)
    except ValueError as error:
        assert "softcap to be positive" in str(error), error

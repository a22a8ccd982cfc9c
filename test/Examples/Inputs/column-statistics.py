"""Column sums and maxima of the weights, by a first call's LSE, against NumPy."""

import sys

import numpy as np

import attn

rng = np.random.default_rng(0)
with open(sys.argv[1], encoding="utf-8") as file:
    text = file.read()
b, hq, hk, sq, sk = 2, 4, 2, 150, 130
q, k, v = (
    rng.standard_normal((b, h, n, 64)).astype("f4")
    for h, n in ((hq, sq), (hk, sk), (hk, sk))
)
_, lse = attn.attention(q, k, v, causal="top_left", return_lse=True)
s = q.astype("f8") @ np.repeat(k, hq // hk, 1).astype("f8").swapaxes(-1, -2) / 8
s[..., np.arange(sq)[:, None] < np.arange(sk)] = -np.inf
p = np.exp(s - s.max(-1, keepdims=True))
p /= p.sum(-1, keepdims=True)
groups = p.reshape(b, hk, hq // hk, sq, sk)
for entry, want in (("sums", groups.sum((2, 3))), ("largest", groups.max((2, 3)))):
    got = attn.compile(text, entry=entry)(q, k, lse)
    assert got.shape == want.shape
    assert np.abs(got - want).max() < 2e-5 * max(want.max(), 1), entry

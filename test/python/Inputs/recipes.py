"""The recipes of docs/Masks.md: their text, and what each means in NumPy.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import re

import numpy as np

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3, "docs",
                    "Masks.md")
BLOCK = re.compile(r"<!-- (mask|score): ([\w-]+) -->\n\n```text\n(.*?)^```$",
                   re.S | re.M)


def read():
    """From names to (kind, text)."""
    with open(PAGE, encoding="utf-8") as file:
        return {name: (kind, text) for kind, name, text in BLOCK.findall(file.read())}


def clip(x, low, high):
    return np.minimum(np.maximum(x, low), high)


def captures(rng, n, b=1, h=2):
    """What the recipes take, for n tokens."""
    order = np.arange(n)
    side = int(n**0.5)
    x, y = (
        order % 4 + order // 16 % (side // 4) * 4,
        order // 4 % 4 + order // (4 * side) * 4,
    )
    parent = np.maximum(order - rng.integers(1, 6, n), -1)
    ancestor = np.eye(n, dtype=bool)
    for i in order:
        if parent[i] >= 0:
            ancestor[i] |= ancestor[parent[i]]
    distance = np.abs(np.arange(-n, n + 1))
    bucket = clip(np.log2(np.maximum(distance, 1)) * 2, 0, 31)
    return {
        "width": 100,
        "prefix": np.array([n // 3] * b, np.int32),
        "document": np.sort(rng.integers(0, 5, (b, n)), -1).astype(np.int32),
        "n": n // 2,
        "media": (order // (n // 8) - 1).astype(np.int32),
        "x": x.astype(np.int32),
        "y": y.astype(np.int32),
        "ancestor": ancestor,
        "table": rng.standard_normal((h, 65)).astype(np.float32),
        "bucket": bucket.astype(np.int32),
        "weight": rng.standard_normal((32, h)).astype(np.float32),
        "cap": 2.0,
        "slopes": np.array([0.5, 0.01], np.float32),
        "least": -6.0,
    }


def taken(name, text, given):
    """Those that a recipe takes; some mean another thing elsewhere."""
    head = text[: text.index("):")]
    own = dict(given)
    if name in ("shared-prefix", "tree"):
        own["prefix"] = int(given["prefix"][0])
    if name == "shared-prefix":
        own["document"] = given["document"][0]
    if name == "t5-bias":
        own["n"] = len(given["bucket"]) // 2
    return {key: own[key] for key in own if re.search(r"%%%s:" % key, head)}


def live(name, n, c):
    """True where a recipe's mask lets pass, [b, n, n]."""
    i, j = np.arange(n)[:, None], np.arange(n)[None, :]

    def near(*axes):
        return np.all([np.abs(a[:, None] - b[None, :]) <= r for a, b, r in axes], 0)

    t = np.arange(n)
    if name == "causal":
        return (j <= i)[None]
    if name == "sliding-window":
        return ((j <= i) & (i - j <= c["width"]))[None]
    if name == "chunked-causal":
        return ((j <= i) & (i // 256 == j // 256))[None]
    if name == "prefix-lm":
        return (j <= i)[None] | (j[None] < c["prefix"][:, None, None])
    if name == "dilated":
        return ((j <= i) & (i - j <= 255) & ((i - j) % 4 == 0))[None]
    if name == "global-window":
        return ((i < 16) | (j < 16) | (np.abs(i - j) <= 128))[None]
    if name == "documents":
        return c["document"][:, :, None] == c["document"][:, None, :]
    if name == "shared-prefix":
        d = c["document"]
        return ((j <= i) & ((d[:, None] == d[None, :]) | (j < c["prefix"])))[None]
    if name == "block-diffusion":
        half = c["n"]
        bi, bj = (np.where(x >= half, x - half, x) // 64 for x in (i, j))
        clean_i, clean_j = i >= half, j >= half
        own = (bi == bj) & (clean_i == clean_j)
        return (own | (clean_j & np.where(clean_i, bj <= bi, bj < bi)))[None]
    if name == "flamingo":
        return (c["media"][:, None] == j // 64)[None]
    if name == "neighbourhood-2d":
        y, x = t // 32, t % 32
        return near((clip(y, 3, 28), y, 3), (clip(x, 3, 28), x, 3))[None]
    if name == "neighbourhood-3d":
        axes = t // 64, t % 64 // 8, t % 8
        return near(*((a, a, 2) for a in axes))[None]
    if name == "morton":
        return near((c["y"], c["y"], 4), (c["x"], c["x"], 4))[None]
    if name == "sliding-tile":
        y, x = t // 64 // 4, t // 64 % 4
        return near((clip(y, 1, 2), y, 1), (clip(x, 1, 2), x, 1))[None]
    if name == "video-spatial":
        return (near((t // 128, t // 128, 1)) | (j < 128))[None]
    if name == "video-temporal":
        return near((t // 8, t // 8, 2))[None]
    if name == "tree":
        p = c["prefix"]
        shifted = np.zeros((n, n), bool)
        shifted[:, p:] = c["ancestor"][:, : n - p]
        return (shifted | (j < p))[None]
    raise KeyError(name)


def score(name, s, c):
    """What a recipe makes of scores [b, h, n, n]."""
    n, m = s.shape[2:]
    i, j = np.arange(n)[:, None], np.arange(m)[None, :]
    if name == "relative-bias":
        return s + c["table"].astype(np.float64)[:, clip(j - i, -32, 32) + 32]
    if name == "t5-bias":
        number = c["bucket"][j - i + c["n"]]
        return s + c["weight"].astype(np.float64)[number].transpose(2, 0, 1)
    if name == "softcap":
        return c["cap"] * np.tanh(s / c["cap"])
    if name == "alibi":
        return s + c["slopes"].astype(np.float64)[:, None, None] * (j - i)
    if name == "threshold":
        return np.where(s - c["lse"].astype(np.float64)[..., None] < c["least"],
                        -np.inf, s)
    raise KeyError(name)

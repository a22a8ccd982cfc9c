"""A small Llama in NumPy, with random weights: what engine.py serves.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

from dataclasses import dataclass

import numpy as np


@dataclass
class Config:
    vocabulary: int = 256
    width: int = 64
    layers: int = 2
    heads: int = 4
    key_heads: int = 2
    head_dim: int = 16
    hidden: int = 160
    theta: float = 10000.0
    epsilon: float = 1e-5
    window: int = 0  # keys that a query sees, itself among them; 0: all (Mistral)


def normalize(x, weight, epsilon):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + epsilon) * weight


def rotate(x, positions, theta):
    """Rotary embedding of x [tokens, heads, d], halves turned against each other."""
    half = x.shape[-1] // 2
    angles = positions[:, None] * theta ** (-np.arange(half) / half)
    cos, sin = (f(angles).astype(x.dtype)[:, None] for f in (np.cos, np.sin))
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


class Llama:
    def __init__(self, config=Config(), seed=0):
        self.config = c = config
        rng = np.random.default_rng(seed)

        def matrix(*shape):
            return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

        self.embedding = rng.standard_normal((c.vocabulary, c.width)).astype(np.float32)
        self.layers = [
            {
                "q": matrix(c.width, c.heads * c.head_dim),
                "k": matrix(c.width, c.key_heads * c.head_dim),
                "v": matrix(c.width, c.key_heads * c.head_dim),
                "o": matrix(c.heads * c.head_dim, c.width),
                "gate": matrix(c.width, c.hidden),
                "up": matrix(c.width, c.hidden),
                "down": matrix(c.hidden, c.width),
                "before": np.ones(c.width, np.float32),
                "between": np.ones(c.width, np.float32),
            }
            for _ in range(c.layers)
        ]
        self.last = np.ones(c.width, np.float32)
        self.head = matrix(c.width, c.vocabulary)

    def forward(self, tokens, positions, attend, rotates=True):
        """The hidden rows of some tokens [n].

        Args:
            attend: called for each layer as attend(layer, q, k, v), on rows [n,
                heads, d]; returns [n, heads, d].
            rotates: whether q and k have their rotary embedding, or `attend` sees to
                that.
        """
        c = self.config
        x = self.embedding[tokens]
        for number, layer in enumerate(self.layers):
            y = normalize(x, layer["before"], c.epsilon)
            q, k, v = (
                (y @ layer[name]).reshape(len(tokens), -1, c.head_dim) for name in "qkv"
            )
            if rotates:
                q, k = rotate(q, positions, c.theta), rotate(k, positions, c.theta)
            o = attend(number, q, k, v)
            x = x + o.reshape(len(tokens), -1) @ layer["o"]
            y = normalize(x, layer["between"], c.epsilon)
            gate = y @ layer["gate"]
            x = x + (gate / (1 + np.exp(-gate)) * (y @ layer["up"])) @ layer["down"]
        return normalize(x, self.last, c.epsilon)

    def generate(self, prompt, count):
        """`count` greedy tokens, each of which computes all rows anew, with plain
        NumPy: what an engine is compared with."""
        group = self.config.heads // self.config.key_heads

        def attend(layer, q, k, v):
            k, v = (np.repeat(x, group, axis=1) for x in (k, v))
            scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(q.shape[-1])
            distance = np.subtract.outer(*2 * [np.arange(len(q))])
            dead = (distance < 0) | (distance >= (self.config.window or len(q)))
            scores[:, dead] = -np.inf
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            weights /= weights.sum(axis=-1, keepdims=True)
            return np.einsum("hij,jhd->ihd", weights, v)

        tokens = list(prompt)
        for _ in range(count):
            rows = self.forward(np.array(tokens), np.arange(len(tokens)), attend)
            tokens.append(int((rows[-1] @ self.head).argmax()))
        return tokens[len(prompt) :]

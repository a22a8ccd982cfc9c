# RUN: %python %s
"""The cases of the ONNX operator LinearAttention, through attn.scan.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import json
import os
import sys

import numpy as np

import attn

HERE = os.path.dirname(os.path.abspath(__file__))
# In a checkout, and in the package.
FOLDERS = [
    os.path.join(HERE, "..", "Conformance", "onnx-linear-attention", "Inputs"),
    os.path.join(HERE, "..", "onnx-linear-attention"),
]
# As of the cases of Attention.
TOLERANCE = {np.dtype(np.float32): (1e-3, 1e-6), np.dtype(np.float16): (4e-3, 4e-3)}
NAMES = ("query", "key", "value", "past_state", "decay", "beta")


def split(array, heads):
    """[b, t, h d] as a view [b, t, h, d]."""
    return array.reshape(array.shape[:2] + (heads, -1))


def run(folder):
    with open(os.path.join(folder, "case.json")) as file:
        case = json.load(file)

    def load(entry):
        return None if entry is None else np.load(os.path.join(folder, entry["file"]))

    inputs = dict(zip(NAMES, map(load, case["inputs"])))
    attributes = case["attributes"]
    rule = attributes.get("update_rule", "gated_delta")
    heads = attributes["kv_num_heads"]
    q = split(inputs["query"], attributes["q_num_heads"])
    k, v = (split(inputs[name], heads) for name in ("key", "value"))
    decay, beta = inputs.get("decay"), inputs.get("beta")
    if decay is not None:
        # One for each head, or for each of its key channels.
        decay = decay if decay.shape[2] == heads else split(decay, heads)
    o, state = attn.scan(
        q,
        k,
        v,
        decay=decay if "gated" in rule else None,
        beta=beta if "delta" in rule else None,
        scale=attributes.get("scale", 0.0) or None,
        initial_state=inputs.get("past_state"),
        return_state=True,
        layout="bshd",
    )
    results = [o.reshape(o.shape[:2] + (-1,)), state["S"]]
    return list(zip(results, map(load, case["outputs"])))


def main():
    root = next(filter(os.path.isdir, FOLDERS))
    names = sorted(n for n in os.listdir(root) if n.startswith("test_linear"))
    assert len(names) >= 5, "expected 5 cases at least, but got %d" % len(names)
    for name in names:
        for got, expected in run(os.path.join(root, name)):
            rtol, atol = TOLERANCE[expected.dtype]
            got, expected = got.astype(np.float64), expected.astype(np.float64)
            assert got.shape == expected.shape, (name, got.shape, expected.shape)
            worst = np.abs(got - expected)
            assert np.all(worst <= atol + rtol * np.abs(expected)), (name, worst.max())
            print("%s: off by %.1e" % (name, worst.max(initial=0.0)))
    print("%d cases pass" % len(names))


if __name__ == "__main__":
    sys.exit(main())

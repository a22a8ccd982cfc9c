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
# The operator's own node tests: attributes, inputs beside query, key and value, by
# their last dimension (of a past state any), and what is not 2 x 4 tokens of f32.
BOTH = {"decay": 32, "beta": 4}
CASES = {
    "linear": ("linear", {}, {}),
    "linear_t1_no_past": ("linear", {}, {"tokens": 1}),
    "gated": ("gated", {"decay": 32}, {}),
    "gated_per_head_decay": ("gated", {"decay": 4}, {}),
    "delta": ("delta", {"beta": 4}, {}),
    "gated_delta": (None, BOTH, {}),
    "gated_delta_beta_scalar": (None, {"decay": 32, "beta": 1}, {}),
    "gated_delta_gqa": (None, BOTH, {"q_num_heads": 8}),
    "gated_delta_mqa": (None, {"decay": 8, "beta": 1},
                        {"q_num_heads": 8, "kv_num_heads": 1}),
    "decode_step": (None, dict(BOTH, past_state=0.1), {"tokens": 1}),
    "prefill_with_past": (None, dict(BOTH, past_state=0.1), {}),
    "no_past_explicit_zeros": (None, dict(BOTH, past_state=0.0), {}),
    "explicit_scale": (None, BOTH, {"scale": 0.25}),
    "fp16": (None, BOTH, {"q_num_heads": 8, "kind": "e"}),
    # Not of the operator yet: https://github.com/onnx/onnx/issues/8027. What is
    # written has gates of value channels then, in the place of beta.
    "erase_gate": (None, {"decay": 32, "beta": 32, "erase_gate": 32}, {}),
    "erase_gate_long": (None, {"decay": 32, "beta": 32, "erase_gate": 32},
                        {"tokens": 70, "q_num_heads": 8}),
    "erase_gate_decode": (None, {"decay": 4, "beta": 32, "erase_gate": 32,
                                 "past_state": 0.1}, {"tokens": 1}),
}


def split(array, heads):
    """[b, t, h d] as a view [b, t, h, d]."""
    return array.reshape(array.shape[:2] + (heads, array.shape[2] // heads))


def linear_attention(attributes, query, key, value, past_state=None, decay=None,
                     beta=None, erase_gate=None):
    """The operator: packed rows [b, t, h d] and states [b, h, dk, dv]; and what is
    proposed for gates of what is erased and written, one for each channel."""
    rule = attributes.get("update_rule", "gated_delta")
    heads = attributes["kv_num_heads"]
    q = split(query, attributes["q_num_heads"])
    k, v = split(key, heads), split(value, heads)
    if decay is not None:
        # One for each head, or for each of its key channels.
        decay = decay if decay.shape[2] == heads else split(decay, heads)
    erase = None
    if erase_gate is not None:
        erase = (k * split(erase_gate, heads), -k)
        v, beta = v * split(beta, heads), None
    o, state = attn.scan(
        q,
        k,
        v,
        decay=decay if "gated" in rule else None,
        beta=beta if "delta" in rule else None,
        erase=erase,
        scale=attributes.get("scale", 0.0) or None,
        initial_state=past_state,
        return_state=True,
        layout="bshd",
    )
    return o.reshape(o.shape[:2] + (o.shape[2] * o.shape[3],)), state["S"]


def run(folder):
    with open(os.path.join(folder, "case.json")) as file:
        case = json.load(file)

    def load(entry):
        return None if entry is None else np.load(os.path.join(folder, entry["file"]))

    inputs = dict(zip(NAMES, map(load, case["inputs"])))
    results = linear_attention(case["attributes"], **inputs)
    return list(zip(results, map(load, case["outputs"])))


def by_definition(attributes, query, key, value, past_state=None, decay=None,
                  beta=None, erase_gate=None):
    """The same in float64, token by token and head by head."""
    rule = attributes.get("update_rule", "gated_delta")
    hq, heads = attributes["q_num_heads"], attributes["kv_num_heads"]
    b, t, dk = query.shape[0], query.shape[1], key.shape[2] // heads
    dv = value.shape[2] // heads
    scale = attributes.get("scale", 0.0) or dk**-0.5
    o, states = np.zeros((b, t, hq, dv)), np.zeros((b, heads, dk, dv))
    if past_state is not None:
        states[...] = past_state
    for n in np.ndindex(b, heads):
        for i in range(t):
            part = lambda x, width: x[n[0], i].astype("d").reshape(-1, width)[n[1]]
            k, v, state = part(key, dk), part(value, dv), states[n]
            if "gated" in rule:
                wide = decay.shape[2] // heads
                state = np.exp(part(decay, wide))[:, None] * state
            if erase_gate is not None:
                v = part(beta, dv) * v - (part(erase_gate, dk) * k) @ state
            elif "delta" in rule:
                own = beta[n[0], i, n[1] if beta.shape[2] > 1 else 0].astype("d")
                v = own * (v - k @ state)
            states[n] = state + np.outer(k, v)
            group = hq // heads
            for h in range(n[1] * group, (n[1] + 1) * group):
                q = query[n[0], i].astype("d").reshape(hq, dk)[h]
                o[n[0], i, h] = scale * (q @ states[n])
    return o.reshape(b, t, hq * dv), states


def draw(rng):
    """Attributes and inputs of the operator: every rule, ranks of decay and beta,
    groups of heads, past states, chunks, scales and lengths."""
    rule = str(rng.choice(["linear", "gated", "delta", "gated_delta"]))
    heads, group = int(rng.choice([1, 2, 3])), int(rng.choice([1, 2, 4]))
    dk, dv = (int(rng.choice([1, 4, 8, 20])) for _ in range(2))
    b, t = int(rng.integers(0, 3)), int(rng.choice([0, 1, 2, 17, 70]))
    kind = np.dtype("f" if rng.random() < 0.7 else "e")
    attributes = {"q_num_heads": heads * group, "kv_num_heads": heads}
    if rule != "gated_delta" or rng.random() < 0.5:
        attributes["update_rule"] = rule
    if rng.random() < 0.5:
        attributes["scale"] = float(rng.choice([0.0, 1.0, 0.3]))
    if rng.random() < 0.5:
        attributes["chunk_size"] = int(rng.choice([1, 16, 64]))
    normal = lambda *shape: rng.standard_normal(shape)
    key = normal(b, t, heads, dk)
    key /= np.linalg.norm(key, axis=-1, keepdims=True)
    inputs = {
        "query": normal(b, t, heads * group * dk),
        "key": key.reshape(b, t, heads * dk),
        "value": normal(b, t, heads * dv),
    }
    # What a rule does not use may be there all the same.
    if "gated" in rule or rng.random() < 0.2:
        width = heads * (dk if rng.random() < 0.5 else 1)
        inputs["decay"] = -rng.exponential(0.3, (b, t, width))
    if "delta" in rule or rng.random() < 0.2:
        inputs["beta"] = rng.uniform(0, 1, (b, t, heads if rng.random() < 0.5 else 1))
    if rng.random() < 0.6:
        inputs["past_state"] = normal(b, heads, dk, dv)
    return attributes, {name: x.astype(kind) for name, x in inputs.items()}


def draw_case(name, rng):
    """Attributes and inputs of one of CASES: heads of 8 channels."""
    rule, others, given = CASES[name]
    given = dict(given)
    b, t, d, kind = 2, given.pop("tokens", 4), 8, given.pop("kind", "f")
    attributes = dict({"q_num_heads": 4, "kv_num_heads": 4}, **given)
    if rule:
        attributes["update_rule"] = rule
    heads = attributes["kv_num_heads"]
    normal = rng.standard_normal
    key = normal((b, t, heads, d))
    if "beta" in others:
        key /= np.linalg.norm(key, axis=-1, keepdims=True)
    inputs = {
        "query": normal((b, t, attributes["q_num_heads"] * d)),
        "key": key.reshape(b, t, heads * d),
        "value": normal((b, t, heads * d)),
    }
    if "decay" in others:
        inputs["decay"] = -0.1 * np.abs(normal((b, t, others["decay"])))
    for name in ("beta", "erase_gate"):
        if name in others:
            inputs[name] = rng.uniform(0, 1, (b, t, others[name]))
    if "past_state" in others:
        inputs["past_state"] = others["past_state"] * normal((b, heads, d, d))
    return attributes, {name: x.astype(kind) for name, x in inputs.items()}


def check_drawn(name, attributes, inputs):
    results = linear_attention(attributes, **inputs)
    rtol, atol = TOLERANCE[inputs["query"].dtype]
    for got, expected in zip(results, by_definition(attributes, **inputs)):
        assert got.shape == expected.shape, (name, attributes, got.shape)
        size = np.abs(expected).max(initial=1.0)
        worst = np.abs(got - expected)
        assert np.all(worst <= atol * size + rtol * np.abs(expected)), (
            name, attributes, worst.max())


def check_variants(count, seed=41):
    for number, name in enumerate(CASES):
        for turn in range(3):
            rng = np.random.default_rng([seed, number, turn])
            check_drawn(name, *draw_case(name, rng))
    for number in range(count):
        check_drawn(number, *draw(np.random.default_rng([seed, number])))
    print("%d cases by name and %d others pass" % (len(CASES), count))


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
    check_variants(60)


if __name__ == "__main__":
    sys.exit(main())

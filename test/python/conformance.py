# RUN: %python %s
"""The cases of the ONNX operators Attention and FlexAttention, through
attn.attention: f32 within rtol 1e-3 and atol 1e-6. Prints what each exercised.

Left out: qk_matmul_output, which a fused kernel does not form; the other
outputs of such a case are checked.

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
    os.path.join(HERE, "..", "Conformance", "onnx", "Inputs"),
    os.path.join(HERE, "..", "onnx"),
]
# One rounding to 11 bits in q.k, P and the output each, where the type is f16.
TOLERANCE = {np.dtype(np.float32): (1e-3, 1e-6), np.dtype(np.float16): (4e-3, 4e-3)}


def load(folder):
    with open(os.path.join(folder, "case.json")) as file:
        case = json.load(file)
    for group in ("inputs", "outputs"):
        case[group] = {
            entry["name"]: np.load(os.path.join(folder, entry["file"]))
            for entry in case[group]
            if entry is not None
        }
    return case


def split_heads(array, heads):
    """[b, s, h * d] as a view [b, h, s, d]; rank 4 as it is."""
    if array.ndim == 4:
        return array
    b, s, width = array.shape
    return array.reshape(b, s, heads, width // heads).transpose(0, 2, 1, 3)


def pad_mask(mask, sk):
    """The operator takes keys behind the end of a short mask as dead."""
    missing = sk - mask.shape[-1]
    dead = False if mask.dtype == bool else -np.inf
    pads = [(0, 0)] * (mask.ndim - 1) + [(0, missing)]
    return np.pad(mask, pads, constant_values=dead) if missing > 0 else mask


def run(case):
    """Returns (name, got, expected) of each output, and words for the table."""
    inputs, outputs, attributes = case["inputs"], case["outputs"], case["attributes"]
    q, k, v = inputs["Q"], inputs["K"], inputs["V"]
    words = [str(q.dtype), "3-D" if q.ndim == 3 else "4-D"]
    q = split_heads(q, attributes.get("q_num_heads"))
    k = split_heads(k, attributes.get("kv_num_heads"))
    v = split_heads(v, attributes.get("kv_num_heads"))
    past = 0
    if "past_key" in inputs:
        past = inputs["past_key"].shape[2]
        k = np.concatenate([inputs["past_key"], k], axis=2)
        v = np.concatenate([inputs["past_value"], v], axis=2)
        words.append("past %d" % past)
    if q.shape[1] != k.shape[1]:
        words.append("gqa %d/%d" % (q.shape[1], k.shape[1]))
    if q.shape[3] != v.shape[3]:
        words.append("dv %d" % v.shape[3])

    options = {}
    if "scale" in attributes:
        options["scale"] = attributes["scale"]
    if attributes.get("softcap"):
        options["softcap"] = attributes["softcap"]
    words += sorted(options)
    sq, sk = q.shape[2], k.shape[2]
    if "attn_mask" in inputs:
        mask = pad_mask(inputs["attn_mask"], sk)
        options["mask" if mask.dtype == bool else "bias"] = mask
        words.append(
            "%s %d-D" % ("mask" if mask.dtype == bool else "bias", mask.ndim)
        )
    lengths = inputs.get("nonpad_kv_seqlen")
    if lengths is not None:
        options["kv_lengths"] = lengths
        words.append("kv_lengths")
    if attributes.get("is_causal"):
        # Query i sees keys up to i + offset: the past, or what the length
        # leaves before the queries.
        if lengths is not None or (past and sk - sq == past):
            options["causal"] = "bottom_right"
        elif past == 0:
            options["causal"] = "top_left"
        else:
            upto = np.arange(sk)[None, :] <= np.arange(sq)[:, None] + past
            options["mask"] = upto & options.get("mask", True)
        words.append("causal " + options.get("causal", "with offset"))

    out = attn.attention(q, k, v, **options)
    expected = outputs["Y"]
    if expected.ndim == 3:
        out = out.transpose(0, 2, 1, 3).reshape(expected.shape)
    results = [("Y", out, expected)]
    for name, array in (("present_key", k), ("present_value", v)):
        if name in outputs:
            results.append((name, array, outputs[name]))
    if "present_key" in outputs:
        words.append("present")
    if "qk_matmul_output" in outputs:
        words.append("(no qk_matmul_output)")
    return results, words


def main():
    root = next(filter(os.path.isdir, FOLDERS))
    names = sorted(
        name
        for name in os.listdir(root)
        if os.path.exists(os.path.join(root, name, "case.json"))
    )
    assert len(names) >= 29, "expected 29 cases at least, but got %d" % len(names)
    failed = 0
    print("| case | exercised | max error |\n|---|---|---|")
    for name in names:
        case = load(os.path.join(root, name))
        error, verdict = 0.0, ""
        try:
            results, words = run(case)
            for output, got, expected in results:
                rtol, atol = TOLERANCE[expected.dtype]
                got, expected = got.astype(np.float64), expected.astype(np.float64)
                assert got.shape == expected.shape, (output, got.shape)
                assert not np.isnan(got).any(), output + ": NaN"
                worst = np.abs(got - expected)
                error = max(error, worst.max(initial=0.0))
                if not np.all(worst <= atol + rtol * np.abs(expected)):
                    verdict += " FAILED in " + output
        except Exception as raised:
            words, verdict = [], " FAILED: %s" % raised
        failed += bool(verdict)
        print("| %s | %s | %.1e%s |" % (name, ", ".join(words), error, verdict))
    print("%d of %d cases pass" % (len(names) - failed, len(names)))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())

"""Rungs of the ladder on tensors that are awkward: NaN where no row looks, and
scores that a fixed point has no room for.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import subprocess
import sys

import numpy as np

TOOL, SOURCE, SCRATCH = sys.argv[1:4]
SPEC = "b=1,hq=2,sq=40,sk=100,d=16,causal=top_left,outputs=2"
REWRITTEN = ("naive", "safe", "lazy", "fa1")
RUNGS = REWRITTEN + ("online", "split")


def run(rung, q, k, v, spec=SPEC):
    names = {}
    for name, array in (("q", q), ("k", k), ("v", v)):
        names[name] = "%s.%s.npy" % (SCRATCH, name)
        np.save(names[name], array)
    command = [TOOL, "--attention", spec, "--schedule", "#attn.rung<%s>" % rung]
    for name, path in names.items():
        command += ["--input", "%s=%s" % (name, path)]
    results = []
    for name in ("o", "lse"):
        path = "%s.%s.npy" % (SCRATCH, name)
        command += ["--output", "%s=%s" % (name, path)]
        results.append(path)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return [np.load(path) for path in results]


def reference(q, k, v):
    rows, keys = q.shape[2], k.shape[2]
    s = np.einsum("bhid,bhjd->bhij", *(x.astype(np.float64) for x in (q, k))) / 4
    live = np.arange(keys)[None] <= np.arange(rows)[:, None]
    s = np.where(live, s, -np.inf)
    m = s.max(-1, keepdims=True)
    p = np.exp(s - m)
    o = np.einsum("bhij,bhjd->bhid", p, np.where(np.isnan(v), 0, v)) / p.sum(
        -1, keepdims=True
    )
    return o, (m + np.log(p.sum(-1, keepdims=True)))[..., 0]


def check_program(path, entry, after, attributes, arguments):
    """Checks a program, with the rung written behind `after`, by the interpreter."""
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        text = file.read()
    at = text.index(after, text.index("@%s(" % entry)) + len(after)
    for rung in REWRITTEN:
        name = SCRATCH + ".mlir"
        with open(name, "w", encoding="utf-8") as file:
            file.write(text[:at] + attributes % rung + text[at:])
        done = subprocess.run(
            [TOOL, name, "--entry", entry, "--check", *arguments],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert done.returncode == 0 and "ok" in done.stdout, (path, rung)


def main():
    # A factor for each component; parameters and captures.
    check_program(
        "test/Examples/participation.mlir",
        "fast",
        "causal = #attn.causal<bottom_right>",
        ", attn.rung = #attn.rung<%s>",
        ["--sizes", "b=1,hq=2,hk=1,sq=40,sk=90"],
    )
    check_program(
        "test/Tools/attn-run/Inputs/softmax2.mlir",
        "fading",
        "captures(%fade : f32)",
        " {attn.rung = #attn.rung<%s>}",
        ["--sizes", "b=1,hq=2,hk=1,sq=40,sk=90"]
        + ["--input", "tau=0.7", "--input", "fade=0.01"],
    )

    random = np.random.default_rng(1)
    q, k, v = (
        random.standard_normal((1, 2, n, 16)).astype(np.float32) for n in (40, 100, 100)
    )
    # No row sees these keys.
    k[:, :, 40:], v[:, :, 40:] = np.nan, np.nan
    want = reference(q, np.nan_to_num(k), v)
    for rung in RUNGS:
        for got, expected in zip(run(rung, q, k, v), want):
            assert np.allclose(got, expected, rtol=2e-5, atol=2e-5), rung

    # Scores of some hundreds: exact by all rungs but lazy, which has no number
    # for rows that it has no room for, and never a wrong one.
    large = q * 300
    want = reference(large, np.nan_to_num(k), v)
    for rung in RUNGS:
        o, lse = run(rung, large, k, v)
        if rung == "lazy":
            assert np.isnan(o).any(), "expected rows without numbers"
            o = np.where(np.isnan(o), want[0], o)
            lse = np.where(np.isnan(lse), want[1], lse)
        assert np.allclose(o, want[0], rtol=2e-3, atol=2e-3), rung
        assert np.allclose(lse, want[1], rtol=1e-4, atol=1e-3), rung

    # A NaN that a row sees is in its results.
    q[0, 0, 5, 0] = np.nan
    for rung in RUNGS:
        o, lse = run(rung, q, k, v)
        assert np.isnan(o[0, 0, 5]).all() and np.isnan(lse[0, 0, 5]), rung
        assert not np.isnan(o[0, 0, 6]).any() and not np.isnan(o[0, 1]).any(), rung


main()

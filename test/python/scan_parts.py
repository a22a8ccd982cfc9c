# RUN: %python %s
"""States of scans as values: the tokens of a sequence in parts, each of which says
what it does to a state (attn.scan_partial); what those before a part make of the first
state (attn.scan_combine); and the part's outputs from there (attn.scan). That is what
several devices would do with a sequence, and gives what one scan gives.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import ml_dtypes
import numpy as np

import attn

B, H, T, DK, DV, PARTS = 2, 3, 301, 20, 33, 4


def shape(*sizes, kind="f32"):
    return "tensor<%sx%s>" % ("x".join(map(str, sizes)), kind)


def program(kind, operands, flags, maps):
    """Functions `parts`, of tokens, and `behind`, of their results and a state."""
    row = shape("?", "?", "?", kind="f32")
    types = {"decay": row, "delta": row, "log_weight": row, "weight": row}
    if "key_gates" in flags:
        types["decay"] = shape("?", "?", "?", DK)
    args = ["%%%s: %s" % (n, types[n]) for n in operands]
    clauses = " ".join("%s(%%%s : %s)" % (n, n, types[n]) for n in operands)
    kept = [n for n in flags if n in ("normalize", "log_weight")]
    states = {"S": (DK, DV)}
    if "normalize" in kept:
        states["z"] = (DK,)
    if "log_weight" in kept:
        states["m"] = ()
    many = lambda sizes: shape(PARTS, "?", "?", *sizes)
    one = lambda sizes: shape("?", "?", *sizes)
    results = [many(x) for x in states.values()]
    if maps is not None:
        results.append(many(maps))
    k, v = shape("?", "?", "?", DK, kind=kind), shape("?", "?", "?", DV, kind=kind)
    own = [n for n in kept if n == "normalize"]
    of_parts = "func.func @parts(%%k: %s, %%v: %s%s) -> (%s) {\n" % (
        k, v, "".join(", " + a for a in args), ", ".join(results))
    of_parts += (
        "  %%r:%d = attn.scan_partial keys(%%k : %s) values(%%v : %s) %s {%s}\n"
        "      -> %s\n  return %s : %s\n}\n"
    ) % (
        len(results), k, v, clauses, ", ".join(["splits = %d" % PARTS] + own),
        ", ".join(results), ", ".join("%%r#%d" % i for i in range(len(results))),
        ", ".join(results))
    names = list(states)
    args = ["%%%s: %s" % (n, many(states[n])) for n in names]
    if maps is not None:
        args.append("%%A: %s" % many(maps))
    args += ["%%%s0: %s" % (n, one(states[n])) for n in names]
    outs = ", ".join(many(states[n]) for n in names)
    behind = "func.func @behind(%s) -> (%s) {\n" % (", ".join(args), outs)
    behind += "  %%r:%d = attn.scan_combine(%s : %s)" % (
        len(names), ", ".join("%" + n for n in names), outs)
    if maps is not None:
        behind += " maps(%%A : %s)" % many(maps)
    behind += " init(%s : %s) {%s} -> %s\n  return %s : %s\n}\n" % (
        ", ".join("%%%s0" % n for n in names),
        ", ".join(one(states[n]) for n in names), ", ".join(kept + ["prefixes"]), outs,
        ", ".join("%%r#%d" % i for i in range(len(names))), outs)
    return attn.compile(of_parts), attn.compile(behind), names


def check(name, got, want, bound):
    got, want = np.asarray(got, "f8"), np.asarray(want, "f8")
    error = abs(got - want).max() / abs(want).max()
    assert error <= bound, "%s is off by %.1e of the largest entry" % (name, error)


def run(rule, dtype, operands, maps, flags=()):
    rng = np.random.default_rng(len(rule))
    normal = lambda *sizes: rng.standard_normal(sizes).astype("f")
    q, k, v = normal(B, H, T, DK), normal(B, H, T, DK), normal(B, H, T, DV)
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    if "normalize" in flags:
        q, k = abs(q), abs(k)
    q, k, v = (x.astype(dtype) for x in (q, k, v))
    gates = (DK,) if "key_gates" in flags else ()
    given = {
        "decay": -abs(normal(B, H, T, *gates)) / 10,
        "delta": rng.uniform(0, 1, (B, H, T)).astype("f"),
        "log_weight": normal(B, H, T),
        "weight": rng.uniform(0, 1, (B, H, T)).astype("f"),
    }
    given = {n: given[n] for n in operands}
    words = {"beta" if n == "delta" else n: x for n, x in given.items()}
    normalize = "normalize" in flags
    first = {"S": normal(B, H, DK, DV)}
    if normalize:
        first["z"] = abs(normal(B, H, DK))
    if "log_weight" in flags:
        first["m"] = normal(B, H)
    o, last = attn.scan(q, k, v, normalize=normalize, initial_state=first,
                        return_state=True, **words)

    kind = "bf16" if dtype is ml_dtypes.bfloat16 else "f32"
    parts, behind, names = program(kind, operands, flags, maps)
    results = parts(k, v, *given.values())
    results = results if isinstance(results, (list, tuple)) else [results]
    states = behind(*results, *(first[n] for n in names))
    states = states if isinstance(states, (list, tuple)) else [states]
    bound = 1e-2 if kind == "bf16" else 3e-5
    for n, all_parts in zip(names, states):
        check("%s, %s behind all parts" % (rule, n), all_parts[-1], last[n], bound)
    size = -(-T // PARTS)
    outputs = []
    for part in range(PARTS):
        cut = lambda x: x[:, :, part * size : (part + 1) * size]
        before = first
        if part:
            before = {n: np.ascontiguousarray(x[part - 1])
                      for n, x in zip(names, states)}
        outputs.append(
            attn.scan(cut(q), cut(k), cut(v), normalize=normalize,
                      initial_state=before, **{n: cut(x) for n, x in words.items()})
        )
    check(rule + ", outputs", np.concatenate(outputs, 2), o, bound)
    print(rule, kind, "ok")


def main():
    for dtype in (np.float32, ml_dtypes.bfloat16):
        run("sums", dtype, [], None)
        run("decay, normalized", dtype, ["decay"], (), ["normalize"])
        run("weighted GLA", dtype, ["decay", "weight"], (DK,), ["key_gates"])
        run("gated delta", dtype, ["decay", "delta"], (DK, DK))
        run("KDA", dtype, ["decay", "delta"], (DK, DK), ["key_gates"])
        run("mLSTM", dtype, ["decay", "log_weight"], (), ["normalize", "log_weight"])


main()

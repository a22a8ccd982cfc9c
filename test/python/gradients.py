# RUN: %python %s
"""Gradients written as aggregates: dQ over keys, dK and dV over the queries of
all heads of a key head, at random shapes against float64.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import sys

import ml_dtypes
import numpy as np

import attn

MONOIDS = """
attn.monoid @dq cocycle stats() components(value) outputs("dq") {
  lift {
  ^bb0(%p: f32, %dp: f32):
    %w = arith.mulf %p, %dp : f32
    attn.yield %w : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}
attn.monoid @dkdv cocycle stats() components(value, value) outputs("dv", "dk") {
  lift {
  ^bb0(%p: f32, %dp: f32):
    %w = arith.mulf %p, %dp : f32
    attn.yield %p, %w : f32, f32
  }
  finalize {
  ^bb0(%a: f32, %b: f32):
    attn.yield %a, %b : f32, f32
  }
}
"""

# What a pair's weight and its derivative are, from the row statistics of the
# query; %i and %j are the query and the key in either order of the arguments.
REGIONS = """
    captures(%lse, %delta, %scale, %window : tensor<?x?x?xf32>, tensor<?x?x?xf32>, f32,
        i32) SIDE
    score {
    ^bb0(%s: f32, %dp: f32, %b: i32, %h: i32, ROW: i32, REDUCED: i32,
         %L: tensor<?x?x?xf32>, %D: tensor<?x?x?xf32>, %c: f32, %w: i32):
      %bi = arith.index_cast %b : i32 to index
      %hi = arith.index_cast %h : i32 to index
      %ii = arith.index_cast %i : i32 to index
      %l = tensor.extract %L[%bi, %hi, %ii] : tensor<?x?x?xf32>
      %d = tensor.extract %D[%bi, %hi, %ii] : tensor<?x?x?xf32>
      %x = arith.mulf %s, %c : f32
      %y = arith.subf %x, %l : f32
      %p = math.exp %y : f32
      %e = arith.subf %dp, %d : f32
      attn.yield %p, %e : f32, f32
    }
    mask {
    ^bb0(%b: i32, %h: i32, ROW: i32, REDUCED: i32,
         %L: tensor<?x?x?xf32>, %D: tensor<?x?x?xf32>, %c: f32, %w: i32):
      MASK
      attn.yield %live : i1
    }
"""

MASKS = {
    "none": ("%live = arith.constant true", lambda h, i, j, w: i + j >= 0),
    "causal": ("%live = arith.cmpi sle, %j, %i : i32", lambda h, i, j, w: j <= i),
    "window": (
        """%causal = arith.cmpi sle, %j, %i : i32
      %distance = arith.subi %i, %j : i32
      %near = arith.cmpi sle, %distance, %w : i32
      %live = arith.andi %causal, %near : i1""",
        lambda h, i, j, w: (j <= i) & (i - j <= w),
    ),
    # Each head has a reach of its own: no bound is that of all heads of a group.
    "heads": (
        """%reach = arith.muli %h, %w : i32
      %end = arith.addi %i, %reach : i32
      %live = arith.cmpi sle, %j, %end : i32""",
        lambda h, i, j, w: j <= i + h * w,
    ),
}


def program(kind, mask, element, d):
    tensor = "tensor<?x?x?x%dx%s>" % (d, element)
    over_keys = kind == "dq"
    regions = REGIONS.replace("MASK", MASKS[mask][0])
    regions = regions.replace("ROW", "%i" if over_keys else "%j")
    regions = regions.replace("REDUCED", "%j" if over_keys else "%i")
    regions = regions.replace(
        "SIDE", "" if over_keys else "{side = #attn.side<queries>}"
    )
    q, k, v, do = "%q", "%k", "%v", "%do"
    pairs = (q, k, do, v) if over_keys else (k, q, v, do)
    values = (k,) if over_keys else (do, q)
    results = ", ".join([tensor] * len(values))
    return MONOIDS + """
func.func @gradient(%q: T, %k: T, %v: T, %do: T, %lse: tensor<?x?x?xf32>,
    %delta: tensor<?x?x?xf32>, %scale: f32, %window: i32) -> (RESULTS) {
  %o:N = attn.aggregate @MONOID scores(PAIRS : T, T, T, T) values(VALUES : RESULTS)
    REGIONS -> RESULTS
  return OUTPUTS : RESULTS
}
""".replace("REGIONS", regions).replace("RESULTS", results).replace(
        "MONOID", kind
    ).replace("PAIRS", ", ".join(pairs)).replace("VALUES", ", ".join(values)).replace(
        "OUTPUTS", ", ".join("%%o#%d" % i for i in range(len(values)))
    ).replace("%o:N", "%%o:%d" % len(values)).replace(": T", ": " + tensor).replace(
        ", T", ", " + tensor
    )


def gradients(q, k, v, do, scale, mask, window):
    """dQ, dK and dV in float64, and the statistics of rows that they take."""
    q, k, v, do = (x.astype("f8") for x in (q, k, v, do))
    b, hk, sk, d = k.shape
    hq, sq = q.shape[1:3]
    k, v = (x.repeat(hq // hk, 1) for x in (k, v))
    s = q @ k.swapaxes(-1, -2) * scale
    h, i, j = np.ogrid[:hq, :sq, :sk]
    live = np.broadcast_to(MASKS[mask][1](h, i, j, window), s.shape)
    with np.errstate(divide="ignore"):
        lse = np.log((np.exp(s) * live).sum(-1)).astype("f4")
    p = np.where(live, np.exp(s - lse[..., None]), 0)
    dp = do @ v.swapaxes(-1, -2)
    delta = (p * dp).sum(-1).astype("f4")
    ds = p * (dp - delta[..., None])

    def of_keys(x):
        return x.reshape(b, hk, hq // hk, sk, d).sum(2)

    return (
        lse, delta, ds @ k, of_keys(ds.swapaxes(-1, -2) @ q),
        of_keys(p.swapaxes(-1, -2) @ do),
    )


def check(rng, kernels, target, element, d, mask, shape):
    dtype = {"f32": "f4", "f16": "f2", "bf16": ml_dtypes.bfloat16}[element]
    # Twice what rounding weights, or sums, to the type may cost.
    bound = {"f32": 3e-5, "f16": 3e-3, "bf16": 2e-2}[element]
    b, hk, group, sq, sk = shape
    by_row = rng.random() < 0.5  # heads of a row beside each other, [b, s, h, d]

    def tensor(heads, rows):
        sizes = (b, rows, heads, d) if by_row else (b, heads, rows, d)
        x = rng.standard_normal(sizes).astype(dtype)
        return x.swapaxes(1, 2) if by_row else x

    q, do = (tensor(hk * group, sq) for _ in "qo")
    k, v = (tensor(hk, sk) for _ in "kv")
    scale, window = np.float32(d**-0.5), int(rng.integers(1, 100))
    lse, delta, dq, dk, dv = gradients(q, k, v, do, scale, mask, window)
    for kind, wants in (("dq", (dq,)), ("dkdv", (dv, dk))):
        key = kind, mask, element, d
        if key not in kernels:
            kernels[key] = attn.compile(program(*key), target=target)
        got = kernels[key](q, k, v, do, lse, delta, scale, window)
        for got, want in zip(got if len(wants) > 1 else (got,), wants):
            got = np.asarray(got).astype("f8")
            assert got.shape == want.shape
            # A row of one live key has no gradient but for rounding.
            error = np.abs(got - want).max(initial=0) / np.abs(want).max(initial=1)
            assert error <= bound, (target, key, shape, window, error)


def main(target=None, cases=60, seed=1, elements="f32 bf16 f16", depths="32 40 64 128"):
    rng = np.random.default_rng(int(seed))
    kernels = {}
    for case in range(int(cases)):
        element = str(rng.choice(elements.split()))
        d = int(rng.choice(depths.split()))
        mask = str(rng.choice(list(MASKS)))
        shape = (int(rng.integers(1, 3)), int(rng.integers(1, 3)),
                 int(rng.choice([1, 2, 3, 4, 7])), int(rng.integers(1, 200)),
                 int(rng.integers(1, 200)))
        check(rng, kernels, target, element, d, mask, shape)
    # Without keys, queries or heads there is nothing to add up.
    for shape in ((1, 1, 2, 5, 0), (1, 2, 1, 0, 5), (0, 1, 1, 3, 3)):
        check(rng, kernels, target, elements.split()[0], 64, "causal", shape)
    print("%s cases" % cases)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Top keys against NumPy: the monoid of the file, and one of eight keys that is
written likewise."""

import sys

import numpy as np

import attn

rng = np.random.default_rng(0)
with open(sys.argv[1], encoding="utf-8") as file:
    text = file.read()
q, k = (rng.standard_normal((2, 2, n, 32)).astype("f4") for n in (50, 300))
q[0, 0, 3] = 0  # all scores of the row are equal
s = q.astype("f8") @ k.astype("f8").swapaxes(-1, -2) / np.sqrt(32)
s[..., np.arange(50)[:, None] + 200 < np.arange(300)] = -np.inf
order = np.argsort(-s, -1, kind="stable")
names = ("where", "second", "where2", "margin", "count")
first, more = attn.attention(
    q, k, None, monoid=text, monoid_params=(0.5,), return_aux=names,
    mask=~np.isneginf(s),
)
best = np.take_along_axis(s, order[..., :2], -1)
assert np.abs(first - best[..., 0]).max() < 1e-5
assert np.array_equal(more["where"], order[..., 0]) and np.array_equal(more["where2"],
                                                                       order[..., 1])
assert np.abs(more["margin"] - (best[..., 0] - best[..., 1])).max() < 1e-5
near = np.abs(s - 0.5).min(-1) < 1e-5
assert np.array_equal(more["count"][~near], (s >= 0.5).sum(-1)[~near])


def top(count):
    """The text of a monoid of the `count` largest scores and their places."""
    names = ["%s%d" % (x, i) for i in range(count) for x in "sp"]
    states = len(names) * ["f32"]

    def args(prefix):
        return ", ".join("%%%s%s: f32" % (prefix, x) for x in names)

    def values(prefix):
        return ", ".join("%%%s%s" % (prefix, x) for x in names)

    # Each of b is inserted into what there is: what comes behind it moves on.
    body, number = [], 0
    have = [("%%as%d" % i, "%%ap%d" % i) for i in range(count)]
    for i in range(count):
        score, place, moves = "%%bs%d" % i, "%%bp%d" % i, "%false"
        for at in range(count):
            new = "%%n%d" % number
            number += 1
            old = have[at]
            body += [
                "%sg = arith.cmpf ogt, %s, %s : f32" % (new, score, old[0]),
                "%sc = arith.ori %s, %sg : i1" % (new, moves, new),
                "%ss = arith.select %sc, %s, %s : f32" % (new, new, score, old[0]),
                "%sp = arith.select %sc, %s, %s : f32" % (new, new, place, old[1]),
                "%st = arith.select %sc, %s, %s : f32" % (new, new, old[0], score),
                "%su = arith.select %sc, %s, %s : f32" % (new, new, old[1], place),
            ]
            have[at] = new + "s", new + "p"
            score, place, moves = new + "t", new + "u", new + "c"
    types = ", ".join(states)
    empty = "%none = arith.constant 0xFF800000 : f32 %no = arith.constant -1.0 : f32"
    empty += " %zero = arith.constant 0.0 : f32"
    rest = "".join(", %none, %no" for _ in range(count - 1))
    return """attn.monoid @top general stats(%s) components(unit) outputs(%s) {
  identity { %s attn.yield %%none, %%no%s, %%zero : %s, f32 }
  combine { ^bb0(%s, %%x: f32, %s, %%y: f32): %%false = arith.constant false %s
    attn.yield %s, %%x : %s, f32 }
  lift { ^bb0(%%s: f32, %%j: i32): %s %%place = arith.sitofp %%j : i32 to f32
    attn.yield %%s, %%place%s, %%zero : %s, f32 }
  finalize { ^bb0(%s, %%x: f32): attn.yield %s : %s }
}""" % (
        types, ", ".join('"%s"' % x for x in names), empty, rest, types,
        args("a"), args("b"), " ".join(body),
        ", ".join(x for pair in have for x in pair), types,
        empty.replace("0xFF800000", "-3.40282347e+38"), rest, types,
        args("f"), values("f"), types,
    )


names = ["%s%d" % (x, i) for i in range(8) for x in "sp"]
first, more = attn.attention(
    q, k, None, monoid=top(8), return_aux=names[1:], mask=~np.isneginf(s)
)
more["s0"] = first
for i in range(8):
    want = np.take_along_axis(s, order[..., i : i + 1], -1)[..., 0]
    assert np.abs(more["s%d" % i] - want).max() < 1e-5, i
    assert np.array_equal(more["p%d" % i], order[..., i]), i

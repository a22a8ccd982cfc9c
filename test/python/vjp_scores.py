# RUN: %python %s
"""Gradients of random score functions, with captured tensors and a scalar, of a
program that attn.differentiate has made: against differences in float64.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import sys

import numpy as np

import attn

# Text, and the same in NumPy; all are bounded where their operands are.
UNARY = {
    "math.tanh": np.tanh,
    "math.sin": np.sin,
    "math.cos": np.cos,
    "math.atan": np.arctan,
    "arith.negf": np.negative,
    "math.absf": np.abs,
}
BINARY = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
}
LEAVES = ("s", "row", "key", "c")


def grow(rng, depth):
    """A tree: the name of a leaf, or an operation and its operands."""
    if depth == 0:
        return str(rng.choice(LEAVES))
    if rng.random() < 0.4:
        return str(rng.choice(list(UNARY))), grow(rng, depth - 1)
    return str(rng.choice(list(BINARY))), grow(rng, depth - 1), grow(rng, depth - 1)


def leaves(tree):
    return {tree} if isinstance(tree, str) else set().union(*map(leaves, tree[1:]))


def write(tree, lines):
    if isinstance(tree, str):
        return "%" + tree
    operands = [write(part, lines) for part in tree[1:]]
    lines.append("%%x%d = %s %s : f32" % (len(lines), tree[0], ", ".join(operands)))
    return "%%x%d" % (len(lines) - 1)


def evaluate(tree, values):
    if isinstance(tree, str):
        return values[tree]
    function = UNARY.get(tree[0]) or BINARY[tree[0]]
    return function(*(evaluate(part, values) for part in tree[1:]))


PROGRAM = """
!rows = tensor<?x?x?x16xf32>
func.func @f(%q: !rows, %k: !rows, %v: !rows, %rows: tensor<?x?xf32>,
    %keys: tensor<?xf32>,
             %scalar: f32) -> !rows {
  %o = attn.attention monoid(@MONOID) queries(%q : !rows) keys(%k : !rows) values(%v
      : !rows)
      captures(%rows, %keys, %scalar : tensor<?x?xf32>, tensor<?xf32>, f32)
      {causal = #attn.causal<bottom_right>}
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %R: tensor<?x?xf32>,
        %K: tensor<?xf32>, %c: f32):
      %hi = arith.index_cast %h : i32 to index
      %ii = arith.index_cast %i : i32 to index
      %ji = arith.index_cast %j : i32 to index
      %row = tensor.extract %R[%hi, %ii] : tensor<?x?xf32>
      %key = tensor.extract %K[%ji] : tensor<?xf32>
      BODY
      attn.yield %score : f32
    } -> !rows
  return %o : !rows
}
"""


def loss(tree, monoid, do, q, k, v, rows, keys, c):
    dots = q @ k.swapaxes(-1, -2) / 4
    x = evaluate(tree, {"s": dots, "row": rows[None, :, :, None], "key": keys, "c": c})
    s = x + dots
    sq, sk = s.shape[-2:]
    live = np.arange(sk) <= np.arange(sq)[:, None] + sk - sq
    if monoid == "softmax":
        e = np.where(live,
                     np.exp(s - np.where(live, s, -np.inf).max(-1, keepdims=True)), 0)
        weights = e / e.sum(-1, keepdims=True)
    else:
        weights = np.where(live, 1 / (1 + np.exp(-s)), 0)
    return ((weights @ v) * do).sum()


def check(rng, monoid):
    tree = grow(rng, int(rng.integers(1, 5)))
    lines = []
    # The score itself is always in it.
    lines.append("%%score = arith.addf %s, %%s : f32" % write(tree, lines))
    text = PROGRAM.replace("MONOID", monoid).replace("BODY", "\n      ".join(lines))
    names = ("q", "k", "v", "rows", "keys", "scalar")
    inputs = ["q", "k", "v"]
    inputs += [name for name, leaf in zip(names[3:], LEAVES[1:])
               if leaf in leaves(tree)]
    program = attn.differentiate(text)
    b, h, sq, sk = 2, 2, int(rng.integers(2, 40)), int(rng.integers(40, 60))
    operands = [rng.standard_normal((b, h, s, 16)) for s in (sq, sk, sk)]
    operands += [rng.standard_normal((h, sq)), rng.standard_normal(sk),
                 rng.standard_normal()]
    given = [np.asarray(x, "f4") for x in operands]
    given[5] = float(given[5])
    operands = [np.asarray(x, "f8") for x in given]
    forward, backward = (
        attn.compile(program, entry="f_" + name) for name in ("forward", "backward")
    )
    results = forward(*given)
    results = results if isinstance(results, tuple) else (results,)
    o, state = results[0], results[1:]
    do = rng.standard_normal(o.shape).astype("f4")
    reads = [o] if state else []
    found = backward(*given, *state, *reads, do)
    assert len(found) == len(inputs), (text, program)
    for name, got in zip(inputs, found):
        at = names.index(name)
        got = got.astype("f8")
        if name == "rows":
            got = got.sum(0)
        elif name == "keys":
            got = got.sum((0, 1))
        elif name == "scalar":
            got = got.sum()
        step = 1e-6 * rng.standard_normal(operands[at].shape)
        ahead, behind = list(operands), list(operands)
        ahead[at], behind[at] = operands[at] + step, operands[at] - step
        want = (loss(tree, monoid, do, *ahead) - loss(tree, monoid, do, *behind)) / 2e-6
        size = np.abs(got * step).sum() * 1e6
        assert abs((got * step).sum() * 1e6 - want) <= 1e-4 * max(size, 1), (name, want,
                                                                             text)


def main(cases=10, seed=1):
    for case in range(int(cases)):
        rng = np.random.default_rng([int(seed), case])
        check(rng, ("softmax", "sigmoid_sum")[case % 2])
    print("%s cases" % cases)


if __name__ == "__main__":
    main(*sys.argv[1:])

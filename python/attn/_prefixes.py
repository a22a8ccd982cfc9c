"""attn.prefix_states: what a monoid makes of every prefix of the tokens.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import functools
import re
from typing import Any, Sequence

from . import _arrays as arrays
from . import _checks as checks
from . import _kernel
from . import _library as c
from ._attention import attention
from ._call import FLOATS
from ._checks import fail as _fail
from ._scans import as_float, as_own
from ._states import merge_states

# Tokens that are read together; those before them are one state.
_BLOCK = 256


def prefix_states(
    scores: Any,
    v: Any,
    *,
    monoid: str = "softmax",
    every: int = 1,
    monoid_params: Sequence[float] = (),
) -> Any:
    """The outputs of a monoid for the first n tokens, for every n or every `every`-th.

    With the default, softmax, output t is the average of the values up to token t,
    weighted by exp(score): attention with one query for all tokens (Aaren, RWKV-4).
    Takes time linear in the tokens, but for a `general` monoid whose lift reads
    the position, and on a GPU with other monoids than softmax: there quadratic.

    Args:
        scores: [b, h, t], of a float type; of a monoid whose lift takes several, a
            list of as many: with "mlstm" a weight, and the logarithms of a gate and of
            another weight.
        v: [b, hk, t, dv], of a float type. Sums are of float32.
        monoid: a shipped name or MLIR text, as in attn.attention.
        every: n; output i is that of the first n (i + 1) tokens.
        monoid_params: as in attn.attention.
    Returns:
        o [b, h, t // every, dv], the monoid's first output; with softmax (o, lse),
        lse [b, h, t // every].
    """
    every = checks.integer("every", every, 1)
    if not isinstance(monoid, str):
        found = arrays.describe(monoid)
        _fail("monoid to be a name or MLIR text", found, TypeError)
    several = list(scores) if isinstance(scores, (list, tuple)) else [scores]
    if not several:
        _fail("scores", "none")
    several = [as_own("scores", x, v) for x in several]
    arrays.view("v", v)
    for scores in several:
        _check(scores, v, several[0])
    scores = several[0]
    if v.shape[1] != scores.shape[1]:
        group = scores.shape[1] // max(v.shape[1], 1)
        v = v.repeat_interleave(group, 1) if arrays.is_torch(v) else v.repeat(group, 1)
    if monoid != "softmax":
        o = _of_monoid(several, v, monoid, tuple(monoid_params))
        return o[:, :, every - 1 :: every]
    if len(several) > 1:
        _fail("one array of scores for softmax", "%d" % len(several))
    # The state of the tokens so far is a result of attention, which would be rounded
    # to a type of 16 bits at each block: the sums would stand still.
    dtype = v.dtype
    scores, v = (as_float("scores", scores, True), as_float("v", v, True))
    # A query of 1 for every token, whose dot with a key is the key's score.
    keys = scores[:, :, :, None]
    ones = _ones_like(keys)
    parts, before = [], None
    for some in _blocks(scores.shape[2]):
        o, lse = attention(
            ones[some],
            keys[some],
            v[some],
            scale=1.0,
            causal="top_left",
            return_lse=True,
        )
        if before is not None:
            count = o.shape[2]
            o, lse = merge_states(
                _repeat(before[0], count), _repeat(before[1], count), o, lse
            )
        if o.shape[2]:
            before = o[:, :, -1:], lse[:, :, -1:]
        parts.append((o, lse))
    o, lse = (_concatenate([part[i] for part in parts], 2) for i in (0, 1))
    o = o[:, :, every - 1 :: every]
    o = o.to(dtype) if arrays.is_torch(o) else o.astype(dtype)
    return o, lse[:, :, every - 1 :: every]


def _check(scores, v, first):
    if arrays.view("scores", scores).dtype not in FLOATS:
        _fail("scores of a float type", arrays.describe(scores), TypeError)
    if arrays.view("v", v).dtype not in FLOATS:
        _fail("v of a float type", arrays.describe(v), TypeError)
    if len(scores.shape) != 3 or len(v.shape) != 4:
        _fail(
            "scores [b, h, t] and v [b, h, t, dv]",
            "%d and %d dimensions" % (len(scores.shape), len(v.shape)),
        )
    if tuple(scores.shape) != tuple(first.shape):
        _fail("scores of one shape, %s" % list(first.shape), list(scores.shape))
    if scores.shape[0] != v.shape[0] or scores.shape[2] != v.shape[2]:
        _fail(
            "scores and v of the same batches and tokens",
            "%s and %s" % (list(scores.shape), list(v.shape)),
        )
    if v.shape[1] and scores.shape[1] % v.shape[1]:
        _fail(
            "heads of scores to be a multiple of those of v",
            "%d and %d" % (scores.shape[1], v.shape[1]),
        )


def _blocks(count):
    """Slices of the tokens [b, h, t, ...] of each block."""
    for first in range(0, max(count, 1), _BLOCK):
        yield (slice(None), slice(None), slice(first, first + _BLOCK))


#
# Any monoid: states of the prefixes of each block, and times those before it
#
class _Monoid:
    """What the text of a monoid says of its states."""

    def __init__(self, text):
        whole = _kernel.compile_text(text, until_after="input").mlir("input")
        head = re.search(
            r"attn\.monoid @(\w+) (\w+) stats\(([^)]*)\) components\(([^)]*)\)"
            r"(?: params\(([^)]*)\))?",
            whole,
        )
        lift = re.search(r"lift \{\s*\^bb0\(([^)]*)\)(.*?)\n    \}", whole, re.S)
        words = lambda text: [x for x in re.split(r"[,\s]+", text or "") if x]
        self.text, self.name, self.kind = text, head[1], head[2]
        self.stats = len(words(head[3]))
        self.components, self.params = words(head[4]), len(words(head[5]))
        arguments = re.findall(r"(%\w+): ", lift[1])
        self.scores = len(arguments) - self.params
        self.reads_position = False
        if self.kind == "general":
            values = self.components.count("value")
            self.scores -= values + 1
            position = arguments[self.scores + values]
            self.reads_position = bool(re.search(position + r"\b", lift[2]))


@functools.lru_cache(maxsize=64)
def _monoid(name):
    text = name
    if "attn.monoid" not in name:
        found = c.lib.attnShippedMonoid(name.encode())
        if found is None:
            c.monoid_outputs(name)  # It says which there are.
        text = found.decode()
    return _Monoid(text)


@functools.lru_cache(maxsize=64)
def _kernels(name, channels):
    """(local, joined): the states of the prefixes of a block, and what is made of
    them behind a state, an output and the states."""
    m = _monoid(name)
    row, wide = "tensor<?x?x?xf32>", "tensor<?x?x?x%dxf32>" % channels
    one = "tensor<?x?x?x1xf32>"
    types = [row] * m.stats + [wide if x == "value" else row for x in m.components]
    joins = lambda xs: ", ".join(xs)
    count = m.components.count("value")
    params = ["%%p%d" % i for i in range(m.params)]
    captures = ["%%x%d" % i for i in range(m.scores)]
    given = lambda names, kinds: joins("%s: %s" % pair for pair in zip(names, kinds))
    f32 = ["f32"] * m.params
    clause = "params(%s : %s) " % (joins(params), joins(f32)) if params else ""
    point = "%b: i32, %h: i32, %i: i32"
    inside = ["%%y%d" % i for i in range(m.scores)]
    rows = given(inside, [row] * m.scores)
    parts = ["%%s%d" % i for i in range(len(types))]
    reads = "".join(
        "      %%e%d = tensor.extract %%y%d[%%bb, %%hh, %%jj] : %s\n" % (i, i, row)
        for i in range(m.scores)
    )
    scores = joins("%%e%d" % i for i in range(m.scores))
    values = "values(%s : %s)" % (joins(["%v"] * count), joins([wide] * count))
    values = values if count else ""
    local = f"""
func.func @local(%q: {one}, %k: {one}, %v: {wide}, {given(captures, [row] * m.scores)}
    {"".join(", %s: f32" % p for p in params)}) -> ({joins(types)}) {{
  %o:{len(types)} = attn.aggregate @{m.name} {clause}scores(%q, %k : {one}, {one})
      {values}
      captures({joins(captures)} : {joins([row] * m.scores)})
    score {{
    ^bb0(%d: f32, {point}, %j: i32, {rows}):
      %bb = arith.index_cast %b : i32 to index
      %hh = arith.index_cast %h : i32 to index
      %jj = arith.index_cast %j : i32 to index
{reads}      attn.yield {scores} : {joins(["f32"] * m.scores)}
    }}
    mask {{
    ^bb0({point}, %j: i32, {rows}):
      %live = arith.cmpi sle, %j, %i : i32
      attn.yield %live : i1
    }}
    finalize {{
    ^bb0({given(parts, ["f32"] * len(types))}, {point}, {rows}):
      attn.yield {joins(parts)} : {joins(["f32"] * len(types))}
    }} -> {joins(types)}
  return {joins("%%o#%d" % i for i in range(len(types)))} : {joins(types)}
}}"""
    pairs = [kind.replace("<", "<2x", 1) for kind in types]
    whole = joins("%%t#%d" % i for i in range(len(types)))

    def join(output):
        return f"""
func.func @joined({given(parts, pairs)}{"".join(", %s: f32" % p for p in params)})
    -> ({output}, {joins(types)}) {{
  %t:{len(types)} = attn.combine @{m.name}({joins(parts)} : {joins(pairs)})
      {clause}-> {joins(types)}
  %o = attn.finalize @{m.name}({whole} : {joins(types)}) {clause}-> {output}
  return %o, {whole} : {output}, {joins(types)}
}}"""

    compiled = lambda text: _kernel.compile_text(m.text + text)
    try:
        joined = compiled(join(wide))
    except ValueError:  # an output per row
        joined = compiled(join(row))
    return compiled(local), joined


def _of_monoid(several, v, name, params):
    if not isinstance(name, str):
        _fail("monoid to be a name or MLIR text", arrays.describe(name), TypeError)
    scores = several[0]
    monoid = _monoid(name)
    if len(several) != monoid.scores:
        _fail(
            "%d arrays of scores for the lift of %s" % (monoid.scores, monoid.name),
            "%d" % len(several),
        )
    if len(params) != monoid.params:
        _fail("%d monoid_params of %s" % (monoid.params, monoid.name), len(params))
    on_gpu = arrays.is_torch(scores) and scores.is_cuda
    if on_gpu or monoid.reads_position:
        if len(several) > 1:
            _fail("scores in host memory for a monoid of several", "a GPU's")
        keys = scores[:, :, :, None]
        return attention(
            _ones_like(keys),
            keys,
            v,
            scale=1.0,
            causal="top_left",
            monoid=name,
            monoid_params=params,
        )
    several = [as_float("scores", x, exact=True) for x in several]
    v = as_float("v", v, exact=True)
    local, joined = _kernels(name, v.shape[3])
    params = [float(x) for x in params]
    outputs, before = [], None
    for some in _blocks(scores.shape[2]):
        one = _ones_like(scores[some][:, :, :, None])
        states = local(one, one, v[some], *(x[some] for x in several), *params)
        states = list(states) if isinstance(states, (list, tuple)) else [states]
        count = one.shape[2]
        if before is None:  # Times nothing: the states of no keys.
            nothing = [x[some][:, :, :0] for x in several]
            none = one[:, :, :0]
            empty = local(one, none, v[some][:, :, :0], *nothing, *params)
            before = list(empty) if isinstance(empty, (list, tuple)) else [empty]
        else:
            before = [_repeat(x, count) for x in before]
        pairs = [_stack(pair) for pair in zip(before, states)]
        o, *states = joined(*pairs, *params)
        outputs.append(o)
        before = [x[:, :, -1:] for x in states]
    return _concatenate(outputs, 2)


def _ones_like(x):
    if arrays.is_torch(x):
        return arrays.torch_module().ones_like(x)
    import numpy

    return numpy.ones_like(x)


def _repeat(x, count):
    return x.repeat_interleave(count, 2) if arrays.is_torch(x) else x.repeat(count, 2)


def _stack(values):
    if arrays.is_torch(values[0]):
        return arrays.torch_module().stack(values)
    import numpy

    return numpy.stack(values)


def _concatenate(values, axis):
    if arrays.is_torch(values[0]):
        return arrays.torch_module().cat(values, axis)
    import numpy

    return numpy.concatenate(values, axis)

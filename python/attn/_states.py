"""attn.merge_states: results over parts of the keys, merged.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import ctypes
from typing import Any, Tuple

from . import _arrays as arrays
from . import _checks as checks
from . import _library as c
from ._checks import fail as _fail
from ._operands import LAYOUTS


def _stack(name, parts):
    """Arrays of one kind, type and shape as one, parts first."""
    first = parts[0]
    views = [arrays.view(name, part) for part in parts]
    for part, view in zip(parts, views):
        if arrays.kind_of(part) != arrays.kind_of(first):
            _fail(
                "%s of one kind, %s" % (name, type(first).__name__),
                type(part).__name__,
                TypeError,
            )
        if view.shape != views[0].shape or view.dtype != views[0].dtype:
            _fail(
                "%s like that of the first part, %s" % (name, arrays.describe(first)),
                arrays.describe(part),
            )
        if view.device != views[0].device:
            _fail(
                "%s on %s" % (name, arrays.where(views[0].device)),
                arrays.where(view.device),
            )
    if arrays.is_torch(first):
        return arrays.torch_module().stack(parts)
    if not arrays.is_numpy(first) and hasattr(first, "__array_namespace__"):
        return first.__array_namespace__().stack(parts)
    import numpy

    if not arrays.is_numpy(first):
        parts = [numpy.from_dlpack(part) for part in parts]
    # Of parts in another order, as transposed ones, it would keep that order.
    return numpy.ascontiguousarray(numpy.stack(parts))


def _parts_of(o1, lse1, o2, lse2):
    """The stacked outputs and LSEs of what merge_states was given."""
    if lse1 is None:
        if o2 is not None or lse2 is not None:
            _fail("lse1 with o1", "None")
        if arrays.kind_of(o1) or not hasattr(o1, "__iter__"):
            _fail("a list of pairs (o, lse), or lse1", arrays.describe(o1), TypeError)
        pairs = list(o1)
        for pair in pairs:
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                _fail("a list of pairs (o, lse)", arrays.describe(pair), TypeError)
        if not pairs:
            _fail("one pair (o, lse) or more", "none")
        return tuple(_stack(n, list(x)) for n, x in zip(("o", "lse"), zip(*pairs)))
    if (o2 is None) != (lse2 is None):
        _fail("both o2 and lse2, or neither", "one of them")
    if o2 is None:
        return o1, lse1
    return _stack("o", [o1, o2]), _stack("lse", [lse1, lse2])


def merge_states(
    o1: Any, lse1: Any = None, o2: Any = None, lse2: Any = None, *, layout: str = "bhsd"
) -> Tuple[Any, Any]:
    """Merges attention over parts of the keys to attention over all of them.

    merge_states(o1, lse1, o2, lse2)
        of two parts, as attn.attention(..., return_lse=True) gives them;
    merge_states([(o, lse), ...])
        of any number of parts;
    merge_states(o, lse)
        of parts that are one array already, [parts, ...], without a copy.

    Parts are merged in their order; another grouping differs by rounding. A kernel
    is compiled for the type and dv on the first call.

    Args:
        o1, o2: float32, float16 or bfloat16 outputs [b, hq, sq, dv], in the order
            that `layout` says.
        lse1, lse2: their float32 LSEs [b, hq, sq] ("thd": [hq, total_q]). -inf: the
            part has no keys, and what its output holds does not matter.
        layout: as in attn.attention.
    Returns:
        (o, lse), of the type and kind of o1 and in float32. A row without any keys
        is 0, and -inf.
    Raises:
        ValueError, TypeError: what was given does not fit.
    """
    axes = LAYOUTS[checks.choice("layout", layout, LAYOUTS)]
    stacked_o, stacked_lse = _parts_of(o1, lse1, o2, lse2)
    like = stacked_o
    o, lse = arrays.view("o", stacked_o), arrays.view("lse", stacked_lse)
    arrays.check_device("lse", lse, o.device)
    rank = len(axes)
    if len(o.shape) != rank + 1 or len(lse.shape) != rank:
        _fail(
            "parts of o of %d dimensions, [%s], and of lse of %d"
            % (rank, ", ".join(layout), rank - 1),
            "%d and %d" % (len(o.shape) - 1, len(lse.shape) - 1),
        )
    if o.dtype not in (c.F32, c.F16, c.BF16):
        _fail(
            "o of float32, float16 or bfloat16", arrays.describe(stacked_o), TypeError
        )
    if lse.dtype != c.F32:
        _fail("lse of float32", arrays.describe(stacked_lse), TypeError)
    results = arrays.empty(like, o.dtype, o.shape[1:]), arrays.empty(
        like, c.F32, lse.shape[1:]
    )
    views = [o.permuted((0,) + tuple(1 + axis for axis in axes)), lse]
    views.append(arrays.view("o", results[0]).permuted(axes))
    views.append(arrays.view("lse", results[1]))
    tensors, keep = arrays.pack(views)
    options = c.run_options(o.device)
    if o.device is not None:
        options.stream = arrays.stream_of(o.device)
    places = [ctypes.byref(tensor) for tensor in tensors]

    def call():
        return c.lib.attnMergeStates(c.context, *places, ctypes.byref(options))

    c.run(call, options)
    return tuple(arrays.like(like, result) for result in results)

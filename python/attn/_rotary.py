"""Rotary embedding of queries and keys, as attention reads them.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

from typing import Any

from . import _arrays as arrays
from . import _checks as checks
from . import _library as c
from ._checks import fail as _fail


class Rotary:
    """Angles by position, for attn.attention(..., rotary=).

    The first 2 n channels of queries and keys are n pairs, which turn before the
    product by the angle of their position: x becomes x cos - y sin, and y becomes
    y cos + x sin. Caches hold keys as they were before. Key j of a sequence is at
    position k_start + j, and query i where key i + (keys - queries) is; with causal
    "top_left" query i is at position i. A row at a position that the tables do not
    have is NaN.

    Args:
        cos, sin: float32 [positions, n], arrays of the kind and on the device of
            the queries. n is at most half of the head dimension; channels behind
            2 n stay as they are.
        interleaved: False: pair i has the channels i and i + n (Llama, GPT-NeoX);
            True: 2 i and 2 i + 1 (GPT-J).
        by_slot: positions are places in the cache, whatever k_start is, as those of
            StreamingLLM are.

    Raises:
        ValueError: tables of other shapes.
        TypeError: tables of another type.
    """

    __slots__ = "cos", "sin", "interleaved", "by_slot"

    def __init__(
        self, cos: Any, sin: Any, *, interleaved: bool = False, by_slot: bool = False
    ) -> None:
        for name, value in (("interleaved", interleaved), ("by_slot", by_slot)):
            checks.boolean(name, value)
        shapes = []
        for name, table in (("cos", cos), ("sin", sin)):
            found = arrays.view(name, table)
            if found.dtype != c.F32:
                _fail("%s of float32" % name, arrays.describe(table), TypeError)
            if len(found.shape) != 2 or found.shape[1] < 1:
                _fail("%s of shape [positions, n]" % name, list(found.shape))
            shapes.append(list(found.shape))
        if shapes[0] != shapes[1]:
            _fail("sin of the shape of cos, %s" % shapes[0], shapes[1])
        self.cos, self.sin = cos, sin
        self.interleaved, self.by_slot = bool(interleaved), bool(by_slot)

    @staticmethod
    def of(
        channels: int,
        positions: int,
        *,
        base: float = 10000.0,
        interleaved: bool = False,
        by_slot: bool = False
    ) -> "Rotary":
        """NumPy tables of the angles position * base ** (-2 i / channels).

        Args:
            channels: how many turn, an even number.
            positions: how many there are.
        """
        import numpy

        channels = checks.integer("channels", channels)
        positions = checks.integer("positions", positions, 0, 2**31 - 1)
        if channels < 2 or channels % 2:
            _fail("an even number of channels, at least 2", channels)
        base = checks.number("base", base)
        if not 0 < base < float("inf"):
            _fail("a base above 0, and finite", base)
        rates = base ** -(numpy.arange(0, channels, 2) / channels)
        angles = numpy.arange(positions)[:, None] * rates
        cos, sin = (f(angles).astype(numpy.float32) for f in (numpy.cos, numpy.sin))
        return Rotary(cos, sin, interleaved=interleaved, by_slot=by_slot)


def operands_of(rotary):
    """The tables, or None twice, and what else there is to know, of plain types."""
    if rotary is None:
        return (None, None), ()
    if not isinstance(rotary, Rotary):
        _fail("rotary to be an attn.Rotary", type(rotary).__name__, TypeError)
    return (rotary.cos, rotary.sin), (rotary.interleaved, rotary.by_slot)


def check_traced(rotary):
    """Where a call has gradients, or is traced."""
    if rotary is not None:
        _fail(
            "no rotary where a call has gradients or is traced",
            "one; rotate q and k before the call",
            NotImplementedError,
        )


def set_views(call, rotary):
    """The tables among the operands of a call; returns the last members of its
    description."""
    tables, flags = operands_of(rotary)
    if not flags:
        return (0, 0, 0)
    for name, table in zip(("rotary_cos", "rotary_sin"), tables):
        view = arrays.view(name, table)
        arrays.check_device(name, view, call.device)
        # One row, or none, has any stride.
        if view.shape[1] > 1 and view.strides[1] != 1 and not view.is_empty:
            _fail("%s with stride 1 in the last dimension" % name, view.strides[1])
        call.views[name] = view
    channels, depth = 2 * view.shape[1], call.views["q"].shape[-1]
    if channels > depth:
        _fail(
            "tables of at most %d columns, half of the head dimension" % (depth // 2),
            view.shape[1],
        )
    views = call.views
    if not (view.shape[0] or views["q"].is_empty or views["k"].is_empty):
        _fail("tables of a position or more", "none")
    _check_positions(call, view.shape[0])
    return (channels, int(flags[0]), int(flags[1]))


def _check_positions(call, positions):
    """Says of dense keys what sizes tell: other positions than the tables have."""
    views = call.views
    plain = call.layout != "thd" and not call.is_paged
    if not plain or "kv_lengths" in views or "k_start" in views:
        return
    last = views["k"].shape[2]
    if call.causal == "top_left":
        last = max(last, views["q"].shape[2])
    if last > positions:
        _fail("tables of a row for each position, %d" % last, positions)

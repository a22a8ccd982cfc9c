"""Where the gradients of rows, keys and pairs go in the arrays they are of.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

A place says at which indices a captured array is read: "h,i" for [h, i], a number for
a constant, "*" for an index that is computed. All is added up in float64, in a fixed
order.
"""

import re
from typing import Any, Dict, List, Tuple

from . import _arrays as arrays
from ._checks import fail


def parse(text: str) -> Dict[str, List[Tuple[str, str]]]:
    """Of each function of a program, the results as pairs of an argument and where it
    is read."""
    found = {}
    pattern = r"func\.func @(\w+)\(.*attributes \{attn\.gradients = \[([^\n]*)\]"
    for name, results in re.findall(pattern, text):
        strings = re.findall(r'"([^"]*)"', results)
        found[name] = [_split(string) for string in strings]
    return found


def near_diagonals(text: str) -> Tuple[int, int]:
    """From which distances on sums along diagonals are 0, of rows behind their keys
    and ahead of them; -1 for none."""
    found = re.search(r"attn\.near = array<i64: (-?\d+), (-?\d+)>", text)
    return (int(found[1]), int(found[2])) if found else (-1, -1)


def _split(string):
    name, _, place = string.partition("[")
    return name, place.rstrip("]")


class Total:
    """The gradient of an array, in the making.

    Args:
        like: an array of the kind to make.
        shape: that of the array; () for a number.
    """

    def __init__(self, like: Any, shape: Any):
        self.shape = tuple(shape)
        size = 1
        for n in self.shape:
            size *= n
        self.torch = arrays.torch_module() if arrays.is_torch(like) else None
        if self.torch is not None:
            self.device = like.device
            self.sum = self.torch.zeros(
                size, dtype=self.torch.float64, device=self.device
            )
        else:
            import numpy

            self.sum = numpy.zeros(size)

    def add(
        self, array: Any, place: str, positions: Dict[str, Any], computed: Any = ()
    ) -> None:
        """Adds up an array of gradients.

        Args:
            array: for each pair, row or key a gradient.
            place: where it is read.
            positions: for b, h, i, j the positions of the gradients, integers that
                broadcast to the shape of `array`, which are NumPy's.
            computed: for each "*" of `place`, an array of numbers.
        """
        import numpy

        computed = list(computed)
        if not self.sum.shape[0] or 0 in array.shape:
            return
        parts = [part for part in place.split(",") if part]
        if len(parts) != len(self.shape):
            fail("a capture of %d dimensions" % len(parts), list(self.shape))
        indices, is_unique = [], "*" not in parts
        for part, size in zip(parts, self.shape):
            if part == "*":
                if size > 1 << 24:
                    fail("a capture read at computed indices of at most 2^24 elements "
                         "in a dimension", size)
                index = computed.pop(0)
                to_integer = index.long if self.torch is not None else None
                index = to_integer() if to_integer else index.astype("i8")
            elif part.lstrip("-").isdigit():
                index = numpy.asarray(int(part))
            else:
                index = positions[part]
            if size == 1:
                index = numpy.zeros((), "i8")
            # An index out of range is brought into it, as in kernels.
            bounded = index.clip(0, size - 1)
            is_unique = is_unique and bool((bounded == index).all())
            indices.append(bounded)
        # What no index changes along is added up first.
        rank = len(array.shape)
        varies = {
            axis + rank - len(index.shape)
            for index in indices
            for axis, n in enumerate(index.shape)
            if n != 1
        }
        axes = tuple(axis for axis in range(rank) if axis not in varies)
        if axes and self.torch is not None:
            array = array.sum(dim=axes, dtype=self.torch.float64, keepdim=True)
        elif axes:
            array = numpy.sum(array, axis=axes, dtype="f8", keepdims=True)
        flat = self._number(numpy.zeros((), "i8"))
        for index, size in zip(indices, self.shape):
            flat = flat * size + self._number(index)
        self._scatter(array, flat, is_unique)

    def _number(self, index):
        """Integers as the sums are kept. Those that count are made where the sums are:
        a copy would wait for all that a GPU has to do before."""
        if self.torch is None or arrays.is_torch(index):
            return index
        import numpy

        first = int(index.flat[0])
        counts = numpy.arange(first, first + index.size).reshape(index.shape)
        if self.device.type != "cpu" and (index == counts).all():
            made = self.torch.arange(first, first + index.size, device=self.device)
            return made.reshape(index.shape)
        return self.torch.from_numpy(numpy.array(index)).to(self.device)

    def _scatter(self, array, flat, is_unique):
        import numpy

        if self.torch is None:
            flat = numpy.broadcast_to(flat, array.shape).ravel()
            numpy.add.at(self.sum, flat, array.astype("f8").ravel())
            return
        values = array.to(self.torch.float64).reshape(-1)
        flat = flat.expand(array.shape).reshape(-1)
        if self.device.type == "cpu":
            numpy.add.at(self.sum.numpy(), flat.numpy(), values.numpy())
        elif is_unique:
            self.sum[flat] += values
        else:
            # In the order of the positions, which it sorts, one after the other of
            # those at a place: a far distance has most. So they are dealt out.
            size, count = self.sum.shape[0], values.shape[0]
            parts = max(min(count // 256, (1 << 20) // size), 1)
            part = self.torch.arange(count, device=self.device) % parts
            found = self.sum.new_zeros(size * parts)
            found.index_put_((flat * parts + part,), values, accumulate=True)
            self.sum += found.view(size, parts).sum(1)

    def get(self) -> Any:
        """What there is now, float32."""
        if self.torch is not None:
            return self.sum.to(self.torch.float32).reshape(self.shape)
        return self.sum.astype("f4").reshape(self.shape)


def add_up(array: Any, axes: Any, shape: Any) -> Any:
    """Adds up dimensions in float64, in a fixed order; float32 of `shape`."""
    axes = tuple(axes)
    if arrays.is_torch(array):
        torch = arrays.torch_module()
        if axes:
            array = array.sum(dim=axes, dtype=torch.float64)
        return array.to(torch.float32).reshape(shape)
    import numpy

    if axes:
        array = numpy.sum(array, axis=axes, dtype=numpy.float64)
    return numpy.asarray(array).astype(numpy.float32).reshape(shape)


def add_diagonals(array: Any) -> Any:
    """Of an array [b, h, t + n, n] the sums [b, h, t] of the elements [t + c, c] over
    c, in float64."""
    b, h, rows, n = array.shape
    shape = b, h, rows - n, n
    if arrays.is_torch(array):
        outer = array.stride()[:2]
        view = array.as_strided(shape, (*outer, n, n + 1))
        return view.sum(-1, dtype=arrays.torch_module().float64)
    import numpy

    size = array.itemsize
    view = numpy.lib.stride_tricks.as_strided(
        array, shape, (*array.strides[:2], n * size, (n + 1) * size)
    )
    return view.sum(-1, dtype="f8")


def positions_of_rows(shape: Any) -> Dict[str, Any]:
    """Of an array [b, h, i], or of keys, [b, h, j]."""
    import numpy

    b, h, i = (numpy.arange(n) for n in shape)
    return {"b": b[:, None, None], "h": h[:, None], "i": i, "j": i}


def positions_of_pairs(shape: Any, first: int) -> Dict[str, Any]:
    """Of an array [b, h, i, j], whose first key is `first`."""
    import numpy

    b, h, i, j = (numpy.arange(n) for n in shape)
    rows = positions_of_rows(shape[:3])
    found = {name: rows[name][..., None] for name in "bhi"}
    found["j"] = j + first
    return found


def positions_in_sequences(offsets: Any, shape: Any) -> Tuple[Any, Dict[str, Any]]:
    """Of an array [h, rows] of packed sequences: the rows that one has, and where these
    are."""
    import numpy

    heads, count = shape
    offsets = [min(max(int(x), 0), count) for x in offsets]
    sizes = [max(last - first, 0) for first, last in zip(offsets, offsets[1:])]
    starts = numpy.repeat(numpy.asarray(offsets[:-1], "i8"), sizes)
    places = [numpy.arange(n) for n in sizes]
    place = numpy.concatenate(places) if places else numpy.zeros(0, "i8")
    sequence = numpy.repeat(numpy.arange(len(sizes)), sizes)
    positions = {
        "b": sequence,
        "h": numpy.arange(heads)[:, None],
        "i": place,
        "j": place,
    }
    return starts + place, positions

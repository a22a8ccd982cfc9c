"""Backward passes that take some of the keys at a time.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

A block is of 128 keys or fewer. Of captures with an element for each row and key a
block at a time is computed and added up; of suffix and prefix monoids a block is all
that the kernels know, and what they have of the other keys is carried to it here; so
are the states of general monoids, and their cotangents on the way back.
"""

import math
from typing import Any, Dict, List

from . import _arrays as arrays
from . import _gradient_sums as sums
from . import _library as c


def _part(view, axis, first, count):
    """Some of a view, along one dimension."""
    shape = view.shape[:axis] + (count,) + view.shape[axis + 1 :]
    offset = first * view.strides[axis] * arrays.item_size(view.dtype)
    data = (view.data or 0) + offset
    return arrays.View(data, view.dtype, shape, view.strides, view.owner, view.device)


def _doubles(like, shape):
    """Zeros in float64."""
    if arrays.is_torch(like):
        torch = arrays.torch_module()
        return torch.zeros(shape, dtype=torch.float64, device=like.device)
    import numpy

    return numpy.zeros(shape)


def _floats(array):
    """Float64 as float32."""
    if arrays.is_torch(array):
        return array.to(arrays.torch_module().float32)
    return array.astype("f4")


class _Blocks:
    """The blocks of keys of a plan.

    Args:
        plan: the call.
        kernel: one that takes some of the keys.
        inputs: views of what kernels take, up to the cotangents.
    """

    step = 128  # keys of a block, which the compiler has, too

    def __init__(self, plan: Any, kernel: Any, inputs: List[Any]):
        self.plan, self.inputs = plan, inputs
        self.like = plan.call.like
        self.b, self.hq, self.sq, _ = plan.call.views["q"].shape
        _, self.hk, self.sk, _ = plan.call.views["k"].shape
        self.names = [arg.name for arg in kernel.inputs][: len(inputs)]
        self.has_rows = bool(self.b and self.hq and self.sq)

    def firsts(self):
        """The first key of each block."""
        return range(0, self.sk if self.has_rows else 0, self.step)

    def count(self, first):
        return min(self.step, self.sk - first)

    def matrix(self, name, fill):
        """A matrix that all heads share; `fill` gives ones their rows and columns."""
        array = arrays.empty(self.like, c.F32, (self.step, self.step))
        if arrays.is_torch(array):
            rows = arrays.torch_module().arange(self.step, device=array.device)
        else:
            import numpy

            rows = numpy.arange(self.step)
        array[...] = fill(rows[:, None], rows)
        view = arrays.view(name, array)
        shape = (self.b, self.hk, self.step, self.step)
        return arrays.View(
            view.data, c.F32, shape, (0, 0, self.step, 1), array, view.device
        )

    def rows(self, count=1):
        """Arrays with a number for each row."""
        shape = self.b, self.hq, self.sq
        return [arrays.empty(self.like, c.F32, shape) for _ in range(count)]

    def pairs(self, count=1):
        """Arrays with a number for each row and key of a block."""
        shape = self.b, self.hq, self.sq, self.step
        return [arrays.empty(self.like, c.F32, shape) for _ in range(count)]

    def run(self, kernel, first, more, outputs):
        """Runs a kernel for the keys from `first` on, with matrices cut to them."""
        count, views = self.count(first), []
        for name, view in zip(self.names, self.inputs):
            views.append(_part(view, 2, first, count) if name in ("k", "v") else view)
        for view in more:
            is_matrix = isinstance(view, arrays.View)
            views.append(
                _part(view, 2, 0, count) if is_matrix else arrays.view("a block", view)
            )
        views.append(arrays.scalar("first_key", first, c.I32))
        views.append(arrays.scalar("num_keys", self.sk, c.I32))
        outputs = [
            view if isinstance(view, arrays.View) else arrays.view("a result", view)
            for view in outputs
        ]
        self.plan._run(kernel, views, outputs)


class _Pairs:
    """Gradients of captures of pairs and of tables, in the making."""

    def __init__(self, plan: Any, blocks: _Blocks):
        self.plan, self.blocks = plan, blocks
        self.kernel = plan.program.pairs
        self.totals = {}
        for name, _ in plan.program.of_pairs:
            if name != "#index":
                total = sums.Total(plan.call.like, plan._shape_of(name))
                self.totals.setdefault(name, total)
        self.identity = blocks.matrix("identity", lambda i, j: i == j)
        self.parts = blocks.pairs(len(self.kernel.outputs))

    def add(self, first: int, more: List[Any]) -> None:
        """Adds what the keys from `first` on have."""
        blocks, count = self.blocks, self.blocks.count(first)
        blocks.run(self.kernel, first, more + [self.identity], self.parts)
        shape = blocks.b, blocks.hq, blocks.sq, count
        positions = sums.positions_of_pairs(shape, first)
        results = iter(zip(self.plan.program.of_pairs, self.parts))
        for (name, place), part in results:
            computed = [next(results)[1][..., :count] for _ in range(place.count("*"))]
            if name == "bias":
                place = "b,h,i,j"
            self.totals[name].add(part[..., :count], place, positions, computed)

    def finish(self, found: Dict[str, Any]) -> None:
        for name, total in self.totals.items():
            array = total.get()
            if name == "bias":
                array = array.reshape(self.plan.given[name].shape)
            found[name] = array


def run_pairs(plan: Any, inputs: List[Any], found: Dict[str, Any]) -> None:
    """Runs the kernel of pairs for some keys after others, and adds up what they have.

    Args:
        plan: the call.
        inputs: views of what the kernel takes, up to the cotangents.
        found: takes the gradients by name.
    """
    blocks = _Blocks(plan, plan.program.pairs, inputs)
    pairs = _Pairs(plan, blocks)
    for first in blocks.firsts():
        pairs.add(first, [])
    pairs.finish(found)


def run_distances(plan: Any, inputs: List[Any], found: Dict[str, Any]) -> None:
    """Runs the kernel of tables by distance, and adds up what they have.

    Args:
        plan: the call.
        inputs: views of what the kernel takes, up to the cotangents.
        found: takes the gradients by name.
    """
    kernel, program, step = plan.program.distances, plan.program, _Blocks.step
    b, hq, sq, _ = plan.call.views["q"].shape
    sk = plan.call.views["k"].shape[2]
    base = -(-sk // step) * step
    count = -(-sq // step) * step + base
    behind, ahead = program.near
    # Beyond these sums are 0: element t is of rows t - base behind their keys.
    first = 0 if ahead < 0 else max(base - ahead + 1, 0)
    end = count if behind < 0 else max(min(base + behind, count), first)
    made = []
    for arg in kernel.outputs:
        # Behind the sums a tile of zeros, in which the last diagonals end.
        is_sum = len(arg.shape) == 4
        shape = (b, hq, count + step, step) if is_sum else (b, hq, count)
        made.append(arrays.empty(plan.call.like, c.F32, shape))
        if is_sum:
            made[-1][:, :, count:] = 0
    views = [arrays.view("a result", x[:, :, :count]) for x in made]
    plan._run(kernel, inputs, views)
    totals = {}
    results = iter(zip(program.of_distances, made))
    for (name, place), array in results:
        # What differs by the head alone is the same for all batches.
        computed = [
            next(results)[1][:1, :, first:end] for _ in range(place.count("*"))
        ]
        if name not in totals:
            totals[name] = sums.Total(plan.call.like, plan._shape_of(name))
        diagonals = sums.add_diagonals(array[:, :, first : end + step])
        positions = sums.positions_of_rows(diagonals.shape)
        totals[name].add(diagonals, place, positions, computed)
    for name, total in totals.items():
        far = found.get(name)
        found[name] = total.get() if far is None else far + total.get()


class _Backward:
    """Gradients of what the kernel of a block gives, in the making: of keys a part each
    time, of rows sums over the blocks, in float64."""

    def __init__(self, plan: Any, blocks: _Blocks):
        self.plan, self.blocks = plan, blocks
        self.kernel = plan.program.backward
        outputs = self.kernel.outputs[: len(plan.program.of_backward)]
        self.made, self.views = plan._make(self.kernel, outputs)
        self.of_keys = [plan._is_of_keys(arg) for arg in outputs]
        self.totals = [
            None if of_keys else _doubles(array, tuple(array.shape))
            for of_keys, array in zip(self.of_keys, self.made)
        ]
        if not blocks.has_rows:
            for array in self.made:
                array[...] = 0

    def add(self, first: int, more: List[Any], last: List[Any] = ()) -> None:
        """Adds what the keys from `first` on have; `last` takes what the kernel gives
        beside gradients."""
        count = self.blocks.count(first)
        outputs = [
            _part(view, 2, first, count) if of_keys else view
            for of_keys, view in zip(self.of_keys, self.views)
        ]
        self.blocks.run(self.kernel, first, more, outputs + list(last))
        for total, array in zip(self.totals, self.made):
            if total is not None:
                total += array

    def finish(self, found: Dict[str, Any]) -> None:
        places = zip(self.plan.program.of_backward, self.of_keys)
        for ((name, place), of_keys), total, array in zip(
            places, self.totals, self.made
        ):
            if total is not None:
                array = _floats(total)
            if name not in ("q", "k", "v"):
                array = self.plan._reduce(name, place, array, of_keys)
            found[name] = self.plan._as_input(name, array)


def walk(plan: Any, inputs: List[Any], found: Dict[str, Any]) -> None:
    """The backward pass of a suffix or prefix monoid, block by block, twice.

    A block takes the statistics of the keys beyond it, whose gates scale its weights,
    and what weights times their cotangents add up to on its other side. The first way
    through the blocks adds the latter up, the second computes gradients. Both take the
    same numbers, in float64: of what is taken off 2^-53 of the sum may be left.

    Args:
        plan: the call.
        inputs: views of what the kernels take, up to the cotangents.
        found: takes the gradients by name.
    """
    program = plan.program
    states = program.states
    blocks = _Blocks(plan, states, inputs)
    stats = (len(states.outputs) - 2) // 2
    is_suffix = any(arg.name == "later0" for arg in states.inputs)
    matrices = [
        blocks.matrix("is_later", lambda i, j: i > j),
        blocks.matrix("is_earlier", lambda i, j: i < j),
    ]
    beyond, in_block = blocks.pairs(stats), blocks.pairs()
    ends, total = blocks.rows(stats), blocks.rows()
    firsts = list(blocks.firsts())
    if is_suffix:
        firsts.reverse()
    shape = blocks.b, blocks.hq, blocks.sq
    rest = _doubles(total[0], shape)
    backward = program.backward and _Backward(plan, blocks)
    pairs = program.pairs and _Pairs(plan, blocks)

    def go(step):
        sums_of_stats = [_doubles(total[0], shape) for _ in range(stats)]
        for first in firsts:
            carried = [_floats(x) for x in sums_of_stats]
            outputs = beyond + ends + in_block + total
            blocks.run(states, first, carried + matrices, outputs)
            step(first, carried)
            for x, end in zip(sums_of_stats, ends):
                x += end

    def add_up(first, carried):
        nonlocal rest
        rest += total[0]

    def differentiate(first, carried):
        nonlocal rest
        if len(firsts) > 1:
            rest -= total[0]
        more = carried + beyond + [_floats(rest)] + in_block
        if backward:
            backward.add(first, more)
        if pairs:
            pairs.add(first, more)

    if len(firsts) > 1:  # the rest of one block is 0
        go(add_up)
    go(differentiate)
    for part in (backward, pairs):
        if part:
            part.finish(found)


def unfold(plan: Any, inputs: List[Any], found: Dict[str, Any]) -> None:
    """The backward pass of a general monoid: through the blocks for their states, and
    back with cotangents.

    Of n blocks the states ahead of sqrt(n) are kept on the way there, and those of the
    sqrt(n) between two of them on the way back, where they are computed again.

    Args:
        plan: the call.
        inputs: views of what the kernels take, up to the cotangents.
        found: takes the gradients by name.
    """
    program = plan.program
    blocks = _Blocks(plan, program.states, inputs)
    shape = blocks.b, blocks.hq, blocks.sq
    shapes = [
        shape + tuple(arg.shape[3:])
        for arg in program.states.inputs
        if arg.name.startswith("state")
    ]
    backward = _Backward(plan, blocks)
    pairs = program.pairs and _Pairs(plan, blocks)

    def state():
        return [arrays.empty(blocks.like, c.F32, shape) for shape in shapes]

    def behind(number, ahead):
        result = state()
        blocks.run(program.states, firsts[number], ahead, result)
        return result

    firsts = list(blocks.firsts())
    stride = max(math.isqrt(len(firsts)), 1)
    kept, ahead = [], state()  # the first block begins with the identity
    for number in range(0, len(firsts), stride):
        kept.append(ahead)
        end = min(number + stride, len(firsts))
        for i in range(number, end if end < len(firsts) else number):
            ahead = behind(i, ahead)
    cotangents = state()  # the last block makes its own
    while kept:
        number = (len(kept) - 1) * stride
        states = [kept.pop()]
        end = min(number + stride, len(firsts))
        for i in range(number, end - 1):
            states.append(behind(i, states[-1]))
        for i in reversed(range(number, end)):
            more, cotangents = states.pop() + cotangents, state()
            backward.add(firsts[i], more, cotangents)
            if pairs:
                pairs.add(firsts[i], more)
    backward.finish(found)
    if pairs:
        pairs.finish(found)

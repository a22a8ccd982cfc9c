"""Derivatives in reverse, of arrays: the reference of random gradients.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

With no type it computes in float64. With one, the result of each operation is
rounded to it, of the derivative's as of the function's; sums of products are added up
in float32, in one of several orders, and rounded at their end. With `noise`, results
are not rounded but off at random, by as much: what cancels in one order of operations
need not in another.
"""

import numpy as np


class Tape:
    def __init__(self, dtype=None, order=0, noise=None):
        self.dtype, self.order, self.noise, self.nodes = dtype, order, noise, []
        # Terms of a partial sum, from 6 on one after the other.
        self.step = 1 if order >= 6 else 8 * order

    def round(self, x):
        x = np.asarray(x, "f8")
        if self.dtype is None:
            return x
        if self.noise is None:
            return x.astype(self.dtype).astype("f8")
        size = {2: 2.0**-8 if self.dtype != np.float16 else 2.0**-11, 4: 2.0**-23}
        size = size[np.dtype(self.dtype).itemsize]
        return x.astype("f4").astype("f8") * (1 + self.noise.uniform(-size, size,
                                                                     x.shape))

    def leaf(self, value):
        return self._node(value, ())

    def _node(self, value, parents):
        node = Node(self, self.round(value), parents)
        self.nodes.append(node)
        return node

    def sum(self, x, axis):
        """A sum that keeps its dimensions."""
        if self.dtype is None:
            return x.sum(axis, keepdims=True)
        x = x.astype("f4")
        if self.order:
            x = np.flip(x, axis)
        if self.order > 1:  # by float32 partial sums of few
            count = x.shape[axis]
            parts = [
                np.take(x, range(i, min(i + self.step, count)), axis).sum(axis,
                                                                          keepdims=True)
                for i in range(0, count, self.step)
            ]
            total = np.zeros_like(x.sum(axis, keepdims=True))
            for part in parts:
                total = total + part
            return total.astype("f8")
        return x.sum(axis, keepdims=True).astype("f8")

    def matmul(self, a, b):
        if self.dtype is None:
            return a @ b
        a, b = a.astype("f4"), b.astype("f4")
        if not self.order:
            return (a @ b).astype("f8")
        step, total = self.step, 0
        for i in range(max(a.shape[-1] - 1, 0) // step * step, -1, -step):
            total = total + a[..., i : i + step] @ b[..., i : i + step, :]
        return np.asarray(total, "f8")

    def collapse(self, gradient, shape):
        """What a value has that was repeated."""
        for axis, size in enumerate(shape):
            if gradient.shape[axis] != size:
                gradient = self.round(self.sum(gradient, axis))
        return gradient

    def backward(self, seeds):
        """`seeds`: pairs of a node and its cotangent."""
        for node in self.nodes:
            node.gradient = None
        for node, seed in seeds:
            node.accumulate(np.broadcast_to(seed, node.value.shape))
        for node in reversed(self.nodes):
            if node.gradient is None:
                continue
            for parent, function in node.parents:
                parent.accumulate(function(node.gradient))


class Node:
    def __init__(self, tape, value, parents, is_constant=False):
        self.tape, self.value, self.parents, self.gradient = tape, value, parents, None
        self.is_constant = is_constant

    def accumulate(self, gradient):
        if self.is_constant:
            return
        gradient = self.tape.collapse(self.tape.round(gradient), self.value.shape)
        if self.gradient is not None:
            gradient = self.tape.round(self.gradient + gradient)
        self.gradient = gradient

    def _of(self, other):
        if isinstance(other, Node):
            return other
        other = np.asarray(other, "f8")
        shape = (1,) * (self.value.ndim - other.ndim) + other.shape
        return Node(self.tape, other.reshape(shape), (), is_constant=True)

    def _unary(self, value, slope):
        return self.tape._node(value, ((self, lambda g: g * slope),))

    def __add__(self, other):
        other = self._of(other)
        return self.tape._node(
            self.value + other.value, ((self, lambda g: g), (other, lambda g: g))
        )

    def __sub__(self, other):
        other = self._of(other)
        return self.tape._node(
            self.value - other.value, ((self, lambda g: g), (other, lambda g: -g))
        )

    def __mul__(self, other):
        other = self._of(other)
        return self.tape._node(
            self.value * other.value,
            ((self, lambda g: g * other.value), (other, lambda g: g * self.value)),
        )

    def __truediv__(self, other):
        """0 where the divisor is, with no derivative there."""
        other = self._of(other)
        good = other.value != 0
        by = np.where(good, other.value, 1)
        value = self.tape.round(np.where(good, self.value / by, 0))
        return self.tape._node(
            value,
            (
                (self, lambda g: np.where(good, g / by, 0)),
                (other, lambda g: np.where(good, -g * self.tape.round(value / by), 0)),
            ),
        )

    __radd__, __rmul__ = __add__, __mul__

    def exp(self):
        value = self.tape.round(np.exp(self.value))
        return self._unary(value, value)

    def log(self):
        """-inf at 0, with no derivative there."""
        good = self.value > 0
        by = np.where(good, self.value, 1)
        value = np.where(good, np.log(by), -np.inf)
        return self.tape._node(value, ((self, lambda g: np.where(good, g / by, 0)),))

    def tanh(self):
        value = self.tape.round(np.tanh(self.value))
        return self._unary(value, 1 - self.tape.round(value * value))

    def relu(self):
        return self._unary(np.maximum(self.value, 0), (self.value > 0) * 1.0)

    def sigmoid(self):
        value = self.tape.round(1 / (1 + self.tape.round(np.exp(-self.value))))
        return self._unary(value, self.tape.round(value * self.tape.round(1 - value)))

    def where(self, condition, otherwise=0.0):
        value = np.where(condition, self.value, otherwise)
        return self.tape._node(value, ((self, lambda g: np.where(condition, g, 0)),))

    def sum(self, axis=-1):
        spread = lambda g: np.broadcast_to(g, self.value.shape)
        return self.tape._node(self.tape.sum(self.value, axis), ((self, spread),))

    def maximum(self):
        """Over the last dimension; the first of equals has the derivative."""
        value = self.value.max(-1, initial=-np.inf, keepdims=True)
        if not self.value.shape[-1]:
            return self.tape._node(value, ())
        first = np.arange(self.value.shape[-1]) == self.value.argmax(-1)[..., None]
        return self.tape._node(value, ((self, lambda g: np.where(first, g, 0)),))

    def matmul(self, other, transposed=False):
        """[..., m, n] by [..., n, p], or by the rows of [..., p, n]."""
        flip = lambda x: x.swapaxes(-1, -2)
        right = flip(other.value) if transposed else other.value
        of_right = lambda g: self.tape.matmul(flip(self.value), g)
        return self.tape._node(
            self.tape.matmul(self.value, right),
            (
                (self, lambda g: self.tape.matmul(g, flip(right))),
                (other, (lambda g: flip(of_right(g))) if transposed else of_right),
            ),
        )

    def reshape(self, *shape):
        return self.tape._node(
            self.value.reshape(shape), ((self, lambda g: g.reshape(self.value.shape)),)
        )

    def take(self, *indices):
        """Elements of a table, at integers that broadcast."""
        def scatter(g):
            total = np.zeros(self.value.shape)
            np.add.at(total, tuple(np.broadcast_arrays(*indices)), g)
            return total

        return self.tape._node(self.value[indices], ((self, scatter),))

# RUN: %python %s 1 1
"""Gradients of attn.attention_vjp on the CPU beside finite differences of the forward
pass, which the interpreter of the IR evaluates in float64: every shipped monoid of one
score, with options by turns.

usage: finite_differences.py [ROUNDS] [SEED]

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import ctypes
import sys

import numpy as np

import attn
from attn import _library

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 2
rng = np.random.default_rng(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
MONOIDS = ("softmax", "softmax_max", "softmax_entropy", "logsumexp", "sigmoid_sum",
           "relu_sum", "relu2_sum", "stick_breaking", "alpha_compositing", "maxplus",
           "welford")
# Of each input a direction, along which it moves by exact steps.
STEP = 2.0**-13
SCORE = """^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?xf32>):
  %at = arith.index_cast %h : i32 to index
  %x = tensor.extract %t[%at] : tensor<?xf32>
  %y = math.tanh %s : f32
  %z = arith.mulf %y, %x : f32
  attn.yield %z : f32"""


def tensor(array):
    sizes = lambda values: (ctypes.c_int64 * max(len(values), 1))(*values)
    return _library.Tensor(
        array.ctypes.data, _library.DTYPE_NAMES.index(
            {"float32": "f32", "float64": "f64", "int32": "i32"}[array.dtype.name]),
        array.ndim, sizes(array.shape),
        sizes([s // array.itemsize for s in array.strides]))


def evaluate(text, inputs, shapes):
    """The outputs by the interpreter, float64."""
    outputs = [np.zeros(shape) for shape in shapes]
    pack = lambda arrays: (_library.Tensor * len(arrays))(*map(tensor, arrays))
    data = text.encode()
    _library.check(_library.lib.attnEvaluate(
        data, ctypes.c_size_t(len(data)), None, pack(inputs),
        ctypes.c_size_t(len(inputs)), pack(outputs), ctypes.c_size_t(len(outputs)), 0))
    return outputs


def draw(*shape):
    """Numbers that steps move exactly."""
    return (rng.integers(-1024, 1024, shape) / 512).astype("f4")


def options_of(monoid, round_number):
    """Options, by turns, and arrays that have gradients."""
    softmax = monoid in ("softmax", "softmax_max", "softmax_entropy", "logsumexp")
    choices = [
        ({}, {}),
        ({"causal": "bottom_right"}, {}),
        ({"window": (3, 1), "causal": None}, {}),
        ({"softcap": 3.0}, {}),
        ({}, {"bias": draw(1, 4, 6, 7)}),
        ({"causal": "top_left"}, {"alibi_slopes": np.abs(draw(4)) / 4}),
        ({"score_mod": SCORE}, {"t": draw(4)}),
    ]
    if softmax:
        choices.append(({}, {"sinks": draw(4)}))
    some = rng.permutation(len(choices))[:2]
    return [choices[0]] * (round_number == 0) + [choices[i] for i in some]


def check(monoid, options, arrays):
    names = _library.monoid_outputs(monoid)
    q, k, v = draw(1, 4, 6, 8), draw(1, 2, 7, 8), draw(1, 2, 7, 8)
    v = None if monoid == "logsumexp" else v
    options = dict(options, monoid=monoid)
    aux = [name for name in names if name != "o"]
    if aux:
        options["return_aux"] = aux
    given = {name: x for name, x in arrays.items() if name != "t"}
    if "t" in arrays:
        options["captures"] = {"t": arrays["t"]}
    _, vjp = attn.attention_vjp(q, k, v, **options, **given)
    kernel = attn.compile(q, k, v, **options, **given)
    text = kernel.mlir("aggregate")
    values = dict(q=q, k=k, v=v, **arrays)
    left, right = options.get("window", (-1, -1))
    scalars = {"softcap": np.float32(3.0), "window_left": np.int32(left),
               "window_right": np.int32(right)}

    def forward(moved):
        inputs = []
        for info in kernel.inputs:
            x = moved[info.name] if info.name in moved else scalars[info.name]
            inputs.append(np.array(x, order="C"))
        shapes = [(1, 4, 6, 8) if rank == 4 else (1, 4, 6) for rank in ranks]
        return evaluate(text, inputs, shapes)

    ranks = [len(info.dims) for info in kernel.outputs]
    seeds = [draw(*((1, 4, 6, 8) if rank == 4 else (1, 4, 6))) for rank in ranks]
    cotangents = {"d" + info.name: seed
                  for info, seed in zip(kernel.outputs, seeds)}
    found = vjp(**cotangents)
    loss = lambda moved: sum((np.where(np.isfinite(x), x, 0) * seed).sum()
                             for x, seed in zip(forward(moved), seeds))
    for name, gradient in found.items():
        for _ in range(5):
            way = rng.choice([-1.0, 1.0], values[name].shape)
            at = lambda n: dict(values, **{name: (values[name] + n * STEP * way)
                                           .astype("f4")})
            f = {n: loss(at(n)) for n in (-2, -1, 1, 2)}
            wide, narrow = (f[2] - f[-2]) / (4 * STEP), (f[1] - f[-1]) / (2 * STEP)
            want = (4 * narrow - wide) / 3
            got = (gradient.astype("f8") * way).sum()
            # A gradient that is 0, as that of scores which a monoid does not
            # read, is off by what sums of float32 are off.
            size = np.abs(gradient).sum() + 0.5
            # Between two steps a maximum or a step of the monoid may lie.
            if abs(wide - narrow) <= 3e-5 * size:
                break
        else:
            continue
        assert abs(got - want) <= 2e-4 * size, (monoid, options, name, got, want, size)
    return len(found)


def main():
    count = 0
    for round_number in range(ROUNDS):
        for monoid in MONOIDS:
            for options, arrays in options_of(monoid, round_number):
                count += check(monoid, options, arrays)
    print("%d gradients beside finite differences" % count)


main()

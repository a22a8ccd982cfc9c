"""Operands of a test on a GPU: NumPy's arrays as tensors of torch there, and back.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import ml_dtypes
import numpy as np


def to_gpu(x):
    """A tensor with the numbers and the strides of an array, between bands of NaN
    where it is a view of a larger one; anything else as it is."""
    import torch

    if isinstance(x, (tuple, list)):
        return type(x)(map(to_gpu, x))
    if isinstance(x, dict):
        return {name: to_gpu(y) for name, y in x.items()}
    if not isinstance(x, np.ndarray):
        return x
    size = x.dtype.itemsize
    words = np.array(x, order="C")
    if x.dtype.kind in "fV":
        words = words.view("i%d" % size)
    strides = [s // size for s in x.strides]
    first = -sum(min(s, 0) * max(n - 1, 0) for s, n in zip(strides, x.shape))
    if first or any(s * size != t for s, t in zip(strides, x.strides)):
        strides = [int(np.prod(x.shape[i + 1:])) for i in range(x.ndim)]
    extent = 1 + sum(s * max(n - 1, 0) for s, n in zip(strides, x.shape))
    # A NaN in every type of the tests.
    base = torch.full((extent,), -1, dtype=getattr(torch, words.dtype.name),
                      device="cuda")
    result = base.as_strided(x.shape, strides)
    if 0 not in strides and x.size:
        result.copy_(torch.from_numpy(np.array(words, order="C")))
    elif x.size:
        one = tuple(slice(0, 1) if s == 0 else slice(None) for s in strides)
        result[one].copy_(torch.from_numpy(np.array(words[one], order="C")))
    kind = {"float32": torch.float32, "float16": torch.float16,
            "bfloat16": torch.bfloat16,
            "float64": torch.float64}.get(x.dtype.name)
    return result.view(kind) if kind else result


def to_host(x):
    """The array of a tensor; an array stays what it is, without torch too."""
    if isinstance(x, dict):
        return {name: to_host(y) for name, y in x.items()}
    if isinstance(x, np.ndarray):
        return x
    import torch

    if not isinstance(x, torch.Tensor):
        return x
    x = x.detach().cpu().contiguous()
    if x.dtype == torch.bfloat16:
        return x.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return x.numpy()


class PlanOnGpu:
    """A plan of gradients whose operands and results are arrays of the host."""

    def __init__(self, make, *operands, **options):
        self.plan = make(*map(to_gpu, operands), **to_gpu(options))
        self.names = self.plan.names

    def forward(self):
        results, self.state = self.plan.forward()
        self.results = results
        return results, None

    def backward(self, results, state, cotangents):
        return to_host(self.plan.backward(self.results, self.state, to_gpu(cotangents)))

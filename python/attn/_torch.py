"""What attn.attention asks of tensors of torch: gradients, autocast, tracing.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

Imported where torch is, and never before.
"""

import sys
from typing import Any

import torch


def wants_gradient(*tensors: Any) -> bool:
    """Whether one of these has to get a gradient."""
    if not torch.is_grad_enabled():
        return False
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
            return True
    return False


def is_traced(tensor: torch.Tensor) -> bool:
    """Whether a graph is made of a call, or only the shape of its result is wanted."""
    return torch.compiler.is_compiling() or type(tensor).__name__ == "FakeTensor"


def again(tensors: tuple, options: tuple, rng: Any) -> Any:
    """The result of a call with gradients that is like one before it, or None
    (_torch_eager.again)."""
    if torch.compiler.is_compiling():
        return None
    # Another thread may be importing it.
    eager = sys.modules.get(__package__ + "._torch_eager")
    if not getattr(eager, "IS_WHOLE", False):
        return None
    return eager.again(tensors, options, rng)


def parts(values: Any) -> tuple:
    """What a sequence, a dict or a tensor holds that may want a gradient."""
    if isinstance(values, dict):
        return tuple(values.values())
    return tuple(values) if isinstance(values, (list, tuple)) else (values,)


def check_number(name: str, number: Any) -> None:
    """It has no gradient: none is lost in silence."""
    if wants_gradient(number):
        raise ValueError(
            "attn: expected %s without gradient, but it requires grad; pass "
            "%s.item()" % (name, name)
        )


def cast(q: Any, *others: Any) -> Any:
    """Under torch.autocast, q, k, v and the like in its type, as torch has them for
    its own attention."""
    kind = q.device.type
    if kind not in ("cpu", "cuda") or not torch.is_autocast_enabled(kind):
        return (q, *others)
    dtype = torch.get_autocast_dtype(kind)
    floats = (torch.float32, torch.float16, torch.bfloat16)
    return tuple(
        tensor.to(dtype)
        if isinstance(tensor, torch.Tensor) and tensor.dtype in floats
        else tensor
        for tensor in (q, *others)
    )

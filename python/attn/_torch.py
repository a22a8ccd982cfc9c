"""What attn.attention asks of tensors of torch: gradients, autocast, tracing.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

Imported where torch is, and never before.
"""

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


def is_traced() -> bool:
    return torch.compiler.is_compiling()


def check_numbers(scale: Any, softcap: Any, dropout_p: Any, params: Any) -> None:
    """Numbers have no gradient here: none is lost in silence."""
    numbers = [("scale", scale), ("softcap", softcap), ("dropout_p", dropout_p)]
    if isinstance(params, (list, tuple)):
        numbers += [("monoid_params", param) for param in params]
    elif isinstance(params, torch.Tensor):
        numbers.append(("monoid_params", params))
    for name, number in numbers:
        if wants_gradient(number):
            raise ValueError(
                "attn: expected %s without gradient, but it requires grad; pass "
                "%s.item(), or scale q by it" % (name, name)
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

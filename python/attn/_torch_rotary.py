"""Rotary embedding by torch, where attention has gradients or is traced.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

Imported where torch is, and never before. A rotation is linear: torch's gradients of
it are the rotation back.
"""

import torch

from . import _call
from . import _rotary
from ._operands import LAYOUTS
from ._checks import fail as _fail


def check(q, k, v, rotary, layout, causal, window, kv_lengths, cu_seqlens, caches):
    """Refuses what a call without gradients refuses of shapes, positions and tables.

    Args: as of `turned`.
    """
    _refuse(caches)
    q, k, v = (x.detach() if torch.is_tensor(x) else x for x in (q, k, v))
    _call.Call(
        *(q, k, v),
        causal=causal,
        window=window,
        kv_lengths=kv_lengths,
        layout=layout,
        cu_seqlens_q=cu_seqlens[0],
        cu_seqlens_k=cu_seqlens[1],
        rotary=rotary,
    )


def _refuse(caches):
    if any(value is not None and value is not False for value in caches):
        _fail(
            "q, k and v as arrays or packed, with rotary where a call has gradients "
            "or is traced",
            "a cache or v_dim; rotate q and k before the call",
            NotImplementedError,
        )


def turned(q, k, rotary, layout, causal, window, kv_lengths, cu_seqlens, caches):
    """q and k as attention multiplies them, rounded to their types.

    Args:
        causal, window: of the call; they say which queries before the first key, of
            sequences with fewer keys, have keys to see.
        cu_seqlens: of the queries and of the keys, or None twice.
        caches: options that only calls with caches have.
    """
    _refuse(caches)
    tables, (interleaved, _) = _rotary.operands_of(rotary)
    axes = LAYOUTS[layout]
    q, k = q.permute(axes), k.permute(axes)
    of_queries, of_keys = (
        _packed(q, k, cu_seqlens, causal)
        if layout == "thd"
        else _dense(q, k, kv_lengths, causal)
    )
    back = sorted(range(len(axes)), key=axes.__getitem__)
    ahead = None if window is None else tuple(window)[1]
    if causal is not None:
        ahead = 0
    return tuple(
        _turn(x, tables, interleaved, positions, ahead).permute(back)
        for x, positions in ((q, of_queries), (k, of_keys))
    )


def _dense(q, k, kv_lengths, causal):
    rows, keys = (torch.arange(x.shape[2], device=q.device) for x in (q, k))
    if causal != "top_left":
        lengths = k.shape[2]
        if kv_lengths is not None:
            lengths = torch.as_tensor(kv_lengths, device=q.device)
            if tuple(lengths.shape) != tuple(q.shape[:1]):
                _fail("kv_lengths of shape [%d]" % q.shape[0], list(lengths.shape))
            lengths = lengths[:, None, None]
        rows = rows + (lengths - q.shape[2])
    return rows, keys


def _packed(q, k, cu_seqlens, causal):
    places, lengths, sequences = [], [], []
    for x, cu in zip((q, k), cu_seqlens):
        cu = torch.as_tensor(cu, device=q.device).long()
        at = torch.arange(x.shape[1], device=q.device)
        if len(cu) < 2:  # no sequences
            return [torch.arange(y.shape[1], device=q.device) for y in (q, k)]
        # Rows behind the last sequence are nobody's.
        number = torch.searchsorted(cu[1:], at, right=True).clamp(max=len(cu) - 2)
        sequences.append(number)
        lengths.append(cu.diff())
        places.append(at - cu[number])
    if causal != "top_left":
        places[0] = places[0] + (lengths[1] - lengths[0])[sequences[0]]
    return places


def _turn(x, tables, interleaved, positions, ahead):
    """Rows [.., n, d]; a row at a position that the tables do not have is NaN, but for
    those before the first key that see none: they see keys up to `ahead` behind their
    position, or all."""
    cos, sin = (torch.as_tensor(table, device=x.device) for table in tables)
    count, pairs = cos.shape
    if 2 * pairs > x.shape[-1]:
        _fail(
            "tables of at most %d columns, half of the head dimension"
            % (x.shape[-1] // 2),
            pairs,
        )
    at = positions.clamp(0, count - 1)
    known = positions < count
    sees_all = ahead is None or ahead < 0
    known &= (positions >= 0) if sees_all else (positions >= 0) | (positions < -ahead)
    cos, sin = (
        torch.where(known[..., None], table[at], torch.nan) for table in (cos, sin)
    )
    part, rest = x[..., : 2 * pairs].float(), x[..., 2 * pairs :]
    if interleaved:
        first, second = part[..., ::2], part[..., 1::2]
    else:
        first, second = part[..., :pairs], part[..., pairs:]
    both = first * cos - second * sin, second * cos + first * sin
    part = torch.stack(both, -1).flatten(-2) if interleaved else torch.cat(both, -1)
    return torch.cat([part.to(x.dtype), rest], -1)

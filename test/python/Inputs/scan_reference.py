"""Scans in float64, token by token: what attn.scan means.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import numpy as np


def recurrence(
    q,
    k,
    v,
    *,
    decay=None,
    gate=None,
    beta=None,
    weight=None,
    log_weight=None,
    erase=None,
    read="after",
    bonus=None,
    scale=None,
    normalize=False,
    whole=False,
    state=None,
    feature=None,
    l2norm=False,
):
    """Of arrays [b, h, t, d]: the output and a dict of the last states."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    if feature is not None:
        q, k = feature(q), feature(k)
    if l2norm:
        q, k = (x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6) for x in (q, k))
    b, hq, tokens, dk = q.shape
    hk, hv, dv = k.shape[1], v.shape[1], v.shape[3]
    heads = max(hk, hv)
    out = max(hq, heads)
    wide = lambda x: None if x is None else np.asarray(x, np.float64)
    decay, beta, weight, log_weight = map(wide, (decay, beta, weight, log_weight))
    S = np.zeros((b, heads, dk, dv))
    z, m = np.zeros((b, heads, dk)), np.full((b, heads), -np.inf)
    if state is not None:
        state = {name: np.array(x, np.float64) for name, x in state.items()}
        S, z, m = state["S"], state.get("z", z), state.get("m", m)
    keys = k[:, np.arange(heads) * hk // max(heads, 1)]
    values = v[:, np.arange(heads) * hv // max(heads, 1)]
    queries = q[:, np.arange(out) * hq // max(out, 1)]
    of_output = np.arange(out) * heads // max(out, 1)
    o = np.zeros((b, out, tokens, dv))
    if log_weight is not None:
        # Kept relative to the largest weight.
        S, z = S.copy(), z.copy()

    def outer(x, y):
        return x[..., :, None] * y[..., None, :]

    def read_out(t, S, z, m):
        x = queries[:, :, t]
        num = scale * np.einsum("bhd,bhdv->bhv", x, S[:, of_output])
        if normalize:
            den = scale * np.einsum("bhd,bhd->bh", x, z[:, of_output])[..., None]
            return np.where(den == 0, 0, num / np.where(den == 0, 1, den))
        if log_weight is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                return np.where(num == 0, 0, num * np.exp(m[:, of_output])[..., None])
        return num

    for t in range(tokens):
        kt, vt, old = keys[:, :, t], values[:, :, t], S
        if read == "before":
            o[:, :, t] = read_out(t, S, z, m)
            if bonus is not None:
                u = np.asarray(bonus, np.float64)
                own = (queries[:, :, t] * (u[None] * kt)[:, of_output]).sum(-1)
                o[:, :, t] += scale * own[..., None] * vt[:, of_output]
        factor, column = 1.0, None
        if decay is not None:
            g = decay[:, :, t]
            if g.ndim == 2:
                factor = g
            elif gate == "value":
                column = np.exp(g)
            else:
                factor = g
        if log_weight is not None:
            g = factor if decay is not None else np.zeros_like(m)
            new = np.maximum(g + m, log_weight[:, :, t])
            safe = np.where(np.isneginf(new), 0, new)
            f, w = np.exp(g + m - safe), np.exp(log_weight[:, :, t] - safe)
            S = f[..., None, None] * S + w[..., None, None] * outer(kt, vt)
            z, m = f[..., None] * z + w[..., None] * kt, new
        else:
            if decay is not None and column is None:
                f = np.exp(factor)
                f = f[..., None] if f.ndim == 2 else f
                S, z = f[..., None] * S, f * z
            elif column is not None:
                S = S * column[:, :, None, :]
            if beta is not None:
                left = vt - np.einsum("bhd,bhdv->bhv", kt, S)
                S = S + beta[:, :, t, None, None] * outer(kt, left)
            else:
                if erase is not None:
                    a, e = (np.asarray(x, np.float64)[:, :, t] for x in erase[:2])
                    from_state = old if erase[2:] == ("before",) else S
                    S = S + outer(e, np.einsum("bhd,bhdv->bhv", a, from_state))
                w = 1.0 if weight is None else weight[:, :, t, None]
                S, z = S + outer(w * kt, vt), z + w * kt
        if read == "after" and not whole:
            o[:, :, t] = read_out(t, S, z, m)
    if whole:
        for t in range(tokens):
            o[:, :, t] = read_out(t, S, z, m)
    last = {"S": S}
    if normalize:
        last["z"] = z
    if log_weight is not None:
        last["m"] = m
    return o, last


def elu1(x):
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def check(label, got, want, bound):
    """Largest error against the largest entry."""
    got = np.asarray(got, np.float64)
    assert got.shape == want.shape, "%s: %s, not %s" % (label, got.shape, want.shape)
    if not want.size:
        return 0.0
    same = got == want  # infinities
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0, np.abs(got - want))
    top = np.abs(want[np.isfinite(want)]).max(initial=1e-30)
    worst = float(np.max(error)) / top
    assert worst <= bound, "%s: off by %.2e of the largest entry, not %.0e" % (label,
                                                                               worst,
                                                                               bound)
    return worst

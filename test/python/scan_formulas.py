# RUN: %python %s
"""The chunked formulas of scans against the recurrence, in float64: the algebra that
the kernel of attn.scan, its summaries and its gradients stand on, without the kernel.

One head; tokens are rows. S is [dk, dv]; g are log gates (<= 0, -inf allowed).
The recurrence (one for the whole family; a missing operand is its identity):

    S'  = exp(g_t)[:, None] * S_{t-1} * exp(gv_t)[None, :]          decay
    S_t = S' + b_t (a_t^T S'')  + w_t k_t v_t^T                      erase, write
          S'' = S' (after the decay: delta rule) or S_{t-1} (before: DPLR, RWKV-7)
    o_t = scale * q_t^T S_t   (or, read before: q_t^T S_{t-1} + u.(q_t*k_t) v_t)

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import sys, json, os
import numpy as np
rng = np.random.default_rng(7)
NEG = -np.inf
results = []

def report(name, err, tol=1e-11):
    ok = err <= tol
    results.append(ok)
    print(f"{'ok ' if ok else 'BAD'} {name:66s} {err:.2e}")

def rel(x, y):
    return float(np.max(np.abs(x - y)) / max(1e-300,
                                             np.max(np.abs(y)))) if x.size else 0.0

# ---------------------------------------------------------------- the oracle
def recurrent(q, k, v, g=None, gv=None, a=None, b=None, erase="after", w=None,
              S0=None, scale=1.0, read="after", u=None):
    T, dk, dv = len(q), q.shape[1], v.shape[1]
    S = np.zeros((dk, dv)) if S0 is None else S0.copy()
    o = np.zeros((T, dv))
    for t in range(T):
        old = S
        if read == "before":
            o[t] = scale * (q[t] @ S)
            if u is not None:
                o[t] += scale * ((q[t] * u) @ k[t]) * v[t]
        if g is not None:
            S = np.exp(g[t]).reshape(-1, 1) * S
        if gv is not None:
            S = S * np.exp(gv[t])[None, :]
        if a is not None:
            S = S + np.outer(b[t], a[t] @ (S if erase == "after" else old))
        S = S + (1.0 if w is None else w[t]) * np.outer(k[t], v[t])
        if read == "after":
            o[t] = scale * (q[t] @ S)
    return o, S

# --------------------------------------------- decays without any subtraction
# For j < i let m be the middle of the smallest dyadic block that holds both
# (the highest bit in which they differ). Then
#     exp(sum_{j<s<=i} g_s) = E[l][i] * F[l][j],
#     E[l][i] = exp(sum_{m<=s<=i} g_s),  F[l][j] = exp(sum_{j<s<m} g_s),
# both at most 1: no overflow, no cancellation, no inf - inf. Products of gates
# replace sums of logarithms, which the law g(a + b) = g(a) g(b) licenses.
def dyadic(alpha):
    """alpha [C, n] gates in [0, 1], C a power of two -> lists E, F of [C, n]."""
    C = len(alpha); L = C.bit_length() - 1
    E, F = [], []
    for l in range(L):
        h = 1 << l
        e, f = np.zeros_like(alpha), np.zeros_like(alpha)
        for lo in range(0, C, 2 * h):
            m = lo + h
            p = np.ones_like(alpha[0])
            for i in range(m, m + h):
                p = p * alpha[i]; e[i] = p
            s = np.ones_like(alpha[0])
            for j in range(m - 1, lo - 1, -1):
                f[j] = s; s = s * alpha[j]
        E.append(e); F.append(f)
    return E, F

def pairs(x, y, alpha, diagonal):
    """A[i, j] = sum_d x[i,d] y[j,d] prod_{j<s<=i} alpha[s,d], j < i (and j = i)."""
    C = len(x); i, j = np.indices((C, C))
    E, F = dyadic(alpha)
    A = np.zeros((C, C), x.dtype)
    for l in range(len(E)):            # one masked product for each level
        level = (i > j) & ((i >> (l + 1)) == (j >> (l + 1))) & ((i >> l) != (j >> l))
        A += np.where(level, (x * E[l]) @ (y * F[l]).T, 0)
    if diagonal:
        A += np.diag((x * y).sum(1))
    return A

def pad(x, C, fill=0.0):
    n = -len(x) % C
    return np.concatenate([x, np.full((n,) + x.shape[1:], fill, x.dtype)]) if n else x

def gates(g, T, dk):
    return np.broadcast_to(g if g.ndim == 2 else g[:, None], (T, dk))

# ------------------------------------------- chunked: decay (LA, RetNet, GLA)
def chunk_decay(q, k, v, g, S0=None, C=16, scale=1.0, w=None, read="after", u=None):
    T, dk, dv = len(q), q.shape[1], v.shape[1]
    S = np.zeros((dk, dv)) if S0 is None else S0.copy()
    w = np.ones(T) if w is None else w
    al = np.exp(gates(g, T, dk))
    q, k, v, w, al = pad(q, C), pad(k, C), pad(v, C), pad(w, C), pad(al, C, 1.0)
    o = np.zeros((len(q), dv))
    for c in range(0, len(q), C):
        s = slice(c, c + C)
        P = np.cumprod(al[s], 0)                       # prefix products
        R = np.cumprod(np.vstack([al[s][1:], np.ones((1, dk))])[::-1],
                       0)[::-1]  # suffix
        if read == "after":
            A = pairs(q[s], k[s], al[s], True)
            o[s] = (q[s] * P) @ S + A @ (w[s, None] * v[s])
        else:                                          # exclusive: gates up to i - 1
            ex = np.vstack([np.ones((1, dk)), P[:-1]])
            sh = np.vstack([np.ones((1, dk)), al[s][:-1]])
            # pairs j < i of prod_{j<s<i}: shift keys by one position
            kk = np.vstack([np.zeros((1, dk)), k[s][:-1]])
            vv = np.vstack([np.zeros((1, dv)), (w[s, None] * v[s])[:-1]])
            A = pairs(q[s], kk, sh, True)
            o[s] = (q[s] * ex) @ S + A @ vv
            if u is not None:
                o[s] += (((q[s] * u) * k[s]).sum(1) * w[s])[:, None] * v[s]
        S = P[-1][:, None] * S + (k[s] * R).T @ (w[s, None] * v[s])
    return scale * o[:T], S

# -------------------- chunked: delta rule, gated delta rule, KDA, DPLR, RWKV-7
# erase "after":  V' = (I - tril(A_ab, -1))^{-1} (A_a0 S0 + tril(A_ak, -1) V),
#   u_t = a_t^T S'  with  S' = alpha_t * S_{t-1}: exponents run to i inclusive.
# erase "before": u_t = a_t^T S_{t-1}: exponents run to i - 1.
#   S_t = alpha_t S_{t-1} + b_t u_t^T + k_t v_t^T
def chunk_dplr(q, k, v, g, a, b, erase="after", S0=None, C=16, scale=1.0,
               transposed=False):
    T, dk, dv = len(q), q.shape[1], v.shape[1]
    S = np.zeros((dk, dv)) if S0 is None else S0.copy()
    al = np.exp(gates(g, T, dk))
    q, k, v, a, b, al = pad(q, C), pad(k, C), pad(v, C), pad(a, C), pad(b, C), pad(al,
                                                                                   C,
                                                                                   1.0)
    o = np.zeros((len(q), dv))
    for c in range(0, len(q), C):
        s = slice(c, c + C)
        P = np.cumprod(al[s], 0)
        R = np.cumprod(np.vstack([al[s][1:], np.ones((1, dk))])[::-1], 0)[::-1]
        if erase == "after":
            pre = a[s] * P
            Aab, Aak = pairs(a[s], b[s], al[s], False), pairs(a[s], k[s], al[s], False)
        else:
            one = np.ones((1, dk))
            pre = a[s] * np.vstack([one, P[:-1]])
            sh = np.vstack([one, al[s][:-1]]); z = np.zeros((1, dk))
            left = lambda A: np.hstack([A[:, 1:], np.zeros((C, 1))])   # undo the shift
            Aab = left(pairs(a[s], np.vstack([z, b[s][:-1]]), sh, True))
            Aak = left(pairs(a[s], np.vstack([z, k[s][:-1]]), sh, True))
        Tm = np.linalg.inv(np.eye(C) - Aab)            # unit lower triangular
        Aqb, Aqk = pairs(q[s], b[s], al[s], True), pairs(q[s], k[s], al[s], True)
        if not transposed:
            U = Tm @ (pre @ S + Aak @ v[s])            # [C, dv]: the a_t^T S
            o[s] = (q[s] * P) @ S + Aqb @ U + Aqk @ v[s]
            S = P[-1][:, None] * S + (b[s] * R).T @ U + (k[s] * R).T @ v[s]
        else:  # rows are value channels: each row of X = S^T is a recurrence of its own
            X = S.T
            Ut = (X @ pre.T + v[s].T @ Aak.T) @ Tm.T
            o[s] = (X @ (q[s] * P).T + Ut @ Aqb.T + v[s].T @ Aqk.T).T
            S = (X * P[-1][None, :] + Ut @ (b[s] * R) + v[s].T @ (k[s] * R)).T
    return scale * o[:T], S

def delta_operands(k, v, beta):
    """Delta rule as DPLR: erase along k, write beta k v^T."""
    return k, -beta[:, None] * k, beta[:, None] * v     # a, b, values

# WY/UT form with beta as published (gated delta rule, KDA):
# T = (I + tril(beta K K^T . D, -1))^{-1} diag(beta)
def chunk_wy(q, k, v, g, beta, S0=None, C=16):
    T, dk, dv = len(q), q.shape[1], v.shape[1]
    S = np.zeros((dk, dv)) if S0 is None else S0.copy()
    al = np.exp(gates(g, T, dk))
    q, k, v, beta, al = pad(q, C), pad(k, C), pad(v, C), pad(beta, C), pad(al, C, 1.0)
    o = np.zeros((len(q), dv))
    for c in range(0, len(q), C):
        s = slice(c, c + C)
        P = np.cumprod(al[s], 0)
        R = np.cumprod(np.vstack([al[s][1:], np.ones((1, dk))])[::-1], 0)[::-1]
        L = beta[s, None] * pairs(k[s], k[s], al[s], False)
        Tm = np.linalg.inv(np.eye(C) + L) * beta[s][None, :]
        Vn = Tm @ (v[s] - (k[s] * P) @ S)
        o[s] = (q[s] * P) @ S + pairs(q[s], k[s], al[s], True) @ Vn
        S = P[-1][:, None] * S + (k[s] * R).T @ Vn
    return o[:T], S

# ------------------------------------------------------------------ checks
def inputs(T, dk, dv, unit=True):
    q, k, v = rng.normal(size=(T, dk)), rng.normal(size=(T, dk)), rng.normal(size=(T,
                                                                                   dv))
    if unit:
        k /= np.linalg.norm(k, axis=1, keepdims=True)
    return q, k, v, rng.normal(size=(dk, dv))

T, dk, dv = 83, 8, 6
q, k, v, S0 = inputs(T, dk, dv)
gs = -rng.exponential(0.3, T)                     # scalar log gates
gd = -rng.exponential(0.5, (T, dk))               # one for each key channel
gd[5] = 0.0; gd[17] = NEG; gd[33, 2] = -1e4; gd[48] = -1e4     # gates of 1 and of 0
beta = rng.uniform(0, 1, T); beta[9] = 0.0; beta[20] = 1.0
for C in (1, 2, 16, 64, 128):
    o, S = recurrent(q, k, v, gs[:, None],
                     S0=S0); oc, Sc = chunk_decay(q, k, v, gs[:, None], S0, C)
    report(f"scalar decay (RetNet, Mamba-2, lightning), C = {C}",
           max(rel(oc, o), rel(Sc, S)))
    o, S = recurrent(q, k, v, gd, S0=S0); oc, Sc = chunk_decay(q, k, v, gd, S0, C)
    report(f"vector gates with 0, 1, exp(-1e4) (GLA, HGRN2), C = {C}",
           max(rel(oc, o), rel(Sc, S)))
    ka, kb, kv = delta_operands(k, v, beta)
    for name, g in (("delta rule", np.zeros((T, 1))), ("gated delta rule", gs[:, None]),
                    ("KDA", gd)):
        o, S = recurrent(q, k, kv, g, a=ka, b=kb, S0=S0)
        od, Sd = chunk_dplr(q, k, kv, g, ka, kb, "after", S0, C)
        ow, Sw = chunk_wy(q, k, v, g, beta, S0, C)
        ot, St = chunk_dplr(q, k, kv, g, ka, kb, "after", S0, C, transposed=True)
        report(f"{name}: DPLR, WY and value-major forms, C = {C}",
               max(rel(od, o), rel(Sd, S), rel(ow, o), rel(Sw, S), rel(ot, o),
                   rel(St, S)))
    a, b = 0.3 * rng.normal(size=(T, dk)), 0.3 * rng.normal(size=(T, dk))
    o, S = recurrent(q, k, v, gd, a=a, b=b, erase="before", S0=S0)
    od, Sd = chunk_dplr(q, k, v, gd, a, b, "before", S0, C)
    report(f"DPLR, erase before the decay (RWKV-7), C = {C}",
           max(rel(od, o), rel(Sd, S)))
u = rng.normal(size=dk)
o, S = recurrent(q, k, v, gd, S0=S0, read="before",
                 u=u); oc, Sc = chunk_decay(q, k, v, gd, S0, 16, read="before", u=u)
report("read before the write, with a bonus (RWKV-6)", max(rel(oc, o), rel(Sc, S)))
gv = -rng.exponential(0.5,
                      (T,
                       dv))               # gates on the value side: the mirrored scan
o, S = recurrent(q, k, v, gv=gv, S0=S0)
S_, o_ = S0.copy(), np.zeros((T, dv)); C = 16
for c in range(0, T, C):
    n = min(C, T - c); s = slice(c, c + n); al = np.exp(gv[s]); P = np.cumprod(al, 0)
    for d in range(dv):  # each value channel has scalar gates of its own
        W = np.array([[np.prod(al[j + 1:i + 1, d]) if j <= i else 0 for j in range(n)]
                      for i in range(n)])
        o_[s, d] = P[:, d] * (q[s] @ S_[:, d]) + ((q[s] @ k[s].T) * W) @ v[s, d]
    R = np.vstack([np.cumprod(al[:0:-1], 0)[::-1], np.ones((1, dv))])
    S_ = S_ * P[-1] + k[s].T @ (v[s] * R)
report("gates on the value side (gated slot attention)", max(rel(o_, o), rel(S_, S)))

# linear attention with a normaliser: components (value, unit); feature maps
def finalize(num, den):
    return np.where(den == 0, 0.0, num / np.where(den == 0, 1.0, den))
W1 = rng.normal(size=(dk, 5))
taylor = lambda x: np.hstack(
    [
        np.ones((len(x), 1)),
        x / dk**0.25,
        (x[:, :, None] * x[:, None, :]).reshape(len(x), -1) / (2 * dk) ** 0.5,
    ]
)
softmax_pair = lambda x: np.hstack([np.exp(y) / np.exp(y).sum(1, keepdims=True)
                                    for y in (x @ W1, -x @ W1)])
for name, phi in (("elu + 1",
                   lambda x: np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))),
                  ("ReLU", lambda x: np.maximum(x, 0)), ("Taylor 2", taylor),
                  ("Hedgehog exp(xW)", lambda x: np.exp(x @ W1)),
                  ("Hedgehog softmax(xW, -xW)", softmax_pair)):
    fq, fk = phi(q), phi(k)
    w = np.tril(fq @ fk.T)  # quadratic definition: attn.aggregate
    ref = finalize(w @ v, w.sum(1)[:, None])
    one = np.hstack([v, np.ones((T, 1))])  # the unit component is a column of ones
    o, S = chunk_decay(fq, fk, one, np.zeros((T, 1)), None, 16)
    report(f"normalised linear attention by scan, {name}",
           rel(finalize(o[:, :dv], o[:, dv:]), ref))
    o1, S1 = chunk_decay(fq[:40], fk[:40], one[:40], np.zeros((40, 1)), None, 16)
    o2, S2 = chunk_decay(fq[40:], fk[40:], one[40:], np.zeros((T - 40, 1)), S1, 16)
    report(f"   split at token 40 and resumed", rel(np.vstack([o1, o2]), o))
o, S = chunk_decay(q[:0], k[:0], v[:0], gd[:0], S0, 16)
report("empty sequence: no output, the state unchanged", rel(S, S0) + o.size)
# prefix sums of a plain aggregate: one query for all tokens (Aaren, RWKV-4's wkv):
# the states of SE(V) themselves, all prefixes, chunked; scores up to +-600
sc = np.where(rng.uniform(size=T) < 0.1, 600.0,
              0.0) * np.sign(rng.normal(size=T)) + rng.normal(size=T)
ref = np.stack(
    [
        np.exp(sc[: t + 1] - sc[: t + 1].max())
        @ v[: t + 1]
        / np.exp(sc[: t + 1] - sc[: t + 1].max()).sum()
        for t in range(T)
    ]
)
m_, acc_, den_, out = NEG, np.zeros(dv), 0.0, np.zeros((T, dv))
for c in range(0, T, 16):
    s = slice(c, min(c + 16, T)); mi = np.maximum(np.maximum.accumulate(sc[s]), m_)
    w = np.tril(np.exp(np.minimum(sc[s][None, :] - mi[:, None], 0))); r = np.exp(m_
                                                                                 - mi)
    num, d_ = w @ v[s] + r[:, None] * acc_, w.sum(1) + r * den_
    out[s] = num / d_[:, None]; m_, acc_, den_ = mi[-1], num[-1], d_[-1]
report("prefix sums of the softmax monoid (one query for all tokens)", rel(out, ref))
# a suffix monoid whose gate depends on the key alone: attn.aggregate to attn.scan
Wt = np.array([[np.exp(gs[j + 1:i + 1].sum()) if j <= i else 0 for j in range(T)]
               for i in range(T)])
report("attn.aggregate @gated_decay with causal mask = attn.scan",
       rel(((q @ k.T) * Wt) @ v, recurrent(q, k, v, gs[:, None])[0]))

# mLSTM: log input weights; the stabiliser m is a reference point, nothing more
ig, fg = rng.normal(size=T) * 6, -rng.exponential(0.4, T)
Cs, n, m, ref = np.zeros((dk, dv)), np.zeros(dk), -np.inf, np.zeros((T, dv))
for t in range(T):                                       # as published
    m1 = max(fg[t] + m, ig[t]); f_, i_ = np.exp(fg[t] + m - m1), np.exp(ig[t] - m1)
    Cs, n, m = f_ * Cs + i_ * np.outer(k[t], v[t]), f_ * n + i_ * k[t], m1
    ref[t] = (q[t] @ Cs) / max(abs(q[t] @ n), np.exp(-m))
one = np.hstack([v, np.ones((T, 1))])
S, mS, out = np.zeros((dk, dv + 1)), -np.inf, np.zeros((T, dv))
for c in range(0, T, 16):                                # chunked, state times exp(-mS)
    s = slice(c, min(c + 16, T)); p = np.cumsum(fg[s]); N = len(p)
    lw = np.array([[fg[s][j + 1:i + 1].sum() + ig[s][j] if j <= i else NEG
                    for j in range(N)] for i in range(N)])
    mi = np.maximum(p + mS, lw.max(1))
    acc = (
        np.exp(p + mS - mi)[:, None] * (q[s] @ S)
        + (np.exp(lw - mi[:, None]) * (q[s] @ k[s].T)) @ one[s]
    )
    out[s] = acc[:, :dv] / np.maximum(np.abs(acc[:, dv]), np.exp(-mi))[:, None]
    mn = max(p[-1] + mS, lw[-1].max())
    S = np.exp(p[-1] + mS
               - mn) * S + (np.exp(lw[-1] - mn)[:, None] * k[s]).T @ one[s]; mS = mn
report("mLSTM with exponential input gates, chunked", rel(out, ref))

# the affine monoid: laws, Blelloch scan, segment tree, sequence splits
def summary(s, C=16):
    """(A, B) of tokens in s for KDA: A dense [dk, dk], B [dk, dv]."""
    _, B = chunk_dplr(q[s], k[s], kv[s], gd[s], ka[s], kb[s], "after", None, C)
    _, A = chunk_dplr(q[s], k[s], np.zeros((len(q[s]), dk)), gd[s], ka[s], kb[s],
                      "after", np.eye(dk), C)
    return A, B
mul = lambda x, y: (y[0] @ x[0], y[0] @ x[1] + y[1])     # x first, then y
act = lambda x, S: x[0] @ S + x[1]
ident = (np.eye(dk), np.zeros((dk, dv)))
parts = [summary(slice(c, min(c + 11, T))) for c in range(0, T, 11)]
x, y, z = parts[0], parts[1], parts[2]
err = max(rel(mul(mul(x, y), z)[1], mul(x, mul(y, z))[1]), rel(mul(ident, x)[1], x[1]),
          rel(mul(x, ident)[1], x[1]),
          rel(act(mul(x, y), S0), act(y, act(x, S0))), rel(act(ident, S0), S0),
          rel(x[0] @ (S0 + 2 * x[1]), x[0] @ S0 + 2 * (x[0] @ x[1])))
report("affine monoid: associative, unit, action, linear", err)
o, S = recurrent(q, k, kv, gd, a=ka, b=kb, S0=S0)
def blelloch(
    xs):                                        # exclusive prefixes, up- and down-sweep
    n = 1 << (len(xs) - 1).bit_length(); t = xs + [ident] * (n - len(xs)); d = 1
    while d < n:
        for i in range(2 * d - 1, n, 2 * d): t[i] = mul(t[i - d], t[i])
        d *= 2
    t[n - 1] = ident
    while d > 1:
        d //= 2
        for i in range(2 * d - 1, n, 2 * d): t[i - d], t[i] = t[i], mul(t[i], t[i - d])
    return t[:len(xs)]
o2 = np.vstack([chunk_dplr(q[s], k[s], kv[s], gd[s], ka[s], kb[s], "after", act(p, S0),
                           16)[0]
                for p, s in zip(blelloch(list(parts)),
                                [slice(c, min(c + 11, T)) for c in range(0, T, 11)])])
report("Blelloch scan of KDA summaries, then outputs by segment", rel(o2, o))
n = 8; tree = [ident] * (2 * n); tree[n:] = parts
for i in range(n - 1, 0, -1): tree[i] = mul(tree[2 * i], tree[2 * i + 1])
v2 = v.copy(); v2[37] += 1.0; kv = beta[:, None] * v2    # change one token
i = n + 37 // 11; tree[i] = summary(slice(33, 44)); combines = 0
while i > 1: i //= 2; tree[i] = mul(tree[2 * i], tree[2 * i + 1]); combines += 1
report(f"segment tree: one token changed, {combines} combines for {n} leaves",
       rel(act(tree[1], S0), recurrent(q, k, kv, gd, a=ka, b=kb, S0=S0)[1]))
kv = beta[:, None] * v
# log-linear attention: the Fenwick pieces of [0, t) are nodes of that tree
lam = rng.uniform(0.2, 1, (T, 8)); ref, out = np.zeros((T, dv)), np.zeros((T, dv))
for t in range(T):
    w = np.array([np.exp(gs[j + 1:t + 1].sum())
                  for j in range(t + 1)]); lev = np.zeros(t + 1, int)
    end, l = t, 1
    while end > 0:                                       # lowest set bit first
        if end & (1 << (l - 1)): lev[end - (1 << (l - 1)):end] = l; end -= 1 << (l - 1)
        l += 1
    ref[t] = (lam[t, lev] * w * (k[:t + 1] @ q[t])) @ v[:t + 1]
for t in range(T):
    end, l, dec = t, 1, np.exp(gs[t])
    out[t] = lam[t, 0] * (q[t] @ k[t]) * v[t]
    while end > 0:
        if end & (1 << (l - 1)):
            s = slice(end - (1 << (l - 1)), end)
            out[t] += lam[t, l] * dec * (q[t] @ recurrent(q[s], k[s], v[s],
                                                          gs[s, None])[1])
            dec *= np.exp(gs[s].sum()); end -= 1 << (l - 1)
        l += 1
report("log-linear attention: sums over Fenwick nodes", rel(out, ref))

# ------------------------------------------------------------ backward
def backward_wy(q, k, v, g, beta, S0, dO, dS1, C=16):
    """Reverse scan over chunks; chunk states recomputed. Scalar or vector gates."""
    T, dk, dv = len(q), q.shape[1], v.shape[1]
    gg = gates(g, T, dk); al = np.exp(gg)
    starts = list(range(0, T, C)); states = [S0]
    for c in starts:
        states.append(chunk_wy(q[c:c+C], k[c:c+C], v[c:c+C], gg[c:c+C], beta[c:c+C],
                               states[-1], 1 << (C - 1).bit_length())[1])
    dq, dk_, dv_, dg, db = (np.zeros_like(x)
                            for x in (q, k, v, gg.copy(), beta)); dS = dS1.copy()
    for n in reversed(range(len(starts))):
        s = slice(starts[n], min(starts[n] + C, T)); S = states[n]; N = s.stop - s.start
        a, b_, q_, k_, v_ = al[s], beta[s], q[s], k[s], v[s]
        P = np.cumprod(a, 0); R = np.vstack([np.cumprod(a[:0:-1], 0)[::-1],
                                             np.ones((1, dk))])
        W = np.array([[np.prod(a[j + 1:i + 1], 0) if j <= i else np.zeros(dk)
                       for j in range(N)] for i in range(N)])
        Akk = np.tril(np.einsum('id,jd,ijd->ij', k_, k_, W), -1)
        Aqk = np.tril(np.einsum('id,jd,ijd->ij', q_, k_, W))
        M = np.linalg.inv(np.eye(N) + b_[:, None] * Akk)
        Z = v_ - (k_ * P) @ S; Y = b_[:, None] * Z; Vn = M @ Y
        dVn = Aqk.T @ dO[s] + (k_ * R) @ dS
        dY = M.T @ dVn
        dL = -np.tril(dY @ Vn.T, -1)                    # of L = diag(beta) Akk
        dZ = b_[:, None] * dY
        db[s] = (dY * Z).sum(1) + (dL * Akk).sum(1)
        dAkk = b_[:, None] * dL; dAqk = np.tril(dO[s] @ Vn.T)
        dv_[s] = dZ
        dqP, dkP, dkR = dO[s] @ S.T, -dZ @ S.T, Vn @ dS.T
        dq[s] = dqP * P + np.einsum('ij,jd,ijd->id', dAqk, k_, W)
        dk_[s] = dkP * P + dkR * R + np.einsum('ij,id,ijd->jd', dAqk, q_, W) \
            + np.einsum('ij,jd,ijd->id', dAkk, k_, W) + np.einsum('ij,id,ijd->jd', dAkk,
                                                                  k_, W)
        # log gates: what ends at i (rows) minus what starts at j (columns), summed
        # from the back
        rows = q_ * dq[s] + k_ * (dkP * P + np.einsum('ij,jd,ijd->id', dAkk, k_, W))
        cols = k_ * (dkR * R + np.einsum('ij,id,ijd->jd', dAqk, q_,
                                         W) + np.einsum('ij,id,ijd->jd', dAkk, k_, W))
        whole = (dS * (P[-1][:, None] * S)).sum(1) + (k_ * dkR * R).sum(
            0
        )  # gates of the state itself
        D = rows - cols
        dg[s] = np.cumsum(D[::-1], 0)[::-1] + whole[None, :]
        dS = (q_ * P).T @ dO[s] + P[-1][:, None] * dS - (k_ * P).T @ dZ
    return dq, dk_, dv_, dg.sum(1) if g.ndim == 1 else dg, db, dS

T2 = 21
q2, k2, v2, s2 = inputs(T2, 5, 4)
g2 = -rng.exponential(0.4, (T2, 5))
b2 = rng.uniform(0, 1, T2)
dO, dS1 = rng.normal(size=(T2, 4)), rng.normal(size=(5, 4))
def loss(q, k, v, g, b, S):
    o, Sf = recurrent(q, k, b[:, None] * v, g, a=k, b=-b[:, None] * k, S0=S)
    return (o * dO).sum() + (Sf * dS1).sum()
grads = backward_wy(q2, k2, v2, g2, b2, s2, dO, dS1, 8)
args = [q2, k2, v2, g2, b2, s2]; worst = 0.0
for x, gr in zip(args, grads):
    num = np.zeros_like(x)
    for idx in np.ndindex(x.shape):
        e = 1e-6; keep = x[idx]
        x[idx] = keep + e; hi = loss(*args); x[idx] = keep - e; lo = loss(
            *args); x[idx] = keep
        num[idx] = (hi - lo) / (2 * e)
    worst = max(worst, rel(gr, num))
report("backward of KDA by chunks against finite differences", worst, 1e-7)

# ------------------------------------------------------- ONNX LinearAttention
def onnx_case(path):
    c = json.load(open(f"{path}/case.json")); at = c["attributes"]
    arr = [None if i is None else np.load(f"{path}/{i['file']}").astype(np.float64)
           for i in c["inputs"]]
    Q, K, V, past, decay, be = arr + [None] * (6 - len(arr))
    out = [np.load(f"{path}/{o['file']}") for o in c["outputs"]]
    rule = at.get("update_rule",
                  "gated_delta"); hq, hk = at["q_num_heads"], at["kv_num_heads"]
    B, Tn, d, e = Q.shape[0], Q.shape[1], Q.shape[2] // hq, V.shape[2] // hk
    sc = at.get("scale", 0.0) or d**-0.5
    O = np.zeros((B, Tn, hq, e)); st = np.zeros((B, hk, d, e))
    for b_ in range(B):
        for h in range(hq):
            n = h // (hq // hk); cut = lambda X, H, i: X[b_].reshape(Tn, H, -1)[:, i]
            g = np.zeros((Tn, 1)) if decay is None else cut(decay, hk, n)
            be_ = None if be is None else (be[b_][:, 0] if be.shape[2] == 1
                                           else be[b_][:, n])
            s_ = None if past is None else past[b_, n]
            kk, vv = cut(K, hk, n), cut(V, hk, n)
            if "delta" in rule:o, S = chunk_wy(cut(Q, hq, h), kk, vv, g, be_, s_, 2)
            else: o, S = chunk_decay(cut(Q, hq, h), kk, vv, g, s_, 2)
            O[b_, :, h], st[b_, n] = sc * o, S
    return max(rel(O.reshape(B, Tn, -1), out[0].astype(np.float64)),
               rel(st, out[1].astype(np.float64))), out[0].dtype
here = os.path.dirname(os.path.abspath(__file__))
folders = [os.path.join(here, "..", "Conformance", "onnx-linear-attention", "Inputs"),
           os.path.join(here, "..", "onnx-linear-attention")]
root = next(filter(os.path.isdir, folders))
for d in sorted(os.listdir(root)):
    if d.startswith("test_linear_attention"):
        e, dt = onnx_case(f"{root}/{d}")
        report(f"ONNX vector {d[22:]} ({dt})", e, 2e-3 if dt == np.float16 else 2e-6)

print(f"{sum(results)} of {len(results)} checks hold")
assert len(results) == 56, len(results)
sys.exit(0 if all(results) else 1)

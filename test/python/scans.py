# RUN: %python %s
"""attn.linear_attention, attn.scan and attn.scan_step against the recurrence in
float64: every rule, and what a skeptic would try.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from scan_reference import check, elu1, recurrence

import attn
from attn import _scans

rng = np.random.default_rng(11)
BOUND = 2e-5
RULES = {
    "sums": {},
    "head": {"decay": "head"},
    "key": {"decay": "key"},
    "value": {"decay": "value", "gate": "value"},
    "weight": {"decay": "head", "weight": 1},
    "delta": {"beta": 1},
    "gated delta": {"decay": "head", "beta": 1},
    "kda": {"decay": "key", "beta": 1},
    "erase": {"decay": "head", "erase": "after"},
    "erase without decay": {"erase": "after"},
    "dplr": {"decay": "key", "erase": "after"},
    "rwkv7": {"decay": "key", "erase": "before"},
    "head erase before": {"decay": "head", "erase": "before"},
    "rwkv6": {"decay": "key", "read": "before", "bonus": 1},
    "read before": {"decay": "head", "read": "before"},
    "bonus and weight": {"read": "before", "bonus": 1, "weight": 1},
    "read before sums": {"read": "before", "bonus": 1},
    "bonus and delta": {"decay": "head", "beta": 1, "read": "before", "bonus": 1},
    "value read before": {"decay": "value", "gate": "value", "read": "before"},
    "before both": {"decay": "key", "erase": "before", "read": "before"},
    "log weight": {"decay": "head", "log_weight": 1},
    "log weight alone": {"log_weight": 1},
    "normalized": {"normalize": True},
    "normalized head": {"normalize": True, "decay": "head"},
    "normalized key": {"normalize": True, "decay": "key"},
    "normalized before": {"normalize": True, "decay": "key", "read": "before"},
    "mlstm": {"normalize": True, "decay": "head", "log_weight": 1},
    "whole": {"whole": True},
    "whole normalized": {"whole": True, "normalize": True, "weight": 1},
}


def inputs(b=2, hq=2, hk=2, hv=2, t=83, dk=24, dv=20, dtype=np.float32, positive=False):
    q, k, v = (
        rng.standard_normal((b, h, t, d))
        for h, d in ((hq, dk), (hk, dk), (hv, dv))
    )
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    if positive:
        q, k = abs(q), abs(k)
    return tuple(x.astype(dtype) for x in (q, k, v))


def options(rule, q, k, v):
    """Random operands of a rule, and whether it starts with a state."""
    b, t, dk, dv = q.shape[0], q.shape[2], q.shape[3], v.shape[3]
    heads = max(k.shape[1], v.shape[1])
    given = dict(rule)
    if "decay" in rule:
        width = {"head": (), "key": (dk,), "value": (dv,)}[rule["decay"]]
        g = -rng.exponential(0.4, (b, heads, t) + width).astype("f")
        if t > 20:
            g[:, :, 5], g[:, :, 17], g[:, :, 19] = 0, -np.inf, -1e4
        given["decay"] = g
    for name, low, high in (("beta", 0, 1), ("weight", 0, 2), ("log_weight", -6, 6)):
        if name in rule:
            given[name] = rng.uniform(low, high, (b, heads, t)).astype("f")
    if "erase" in rule:
        pair = tuple(0.3 * rng.standard_normal((b, heads, t, dk)).astype("f")
                     for _ in range(2))
        given["erase"] = pair + (("before",) if rule["erase"] == "before" else ())
    if "bonus" in rule:
        given["bonus"] = rng.standard_normal((heads, dk)).astype("f")
    return given


def start(given, b, heads, dk, dv):
    state = {"S": rng.standard_normal((b, heads, dk, dv)).astype("f")}
    if given.get("normalize"):
        state["z"] = rng.uniform(1, 2, (b, heads, dk)).astype("f")
    if "log_weight" in given:
        state["m"] = rng.uniform(-3, 3, (b, heads)).astype("f")
    return state


def ours(q, k, v, given, **more):
    given = dict(given)
    if given.pop("whole", False):
        given["causal"] = False
    return attn.scan(q, k, v, **given, **more)


def compare(label, q, k, v, given, state=None, bound=BOUND):
    want, want_state = recurrence(q, k, v, state=state, **given)
    got, got_state = ours(q, k, v, given, initial_state=state, return_state=True)
    check(label, got, want, bound)
    assert sorted(got_state) == sorted(want_state), label
    for part in want_state:
        check(label + " " + part, got_state[part], want_state[part], bound)
    return got, got_state


def test_every_rule():
    for name, rule in RULES.items():
        positive = bool(rule.get("normalize"))
        q, k, v = inputs(positive=positive)
        given = options(rule, q, k, v)
        compare(name, q, k, v, given)
        compare(name + " from a state", q, k, v, given, start(given, 2, 2, 24, 20))


def test_03_lengths_of_sequences():
    """3: every length around the ends of chunks."""
    for name in ("head", "kda", "gated delta", "rwkv7", "rwkv6", "value", "mlstm",
                 "whole"):
        rule = RULES[name]
        for t in (0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 129):
            q, k, v = inputs(1, 1, 1, 1, t, 16, 16,
                             positive=bool(rule.get("normalize")))
            given = options(rule, q, k, v)
            compare("%s of %d tokens" % (name, t), q, k, v, given,
                    start(given, 1, 1, 16, 16))
    q, k, v = inputs(1, 1, 1, 1, 4097, 16, 16)
    for name in ("gated delta", "kda"):
        compare(name + " of 4097 tokens", q, k, v, options(RULES[name], q, k, v))


def test_01_close_and_equal_keys():
    """1: equal keys for 4,096 tokens with beta 1 and 1.99, and cosines of 0.9."""
    q, k, v = inputs(1, 1, 1, 1, 4096, 32, 16)
    near = k[:, :, :1] + 0.08 * rng.standard_normal(k.shape)
    near = (near / np.linalg.norm(near, axis=-1, keepdims=True)).astype("f")
    for beta in (1.0, 1.99):
        for keys in (np.repeat(k[:, :, :1], 4096, 2), near):
            if beta > 1 and keys is near:
                continue  # diverges as the recurrence does
            given = {"beta": np.full((1, 1, 4096), beta, "f")}
            for gates in (None, np.zeros((1, 1, 4096), "f"),
                          np.zeros((1, 1, 4096, 32), "f")):
                some = given if gates is None else dict(given, decay=gates)
                compare("beta %g" % beta, q, keys.copy(), v, some, bound=2e-4)


def test_01_close_keys_in_bf16():
    """The same in 16 bits: what is written may be 5 times as large as outputs are."""
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        return
    for cosine in (0.0, 0.9, 1.0):
        for beta in (1.0, 1.99):
            q, k, v = inputs(1, 4, 4, 4, 257, 24, 16)
            k = cosine * k[:, :, :1] + (1 - cosine) * k
            k /= np.linalg.norm(k, axis=-1, keepdims=True)
            q, k, v = (x.astype(bfloat16) for x in (q, k, v))
            given = {"beta": np.full((1, 4, 257), beta, "f")}
            want, _ = recurrence(q, k, v, **given)
            for chunk in (None, 16, 64, 128):
                # Two units in the last place of the largest.
                got = _scans.run_scan(q, k, v, chunk=chunk, **given)
                check("%g, chunks of %s" % (cosine, chunk), got, want, 2 * 2.0**-8)


def test_02_gates_of_zero_and_one():
    """2: at the first, last and a middle token of a chunk, in one channel and all."""
    for rule in ("head", "key", "gated delta", "kda", "rwkv7", "rwkv6", "value",
                 "mlstm"):
        for value in (-np.inf, -1e4, -1e6, 0.0):
            for token in (0, 15, 16, 40, 63, 64):
                positive = bool(RULES[rule].get("normalize"))
                q, k, v = inputs(1, 1, 1, 1, 80, 16, 16, positive=positive)
                given = options(RULES[rule], q, k, v)
                given["decay"] = np.full_like(given["decay"], -0.01)
                where = (0, 0, token) + ((3,) if token % 2 and given["decay"].ndim == 4
                                         else ())
                given["decay"][where] = value
                compare("%s, a gate of exp(%g) at %d" % (rule, value, token), q, k, v,
                        given)


def test_04_packed_sequences():
    """4: with empty sequences first, last and in a row; each as itself alone."""
    lengths = [0, 5, 0, 0, 64, 17, 1, 70, 0]
    cu = np.cumsum([0] + lengths).astype("i")
    for name in ("head", "key", "kda", "gated delta", "rwkv7", "mlstm", "normalized"):
        rule = RULES[name]
        q, k, v = inputs(1, 2, 2, 2, cu[-1], 16, 20,
                         positive=bool(rule.get("normalize")))
        given = options(rule, q, k, v)
        state = start(given, len(lengths), 2, 16, 20)
        got, got_state = ours(q, k, v, given, cu_seqlens=cu, initial_state=state,
                              return_state=True)
        for i, (first, end) in enumerate(zip(cu, cu[1:])):
            part = {
                n: tuple(y[:, :, first:end] if hasattr(y, "shape") else y for y in x)
                if n == "erase"
                else x[:, :, first:end] if getattr(x, "ndim", 0) > 2 else x
                for n, x in given.items()
            }
            own = {n: x[i : i + 1] for n, x in state.items()}
            alone, alone_state = ours(
                *(x[:, :, first:end] for x in (q, k, v)), part, initial_state=own,
                return_state=True
            )
            assert np.array_equal(alone, got[:, :, first:end]), (name, i)
            for p in own:
                assert np.array_equal(alone_state[p][0], got_state[p][i]), (name, i, p)
                if first == end:
                    assert np.array_equal(alone_state[p], own[p]), (name, i, p)
        # The other way to hand packed sequences over.
        if name == "gated delta":
            turned = [np.ascontiguousarray(x[0].transpose(1, 0, 2)) for x in (q, k, v)]
            tokens = {n: np.ascontiguousarray(given[n][0].T) for n in ("decay", "beta")}
            other = attn.scan(*turned, cu_seqlens=cu, layout="thd", initial_state=state,
                              **tokens)
            assert np.array_equal(other.transpose(1, 0, 2), got[0])
    # Rows behind the last sequence are 0, also where there is none.
    q, k, v = inputs(1, 2, 1, 1, 90, 16, 16)
    for cu in ([0, 30], [0]):
        out = np.full((1, 2, 90, 16), np.nan, "f")
        attn.scan(q, k, v, cu_seqlens=cu, out=out)
        assert np.isfinite(out[:, :, : cu[-1]]).all() and (out[:, :,
                                                               cu[-1] :] == 0).all()
    empty = np.zeros(4, "i")
    q, k, v = inputs(1, 1, 1, 1, 0, 16, 16)
    state = rng.standard_normal((3, 1, 16, 16)).astype("f")
    o, last = attn.scan(q, k, v, cu_seqlens=empty, initial_state=state,
                        return_state=True)
    assert o.shape == (1, 1, 0, 16) and np.array_equal(last["S"], state)


def test_05_prefill_then_decode():
    """5: any split into a prefill and steps is the whole."""
    for name in ("head", "kda", "gated delta", "rwkv7", "rwkv6", "mlstm", "value"):
        rule = RULES[name]
        q, k, v = inputs(2, 2, 1, 2, 40, 16, 16, positive=bool(rule.get("normalize")))
        given = options(rule, q, k, v)
        want, want_state = recurrence(q, k, v, **given)

        def cut(first, end):
            part = dict(given)
            for n, x in given.items():
                if n == "erase":
                    part[n] = tuple(y[:, :, first:end] if hasattr(y, "shape") else y
                                    for y in x)
                elif getattr(x, "ndim", 0) > 2:
                    part[n] = x[:, :, first:end]
            return [x[:, :, first:end] for x in (q, k, v)], part

        for t in (0, 1, 15, 16, 17, 39):
            tokens, part = cut(0, t)
            o, state = ours(*tokens, part, return_state=True)
            check("%s, prefill" % name, o, want[:, :, :t], BOUND)
            for i in range(t, 40):
                tokens, part = cut(i, i + 1)
                tokens = [x[:, :, 0] for x in tokens]
                step = {
                    n: tuple(y[:, :, 0] if hasattr(y, "shape") else y for y in x)
                    if n == "erase"
                    else x[:, :, 0] if getattr(x, "ndim", 0) > 2 else x
                    for n, x in part.items()
                }
                o = attn.scan_step(*tokens, state, **step)
                check("%s, step %d" % (name, i), o, want[:, :, i], BOUND)
            for p in state:
                check("%s, %s" % (name, p), state[p], want_state[p], BOUND)


def test_slots():
    q, k, v = inputs(4, 2, 2, 2, 1, 16, 16)
    pool = rng.standard_normal((7, 2, 16, 16)).astype("f")
    before, slots = pool.copy(), np.array([5, -1, 0, 2], "i")
    state = np.where(slots[:, None, None, None] >= 0, pool[slots], 0)
    want, last = recurrence(q, k, v, state={"S": state})
    got = attn.scan_step(q[:, :, 0], k[:, :, 0], v[:, :, 0], pool, slots=slots)
    check("slots", got, want[:, :, 0], BOUND)
    for i, slot in enumerate(slots):
        if slot >= 0:
            check("slot", pool[slot], last["S"][i], BOUND)
    for slot in set(range(7)) - set(slots):
        assert np.array_equal(pool[slot], before[slot])
    for bad in ([0, 0, 1, 2], [0, 1, 2, 7], [-2, 0, 1, 2], [0, 1, 2]):
        refuse(attn.scan_step, q[:, :, 0], k[:, :, 0], v[:, :, 0], pool, slots=bad)
    assert np.array_equal(pool[6], before[6])


def test_06_dead_memory():
    """6: NaN beyond the sequence, around each tensor and in the next sequence."""
    for name in ("key", "kda", "rwkv7", "mlstm", "gated delta"):
        positive = bool(RULES[name].get("normalize"))
        q, k, v = inputs(1, 1, 1, 1, 50, 20, 12, positive=positive)
        given = options(RULES[name], q, k, v)
        want, _ = recurrence(q, k, v, **given)

        def fenced(x):
            wide = np.full(tuple(n + 6 for n in x.shape), np.nan, x.dtype)
            inner = wide[tuple(slice(3, 3 + n) for n in x.shape)]
            inner[...] = x
            return inner

        some = {
            n: tuple(fenced(y) if hasattr(y, "shape") else y for y in x)
            if n == "erase"
            else fenced(x) if hasattr(x, "shape") else x
            for n, x in given.items()
        }
        got = ours(*(fenced(x) for x in (q, k, v)), some)
        check(name, got, want, BOUND)
        # The next sequence of the tile.
        cu = np.array([0, 20, 50], "i")
        k[:, :, 20:], v[:, :, 20:] = np.nan, np.inf
        got = ours(q, k, v, given, cu_seqlens=cu)
        want, _ = recurrence(
            *(x[:, :, :20] for x in (q, k, v)),
            **{
                n: tuple(y[:, :, :20] if hasattr(y, "shape") else y for y in x)
                if n == "erase"
                else x[:, :, :20] if getattr(x, "ndim", 0) > 2 else x
                for n, x in given.items()
            }
        )
        check(name, got[:, :, :20], want, BOUND)


def test_08_a_million_tokens():
    """8: gates of 1 - 1e-5."""
    t = 1 << 20
    q, k, v = inputs(1, 1, 1, 1, t, 16, 16)
    gate = np.float32(np.log1p(-1e-5))
    decay = np.full((1, 1, t), gate)
    o, state = attn.scan(q, k, v, decay=decay, return_state=True)
    behind = np.exp(np.float64(gate) * np.arange(t - 1, -1, -1))
    want = (k[0, 0].astype(float) * behind[:, None]).T @ v[0, 0].astype(float)
    check("the last state", state["S"][0, 0], want, 1e-4)
    check("the last output", o[0, 0, -1], 0.25 * q[0, 0, -1].astype(float) @ want, 1e-4)


def test_09_denominators():
    """9: rows of dead ReLU features are 0; many terms; a normaliser resumed."""
    q, k, v = inputs(1, 2, 2, 2, 100, 16, 16)
    q[:, :, 7], k[:, :, :3] = -1, -1
    o = attn.linear_attention(q, k, v, feature_map="relu")
    want, _ = recurrence(q, k, v, feature=lambda x: np.maximum(x, 0), normalize=True)
    assert (o[:, :, 7] == 0).all() and (o[:, :, :3] == 0).all()
    check("relu", o, want, 1e-4)
    first, state = attn.linear_attention(q[:, :, :37], k[:, :, :37], v[:, :, :37],
                                         feature_map="elu1", return_state=True)
    rest = attn.linear_attention(q[:, :, 37:], k[:, :, 37:], v[:, :, 37:],
                                 feature_map="elu1", initial_state=state)
    want, _ = recurrence(q, k, v, feature=elu1, normalize=True)
    check("resumed", np.concatenate([first, rest], 2), want, BOUND)
    q, k, v = inputs(1, 1, 1, 1, 100000, 16, 16, positive=True)
    o = attn.linear_attention(q, k, v)
    num, den = np.cumsum(k[0, 0].astype(float), 0), q[0, 0, -1].astype(float)
    last = den @ (k[0, 0].astype(float).T @ v[0, 0].astype(float)) / (den @ num[-1])
    assert abs(o[0, 0, -1] - last).max() < 1e-4


def test_09_weights_that_fade():
    """Tokens without weight behind gates that leave next to nothing: what those
    before have is as it was, relative to each other."""
    t = 75
    q, k, v = inputs(1, 1, 1, 1, t, 16, 16, positive=True)
    for size in (1e2, 1e4, 1e6, 1e8, 1e30):
        decay = (-0.2 * abs(rng.standard_normal((1, 1, t)))).astype("f")
        log_weight = rng.standard_normal((1, 1, t)).astype("f")
        log_weight[..., 9:] = -np.inf
        decay[..., 20::7] = -size * rng.uniform(0.5, 1.5, decay[..., 20::7].shape)
        given = dict(decay=decay, log_weight=log_weight, normalize=True)
        want, last = recurrence(q, k, v, **given)
        for chunk in (None, 1, 16, 64):
            o, state = _scans.run_scan(q, k, v, return_state=True, chunk=chunk, **given)
            check("o", o, want, 2e-6)
            check("m", state["m"], last["m"], 1e-6)
            for part in "Sz":
                # Relative to m, of which float32 has 24 bits.
                x, y = (np.asarray(s[part], float) for s in (state, last))
                check(part, x / abs(x).max(), y / abs(y).max(), 2e-6)


def test_09_long_sums_of_erases():
    """Chunks are more exact than token by token: what erases have added is not
    rounded to the size of what keys have, nor, of few tokens, either of them to that
    of the state."""
    for name in ("erase", "dplr", "rwkv7"):
        q, k, v = inputs(8, 2, 2, 2, 128, 16, 16)
        given = options(RULES[name], q, k, v)
        # All that is added stays.
        given["decay"] = -1e-3 * rng.exponential(size=given["decay"].shape).astype("f")
        a, b = (x * np.float32(0.4) for x in given["erase"][:2])
        given["erase"] = (a, b) + given["erase"][2:]
        want, last = recurrence(q, k, v, **given)

        def errors(chunk):
            o, state = _scans.run_scan(q, k, v, return_state=True, chunk=chunk, **given)
            pairs = ((o, want), (state["S"], last["S"]))
            return [np.sqrt(np.mean((np.asarray(x, float) - y) ** 2)) for x, y in pairs]

        tokens = errors(1)
        for chunk in (16, 32, 64, 128):
            for what, x, y in zip("oS", errors(chunk), tokens):
                assert x < 0.75 * y, "%s of %s, chunks of %d: %.2e, but %.2e of 1" % (
                    what, name, chunk, x, y)


def test_10_heads_and_channels():
    """10: groups both ways, odd channels, layouts, views that start anywhere."""
    for hq, hk, hv in ((16, 16, 64), (64, 16, 16), (3, 3, 12), (24, 24, 24), (2, 4, 8),
                       (8, 2, 4), (2, 2, 1)):
        q, k, v = inputs(1, hq, hk, hv, 30, 16, 16)
        for name in ("gated delta", "key"):
            compare("%d/%d/%d heads" % (hq, hk, hv), q, k, v,
                    options(RULES[name], q, k, v))
    for dk, dv in ((128, 128), (64, 128), (256, 256), (60, 100), (1, 1), (17, 33)):
        q, k, v = inputs(1, 1, 1, 1, 70, dk, dv)
        for name in ("gated delta", "kda"):
            compare("%dx%d" % (dk, dv), q, k, v, options(RULES[name], q, k, v))
    q, k, v = inputs(2, 2, 2, 2, 50, 17, 19)
    given = options(RULES["kda"], q, k, v)
    want, _ = recurrence(q, k, v, **given)
    for layout, order in (("bshd", (0, 2, 1, 3)), ("sbhd", (2, 0, 1, 3))):
        turned = [np.ascontiguousarray(x.transpose(order))
                  for x in (q, k, v, given["decay"])]
        beta = np.ascontiguousarray(given["beta"].transpose(order[:3]))
        got = attn.scan(*turned[:3], decay=turned[3], beta=beta, layout=layout)
        check(layout, got, want.transpose(order), BOUND)
        out = np.empty_like(got)
        assert attn.scan(*turned[:3], decay=turned[3], beta=beta, layout=layout,
                         out=out) is out
        assert np.array_equal(out, got)
    # Views that do not start at 16 bytes, with rows that are apart.
    wide = [np.zeros(x.shape[:3] + (x.shape[3] + 3,), "f") for x in (q, k, v)]
    for view, x in zip(wide, (q, k, v)):
        view[..., 1:-2] = x
    got = attn.scan(*(view[..., 1:-2] for view in wide), **given)
    check("views", got, want, BOUND)
    # Taylor-2 of 16 channels: 153 features, 64 value channels.
    q, k, v = inputs(1, 2, 2, 2, 70, 16, 64)
    s = np.einsum("bhid,bhjd->bhij", q.astype(float), k.astype(float)) / 4
    w = np.tril(1 + s + s * s / 2)
    got = attn.linear_attention(q, k, v, feature_map="taylor2")
    check("taylor2", got, w @ v / w.sum(-1, keepdims=True), 1e-4)


def test_other_types():
    for dtype, bound in ((np.float16, 2e-3), ("bfloat16", 1.5e-2)):
        if dtype == "bfloat16":
            try:
                import ml_dtypes
            except ImportError:
                continue
            dtype = ml_dtypes.bfloat16
        for name in ("head", "kda", "rwkv7", "normalized"):
            q, k, v = inputs(dtype=dtype, positive=name == "normalized")
            given = options(RULES[name], q, k, v)
            want, _ = recurrence(q, k, v, **given)
            got = ours(q, k, v, given)
            assert got.dtype == q.dtype
            check(str(dtype), got, want, bound)


def test_infinite_and_large_values():
    """Where values and states of f32 are parts of bf16, no part makes another
    number of what is infinite, NaN, or next to the largest."""
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        return
    for words in ({}, {"beta": 1}):
        q, k, v = inputs(1, 1, 1, 1, 130, 64, 32)
        k[..., 3] = 0
        for token, channel, value in ((70, 2, np.inf), (71, 4, -np.inf),
                                      (72, 6, np.nan), (73, 8, 3e38)):
            v[0, 0, token, channel] = value
        q, k, v = (x.astype(bfloat16) for x in (q, k, v))
        decay = np.full(q.shape[:3], -0.01, "f")
        given = dict({"beta": np.full(q.shape[:3], 0.5, "f")} if words else {},
                     decay=decay)
        _, state = attn.scan(q, k, v, return_state=True, **given)
        with np.errstate(invalid="ignore", over="ignore"):
            _, want = recurrence(*(x.astype("d") for x in (q, k, v)), scale=1,
                                 state=None, **given)
        got, want = state["S"].astype("d"), want["S"]
        assert np.isnan(want[..., 6]).all() and not np.isfinite(want[..., 2]).any()
        assert np.array_equal(np.isfinite(got), np.isfinite(want)), words
        if not words:
            # The rule of a sum leaves no doubt which of the two.
            assert np.array_equal(np.isnan(got), np.isnan(want))
            assert np.array_equal(got[np.isinf(got)], want[np.isinf(want)])
        for channel in range(32):
            if np.isfinite(want[..., channel]).all():
                check("channel %d" % channel, got[..., channel], want[..., channel],
                      1e-5)


def test_feature_maps():
    q, k, v = inputs(1, 2, 2, 2, 40, 16, 16)
    quadratic = lambda w: np.tril(w) @ v / np.tril(w).sum(-1, keepdims=True)
    q64, k64 = q.astype(float), k.astype(float)
    s = q64 @ k64.swapaxes(-1, -2) / 4
    got = attn.linear_attention(q, k, v, feature_map="taylor2")
    check("taylor2", got, quadratic(1 + s + s * s / 2), 1e-4)
    got = attn.linear_attention(q, k, v, feature_map="elu1")
    check("elu1", got, quadratic(elu1(q64) @ elu1(k64).swapaxes(-1, -2)), BOUND)
    w = rng.standard_normal((16, 8)).astype("f")
    got = attn.linear_attention(q, k, v, feature_map=("hedgehog", w))
    check("hedgehog", got,
          quadratic(np.exp(q64 @ w) @ np.exp(k64 @ w).swapaxes(-1, -2)), 1e-4)
    text = "^bb0(%x: f32):\n  %y = arith.mulf %x, %x : f32\n  attn.yield %y : f32"
    got = attn.linear_attention(q, k, v, feature_map=text)
    check("text", got, quadratic((q64**2) @ (k64**2).swapaxes(-1, -2)), 1e-3)
    want, _ = recurrence(q, k, v, beta=np.ones((1, 2, 40)), l2norm=True)
    got = attn.linear_attention(q, 3 * k, v, beta=np.ones((1, 2, 40)), normalize=False,
                                qk_l2norm=True)
    check("qk_l2norm", got,
          recurrence(q, 3 * k, v, beta=np.ones((1, 2, 40)), l2norm=True)[0], BOUND)


def test_directions_and_states():
    q, k, v = inputs(2, 2, 2, 2, 75, 16, 16)
    given = options(RULES["kda"], q, k, v)
    flip = lambda x: np.ascontiguousarray(x[:, :, ::-1])
    want, want_state = recurrence(*map(flip, (q, k, v)), decay=flip(given["decay"]),
                                  beta=flip(given["beta"]))
    got, state = attn.scan(q, k, v, direction="reverse", return_state=True, **given)
    check("reverse", flip(got), want, BOUND)
    check("reverse", state["S"], want_state["S"], BOUND)
    o, states = attn.scan(q, k, v, states_every=20, **given)
    check("states_every", o, recurrence(q, k, v, **given)[0], BOUND)
    assert states["S"].shape == (2, 2, 3, 16, 16)
    for i in range(3):
        part = {n: x[:, :, : 20 * (i + 1)] for n, x in given.items()}
        _, last = recurrence(*(x[:, :, : 20 * (i + 1)] for x in (q, k, v)), **part)
        check("states_every", states["S"][:, :, i], last["S"], BOUND)
    # Numbers that all tokens share.
    shared = {n: x[:, :, :1] for n, x in given.items()}
    o, states = attn.scan(q, k, v, states_every=20, return_state=True, **shared)[:2]
    want, last = attn.scan(q, k, v, return_state=True, **shared)
    check("states_every", o, want.astype(float), BOUND)
    check("states_every", states["S"], last["S"].astype(float), BOUND)


def test_state_layouts():
    """States whose value channels come first, S alone and beside others."""
    turn = lambda state: dict(state, S=state["S"].swapaxes(-1, -2))
    for rule in ("gated delta", "mlstm"):
        q, k, v = inputs(2, 2, 2, 2, 40, 24, 20, positive=rule == "mlstm")
        given = options(RULES[rule], q, k, v)
        first = start(given, 2, 2, 24, 20)
        want, last = ours(q, k, v, given, initial_state=first, return_state=True)
        for own in (turn(first), turn(dict(first, S=first["S"].copy("F")))):
            got, state = ours(q, k, v, given, initial_state=own, return_state=True,
                              state_layout="vk")
            assert (got == want).all() and state["S"].shape == (2, 2, 20, 24)
            assert all((turn(state)[part] == last[part]).all() for part in last)
        _, states = ours(q, k, v, given, initial_state=turn(first), states_every=20,
                         state_layout="vk")
        check("states_every", states["S"][:, :, 1], state["S"], BOUND)


def softplus_gates(raw, rate, bias):
    """-exp(A) softplus(x + bias) of raw gates of heads or of channels."""
    rate = np.exp(rate.astype("d")).reshape((-1,) + (1,) * (raw.ndim - 2))
    return -rate * np.logaddexp(0, raw + bias.astype("d")[:, None])


def test_gate_maps():
    """Log gates of a region, of heads and channels; what lies behind a length decays
    nothing."""
    for rule, width in (("gated delta", ()), ("key", (24,)), ("value", (20,))):
        q, k, v = inputs(2, 4, 2, 2, 70, 24, 20)
        given = options(RULES[rule], q, k, v)
        raw = rng.standard_normal(given["decay"].shape).astype("f")
        rate = rng.uniform(-3, 0, 2).astype("f")
        bias = rng.standard_normal((2,) + width).astype("f")
        given["decay"] = softplus_gates(raw, rate, bias)
        for length in (70, 41):
            cut = lambda x: x[1:, :, :length] if getattr(x, "ndim", 0) > 2 else x
            want, last = recurrence(*map(cut, (q, k, v)),
                                    **{n: cut(x) for n, x in given.items()})
            got, state = ours(q, k, v, dict(given, decay=raw), return_state=True,
                              gate_map=("softplus", rate, bias),
                              lengths=np.array([70, length], "i"))
            check(rule, got[1:, :, :length], want, BOUND)
            check(rule + " S", state["S"][1:], last["S"], BOUND)


def test_finalize():
    """Outputs of a region: a gate of each, and factors of heads and channels."""
    text = """^bb0(%o: f32, %x: f32, %d: f32, %n: f32):
      %y = math.fma %d, %x, %o : f32
      %p = arith.mulf %y, %n : f32
      attn.yield %p : f32"""
    for layout in ("bhsd", "bshd"):
        order = (0, 1, 2, 3) if layout == "bhsd" else (0, 2, 1, 3)
        q, k, v = inputs(2, 4, 2, 2, 50, 24, 20)
        z = rng.standard_normal((2, 4, 50, 20)).astype("f")
        skip = rng.standard_normal((4, 20)).astype("f")
        factor = rng.standard_normal(4).astype("f")
        want, _ = recurrence(q, k, v)
        turned = [x.transpose(order) for x in (q, k, v, z)]
        got = attn.scan(*turned[:3], layout=layout, finalize=("silu", turned[3]))
        check("silu", got.transpose(order), want * z / (1 + np.exp(-z.astype("d"))),
              BOUND)
        got = attn.scan(*turned[:3], layout=layout,
                        finalize=(text, turned[3], skip, factor))
        check("text", got.transpose(order),
              (want + skip[:, None] * z) * factor[:, None, None], BOUND)


def test_11_few_compilations():
    """11: fifty lengths and ten batch shapes are one kernel."""
    from attn import _kernel

    attn.clear_cache()
    for t in range(1, 51):
        q, k, v = inputs(1, 1, 1, 1, t, 16, 16)
        attn.scan(q, k, v, decay=np.zeros((1, 1, t), "f"))
    for b in range(10):
        q, k, v = inputs(b, 2, 2, 2, 5, 16, 16)
        attn.scan(q, k, v, decay=np.zeros((b, 2, 5), "f"))
    assert len(_kernel.kept) == 1


def refuse(function, *args, **named):
    try:
        function(*args, **named)
    except (ValueError, TypeError) as error:
        assert str(error).startswith("attn: expected"), error
        assert "\n" not in str(error), error
        return
    raise AssertionError("expected an error from %r" % (sorted(named),))


def test_errors():
    q, k, v = inputs()
    t3, t4 = np.zeros((2, 2, 83), "f"), np.zeros((2, 2, 83, 24), "f")
    for named in (
        {"decay": t3[:1, :, :50]},
        {"decay": np.zeros((2, 2, 83, 7), "f")},
        {"decay": t3, "beta": t3},  # normalize
        {"scale": "x"},
        {"causal": False, "decay": t3},
        {"initial_state": {"S": np.zeros((2, 2, 24, 20), "f")}},  # no z
        {"initial_state": np.zeros((2, 2, 24, 24), "f"), "normalize": False},
        {"feature_map": "softmax"},
        {"layout": "bsdh"},
        {"cu_seqlens": [0, 83]},  # two batches
        {"log_weight": t3, "decay": t4},
        {"out": np.empty((2, 2, 83, 24), "f")},
        {"normalize": 1},
        {"return_state": None},
        {"state_layout": "kk"},
        {"initial_state": np.zeros((2, 2, 24, 20), "f"), "normalize": False,
         "state_layout": "vk"},
        {"beta": np.zeros((2, 2, 83), "i"), "normalize": False},
    ):
        refuse(attn.linear_attention, q, k, v, **named)
    for args in ((q[0], k, v), (q, k[..., :3], v), (q, k[:, :, :5], v),
                 (q.astype("d"), k, v), (q, k, v.astype("e")), (q, [1], v)):
        refuse(attn.linear_attention, *args)
    refuse(attn.linear_attention, *inputs(1, 3, 2, 2))
    refuse(attn.scan, q, k, v, monoid="softmax")
    refuse(attn.scan, q, k, v, monoid="gated_decay")
    refuse(attn.scan, q, k, v, erase=(t4,))
    refuse(attn.scan, q, k, v, bonus=np.zeros((2, 24), "f"))
    refuse(attn.scan, q, k, v, states_every=0)
    refuse(attn.scan, q, k, v, states_every=3, erase=t4)
    refuse(attn.linear_attention, q, k, v, feature_map=("hedgehog", [[1]]))
    refuse(attn.scan, q, k, v, slots=[0, 1],
           initial_state=np.zeros((2, 2, 24, 20), "f"), return_state=True)
    refuse(attn.scan, q, k, v, slots=[0, 1], state_layout="vk",
           initial_state=np.zeros((2, 2, 24, 20), "f"))
    pair = np.zeros(2, "f"), np.zeros(2, "f")
    refuse(attn.scan, q, k, v, gate_map=("softplus",) + pair)  # no decay
    refuse(attn.scan, q, k, v, decay=t3, gate_map="sigmoid")
    refuse(attn.scan, q, k, v, decay=t3, gate_map=("softplus", pair[0]))
    refuse(attn.scan, q, k, v, decay=t3, gate_map=("softplus", t4, pair[0]))
    refuse(attn.scan, q, k, v, finalize=("silu", np.zeros((3, 20), "f")))
    refuse(attn.scan, q, k, v, finalize=("silu", v), states_every=3)
    refuse(attn.scan_step, q[0, :, 0], k[:, :, 0], v[:, :, 0], {})
    state = np.zeros((2, 2, 24, 20), "f")
    state.setflags(write=False)
    refuse(attn.scan_step, q[:, :, 0], k[:, :, 0], v[:, :, 0], state)
    turned = np.zeros((2, 2, 20, 24), "f").swapaxes(2, 3)
    try:
        attn.scan_step(q[:, :, 0], k[:, :, 0], v[:, :, 0], turned)
    except ValueError as error:
        assert "a state with stride 1 in its last dimension" in str(error), error
    else:
        raise AssertionError("expected an error from a transposed state")


def main():
    tests = [f for n, f in sorted(globals().items()) if n.startswith("test_")]
    wanted = sys.argv[1:]
    for test in tests:
        if not wanted or test.__name__ in wanted:
            test()
            print("%s: ok" % test.__name__, flush=True)


if __name__ == "__main__":
    main()

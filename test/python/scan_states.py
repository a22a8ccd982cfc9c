# RUN: %python %s
"""attn.StateTree, attn.prefix_states and attn.fla.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import reference
from scan_reference import check, elu1, recurrence

import attn

# Softmax in base 2, with a temperature.
SOFTMAX2 = """
attn.monoid @softmax2 cocycle stats(f32) components(value, unit) params(f32)
    outputs("o") {
  identity {
  ^bb0(%tau: f32):
    %ninf = arith.constant 0xFF800000 : f32
    attn.yield %ninf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32, %tau: f32):
    %m = arith.maximumf %a, %b : f32
    attn.yield %m : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32, %tau: f32):
    %d = arith.subf %from, %to : f32
    %q = arith.divf %d, %tau : f32
    %r = math.exp2 %q : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32, %tau: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one : f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %acc: f32, %sum: f32, %tau: f32):
    %zero = arith.constant 0.0 : f32
    %none = arith.cmpf oeq, %sum, %zero : f32
    %q = arith.divf %acc, %sum : f32
    %o = arith.select %none, %zero, %q : f32
    attn.yield %o : f32
  }
}
"""
from attn import fla

rng = np.random.default_rng(5)


def tokens(b, h, t, dk, dv, rule):
    k, v = rng.standard_normal((b, h, t, dk)), rng.standard_normal((b, h, t, dv))
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    rows = {"k": k.astype("f"), "v": v.astype("f")}
    if "head" in rule or "key" in rule:
        shape = (b, h, t) + ((dk,) if "key" in rule else ())
        rows["decay"] = -rng.exponential(0.3, shape).astype("f")
        rows["decay"][:, :, t // 3] = -np.inf
    if "delta" in rule:
        rows["beta"] = rng.uniform(0, 1, (b, h, t)).astype("f")
    return rows


def cut(rows, first, end):
    return {n: x[:, :, first:end] for n, x in rows.items()}


def last_state(rows, **more):
    rows = dict(rows)
    k, v = rows.pop("k"), rows.pop("v")
    return recurrence(k, k, v, **rows, **more)[1]


def test_trees_of_scans():
    for rule in ("", "head", "key", "delta", "head delta", "key delta"):
        rows = tokens(2, 2, 150, 16, 8, rule)
        tree = attn.StateTree(leaf=16)
        # In pieces that do not end with leaves.
        for first, end in ((0, 1), (1, 70), (70, 70), (70, 128)):
            tree.append(**cut(rows, first, end))
        assert tree.tokens == 128
        for t in (0, 1, 15, 16, 17, 64, 100, 112, 127, 128):
            check("%s, state(%d)" % (rule, t), tree.state(t)["S"],
                  last_state(cut(rows, 0, t))["S"], 1e-4)
        # One token: its leaf and log2 of the 8 leaves.
        new = tokens(2, 2, 1, 16, 8, rule)
        before = tree.combines
        tree.update(37, **new)
        assert tree.combines - before == 3, tree.combines - before
        for name in rows:
            rows[name][:, :, 37:38] = new[name]
        check(rule + ", update", tree.state()["S"], last_state(cut(rows, 0, 128))["S"],
              1e-4)
        # A run over two leaves, and more tokens.
        new = tokens(2, 2, 20, 16, 8, rule)
        tree.update(60, **new)
        for name in rows:
            rows[name][:, :, 60:80] = new[name]
        tree.append(**cut(rows, 128, 150))
        check(rule + ", append", tree.state()["S"], last_state(rows)["S"], 1e-4)
        q = rng.standard_normal((2, 4, 5, 16)).astype("f")
        for t in (0, 33, 150):
            S = last_state(cut(rows, 0, t))["S"].repeat(2, 1)
            check(rule + ", read", tree.read(q, t), q.astype(float) @ S / 4, 1e-4)


def test_normalized_tree():
    rows = tokens(1, 2, 90, 16, 8, "head")
    tree = attn.StateTree(leaf=32, normalize=True, feature_map="elu1")
    tree.append(**rows)
    q = rng.standard_normal((1, 2, 3, 16)).astype("f")
    last = last_state(rows, normalize=True, feature=elu1)
    for part in "Sz":
        check(part, tree.state()[part], last[part], 1e-4)
    num = elu1(q.astype(float)) @ last["S"]
    den = np.einsum("bhsd,bhd->bhs", elu1(q.astype(float)), last["z"])[..., None]
    check("read", tree.read(q), num / den, 1e-4)


def test_states_of_trees_are_the_callers():
    """What a tree returns may be changed: a step does so in place."""
    k, v = (rng.standard_normal((1, 2, 8, 16)).astype("f") for _ in range(2))
    beta = rng.uniform(0, 1, (1, 2, 8)).astype("f")
    tree = attn.StateTree(leaf=8)
    tree.append(k, v, beta=beta)
    state = tree.state()
    want = state["S"].copy()
    attn.scan_step(k[:, :, 0], k[:, :, 1], v[:, :, 0], state, beta=beta[:, :, 0])
    assert not np.array_equal(state["S"], want)
    assert np.array_equal(tree.state()["S"], want)
    tree = attn.StateTree(leaf=8, monoid="softmax")
    tree.append(k, v)
    o = tree.read(k[:, :, :1])
    want = o.copy()
    o *= 0
    assert np.array_equal(tree.read(k[:, :, :1]), want)


def test_trees_of_attention():
    k, v = (rng.standard_normal((2, 2, 100, 16)).astype("f") for _ in range(2))
    q = rng.standard_normal((2, 4, 3, 16)).astype("f")
    tree = attn.StateTree(leaf=16, monoid="softmax")
    tree.append(k[:, :, :70], v[:, :, :70])
    tree.append(k[:, :, 70:], v[:, :, 70:])

    def want(t):
        return reference.attention(q, k[:, :, :t], v[:, :, :t])[0]

    for t in (100, 0, 5, 16, 70, 96, 99):
        assert np.abs(tree.read(q, t) - want(t)).max() < 1e-5, t
    before = tree.combines
    k[:, :, 50], v[:, :, 50] = -k[:, :, 50], 3
    tree.update(50, k[:, :, 50:51], v[:, :, 50:51])
    assert tree.combines - before == 3, tree.combines - before
    assert np.abs(tree.read(q) - want(100)).max() < 1e-5
    assert tree.combines - before == 3
    o, lse = tree.state()
    assert np.abs(o - want(100)).max() < 1e-5 and lse.shape == (2, 4, 3)
    q = -q
    assert np.abs(tree.read(q) - want(100)).max() < 1e-5


def fails(call, error):
    try:
        call()
    except error:
        return
    raise AssertionError("no error")


def test_trees_after_errors():
    """A call that fails leaves the tree as it was, also after some of its leaves."""
    k, v = (rng.standard_normal((1, 2, 50, 16)).astype("f") for _ in range(2))
    q = k[:, :, :3]
    tree = attn.StateTree(leaf=8, monoid="softmax")
    fails(lambda: tree.read(q.astype("f2")), ValueError)  # no tokens yet
    tree.append(k[:, :, :40], v[:, :, :40])
    for wrong in (q.astype("f2"), q[0], q[..., :8], q.repeat(2, 0)):
        fails(lambda: tree.read(wrong), (ValueError, TypeError))
    tree.append(k[:, :, 40:], v[:, :, 40:])
    assert tree.tokens == 50
    want = reference.attention(q, k, v)[0]
    assert np.abs(tree.read(q) - want).max() < 1e-5
    before = tree.combines
    calls = []

    def attend(rows):
        calls.append(rows)
        if len(calls) == 2:
            raise MemoryError
        return real(rows)

    real, tree._attend = tree._attend, attend
    fails(lambda: tree.update(20, -k[:, :, :9], v[:, :, :9]), MemoryError)
    calls.clear()
    fails(lambda: tree.append(k, v), MemoryError)
    tree._attend = real
    assert tree.tokens == 50 and tree.combines == before
    assert np.abs(tree.read(q) - want).max() < 1e-5 and tree.combines == before
    assert np.abs(tree.read(q[:, :, :2], 33)
                  - reference.attention(q[:, :, :2], k[:, :, :33], v[:, :, :33])[0]
                  ).max() < 1e-5

    tree = attn.StateTree(leaf=8)
    tree.update(0, k[:, :, :0], v[:, :, :0])
    fails(lambda: tree.append(k, v.astype("f2")), TypeError)
    tree.append(k, v)
    assert tree.tokens == 50
    check("after an error", tree.state()["S"], last_state({"k": k, "v": v})["S"], 1e-4)


def test_trees_of_features():
    """More channels than keys have, and one gate for each head."""
    rows = tokens(1, 2, 30, 6, 8, "delta")
    rows["k"] /= 4
    decay = np.array([-0.1, -0.5], "f")
    tree = attn.StateTree(leaf=8, feature_map="taylor2")
    tree.append(decay=decay, **rows)
    for t in (5, 16, 30):
        some = cut(rows, 0, t)
        k, v = some.pop("k"), some.pop("v")
        state = attn.scan(k, k, v, decay=decay, feature_map="taylor2",
                          return_state=True, **some)[1]
        check("taylor2, state", tree.state(t)["S"], state["S"], 1e-4)


def test_prefixes_of_16_bits():
    """The running sum of many blocks is not rounded to the type at each of them."""
    scores = np.zeros((1, 1, 256 * 200), "f")
    v = np.ones((1, 1, 256 * 200, 1), "f")
    v[:, :, : 256 * 20] = 0
    o, lse = attn.prefix_states(scores.astype("f2"), v.astype("f2"), every=256)
    want = v.astype(float).cumsum(2) / np.arange(1, v.shape[2] + 1)[:, None]
    assert o.dtype == np.float16 and lse.dtype == np.float32
    assert np.abs(o.astype(float) - want[:, :, 255::256]).max() < 5e-4
    refuse(attn.prefix_states, scores, v.astype("f8"))


def test_prefixes():
    scores = (3 * rng.standard_normal((2, 4, 600))).astype("f")
    v = rng.standard_normal((2, 2, 600, 8)).astype("f")
    o, lse = attn.prefix_states(scores, v)
    w = np.exp(scores.astype(float))
    want = np.cumsum(w[..., None] * v.repeat(2, 1), 2) / np.cumsum(w, 2)[..., None]
    check("prefixes", o, want, 1e-5)
    check("prefixes", lse, np.log(np.cumsum(w, 2)), 1e-5)
    some, _ = attn.prefix_states(scores, v, every=7)
    assert np.array_equal(some, o[:, :, 6::7]) and some.shape[2] == 85
    top = attn.prefix_states(scores, v, monoid="maxplus")
    want = np.maximum.accumulate(scores[..., None] + v.repeat(2, 1), 2)
    check("maxplus", top, want, 1e-5)
    # Monoids of one's own, of several scores, with parameters; across blocks.
    mean, wide = attn.prefix_states(scores, v, monoid="welford"), np.maximum(scores, 0)
    wide = wide.astype(float)[..., None]
    total = np.cumsum(wide, 2)
    want = np.cumsum(wide * v.repeat(2, 1), 2) / np.where(total, total, 1)
    check("welford", mean, want, 1e-4)
    base2 = attn.prefix_states(scores, v, monoid=SOFTMAX2, monoid_params=(1.7,))
    w = np.exp2(scores.astype(float) / 1.7)[..., None]
    check("softmax2", base2, np.cumsum(w * v.repeat(2, 1), 2) / np.cumsum(w, 2), 1e-4)
    gates = -rng.exponential(0.1, scores.shape).astype("f")
    far = (30 * rng.standard_normal(scores.shape)).astype("f")
    got = attn.prefix_states((scores, gates, far), v, monoid="mlstm", every=3)
    want = mlstm(scores, gates, far, v.repeat(2, 1))[:, :, 2::3]
    check("mlstm", got, want, 1e-4)
    got = attn.prefix_states((scores, gates), v, monoid="gated_decay")
    want, sums = np.zeros(v.repeat(2, 1).shape), 0
    for t in range(600):
        sums = np.exp(gates[:, :, t, None].astype(float)) * sums + (
            scores[:, :, t, None] * v.repeat(2, 1)[:, :, t]
        )
        want[:, :, t] = sums
    check("gated_decay", got, want, 1e-4)
    none = attn.prefix_states(scores[:, :, :0], v[:, :, :0], monoid="maxplus")
    assert none.shape == (2, 4, 0, 8)
    refuse(attn.prefix_states, (scores, scores), v)
    refuse(attn.prefix_states, (scores, gates), v, monoid="mlstm")
    refuse(attn.prefix_states, (scores, gates[:, :, 1:]), v, monoid="gated_decay")
    refuse(attn.prefix_states, [], v)
    try:
        attn.prefix_states(scores.astype(float), v)
    except TypeError as error:
        assert "expected scores of a float type" in str(error), error
    refuse(attn.prefix_states, scores, v, monoid="hardmax")
    refuse(attn.prefix_states, scores, v, monoid=SOFTMAX2)


def mlstm(scores, gates, weights, v):
    """num / max(|den|, 1), relative to the largest weight."""
    o, top = np.zeros(v.shape), np.full(scores.shape[:2], -np.inf)
    num, den = np.zeros(v.shape[:2] + v.shape[3:]), np.zeros(scores.shape[:2])
    for t in range(scores.shape[2]):
        s, f, i = (x[:, :, t].astype(float) for x in (scores, gates, weights))
        largest = np.maximum(top + f, i)
        alpha, beta = np.exp(top + f - largest), np.exp(i - largest) * s
        num = alpha[..., None] * num + beta[..., None] * v[:, :, t]
        den, top = alpha * den + beta, largest
        o[:, :, t] = num / np.maximum(abs(den), np.exp(-top))[..., None]
    return o


def test_fla():
    b, t, h, dk, dv = 2, 70, 3, 16, 24
    q, k = (rng.standard_normal((b, t, h, dk)).astype("f") for _ in range(2))
    v = rng.standard_normal((b, t, h, dv)).astype("f")
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    g, gk = (-rng.exponential(0.3, s).astype("f") for s in ((b, t, h), (b, t, h, dk)))
    beta = rng.uniform(0, 1, (b, t, h)).astype("f")
    a, e = (0.3 * rng.standard_normal((b, t, h, dk)).astype("f") for _ in range(2))
    u = rng.standard_normal((h, dk)).astype("f")
    s0 = rng.standard_normal((b, h, dk, dv)).astype("f")
    turn = lambda x: x.swapaxes(1, 2)
    per_head = lambda x: np.broadcast_to(x[None, :, None], (b, h, t))
    retention = np.log(1 - 2.0 ** (-5 - np.arange(h)))
    cases = {
        "chunk_linear_attn": ((), dict(normalize=False), {}),
        "chunk_retention": ((), {}, {"decay": per_head(retention)}),
        "chunk_simple_gla": ((g,), {}, {"decay": turn(g)}),
        "fused_recurrent_gla": ((gk,), {}, {"decay": turn(gk)}),
        "chunk_gla": ((gk,), {}, {"decay": turn(gk)}),
        "chunk_delta_rule": ((beta,), {}, {"beta": turn(beta)}),
        "chunk_gated_delta_rule": ((g, beta), {},
                                   {"decay": turn(g), "beta": turn(beta)}),
        "chunk_kda": ((gk, beta), {}, {"decay": turn(gk), "beta": turn(beta)}),
        "chunk_rwkv6": ((gk, u), {}, {"decay": turn(gk), "bonus": u, "read": "before"}),
        "chunk_dplr_delta_rule": (
            (a, e, gk), {}, {"decay": turn(gk), "erase": (turn(a), turn(e), "before")}
        ),
    }
    for name, (args, options, rule) in cases.items():
        want, last = recurrence(turn(q), turn(k), turn(v), state={"S": s0}, **rule)
        function = getattr(fla, name)
        o, state = function(q, k, v, *args, initial_state=s0, output_final_state=True,
                            **options)
        check(name, o, turn(want), 2e-5)
        check(name, state, last["S"], 2e-5)
        assert function(q, k, v, *args, **options)[1] is None
        try:
            function(q, k, v, *args, no_such_argument=1)
        except TypeError:
            continue
        raise AssertionError(name)
    o, state = fla.chunk_gated_delta_rule(
        q, k, v, g, beta, initial_state=s0.swapaxes(2, 3), output_final_state=True,
        state_v_first=True
    )
    want, last = recurrence(turn(q), turn(k), turn(v), state={"S": s0}, decay=turn(g),
                            beta=turn(beta))
    check("state_v_first", state, last["S"].swapaxes(2, 3), 2e-5)
    # Gates from what a layer computes.
    rate, bias = rng.uniform(-2, 0, h).astype("f"), rng.standard_normal(h * dk)
    for bias in (bias.astype("f"), None):
        raw = gk if bias is None else gk + bias.reshape(h, dk)
        gates = -np.exp(rate)[:, None] * np.logaddexp(0, raw.astype("d"))
        want, _ = recurrence(turn(q), turn(k), turn(v), decay=turn(gates),
                             beta=turn(beta))
        o, _ = fla.chunk_kda(q, k, v, gk, beta, use_gate_in_kernel=True, A_log=rate,
                             dt_bias=bias)
        check("use_gate_in_kernel", o, turn(want), 2e-5)
    # Of views whose channels are not neighbours.
    turned = (
        np.moveaxis(np.ascontiguousarray(np.moveaxis(x, -1, 1)), 1, -1)
        for x in (q, k, v)
    )
    again, _ = fla.chunk_gated_delta_rule(*turned, g, beta, initial_state=s0)
    want, _ = recurrence(turn(q), turn(k), turn(v), state={"S": s0}, decay=turn(g),
                         beta=turn(beta))
    check("strides", turn(again), want, 2e-5)
    x = rng.standard_normal((b, t, 40)).astype("f")
    gx = -rng.exponential(1, (b, t, 40)).astype("f")
    o, state = fla.chunk_hgrn(x, gx, output_final_state=True)
    h_t = np.zeros((b, 40))
    for i in range(t):
        h_t = np.exp(gx[:, i].astype(float)) * h_t + x[:, i]
        check("hgrn", o[:, i], h_t, 2e-5)
    check("hgrn", state, h_t, 2e-5)


def test_fla_slots():
    b, t, h, dk, dv, m = 2, 70, 2, 16, 24, 12
    q = rng.standard_normal((b, t, 2 * h, dk)).astype("f")
    k, v, s = (rng.standard_normal((b, t, h, d)).astype("f") for d in (dk, dv, m))
    given = -rng.exponential(0.3, (b, t, h, m)).astype("f")
    state = tuple(rng.standard_normal(x).astype("f")
                  for x in ((b, h, dk, m), (b, h, m, dv)))

    def slow(s, g, keys, values):
        wide = lambda x: np.asarray(x, float).repeat(2, 2)
        kk, vv, ss, gg = map(wide, (k, v, s, g))
        keys, values = (x.repeat(2, 1).astype(float) for x in (keys, values))
        o = np.zeros((b, t, 2 * h, dv))
        for i in range(t):
            keys = keys * np.exp(gg[:, i, :, None]) + kk[:, i, :, :, None] * ss[:, i, :,
                                                                                None]
            values = values * np.exp(gg[:, i, :, :, None]) + ss[:, i, :, :,
                                                                None] * vv[:, i, :,
                                                                           None]
            e = np.einsum("bhd,bhdm->bhm", q[:, i] / 4.0, keys)
            e = np.exp(e - e.max(-1, keepdims=True))
            o[:, i] = np.einsum("bhm,bhmv->bhv", e / e.sum(-1, keepdims=True), values)
        return o, keys[:, ::2], values[:, ::2]

    o, last = fla.chunk_gsa(q, k, v, s, given, initial_state=state,
                            output_final_state=True)
    want, keys, values = slow(s, given, *state)
    check("gsa", o, want, 2e-5)
    check("gsa, keys", last[0], keys, 2e-5)
    check("gsa, values", last[1], values, 2e-5)
    z = np.logaddexp.accumulate(s.astype(float), 1)
    gates = np.concatenate([z[:, :1], z[:, :-1]], 1) - z
    o, last = fla.fused_recurrent_gsa(q, k, v, s)
    check("gsa of slots alone", o,
          slow(np.exp(s - z), gates, 0 * state[0], 0 * state[1])[0], 2e-5)
    assert last is None


    for args, named in (
        ((q, k, v, 1), {}),
        ((q, k, v, s[0]), {}),
        ((q, k, v, s, given[:, :5]), {}),
        ((q, k, v, s, given), {"initial_state": 3}),
        ((q, k, v, s), {"initial_state": state}),
        ((q, k, v, s, given), {"head_first": True}),
    ):
        refuse(fla.chunk_gsa, *args, **named)
    # Gates that a rule has are not left out.
    refuse(fla.chunk_gla, q, k, v, None)
    refuse(fla.chunk_kda, q, k, v, None, given[..., 0])
    refuse(fla.chunk_kda, q, k, v, k, None)
    refuse(fla.chunk_rwkv6, q, k, v, None, k[0, 0])
    refuse(fla.chunk_dplr_delta_rule, q, k, v, k, k, None)
    scales = np.ones((b, t, h, 8), "f")
    refuse(fla.chunk_log_linear_attn, q, k, v, given, scales)
    refuse(fla.chunk_log_linear_attn, q, k, v, [1], scales)
    refuse(fla.chunk_log_linear_attn, q, k, v, given[..., 0], scales[..., :3])


def refuse(function, *args, **named):
    try:
        function(*args, **named)
    except (ValueError, TypeError) as error:
        assert str(error).startswith("attn: expected"), error
        return
    raise AssertionError("expected an error from %r" % (sorted(named),))


def test_fla_log_linear():
    b, h, heads, dk, dv = 2, 1, 2, 16, 8
    for t in (0, 1, 2, 3, 16, 37):
        levels = max(t - 1, 0).bit_length() + 1
        q, k = (rng.standard_normal((b, t, h, dk)).astype("f") for _ in range(2))
        v = rng.standard_normal((b, t, heads, dv)).astype("f")
        g = -rng.exponential(0.3, (b, t, heads)).astype("f")
        scales = rng.uniform(0.1, 1, (b, t, heads, levels)).astype("f")
        want = np.zeros((b, t, heads, dv))
        for i in range(t):
            for j in range(i + 1):
                # The highest bit in which they differ says the level.
                w = scales[:, i, :, (i ^ j).bit_length()].astype(float)
                w = w * np.exp(g[:, j + 1 : i + 1].astype(float).sum(1))
                w = w * (q[:, i].astype(float) * k[:, j] / 4).sum(-1)
                want[:, i] += w[..., None] * v[:, j]
        o, _ = fla.chunk_log_linear_attn(q, k, v, g, scales)
        check("log linear, %d tokens" % t, o, want, 2e-5)


def main():
    for name, test in sorted(globals().items()):
        if name.startswith("test_") and (not sys.argv[1:] or name in sys.argv[1:]):
            test()
            print("%s: ok" % name, flush=True)


if __name__ == "__main__":
    main()

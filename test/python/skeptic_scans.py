# RUN: %python %s
"""What a skeptic asks of scans, by number; what scans.py does not have of it.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

scans.py has 1, 2 and 10, and the rest of the others, as test_NN_... too. 7 and 12 are
of GPUs and gradients.
"""

import os
import sys
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from scan_reference import check, recurrence

import attn
from attn import _scans
from scans import RULES, inputs, options, ours, start

rng = np.random.default_rng(29)
BOUND = 2e-5


def cut(given, first, end):
    """The operands of some tokens."""
    part = {}
    for name, x in given.items():
        if name == "erase":
            part[name] = tuple(y[:, :, first:end] if hasattr(y, "shape") else y
                               for y in x)
        else:
            part[name] = x[:, :, first:end] if getattr(x, "ndim", 0) > 2 else x
    return part


def drawn(name, t, b=1, h=1, d=16):
    q, k, v = inputs(b, h, h, h, t, d, d, positive=bool(RULES[name].get("normalize")))
    return (q, k, v), options(RULES[name], q, k, v)


def test_03_every_length_in_every_chunk():
    for chunk in (16, 32, 64):
        for name in ("gated delta", "kda", "rwkv7", "mlstm"):
            for t in (0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 129):
                tokens, given = drawn(name, t)
                state = start(given, 1, 1, 16, 16)
                want, want_last = recurrence(*tokens, state=state, **given)
                got, last = _scans.run_scan(
                    *tokens, initial_state=state, return_state=True, chunk=chunk,
                    **given
                )
                check("%s, %d in chunks of %d" % (name, t, chunk), got, want, BOUND)
                for part in last:
                    check(part, last[part], want_last[part], BOUND)
    for name in ("gated delta", "kda"):
        tokens, given = drawn(name, 4097)
        want, _ = recurrence(*tokens, **given)
        for chunk in (16, 32, 64):
            check(name, _scans.run_scan(*tokens, chunk=chunk, **given), want, BOUND)


def test_04_packed_and_all_empty():
    """The bits of itself alone: scans.py. Here none has a token, for each rule."""
    cu = np.zeros(4, "i")
    for name in ("head", "kda", "mlstm"):
        tokens, given = drawn(name, 0)
        state = start(given, 3, 1, 16, 16)
        o, last = ours(*tokens, given, cu_seqlens=cu, initial_state=state,
                       return_state=True)
        assert o.shape == (1, 1, 0, 16)
        for part in state:
            assert np.array_equal(last[part], state[part])


def test_05_every_split():
    """A prefill of t tokens and the rest from its state, for every t in 0 .. 130."""
    for name in ("gated delta", "kda", "rwkv7"):
        tokens, given = drawn(name, 131, h=2)
        want, want_last = recurrence(*tokens, **given)
        for t in range(131):
            o, state = ours(*(x[:, :, :t] for x in tokens), cut(given, 0, t),
                            return_state=True)
            check("%s, first %d" % (name, t), o, want[:, :, :t], BOUND)
            # One token as decoding has it, then all others.
            step = {
                n: tuple(y[:, :, 0] if hasattr(y, "shape") else y for y in x)
                if n == "erase" else x[:, :, 0]
                for n, x in cut(given, t, t + 1).items()
            }
            o = attn.scan_step(*(x[:, :, t] for x in tokens), state, **step)
            check("%s, token %d" % (name, t), o, want[:, :, t], BOUND)
            o, last = ours(
                *(x[:, :, t + 1 :] for x in tokens),
                cut(given, t + 1, 131),
                initial_state=state,
                return_state=True
            )
            check("%s, behind %d" % (name, t), o, want[:, :, t + 1 :], BOUND)
            check("%s, the state" % name, last["S"], want_last["S"], BOUND)


def check_padding(name, lengths):
    t, b = int(lengths.max()), len(lengths)
    tokens, given = drawn(name, t, b=b, h=2)
    state = start(given, b, 2, 16, 16)
    spoilt = [x.copy() for x in tokens]
    rows = {n: x for n, x in given.items() if getattr(x, "ndim", 0) > 2}
    rows.update(zip(("a", "b"), given.get("erase", ())))
    rows = {n: x.copy() for n, x in rows.items()}
    for i, length in enumerate(lengths):
        for x in spoilt + list(rows.values()):
            x[i, :, length:] = rng.choice([np.nan, np.inf, -np.inf])
    some = {n: rows.get(n, x) for n, x in given.items()}
    if "erase" in given:
        some["erase"] = (rows["a"], rows["b"]) + tuple(given["erase"][2:])
    got, last = ours(*spoilt, some, lengths=lengths, initial_state=state,
                     return_state=True)
    for i, length in enumerate(lengths):
        own = {n: x[i : i + 1] for n, x in state.items()}
        part = {
            n: tuple(y[i : i + 1] if hasattr(y, "shape") else y for y in x)
            if n == "erase"
            else x[i : i + 1] if getattr(x, "ndim", 0) > 2 else x
            for n, x in cut(given, 0, length).items()
        }
        want, want_last = recurrence(*(x[i : i + 1, :, :length] for x in tokens),
                                     state=own, **part)
        label = "%s, length %d" % (name, length)
        check(label, got[i : i + 1, :, :length], want, BOUND)
        assert (got[i, :, length:] == 0).all(), label
        for p in last:
            check(label, last[p][i : i + 1], want_last[p], BOUND)


def test_06_padding():
    """Behind a length tokens do nothing, whatever they hold; in the middle one whose
    key, beta and log gate are 0 does not."""
    for name in ("head", "kda", "gated delta", "rwkv7", "rwkv6", "mlstm", "normalized",
                 "whole"):
        check_padding(name, np.array([0, 1, 17, 64, 80], "i"))
    # The same on a GPU, token by token.
    _scans._host_target = "emulator:sm_90a"
    try:
        for name in ("gated delta", "rwkv7", "mlstm", "whole"):
            check_padding(name, np.array([0, 1, 4, 6], "i"))
        check_padding("kda", np.array([0, 1], "i"))
    finally:
        _scans._host_target = None
    # Beyond the tokens, and below 0.
    tokens, given = drawn("kda", 20, b=2)
    want, _ = recurrence(*tokens, **given)
    got = ours(*tokens, given, lengths=[1 << 30, -1])
    check("clamped", got[:1], want[:1], BOUND)
    assert (got[1] == 0).all()
    for name in ("kda", "gated delta"):
        tokens, given = drawn(name, 40)
        q, k, v = (np.insert(x, 20, 0 if x is tokens[1] else 7, 2) for x in tokens)
        more = {n: np.insert(x, 20, 0, 2) for n, x in given.items()}
        got = np.delete(ours(q, k, v, more), 20, 2)
        check(name, got, recurrence(*tokens, **given)[0], BOUND)


def test_08_segments_of_a_million_tokens():
    """1 and 32 segments agree: their states as a product of 32 maps, and the outputs
    of the last segment from the product of the others."""
    t = 1 << 20
    q, k, v = inputs(1, 1, 1, 1, t, 16, 16)
    rows = {"decay": np.full((1, 1, t), np.log1p(-1e-5), "f")}
    for name in ("decay", "delta"):
        if name == "delta":
            rows["beta"] = rng.uniform(0, 0.1, (1, 1, t)).astype("f")
        o, state = attn.scan(q, k, v, return_state=True, **rows)
        tree = attn.StateTree(leaf=t // 32)
        tree.append(k, v, **rows)
        check(name, tree.state()["S"], state["S"].astype(float), 1e-4)
        first = t - t // 32
        last = attn.scan(
            *(x[:, :, first:] for x in (q, k, v)),
            initial_state=tree.state(first),
            **cut(rows, first, t)
        )
        check(name, last, o[:, :, first:].astype(float), 1e-4)


def test_08_segments():
    """1 and 32 segments agree, for every rule that segments are for."""
    t = 1 << 20
    q, k, v = inputs(1, 1, 1, 1, t, 16, 16)
    decay = np.full((1, 1, t), np.log1p(-1e-5), "f")
    o, state = attn.scan(q, k, v, decay=decay, return_state=True)
    other, last = attn.scan(q, k, v, decay=decay, return_state=True, segments=32)
    check("the state", last["S"], state["S"].astype(float), 1e-4)
    check("the outputs", other, o.astype(float), 1e-4)
    rules = ("sums", "head", "key", "value", "weight", "rwkv6", "value read before",
             "normalized key", "normalized before")
    for name in rules:
        for t in (0, 1, 63, 64, 65, 300):
            tokens, given = drawn(name, t, b=2, h=2)
            given_state = start(given, 2, 2, 16, 16)
            want, want_last = recurrence(*tokens, state=given_state, **given)
            for segments in (1, 2, 5):
                got, last = ours(
                    *tokens, given, initial_state=given_state, return_state=True,
                    segments=segments
                )
                label = "%s, %d tokens in %d segments" % (name, t, segments)
                check(label, got, want, BOUND)
                for part in last:
                    check(label, last[part], want_last[part], BOUND)
    tokens, given = drawn("key", 200, b=2)
    lengths = [150, 10]
    got = ours(*tokens, given, segments=7, lengths=lengths)
    want = ours(*tokens, given, lengths=lengths)
    check("lengths", got, want.astype(float), BOUND)


def test_09_a_million_terms():
    t = 1000000
    q, k, v = inputs(1, 1, 1, 1, t, 16, 16, positive=True)
    o = attn.linear_attention(q, k, v)
    weights = k[0, 0].astype(float) @ q[0, 0, -1].astype(float)
    want = weights @ v[0, 0].astype(float) / weights.sum()
    assert abs(o[0, 0, -1] - want).max() < 1e-5 + 1e-4 * abs(want).max()


def test_11_one_compilation():
    """Of all lengths and batches, without tuning; the first call takes no second of
    a processor."""
    from attn import _kernel

    attn.clear_cache()
    tokens, given = drawn("gated delta", 50)
    before = time.process_time()
    ours(*tokens, given)
    assert time.process_time() - before < 1
    for t in range(1, 51):
        ours(*(x[:, :, :t] for x in tokens), cut(given, 0, t))
    for b in range(10):
        ours(*drawn("gated delta", 5, b=b)[0], drawn("gated delta", 5, b=b)[1])
    assert len(_kernel.kept) == 1


def test_refusals():
    (q, k, v), given = drawn("kda", 20, b=2)
    for named in (
        {"segments": 2},
        {"segments": 0, "beta": None},
        {"segments": 1025, "beta": None},
        {"segments": True, "beta": None},
        {"segments": 2.0, "beta": None},
        {"segments": 2, "beta": None, "states_every": 3},
        {"segments": 2, "beta": None, "decay": None, "causal": False},
        {"lengths": [3]},
        {"lengths": [3, 4], "direction": "reverse"},
        {"lengths": [[3, 4]]},
        {"lengths": [1.5, 2]},
        {"lengths": "ab"},
        {"lengths": [3, 4], "states_every": 4},
        {"lengths": [3, 4], "cu_seqlens": [0, 20]},
        {"gate": "key", "decay": None},
        {"gate": "none", "decay": None},
    ):
        try:
            attn.scan(q, k, v, **dict(given, **named))
        except (ValueError, TypeError) as error:
            assert str(error).startswith("attn: expected") and "\n" not in str(
                error), error
            continue
        raise AssertionError(named)


def main():
    for name, test in sorted(globals().items()):
        if name.startswith("test_") and (not sys.argv[1:] or name in sys.argv[1:]):
            test()
            print("%s: ok" % name, flush=True)


if __name__ == "__main__":
    main()

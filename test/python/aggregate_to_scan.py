# RUN: %python %s
"""Aggregates that attn-aggregate-to-scan makes scans of: their numbers against
float64, also of other numbers of queries than keys; and that their time grows with
the keys.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import time

import numpy as np

import attn

rng = np.random.default_rng(17)
LINEAR = """
attn.monoid @m cocycle stats() components(value) outputs("o") {
  lift {
  ^bb0(%s: f32):
    attn.yield %s : f32
  }
  finalize {
  ^bb0(%acc: f32):
    attn.yield %acc : f32
  }
}
"""
DECAYED = """
attn.monoid @m suffix stats(f32) components(value) outputs("o") {
  identity {
    %zero = arith.constant 0.0 : f32
    attn.yield %zero : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    attn.yield %c : f32
  }
  gate {
  ^bb0(%c: f32):
    %g = math.exp %c : f32
    attn.yield %g : f32
  }
  lift {
  ^bb0(%s: f32, %log_gate: f32):
    attn.yield %log_gate, %s : f32, f32
  }
  finalize {
  ^bb0(%c: f32, %acc: f32):
    attn.yield %acc : f32
  }
}
"""
CAUSAL = """ mask {
      ^bb0(%b: i32, %h: i32, %i: i32, %j: i32EXTRA):
        %live = arith.cmpi sle, %j, %i : i32
        attn.yield %live : i1
      }"""


def program(causal=True, gates=False, heads="?"):
    t = "tensor<?x%sx?x16xf32>" % heads
    g = "tensor<?x%sx?xf32>" % heads
    text = (
        DECAYED if gates else LINEAR
    ) + "func.func @f(%%q: %s, %%k: %s, %%v: %s, %%c: f32, %%g: %s) -> %s {\n" % (
        t,
        t,
        t,
        g,
        t,
    )
    text += "  %%o = attn.aggregate @m scores(%%q, %%k : %s, %s) values(%%v : %s)\n" % (
        t,
        t,
        t,
    )
    text += "      captures(%%c, %%g : f32, %s) score {\n" % g
    text += (
        "      ^bb0(%%s: f32, %%b: i32, %%h: i32, %%i: i32, %%j: i32, %%f: f32, %%l: "
        "%s):\n"
        % g
    )
    text += "        %x = arith.mulf %s, %f : f32\n"
    if gates:
        for name in "bhj":
            text += "        %%%s1 = arith.index_cast %%%s : i32 to index\n" % (name,
                                                                                name)
        text += "        %%y = tensor.extract %%l[%%b1, %%h1, %%j1] : %s\n" % g
        text += "        attn.yield %x, %y : f32, f32\n      }"
    else:
        text += "        attn.yield %x : f32\n      }"
    if causal:
        text += CAUSAL.replace("EXTRA", ", %%f: f32, %%l: %s" % g)
    return text + " -> %s\n  return %%o : %s\n}\n" % (t, t)


def want(q, k, v, c, g, causal, gates):
    q, k, v, g = (x.astype(float) for x in (q, k, v, g))
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat(group, 1), v.repeat(group, 1)
    w = c * q @ k.swapaxes(-1, -2)
    i, j = np.indices(w.shape[-2:])
    if gates:
        sums = np.cumsum(np.concatenate([np.zeros_like(g[:, :, :1]), g], 2), 2)
        last = np.minimum(i, k.shape[2] - 1)
        w = w * np.exp(np.minimum(sums[:, :, last + 1] - sums[:, :, j + 1], 0))
    return np.where(j <= i, w, 0) @ v if causal else w @ v


def test_numbers():
    for causal, gates, heads in ((True, False, "?"), (False, False, "?"),
                                 (True, True, "4"), (True, True, "?")):
        kernel = attn.compile(program(causal, gates, heads))
        assert "attn.scan" in kernel.mlir("aggregate"), kernel.mlir("aggregate")
        for hq, hk in ((4, 4),) if heads == "4" else ((4, 4), (4, 1), (6, 2)):
            for sq, sk in ((70, 70), (30, 100), (100, 30), (0, 5), (5, 0), (1, 65)):
                q = rng.standard_normal((2, hq, sq, 16)).astype("f")
                k, v = (rng.standard_normal((2, hk, sk, 16)).astype("f")
                        for _ in range(2))
                # What no region indexes may be there.
                g = -rng.exponential(0.1, (2, hq + 2 * (heads == "?"), sk + 3))
                g = g.astype("f")
                got = kernel(q, k, v, 0.25, g)
                exact = want(q, k, v, 0.25, g[:, :hq, :sk], causal, gates)
                top = np.abs(exact).max(initial=1e-30)
                assert np.abs(got - exact).max(initial=0) < 2e-5 * top, (causal, gates,
                                                                         sq, sk)


def test_dead_keys():
    """Keys behind the last row are dead for every row, whatever they hold."""
    for gates, heads in ((False, "?"), (True, "4"), (True, "?")):
        kernel = attn.compile(program(True, gates, heads))
        for sq, sk in ((30, 100), (1, 65), (64, 70)):
            q = rng.standard_normal((2, 4, sq, 16)).astype("f")
            k, v = (rng.standard_normal((2, 4, sk, 16)).astype("f") for _ in range(2))
            g = -rng.exponential(0.1, (2, 4, sk)).astype("f")
            exact = want(q, k, v, 0.25, g, True, gates)
            for x in (k, v, g):
                x[:, :, sq:] = np.nan
            got = kernel(q, k, v, 0.25, g)
            assert np.abs(got - exact).max() < 2e-5 * np.abs(exact).max(), (gates, sq)


def test_dropout():
    """Factors of pairs are no scan's: those of dropout stay."""
    q, k, v = (rng.standard_normal((1, 2, 40, 16)).astype("f") for _ in range(3))
    options = dict(monoid=LINEAR, scale=0.25, dropout_p=0.5, dropout_rng=(7, 0))
    got = attn.attention(q, k, v, **options)
    keeps = attn.attention(q, k, np.eye(40, dtype="f")[None, None].repeat(2, 1),
                           **options)
    assert (keeps == 0).mean() > 0.3
    assert np.abs(got - keeps @ v).max() < 2e-5 * np.abs(got).max()


def test_time():
    """Sixteen times as many keys take about as many times as long."""
    for gates in (False, True):
        kernel = attn.compile(program(gates=gates))
        seconds = []
        for n in (1 << 14, 1 << 18):
            x = rng.standard_normal((1, 1, n, 16)).astype("f")
            g = np.zeros((1, 1, n), "f")
            best = 1e9
            for _ in range(3):
                start = time.process_time()
                kernel(x, x, x, 1.0, g)
                best = min(best, time.process_time() - start)
            seconds.append(best)
        assert seconds[1] < 100 * seconds[0], seconds  # of pairs 256 times


def main():
    test_numbers()
    test_dead_keys()
    test_dropout()
    test_time()
    print("ok")


if __name__ == "__main__":
    main()

# RUN: %python %s
"""attn.attention_vjp at the edges: each rule of a derivative, monoids of one's own,
packed sequences, values in keys, empty arrays, cotangents of any strides, rows without
keys, extreme scores; and what is refused.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import math

import numpy as np

import attn

rng = np.random.default_rng(5)

# A function of x, and its derivative in float64; weights are finite for any score,
# and so x is twice its tangent.
erf = np.vectorize(math.erf)
RULES = {
    "math.exp %x": lambda x: np.exp(x),
    "math.exp2 %x": lambda x: np.log(2) * 2**x,
    "math.expm1 %x": lambda x: np.exp(x),
    "math.log %p": lambda x: 1 / (x + 3),
    "math.log2 %p": lambda x: 1 / (x + 3) / np.log(2),
    "math.log10 %p": lambda x: 1 / (x + 3) / np.log(10),
    "math.log1p %p": lambda x: 1 / (x + 4),
    "math.sqrt %p": lambda x: 0.5 / np.sqrt(x + 3),
    "math.rsqrt %p": lambda x: -0.5 * (x + 3) ** -1.5,
    "math.cbrt %p": lambda x: (x + 3) ** (-2 / 3) / 3,
    "math.tanh %x": lambda x: 1 - np.tanh(x) ** 2,
    "math.sin %x": lambda x: np.cos(x),
    "math.cos %x": lambda x: -np.sin(x),
    "math.atan %x": lambda x: 1 / (1 + x * x),
    "math.erf %x": lambda x: 2 / np.sqrt(np.pi) * np.exp(-x * x),
    "math.absf %x": lambda x: np.sign(x),
    "arith.negf %x": lambda x: -np.ones_like(x),
    "arith.subf %three, %x": lambda x: -np.ones_like(x),
    "arith.mulf %x, %x": lambda x: 2 * x,
    "arith.divf %three, %p": lambda x: -3 / (x + 3) ** 2,
    "arith.divf %x, %p": lambda x: 3 / (x + 3) ** 2,
    "arith.maximumf %x, %half": lambda x: (x > 0.5) * 1.0,
    "arith.minimumf %half, %x": lambda x: (x < 0.5) * 1.0,
    "math.powf %p, %half": lambda x: 0.5 * (x + 3) ** -0.5,
    "math.powf %three, %x": lambda x: np.log(3) * 3**x,
    "math.fma %x, %p, %x": lambda x: 2 * x + 4,
    "arith.select %above, %x, %half": lambda x: (x > 0.5) * 1.0,
    "math.floor %x": lambda x: np.zeros_like(x),
}


def rules():
    """Each is the weight of a sum of its own: one key, and one query for a score."""
    names = ", ".join('"w%d"' % i for i in range(len(RULES)))
    floats = ", ".join(["f32"] * len(RULES))
    body = "".join(
        "    %%w%d = %s : f32\n" % (i, rule)
        for i, rule in enumerate(RULES)
    )
    arguments = ", ".join("%%v%d: f32" % i for i in range(len(RULES)))
    text = """attn.monoid @rules cocycle stats() components(%s) outputs(%s) {
  lift {
  ^bb0(%%s: f32):
    %%two = arith.constant 2.0 : f32
    %%t = math.tanh %%s : f32
    %%x = arith.mulf %%t, %%two : f32
    %%three = arith.constant 3.0 : f32
    %%half = arith.constant 0.5 : f32
    %%p = arith.addf %%x, %%three : f32
    %%above = arith.cmpf ogt, %%x, %%half : f32
%s    attn.yield %s : %s
  }
  finalize {
  ^bb0(%s):
    attn.yield %s : %s
  }
}""" % (", ".join(["unit"] * len(RULES)), names, body,
        ", ".join("%%w%d" % i for i in range(len(RULES))), floats, arguments,
        ", ".join("%%v%d" % i for i in range(len(RULES))), floats)
    s = rng.uniform(-2, 2, (1, 1, 200, 1)).astype("f4")
    one = np.ones((1, 1, 1, 1), "f4")
    outputs = tuple("w%d" % i for i in range(len(RULES)))
    _, vjp = attn.attention_vjp(s, one, None, monoid=text, scale=1.0,
                                return_aux=outputs, inputs="q")
    for name, (rule, derivative) in zip(outputs, RULES.items()):
        got = vjp(**{"d" + name: np.ones((1, 1, 200), "f4")})["q"]
        t = np.tanh(s.astype("f8"))
        want = derivative(2 * t) * 2 * (1 - t * t)
        assert np.abs(got - want).max() <= 2e-5 * np.abs(want).max(initial=1), rule


TWO = """attn.monoid @two cocycle stats(f32) components(value, value, unit) outputs("a",
    "b") {
  identity { %e = arith.constant 0xFF800000 : f32 attn.yield %e : f32 }
  combine { ^bb0(%a: f32, %b: f32): %c = arith.maximumf %a, %b : f32 attn.yield %c
      : f32 }
  rescale { ^bb0(%from: f32, %to: f32): %d = arith.subf %from, %to : f32
      %r = math.exp %d : f32 attn.yield %r : f32 }
  lift { ^bb0(%s: f32): %one = arith.constant 1.0 : f32 %t = math.tanh %s : f32
      attn.yield %s, %one, %t, %one : f32, f32, f32, f32 }
  finalize { ^bb0(%c: f32, %x: f32, %y: f32, %n: f32):
    %z = arith.constant 0.0 : f32 %e = arith.cmpf oeq, %n, %z : f32
    %a1 = arith.divf %x, %n : f32 %b1 = arith.divf %y, %n : f32
    %a = arith.select %e, %z, %a1 : f32 %b = arith.select %e, %z, %b1 : f32
    attn.yield %a, %b : f32, f32 }
}"""


def draw(b=1, hq=2, hk=1, sq=9, sk=11, d=16, dv=None):
    shapes = ((b, hq, sq, d), (b, hk, sk, d), (b, hk, sk, dv or d))
    return [rng.standard_normal(shape).astype("f4") for shape in shapes]


def own_monoid():
    """Two averages, of values by softmax and by it times tanh, by differences."""
    q, k, v = draw(hq=2, hk=2)
    (a, aux), vjp = attn.attention_vjp(q, k, v, monoid=TWO, return_aux=("b",))
    da, db = (rng.standard_normal(a.shape).astype("f4") for _ in "ab")
    found = vjp.plan.backward(*vjp.plan.forward(), {"a": da, "b": db})

    def loss(q, k, v):
        s = q @ k.swapaxes(-1, -2) / 4
        p = np.exp(s) / np.exp(s).sum(-1, keepdims=True)
        return ((p @ v) * da).sum() + ((p * np.tanh(s)) @ v * db).sum()

    operands = [x.astype("f8") for x in (q, k, v)]
    for i, name in enumerate("qkv"):
        step = 1e-5 * rng.standard_normal(operands[i].shape)
        ahead, behind = list(operands), list(operands)
        ahead[i], behind[i] = operands[i] + step, operands[i] - step
        want = (loss(*ahead) - loss(*behind)) / 2
        assert abs((found[name] * step).sum() - want) <= 1e-5 * 1e-5 * 100, name


HARD = """attn.monoid @hard cocycle stats(f32) components(value, unit) outputs("o") {
  identity { %e = arith.constant 0xFF800000 : f32 attn.yield %e : f32 }
  combine { ^bb0(%a: f32, %b: f32): %c = arith.maximumf %a, %b : f32 attn.yield %c
      : f32 }
  rescale { ^bb0(%from: f32, %to: f32): %same = arith.cmpf oeq, %from, %to : f32
            %r = arith.uitofp %same : i1 to f32 attn.yield %r : f32 }
  lift { ^bb0(%s: f32): %one = arith.constant 1.0 : f32 attn.yield %s, %one, %one : f32,
      f32, f32 }
  finalize { ^bb0(%c: f32, %sum: f32, %n: f32): %one = arith.constant 1.0 : f32
             %d = arith.maximumf %n, %one : f32 %o = arith.divf %sum, %d : f32
             attn.yield %o : f32 }
}"""


def steps():
    """The value of the largest score: it alone has a gradient, and no score has."""
    q, k, v = draw(hq=1)
    o, vjp = attn.attention_vjp(q, k, v, monoid=HARD)
    do = rng.standard_normal(o.shape).astype("f4")
    found = vjp(do)
    first = (q @ k.swapaxes(-1, -2)).argmax(-1)[0, 0]
    want = np.zeros_like(v)
    for i, j in enumerate(first):
        want[0, 0, j] += do[0, 0, i]
    assert np.abs(found["v"] - want).max() <= 1e-6
    assert not found["q"].any() and not found["k"].any()


def packed():
    """As each sequence by itself."""
    rows, keys = [5, 0, 70, 33], [7, 4, 90, 0]
    cq, ck = (np.cumsum([0] + n).astype("i4") for n in (rows, keys))
    slopes, sinks = rng.random(4).astype("f4"), rng.standard_normal(4).astype("f4")
    for options in (
        {"causal": "bottom_right"},
        {"alibi_slopes": slopes, "sinks": sinks,
         "inputs": ["q", "k", "v", "alibi_slopes", "sinks", "scale"], "scale": 0.3},
        {"softcap": 3.0, "window": (20, 3), "return_lse": True},
        {"monoid": "sigmoid_sum"},
    ):
        # Behind the last sequence there are rows of none.
        q = rng.standard_normal((cq[-1] + 3, 4, 32)).astype("f4")
        k, v = (rng.standard_normal((ck[-1] + 2, 2, 32)).astype("f4") for _ in "kv")
        do, dlse = rng.standard_normal(q.shape).astype("f4"), rng.standard_normal(
            (4, len(q))
        ).astype("f4")
        more = {"dlse": dlse} if "return_lse" in options else {}
        _, vjp = attn.attention_vjp(
            q, k, v, layout="thd", cu_seqlens_q=cq, cu_seqlens_k=ck, **options
        )
        found = vjp(do, **more)
        want = {name: np.zeros(np.shape(x)) for name, x in found.items()}
        for n in range(4):
            i, j = slice(cq[n], cq[n + 1]), slice(ck[n], ck[n + 1])
            parts = [x[None] for x in (q[i], k[j], v[j])]
            _, vjp = attn.attention_vjp(*parts, layout="bshd", **options)
            more = {"dlse": dlse[None][:, :, i]} if more else {}
            for name, x in vjp(do[i][None], **more).items():
                if name == "q":
                    want[name][i] += x[0]
                elif name in "kv":
                    want[name][j] += x[0]
                else:
                    want[name] += x
        for name in found:
            error = np.abs(found[name] - want[name]).max(initial=0)
            assert error <= 1e-5 * np.abs(want[name]).max(initial=1), (options, name,
                                                                       error)


def edges():
    for sizes in ((0, 2, 2, 3, 3), (1, 2, 2, 0, 3), (1, 2, 2, 3, 0)):
        q, k, v = draw(*sizes)
        bias, sinks = np.zeros((1, 1, sizes[3], sizes[4]), "f4"), np.zeros(2, "f4")
        (o, lse), vjp = attn.attention_vjp(q, k, v, bias=bias, sinks=sinks,
                                           return_lse=True)
        found = vjp(np.ones_like(o), np.ones_like(lse))
        for name, x in {"q": q, "k": k, "v": v, "bias": bias}.items():
            assert found[name].shape == x.shape and not found[name].any(), (sizes, name)
        # Without a key the sink is the LSE.
        assert (found["sinks"] == (sizes[3] if sizes[4] == 0 else 0)).all()

    q, k, v = draw()
    o, vjp = attn.attention_vjp(q, k, v)
    ones = np.ones_like(o)
    want = vjp(ones)
    wide = np.ones(o.shape[:-1] + (32,), "f4")[..., ::2]
    for do in (np.broadcast_to(np.float32(1), o.shape), ones.astype("f8"), wide,
               np.asfortranarray(ones)):
        found = vjp(do)
        assert all(found[name].tobytes() == want[name].tobytes() for name in want)
    assert not any(x.any() for x in vjp().values())
    assert list(attn.attention_vjp(q, k, v, inputs="k")[1](ones)) == ["k"]
    assert attn.attention_vjp(q, k, v, inputs=[])[1](ones) == {}

    # What was broadcast by the caller has a place for each gradient.
    bias = rng.standard_normal((1, 1, 9, 11)).astype("f4")
    _, vjp = attn.attention_vjp(q, k, v, bias=bias)
    _, whole = attn.attention_vjp(q, k, v, bias=np.broadcast_to(bias, (1, 2, 9, 11)))
    one, each = vjp(ones)["bias"], whole(ones)["bias"]
    assert each.shape == (1, 2, 9, 11)
    assert np.abs(each.sum(1, keepdims=True) - one).max() <= 1e-5

    # The values are the first columns of the keys.
    o, vjp = attn.attention_vjp(q, k, None, v_dim=8)
    found = vjp(np.ones_like(o))
    _, vjp = attn.attention_vjp(q, k, np.ascontiguousarray(k[..., :8]))
    want = vjp(np.ones_like(o))
    want["k"][..., :8] += want["v"]
    assert set(found) == {"q", "k"}
    assert np.abs(found["k"] - want["k"]).max() <= 1e-6


def extremes():
    q, k, v = draw(hq=1)
    do = rng.standard_normal(q.shape).astype("f4")
    # A mask as a bias beside which scores are lost: the mean of the values.
    bias = np.full((1, 1, 9, 11), np.finfo("f4").min)
    found = attn.attention_vjp(q, k, v, bias=bias)[1](do)
    want = np.broadcast_to(do.sum(2, keepdims=True) / 11, v.shape)
    assert np.abs(found["v"] - want).max() <= 1e-6
    # No key, whatever the cotangents are.
    bias[...] = -np.inf
    k[0, 0, 3] = np.nan
    found = attn.attention_vjp(q, k, v, bias=bias)[1](do * np.nan)
    assert not any(x.any() for x in found.values())
    q, k, v = draw(hq=1)
    for options in ({"scale": 1e4}, {"scale": 1e30}, {"softcap": 1e-3}, {"scale": 0.0},
                    {"monoid": "sigmoid_sum", "scale": 1e3}, {"sinks": [1e30]},
                    {"sinks": [-np.inf]}, {"monoid": "softmax_entropy", "scale": 1e3}):
        found = attn.attention_vjp(q, k, v, **options)[1](do)
        assert all(np.isfinite(x).all() for x in found.values()), options
    # Of keys so far below a sink that their distance is the largest number.
    (_, aux), vjp = attn.attention_vjp(q, k, v, monoid="softmax_entropy", sinks=[0.5],
                                       bias=np.full((1, 1, 9, 11), np.finfo("f4").min),
                                       return_aux="entropy")
    found = vjp(dentropy=np.full((1, 1, 9), 3, "f4"))
    assert not any(x.any() for x in (aux["entropy"], found["q"], found["k"]))
    # Of equal maxima the first key has the gradient, and a sink is before them.
    q[...], k[...] = 1, 1
    (_, aux), vjp = attn.attention_vjp(q, k, v, monoid="softmax_max", return_aux="max")
    found = vjp(dmax=np.ones((1, 1, 9), "f4"))["k"]
    assert (found[0, 0, 0] == 9 / 4).all() and not found[0, 0, 1:].any()
    _, vjp = attn.attention_vjp(q, k, v, monoid="softmax_max", return_aux="max",
                                sinks=[4.0])
    found = vjp(dmax=np.ones((1, 1, 9), "f4"))
    assert found["sinks"] == 9 and not found["k"].any()


def dead_rows():
    """What a query that sees no key has in memory reaches no gradient, also where a
    mask in memory says so and tiles are loaded whole."""
    from attn import _gradients

    mask = rng.random((1, 1, 40, 40)) < 0.7
    mask[:, :, 3] = False
    for target in (None, "emulator:sm_80", "emulator:sm_90a"):
        q, k, v = (x.astype("f2") for x in draw(hq=1, sq=40, sk=40))
        plan = _gradients.Plan(q, k, v, mask=mask, target=target)
        do = np.ones((1, 1, 40, 16), "f2")
        results, state = plan.forward()
        want = plan.backward(results, state, {"o": do})
        q[:, :, 3] = do[:, :, 3] = np.nan
        plan = _gradients.Plan(q, k, v, mask=mask, target=target)
        found = plan.backward(*plan.forward(), {"o": do})
        for name in want:
            assert found[name].tobytes() == want[name].tobytes(), (target, name)
        assert not found["q"][:, :, 3].any()


def refuses(text, kind, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except kind as error:
        assert text in str(error), (text, str(error))
        return
    raise AssertionError("expected an error: " + text)


def errors():
    q, k, v = draw()
    vjp = attn.attention_vjp
    o, back = vjp(q, k, v)
    refuses("cotangent of o of shape [1, 2, 9, 16]", ValueError, back,
            np.ones((1, 2, 3), "f4"))
    refuses("to be an array", ValueError, back, 3.0)
    refuses("what was returned, do", TypeError, back, o, dlse=o[..., 0])
    refuses("what was returned, do", TypeError, back, o, dfoo=o)
    refuses("complex64", TypeError, back, o.astype("c8"))
    refuses("of q, k, v, but got 'scale'", ValueError, vjp, q, k, v, inputs=["scale"])
    refuses("inputs to hold names", TypeError, vjp, q, k, v, inputs=3)
    refuses("without a cache", NotImplementedError, vjp, q, k, v, block_table=[[0]])
    refuses("without a cache", NotImplementedError, vjp, q, k, v, k_new=k, v_new=v)
    refuses("no out", ValueError, vjp, q, k, v, out=o)
    for name in ("sinks", "alibi_slopes"):  # of more heads than there are
        refuses("'%s' of shape [hq] with hq = 2 as in 'q', but got shape [3]" % name,
                ValueError, vjp, q, k, v, inputs=["q"], **{name: np.ones(3, "f4")})
    refuses("deterministic to be", TypeError, vjp, q, k, v, deterministic=None)
    refuses("deterministic to be", TypeError, attn.attention, q, k, v, deterministic=2)
    any_order = vjp(q, k, v, deterministic=False)[1](o)
    for name, gradient in vjp(q, k, v)[1](o).items():
        assert np.array_equal(gradient, any_order[name]), name
    refuses("inputs of q, k, v, bias and alibi_slopes", NotImplementedError, vjp,
            q[0].swapaxes(0, 1), k[0].swapaxes(0, 1), v[0].swapaxes(0, 1),
            monoid="stick_breaking", layout="thd", scale=0.5, inputs=["scale"],
            cu_seqlens_q=np.array([0, q.shape[2]], "i4"),
            cu_seqlens_k=np.array([0, k.shape[2]], "i4"))


def saved():
    """Inputs, results, and two numbers of each row."""
    q, k, v = draw(sq=100)
    plan = attn.attention_vjp(q, k, v, return_lse=True)[1].plan
    assert plan.saved_bytes == 2 * 4 * 2 * 100
    text = plan.program.forward.explain()
    assert "training: 8 bytes of each row are kept for the backward pass" in text, text
    assert attn.attention_vjp(q, k, v, monoid="relu_sum")[1].plan.saved_bytes == 0


rules()
own_monoid()
steps()
packed()
edges()
extremes()
dead_rows()
errors()
saved()

# RUN: %python %s
"""Calls that are like earlier ones: they skip what those have checked, and must not
take over anything else."""

import gc
import os
import sys
import threading
import weakref

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from reference import fails

import attn
from attn import _call, _plans

rng = np.random.default_rng(3)


def draw(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def reference(q, k, v, scale=None, dead=None):
    s = np.einsum("bhid,bhjd->bhij", q.astype(np.float64), k.astype(np.float64))
    s *= q.shape[-1] ** -0.5 if scale is None else scale
    if dead is not None:
        s = np.where(dead, -np.inf, s)
    s -= s.max(-1, keepdims=True)
    p = np.exp(s)
    return np.einsum("bhij,bhjd->bhid", p / p.sum(-1, keepdims=True), v)


def close(x, y):
    assert x.shape == y.shape and np.abs(x - y).max() < 1e-5, np.abs(x - y).max()


class Slow:
    """Counts the calls that no plan served."""

    def __enter__(self):
        self.count, self.before = 0, _call.Call

        def call(*args):
            self.count += 1
            return self.before(*args)

        _call.Call = call
        return self

    def __exit__(self, *error):
        _call.Call = self.before


shape = (2, 3, 20, 16)

# The first call looks, the next ones do not; each takes its own arrays.
with Slow() as slow:
    for _ in range(5):
        q, k, v = draw(*shape), draw(*shape), draw(*shape)
        close(attn.attention(q, k, v), reference(q, k, v))
    assert slow.count == 1, slow.count

    # One array in two places says nothing of the next call.
    x = draw(2, 3, 21, 16)
    close(attn.attention(x, x, x), reference(x, x, x))
    q, k, v = (draw(2, 3, 21, 16) for _ in range(3))
    close(attn.attention(q, k, v), reference(q, k, v))
    assert slow.count == 2

    # Numbers are part of what is alike.
    for scale in (0.1, 0.5, 1, 0.1, 0.5, 1):
        close(attn.attention(q, k, v, scale=scale), reference(q, k, v, scale))
    assert slow.count == 5

    # Contents are not.
    lengths = np.array([21, 5], np.int32)
    for n in (5, 1, 13):
        lengths[1] = n
        dead = np.arange(21) >= lengths.reshape(2, 1, 1, 1)
        close(attn.attention(q, k, v, kv_lengths=lengths),
              reference(q, k, v, dead=dead))
    assert slow.count == 6
    # What the library checks is checked each time.
    lengths[1] = 22
    fails(ValueError, "between 0 and sk = 21", attn.attention, q, k, v,
          kv_lengths=lengths)
    out = np.empty_like(q)
    attn.attention(q, k, v, out=out)
    count = slow.count
    attn.attention(q, k, v, out=out)
    assert slow.count == count
    fails(ValueError, "memory of its own", attn.attention, q, k, v, out=q)

    # What is converted is converted each time.
    wide = lengths.astype(np.int64)
    for n in (5, 1):
        wide[1] = n
        dead = np.arange(21) >= wide.reshape(2, 1, 1, 1)
        close(attn.attention(q, k, v, kv_lengths=wide), reference(q, k, v, dead=dead))
        given = wide.tolist()
        close(attn.attention(q, k, v, kv_lengths=given), reference(q, k, v, dead=dead))
    assert slow.count == count + 4

# Results: made or given, one or more, in each layout.
for layout, axes in (("bhsd", (0, 1, 2, 3)), ("bshd", (0, 2, 1, 3)),
                     ("sbhd", (2, 0, 1, 3))):
    a, b, c = (np.ascontiguousarray(x.transpose(axes)) for x in (q, k, v))
    back = np.argsort(axes)
    want = reference(q, k, v)
    for _ in range(3):
        with Slow() as slow:
            o, lse, aux = attn.attention(
                a, b, c, layout=layout, return_lse=True, return_aux=("max",)
            )
        close(o.transpose(back), want)
        assert lse.shape == (2, 3, 21) and list(aux) == ["max"], aux
        s = np.einsum("bhid,bhjd->bhij", q, k) / 4
        close(aux["max"], s.max(-1))
        close(lse, np.log(np.exp(s).sum(-1)))
        out = np.full_like(a, np.nan)
        o, aux = attn.attention(a, b, c, layout=layout, return_aux="max", out=out)
        assert o is out
        close(out.transpose(back), want)
    assert slow.count == 0
first = attn.attention(q, k, v)
kept = first.copy()
attn.attention(k, q, v)
assert (first == kept).all(), "results of two calls share memory"

# Strides are part of what is alike, and so is what an array allows.
with Slow() as slow:
    big = draw(2, 3, 42, 16)
    for _ in range(2):
        close(attn.attention(big[:, :, ::2], k, v), reference(big[:, :, ::2], k, v))
        close(attn.attention(big[:, :, 21:], k, v), reference(big[:, :, 21:], k, v))
    assert slow.count == 2
    out = np.empty_like(q)
    attn.attention(q, k, v, out=out)
    out.flags.writeable = False
    fails(ValueError, "read-only", attn.attention, q, k, v, out=out)
    raw = np.empty(q.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(q.shape)
    raw[...] = q
    fails(ValueError, "aligned", attn.attention, raw, k, v)

# Names, not positions: a mask given alone, then a bias of its shape and type.
ones = np.ones((21, 21), bool)
bias = np.zeros((21, 21), np.float32)
bias[:, 3:] = -np.inf
for _ in range(2):
    close(attn.attention(q, k, v, mask=ones), reference(q, k, v))
    close(attn.attention(q, k, v, bias=bias), reference(q, k, v, dead=bias < 0))
# Options that no plan knows: lists, and numbers of other packages.
for window in ((2, 0), [2, 0], (np.int32(2), np.int64(0)), (2, 0)):
    d = np.arange(21)[None, :] - np.arange(21)[:, None]
    close(attn.attention(q, k, v, window=window),
          reference(q, k, v, dead=(d > 0) | (d < -2)))
fails(ValueError, "causal", attn.attention, q, k, v, causal=True)
fails(NotImplementedError, "score_mod", attn.attention, q, k, v, score_mod=max)

# Equal, and yet not the same: zeros of either sign, numbers of no plain kind.
MONOID = """
attn.monoid @sign cocycle stats(f32) components(value, unit) params(f32) outputs("o",
    "sign") {
  identity {
  ^bb0(%p: f32):
    %inf = arith.constant 0xFF800000 : f32
    attn.yield %inf : f32
  }
  combine {
  ^bb0(%a: f32, %b: f32, %p: f32):
    %c = arith.maximumf %a, %b : f32
    attn.yield %c : f32
  }
  rescale {
  ^bb0(%from: f32, %to: f32, %p: f32):
    %d = arith.subf %from, %to : f32
    %r = math.exp %d : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32, %p: f32):
    %one = arith.constant 1.0 : f32
    attn.yield %s, %one, %one : f32, f32, f32
  }
  finalize {
  ^bb0(%c: f32, %acc: f32, %sum: f32, %p: f32):
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %empty = arith.cmpf oeq, %sum, %zero : f32
    %quotient = arith.divf %acc, %sum : f32
    %o = arith.select %empty, %zero, %quotient : f32
    %inverse = arith.divf %one, %p : f32
    %r = arith.select %empty, %zero, %inverse : f32
    attn.yield %o, %r : f32, f32
  }
}
"""
for _ in range(2):
    for value in (0.0, -0.0, 0, 2.0):
        _, aux = attn.attention(
            q, k, v, monoid=MONOID, monoid_params=(value,), return_aux="sign"
        )
        want = 0.5 if value else -np.inf if str(value) == "-0.0" else np.inf
        assert (aux["sign"] == want).all(), (value, aux["sign"].ravel()[0])
    # False == 0, and was not asked for.
    with_params = dict(monoid=MONOID, return_aux="sign")
    fails(TypeError, "monoid_params to be a number, but got bool False",
          attn.attention, q, k, v, monoid_params=(False,), **with_params)
attn.attention(q, k, v, scale=1)
fails(TypeError, "scale to be a number, but got bool True", attn.attention, q, k, v,
      scale=True)
attn.attention(q, k, v, scale=2.0)
fails(TypeError, "scale to be a number", attn.attention, q, k, v, scale=2 + 0j)


class Odd(float):
    def __hash__(self):
        raise ValueError("no hash")


for _ in range(2):
    close(attn.attention(q, k, v, scale=Odd(0.5)), reference(q, k, v, 0.5))

# While another thread imports torch, the module is there and empty.
before = sys.modules.get("torch")
sys.modules["torch"] = type(sys)("torch")
out = np.empty_like(q)
close(attn.attention(q, k, v, out=out), reference(q, k, v))
close(attn.attention(q, k, v), reference(q, k, v))
sys.modules.pop("torch")
if before is not None:
    sys.modules["torch"] = before

# Threads share plans, and nothing else.
problems = []
for _ in range(4):
    a, b, c = draw(1, 2, 30, 16), draw(1, 2, 30, 16), draw(1, 2, 30, 16)
    problems.append((a, b, c, reference(a, b, c)))
wrong = []


def work(a, b, c, want):
    for _ in range(200):
        if np.abs(attn.attention(a, b, c) - want).max() > 1e-5:
            wrong.append(1)


threads = [threading.Thread(target=work, args=p) for p in problems]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not wrong, len(wrong)

# A plan holds no array, and there is an end to their number.
a = draw(1, 1, 9, 16)
sinks = np.zeros(1, np.float32)
seen = [weakref.ref(x) for x in (a, sinks)]
seen.append(weakref.ref(attn.attention(a, a, a, sinks=sinks)))
attn.attention(a, a, a, sinks=sinks)
del a, sinks
gc.collect()
assert all(x() is None for x in seen)
_plans._MOST = 4
for n in range(1, 20):
    a = draw(1, 1, n, 16)
    for _ in range(2):
        close(attn.attention(a, a, a), reference(a, a, a))
    assert len(_plans._plans) <= 4

print("plans")

# RUN: %python %s
# REQUIRES: jax
"""attn.attention in programs of JAX: under jit and vmap, and its gradients against
those of JAX's own operations.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    print("no jax: nothing was tested")
    sys.exit()

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import numpy as np
from reference import fails

import attn

rng = np.random.default_rng(11)
LOW = float(np.finfo(np.float32).min)


def draw(*shape, dtype=jnp.float32):
    return jnp.asarray(rng.standard_normal(shape), dtype)


def plain(q, k, v, bias=None, causal=False, lengths=None):
    """Attention and its LSE, by JAX."""
    group = q.shape[1] // k.shape[1]
    k, v = (jnp.repeat(x, group, 1) for x in (k, v))
    s = jnp.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[-1])
    live = jnp.ones(s.shape, bool)
    if bias is not None:
        s = s + bias
    if causal:
        live &= jnp.tril(live[0, 0])
    if lengths is not None:
        live &= jnp.arange(k.shape[2])[None, None, None] < lengths[:, None, None, None]
    s = jnp.where(live, s, -1e30)
    o = jnp.einsum("bhij,bhjd->bhid", jax.nn.softmax(s, -1), v)
    return o, jax.nn.logsumexp(s, -1)


def close(got, expected, bound=2e-5):
    assert got.shape == expected.shape and got.dtype == expected.dtype
    worst = float(jnp.abs(got.astype(jnp.float32) - expected).max())
    assert worst <= bound, worst


def compare(theirs, ours, *arrays):
    """Results and gradients of two functions of arrays, at random cotangents."""
    expected, pull = jax.vjp(theirs, *arrays)
    for function in (ours, jax.jit(ours)):
        results, own = jax.vjp(function, *arrays)
        cotangents = jax.tree.map(lambda x: draw(*x.shape, dtype=x.dtype), expected)
        for got, want in zip(jax.tree.leaves(results), jax.tree.leaves(expected)):
            close(got, want)
        for got, want in zip(own(cotangents), pull(cotangents)):
            close(got, want, 1e-4)


q, k, v = draw(2, 4, 33, 64), draw(2, 2, 33, 64), draw(2, 2, 33, 32)
bias = draw(1, 4, 1, 33).at[..., :7].set(LOW)
compare(
    lambda q, k, v: plain(q, k, v)[0], lambda q, k, v: attn.attention(q, k, v), q, k, v
)
compare(
    lambda *x: plain(*x, causal=True),
    lambda *x: attn.attention(*x[:3], bias=x[3], causal="top_left", return_lse=True),
    *(q, k, v, draw(1, 4, 33, 33)),
)
# A bias as Hugging Face's masks, of keys alone.
compare(
    lambda q, b: plain(q, k, v, b)[0], lambda q, b: attn.attention(q, k, v, bias=b), q,
    bias
)
# Integers have no gradient.
lengths = jnp.array([33, 5], jnp.int32)
pull = jax.vjp(lambda q, n: attn.attention(q, k, v, kv_lengths=n), q, lengths)[1]
assert pull(draw(2, 4, 33, 32))[1].dtype == jax.dtypes.float0
compare(
    lambda q: plain(q, k, v, lengths=lengths)[0],
    lambda q: attn.attention(q, k, v, kv_lengths=lengths),
    q,
)
# Lists, and blocks.
slopes = jax.jit(lambda q: attn.attention(q, k, v,
                                          alibi_slopes=[0.5, 0.25, 0.1, 0.0]))(q)
close(slopes, attn.attention(q, k, v, alibi_slopes=np.float32([0.5, 0.25, 0.1, 0.0])))
blocks = attn.BlockMask.from_classes(np.int8([[[[2, 0], [1, 2]]]]), BLOCK_SIZE=32)
close(
    jax.jit(lambda q: attn.attention(q, k, v, block_mask=blocks))(q),
    attn.attention(q, k, v, block_mask=blocks),
)
# Tables, offsets and positions alone.
starts = jnp.array([0, 3], jnp.int32)
close(
    jax.jit(lambda x: attn.attention(q, k, v, k_start=x, causal="top_left"))(starts),
    attn.attention(q, k, v, k_start=starts, causal="top_left"),
)
table = jnp.array([[1, 0], [0, 1]], jnp.int32)
close(
    jax.jit(lambda x: attn.attention(q, k, v, block_table=x))(table),
    attn.attention(q, k, v, block_table=table),
)
rows = [x[0].swapaxes(0, 1) for x in (q, k, v)]
ends = [jnp.array([0, 5, len(x)], jnp.int32) for x in rows]
packed = lambda a, b: attn.attention(
    *rows, layout="thd", cu_seqlens_q=a, cu_seqlens_k=b
)
close(jax.jit(packed)(*ends[:2]), packed(*ends[:2]))
# Outputs by name, in graphs; of another layout.
rows = jax.jit(lambda q: attn.attention(q, k, v, return_aux=("entropy",)))(q)[1]
assert rows["entropy"].shape == (2, 4, 33)
swap = lambda x: jnp.swapaxes(x, 1, 2)
compare(
    lambda q, k, v: swap(plain(swap(q), swap(k), swap(v))[0]),
    lambda q, k, v: attn.attention(q, k, v, layout="bshd"),
    *map(swap, (q, k, v)),
)
# 16-bit types, empty sizes, vmap.
half = [x.astype(jnp.bfloat16) for x in (q, k, v)]
found = jax.grad(lambda q: attn.attention(q,
                                          *half[1:]).astype(jnp.float32).sum())(half[0])
assert found.dtype == jnp.bfloat16
none = jnp.zeros((2, 4, 0, 64))
# Selections, whose arrays are the caller's kind.
places = attn.top_keys(q, k, 2)
assert all(isinstance(x, jax.Array) for x in places)
for a, b in zip(jax.jit(lambda q: attn.top_keys(q, k, 2))(q), places):
    assert (a == b).all() and a.dtype == b.dtype
assert jax.jit(lambda q: attn.attention(q, k, v))(none).shape == (2, 4, 0, 32)
each = jax.vmap(lambda q: attn.attention(q[None], k[:1], v[:1])[0])(q)
close(each, attn.attention(q, k[jnp.array([0, 0])], v[jnp.array([0, 0])]))
# Outside of transformations arrays are looked at in place, and JAX gets its own.
assert isinstance(attn.attention(q, k, v), jax.Array)

# They are immutable, and stay what they are.
into = jnp.zeros(attn.attention(q, k, v).shape)
fails(ValueError, "out to be writable", lambda: attn.attention(q, k, v, out=into))
fails(ValueError, "k to be writable",
      lambda: attn.attention(q, k, v, k_new=k[:, :, :1], v_new=v[:, :, :1],
                             kv_lengths=[0] * q.shape[0]))
assert not into.any()

# What does not go says so, where the program is traced.
one = lambda q: attn.attention(q, k[:1], v[:1]).sum()
fails(NotImplementedError, "no second ones", jax.grad(lambda q: jax.grad(one)(q).sum()),
      q[:1])
fails(TypeError, "scale to be known",
      jax.jit(lambda q, s: attn.attention(q, k, v, scale=s)), q, 2.0)
fails(ValueError, "bias to broadcast",
      jax.jit(lambda q: attn.attention(q, k, v, bias=bias[:, :3])), q)
fails(ValueError, "k of the head dimension of q, 64, but got float32 of shape [2, ",
      jax.jit(lambda q: attn.attention(q, k[..., :9], v)), q)
fails(ValueError, "'sinks' of shape [hq] with hq = 4",
      jax.jit(lambda x: attn.attention(q, k, v, sinks=x)), q[0, :3, 0, 0])
fails(ValueError, "v of the rows of k",
      jax.jit(lambda q: attn.attention(q, k[:, :, :9], v)), q)
fails(ValueError, "heads that divides",
      jax.jit(lambda q: attn.attention(q[:, :3], k, v)), q)
fails(ValueError, "no out", jax.jit(lambda q: attn.attention(q, k, v, out=np.zeros(1))),
      q)
fails(TypeError, "of the type of q", jax.jit(lambda q: attn.attention(q, half[1], v)),
      q)
print("ok")

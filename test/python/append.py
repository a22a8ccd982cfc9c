# RUN: %python %s
"""k_new=, v_new=: rows are written to the caches, which the call then attends to;
v=None, v_dim=: the values are the first columns of the keys.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import reference
from reference import check

import attn

rng = np.random.default_rng(7)
TARGETS = (None, "emulator:sm_80", "emulator:sm_90a")


def compute(target, q, k, v, **options):
    """attn.attention, or the same call of a kernel for another target."""
    if target is None:
        return attn.attention(q, k, v, **options)
    kernel = attn.compile(q, k, v, target=target, **options)
    named = dict(options, **options.get("captures", {}), q=q, k=k,
                 v=v if v is not None else k[..., : options.get("v_dim")])
    if options.get("layout") == "thd":
        # Kernels have their inputs in the order [b, h, s, d].
        for name in ("q", "k", "v", "k_new", "v_new"):
            if named.get(name) is not None:
                named[name] = named[name].swapaxes(-3, -2)
    out = kernel(*[named[arg.name] for arg in kernel.inputs])
    return out.swapaxes(-3, -2) if options.get("layout") == "thd" else out


def draw(*shape, dtype):
    return rng.standard_normal(shape).astype(dtype)


def same(name, a, b):
    assert a.shape == b.shape and a.tobytes() == b.tobytes(), name


def paginate(k, page, room):
    """[b, h, s, d] in pages in no order, of which each sequence has `room`."""
    b, h, s, d = k.shape
    order = rng.permutation(b * room + 1)[: b * room].astype(np.int32)
    pool = draw(b * room + 1, h, page, d, dtype=k.dtype)
    table = order.reshape(b, room)
    for n in range(b):
        for i in range(-(-s // page)):
            rows = k[n, :, i * page : (i + 1) * page]
            pool[table[n, i], :, : rows.shape[1]] = rows
    return pool, table


def gather(pool, table, rows):
    """The rows of all sequences, as paginate was given them."""
    b, width = table.shape
    whole = pool[table].swapaxes(1, 2)  # [b, h, pages, page, d]
    return whole.reshape(b, pool.shape[1], -1, pool.shape[3])[:, :, :rows]


def problem(dtype, capacity, n, d, dv):
    """Caches [b, hk, capacity, d], lengths, rows to append, and what is to come."""
    b, hk = 3, 2
    lengths = rng.integers(0, capacity - n + 1, b).astype(np.int32)
    lengths[0] = capacity - n
    k, v = draw(b, hk, capacity, d, dtype=dtype), draw(b, hk, capacity, dv, dtype=dtype)
    k_new, v_new = draw(b, hk, n, d, dtype=dtype), draw(b, hk, n, dv, dtype=dtype)
    k_then, v_then = k.copy(), v.copy()
    for i, length in enumerate(lengths):
        k_then[i, :, length : length + n] = k_new[i]
        v_then[i, :, length : length + n] = v_new[i]
    return lengths, k, v, k_new, v_new, k_then, v_then


def test_plain(target):
    for dtype in reference.DTYPES:
        for n, rows, d, dv in ((1, 1, 64, 64), (20, 20, 72, 40), (70, 3, 64, 128),
                               (0, 2, 32, 32)):
            lengths, k, v, k_new, v_new, k_then, v_then = problem(dtype, 150, n, d, dv)
            q = draw(3, 4, rows, d, dtype=dtype)
            for options in ({"causal": "bottom_right"}, {"window": (9, 0)}, {}):
                name = "%s of %s, n %d, %s" % (target, dtype, n, options)
                mine, mine_v = k.copy(), v.copy()
                out = compute(
                    target, q, mine, mine_v, kv_lengths=lengths, k_new=k_new,
                    v_new=v_new, **options
                )
                same(name + ", k", mine, k_then)
                same(name + ", v", mine_v, v_then)
                want = reference.attention(q, k_then, v_then, kv_lengths=lengths + n,
                                           **options)[0]
                check(name, out, want, dtype)
                if target:
                    break


def test_pages(target):
    for dtype in reference.DTYPES:
        for page in (16, 64) if target else (1, 5, 64):
            n = 21
            lengths, k, v, k_new, v_new, k_then, v_then = problem(dtype, 140, n, 64, 64)
            q = draw(3, 4, n, 64, dtype=dtype)
            room = -(-140 // page)
            state = rng.bit_generator.state
            pool_k, table = paginate(k, page, room)
            rng.bit_generator.state = state
            pool_v, _ = paginate(v, page, room)
            options = {"kv_lengths": lengths, "block_table": table,
                       "causal": "bottom_right"}
            out = compute(target, q, pool_k, pool_v, k_new=k_new, v_new=v_new,
                          **options)
            name = "%s of %s, page %d" % (target, dtype, page)
            same(name + ", k", gather(pool_k, table, 140), k_then)
            same(name + ", v", gather(pool_v, table, 140), v_then)
            want = reference.attention(
                q, k_then, v_then, kv_lengths=lengths + n, causal="bottom_right"
            )[0]
            check(name, out, want, dtype)


def test_packed_queries(target):
    """A prompt and single tokens in one launch; as many new rows of each."""
    dtype = reference.DTYPES[-1]
    page, n = 64, 2
    lengths, k, v, k_new, v_new, k_then, v_then = problem(dtype, 330, n, 64, 64)
    lengths[:] = (320, 5, 328)
    k_then, v_then = k.copy(), v.copy()
    for i, length in enumerate(lengths):
        k_then[i, :, length : length + n] = k_new[i]
        v_then[i, :, length : length + n] = v_new[i]
    counts = (300, 1, 1)
    cu = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    q = draw(cu[-1], 4, 64, dtype=dtype)
    state = rng.bit_generator.state
    pool_k, table = paginate(k, page, 6)
    rng.bit_generator.state = state
    pool_v, _ = paginate(v, page, 6)
    swap = lambda x: np.ascontiguousarray(x.swapaxes(1, 2))
    options = dict(layout="thd", cu_seqlens_q=cu, block_table=table,
                   causal="bottom_right")
    for new in (False, True):
        rows = dict(k_new=swap(k_new), v_new=swap(v_new)) if new else {}
        out = compute(target, q, swap(pool_k), swap(pool_v), kv_lengths=lengths, **rows,
                      **options)
        for i, count in enumerate(counts):
            want = reference.attention(
                q[None, cu[i] : cu[i + 1]].swapaxes(1, 2),
                (k_then if new else k)[i : i + 1],
                (v_then if new else v)[i : i + 1],
                kv_lengths=lengths[i : i + 1] + (n if new else 0),
                causal="bottom_right",
            )[0]
            got = out[cu[i] : cu[i + 1]].swapaxes(0, 1)[None]
            check("%s, packed queries, sequence %d" % (target, i), got, want, dtype)


def test_packed_rows(target):
    """As many new rows of a sequence as it has queries: a prompt, a chunk, single
    tokens, and none."""
    for page, counts in ((16, (300, 0, 1, 17, 0)), (5, (0, 0)), (64, (1, 2, 3))):
        dtype = reference.DTYPES[page % len(reference.DTYPES)]
        cu = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        b, total = len(counts), int(cu[-1])
        lengths = rng.integers(0, 40, b).astype(np.int32)
        # Rows behind the last sequence are nobody's.
        q, k_new, v_new = (draw(total + 2, h, 64, dtype=dtype) for h in (4, 2, 2))
        k, v = (draw(b, 2, 340, 64, dtype=dtype) for _ in range(2))
        k_then, v_then = k.copy(), v.copy()
        for i, n in enumerate(lengths):
            rows = slice(cu[i], cu[i + 1])
            k_then[i, :, n : n + counts[i]] = k_new[rows].swapaxes(0, 1)
            v_then[i, :, n : n + counts[i]] = v_new[rows].swapaxes(0, 1)
        room = -(-340 // page)
        state = rng.bit_generator.state
        pool_k, table = paginate(k, page, room)
        rng.bit_generator.state = state
        pool_v, _ = paginate(v, page, room)
        pools = [np.ascontiguousarray(x.swapaxes(1, 2)) for x in (pool_k, pool_v)]
        out = compute(
            target, q, *pools, kv_lengths=lengths, k_new=k_new, v_new=v_new,
            layout="thd", cu_seqlens_q=cu, block_table=table, causal="bottom_right"
        )
        name = "%s, packed rows, page %d" % (target, page)
        for pool, then in zip(pools, (k_then, v_then)):
            same(name, gather(pool.swapaxes(1, 2), table, 340), then)
        for i, count in enumerate(counts):
            want = reference.attention(
                q[None, cu[i] : cu[i + 1]].swapaxes(1, 2), k_then[i : i + 1],
                v_then[i : i + 1], kv_lengths=lengths[i : i + 1] + count,
                causal="bottom_right"
            )[0]
            check(name, out[cu[i] : cu[i + 1]].swapaxes(0, 1)[None], want, dtype)


def test_rolling():
    dtype, rows, n = np.dtype("f4"), 40, 3
    start = np.array([75, 0], np.int32)
    lengths = np.array([37, 10], np.int32)
    k, v = draw(2, 2, rows, 32, dtype=dtype), draw(2, 2, rows, 32, dtype=dtype)
    k_new, v_new = draw(2, 2, n, 32, dtype=dtype), draw(2, 2, n, 32, dtype=dtype)
    k_then, v_then = k.copy(), v.copy()
    for b in range(2):
        for i in range(n):
            k_then[b, :, (start[b] + lengths[b] + i) % rows] = k_new[b, :, i]
            v_then[b, :, (start[b] + lengths[b] + i) % rows] = v_new[b, :, i]
    q = draw(2, 2, n, 32, dtype=dtype)
    options = dict(k_start=start, rolling=True, causal="bottom_right")
    out = attn.attention(q, k, v, kv_lengths=lengths, k_new=k_new, v_new=v_new,
                         **options)
    same("rolling, k", k, k_then)
    same("rolling, v", v, v_then)
    want = attn.attention(q, k_then, v_then, kv_lengths=lengths + n, **options)
    same("rolling", out, want)


def test_values_in_keys(target):
    for dtype in reference.DTYPES:
        for d, dv in ((96, 64), (80, 24)):
            n = 5
            lengths, k, _, k_new, _, k_then, _ = problem(dtype, 100, n, d, dv)
            q = draw(3, 4, n, d, dtype=dtype)
            q = np.concatenate([q, q], axis=1)
            options = {"kv_lengths": lengths, "causal": "bottom_right"}
            want = reference.attention(q, k, k[..., :dv], **options)[0]
            out = compute(target, q, k, None, v_dim=dv, **options)
            assert out.shape == q.shape[:-1] + (dv,)
            check("%s of %s, v_dim %d" % (target, dtype, dv), out, want, dtype)
            # A plan, by the second call; and with rows that are appended.
            again = compute(target, q, k, None, v_dim=dv, **options)
            same("again", out, again)
            out = compute(target, q, k, None, v_dim=dv, k_new=k_new, **options)
            same("v_dim, k", k, k_then)
            options["kv_lengths"] = lengths + n
            want = reference.attention(q, k, k[..., :dv], **options)[0]
            check("%s, v_dim %d and k_new" % (target, dv), out, want, dtype)


ODD = """
^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %number: tensor<?xi32>):
  %one = arith.constant 1 : i32
  %key = arith.index_cast %j : i32 to index
  %n = tensor.extract %number[%key] : tensor<?xi32>
  %m = arith.addi %n, %i : i32
  %last = arith.andi %m, %one : i32
  %live = arith.cmpi eq, %last, %one : i32
  attn.yield %live : i1
"""


def test_masked_values_in_keys(target):
    """Where tiles of keys are tested, and hold the values as they are: 64 channels
    filled up from 40."""
    number = rng.integers(0, 9, 150).astype(np.int32)
    mask = (number + np.arange(5)[:, None]) % 2 == 1
    for dtype in reference.DTYPES:
        for dv in (64, 40):
            q, k = draw(1, 4, 5, 64, dtype=dtype), draw(1, 2, 150, 64, dtype=dtype)
            want = reference.attention(q, k, k[..., :dv], mask=mask)[0]
            out = compute(target, q, k, None, v_dim=dv, mask_mod=ODD,
                          captures={"number": number})
            check("%s, masked, v_dim %d" % (target, dv), out, want, dtype)


def test_latent(target):
    """Multi-head latent attention: 16 heads of 576 columns, values of 512, in pages."""
    dtype, n = reference.DTYPES[-1], 1
    lengths, k, _, k_new, _, k_then, _ = problem(dtype, 100, n, 576, 512)
    k, k_new, k_then = (np.ascontiguousarray(x[:, :1]) for x in (k, k_new, k_then))
    q = draw(3, 16, n, 576, dtype=dtype)
    pool, table = paginate(k, 64, 2)
    options = {"causal": "bottom_right", "scale": 192**-0.5}
    out = compute(
        target, q, pool, None, v_dim=512, k_new=k_new, kv_lengths=lengths,
        block_table=table, **options
    )
    same("latent, k", gather(pool, table, 100), k_then)
    want = reference.attention(q, k_then, k_then[..., :512], kv_lengths=lengths + n,
                               **options)[0]
    check("%s, latent" % target, out, want, dtype)


def test_latent_slots():
    """The same where two warpgroups share the channels, and the slots of the keys have
    the values: two tiles of heads, keys in parts, slots that no key is in, and more
    values or fewer than two products have; 16 heads are columns of products."""
    target, dtype = "emulator:sm_90a", np.dtype("f2")
    for heads, page, dv, words in (
        (70, 16, 512, "which two warpgroups share; they are columns of the keys"),
        (16, 64, 512, "rows: columns of products, of which a warpgroup has 64 keys"),
        (5, 64, 128, "pack_heads"),
    ):
        lengths = np.array([390, 0, 65], np.int32)
        k = draw(3, 1, 448, 576, dtype=dtype)
        pool, table = paginate(k, page, 448 // page + 1)
        for b, length in enumerate(lengths):
            for i in range(length, 448):
                pool[table[b, i // page], :, i % page] = np.nan
        q = draw(3, heads, 1, 576, dtype=dtype)
        options = {"scale": 192**-0.5, "v_dim": dv}
        options.update(kv_lengths=lengths, block_table=table)
        kernel = attn.compile(q, pool, None, target=target, **options)
        assert words in kernel.explain(), kernel.explain()
        out = compute(target, q, pool, None, **options)
        want = reference.attention(q, k, k[..., :dv], kv_lengths=lengths,
                                   scale=192**-0.5)[0]
        check("latent, %d heads, page %d" % (heads, page), out, want, dtype)
        named = dict(options, q=q, k=pool, v=pool[..., :dv].copy())
        try:
            kernel(*[named[arg.name] for arg in kernel.inputs])
        except ValueError as error:
            words = "expected 'v' to be the first columns of 'k', in its memory"
            assert words in str(error), error
        else:
            raise AssertionError("expected an error")


def test_plans():
    """Calls of one kind share a plan, which must not hold on to lengths or caches."""
    dtype = np.dtype("f4")
    k, v = np.zeros((2, 1, 2, 64, 32), dtype)
    lengths = np.zeros(1, np.int32)
    for step in range(6):
        q = draw(1, 2, 1, 32, dtype=dtype)
        k_new, v_new = draw(2, 1, 2, 1, 32, dtype=dtype)
        out = attn.attention(q, k, v, kv_lengths=lengths, k_new=k_new, v_new=v_new)
        same("step %d" % step, k[:, :, step : step + 1], k_new)
        want = reference.attention(q, k[:, :, : step + 1], v[:, :, : step + 1])[0]
        check("step %d" % step, out, want, dtype)
        lengths += 1


def expect(words, error=ValueError, **change):
    arguments = dict(
        q=np.zeros((2, 2, 1, 32), "f4"),
        k=np.zeros((2, 2, 10, 32), "f4"),
        v=np.zeros((2, 2, 10, 32), "f4"),
        kv_lengths=np.array([3, 9], np.int32),
        k_new=np.zeros((2, 2, 1, 32), "f4"),
        v_new=np.zeros((2, 2, 1, 32), "f4"),
    )
    arguments.update(change)
    before = {n: np.array(x) for n, x in arguments.items() if isinstance(x, np.ndarray)}
    try:
        attn.attention(arguments.pop("q"), arguments.pop("k"), arguments.pop("v"),
                       **arguments)
    except error as found:
        assert words in str(found), (words, str(found))
    else:
        raise AssertionError("expected an error: " + words)
    for name, array in before.items():
        if name in change or name in ("k", "v"):
            continue
        assert (array == arguments.get(name, array)).all(), name


def test_errors():
    frozen = np.zeros((2, 2, 10, 32), "f4")
    frozen.flags.writeable = False
    expect("expected k to be writable", k=frozen)
    expect("expected v to be writable", v=frozen)
    free = np.zeros((2, 2, 10, 32), "f4")
    rows, lengths = free[:, :, :1].copy(), np.zeros(2, np.int32)
    kernel = attn.compile(rows, free, free, kv_lengths=lengths, k_new=rows, v_new=rows)
    assert [a.name for a in kernel.inputs if a.is_written] == ["k", "v"]
    try:
        kernel(rows, frozen, free, lengths, rows, rows)
    except ValueError as error:
        assert "expected k to be writable" in str(error), error
    else:
        raise AssertionError("expected an error")
    expect("k_new with kv_lengths", kv_lengths=None)
    expect("k_new and v_new together", v_new=None)
    expect("values between 0 and sk-s_new = 9, but got 10 at 1", kv_lengths=[3, 10])
    expect("values between 0 and sk-s_new = -2, but got",
           k_new=np.zeros((2, 2, 12, 32), "f4"), v_new=np.zeros((2, 2, 12, 32), "f4"))
    expect("expected k_new of the type of k", TypeError,
           k_new=np.zeros((2, 2, 1, 32), "f2"))
    expect("expected k_new of 4 dimensions", k_new=np.zeros((2, 1, 32), "f4"))
    expect("'v_new' of shape [b, hk, s_new, 32]", k_new=np.zeros((2, 2, 2, 32), "f4"))
    expect("'k_new' of shape", k_new=np.zeros((2, 1, 1, 32), "f4"))
    expect("v_dim between 1 and 32", v=None, v_new=None, v_dim=33)
    expect("v_new with v alone", v=None, v_dim=32)
    expect("expected v_dim of v, 32, or v=None", v_dim=16)
    cache = np.zeros((2, 2, 11, 32), "f4")
    expect("'k', which is written, to have memory of its own", k=cache[:, :, :10],
           k_new=cache[:, :, 9:10])
    expect("'v', which is written, to have memory of its own", k=cache[:, :, :10],
           v=cache[:, :, 1:])
    expect("to have an element of its own at each position", k=repeated(cache))
    expect("to have memory of its own", k=cache[:, :, :10], out=cache[:, :, 9:10])
    pool, table = np.zeros((4, 2, 4, 32), "f4"), np.array([[0, -1], [1, 2]], np.int32)
    expect(
        "'block_table' to hold numbers of the 4 pages as far as a sequence reaches, "
        "but got -1 at 0, 1",
        k=pool,
        v=pool.copy(),
        block_table=table,
        kv_lengths=[4, 5],
    )


def repeated(cache):
    """One row of batches for two, which NumPy lets be written."""
    return np.lib.stride_tricks.as_strided(
        cache, (2, 2, 10, 32), (0,) + cache.strides[1:], writeable=True
    )


def test_no_pages():
    """A table without pages, and no rows for them: nothing is looked at."""
    q, none = np.ones((2, 4, 1, 32), "f4"), np.zeros((2, 2, 0, 32), "f4")
    pool, table = np.zeros((4, 2, 4, 32), "f4"), np.zeros((2, 0), np.int32)
    o = attn.attention(q, pool, pool.copy(), k_new=none, v_new=none,
                       kv_lengths=np.zeros(2, np.int32), block_table=table)
    assert (o == 0).all()


test_no_pages()
for target in TARGETS:
    test_plain(target)
    test_pages(target)
    test_packed_queries(target)
    test_packed_rows(target)
    test_values_in_keys(target)
    test_masked_values_in_keys(target)
    test_latent(target)
test_latent_slots()
test_rolling()
test_plans()
test_errors()
print("ok")

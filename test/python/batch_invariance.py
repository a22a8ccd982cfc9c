# RUN: %python %s
# RUN: %if cpu-avx512 %{ %python %s cpu-avx2 %}
# RUN: %python %s emulator:sm_80
# RUN: %python %s emulator:sm_90a
"""batch_invariant=True: the bits of a row, whatever is beside it.

    batch_invariance.py [TARGET] [--rounds N]

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

One sequence is computed row by row, as decode steps. Each row must have the same
bits in one prefill, in prefills by chunks, among other sequences (in batches with
lengths, packed, in pages), and in any number of rows. Then the same with keys that are
cut after so few keys that all of them have several parts, each call with a block for
all parts or one for each, whichever chance says.
"""

import os
import re
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import reference

import attn

arguments = sys.argv[1:]
rounds = int(
    arguments.pop(arguments.index("--rounds") + 1)) if "--rounds" in arguments else 1
arguments = [a for a in arguments if a != "--rounds"]
target = arguments[0] if arguments else None
emulated = target is not None and target.startswith("emulator")
rng = np.random.default_rng(23)


# Keys of a part, or None for what the compiler chooses.
part_keys = None
kernels = {}


def compile_cut(q, k, v, options):
    """The kernel with parts of `part_keys` keys, and some schedule."""
    text = attn.compile(q, k, v, target=target, until_after="input", **options)
    text = text if isinstance(text, str) else text.mlir("input")
    rows = {"emulator:sm_90a": 64}.get(target, 16)
    splits = 1
    if options.get("layout") != "thd" and rng.random() < 0.6:
        splits = "automatic"
    schedule = "block_q = %d, rows = %d, block_k = 32, splits = %s" % (
        rows * int(rng.choice([1, 2])), rows, splits)
    assert "batch_invariant" in text, text
    # With a schedule that is given, a kernel serves all sizes.
    text = re.sub(r"attn\.expected_sizes = array<[^>]*>, ", "", text)
    text = text.replace(
        "batch_invariant", "part_keys = %d : i64, batch_invariant, schedule = "
        "#attn.schedule<%s>" % (part_keys, schedule), 1)
    if text not in kernels:
        kernels[text] = attn.compile(text, target=target)
    return kernels[text]


def compute(q, k, v, **options):
    options.setdefault("causal", "bottom_right")
    options.setdefault("batch_invariant", True)
    if target is None and part_keys is None:
        return attn.attention(q, k, v, **options)
    try:
        kernel = (compile_cut(q, k, v, options) if part_keys else
                  attn.compile(q, k, v, target=target, **options))
    except ValueError as error:
        if "this machine" in str(error):
            print("skipped: %s" % error)
            sys.exit(0)
        raise
    named = dict(q=q, k=k, v=v)
    for name in ("bias", "mask"):
        if name in options:
            array = options[name]
            named[name] = array.reshape((1,) * (4 - array.ndim) + array.shape)
    left, right = options.get("window", (-1, -1))
    named.update(window_left=np.int32(left), window_right=np.int32(right))
    for name in ("scale", "softcap", "alibi_slopes", "sinks", "kv_lengths"):
        if name in options:
            named[name] = options[name]
    for name in ("cu_seqlens_q", "cu_seqlens_k", "block_table"):
        if name in options:
            named[name] = options[name]
    inputs = [named[arg.name] for arg in kernel.inputs]
    if options.get("layout") == "thd":
        for i, arg in enumerate(kernel.inputs):
            if arg.name == "q" or arg.name in "kv" and "block_table" not in options:
                inputs[i] = np.swapaxes(inputs[i], 0, 1)
            elif arg.name in "kv":
                inputs[i] = np.swapaxes(inputs[i], 1, 2)
    result = kernel(*inputs)
    return np.swapaxes(result, 0, 1) if options.get("layout") == "thd" else result


def bits(array):
    array = np.ascontiguousarray(array)
    return array.view(np.uint8).reshape(array.shape + (-1,))


def same(name, out, want):
    """Both [hq, rows, dv]."""
    assert out.shape == want.shape, (name, out.shape, want.shape)
    rows = np.argwhere((bits(out) != bits(want)).any(axis=(2, 3)))
    if len(rows):
        h, i = rows[0]
        raise AssertionError(
            "%s: %d of %d rows differ, the first is row %d of head %d: %r and %r"
            % (name, len(rows), out.shape[0] * out.shape[1], i, h, out[h, i, :4],
               want[h, i, :4])
        )


def draw(heads, rows, d, dtype):
    return rng.standard_normal((heads, rows, d)).astype(dtype)


def options_of(rows, hq):
    """Options that do not depend on the row's place, by name."""
    slopes = (2.0 ** -np.arange(1, hq + 1)).astype(np.float32)
    table = [
        ("plain", {}),
        ("window", {"window": (int(rng.integers(0, rows)), 0)}),
        ("softcap", {"softcap": 20.0, "scale": 0.3}),
        ("alibi", {"alibi_slopes": slopes}),
        ("stick_breaking", {"monoid": "stick_breaking"}),
        ("entropy", {"monoid": "softmax_entropy"}),
        ("sinks", {"sinks": rng.standard_normal(hq).astype(np.float32)}),
    ]
    if emulated:
        return table
    # A CPU has three dtypes, with and without cut keys: each time half of the others.
    drawn = sorted(rng.permutation(len(table) - 1)[: len(table) // 2] + 1)
    return [table[0]] + [table[i] for i in drawn]


def bias_of(rows, dtype):
    """An additive mask of rows and keys, with dead keys."""
    bias = rng.standard_normal((rows, rows)).astype(np.float32)
    bias[rng.random((rows, rows)) < 0.3] = -np.inf
    return bias


def steps(q, k, v, options, picks, **of_rows):
    """Rows `picks` of a sequence, each as a decode step of its own."""
    outs = []
    for i in picks:
        own = {name: f(i, i + 1, i + 1) for name, f in of_rows.items()}
        out = compute(q[None, :, i : i + 1], k[None, :, : i + 1], v[None, :, : i + 1],
                      **options, **own)
        outs.append(out[0])
    return np.concatenate(outs, axis=1)


def check_rows(name, dtype, q, k, v, options, **of_rows):
    """Decode steps, prefill and chunks of one sequence."""
    rows = q.shape[1]
    picks = sorted(set(rng.integers(0, rows, 4).tolist() + [0, rows - 1]))
    want = compute(
        q[None], k[None], v[None], **options,
        **{n: f(0, rows, rows) for n, f in of_rows.items()}
    )[0]
    same(name + ", decode", steps(q, k, v, options, picks, **of_rows), want[:, picks])
    for chunk in rng.choice([3, 7, 16, 33, 64, 100], 1 if emulated else 3,
                            replace=False):
        chunk = max(int(chunk), rows // 5)
        for i in range(0, rows, chunk):
            end = min(i + chunk, rows)
            own = {n: f(i, end, end) for n, f in of_rows.items()}
            out = compute(q[None, :, i:end], k[None, :, :end], v[None, :, :end],
                          **options, **own)
            same("%s, rows %d to %d" % (name, i, end), out[0], want[:, i:end])
    return want


def check_batches(name, dtype, q, k, v, want, options, hk):
    """The sequence among others: padded, packed, in pages."""
    hq, rows, d = q.shape
    dv = v.shape[2]
    alike = {n: o for n, o in options.items()}
    # Chunks of one length behind caches of any.
    b, chunk = int(rng.integers(2, 5)), int(rng.integers(1, rows + 1))
    place, capacity = int(rng.integers(0, b)), rows + int(rng.integers(0, 90))
    queries = rng.standard_normal((b, hq, chunk, d)).astype(dtype)
    keys = rng.standard_normal((b, hk, capacity, d)).astype(dtype)
    values = rng.standard_normal((b, hk, capacity, dv)).astype(dtype)
    queries[place] = q[:, rows - chunk :]
    keys[place, :, :rows], values[place, :, :rows] = k, v
    lengths = rng.integers(0, capacity + 1, b).astype(np.int32)
    lengths[place] = rows
    out = compute(queries, keys, values, kv_lengths=lengths, **alike)
    same("%s, batch of %d" % (name, b), out[place], want[:, rows - chunk :])

    # Pages.
    page = 64
    width = -(-capacity // page)
    order = rng.permutation(b * width).astype(np.int32)
    table = order.reshape(b, width)
    pools = [np.zeros((b * width, hk, page, x.shape[3]), dtype) for x in (keys, values)]
    for pool, x in zip(pools, (keys, values)):
        for n in range(b):
            for i in range(width):
                part = x[n, :, i * page : (i + 1) * page]
                pool[table[n, i], :, : part.shape[1]] = part
    out = compute(queries, *pools, kv_lengths=lengths, block_table=table, **alike)
    paged = out[place]
    # On GPUs tiles lie within pages, which makes another order of its own.
    if not emulated:
        same("%s, pages" % name, paged, want[:, rows - chunk :])
    # Single tokens and prompts in one launch, in pages.
    counts = np.array([int(rng.integers(0, 20)), 1, int(rng.integers(1, 90)), chunk],
                      np.int32)[-b:]
    counts = np.minimum(counts, lengths)
    counts[place] = chunk
    cu = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    packed = rng.standard_normal((cu[-1], hq, d)).astype(dtype)
    packed[cu[place] : cu[place + 1]] = np.swapaxes(q[:, rows - chunk :], 0, 1)
    if len(counts) == b:
        out = compute(
            packed,
            *[np.swapaxes(pool, 1, 2) for pool in pools],
            layout="thd",
            cu_seqlens_q=cu,
            kv_lengths=lengths,
            block_table=table,
            **alike
        )
        got = np.swapaxes(out[cu[place] : cu[place + 1]], 0, 1)
        same("%s, packed queries and pages" % name, got, paged)
    # Packed.
    counts = np.array([int(rng.integers(0, 100)), rows, int(rng.integers(0, 100))])
    cu = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    flat = [
        rng.standard_normal((cu[-1], x.shape[0], x.shape[2])).astype(dtype)
        for x in (q, k, v)
    ]
    for x, own in zip(flat, (q, k, v)):
        x[cu[1] : cu[2]] = np.swapaxes(own, 0, 1)
    out = compute(*flat, layout="thd", cu_seqlens_q=cu, cu_seqlens_k=cu, **alike)
    same("%s, packed" % name, np.swapaxes(out[cu[1] : cu[2]], 0, 1), want)


def check_many_keys(dtype):
    """Few rows of so many keys that they are reduced in parts otherwise."""
    q, k, v = draw(4, 16, 64, dtype), draw(1, 5000, 64, dtype), draw(1, 5000, 64, dtype)
    want = compute(q[None], k[None], v[None])[0]
    for rows in (1, 2, 5):
        out = compute(q[None, :, 16 - rows :], k[None], v[None])
        same("many keys, %d rows" % rows, out[0], want[:, 16 - rows :])
    others = [np.repeat(x[None], 9, axis=0) for x in (q, k, v)]
    same("many keys, a batch of 9", compute(*others)[4], want)


dtypes = reference.DTYPES if not emulated else reference.DTYPES[-1:]


def exact(q, k, v):
    """Causal attention in float64, of one sequence."""
    group, n = q.shape[0] // k.shape[0], k.shape[1]
    keys, values = (np.repeat(x.astype("f8"), group, axis=0) for x in (k, v))
    scores = q.astype("f8") @ keys.transpose(0, 2, 1) / np.sqrt(q.shape[2])
    scores[:, np.arange(n) > np.arange(q.shape[1])[:, None] + n - q.shape[1]] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights @ values / weights.sum(-1, keepdims=True)


def check_cut(dtype):
    global part_keys
    part_keys = int(rng.choice([32, 64, 96]))
    rows = int(rng.integers(150, 300))
    q, k, v = (draw(heads, rows, 64, dtype) for heads in (4, 1, 1))
    for title, options in options_of(rows, 4):
        if title == "stick_breaking":  # is not cut
            continue
        name = "%s of %s, %d rows, parts of %d" % (title, np.dtype(dtype).name, rows,
                                                   part_keys)
        want = check_rows(name, dtype, q, k, v, options)
        check_batches(name, dtype, q, k, v, want, options, 1)
        if title == "plain":
            error = np.abs(want - exact(q, k, v)).max()
            most = {"float32": 1e-5, "float16": 4e-3}.get(np.dtype(dtype).name, 3e-2)
            assert error < most, (name, error)
    part_keys = None


for n in range(rounds):
    for dtype in dtypes:
        check_cut(dtype)
        if not emulated:
            check_many_keys(dtype)
        shapes = [(4, 1, 64, 64), (2, 2, 40, 24)] if not emulated else [(4, 1, 64, 64)]
        for hq, hk, d, dv in shapes:
            rows = int(rng.integers(150, 300))
            q, k, v = draw(hq, rows, d, dtype), draw(hk, rows, d,
                                                     dtype), draw(hk, rows, dv, dtype)
            for title, options in options_of(rows, hq)[: 7 if d == 64 else 2]:
                name = "%s of %s, %d rows, hq %d, hk %d" % (title, np.dtype(dtype).name,
                                                            rows, hq, hk)
                want = check_rows(name, dtype, q, k, v, options)
                check_batches(name, dtype, q, k, v, want, options, hk)
            bias = bias_of(rows, dtype)
            check_rows("bias of %s" % np.dtype(dtype).name, dtype, q, k, v, {},
                       bias=lambda i, j, n: bias[i:j, :n])
            mask = rng.random((rows, rows)) < 0.6
            check_rows("mask of %s" % np.dtype(dtype).name, dtype, q, k, v, {},
                       mask=lambda i, j, n: mask[i:j, :n].copy())
print("ok")

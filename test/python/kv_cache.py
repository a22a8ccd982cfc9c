# RUN: %python %s
"""attn.KVCache against a plain model, and attention that reads it.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import copy
import gc
import os
import signal
import sys
import threading
import weakref

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import reference
from reference import check

import attn

rng = np.random.default_rng(17)
HEADS, D, DV = 2, 8, 4


def rows_of(tokens):
    """Keys and values [heads, tokens, d] that depend on all tokens up to theirs."""
    number, keys, values = 1, [], []
    for token in tokens:
        number = (number * 31 + int(token) + 7) % 1000003
        made = np.random.default_rng(number).standard_normal((HEADS, D + DV))
        keys.append(made[:, :D])
        values.append(made[:, D:])
    stack = lambda x, d: np.stack(x, axis=1) if x else np.zeros((HEADS, 0, d))
    return stack(keys, D), stack(values, DV)


class Model:
    """What each sequence holds, one after the other."""

    def __init__(self, dtype):
        self.dtype, self.rows = dtype, {}

    def add(self, id, k, v):
        empty = (np.zeros((HEADS, 0, D)), np.zeros((HEADS, 0, DV)))
        old = self.rows.get(id, [x.astype(self.dtype) for x in empty])
        self.rows[id] = [np.concatenate(x, axis=1) for x in zip(old, (k, v))]

    def check(self, cache, ids, **options):
        """Attention over the cache is that over plain copies, of each sequence."""
        table, lengths = cache.block_table(ids), cache.lengths(ids)
        starts = cache.starts(ids)
        assert table.dtype == lengths.dtype == starts.dtype == np.int32
        q = rng.standard_normal((len(ids), 2 * HEADS, 3, D)).astype(self.dtype)
        out = attn.attention(
            q,
            cache.k,
            cache.v,
            block_table=table,
            kv_lengths=lengths,
            k_start=starts,
            causal="bottom_right",
            **options
        )
        for n, id in enumerate(ids):
            k, v = self.rows[id]
            assert lengths[n] + starts[n] == k.shape[1]
            if k.shape[1] < q.shape[2]:
                continue
            want = reference.attention(
                q[n : n + 1], k[None], v[None], causal="bottom_right", **options
            )[0]
            check("sequence %d" % id, out[n : n + 1], want, self.dtype)


def test_random_operations():
    for dtype in reference.DTYPES:
        cache = attn.KVCache(12, 4, HEADS, D, DV, dtype=dtype)
        model, tokens, full, shared = Model(dtype), {}, 0, 0
        for step in range(400):
            live = sorted(model.rows)
            what = rng.integers(10)
            some = int(rng.choice(live)) if live else 0
            if what < 5 or not live:
                ids = sorted({int(x) for x in rng.integers(0, 9, 2)})
                count = int(rng.integers(0, 9))
                new = rng.integers(0, 2, (len(ids), count)) * (rng.random() < 0.5)
                after = {id: tokens.get(id, []) + list(new[n])
                         for n, id in enumerate(ids)}
                made = [rows_of(after[id]) for id in ids]
                k, v = (
                    np.stack([x[i][:, x[i].shape[1] - count :]
                              for x in made]).astype(dtype)
                    for i in range(2)
                )
                before = cache.free_pages, cache.ids()
                try:
                    cache.append(ids, k, v, tokens=new)
                except attn.OutOfPages as error:
                    full += 1
                    assert "out of pages: expected" in str(error)
                    assert before == (cache.free_pages, cache.ids())
                else:
                    tokens.update(after)
                    for n, id in enumerate(ids):
                        model.add(id, k[n], v[n])
            elif what == 5:
                new = cache.fork(some)
                assert new not in live
                model.rows[new], tokens[new] = list(model.rows[some]), tokens[some]
            elif what == 6:
                cache.free(some)
                del model.rows[some], tokens[some]
            elif what == 7:
                length = int(rng.integers(0, len(tokens[some]) + 1))
                cache.truncate(some, length)
                tokens[some] = tokens[some][:length]
                model.rows[some] = [x[:, :length] for x in model.rows[some]]
            elif what == 8:
                source = [int(x) for x in rng.choice(live, len(live))]
                assert cache.reorder(source) == live
                model.rows.update({b: model.rows[a] for a, b in zip(source, live)})
                tokens.update({b: tokens[a] for a, b in zip(source, live)})
            else:
                new = cache.new()
                wanted = tokens[some] + [3]
                count = cache.reuse_prefix(new, wanted)
                assert count >= len(tokens[some]) // 4 * 4
                tokens[new] = wanted[:count]
                model.rows[new] = [x.astype(dtype) for x in rows_of(tokens[new])]
            assert cache.ids() == sorted(model.rows)
            if step % 40 == 0 and model.rows:
                model.check(cache, sorted(model.rows))
            used = cache.block_table(cache.ids())
            used = used[used >= 0]
            shared += len(used) - len(set(used.tolist()))
            assert len(set(used.tolist())) + cache.free_pages == 12
            while len(model.rows) > 8:
                id = min(model.rows)
                cache.free(id)
                del model.rows[id], tokens[id]
        assert full > 0 and shared > 100, (full, shared)


def test_window():
    for page in (1, 4):
        cache = attn.KVCache(64, page, HEADS, D, DV, window=6)
        model = Model(np.dtype(np.float32))
        for count in (20, 3, 1, 1, 1, 1, 5, 1):
            for id in (1, 5):
                k, v = (rng.standard_normal((1, HEADS, count, x)).astype("f")
                        for x in (D, DV))
                cache.append([id], k, v)
                model.add(id, k[0], v[0])
            if count == 3:
                # The three last queries of a prompt in chunks see all that they may.
                model.check(cache, [1, 5], window=(5, 0))
        # And three queries whose rows came one by one see what the last did.
        model.check(cache, [5], window=(3, 0))
        used = 64 - cache.free_pages
        assert used <= 2 * (-(-6 // page) + 1), used
        assert cache.starts([1])[0] > 0


# The first keys and a window, of places in the cache.
SINKS = """
^bb0(%b: i32, %h: i32, %i: i32, %j: i32,
     %lengths: tensor<?xi32>, %rows: i32, %keep: i32, %width: i32):
  %sequence = arith.index_cast %b : i32 to index
  %length = tensor.extract %lengths[%sequence] : tensor<?xi32>
  %before = arith.subi %length, %rows : i32
  %row = arith.addi %before, %i : i32
  %distance = arith.subi %row, %j : i32
  %near = arith.cmpi slt, %distance, %width : i32
  %first = arith.cmpi slt, %j, %keep : i32
  %live = arith.ori %first, %near : i1
  attn.yield %live : i1
"""


def test_first_keys():
    for page, keep in ((1, 3), (4, 3), (4, 5)):
        cache = attn.KVCache(64, page, HEADS, D, DV, window=6, keep=keep)
        keys, values = np.zeros((HEADS, 0, D), "f"), np.zeros((HEADS, 0, DV), "f")
        for count in (2, 20, 3, 1, 1, 1, 1, 5, 1, 3):
            k, v = (rng.standard_normal((1, HEADS, count, x)).astype("f")
                    for x in (D, DV))
            cache.append([7], k, v)
            keys, values = np.append(keys, k[0], 1), np.append(values, v[0], 1)
            q = rng.standard_normal((1, 2 * HEADS, count, D)).astype("f")
            lengths = cache.lengths([7])
            out = attn.attention(
                q,
                cache.k,
                cache.v,
                block_table=cache.block_table([7]),
                kv_lengths=lengths,
                causal="bottom_right",
                mask_mod=SINKS,
                captures={"lengths": lengths, "rows": count, "keep": keep, "width": 6},
            )
            end = keys.shape[1]
            row, key = np.arange(end - count, end)[:, None], np.arange(end)
            live = (key <= row) & ((key < keep) | (row - key < 6))
            want = reference.attention(q, keys[None], values[None], mask=live)[0]
            check("first keys %d" % end, out, want, np.dtype(np.float32))
        assert cache.starts([7])[0] == 0 and cache.keep == keep
        used = 64 - cache.free_pages
        assert used <= -(-keep // page) + -(-6 // page) + 2, used


def test_plain_names():
    # As the documentation has it: ids come into being, and none of a window.
    cache = attn.KVCache(8, 16, HEADS, D)
    k = rng.standard_normal((2, HEADS, 20, D)).astype("f")
    cache.append([0, 1], k, k)
    assert cache.k.shape == cache.v.shape == (8, HEADS, 16, D)
    assert cache.lengths([1, 0]).tolist() == [20, 20]
    assert cache.block_table([0], width=3).tolist()[0][2] == -1
    assert cache.free_pages == 4
    twin = cache.fork(1)
    assert cache.free_pages == 4
    cache.append([twin], k[:1, :, :1], k[:1, :, :1])
    assert cache.free_pages == 3  # the last page was copied
    cache.free(0)
    cache.append([0], k[:1, :, :1], k[:1, :, :1])  # again, and empty
    assert cache.lengths([0]).tolist() == [1]
    assert cache.reorder([1, 1, 0], onto=[0, 1, 9]) == [0, 1, 9]
    assert cache.lengths([0, 1, twin, 9]).tolist() == [20, 20, 21, 1]
    # Beams: one prompt, and more sequences than there were.
    beams = attn.KVCache(8, 4, HEADS, D)
    beams.append([3], k[:1], k[:1])
    assert beams.reorder([3, 3, 3]) == [3, 4, 5]
    assert beams.free_pages == 3
    # Empty ones.
    empty = beams.new()
    assert beams.lengths([empty]).tolist() == [0]
    assert beams.block_table([]).shape[0] == 0
    out = attn.attention(
        k[:1, :, :2], beams.k, beams.v, block_table=beams.block_table([empty]),
        kv_lengths=[0]
    )
    assert not out.any()
    # Rows that the caller writes.
    beams.reserve([empty], 2)
    page = beams.block_table([empty])[0, 0]
    beams.k[page, :, :2], beams.v[page, :, :2] = k[0, :, :2], k[0, :, :2]
    out = attn.attention(
        k[:1, :, :2], beams.k, beams.v, block_table=beams.block_table([empty]),
        kv_lengths=[2]
    )
    check("reserved", out,
          reference.attention(k[:1, :, :2], k[:1, :, :2], k[:1, :, :2])[0], k.dtype)


def test_tokens():
    # Lists, arrays of any integers, and of one id without the dimension of ids.
    k = rng.standard_normal((1, HEADS, 4, D)).astype("f")
    cache = attn.KVCache(8, 4, HEADS, D)
    known = [5, 6, 7, 2**40]
    for id, tokens in enumerate((known, [known], np.array(known),
                                 np.array([known])[:, ::1])):
        cache.append([id], k, k, tokens=tokens)
        assert cache.free_pages == 7
    other = np.array([[5, 6, 7, 1]], np.int16)
    cache.append([10], k, k, tokens=other)
    cache.append([11], k, k,
                 tokens=np.asfortranarray(np.repeat(other, 2, 0).astype("i4"))[1:])
    assert cache.free_pages == 6
    cache.append([12], k[:, :, :0], k[:, :, :0], tokens=[])
    assert cache.lengths([12]).tolist() == [0]


def test_without_values():
    cache = attn.KVCache(4, 4, 1, D, dv=0)
    k = rng.standard_normal((1, 1, 6, D)).astype("f")
    cache.append([0], k, None)
    assert cache.v.shape == (4, 1, 4, 0)
    table = cache.block_table([0])[0]
    assert np.array_equal(cache.k[table].reshape(1, 8, D)[:, :6], k[0])


def test_views():
    # Heads behind rows, every other channel, reversed rows, a broadcast.
    cache = attn.KVCache(8, 4, HEADS, D, dtype="float16")
    whole = rng.standard_normal((2, 9, HEADS, 2 * D)).astype(np.float16)
    k = whole.swapaxes(1, 2)[:, :, ::-1, ::2]
    v = np.broadcast_to(whole[:1, :1, :1, :D], k.shape)
    cache.append(np.array([4, 2]), k, v)
    for n, id in enumerate((4, 2)):
        table = cache.block_table([id])[0]
        for pool, want in ((cache.k, k), (cache.v, v)):
            got = pool[table].swapaxes(0, 1).reshape(HEADS, -1, D)[:, :9]
            assert np.array_equal(got, want[n])


def test_torch():
    try:
        import torch
    except ImportError:
        return
    for device in ["cpu"] + (["cuda"] if torch.cuda.is_available() else []):
        cache = attn.KVCache(8, 4, HEADS, D, dtype=torch.bfloat16,
                             device=torch.device(device))
        k = torch.randn(2, 5, HEADS, D, dtype=torch.bfloat16,
                        device=device).transpose(1, 2)
        v = torch.randn(2, HEADS, 5, D, dtype=torch.bfloat16, device=device)
        cache.append([0, 4], k, v,
                     tokens=torch.tensor([[1, 2, 3, 4, 5], [1, 2, 3, 3, 3]]))
        twin = cache.fork(4)
        cache.append([4, twin], v[:, :, :1], k[:, :, :1])
        for n, id in enumerate((0, 4, twin)):
            table = cache.block_table([id])
            assert isinstance(table, torch.Tensor) and table.device == k.device
            keys = [k[0], torch.cat([k[1], v[0, :, :1]], 1),
                    torch.cat([k[1], v[1, :, :1]], 1)][n]
            values = [v[0], torch.cat([v[1], k[0, :, :1]], 1),
                      torch.cat([v[1], k[1, :, :1]], 1)][n]
            length = int(cache.lengths([id])[0])
            for pool, want in ((cache.k, keys), (cache.v, values)):
                got = pool[table[0].long()].swapaxes(0, 1).reshape(HEADS, -1,
                                                                   D)[:, :length]
                assert torch.equal(got, want)
        # Attention over pages that every target takes.
        wide = attn.KVCache(8, 16, HEADS, 64, dtype=torch.bfloat16,
                            device=torch.device(device))
        x = torch.randn(1, HEADS, 40, 64, dtype=torch.bfloat16, device=device)
        wide.append([0], x, x)
        args = {"block_table": wide.block_table([0]), "kv_lengths": wide.lengths([0])}
        out = attn.attention(x, wide.k, wide.v, causal="bottom_right", **args)
        want = attn.attention(x, x, x, causal="bottom_right")
        assert torch.allclose(out.float(), want.float(), atol=2e-2)
        expect(TypeError, "expected dtype to be float32", attn.KVCache, 4, 4, 1, 8,
               dtype=torch.float64)


def test_threads():
    cache = attn.KVCache(64, 4, HEADS, D)
    failures = []

    def work(me):
        try:
            for turn in range(200):
                rows = np.full((1, HEADS, 1 + turn % 7, D), 1000 * me + turn, "f")
                try:
                    cache.append([me], rows, rows, tokens=[[me] * rows.shape[2]])
                    twin = cache.fork(me)
                    cache.append([twin], rows, rows)
                except attn.OutOfPages:
                    continue
                table = cache.block_table([twin])[0]
                seen = cache.k[table].swapaxes(0, 1).reshape(HEADS, -1, D)
                assert (seen[:, rows.shape[2] : 2 * rows.shape[2]] == rows[0]).all()
                for id in (me, twin):
                    cache.free(id)
        except Exception as error:
            failures.append(error)

    # Forks have the number behind the last one: those of threads stay theirs.
    last = np.zeros((1, HEADS, 1, D), "f")
    cache.append([4], last, last)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cache.free(4)
    assert not failures, failures
    assert cache.free_pages == 64 and not cache.ids()


def test_fork():
    # A child goes on with its parent's cache, whoever was in it.
    cache = attn.KVCache(64, 4, HEADS, D)
    rows = np.zeros((1, HEADS, 9, D), np.float32)
    stop = threading.Event()

    def work(id):
        while not stop.is_set():
            cache.append([id], rows, rows)
            cache.free(id)

    threads = [threading.Thread(target=work, args=(id,)) for id in (1, 2)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        child = os.fork()
        if not child:
            signal.alarm(20)  # instead of waiting for ever
            cache.append([3], rows, rows)
            os._exit(int(cache.lengths([3])[0]))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    stop.set()
    for thread in threads:
        thread.join()


def expect(kind, message, function, *args, **options):
    try:
        function(*args, **options)
    except kind as error:
        assert type(error) is kind and message in str(error), error
    else:
        raise AssertionError("expected: " + message)


def test_errors():
    cache = attn.KVCache(4, 4, HEADS, D)
    k = np.zeros((1, HEADS, 3, D), np.float32)
    cache.append([1], k, k)

    def refuse(message, function, *args, kind=ValueError, **options):
        before = cache.free_pages, cache.ids(), cache.lengths([1]).tolist()
        expect(kind, "attn: " + message, function, *args, **options)
        assert before == (cache.free_pages, cache.ids(), cache.lengths([1]).tolist())

    two = np.zeros((2, HEADS, 3, D), np.float32)
    absent = "expected the id of a sequence that is in the cache, but got 7"
    for function in (cache.free, cache.fork, lambda id: cache.truncate(id, 0)):
        refuse(absent, function, 7)
    for function in (cache.lengths, cache.starts, cache.block_table):
        refuse(absent, function, [1, 7])
    refuse(absent, cache.reorder, [7])
    refuse("expected each id once, but got 1 twice", cache.append, [1, 1], two, two)
    refuse("expected each id once, but got 1 twice", cache.reorder, [1, 1], [1, 1])
    refuse("expected ids between 0 and 2^62 - 1, but got -1", cache.append, [-1], k, k)
    refuse("expected a length between 0 and that of the sequence, 3, but got 4",
           cache.truncate, 1, 4)
    refuse(
        "expected k of shape [ids, heads, tokens, d] = [2, 2, 3, 8], but got [1, 2, 3, "
        "8]",
        cache.append,
        [1, 2],
        k,
        two,
    )
    refuse(
        "expected v of shape [ids, heads, tokens, d] = [1, 2, 3, 8], but got [1, 2, 3, "
        "7]",
        cache.append,
        [1],
        k,
        k[..., 1:],
    )
    refuse("expected k of 4 dimensions, but got 3", cache.append, [1], k[0], k[0])
    refuse("expected k of type f32, as the cache has, but got float16 of shape",
           cache.append, [1], k.astype(np.float16), k, kind=TypeError)
    refuse("expected v to be a NumPy array", cache.append, [1], k, None, kind=TypeError)
    refuse("expected tokens of shape [ids, tokens] = [1, 3], but got [1, 2]",
           cache.append, [1], k, k, tokens=[[1, 2]])
    refuse("expected as many tokens for each id, but got 2 and 1", cache.append, [1, 2],
           two, two, tokens=[[1, 2], [1]])
    refuse("expected tokens of an integer type", cache.append, [1], k, k,
           tokens=np.zeros((1, 3)), kind=TypeError)
    refuse("expected ids to be a sequence of integers, but got int 1", cache.append, 1,
           k, k, kind=TypeError)
    refuse("expected ids to be a sequence of integers", cache.lengths, [0.5],
           kind=TypeError)
    refuse("expected ids to be a sequence of integers", cache.append, [True], k, k,
           kind=TypeError)
    refuse("expected tokens to be a sequence of integers", cache.append, [1], k, k,
           tokens=[[True, False, True]], kind=TypeError)
    refuse("expected id to be an integer, but got str '1'", cache.free, "1",
           kind=TypeError)
    refuse("expected length to be an integer, but got float", cache.truncate,
           1, 1.5, kind=TypeError)
    refuse("expected tokens of shape [ids, tokens], but got int 5", cache.append, [1],
           k, k, tokens=5, kind=TypeError)
    refuse("expected an empty sequence, which alone can take a prefix, but got 1",
           cache.reuse_prefix, 1, [])
    refuse("expected a table of at least 1 pages for each sequence, but got 0",
           cache.block_table, [1], width=0)
    long = np.zeros((2, HEADS, 10, D), np.float32)
    refuse(
        "out of pages: expected 6 free pages, but got 3 of 4; free a sequence first",
        cache.append,
        [1, 2],
        long,
        long,
        kind=attn.OutOfPages,
    )
    other = cache.new()
    refuse("expected ids for all 2 sequences of the cache, or onto, but got 1",
           cache.reorder, [1])
    refuse("expected ids to be integers of 64 bits, but got 9223372036854775808",
           cache.reorder, [1, 2**63], kind=TypeError)
    refuse("expected the id of a sequence that is in the cache, but got "
           "9223372036854775807", cache.reorder, [1, 2**63 - 1, 1])
    cache.free(other)
    refuse("expected the id of a sequence that is in the cache, but got %d" % other,
           cache.free, other)

    make = attn.KVCache
    expect(TypeError,
           "expected dtype to be float32, float16 or bfloat16, but got 'float64'", make,
           4, 4, 1, 8, dtype="float64")
    expect(ValueError, "expected page between 1 and 2147418111, but got 0", make,
           4, 0, 1, 8)
    expect(MemoryError,
           "expected memory for pools of shapes [1073741824, 64, 1048576, 128] and",
           make, 2**30, 2**20, 64, 128)
    expect(ValueError, "expected window between 1", make, 4, 4, 1, 8, window=0)
    expect(ValueError, "expected a window where", make, 4, 4, 1, 8, keep=2)
    expect(TypeError, "expected heads to be an integer, but got float 1.0", make, 4, 4,
           1.0, 8)
    expect(ValueError, "expected device to be 'cpu' or 'cuda', but got 'tpu'", make, 4,
           4, 1, 8, device="tpu")
    if "torch" not in sys.modules:
        message = (
            "expected torch with a GPU for device 'cuda', but got none that is imported"
        )
        expect(ValueError, message, make, 4, 4, 1, 8, device="cuda")
    expect(TypeError, "expected what can be copied or pickled, but got an attn.KVCache",
           copy.copy, cache)


def test_unsigned_tokens():
    # As tokenizers give them; and a step in which no sequence is.
    for dtype in (np.uint16, np.uint32, np.uint64):
        cache = attn.KVCache(4, 2, HEADS, D)
        rows = np.ones((1, HEADS, 4, D), "f4")
        cache.append([5], rows, rows, tokens=np.array([[1, 2, 3, 4]], dtype))
        cache.append([6], rows, rows, tokens=[[1, 2, 3, 4]])
        assert cache.free_pages == 2
        cache.append([], rows[:0], rows[:0], tokens=[])
        cache.append([], rows[:0], rows[:0], tokens=np.zeros((0, 4), dtype))
        assert cache.free_pages == 2
    expect(TypeError, "expected tokens to be", cache.append, [5], rows, rows,
           tokens=np.full((1, 4), 2**63, np.uint64))


def test_memory():
    # A cache keeps its pools, and goes with the last that knows it.
    cache = attn.KVCache(4, 4, HEADS, D)
    for spoil in (lambda: setattr(cache, "k", 0),
                  lambda: cache.k.resize(1000, refcheck=True)):
        try:
            spoil()
        except (AttributeError, ValueError):
            continue
        raise AssertionError("the memory of a pool went away")
    pool, gone = cache.k, weakref.ref(cache)
    del cache
    gc.collect()
    assert gone() is None
    pool[:] = 1


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
        print("ok", name)

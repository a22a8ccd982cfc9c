"""Rotary embedding at use on a GPU: numbers, then what it costs.

usage: rotary.py [--quick] [--forms [SHAPE...]]

Numbers: attention with rotary= beside the formula of transformers' Llama and GPT-J
in float64, on dense keys, ragged lengths, pages, rolling caches, packed sequences
and rows appended in the call. Times: a call with rotary=, one without, and one on
keys that a kernel of torch turned before, in CUDA graphs whose calls go round copies
that fill more than 400 MB. --forms instead holds the forms of the schedule (keys that
turn in a kernel ahead, or inside of the attention's) against float64 and against each
other; a SHAPE is BxHQ:HKxROWSxKEYS. Needs PyTorch.
"""

import argparse
import re
import sys

import numpy as np
import torch

import attn

# Without a GPU the numbers are those of the CPU.
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BOUNDS = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
generator = torch.Generator(DEVICE)
generator.manual_seed(17)


def draw(*shape, dtype=torch.bfloat16):
    x = torch.randn(*shape, generator=generator, device=DEVICE)
    return x.to(dtype)


def numbers(low, high, count):
    x = torch.randint(low, high + 1, (count,), generator=generator, device=DEVICE)
    return x.to(torch.int32)


def turned(x, rotary, positions):
    """Rows [.., n, d] in float64 at `positions` [n], as transformers turns them."""
    x = x.double()
    cos, sin = rotary.cos.double()[positions], rotary.sin.double()[positions]
    channels = 2 * cos.shape[-1]
    part, rest = x[..., :channels], x[..., channels:]
    if rotary.interleaved:
        cos, sin = (t.repeat_interleave(2, -1) for t in (cos, sin))
        half = torch.stack([-part[..., 1::2], part[..., ::2]], -1).flatten(-2)
    else:
        cos, sin = (torch.cat([t, t], -1) for t in (cos, sin))
        first, second = part.chunk(2, -1)
        half = torch.cat([-second, first], -1)
    return torch.cat([part * cos + half * sin, rest], -1)


def reference(q, k, v):
    """One sequence, [h, n, d], whose last row sees the last key."""
    group = q.shape[0] // k.shape[0]
    k, v = (x.double().repeat_interleave(group, 0) for x in (k, v))
    s = q.double() @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    rows, keys = s.shape[-2:]
    at = torch.arange(keys, device=DEVICE)
    s = s.masked_fill(at > at[:rows, None] + keys - rows, -torch.inf)
    return s.softmax(-1).nan_to_num(0.0) @ v


def expected(q, k, v, rotary, start=0):
    keys, rows = k.shape[-2], q.shape[-2]
    at = torch.arange(keys, device=DEVICE) + start
    return reference(
        turned(q, rotary, (at[keys - rows :]).clamp(min=0)), turned(k, rotary, at), v
    )


failures = 0


def check(name, got, want):
    global failures
    error = (got.double() - want).abs().max().item() if got.numel() else 0.0
    bound = BOUNDS[got.dtype] * max(1.0, want.abs().max().item() if want.numel() else 0)
    ok = error <= bound and bool(torch.isfinite(got).all())
    failures += not ok
    print("%-44s %.1e %s" % (name, error, "" if ok else "WRONG"))


def tables(channels, positions, **options):
    made = attn.Rotary.of(channels, positions, **options)
    cos, sin = (torch.from_numpy(t).to(DEVICE) for t in (made.cos, made.sin))
    by_slot = options.get("by_slot", False)
    return attn.Rotary(cos, sin, interleaved=made.interleaved, by_slot=by_slot)


def check_dense():
    cases = [(64, 64, False), (128, 128, False), (128, 64, False), (96, 96, False)]
    cases += [(128, 128, True), (80, 20, False), (64, 6, True), (256, 256, False)]
    dtypes = torch.bfloat16, torch.float16, torch.float32
    shapes = (1, 1111), (7, 64), (300, 300)
    for n, (d, channels, interleaved) in enumerate(cases):
        dtype, (sq, sk) = dtypes[n % 3], shapes[(n + n // 3) % 3]
        q, k, v = (draw(2, h, s, d, dtype=dtype)
                   for h, s in ((8, sq), (2, sk), (2, sk)))
        rotary = tables(channels, sk, interleaved=interleaved)
        o = attn.attention(q, k, v, causal="bottom_right", rotary=rotary)
        want = [expected(q[i], k[i], v[i], rotary) for i in range(2)]
        name = "dense d=%d/%d%s %s %dx%d" % (
            d, channels, " interleaved" * interleaved, str(dtype)[6:], sq, sk)
        check(name, o, torch.stack(want))


def check_caches():
    d, hq, hk, room = 128, 8, 2, 640
    for page in (0, 5, 16):
        for sq in (1, 70):
            for start in (sq > 1,):
                lengths = numbers(sq, 500, 3)
                rotary = tables(d, 2048)
                starts = numbers(0, 900, 3) if start else None
                k, v = draw(3, hk, room, d), draw(3, hk, room, d)
                q, new = draw(3, hq, sq, d), (draw(3, hk, sq, d), draw(3, hk, sq, d))
                before = lengths - sq
                want = []
                for i, n in enumerate(lengths.tolist()):
                    for x, rows in zip((k, v), new):
                        x[i, :, n - sq : n] = rows[i]
                        x[i, :, n:] = float("nan")
                    first = int(starts[i]) if start else 0
                    want.append(expected(q[i], k[i, :, :n], v[i, :, :n], rotary, first))
                given = dict(kv_lengths=lengths)
                pools = k, v
                if page:
                    count = room // page
                    order = torch.randperm(3 * count, generator=generator,
                                           device=DEVICE)
                    table = order.to(torch.int32).view(3, count)
                    pools = []
                    for x in (k, v):
                        rows = x.view(3, hk, count, page, d).transpose(1, 2)
                        pool = torch.empty(3 * count, hk, page, d, device=DEVICE,
                                           dtype=x.dtype)
                        pool[order] = rows.reshape(3 * count, hk, page, d)
                        pools.append(pool)
                    given["block_table"] = table
                if start:
                    given["k_start"] = starts
                o = attn.attention(q, *pools, causal="bottom_right", rotary=rotary,
                                   **given)
                name = "page=%d sq=%d%s" % (page, sq, " k_start" * start)
                check(name, o, torch.stack(want))
                given["kv_lengths"] = before
                o = attn.attention(q, *pools, causal="bottom_right", rotary=rotary,
                                   k_new=new[0], v_new=new[1], **given)
                check(name + " k_new", o, torch.stack(want))
    # A cache that goes round.
    rotary = tables(d, 4096)
    k, v, q = draw(2, hk, 300, d), draw(2, hk, 300, d), draw(2, hq, 1, d)
    starts, lengths = numbers(0, 2000, 2), numbers(1, 300, 2)
    want = []
    for i in range(2):
        first, n = int(starts[i]), int(lengths[i])
        at = (first + torch.arange(n, device=DEVICE)) % 300
        want.append(expected(q[i], k[i, :, at], v[i, :, at], rotary, first))
    o = attn.attention(q, k, v, causal="bottom_right", rotary=rotary,
                       kv_lengths=lengths, k_start=starts, rolling=True)
    check("rolling", o, torch.stack(want))


def check_packed():
    for d, channels, interleaved in ((128, 128, False), (64, 24, True)):
        counts = [5, 0, 130, 1, 300]
        cu = torch.tensor(np.cumsum([0] + counts), dtype=torch.int32, device=DEVICE)
        total = sum(counts)
        q, k, v = draw(total, 4, d), draw(total, 2, d), draw(total, 2, d)
        rotary = tables(channels, 300, interleaved=interleaved)
        o = attn.attention(q, k, v, layout="thd", cu_seqlens_q=cu, cu_seqlens_k=cu,
                           causal="bottom_right", rotary=rotary)
        parts = [
            expected(*(x[a:b].transpose(0, 1) for x in (q, k, v)), rotary)
            for a, b in zip(cu.tolist(), cu.tolist()[1:])
        ]
        check("packed d=%d" % d, o, torch.cat(parts, 1).transpose(0, 1))


def check_packed_rows():
    """Chunks, single tokens and nothing new of sequences in pages, in one call."""
    d, hq, hk, page, counts = 128, 8, 2, 16, (70, 0, 1, 5)
    lengths = torch.tensor([30, 17, 200, 0], dtype=torch.int32, device=DEVICE)
    cu = torch.tensor(np.cumsum((0,) + counts), dtype=torch.int32, device=DEVICE)
    table = torch.randperm(64, generator=generator, device=DEVICE).to(torch.int32)
    table = table.view(4, 16)
    rotary = tables(d, 256)
    pools = [draw(64, page, hk, d) for _ in "kv"]
    new = [draw(sum(counts), hk, d) for _ in "kv"]
    q = draw(sum(counts), hq, d)
    want = []
    for i, count in enumerate(counts):
        rows = slice(int(cu[i]), int(cu[i + 1]))
        k, v = (
            torch.cat([pool[table[i].long()].reshape(-1, hk, d)[: int(lengths[i])],
                       x[rows]]).transpose(0, 1)
            for pool, x in zip(pools, new)
        )
        want.append(expected(q[rows].transpose(0, 1), k, v, rotary).transpose(0, 1))
    o = attn.attention(q, *pools, layout="thd", cu_seqlens_q=cu, block_table=table,
                       kv_lengths=lengths, causal="bottom_right", rotary=rotary,
                       k_new=new[0], v_new=new[1])
    check("packed rows appended", o, torch.cat(want))


def apply_torch(x, rotary):
    """As transformers does it, in the type of x."""
    both = rotary.cos, rotary.sin
    cos, sin = (t[: x.shape[-2]].to(x.dtype).repeat(1, 2) for t in both)
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


SHAPES = "64x32:8x1x4096", "1x32:8x1x8192", "1x32:8x1x131072", "8x32:8x16x4096"
FORMS = (
    {},
    {"rotate": "inside"},
    {"rotate": "inside", "block_k": "64"},
    {"rotate": "inside", "block_k": "192"},
)


def rewritten(schedule, changes):
    """The text of a schedule with other words for some of its names."""
    for name, value in changes.items():
        word = "%s = %s" % (name, value)
        schedule, found = re.subn(r"\b%s = \w+" % name, word, schedule)
        if not found:
            schedule += ", " + word
    return schedule


def compile_forms(q, k, v, rotary):
    """Kernels of one call, for each form of its schedule; or why there is none."""
    call = attn.compile(q, k, v, causal="bottom_right", rotary=rotary,
                        until_after="schedule", target="sm_90a")
    text = call.mlir("schedule")
    chosen = re.search(r"#attn\.schedule<([^<>]*)>", text)[1]
    # Parts of the keys are made of the schedule, ahead of its phase's end.
    word = "rotary = #attn.rotary<"
    text = call.mlir("aggregate").replace(
        word, "schedule = #attn.schedule<CHOSEN>, " + word, 1)
    for changes in FORMS:
        schedule = rewritten(chosen, changes)
        try:
            yield schedule, attn.compile(text.replace("CHOSEN", schedule),
                                         target="sm_90a")
        except (ValueError, NotImplementedError) as error:
            yield schedule, str(error).split("\n")[0]


def measure_forms(shapes):
    from decode import time_graph

    global failures
    for shape in shapes:
        b, heads, sq, sk = shape.split("x")
        hq, hk = map(int, heads.split(":"))
        b, sq, sk, d = int(b), int(sq), int(sk), 128
        rotary = tables(d, sk)
        sets = []
        for _ in range(min(12, max(2, -(-420_000_000 // (4 * b * hk * sk * d))))):
            q = draw(b, hq, sq, d)
            k, v = draw(b, hk, sk, d), draw(b, hk, sk, d)
            sets.append((q, k, v, torch.empty_like(q)))

        def plain(s):
            attn.attention(*s[:3], causal="bottom_right", out=s[3])

        time = time_graph(plain, sets)
        print("%-22s %8.1f us without" % (shape, time * 1e6), flush=True)
        want = expected(*(x[-1] for x in sets[0][:3]), rotary)
        for schedule, kernel in compile_forms(*sets[0][:3], rotary):
            if isinstance(kernel, str):
                print("    refused: %s: %s" % (schedule, kernel), flush=True)
                continue

            def call(s):
                kernel(*s[:3], rotary.cos, rotary.sin, out=s[3])

            sets[0][3].zero_()
            call(sets[0])
            error = (sets[0][3][-1].double() - want).abs().max().item()
            good = error <= BOUNDS[q.dtype] * max(1.0, want.abs().max().item())
            failures += not good
            ours = time_graph(call, sets)
            print("    %8.1f us %6.3f times, error %.1e%s: %s"
                  % (ours * 1e6, ours / time, error, "" if good else " WRONG",
                     schedule), flush=True)
        del sets
        torch.cuda.empty_cache()


def measure():
    from decode import time_graph

    titles = "", "without", "rotary=", "ratio", "torch, k"
    print("\n%-28s %10s %10s %8s %12s" % titles)
    for b, hq, hk, sq, sk, d in (
        (64, 32, 8, 1, 4096, 128),
        (1, 32, 8, 1, 8192, 128),
        (1, 32, 8, 8192, 8192, 128),
        (8, 32, 8, 512, 4096, 128),
    ):
        rotary = tables(d, sk)
        size = 4 * b * hk * sk * d
        sets = []
        for _ in range(min(12, max(2, -(-420_000_000 // size)))):
            q = draw(b, hq, sq, d)
            k, v = draw(b, hk, sk, d), draw(b, hk, sk, d)
            sets.append((q, k, v, torch.empty_like(q)))

        def call(s, **options):
            attn.attention(*s[:3], causal="bottom_right", out=s[3], **options)

        plain = time_graph(call, sets)
        ours = time_graph(lambda s: call(s, rotary=rotary), sets)
        theirs = time_graph(lambda s: apply_torch(s[1], rotary), sets[:2])
        name = "%dx%dx%d %d/%d d=%d" % (b, sq, sk, hq, hk, d)
        print("%-28s %8.1f us %8.1f us %8.3f %9.1f us"
              % (name, plain * 1e6, ours * 1e6, ours / plain, theirs * 1e6), flush=True)
        del sets
        torch.cuda.empty_cache()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--forms", nargs="*", metavar="SHAPE")
    options = parser.parse_args()
    on_gpu = DEVICE == "cuda"
    name = torch.cuda.get_device_name() if on_gpu else "the CPU"
    print("%s, torch %s" % (name, torch.__version__))
    if options.forms is not None:
        measure_forms(options.forms or SHAPES)
        print("%d wrong" % failures)
        return 1 if failures else 0
    check_dense()
    check_caches()
    check_packed()
    check_packed_rows()
    print("%d wrong" % failures)
    if on_gpu and not failures and not options.quick:
        measure()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

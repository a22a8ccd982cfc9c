"""Elements behind the first 2^31 of a tensor, on a GPU, beside float64.

usage: offsets.py [--elements N] [NAME...]

Queries, keys, pools of pages, rolling caches and packed rows of more than 2^31 elements
each (4.3 GB of bf16), of which the last rows are read and written: they are held
against the formula in float64, and what lies in front of them holds NaN where a wrong
offset would read it. NAME: only these cases. With fewer --elements the same cases run
anywhere; without a GPU it is 2^16. Needs PyTorch.
"""

import argparse
import sys

import torch

import attn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BOUND = 2e-2
HQ, HK, D = 4, 2, 128
generator = torch.Generator(DEVICE)
generator.manual_seed(31)


def draw(*shape):
    x = torch.randn(*shape, generator=generator, device=DEVICE)
    return x.to(torch.bfloat16)


def numbers(*values):
    return torch.tensor(values, dtype=torch.int32, device=DEVICE)


def far(*shape, last):
    """NaNs, but in the last entries of the first dimension."""
    x = torch.full(shape, float("nan"), dtype=torch.bfloat16, device=DEVICE)
    x[-last:] = draw(last, *shape[1:])
    return x


def expected(q, k, v):
    """Of one sequence, [h, n, d], whose last row sees the last key."""
    k, v = (x.double().repeat_interleave(HQ // HK, 0) for x in (k, v))
    s = q.double() @ k.transpose(-1, -2) * D**-0.5
    rows, keys = s.shape[-2:]
    at = torch.arange(keys, device=DEVICE)
    s = s.masked_fill(at > at[:rows, None] + keys - rows, -torch.inf)
    return s.softmax(-1) @ v


def batches(elements):
    """Sequences of keys, of which the last ones are behind."""
    sk = 1024
    b = elements // (HK * sk * D) + 3
    q = draw(b, HQ, 1, D)
    k, v = (far(b, HK, sk, D, last=2) for _ in "kv")
    o = attn.attention(q, k, v, causal="bottom_right")
    for i in (-2, -1):
        yield o[i], expected(q[i], k[i], v[i])


def heads(elements):
    """Two heads of one sequence, the second of which is behind, in a window."""
    sk = elements // D + 64
    k, v = (torch.zeros(1, HK, sk, D, dtype=torch.bfloat16, device=DEVICE)
            for _ in "kv")
    window = 128
    for x in k, v:
        x[:, :, -window:] = draw(1, HK, window, D)
    q = draw(1, HQ, 1, D)
    o = attn.attention(q, k, v, causal="bottom_right", window=(window - 1, 0))
    yield o[0], expected(q[0], k[0, :, -window:], v[0, :, -window:])


def queries(elements):
    """Rows of queries, and of results, that are behind."""
    b = elements // (HQ * 256 * D) + 3
    q = far(b, HQ, 256, D, last=2)
    k, v = (draw(b, HK, 64, D) for _ in "kv")
    o = attn.attention(q, k, v)
    for i in (-2, -1):
        every = k[i].double().repeat_interleave(HQ // HK, 0)
        s = q[i].double() @ every.transpose(-1, -2) * D**-0.5
        yield o[i], s.softmax(-1) @ v[i].double().repeat_interleave(HQ // HK, 0)


def pages(elements, page, rows):
    """Pages at the end of a pool, in any order; with rows appended to them."""
    count = 4096 // page
    pool = max(elements // (HK * page * D), count) + 2 * count
    k, v = (far(pool, HK, page, D, last=2 * count) for _ in "kv")
    order = torch.randperm(2 * count, generator=generator, device=DEVICE)
    table = (order + (pool - 2 * count)).to(torch.int32).view(2, count)
    lengths = [4096 - rows, 777]
    new = [draw(2, HK, rows, D) for _ in "kv"]
    q = draw(2, HQ, rows, D)
    want = []
    for i, n in enumerate(lengths):
        dense = (
            torch.cat([
                x[table[i].long()].transpose(0, 1).reshape(HK, -1, D)[:, :n], y[i]], 1)
            for x, y in zip((k, v), new)
        )
        want.append(expected(q[i], *dense))
    o = attn.attention(q, k, v, block_table=table, kv_lengths=numbers(*lengths),
                       k_new=new[0], v_new=new[1], causal="bottom_right")
    for i in range(2):
        yield o[i], want[i]
        # What was appended is in the last pages.
        at = torch.arange(lengths[i], lengths[i] + rows, device=DEVICE)
        for x, y in zip((k, v), new):
            yield x[table[i, at // page].long(), :, at % page], y[i].transpose(0, 1)


def rolling(elements):
    """A cache that goes round behind its last row, of the last sequence."""
    sk = 1000
    b = elements // (HK * sk * D) + 3
    k, v = (far(b, HK, sk, D, last=1) for _ in "kv")
    q = draw(b, HQ, 1, D)
    starts = torch.full((b,), 700, dtype=torch.int32, device=DEVICE)
    lengths = torch.full((b,), 600, dtype=torch.int32, device=DEVICE)
    o = attn.attention(q, k, v, kv_lengths=lengths, k_start=starts, rolling=True,
                       causal="bottom_right")
    at = (700 + torch.arange(600, device=DEVICE)) % sk
    yield o[-1], expected(q[-1], k[-1][:, at], v[-1][:, at])


def packed(elements):
    """The last sequence of packed rows."""
    total = elements // (HK * D) + 3000
    cu = numbers(0, total - 700, total)
    q = draw(701, HQ, D)
    k, v = (far(total, HK, D, last=700) for _ in "kv")
    o = attn.attention(q, k, v, layout="thd", cu_seqlens_q=numbers(0, 1, 701),
                       cu_seqlens_k=cu, causal="bottom_right")
    want = expected(*(x[-700:].transpose(0, 1) for x in (q, k, v)))
    yield o[-700:], want.transpose(0, 1)


CASES = {
    "batches": batches,
    "heads": heads,
    "queries": queries,
    "pages of 16": lambda n: pages(n, 16, 1),
    "pages of 64, 100 rows": lambda n: pages(n, 64, 100),
    "pages of 1": lambda n: pages(n, 1, 1),
    "rolling": rolling,
    "packed": packed,
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--elements", type=int,
                        default=2**31 if DEVICE == "cuda" else 2**16)
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    failures = 0
    for name, case in CASES.items():
        if options.names and not any(part in name for part in options.names):
            continue
        for got, want in case(options.elements):
            error = (got.double() - want.double()).abs().max().item()
            ok = error <= BOUND * max(1.0, want.double().abs().max().item())
            failures += not ok
            print("%-24s %.1e %s" % (name, error, "" if ok else "WRONG"), flush=True)
        if DEVICE == "cuda":
            torch.cuda.empty_cache()
    print("%d wrong" % failures)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

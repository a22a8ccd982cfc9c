"""Captured graphs of calls with batch_invariant=True, replayed for other sequences.

usage: captured.py

One graph is captured of a decode step on pages and one of chunks of a prompt. Between
replays lengths, tables, queries and what the pages hold change, in the memory that was
captured. After each replay every row has the bits of the same sequence alone, in a call
that is not captured, with another number of sequences and a table of another width, and
is near the formula in float64. Needs PyTorch; without a GPU calls are made again
instead of replayed.
"""

import sys

import torch

import attn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BOUND = 2e-2
B, HQ, HK, D, PAGE, PAGES = 5, 8, 2, 128, 16, 300
generator = torch.Generator(DEVICE)
generator.manual_seed(7)


def draw(*shape):
    x = torch.randn(*shape, generator=generator, device=DEVICE)
    return x.to(torch.bfloat16)


def expected(q, k, v):
    """Of one sequence, [h, n, d], whose last row sees the last key."""
    k, v = (x.double().repeat_interleave(HQ // HK, 0) for x in (k, v))
    s = q.double() @ k.transpose(-1, -2) * D**-0.5
    rows, keys = s.shape[-2:]
    at = torch.arange(keys, device=DEVICE)
    s = s.masked_fill(at > at[:rows, None] + keys - rows, -torch.inf)
    return s.softmax(-1) @ v


def capture(call):
    """What makes the call again, from the same memory."""
    call()
    if DEVICE != "cuda":
        return call
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            call()

    def replay():
        graph.replay()
        torch.cuda.synchronize()

    return replay


def refill(q, k, v, table, lengths, rows):
    """Other sequences, in the same memory."""
    for x in q, k, v:
        x.copy_(draw(*x.shape))
    most = table.shape[1] * PAGE
    lengths.copy_(torch.randint(rows, most + 1, (B,), generator=generator,
                                device=DEVICE))
    lengths[1] = rows
    table.fill_(-1)
    for i, n in enumerate(lengths.tolist()):
        used = -(-n // PAGE)
        table[i, :used] = torch.randperm(PAGES, generator=generator,
                                         device=DEVICE)[:used].to(torch.int32)


def check(rows, width):
    q, o = (torch.zeros(B, HQ, rows, D, dtype=torch.bfloat16, device=DEVICE)
            for _ in "qo")
    k, v = (torch.zeros(PAGES, HK, PAGE, D, dtype=torch.bfloat16, device=DEVICE)
            for _ in "kv")
    table = torch.zeros(B, width, dtype=torch.int32, device=DEVICE)
    lengths = torch.full((B,), rows, dtype=torch.int32, device=DEVICE)
    options = dict(causal="bottom_right", batch_invariant=True)
    replay = capture(lambda: attn.attention(
        q, k, v, block_table=table, kv_lengths=lengths, out=o, **options))
    failures = 0
    for turn in range(4):
        refill(q, k, v, table, lengths, rows)
        o.fill_(float("nan"))
        replay()
        worst, same = 0.0, True
        for i, n in enumerate(lengths.tolist()):
            used = -(-n // PAGE)
            alone = attn.attention(
                q[i : i + 1].clone(), k, v, block_table=table[i : i + 1, :used].clone(),
                kv_lengths=lengths[i : i + 1].clone(), **options)
            same &= torch.equal(alone[0], o[i])
            # The last row alone, as a decode step has it.
            last = attn.attention(
                q[i : i + 1, :, -1:].clone(), k, v,
                block_table=table[i : i + 1, :used].clone(),
                kv_lengths=lengths[i : i + 1].clone(), **options)
            same &= torch.equal(last[0, :, 0], o[i, :, -1])
            dense = (x[table[i, :used].long()].transpose(0, 1).reshape(HK, -1, D)[:, :n]
                     for x in (k, v))
            error = (o[i].double() - expected(q[i], *dense)).abs().max().item()
            worst = max(worst, error)
        ok = same and worst <= BOUND
        failures += not ok
        print("%3d rows, replay %d: bits %s, error %.1e %s" % (
            rows, turn, "same" if same else "DIFFER", worst, "" if ok else "WRONG"),
            flush=True)
    return failures


def main():
    failures = check(1, 200) + check(70, 130)
    print("%d wrong" % failures)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""Scans on the CPU beside loops of torch: how long each takes.

usage: scans.py [--tokens 4096] [--heads 16] [--depth 128] [--repeat 3]
                [--rules "gated delta,simple GLA,GLA,KDA,KDA chunks"]
                [--types f32,bf16] [--threads 1]

The loops are what transformers runs for a gated delta rule where flash-linear-attention
is not installed (torch_chunk_gated_delta_rule; without transformers it is left out),
and plain forms as that project's naive files have them, written from the formulas:
chunks of 64 tokens for gates of heads, and of those for gates of channels as well, or
token by token. Outputs are compared first. Each row has the fastest of so many runs,
one of each in turns: one thread of each on the same core, and processor time, so that
other programs count for little; with more threads it is the clock's, of a machine that
should be idle. Then the loop has the best of as many threads, half and a quarter of
them: its small operations wait for the last one each, which takes 20 times as long
where another program has one core. Ours has all threads, once those of the loop have
gone to sleep, and writes to an output that exists (`out`), for whose pages nobody
waits. `of dots` is the rate at which ours does the products of its rule, in its chunks,
as a share of that of `tile.dot` alone, 64 x 128 by 128 x 128 of the type of the tokens,
on as many threads. `of own dots` is the time that `tile.dot` alone takes for as many
operations, each of the type of its operands, as a share of ours: a state is of f32
whatever the tokens are, and so are products that make it or erase by it.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import argparse
import os
import sys
import time

import torch

import attn


def chunked_simple_gla(q, k, v, g, chunk=64):
    """Gates of heads, [b, h, t, d]: t a multiple of the chunk."""
    kind, (b, h, t, d) = q.dtype, q.shape
    q, k, v = (
        x.float().reshape(b, h, -1, chunk, x.shape[-1]) for x in (q * d**-0.5, k, v)
    )
    g = g.float().reshape(b, h, -1, chunk).cumsum(-1)
    pairs = (g[..., :, None] - g[..., None, :]).exp().tril()
    state = torch.zeros(b, h, d, v.shape[-1])
    o = torch.zeros_like(v)
    for i in range(t // chunk):
        qi, ki, vi, gi = q[:, :, i], k[:, :, i], v[:, :, i], g[:, :, i]
        own = (qi @ ki.transpose(-1, -2)) * pairs[:, :, i]
        o[:, :, i] = own @ vi + (qi * gi.exp()[..., None]) @ state
        last = gi[..., -1]
        written = (ki * (last[..., None] - gi).exp()[..., None]).transpose(-1, -2) @ vi
        state = state * last.exp()[..., None, None] + written
    return o.reshape(b, h, t, -1).to(kind)


def recurrent_gla(q, k, v, g, beta=None):
    """Gates of key channels, token by token; with beta the delta rule (KDA)."""
    kind, (b, h, t, d) = q.dtype, q.shape
    q, k, v = (x.float() for x in (q * d**-0.5, k, v))
    state = torch.zeros(b, h, d, v.shape[-1])
    o = torch.zeros_like(v)
    for i in range(t):
        state = state * g[:, :, i].exp()[..., None]
        written = v[:, :, i]
        if beta is not None:
            known = (k[:, :, i, :, None] * state).sum(-2)
            written = (written - known) * beta[:, :, i, None]
        state = state + k[:, :, i, :, None] * written[:, :, None]
        o[:, :, i] = (q[:, :, i, :, None] * state).sum(-2)
    return o.to(kind)


def chunked_kda(q, k, v, g, beta, chunk=64):
    """Gates of key channels and the delta rule, in chunks: weights of a key for all
    rows at once."""
    kind, (b, h, t, d) = q.dtype, q.shape
    q, k, v, g = (
        x.float().reshape(b, h, -1, chunk, x.shape[-1])
        for x in (q * d**-0.5, k, v, g)
    )
    beta, g = beta.float().reshape(b, h, -1, chunk), g.cumsum(-2)

    def products(rows, keys, gates):
        columns = [
            ((rows * (gates - gates[..., j : j + 1, :]).exp()) @ keys[..., j, :, None])
            for j in range(chunk)
        ]
        return torch.cat(columns, -1)

    system = (products(k, k, g) * beta[..., None]).tril(-1) + torch.eye(chunk)
    solve = lambda x: torch.linalg.solve_triangular(
        system, x * beta[..., None], upper=False, unitriangular=True
    )
    erased, values = solve(g.exp() * k), solve(v)
    state, o = torch.zeros(b, h, d, v.shape[-1]), torch.zeros_like(v)
    for i in range(t // chunk):
        qi, ki, gi = q[:, :, i], k[:, :, i], g[:, :, i]
        own = products(qi, ki, gi).tril()
        written = values[:, :, i] - erased[:, :, i] @ state
        o[:, :, i] = (qi * gi.exp()) @ state + own @ written
        kept = ((gi[:, :, -1:] - gi).exp() * ki).transpose(-1, -2) @ written
        state = state * gi[:, :, -1].exp()[..., None] + kept
    return o.reshape(b, h, t, -1).to(kind)


DOTS = """
!a = memref<?x?x128xT, strided<[?, ?, 1]>>
!o = memref<?x64x128xf32, strided<[?, ?, 1]>>
tile.kernel private @dots(%a: !a, %b: !a, %o: !o, %n: index, %block: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %none = tile.fill %zero : f32 -> !tile.tile<64x128xf32>
  %x = tile.load %a[%block, %c0, %c0] : !a -> !tile.tile<64x128xT>
  %y = tile.load %b[%block, %c0, %c0] : !a -> !tile.tile<128x128xT>
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %none)
      -> !tile.tile<64x128xf32> {
    %d = tile.dot %x, %y acc %acc : !tile.tile<64x128xT>, !tile.tile<128x128xT>
        -> !tile.tile<64x128xf32>
    scf.yield %d : !tile.tile<64x128xf32>
  }
  tile.store %sum, %o[%block, %c0, %c0] : !tile.tile<64x128xf32>, !o
  tile.return
}
func.func @main(%a: !a {attn.arg = {name = "a", dims = ["h", "m", "k"]}},
    %b: !a {attn.arg = {name = "b", dims = ["h", "n", "k"]}},
    %o: !o {attn.arg = {name = "o", output, dims = ["h", "64", "128"]}})
    attributes {tile.plan} {
  %c0 = arith.constant 0 : index
  %h = memref.dim %a, %c0 : !a
  %n = arith.constant 2000 : index
  tile.launch @dots grid(%h) args(%a, %b, %o, %n : !a, !a, !o, index)
  return
}
"""


def rate_of_dots(kind, dtype, threads, clock):
    """Operations of a second in products of tiles."""
    kernel = attn.compile(DOTS.replace("xT", "x" + kind))
    x, best = torch.randn(threads, 128, 128).to(dtype), float("inf")
    for _ in range(5):
        start = clock()
        kernel(x, x)
        best = min(best, clock() - start)
    return threads * 2000 * 2 * 64 * 128 * 128 / best


def chunk_of(rule, kind):
    """Tokens of a chunk, as the compiler takes them."""
    if kind != "bf16" or "key" in rule:
        return 16
    try:
        with open("/proc/cpuinfo") as file:
            has_amx = "amx_bf16" in file.read()
            return 64 if has_amx and "beta" not in rule else 32
    except OSError:
        return 32


def count_operations(rule, kind, h, t, d):
    """Those of a scan in chunks of c tokens, of d x d: of products whose operands are
    of the type of the tokens, or rounded to it for outputs alone, and of those that
    have one of f32."""
    c = chunk_of(rule, kind)
    pairs, states = 2 * c * d, 2 * d * d
    # Queries with keys and with the state; weights with values; keys with values.
    narrow, wide = pairs + states, states
    if "beta" in rule:
        # Keys with keys; what is written, weights with it, and the state it is of.
        narrow, wide = narrow + pairs, wide + 2 * pairs + states + 2 * c * c / 3
    else:
        narrow += pairs
    if "key" in rule:
        wide += (2 if "beta" in rule else 1) * 0.75 * c * d
        narrow, wide = 0, narrow + wide
    return h * t * narrow, h * t * wide


def transformers_rule():
    try:
        from transformers.models.qwen3_next import modeling_qwen3_next as modeling
    except ImportError:
        return None

    def run(q, k, v, g, beta):
        turn = lambda x: x.transpose(1, 2)
        given = map(turn, (q, k, v, g, beta))
        return turn(modeling.torch_chunk_gated_delta_rule(*given)[0])

    return run


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--depth", type=int, default=128)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--rules", default="gated delta,simple GLA,GLA,KDA")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--types", default="f32,bf16")
    options = parser.parse_args()
    h, t, d = options.heads, options.tokens, options.depth
    torch.manual_seed(0)
    threads = options.threads
    torch.set_num_threads(threads)
    attn.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    if threads == 1 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    head = -0.1 * torch.rand(1, h, t)
    key = -0.1 * torch.rand(1, h, t, d)
    beta = torch.rand(1, h, t)
    chunks = transformers_rule() if "gated delta" in options.rules else None
    rules = [
        ("gated delta", "transformers, chunks", chunks, (head, beta), dict(beta=beta)),
        ("simple GLA", "chunks", chunked_simple_gla, (head,), {}),
        ("GLA", "tokens", recurrent_gla, (key,), {}),
        ("KDA", "tokens", recurrent_gla, (key, beta), dict(beta=beta)),
        ("KDA chunks", "chunks", chunked_kda, (key, beta), dict(beta=beta)),
    ]
    print(
        f"torch {torch.__version__}, threads: {threads}, {t} tokens, "
        f"{h} heads, {d} x {d}"
    )
    dots = {}
    print("| rule | type | loop | loop ms | ours ms | ratio | GFLOP/s | of dots "
          "| of own dots |")
    print("|---|---|---|---|---|---|---|---|---|")
    for rule, loop, theirs, operands, more in rules:
        if theirs is None or rule not in options.rules.split(","):
            continue
        for kind in options.types.split(","):
            dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[kind]
            q, k, v = (torch.randn(1, h, t, d).to(dtype) for _ in range(3))
            k = torch.nn.functional.normalize(k.float(), dim=-1).to(dtype)
            out = torch.empty_like(v)
            ours = lambda: attn.scan(
                q, k, v, decay=operands[0], scale=d**-0.5, out=out, **more
            )
            loops = lambda: theirs(q, k, v, *operands)
            with torch.no_grad():
                want, got = loops().float(), ours().float()
                error = (abs(got - want).max() / abs(want).max()).item()
                if not error <= (1e-4 if dtype == torch.float32 else 2e-2):
                    sys.exit("%s: off by %.1e of the largest entry" % (rule, error))
                best = dict.fromkeys(("loop", "ours"), float("inf"))
                calls = [("ours", ours, 1)] + [
                    ("loop", loops, max(1, threads // part))
                    for part in ((1, 2, 4) if threads > 1 else (1,))
                ]
                for name, call, count in calls * options.repeat:
                    torch.set_num_threads(count)
                    if threads > 1:
                        time.sleep(0.05)
                    start = clock()
                    call()
                    best[name] = min(best[name], clock() - start)
            for each, type in {"f32": torch.float32, kind: dtype}.items():
                if each not in dots:
                    dots[each] = rate_of_dots(each, type, threads, clock)
            ratio = best["loop"] / best["ours"]
            words = ("key" if operands[0] is key else "head",) + tuple(more)
            narrow, wide = count_operations(words, kind, h, t, d)
            rate = (narrow + wide) / best["ours"]
            own = (narrow / dots[kind] + wide / dots["f32"]) / best["ours"]
            print(
                f"| {rule} | {kind} | {loop} | {best['loop'] * 1e3:.0f} "
                f"| {best['ours'] * 1e3:.0f} | {ratio:.1f} | {rate * 1e-9:.0f} "
                f"| {rate / dots[kind]:.2f} | {own:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

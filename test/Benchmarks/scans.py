"""Scans on the CPU beside loops of torch: how long each takes.

usage: scans.py [--tokens 4096] [--heads 16] [--depth 128] [--repeat 3]
                [--rules "gated delta,simple GLA,GLA,KDA"] [--types f32,bf16]

The loops are what transformers runs for a gated delta rule where flash-linear-attention
is not installed (torch_chunk_gated_delta_rule; without transformers it is left out),
and plain forms as that project's naive files have them, written from the formulas:
chunks of 64 tokens for gates of heads, token by token for gates of channels. Outputs
are compared first. Each row has the fastest of so many runs, one of each in turns: one
thread of each on the same core, and processor time, so that other programs count for
little. Ours writes to an output that exists (`out`), for whose pages nobody waits.

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
    parser.add_argument("--types", default="f32,bf16")
    options = parser.parse_args()
    h, t, d = options.heads, options.tokens, options.depth
    torch.manual_seed(0)
    torch.set_num_threads(1)
    attn.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
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
    ]
    print(
        f"torch {torch.__version__}, one thread, {t} tokens, "
        f"{h} heads, {d} x {d}"
    )
    print("| rule | type | loop | loop ms | ours ms | ratio |")
    print("|---|---|---|---|---|---|")
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
            calls = {"loop": lambda: theirs(q, k, v, *operands), "ours": ours}
            with torch.no_grad():
                want, got = (calls[name]().float() for name in ("loop", "ours"))
                error = (abs(got - want).max() / abs(want).max()).item()
                if not error <= (1e-4 if dtype == torch.float32 else 2e-2):
                    sys.exit("%s: off by %.1e of the largest entry" % (rule, error))
                best = dict.fromkeys(calls, float("inf"))
                for _ in range(options.repeat):
                    for name, call in calls.items():
                        start = time.process_time()
                        call()
                        best[name] = min(best[name], time.process_time() - start)
            ratio = best["loop"] / best["ours"]
            print(
                f"| {rule} | {kind} | {loop} | {best['loop'] * 1e3:.0f} "
                f"| {best['ours'] * 1e3:.0f} | {ratio:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

"""Trains a small GPT on bytes, with attn.attention or with torch's own.

    python train.py FILES [--attention softmax] [--steps 200] [--layers 2]
        [--heads 4] [--width 128] [--context 128] [--batch 8] [--rate 1e-3]
        [--dropout 0.0] [--seed 0] [--device cpu] [--compile] [--autocast bfloat16]
        [--any-order]

FILES are texts, as the Markdown of this project's docs. --attention is "torch",
"cudnn" (torch's attention by cuDNN), the name of a monoid: "softmax", or
"sigmoid_sum", which has no normaliser; or a file of MLIR that defines a monoid. Its
gradients have the same bits each time; with --any-order they need not. The loss in
nats per byte is printed every 10 steps; equal seeds have equal batches and first
weights, so that curves can be laid over each other.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import argparse
import contextlib
import math
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import attn


class Attention(nn.Module):
    def __init__(self, options, layer):
        super().__init__()
        self.kind, self.heads, self.layer = options.attention, options.heads, layer
        if self.kind.endswith(".mlir"):
            with open(self.kind) as monoid:
                self.kind = monoid.read()
        self.dropout, self.seed = options.dropout, options.seed
        self.deterministic = not options.any_order
        self.project = nn.Linear(options.width, 3 * options.width)
        self.output = nn.Linear(options.width, options.width)
        # A sigmoid is 1/2 for a score of 0: with this a row's sum starts near 1.
        bias = torch.full((1, 1, 1, 1), -math.log(options.context))
        self.register_buffer("bias", bias)

    def forward(self, x, step):
        b, s, width = x.shape
        q, k, v = self.project(x).view(b, s, 3, self.heads, -1).unbind(2)
        p = self.dropout if self.training else 0.0
        if self.kind in ("torch", "cudnn"):
            q, k, v = (part.transpose(1, 2) for part in (q, k, v))
            backend = SDPBackend.CUDNN_ATTENTION
            chosen = sdpa_kernel(backend) if self.kind == "cudnn" else None
            with chosen or contextlib.nullcontext():
                o = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=p)
            o = o.transpose(1, 2)
        else:
            o = attn.attention(
                q,
                k,
                v,
                layout="bshd",
                causal="top_left",
                monoid=self.kind,
                bias=self.bias if self.kind == "sigmoid_sum" else None,
                deterministic=self.deterministic,
                dropout_p=p,
                # Each layer and step has words of its own.
                dropout_rng=(self.seed, 1000 * step + self.layer),
            )
        return self.output(o.reshape(b, s, width))


class Block(nn.Module):
    def __init__(self, options, layer):
        super().__init__()
        width = options.width
        self.attention = Attention(options, layer)
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x, step):
        x = x + self.attention(self.norms[0](x), step)
        return x + self.mlp(self.norms[1](x))


class GPT(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.bytes = nn.Embedding(256, options.width)
        self.places = nn.Embedding(options.context, options.width)
        self.blocks = nn.ModuleList([Block(options, i) for i in range(options.layers)])
        self.norm = nn.LayerNorm(options.width)

    def forward(self, tokens, targets, step):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.bytes(tokens) + self.places(places)
        for block in self.blocks:
            x = block(x, step)
        logits = self.norm(x) @ self.bytes.weight.T / math.sqrt(x.shape[-1])
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def train(options):
    """The loss of each step."""
    text = b"".join(open(name, "rb").read() for name in options.files)
    text = torch.tensor(list(text), dtype=torch.long)
    if len(text) <= options.context + 1:
        raise SystemExit("expected more text than the context, %d bytes" % len(text))
    torch.manual_seed(options.seed)
    model = GPT(options).to(options.device)
    run = torch.compile(model, fullgraph=True) if options.compile else model
    narrow = getattr(torch, options.autocast) if options.autocast else None
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate)
    batches = torch.Generator().manual_seed(options.seed)
    losses, start = [], time.perf_counter()
    for step in range(options.steps):
        shape = (options.batch, 1)
        first = torch.randint(len(text) - options.context - 1, shape, generator=batches)
        window = text[first + torch.arange(options.context + 1)].to(options.device)
        with torch.autocast(options.device, narrow, enabled=narrow is not None):
            loss = run(window[:, :-1], window[:, 1:], step)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step % 10 == 9:
            mean = sum(losses[-10:]) / 10
            rate = (step + 1) / (time.perf_counter() - start)
            print(
                "step %d: loss %.4f, %.2f steps/s" % (step + 1, mean, rate), flush=True
            )
    return losses


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Trains a small GPT on bytes.")
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--attention", default="softmax")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--any-order", action="store_true")
    parser.add_argument("--autocast", metavar="TYPE")
    for name, default in (
        ("steps", 200),
        ("layers", 2),
        ("heads", 4),
        ("width", 128),
        ("context", 128),
        ("batch", 8),
        ("rate", 1e-3),
        ("dropout", 0.0),
        ("seed", 0),
    ):
        parser.add_argument("--" + name, type=type(default), default=default)
    return train(parser.parse_args(arguments))


if __name__ == "__main__":
    main()

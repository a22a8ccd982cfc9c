"""Calls in CUDA graphs on a GPU: results beside those of the same calls without.

usage: graphs.py [--replays N]

Each graph is a chain of calls in which the result of one is the query of the next:
parts and whole rows, more work tiles than run at once and fewer, pages, shared
prefixes. Two of them are replayed beside each other, on a stream each, with new
queries each time; a third is made, replayed and dropped in between. All results have to
have the bits that the calls have on a stream. Needs PyTorch.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import argparse
import sys

import torch

import attn

HEADS, KEY_HEADS, DEPTH, PAGE = 32, 8, 128, 16


class Chain:
    """Calls of `batch` sequences, one after the other, and their query."""

    def __init__(self, batch, keys):
        on = dict(device="cuda", dtype=torch.bfloat16)
        self.query = torch.empty(batch, HEADS, 1, DEPTH, **on)
        self.out = torch.empty_like(self.query)
        self.layers = []
        for n in keys:
            shape = (batch, KEY_HEADS, n, DEPTH)
            self.layers.append((torch.randn(shape, **on), torch.randn(shape, **on)))
        pages = batch * max(keys) // PAGE
        self.pool = torch.randn(pages, KEY_HEADS, PAGE, DEPTH, **on)
        table = torch.randperm(pages, device="cuda", dtype=torch.int32)
        self.table = table.view(batch, -1).contiguous()
        shared = self.table.shape[1] // 2
        self.table[:, :shared] = self.table[0, :shared].clone()
        self.lengths = torch.randint(max(keys) // 2, max(keys) + 1, (batch,),
                                     device="cuda", dtype=torch.int32)

    def run(self):
        x = self.query
        for k, v in self.layers:
            x = attn.attention(x, k, v)
            x = attn.attention(x, self.pool, self.pool, block_table=self.table,
                               kv_lengths=self.lengths, causal="bottom_right")
            x = attn.attention(x, k, v, kv_lengths=self.lengths.clamp(max=k.shape[2]))
        x = attn.attention(x, self.pool, self.pool, block_table=self.table,
                           kv_lengths=self.lengths, causal="bottom_right", cascade=True)
        self.out.copy_(x)

    def capture(self, stream):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream):
            self.run()
            stream.synchronize()
            with torch.cuda.graph(graph, stream=stream):
                self.run()
        return graph


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--replays", type=int, default=100)
    options = parser.parse_args()
    chains = [Chain(1, (1024, 8192, 96)), Chain(70, (512, 1024))]
    streams = [torch.cuda.Stream() for _ in chains]
    graphs = [chain.capture(stream) for chain, stream in zip(chains, streams)]
    other, wrong = Chain(3, (2048, 64)), 0
    for turn in range(options.replays):
        found = []
        for chain, stream, graph in zip(chains, streams, graphs):
            with torch.cuda.stream(stream):
                chain.query.normal_()
                graph.replay()
                found.append(chain.out.clone())
        if turn % 10 == 0:
            with torch.cuda.stream(streams[0]):
                other.query.normal_()
            graph = other.capture(streams[0])
            with torch.cuda.stream(streams[0]):
                graph.replay()
                first = other.out.clone()
                other.run()
                wrong += not torch.equal(first, other.out)
            del graph
        for chain, stream, result in zip(chains, streams, found):
            with torch.cuda.stream(stream):
                chain.run()
                wrong += not torch.equal(result, chain.out)
    print(f"{torch.cuda.get_device_name()}: {options.replays} turns of two graphs, "
          f"{wrong} results with other bits")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

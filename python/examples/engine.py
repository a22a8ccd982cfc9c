"""An inference engine in small: continuous batching on attn.KVCache.

    python3 python/examples/engine.py --requests 24 --pages 160

Each step runs one batch: a token of each request that generates, and pieces of the
prompts of others. Requests that begin
like others take over their pages. Where pages run out, the request that came
last gives its own back and waits; when its turn comes again, its tokens are its
prompt.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import argparse
import collections
import sys
import time

import attn
import numpy as np
from llama import Config, Llama


class Request:
    def __init__(self, id, prompt, count):
        self.id, self.prompt, self.count = id, list(prompt), count
        self.generated = []
        self.done = 0  # tokens whose keys and values are in the caches

    @property
    def tokens(self):
        return self.prompt + self.generated

    @property
    def is_finished(self):
        return len(self.generated) == self.count


class Engine:
    """Generates greedy tokens for many requests.

    Args:
        model: a llama.Llama.
        pages, page: of the cache of each layer.
        tokens: the most that one step runs, of all requests together.
        requests: the most that run at a time.
        rotates_at_use: the caches hold keys without their rotary embedding, which
            attention gives them by their positions. Where the model has a window,
            the caches roll on with it either way.
    """

    def __init__(
        self, model, pages=64, page=16, tokens=64, requests=16, rotates_at_use=False
    ):
        c = model.config
        self.rotary = None
        if rotates_at_use:
            self.rotary = attn.Rotary.of(c.head_dim, pages * page, base=c.theta)
        self.options = {}
        if c.window:
            self.options = {"window": (c.window - 1, 0)}
        self.model, self.page = model, page
        self.most_tokens, self.most_requests = tokens, requests
        # The layers are told the same, so that their tables are equal.
        self.caches = [
            attn.KVCache(
                pages, page, c.key_heads, c.head_dim, window=c.window or None
            )
            for _ in model.layers
        ]
        self.waiting = collections.deque()
        self.running = []  # in the order they were admitted
        self.submitted = self.steps = self.preempted = 0
        self.reused = self.prefilled = self.decoded = 0  # tokens

    def submit(self, prompt, count):
        """Adds a request for `count` tokens behind a prompt; returns it."""
        most = self.caches[0].k.shape[0] * self.page
        if not prompt or count < 1 or len(prompt) + count > most:
            raise ValueError(
                "expected a prompt and a token or more that fit the %d rows of the "
                "cache, but got %d and %d" % (most, len(prompt), count)
            )
        request = Request(self.submitted, prompt, count)
        self.submitted += 1
        self.waiting.append(request)
        return request

    def run(self, show=lambda engine: None):
        """Steps until nothing is left to do; calls `show` after each."""
        while self.waiting or self.running:
            self.step()
            show(self)

    # ---- What a step runs -----------------------------------------------------

    def _pages_for(self, request, count):
        """Pages that `count` more tokens of a request take at the most."""
        pages = lambda tokens: -(-tokens // self.page)
        return pages(request.done + count) - pages(request.done)

    def _preempt(self):
        request = self.running.pop()
        for cache in self.caches:
            cache.free(request.id)
        request.done = 0
        self.waiting.appendleft(request)
        self.preempted += 1

    def _reuse(self, request):
        """What the caches have of its tokens; the last one gives the logits."""
        for cache in self.caches:
            request.done = cache.reuse_prefix(request.id, request.tokens[:-1])
        self.reused += request.done

    def _schedule(self):
        """Pairs of a request and how many of its tokens run: those that generate
        before those that read their prompt, old ones before new ones."""
        batch, room = [], self.most_tokens
        free = lambda: self.caches[0].free_pages - sum(
            self._pages_for(*item) for item in batch
        )
        while self.waiting and len(self.running) < self.most_requests:
            pages = -(-len(self.waiting[0].tokens) // self.page)
            if self.running and pages >= self.caches[0].free_pages:
                break
            self.running.append(self.waiting.popleft())
            self._reuse(self.running[-1])
        left = lambda request: len(request.tokens) - request.done
        for request in sorted(self.running, key=lambda r: left(r) > 1):
            if not request.done and request in self.running and room:
                self._reuse(request)  # of what others have computed since
            count = min(left(request), room)
            while request in self.running and self._pages_for(request, count) > free():
                self._preempt()  # the one that came last, which may be this one
                batch = [item for item in batch if item[0] in self.running]
            if count and request in self.running:
                batch.append((request, count))
                room -= count
        return batch

    # ---- A step ---------------------------------------------------------------

    def step(self):
        batch = self._schedule()
        counts = [count for _, count in batch]
        new = [request.tokens[request.done :][:count] for request, count in batch]
        ends = np.cumsum(counts)
        positions = np.concatenate(
            [np.arange(request.done, request.done + count) for request, count in batch]
        )
        # Those with equally many new tokens, as all that generate, go together.
        groups = collections.defaultdict(list)
        for n, count in enumerate(counts):
            groups[count].append(n)

        def attend(layer, q, k, v):
            cache, o = self.caches[layer], np.empty_like(q)
            for count, members in groups.items():
                ids = [batch[n][0].id for n in members]
                rows = (ends[members] - count)[:, None] + np.arange(count)
                heads_first = lambda x: x[rows].swapaxes(1, 2)
                tokens = [new[n] for n in members]
                cache.append(ids, heads_first(k), heads_first(v), tokens=tokens)
                found = attn.attention(
                    heads_first(q),
                    cache.k,
                    cache.v,
                    block_table=cache.block_table(ids),
                    kv_lengths=cache.lengths(ids),
                    k_start=cache.starts(ids) if cache.window else None,
                    causal="bottom_right",
                    rotary=self.rotary,
                    cascade="auto",
                    **self.options
                )
                o[rows] = found.swapaxes(1, 2)
            return o

        rows = self.model.forward(
            np.concatenate(new).astype(int), positions, attend, self.rotary is None
        )
        logits = rows[ends - 1] @ self.model.head
        for (request, count), token in zip(batch, logits.argmax(axis=-1)):
            is_decode = request.generated and count == 1
            self.decoded += bool(is_decode)
            self.prefilled += 0 if is_decode else count
            request.done += count
            if request.done == len(request.tokens):
                request.generated.append(int(token))
        for request in [r for r in self.running if r.is_finished]:
            self.running.remove(request)
            for cache in self.caches:
                cache.free(request.id)
        self.steps += 1


def make_progress(stream=sys.stderr):
    """A function that writes one line about an engine over the last one, ten times a
    second."""
    start = shown = time.perf_counter()

    def show(engine):
        nonlocal shown
        now = time.perf_counter()
        is_last = not engine.running and not engine.waiting
        if now < shown + 0.1 and not is_last:
            return
        shown, seconds = now, now - start
        cache = engine.caches[0]
        pages = cache.k.shape[0]
        used = pages - cache.free_pages
        bar = "#" * (20 * used // pages)
        stream.write(
            "\rstep %4d  running %3d  waiting %3d  pages [%-20s] %d/%d  %6.0f tokens/s "
            % (
                engine.steps,
                len(engine.running),
                len(engine.waiting),
                bar,
                used,
                pages,
                (engine.decoded + engine.prefilled) / seconds,
            )
        )
        stream.write("\n" if is_last else "")
        stream.flush()

    return show


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--requests", type=int, default=24)
    parser.add_argument("--tokens", type=int, default=64, help="to generate for each")
    parser.add_argument("--pages", type=int, default=160)
    parser.add_argument("--page", type=int, default=16)
    parser.add_argument("--window", type=int, default=0, help="0: none")
    parser.add_argument(
        "--rotate-at-use", action="store_true", help="unrotated keys in the caches"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    model = Llama(
        Config(
            width=256,
            layers=4,
            heads=8,
            key_heads=2,
            head_dim=32,
            hidden=640,
            window=args.window,
        )
    )
    engine = Engine(
        model,
        args.pages,
        args.page,
        tokens=256,
        requests=32,
        rotates_at_use=args.rotate_at_use,
    )
    system = rng.integers(0, 256, 100).tolist()  # what half of all prompts begin with
    for number in range(args.requests):
        own = rng.integers(0, 256, int(rng.integers(1, 200))).tolist()
        engine.submit(system + own if number % 2 else own, args.tokens)
    start = time.perf_counter()
    is_shown = sys.stderr.isatty() and not args.quiet
    engine.run(make_progress() if is_shown else lambda engine: None)
    seconds = time.perf_counter() - start
    print(
        "%d requests in %.2f s and %d steps: %d tokens generated, %.0f a second; %d of "
        "prompts computed, %d reused; %d preemptions"
        % (
            args.requests,
            seconds,
            engine.steps,
            args.requests * args.tokens,
            args.requests * args.tokens / seconds,
            engine.prefilled,
            engine.reused,
            engine.preempted,
        )
    )


if __name__ == "__main__":
    main()

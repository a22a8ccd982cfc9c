"""attn.StateTree: the states of parts of a sequence as a tree, so that an edit costs
one leaf and the nodes above it.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import contextlib
from typing import Any, Optional

from . import _arrays as arrays
from . import _checks as checks
from . import _scans
from ._attention import attention
from ._checks import fail as _fail
from ._states import merge_states

_NUMBERS = ("decay", "beta", "weight")


def _library_of(like):
    if arrays.is_torch(like):
        return arrays.torch_module()
    import numpy

    return numpy


class _Leaves:
    """Nodes over leaves: level 0 are the leaves, a node of the next has two of them.
    A node without a right half is its left one."""

    def __init__(self, combine):
        self.levels, self.combine, self.combines = [[]], combine, 0

    def set_all(self, first, summaries):
        """Replaces leaves, or adds some behind the last; nodes above them are
        combined once each."""
        leaves = self.levels[0]
        leaves[first : first + len(summaries)] = summaries
        low, high, level = first, first + len(summaries) - 1, 0
        while len(self.levels[level]) > 1:
            if level + 1 == len(self.levels):
                self.levels.append([])
            below, nodes = self.levels[level], self.levels[level + 1]
            low, high = low // 2, high // 2
            for i in range(low, high + 1):
                node = below[2 * i]
                if 2 * i + 1 < len(below):
                    node = self.combine(node, below[2 * i + 1])
                    self.combines += 1
                nodes[i : i + 1] = [node]
            level += 1

    def prefix(self, count):
        """Nodes whose product is that of the first `count` leaves, in order."""
        parts, first = [], 0
        for level in reversed(range(len(self.levels))):
            size = 1 << level
            if first + size <= count:
                parts.append(self.levels[level][first // size])
                first += size
        return parts


class StateTree:
    """A sequence of tokens, the states of its leaves, and the products of these.

        tree = attn.StateTree(leaf=512)
        tree.append(k, v, decay, beta)
        tree.update(1000, k_new, v_new, decay_new, beta_new)
        tree.state()["S"]

    Of a scan a summary is the map of the state that a part of the tokens is, (A, B):
    S becomes A S + B. Of attention (monoid="softmax") it is what a part of the keys
    gives some queries: the output and the LSE; the tree keeps those of the last
    queries that were read.

    Args:
        leaf: tokens of a leaf.
        monoid: None for scans, or "softmax".
        normalize, scale, feature_map, qk_l2norm: as in attn.scan; of attention scale.
    Attributes:
        combines: how many products of two summaries were computed so far.
        tokens: how many there are.
    """

    def __init__(self, leaf: int = 512, **options: Any):
        self.leaf = checks.integer("leaf", leaf, 1)
        self._monoid = monoid = options.pop("monoid", None)
        if not (monoid is None or isinstance(monoid, str) and monoid == "softmax"):
            _fail("monoid to be None, for scans, or 'softmax'", checks.shown(monoid))
        known = (
            ("scale",)
            if self._monoid
            else ("normalize", "scale", "feature_map", "qk_l2norm")
        )
        for name in options:
            if name not in known:
                _fail("options of %s" % ", ".join(known), repr(name), TypeError)
        self._options = options
        self._rows = {}
        self._queries = None
        self._tree = _Leaves(self._combine)
        self.tokens = 0

    @property
    def combines(self) -> int:
        return self._tree.combines

    #
    # Tokens
    #
    def _given(self, k, v, decay, beta, weight):
        rows = {"k": k, "v": v}
        for name in ("k", "v"):
            arrays.view(name, rows[name])
            if len(rows[name].shape) != 4:
                _fail("%s of shape [b, h, t, d]" % name, arrays.describe(rows[name]))
        count = k.shape[2]
        heads = max(k.shape[1], v.shape[1])
        shape = (k.shape[0], heads, count)
        for name, x in (("k", k), ("v", v)):
            if (
                x.shape[0] != k.shape[0]
                or x.shape[2] != count
                or heads % max(x.shape[1], 1)
            ):
                _fail("%s for each token, %s" % (name, list(shape)), arrays.describe(x))
        for name, value in zip(_NUMBERS, (decay, beta, weight)):
            if value is not None:
                if self._monoid:
                    _fail("k and v alone with monoid 'softmax'", "also %s" % name)
                rows[name] = self._number(name, value, k, shape)
        if "beta" in rows and ("weight" in rows or self._options.get("normalize")):
            _fail("beta without weight and normalize", "both")
        if self._rows:
            if set(rows) != set(self._rows):
                _fail(
                    "%s, as the first tokens had" % ", ".join(sorted(self._rows)),
                    ", ".join(sorted(rows)),
                )
            for name, x in rows.items():
                old = self._rows[name]
                if (
                    tuple(old.shape[:2] + old.shape[3:])
                    != tuple(x.shape[:2] + x.shape[3:])
                    or old.dtype != x.dtype
                ):
                    _fail(
                        "%s like the first tokens, %s" % (name, arrays.describe(old)),
                        arrays.describe(x),
                    )
        return rows, count

    def _number(self, name, value, k, shape):
        """A number of each token, [b, H, t], where attn.scan takes [H] as well, or
        one of each of its channels."""
        value = _scans.as_float(name, _scans.as_own(name, value, k))
        if len(value.shape) == 1:
            value = value.reshape((1, -1, 1))
        elif name == "decay" and len(value.shape) == 4:
            if value.shape[3] != 1 or k.shape[3] == 1:
                return _scans.broadcast(name, value, shape + (value.shape[3],))
            value = value[..., 0]
        return _scans.broadcast(name, value, shape)

    @contextlib.contextmanager
    def _whole(self, first=0, count=0):
        """What is done to `count` tokens from `first` on, of which none is left where
        it ends with an error."""
        rows, tokens, queries = dict(self._rows), self.tokens, self._queries
        levels = [list(level) for level in self._tree.levels]
        combines = self._tree.combines
        end = min(first + count, tokens)
        old = _own(x[:, :, first:end] for x in rows.values())
        try:
            yield
        except BaseException:
            for x, values in zip(rows.values(), old):
                x[:, :, first:end] = values
            self._rows, self.tokens, self._queries = rows, tokens, queries
            self._tree.levels, self._tree.combines = levels, combines
            raise

    def append(
        self, k: Any, v: Any, decay: Any = None, beta: Any = None, *, weight: Any = None
    ) -> None:
        """Adds tokens [b, h, t, d] behind the last one; the others as in attn.scan. A
        call that ends with an error, as all of this class, leaves the tree as is."""
        rows, count = self._given(k, v, decay, beta, weight)
        first, end = self.tokens, self.tokens + count
        with self._whole():
            self._reserve(rows, end)
            for name, x in rows.items():
                self._rows[name][:, :, first:end] = x
            self.tokens = end
            if count:
                self._refresh(first, end)

    def update(
        self,
        i: int,
        k: Any,
        v: Any,
        decay: Any = None,
        beta: Any = None,
        *,
        weight: Any = None,
    ) -> None:
        """Replaces token i and those behind it, as many as there are in k."""
        i = checks.integer("i", i)
        rows, count = self._given(k, v, decay, beta, weight)
        if not 0 <= i <= self.tokens - count:
            _fail(
                "tokens among the %d that there are" % self.tokens,
                "%d from %d on" % (count, i),
            )
        if not count:
            return
        with self._whole(i, count):
            for name, x in rows.items():
                self._rows[name][:, :, i : i + count] = x
            self._refresh(i, i + count)

    def _reserve(self, rows, count):
        """Memory for `count` tokens, twice as much where it has to grow."""
        room = self._rows["k"].shape[2] if self._rows else 0
        if self._rows and count <= room:
            return
        for name, x in rows.items():
            shape = list(x.shape)
            shape[2] = max(count, 2 * room, self.leaf)
            library = _library_of(x)
            new = (
                x.new_empty(shape)
                if arrays.is_torch(x)
                else library.empty(shape, x.dtype)
            )
            if self._rows.get(name) is not None:
                new[:, :, : self.tokens] = self._rows[name][:, :, : self.tokens]
            self._rows[name] = new

    def _refresh(self, first, end):
        if self._monoid and self._queries is None:
            return
        numbers = range(first // self.leaf, (end - 1) // self.leaf + 1)
        self._tree.set_all(numbers[0], [self._summary(n) for n in numbers])

    def _cut(self, first, end):
        return {name: x[:, :, first:end] for name, x in self._rows.items()}

    #
    # Summaries
    #
    def _summary(self, number):
        first = number * self.leaf
        rows = self._cut(first, min(first + self.leaf, self.tokens))
        if self._monoid:
            return self._attend(rows)
        states = self._states_of(rows)
        return self._map_of(rows, states["S"].shape[2]), states

    def _attend(self, rows):
        return attention(
            self._queries,
            rows["k"],
            rows["v"],
            return_lse=True,
            scale=self._options.get("scale"),
        )

    def _states_of(self, rows, state=None):
        """The state after some tokens."""
        k = rows["k"]
        options = {n: x for n, x in rows.items() if n not in ("k", "v")}
        for name in ("normalize", "feature_map", "qk_l2norm"):
            if name in self._options:
                options[name] = self._options[name]
        queries = k[:, :1]
        return _scans.run_scan(
            queries, k, rows["v"], initial_state=state, return_state=True, **options
        )[1]

    def _map_of(self, rows, dk):
        """A: None for 1, [b, H], [b, H, dk] or [b, H, dk, dk]; a state has dk rows,
        as many as there are features of a key."""
        library, k, decay = _library_of(rows["k"]), rows["k"], rows.get("decay")
        if "beta" in rows:
            # The same scan of an identity, to which nothing is written.
            heads = rows["beta"].shape[1]
            eye = library.eye(dk, dtype=library.float32)
            eye = library.broadcast_to(eye, (k.shape[0], heads, dk, dk))
            nothing = library.zeros((k.shape[0], heads, k.shape[2], dk), dtype=k.dtype)
            return self._states_of(dict(rows, v=nothing), {"S": eye})["S"]
        if decay is None:
            return None
        wide = (
            decay.to(library.float32)
            if arrays.is_torch(decay)
            else decay.astype("float32")
        )
        return library.exp(wide.sum(2))

    def _apply(self, summary, state):
        """The state after a part, from that before it."""
        matrix, added = summary
        if state is None:
            return dict(added)
        new = {}
        for part, value in added.items():
            old = state[part]
            if matrix is not None:
                if len(matrix.shape) == 4:
                    old = matrix @ old
                else:
                    old = _spread(matrix, len(old.shape)) * old
            new[part] = old + value
        return new

    def _combine(self, left, right):
        if self._monoid:
            return merge_states(*left, *right)
        matrix = left[0] if right[0] is None else right[0]
        if left[0] is not None and right[0] is not None:
            matrix = (
                right[0] @ left[0] if len(matrix.shape) == 4 else right[0] * left[0]
            )
        return matrix, self._apply(right, left[1])

    #
    # States
    #
    def state(self, t: Optional[int] = None) -> Any:
        """The state after the first t tokens, all by default: a dict as attn.scan
        returns it; of attention (o, lse) for the last queries read."""
        t = self.tokens if t is None else checks.integer("t", t)
        if not 0 <= t <= self.tokens:
            _fail("t of the %d tokens" % self.tokens, t)
        if not self._rows:
            _fail("tokens", "none; append some first")
        whole = t // self.leaf
        if t == self.tokens:
            whole = -(-t // self.leaf)
        rest = self._cut(whole * self.leaf, t) if whole * self.leaf < t else None
        parts = self._tree.prefix(whole)
        if self._monoid:
            if self._queries is None:
                _fail("queries to be read first", "none")
            if rest or not parts:
                parts.append(self._attend(rest or self._cut(0, 0)))
            return merge_states(parts) if len(parts) > 1 else _own(parts[0])
        state = None
        for part in parts:
            state = self._apply(part, state)
        if rest or state is None:
            return self._states_of(rest or self._cut(0, 0), state)
        if len(parts) > 1:
            return state
        return dict(zip(state, _own(state.values())))

    def read(self, q: Any, t: Optional[int] = None) -> Any:
        """Attention of q [b, hq, s, d] over the first t tokens, all by default."""
        arrays.view("q", q)
        if self._monoid:
            with self._whole():
                if not self._is_read(q):
                    self._queries = q.clone() if arrays.is_torch(q) else q.copy()
                    self._tree.levels = [[]]
                    if self.tokens:
                        self._refresh(0, self.tokens)
                return self.state(t)[0]
        state = self.state(t)
        if len(q.shape) != 4:
            _fail("q of shape [b, h, s, d]", arrays.describe(q))
        library, rows = _library_of(q), self._rows
        sizes = [(rows[n].shape[1], rows[n].shape[3]) for n in "kv"]
        # Every query reads the same state, to which nothing is added.
        nothing = [
            library.zeros((q.shape[0], h, q.shape[2], d), dtype=q.dtype)
            for h, d in sizes
        ]
        options = {n: x for n, x in self._options.items() if n != "feature_map"}
        feature = self._options.get("feature_map")
        if feature is not None or "normalize" in options:
            return self._read_one_by_one(q, state, feature, options, nothing)
        return _scans.run_scan(
            q, *nothing, initial_state=state, causal=False, **options
        )

    def _read_one_by_one(self, q, state, feature, options, nothing):
        # A feature of 0 need not be 0: weights of 0 keep keys out.
        library = _library_of(q)
        heads = state["S"].shape[1]
        weight = library.zeros((q.shape[0], heads, q.shape[2]), dtype=library.float32)
        return _scans.run_scan(
            q,
            *nothing,
            initial_state=state,
            causal=False,
            weight=weight,
            feature_map=feature,
            **options,
        )

    def _is_read(self, q):
        old = self._queries
        if old is None or tuple(old.shape) != tuple(q.shape) or old.dtype != q.dtype:
            return False
        return bool((old == q).all())


def _own(values):
    """Copies, where the tree has the arrays themselves: callers change states."""
    return tuple(x.clone() if arrays.is_torch(x) else x.copy() for x in values)


def _spread(matrix, rank):
    """[b, H] or [b, H, dk] against a state of more dimensions."""
    return matrix[(Ellipsis,) + (None,) * (rank - len(matrix.shape))]

"""attn.KVCache: the keys and values of many sequences, in pages.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import ctypes
import operator
from typing import Any, List, Optional, Sequence

from . import _arrays as arrays
from . import _checks as checks
from . import _library as c
from ._checks import fail as _fail

_NAMES = {"float32": c.F32, "float16": c.F16, "bfloat16": c.BF16}


def _count(name, value, least):
    return checks.integer(name, value, least, 2**31 - 2**16 - 1)


def _numbers(name, values):
    """Integers as an array of int64, and how many."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    try:
        numbers = [operator.index(value) for value in values]
        if bool in set(map(type, values)):
            raise TypeError
    except TypeError:
        _fail(
            "%s to be a sequence of integers" % name, arrays.describe(values), TypeError
        )
    for number in numbers:
        if not -(2**63) <= number < 2**63:
            _fail("%s to be integers of 64 bits" % name, number, TypeError)
    return (ctypes.c_int64 * max(len(numbers), 1))(*numbers), len(numbers)


def _token_view(tokens, count):
    """Tokens [ids, tokens], an array or lists of integers; [tokens] of one id. None
    for lists of no id."""
    if str(getattr(tokens, "dtype", "")).split(".")[-1] in (
        "uint16",
        "uint32",
        "uint64",
    ):
        tokens = tokens.tolist()
    if arrays.kind_of(tokens):
        found = arrays.view("tokens", tokens)
        if count == 1 and len(found.shape) == 1:
            found.shape, found.strides = (1,) + found.shape, (0,) + found.strides
        if found.device is None and found.dtype in (c.I32, c.I64):
            return found
        if found.dtype not in (c.I8, c.I16, c.I32, c.I64, c.U8):
            _fail("tokens of an integer type", arrays.describe(tokens), TypeError)
        if found.is_empty:
            strides = [1] * len(found.shape)
            return arrays.View(0, c.I64, found.shape, strides, tokens)
        tokens = tokens.tolist()
    if not hasattr(tokens, "__iter__"):
        _fail("tokens of shape [ids, tokens]", arrays.describe(tokens), TypeError)
    rows = list(tokens)
    if count == 1 and not any(hasattr(row, "__iter__") for row in rows):
        rows = [rows]
    width = None
    flat = []
    for row in rows:
        if not hasattr(row, "__iter__"):
            _fail("tokens of shape [ids, tokens]", arrays.describe(tokens), TypeError)
        row = list(row)
        if width not in (None, len(row)):
            _fail("as many tokens for each id", "%d and %d" % (width, len(row)))
        width = len(row)
        flat += row
    if width is None:
        return None
    memory, _ = _numbers("tokens", flat)
    return arrays.View(
        ctypes.addressof(memory), c.I64, (len(rows), width), (width, 1), memory
    )


class KVCache:
    """The keys and values of many sequences, in pages of two pools.

    attn.attention reads them from there:

        attn.attention(q, cache.k, cache.v, block_table=cache.block_table(ids),
                       kv_lengths=cache.lengths(ids), causal="bottom_right")

    Sequences are named by ids, integers of at least 0. Appending to an id that is
    not in the cache makes an empty sequence of that id first. Functions may be
    called from many threads at once, each of which does all or, where it raises,
    nothing; only copies that a GPU's driver refuses leave rows that hold anything.
    docs/Serving.md says more.

    Args:
        pages, page: how many pages there are, and the rows of each.
        heads: key heads.
        d, dv: channels of keys and of values (None: d; 0: no values).
        dtype: "float32", "float16" or "bfloat16", or a dtype of NumPy or torch.
        device: "cpu", or "cuda" or "cuda:N" for pools on a GPU, as torch tensors;
            or a device of torch's.
        window: the keys that a query sees, itself among them, as in
            window=(n - 1, 0) of attn.attention. Pages that no query sees any more
            are given back when rows are appended. None: all keys are kept.
        keep: how many keys from the first on every query sees beside the window
            (attention sinks, as StreamingLLM has them). Their pages stay, and
            positions are then places among the rows that are there.

    Attributes:
        k, v: the pools, [pages, heads, page, d] and [pages, heads, page, dv],
            which begin as zeros: torch tensors where dtype or device is one of
            torch's or they are on a GPU, else NumPy arrays (bfloat16: of
            ml_dtypes).
        page, window, keep: as given.
    """

    def __init__(
        self,
        pages: int,
        page: int,
        heads: int,
        d: int,
        dv: Optional[int] = None,
        dtype: Any = "float32",
        device: Any = "cpu",
        window: Optional[int] = None,
        keep: int = 0,
    ):
        self._handle = None
        shape = _count("pages", pages, 0), _count("heads", heads, 1)
        shape += (_count("page", page, 1),)
        d = _count("d", d, 1)
        dv = d if dv is None else _count("dv", dv, 0)
        self.page = shape[2]
        self.window = None if window is None else _count("window", window, 1)
        self.keep = _count("keep", keep, 0)
        self._k, self._v = _make_pools(dtype, device, shape + (d,), shape + (dv,))
        # References to the pools, so that NumPy does not move their memory.
        self._views = views = [arrays.view("k", self._k), arrays.view("v", self._v)]
        self._dtype, self._device = views[0].dtype, views[0].device
        tensors, keep = arrays.pack(views)
        options = c.KVCacheOptions(
            ctypes.sizeof(c.KVCacheOptions),
            self.window or 0,
            self._device is not None,
            self.keep,
        )
        handle = ctypes.c_void_p()
        c.check(
            c.lib.attnKVCacheCreate(
                ctypes.byref(tensors[0]),
                ctypes.byref(tensors[1]),
                ctypes.byref(options),
                ctypes.byref(handle),
            )
        )
        self._handle = handle
        self._destroy = c.lib.attnKVCacheDestroy

    def __del__(self):
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            self._destroy(handle)

    def __reduce_ex__(self, protocol):
        raise TypeError(
            "attn: expected what can be copied or pickled, but got an attn.KVCache"
        )

    def __repr__(self):
        return "<attn.KVCache of %d pages [%d, %d, %d], %d free>" % (
            self.k.shape + (self.free_pages,)
        )

    @property
    def k(self) -> Any:
        """The pool of keys, [pages, heads, page, d]."""
        return self._k

    @property
    def v(self) -> Any:
        """The pool of values, [pages, heads, page, dv]."""
        return self._v

    @property
    def free_pages(self) -> int:
        """Pages that no sequence has."""
        return c.lib.attnKVCacheFreePages(self._handle)

    def ids(self) -> List[int]:
        """The ids in the cache, in ascending order."""
        room = 0
        while True:
            found = (ctypes.c_int64 * max(room, 1))()
            count = c.lib.attnKVCacheIds(self._handle, found, room)
            if count <= room:
                return list(found[:count])
            room = count

    def new(self) -> int:
        """An empty sequence: its id, which no sequence of this cache ever had."""
        made = ctypes.c_int64()
        c.check(c.lib.attnKVCacheNew(self._handle, ctypes.byref(made)))
        return made.value

    def append(self, ids: Sequence[int], k: Any, v: Any, tokens: Any = None) -> None:
        """Copies rows behind those of some sequences.

        Args:
            ids: each once.
            k, v: [ids, heads, tokens, d] and [ids, heads, tokens, dv] of the
                cache's type, with any strides; v may be None where dv is 0.
                On a GPU they are copied in order on torch's current stream.
            tokens: [ids, tokens], or [tokens] of one id: the integers that the rows
                were made of. Where those of a sequence are known from its first row
                on, it shares each full page with all sequences that begin with the
                same tokens up to the end of that page.
        Raises:
            OutOfPages: there are not enough free pages for all ids.
            ValueError, TypeError: what was given does not fit.
        """
        numbers, count = _numbers("ids", ids)
        views = [self._rows("k", k)]
        if v is not None or self.v.shape[3]:
            views.append(self._rows("v", v))
        tokens = None if tokens is None else _token_view(tokens, count)
        if tokens is not None:
            views.append(tokens)
        tensors, keep = arrays.pack(views)
        given = [ctypes.byref(tensor) for tensor in tensors]
        key = given.pop(0)
        known = given.pop() if tokens is not None else None
        value = given.pop() if given else None
        self._append(numbers, count, key, value, known, 0)

    def _append(self, *arguments):
        options = c.run_options(self._device)
        if self._device is not None:
            options.stream = arrays.stream_of(self._device)
        c.check(
            c.lib.attnKVCacheAppend(self._handle, *arguments, ctypes.byref(options))
        )

    def reserve(self, ids: Sequence[int], count: int, tokens: Any = None) -> None:
        """As `append`, of `count` rows that the caller writes to the pools, where
        `block_table` says, before anybody reads them."""
        numbers, size = _numbers("ids", ids)
        tensor = None
        tokens = None if tokens is None else _token_view(tokens, size)
        if tokens is not None:
            tensors, keep = arrays.pack([tokens])
            tensor = ctypes.byref(tensors[0])
        count = _count("count", count, 0)
        self._append(numbers, size, None, None, tensor, count)

    def _rows(self, name, array):
        found = arrays.view(name, array)
        if found.dtype != self._dtype:
            _fail(
                "%s of type %s, as the cache has" % (name, c.DTYPE_NAMES[self._dtype]),
                arrays.describe(array),
                TypeError,
            )
        if found.device != self._device:
            _fail(
                "%s on %s, where the cache is" % (name, arrays.where(self._device)),
                arrays.where(found.device),
            )
        return found

    def reuse_prefix(self, id: int, tokens: Sequence[int]) -> int:
        """Gives an empty sequence, or an id that is not in the cache, the full
        pages that the cache has of a sequence of these tokens.

        Returns:
            The rows in these pages, whose keys and values need no computing.
        """
        numbers, count = _numbers("tokens", tokens)
        id, reused = checks.integer("id", id), ctypes.c_int64()
        c.check(
            c.lib.attnKVCacheReuse(
                self._handle, id, numbers, count, ctypes.byref(reused)
            )
        )
        return reused.value

    def fork(self, id: int) -> int:
        """A new sequence with the rows of another: its id. They share their pages
        until one of them is written."""
        id, made = checks.integer("id", id), ctypes.c_int64()
        c.check(c.lib.attnKVCacheFork(self._handle, id, ctypes.byref(made)))
        return made.value

    def truncate(self, id: int, length: int) -> None:
        """Drops the rows of a sequence behind the first `length` of those that
        `lengths` counts."""
        c.check(
            c.lib.attnKVCacheTruncate(
                self._handle, checks.integer("id", id), checks.integer("length", length)
            )
        )

    def free(self, id: int) -> None:
        """Drops a sequence. Its pages can be found by their tokens until they are
        needed for something else."""
        c.check(c.lib.attnKVCacheFree(self._handle, checks.integer("id", id)))

    def reorder(
        self, ids: Sequence[int], onto: Optional[Sequence[int]] = None
    ) -> List[int]:
        """Sequence onto[i] becomes what ids[i] was before the call, for all i, as
        beams do. What no `ids` names is dropped where it is in `onto`.

        Args:
            ids: those to read, in any order and number.
            onto: those to write, each once. None: all that are in the cache, in
                ascending order, and new ones where `ids` has more.
        Returns:
            The ids that were written.
        """
        source, count = _numbers("ids", ids)
        if onto is None:
            present = self.ids()
            if count < len(present):
                _fail(
                    "ids for all %d sequences of the cache, or onto" % len(present),
                    count,
                )
            more = max(present, default=-1) + 1
            present += range(more, more + count - len(present))
            onto = present
        target, size = _numbers("onto", onto)
        if size != count:
            _fail("as many ids in onto as in ids, %d" % count, size)
        c.check(c.lib.attnKVCacheReorder(self._handle, source, target, count))
        return list(target[:size])

    def block_table(self, ids: Sequence[int], width: Optional[int] = None) -> Any:
        """The pages of each sequence, int32 [ids, pages], -1 behind its last.

        Args:
            width: how many pages; None: as many as the longest sequence has, and
                at least one.
        """
        numbers, count = _numbers("ids", ids)
        most = ctypes.c_int64()
        args = self._handle, numbers, count
        c.check(c.lib.attnKVCacheWidth(*args, ctypes.byref(most)))
        width = max(most.value, 1) if width is None else _count("width", width, 0)
        memory = (ctypes.c_int32 * max(count * width, 1))()
        c.check(c.lib.attnKVCacheTable(*args, width, memory))
        return self._integers(memory, (count, width))

    def lengths(self, ids: Sequence[int]) -> Any:
        """The rows of each sequence that are in the pages of `block_table`, int32
        [ids]: kv_lengths of attn.attention."""
        return self._lengths(ids, 0)

    def starts(self, ids: Sequence[int]) -> Any:
        """The position of the first of these rows in its sequence, int32 [ids]:
        k_start of attn.attention. 0 without a window, and with `keep`."""
        return self._lengths(ids, 1)

    def _lengths(self, ids, which):
        numbers, count = _numbers("ids", ids)
        memory = (ctypes.c_int32 * max(count, 1))()
        places = [None, None]
        places[which] = memory
        c.check(c.lib.attnKVCacheLengths(self._handle, numbers, count, *places))
        return self._integers(memory, (count,))

    def _integers(self, memory, shape):
        """An int32 array of the kind of the pools."""
        import numpy

        count = 1
        for size in shape:
            count *= size
        array = numpy.frombuffer(memory, numpy.int32, count).reshape(shape)
        if not arrays.is_torch(self.k):
            return array
        return arrays.torch_module().from_numpy(array).to(self.k.device)


def _make_pools(dtype, device, *shapes):
    torch = arrays.torch_module()
    is_torch = torch is not None and (
        isinstance(dtype, torch.dtype) or isinstance(device, torch.device)
    )
    kind = str(device).split(":")[0]
    if kind not in ("cpu", "cuda"):
        _fail("device to be 'cpu' or 'cuda'", checks.shown(device))
    if is_torch or kind == "cuda":
        return _make_tensors(torch, dtype, device, kind, shapes)
    import numpy

    if isinstance(dtype, str) and dtype == "bfloat16":
        try:
            import ml_dtypes
        except ImportError:
            raise ImportError(
                "attn: expected the package ml_dtypes, which NumPy arrays of bfloat16 "
                "need, but there is none; pass dtype=torch.bfloat16"
            ) from None
        dtype = ml_dtypes.bfloat16
    try:
        found = numpy.dtype(dtype)
    except (TypeError, ValueError):
        _fail_dtype(dtype)
    if found.name not in _NAMES or dtype is None:
        _fail_dtype(dtype)
    try:
        return [numpy.zeros(shape, found) for shape in shapes]
    except (MemoryError, ValueError):
        raise MemoryError(
            "attn: expected memory for pools of shapes %s and %s, but there is not "
            "enough"
            % (list(shapes[0]), list(shapes[1]))
        ) from None


def _make_tensors(torch, dtype, device, kind, shapes):
    if torch is None or kind == "cuda" and not torch.cuda.is_available():
        _fail(
            "torch with a GPU for device %r" % (device,),
            "none that is imported" if torch is None else "one that finds no GPU",
        )
    name = str(dtype)[len("torch.") :] if isinstance(dtype, torch.dtype) else dtype
    name = name if isinstance(name, str) else getattr(dtype, "__name__", str(dtype))
    if name not in _NAMES:
        _fail_dtype(dtype)
    return [
        torch.zeros(shape, dtype=getattr(torch, name), device=device)
        for shape in shapes
    ]


def _fail_dtype(dtype):
    _fail("dtype to be float32, float16 or bfloat16", checks.shown(dtype), TypeError)

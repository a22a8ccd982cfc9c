"""attn.attention and attn.compile.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import ctypes
import functools
import math
import operator
import os
from typing import Any, Dict, Optional, Sequence, Tuple, Union

from . import _arrays as arrays
from . import _dropout
from . import _operands
from . import _kernel
from . import _library as c
from . import _masks
from . import _plans
from ._operands import LAYOUTS as _LAYOUTS
from ._operands import POOLS as _POOLS
from ._operands import fail as _fail

# AttnPrecision of attn.h.
_PRECISIONS = {"ieee": 0, "tf32": 1}
_FLOATS = (c.F32, c.F16, c.BF16)
_BROADCAST = (2, 4, 8, 16)  # ATTN_BROADCAST_BATCH, ... of attn.h
# Monoids that give what the key gives, and more outputs.
_RICHER = {"softmax": ("softmax_entropy", "softmax_max")}

# The arguments of the kernels of a description, which do not depend on sizes.
_MOST_SIGNATURES = 1024
_signatures = {}


def monoids() -> Dict[str, Tuple[str, ...]]:
    """The shipped monoids: a dict from name to the tuple of its outputs."""
    lines = c.lib.attnShippedMonoids().decode().split("\n")
    pairs = (line.split(":") for line in lines if ":" in line)
    return {name.strip(): tuple(x.strip() for x in o.split(",")) for name, o in pairs}


def _outputs_of(monoid):
    if "attn.monoid" in monoid:
        return c.monoid_outputs(monoid)
    shipped = monoids()
    if monoid not in shipped:
        _fail(
            "monoid to be one of %s, or the text of an attn.monoid"
            % ", ".join(shipped),
            repr(monoid),
        )
    return shipped[monoid]


_shipped_outputs = {}


def _choose_monoid(monoid, wanted):
    """The monoid that has the outputs asked for, and all its outputs."""
    if not isinstance(monoid, str):
        _fail("monoid to be a name or MLIR text", arrays.describe(monoid), TypeError)
    names = (monoid,) + _RICHER.get(monoid, ())
    for name in names:
        outputs = _shipped_outputs.get(name)
        if outputs is None:
            outputs = _shipped_outputs[name] = _outputs_of(name)
        if all(output in outputs for output in wanted):
            return name, outputs
    available = sorted({x for name in names for x in _shipped_outputs[name][1:]})
    _fail(
        "outputs that one monoid has, of %s" % (", ".join(available) or "(none)"),
        ", ".join(wanted),
    )


def _broadcast(name, array):
    """A mask or bias as [b, hq, sq, sk], and which dimensions repeat."""
    found = arrays.view(name, array)
    missing = 4 - len(found.shape)
    if missing < 0:
        _fail("%s of at most 4 dimensions, [b, hq, sq, sk]" % name, array.shape)
    shape = [1] * missing + list(found.shape)
    strides = [0] * missing + list(found.strides)
    flags = 1  # ATTN_GIVEN
    for i, flag in enumerate(_BROADCAST):
        # What NumPy and torch expand has stride 0: the same, seen once.
        if shape[i] == 1 or (strides[i] == 0 and not found.is_empty):
            shape[i], strides[i] = 1, 1
            flags |= flag
    view = arrays.View(
        found.data, found.dtype, shape, strides, found.owner, found.device
    )
    return view, flags


def _check_broadcast(name, view, flags, sizes):
    for i, flag in enumerate(_BROADCAST):
        if sizes[i] is not None and not flags & flag and view.shape[i] != sizes[i]:
            _fail("%s to broadcast to %s" % (name, list(sizes)), list(view.shape))


def clear_cache() -> None:
    """Lets go of all kernels that are kept for later calls, in memory; those that a
    program holds stay. Not of the cache on disk, which is for GPUs."""
    from . import _gradients  # which imports this

    _plans.clear()
    _signatures.clear()
    _kernel.kept.clear()
    _gradients.clear()
    c.lib.attnContextClearCache(c.context)


class _Call:
    """What one call asks: the description, the operands, the outputs."""

    def __init__(
        self,
        q,
        k,
        v,
        scale=None,
        causal=None,
        window=(-1, -1),
        softcap=0.0,
        mask=None,
        bias=None,
        alibi_slopes=None,
        sinks=None,
        kv_lengths=None,
        score_mod=None,
        mask_mod=None,
        monoid="softmax",
        layout="bhsd",
        return_lse=False,
        return_aux=None,
        cu_seqlens_q=None,
        cu_seqlens_k=None,
        monoid_params=(),
        precision="ieee",
        block_table=None,
        k_start=None,
        rolling=False,
        batch_invariant=False,
        k_new=None,
        v_new=None,
        v_dim=None,
        captures=None,
        block_mask=None,
        dropout_p=0.0,
        dropout_rng=None,
        deterministic=True,
    ):
        self.views = {}
        if not arrays.is_bool(deterministic):
            _fail("deterministic to be True or False", arrays.describe(deterministic), TypeError)
        self.aux_names = self._aux_names(return_lse, return_aux)
        self.return_lse = return_lse
        self.return_aux = return_aux is not None
        name, self.output_names = _choose_monoid(monoid, self.aux_names)
        count = 1 + max(map(self.output_names.index, self.aux_names), default=0)
        self.is_paged = block_table is not None
        self._set_operands(q, k, v, layout)
        _operands.set_values(self, v, v_dim)
        self._set_packed(cu_seqlens_q, cu_seqlens_k)
        _operands.set_cache(self, block_table, k_start, rolling, batch_invariant)
        _operands.set_new(self, k, v, k_new, v_new, kv_lengths)
        self._set_causal(causal, window)

        views, number, vector = self.views, arrays.scalar, arrays.vector
        if scale is not None:
            views["scale"] = number("scale", scale, c.F32)
        cap = number("softcap", softcap, c.F32) if softcap else None
        if cap is not None:
            if not softcap > 0:
                _fail("softcap to be positive, or 0 for none", softcap)
            views["softcap"] = cap
        mask, functions = _masks.set_functions(
            self, score_mod, mask, mask_mod, captures, block_mask
        )
        bias_type, bias_flags, mask_flags = self._set_bias_and_mask(bias, mask)
        if alibi_slopes is not None:
            slopes = vector("alibi_slopes", alibi_slopes, c.F32, self.device)
            if len(slopes.shape) not in (1, 2):
                _fail("alibi_slopes of shape [hq] or [b, hq]", list(slopes.shape))
            views["alibi_slopes"] = slopes
        if sinks is not None:
            views["sinks"] = vector("sinks", sinks, c.F32, self.device)
        if kv_lengths is not None:
            views["kv_lengths"] = vector("kv_lengths", kv_lengths, c.I32, self.device)
        dropout = _dropout.words_of(dropout_p, dropout_rng)
        if dropout is not None:
            views["dropout_p"] = number("dropout_p", dropout_p, c.F32)
            for half, word in zip(_dropout.WORDS, dropout):
                views[half] = number("dropout_rng", word, c.I32)
        if isinstance(monoid_params, (str, bytes)) or not hasattr(
            monoid_params, "__iter__"
        ):
            _fail(
                "monoid_params to be a sequence of numbers",
                arrays.describe(monoid_params),
                TypeError,
            )
        for i, value in enumerate(monoid_params):
            views["param%d" % i] = number("monoid_params", value, c.F32)

        if not isinstance(precision, str) or precision not in _PRECISIONS:
            _fail("precision to be one of %s" % ", ".join(_PRECISIONS), repr(precision))

        alibi = views.get("alibi_slopes")
        # The members of AttnAttentionDesc in order, from `dtype`.
        self.key = (
            views["q"].dtype,
            views["q"].shape[-1],
            views["v"].shape[-1] if "v" in views else 0,
            c.CAUSAL[causal],
            int("scale" in views),
            int("softcap" in views),
            int("window_left" in views),
            int("sinks" in views),
            int("kv_lengths" in views),
            int("cu_seqlens_q" in views),
            bias_flags,
            mask_flags,
            bias_type,
            0 if alibi is None else len(alibi.shape),
            name.encode(),
            count,
            None,
            (0, 0, 0, 0),
            _PRECISIONS[precision],
            0,
            # The rows of a page; pools of empty pages have any.
            (views["k"].shape[2] or -1) if self.is_paged else 0,
            int(k_start is not None),
            int(bool(rolling)),
            int(bool(batch_invariant)),
            int(k_new is not None),
            int(v_dim is not None and v is None),
        ) + functions + (int(dropout is not None),)
        self.desc = c.AttentionDesc(ctypes.sizeof(c.AttentionDesc), *self.key)

    @staticmethod
    def _aux_names(return_lse, return_aux):
        if return_aux is None:
            names = ()
        elif isinstance(return_aux, str):
            names = (return_aux,)
        else:
            names = tuple(return_aux)
        if not all(isinstance(name, str) for name in names):
            _fail("return_aux to hold names of outputs", repr(return_aux), TypeError)
        return (("lse",) if return_lse else ()) + names

    def _set_operands(self, q, k, v, layout):
        axes = _LAYOUTS.get(layout) if isinstance(layout, str) else None
        if axes is None:
            _fail("layout to be one of %s" % ", ".join(_LAYOUTS), repr(layout))
        self.layout, self.axes, self.like = layout, axes, q
        self.device = None
        operands = [("q", q), ("k", k)] + ([("v", v)] if v is not None else [])
        for name, array in operands:
            found = arrays.view(name, array)
            if name == "q":
                self.device = found.device
            arrays.check_device(name, found, self.device)
            if arrays.kind_of(array) != arrays.kind_of(q):
                _fail(
                    "%s of the kind of q, %s" % (name, type(q).__name__),
                    type(array).__name__,
                    TypeError,
                )
            order, names = axes, list(layout)
            if self.is_paged and name != "q":
                if layout not in _POOLS:
                    _fail(
                        "layout to be one of %s with block_table" % ", ".join(_POOLS),
                        repr(layout),
                    )
                order, names = _POOLS[layout]
            if len(found.shape) != len(order):
                _fail(
                    "%s of %d dimensions, [%s]" % (name, len(order), ", ".join(names)),
                    arrays.describe(array),
                )
            if found.dtype not in _FLOATS:
                _fail(
                    "%s of float32, float16 or bfloat16" % name,
                    arrays.describe(array),
                    TypeError,
                )
            if name != "q" and found.dtype != self.views["q"].dtype:
                _fail(
                    "%s of the type of q, %s" % (name, arrays.describe(q)),
                    arrays.describe(array),
                    TypeError,
                )
            self.views[name] = found.permuted(order)

    def _set_packed(self, cu_seqlens_q, cu_seqlens_k):
        given = cu_seqlens_q is not None, cu_seqlens_k is not None
        if self.is_paged and given == (True, False) and self.layout == "thd":
            self.views["cu_seqlens_q"] = arrays.vector(
                "cu_seqlens_q", cu_seqlens_q, c.I32, self.device
            )
            return
        if given != ((True, True) if self.layout == "thd" else (False, False)):
            found = {
                (False, False): "neither",
                (True, False): "cu_seqlens_q alone",
                (False, True): "cu_seqlens_k alone",
                (True, True): "both",
            }
            _fail(
                "cu_seqlens_q and cu_seqlens_k with layout 'thd', and only with it",
                "layout %r with %s" % (self.layout, found[given]),
            )
        if all(given):
            self.views["cu_seqlens_q"] = arrays.vector(
                "cu_seqlens_q", cu_seqlens_q, c.I32, self.device
            )
            self.views["cu_seqlens_k"] = arrays.vector(
                "cu_seqlens_k", cu_seqlens_k, c.I32, self.device
            )

    def _set_causal(self, causal, window):
        if not (causal is None or isinstance(causal, str)) or causal not in c.CAUSAL:
            _fail("causal to be None, 'top_left' or 'bottom_right'", repr(causal))
        self.causal = causal
        if window is None:
            return
        try:
            left, right = window
        except TypeError:
            _fail("window to be a pair (left, right)", repr(window), TypeError)
        except ValueError:
            _fail("window to be a pair (left, right)", repr(window))
        left, right = (_window_size(size) for size in (left, right))
        if left.owner.value < -1 or right.owner.value < -1:
            _fail("window sizes of at least 0, or -1 for no bound", repr(window))
        if left.owner.value >= 0 or right.owner.value >= 0:
            self.views["window_left"], self.views["window_right"] = left, right

    def _set_bias_and_mask(self, bias, mask):
        sizes = [None] * 4
        if self.layout != "thd":
            b, hq, sq, _ = self.views["q"].shape
            sizes = [b, hq, sq, None if self.is_paged else self.views["k"].shape[2]]
        bias_type, flags = c.F32, {"bias": 0, "mask": 0}
        for name, array in (("bias", bias), ("mask", mask)):
            if array is None:
                continue
            found, flags[name] = _broadcast(name, array)
            arrays.check_device(name, found, self.device)
            if name == "bias":
                bias_type = found.dtype
                if bias_type not in _FLOATS:
                    hint = "; pass a boolean mask as mask" if bias_type == c.BOOL else ""
                    _fail(
                        "bias of float32, float16 or bfloat16",
                        arrays.describe(array) + hint,
                        TypeError,
                    )
            elif found.dtype != c.BOOL:
                _fail(
                    "mask to be boolean, True where a query attends to a key",
                    arrays.describe(array) + "; pass an additive mask as bias",
                    TypeError,
                )
            _check_broadcast(name, found, flags[name], sizes)
            self.views[name] = found
        return bias_type, flags["bias"], flags["mask"]

    def compile(self, target=None, **options):
        if target is None:
            target = c.device_target(self.device)
        views = [self.views["q"], self.views["k"]]
        if self.layout == "thd" or self.is_paged:
            # Lengths, tables and offsets tell sizes too.
            names = [arg.name for arg in self._signature()[0]]
            views = [self.views[name] for name in names if name in self.views]
        return _kernel.compile_call(self.desc, views, target=target, **options)

    def _signature(self):
        """The inputs and outputs of kernels of this description."""
        found = _signatures.get(self.key)
        if found is None:
            views = [self.views["q"], self.views["k"]]
            options = {"target": c.device_target(self.device)}
            if self.layout == "thd" or self.is_paged:
                # Which kernel the call has, other inputs tell.
                options = {"target": "host", "until_after": "input"}
            kernel = _kernel.compile_call(self.desc, views, **options)
            if len(_signatures) >= _MOST_SIGNATURES:
                _signatures.clear()
            found = _signatures[self.key] = kernel.inputs, kernel.outputs
        return found

    def run_all(self):
        """Runs the kernel. Returns all its outputs."""
        return self.run(None)[1][4]

    def run(self, out):
        """Runs the kernel. Returns what the caller gets, and what _plans.remember
        needs of it."""
        ins, outs = self._signature()
        inputs = []
        _masks.bind_captures(self, ins)
        for arg in ins:
            if arg.name not in self.views:
                _fail(_masks.describe_missing(arg.name), "none")
            inputs.append(self.views[arg.name])
        names = set(map(_name, ins))
        if "v_new" in self.views and "v_new" not in names:
            _fail("v_new with a monoid that takes values", "v_new")
        taken = {"v"} | names
        extra = sum(name not in taken for name in self.views)
        if extra > 0 and any(name.startswith("param") for name in self.views):
            _fail(
                "as many monoid_params as the monoid takes",
                sum(name.startswith("param") for name in self.views),
            )
        results, views = [], []
        for arg in outs:
            result, view = self._output(arg, None if results else out)
            results.append(result)
            views.append(view)
        try:
            self._run(inputs, views)
        except ValueError as error:
            if self.layout == "bhsd" or "shape" not in str(error):
                raise
            order = "h, t, d" if self.layout == "thd" else "b, h, s, d"
            raise ValueError("%s (dimensions in the order %s)" % (error, order)) from None
        made = [arrays.like(self.like, result) for result in results]
        if out is not None:
            made[0] = out
        pick = self._picker()
        return pick(made), (self.desc, ins, inputs, views, made, pick)

    def _run(self, inputs, outputs):
        tensors, keep = arrays.pack(inputs)
        results, keep_results = arrays.pack(outputs)
        options = c.run_options(self.device)
        if self.device is not None:
            options.stream = arrays.stream_of(self.device)

        def run():
            return c.lib.attnAttention(
                c.context,
                ctypes.byref(self.desc),
                tensors,
                len(inputs),
                results,
                len(outputs),
                ctypes.byref(options),
            )

        error = run()
        if error and c.go_on(error):
            options.interrupt = None
            error = run()
        c.check(error)

    def _output(self, arg, out):
        q, dense = self.views["q"].shape, None
        shape = list(q[:-1])
        has_channels = len(arg.shape) == len(q)
        axes = self.axes if has_channels else range(len(shape))
        if has_channels:
            shape.append(arg.shape[-1])
        dense = [0] * len(shape)
        for i, axis in enumerate(axes):
            dense[axis] = shape[i]
        if out is None:
            result = arrays.empty(self.like, arg.code, dense)
        else:
            result = out
        view = arrays.view("out", result)
        if out is not None:
            arrays.check_writable("out", out, view)
            arrays.check_device("out", view, self.device)
            if list(view.shape) != dense or view.dtype != arg.code:
                _fail("out to be %s of shape %s" % (arg.dtype, dense), arrays.describe(out))
        return result, view.permuted(axes)

    def _picker(self):
        """The function from all results to what the caller gets. It does not hold
        on to the call."""
        index = self.output_names.index
        lse = index("lse") if self.return_lse else None
        aux = None
        if self.return_aux:
            names = self.aux_names[1 if self.return_lse else 0 :]
            aux = [(name, index(name)) for name in names]
        return functools.partial(_pick, lse, aux)


def _pick(lse, aux, results):
    """The output, then that of index `lse`, then a dict of the pairs (name, index)
    of `aux`, where they are not None."""
    if lse is None and aux is None:
        return results[0]
    picked = (results[0],)
    if lse is not None:
        picked += (results[lse],)
    if aux is not None:
        picked += ({name: results[i] for name, i in aux},)
    return picked


def _window_size(size):
    """As a tensor of rank 0. What is wider than any tensor is no bound."""
    is_wide = hasattr(size, "__index__") and operator.index(size) >= 2**31 - 1
    return arrays.scalar("window", -1 if is_wide else size, c.I32)


def _name(arg):
    return arg.name


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    scale: Optional[float] = None,
    causal: Optional[str] = None,
    window: Optional[Tuple[int, int]] = (-1, -1),
    softcap: float = 0.0,
    mask: Any = None,
    bias: Any = None,
    alibi_slopes: Any = None,
    sinks: Any = None,
    kv_lengths: Any = None,
    score_mod: Optional[str] = None,
    mask_mod: Optional[str] = None,
    monoid: str = "softmax",
    layout: str = "bhsd",
    return_lse: bool = False,
    return_aux: Union[str, Sequence[str], None] = None,
    out: Any = None,
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
    monoid_params: Sequence[float] = (),
    precision: str = "ieee",
    block_table: Any = None,
    k_start: Any = None,
    rolling: bool = False,
    batch_invariant: bool = False,
    k_new: Any = None,
    v_new: Any = None,
    v_dim: Optional[int] = None,
    captures: Optional[Dict[str, Any]] = None,
    block_mask: Optional[_masks.BlockMask] = None,
    dropout_p: float = 0.0,
    dropout_rng: Optional[Tuple[int, int]] = None,
    deterministic: bool = True
) -> Any:
    """Attention on NumPy arrays, torch tensors or other arrays in host memory with
    __dlpack__, without copies: on the CPU, or on the NVIDIA GPU that torch tensors
    are on, then in order on torch's current stream.

    score = scale * q.k, then softcap, then score_mod, then bias and ALiBi, then the
    masks, then the monoid (softmax). A kernel is compiled on the first call of its kind, in
    a fraction of a second; sizes and the values of all operands are free. Sizes
    fall into classes with a kernel each (few rows, and few rows of many keys in
    powers of two; on sm_90a many keys, and many rows with them), so that new
    lengths seldom compile again.

    Args:
        q, k, v: float32, float16 or bfloat16 (NumPy: ml_dtypes.bfloat16), the
            same for all; q [b, hq, sq, d], k [b, hk, sk, d], v [b, hk, sk, dv]
            in the order that `layout` says, any strides with 1 in the last
            dimension. Query head h reads key head h // (hq / hk). Sizes may be 0.
            `v` may be None where the monoid takes no values, and with v_dim.
        scale: factor on q.k; None: 1 / sqrt(d).
        causal: None, "top_left" (query i sees keys up to i) or "bottom_right"
            (the last query sees the last key, of kv_lengths where given).
        window: (left, right) numbers of keys, inclusive, around the diagonal,
            which is that of `causal`, else bottom-right; -1: no bound. None is
            (-1, -1).
        softcap: scores become softcap * tanh(score / softcap); 0 or inf: off.
        mask: boolean, True = attend, broadcast to [b, hq, sq, sk] as NumPy does,
            in every layout. For "thd": [sequences, hq, sq, sk], with positions
            counted within the sequence.
        bias: as mask, a float type; added to the score; -inf is dead.
        alibi_slopes: float32 [hq] or [b, hq]; adds -slope * |i + len - sq - j|.
        sinks: float32 [hq], logits in units of the final score that enter the
            denominator only.
        kv_lengths: int32 [b], the keys of each batch: those behind are not read.
        score_mod, mask_mod: a function of scores and a mask, as the text of a region
            in MLIR (docs/Masks.md): "^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j:
            i32): ... attn.yield %x : f32"; a mask has no %s and yields an i1. They
            go with all other options: a key is live that every mask lets pass.
            mask may be such a text in place of mask_mod.
        captures: a dict of what score_mod and mask_mod take behind %j, arrays and
            numbers by the names of these arguments.
        block_mask: an attn.BlockMask, lists of the blocks of keys that blocks of
            queries see; others are not visited.
        monoid: a shipped name (attn.monoids()), or the text of an `attn.monoid`.
        layout: "bhsd", "bshd", "sbhd", or "thd" for packed sequences, with rows
            cu_seqlens[n] to cu_seqlens[n + 1] for sequence n. Rows behind the
            last sequence are rows without a key, in `out` too.
        return_lse: also return the natural logarithm of the sum of exponentials
            of each row, float32 [b, hq, sq] ("thd": [hq, total_q]), sinks
            included; -inf for a row without a live key.
        return_aux: names of more outputs of the monoid, as ("entropy",) or
            ("max",); a dict of them, float32 [b, hq, sq], is returned as well.
        out: an array to write the output to, of the output's shape and type. It
            must not share an element with q, k, v or another operand; what
            interleaves with them, as the heads of one buffer, is fine. After an
            error it holds anything.
        cu_seqlens_q, cu_seqlens_k: int32 [sequences + 1], from 0; layout "thd".
        block_table: int32 [b, n], the pages of each sequence: k and v are then
            pools, [pages, hk, page, d] in layout "bhsd", and [pages, page, hk, d]
            in "bshd" and in "thd", which then takes cu_seqlens_q alone. Sequences
            may share pages. Entries behind the last page of a sequence, as -1,
            are not looked at.
        k_start: int32 [b], the position of the first key: key j of a sequence is
            at position k_start + j, for masks too that begin at 0 (causal
            "top_left"). Diagonals that end with the last key are where they were.
        rolling: k and v are caches that are written round and round: the key at
            position p is in row p modulo the rows there are. Takes k_start.
        batch_invariant: whether the bits of a row are to depend on its query, its
            keys and their positions alone, and not on what else is in the call:
            other sequences, how many, packed or not, whether the row is one of a
            prompt, of a chunk of it, or alone. Keys are then reduced in one part,
            which is slower on GPUs where few rows have many of them.
        k_new, v_new: [b, hk, n, d] and [b, hk, n, dv] in the order of `layout`
            ("thd": of "bshd"), rows that are appended to k and v, in place, before
            the call attends to them: row i of batch b becomes row
            kv_lengths[b] + i of its sequence. k and v are caches then, dense, in
            pages or rolling, with room for n more rows, and kv_lengths, which
            must be given, are the lengths before; causal "bottom_right" ends at
            the last new row. On a GPU, where lengths are not read, what has no
            room is not written. Sequences that share the page of their new rows
            both write to it.
        v_dim: with v=None, the values are the first v_dim columns of k, in its
            memory (multi-head latent attention). k_new then has them too.
        dropout_p: between 0 and 1, the share of pairs of a query and a key whose
            value is dropped; the others count 1 / (1 - p) times as much. As in
            torch, that is after the softmax: its sum, and the LSE, are those of
            all keys.
        dropout_rng: (seed, offset), two integers of 64 bits, which must be given
            with dropout_p: the pairs that are dropped follow from them, and are
            those of attn.dropout_mask on every device. Count the offset up from
            call to call.
        deterministic: False allows gradients to be added up in any order. They have
            one order so far, also then, as the forward always has: the same bits.
        monoid_params: numbers, the run-time parameters of the monoid.
        precision: "ieee", or "tf32": float32 may be rounded to 10 bits behind the
            point where products are faster so, which is on NVIDIA GPUs
            (torch.backends.cuda.matmul.fp32_precision).

    kv_lengths, sinks, alibi_slopes, cu_seqlens and k_start may be lists.

    Of torch tensors that require grad it has gradients, as torch.autograd takes
    them: of q, k, v, bias, alibi_slopes, sinks, captures, scale, softcap and
    monoid_params, through the output, the LSE and other outputs; not of caches (block_table, k_start, rolling, k_new), and no second
    ones. It works under torch.compile, torch.utils.checkpoint and torch.autocast, which
    casts q, k and v. attn.attention_vjp has gradients of other arrays.

    The 256 kernels for CPUs that were used last are kept, and others compiled
    anew when they are needed again. Ctrl-C (SIGINT) ends a run on a CPU within a block of its work,
    with KeyboardInterrupt.

    Returns:
        The output [b, hq, sq, dv] in the order of `layout`, of q's type and
        kind (a NumPy array where q is neither of torch nor of a package that
        follows the array API standard); or a tuple (output, lse), (output, aux) or (output, lse, aux). A
        row without a live key is 0.

    Raises:
        ValueError: sizes, strides, devices or values that do not fit.
        TypeError: a type that is not supported.
        NotImplementedError: a score_mod or mask_mod that is a function of Python.
    """
    if arrays.is_traced_jax(q, k, v, bias, mask, alibi_slopes, sinks, kv_lengths):
        given = dict(locals())
        from . import _jax

        return _jax.attention(given)
    if arrays.is_torch(q):
        from . import _torch

        # Caches are as they are in memory.
        if block_table is None and k_new is None and not rolling and out is None:
            q, k, v = _torch.cast(q, k, v)
        wants = _torch.wants_gradient(
            *(q, k, v, bias, alibi_slopes, sinks, scale, softcap),
            *_torch.parts(monoid_params),
            *_torch.parts(captures)
        )
        _torch.check_number("dropout_p", dropout_p)
        writes = out is not None or k_new is not None or v_new is not None
        if wants and writes:
            _fail(
                "neither out nor k_new where gradients are wanted",
                "one; call under torch.no_grad()",
            )
        if (wants or (_torch.is_traced() and block_mask is None)) and not writes:
            from . import _torch_operator

            return _torch_operator.attention(
                (q, k, v, mask, bias, alibi_slopes, sinks, kv_lengths)
                + (cu_seqlens_q, cu_seqlens_k, block_table, k_start),
                scale,
                causal,
                window,
                softcap,
                monoid,
                layout,
                return_lse,
                return_aux,
                monoid_params,
                precision,
                rolling,
                batch_invariant,
                v_dim,
                dropout_p,
                dropout_rng,
                score_mod,
                mask_mod,
                captures,
                block_mask,
            )
    operands = (q, k, v, mask, bias, alibi_slopes, sinks, kv_lengths)
    operands += (cu_seqlens_q, cu_seqlens_k, block_table, k_start, k_new, v_new, out)
    options = (scale, causal, window, softcap, score_mod, mask_mod, monoid, layout)
    options += (return_lse, return_aux, monoid_params, precision, rolling)
    options += (batch_invariant, v_dim, captures, block_mask, deterministic)
    # The numbers of dropout are others in each call, which then has no plan.
    drops = not (type(dropout_p) is float and dropout_p == 0.0)
    key = None if drops else _plans.key_of(operands, options)
    plan = _plans.find(key)
    if plan is not None:
        return plan.run(operands)
    call = _Call(
        q,
        k,
        v,
        scale,
        causal,
        window,
        softcap,
        mask,
        bias,
        alibi_slopes,
        sinks,
        kv_lengths,
        score_mod,
        mask_mod,
        monoid,
        layout,
        return_lse,
        return_aux,
        cu_seqlens_q,
        cu_seqlens_k,
        monoid_params,
        precision,
        block_table,
        k_start,
        rolling,
        batch_invariant,
        k_new,
        v_new,
        v_dim,
        captures,
        block_mask,
        dropout_p,
        dropout_rng,
        deterministic,
    )
    result, how = call.run(out)
    _plans.remember(key, operands, *how)
    return result


_COMPILER_OPTIONS = ("target", "until_after", "dump_phases_to", "no_cache")
_TEXT_OPTIONS = ("entry", "source_name", "keep_ir") + _COMPILER_OPTIONS
_code = _Call.__init__.__code__
_CALL_OPTIONS = _code.co_varnames[4 : _code.co_argcount]  # behind self, q, k, v


def _check_options(given, known):
    for name in given:
        if name not in known:
            _fail(
                "an option of attn.compile (%s)" % ", ".join(known), repr(name), TypeError
            )


def _is_path(source):
    """Whether this names a file of MLIR, where its text was asked for."""
    if isinstance(source, os.PathLike):
        return True
    return (
        isinstance(source, str)
        and source.endswith((".mlir", ".mlirbc"))
        and not set(source) & set("\n{}()")
    )


def compile(source: Any, *operands: Any, **options: Any) -> _kernel.Kernel:
    """Compiles a kernel and returns its handle, an attn.Kernel.

    compile(text, *, entry=None, target=None, until_after=None,
            dump_phases_to=None, source_name=None)
        compiles MLIR text or bytecode; a call runs the function `entry`, the
        first if None.
    compile(q, k, v, *, target=None, until_after=None, dump_phases_to=None,
            **options)
        compiles what attn.attention(q, k, v, **options) would run. Of sizes and
        values only the head dimensions count, and the class that the sizes fall
        into, whose schedule it has; it runs on any. Its inputs have the order
        [b, h, s, d].

    Args:
        target: a target's name, as "cpu-avx2" or "sm_90a", or "cuda" for the best
            of the current GPU; None: the module's, or that of the device that q
            is on, else this machine's.
        until_after: stop after this phase: "input", "aggregate", "schedule" or
            "tile"; of a CPU "vector" or "llvm", of a GPU "gpu" or "nvvm"; the
            kernel cannot run then.
        dump_phases_to: a directory for one numbered file per phase.
        source_name: stands for the text in errors.

    The handle has .mlir(phase), .explain(), .timings (milliseconds), .inputs and
    .outputs, and runs when called.

    Raises:
        ValueError: the text is wrong, or not supported; one line, with the
            compiler's notes attached (__notes__).
        TypeError: wrong types, as for attn.attention.
    """
    if _is_path(source):
        _fail(
            "MLIR text, or q, k and v",
            "a path, %r; pass what the file holds" % os.fspath(source),
        )
    if isinstance(source, (str, bytes, bytearray)):
        if operands:
            _fail("nothing after the text", "%d more arguments" % len(operands), TypeError)
        _check_options(options, _TEXT_OPTIONS)
        return _kernel.compile_text(source, **options)
    if len(operands) != 2:
        _fail(
            "MLIR text, or q, k and v",
            "%d arguments, the first %s" % (1 + len(operands), arrays.describe(source)),
            TypeError,
        )
    _check_options(options, _CALL_OPTIONS + _COMPILER_OPTIONS)
    compiler = {name: options.pop(name) for name in _COMPILER_OPTIONS if name in options}
    return _Call(source, *operands, **options).compile(keep_ir=True, **compiler)

"""What one call of attn.attention asks, and its run: the description of attn.h, the
operands as views, and the outputs.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import ctypes
import functools
import operator
from typing import Dict, Tuple

from . import _arrays as arrays
from . import _checks as checks
from . import _dropout
from . import _kernel
from . import _library as c
from . import _masks
from . import _operands
from . import _rotary
from ._operands import LAYOUTS, POOLS
from ._checks import fail as _fail

# AttnPrecision of attn.h.
_PRECISIONS = {"ieee": 0, "tf32": 1}
FLOATS = (c.F32, c.F16, c.BF16)
BROADCAST = (2, 4, 8, 16)  # ATTN_BROADCAST_BATCH, ... of attn.h
# Monoids that give what the key gives, and more outputs.
_RICHER = {"softmax": ("softmax_entropy", "softmax_max")}

# The arguments of the kernels of a description, which do not depend on sizes.
_MOST_SIGNATURES = 1024
signatures = {}


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


def choose_monoid(monoid, wanted):
    """The monoid that has the outputs asked for, and all its outputs."""
    if not isinstance(monoid, str):
        found, error = arrays.describe(monoid), TypeError
        if callable(monoid):
            found += "; functions of Python are not supported yet"
            error = NotImplementedError
        _fail("monoid to be a name or MLIR text", found, error)
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
    """A mask or bias as [b, hq, sq, sk], which dimensions repeat, and what sizes it
    has as the caller sees it."""
    found = arrays.view(name, array)
    missing = 4 - len(found.shape)
    if missing < 0:
        _fail("%s of at most 4 dimensions, [b, hq, sq, sk]" % name, array.shape)
    shape = [1] * missing + list(found.shape)
    strides = [0] * missing + list(found.strides)
    seen, flags = tuple(shape), 1  # ATTN_GIVEN
    for i, flag in enumerate(BROADCAST):
        # What NumPy and torch expand has stride 0: the same, seen once.
        if shape[i] == 1 or (strides[i] == 0 and not found.is_empty):
            shape[i], strides[i] = 1, 1
            flags |= flag
    view = arrays.View(
        found.data, found.dtype, shape, strides, found.owner, found.device
    )
    return view, flags, seen


def _check_broadcast(name, seen, sizes):
    for size, wanted in zip(seen, sizes):
        if wanted is not None and size not in (1, wanted):
            _fail("%s to broadcast to %s" % (name, list(sizes)), list(seen))


class Call:
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
        rotary=None,
        cascade=False,
    ):
        self.views = {}
        checks.boolean("deterministic", deterministic)
        checks.boolean("return_lse", return_lse)
        self.aux_names = self._aux_names(return_lse, return_aux)
        self.return_lse = return_lse
        self.return_aux = return_aux is not None
        name, self.output_names = choose_monoid(monoid, self.aux_names)
        count = 1 + max(map(self.output_names.index, self.aux_names), default=0)
        self.is_paged = block_table is not None
        self._set_operands(q, k, v, layout)
        _operands.set_values(self, v, v_dim)
        self._set_packed(cu_seqlens_q, cu_seqlens_k)
        _operands.set_cache(self, block_table, k_start, rolling, batch_invariant)
        cascade = _levels_of(cascade)
        if cascade < 0 and not self.is_paged:
            cascade = 0  # "auto": nothing is shared
        append = _operands.set_new(self, k, v, k_new, v_new, kv_lengths)
        self._set_causal(causal, window)

        views, number, vector = self.views, arrays.scalar, arrays.vector
        if scale is not None:
            views["scale"] = number("scale", scale, c.F32)
        cap = None if softcap is None else number("softcap", softcap, c.F32)
        if cap is not None and softcap:
            if not cap.owner.value > 0:
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
        self._check_heads()
        if kv_lengths is not None:
            views["kv_lengths"] = vector("kv_lengths", kv_lengths, c.I32, self.device)
        dropout = _dropout.words_of(dropout_p, dropout_rng)
        if dropout is not None:
            views["dropout_p"] = number("dropout_p", dropout_p, c.F32)
            for half, word in zip(_dropout.WORDS, dropout):
                views[half] = number("dropout_rng", word, c.I32)
        turns = _rotary.set_views(self, rotary)
        for i, value in enumerate(_params_of(monoid_params)):
            views["param%d" % i] = number("monoid_params", value, c.F32)
        _masks.check_names(self)
        checks.choice("precision", precision, _PRECISIONS)
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
            append,
            int(v_dim is not None and v is None),
        ) + functions + (int(dropout is not None),) + turns + (cascade,)
        self.key += (int(not deterministic),)
        self.desc = c.AttentionDesc(ctypes.sizeof(c.AttentionDesc), *self.key)

    @staticmethod
    def _aux_names(return_lse, return_aux):
        names = () if return_aux is None else return_aux
        names = checks.names("return_aux", names, "outputs")
        return (("lse",) if return_lse else ()) + names

    def _set_operands(self, q, k, v, layout):
        axes = LAYOUTS[checks.choice("layout", layout, LAYOUTS)]
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
                if layout not in POOLS:
                    _fail(
                        "layout to be one of %s with block_table" % ", ".join(POOLS),
                        repr(layout),
                    )
                order, names = POOLS[layout]
            if len(found.shape) != len(order):
                _fail(
                    "%s of %d dimensions, [%s]" % (name, len(order), ", ".join(names)),
                    arrays.describe(array),
                )
            if found.dtype not in FLOATS:
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
            if name == "v" and not found.shape[-1]:  # 0 says "as in k" to the library
                _fail("head dimensions between 1 and 4096", arrays.describe(array))
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
            found = checks.shown(causal)
            _fail("causal to be None, 'top_left' or 'bottom_right'", found)
        self.causal = causal
        if window is None:
            return
        sizes = _tuple_of(window)
        if sizes is None or len(sizes) != 2:
            error = TypeError if sizes is None else ValueError
            _fail("window to be a pair (left, right)", checks.shown(window), error)
        left, right = sizes
        left, right = (_window_size(size) for size in (left, right))
        if left.owner.value < -1 or right.owner.value < -1:
            _fail("window sizes of at least 0, or -1 for no bound", tuple(window))
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
            found, flags[name], seen = _broadcast(name, array)
            arrays.check_device(name, found, self.device)
            if name == "bias":
                bias_type = found.dtype
                if bias_type not in FLOATS:
                    hint = (
                        "; pass a boolean mask as mask" if bias_type == c.BOOL else ""
                    )
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
            _check_broadcast(name, seen, sizes)
            self.views[name] = found
        return bias_type, flags["bias"], flags["mask"]

    def _check_heads(self):
        """That there is a slope and a sink for each query head: kernels for gradients
        take them as they take captures, of which there may be more."""
        q = self.views["q"].shape
        sizes = {"b": q[0], "hq": q[-3]}
        if self.layout == "thd":
            del sizes["b"]  # offsets tell, which the library asks
        for name, most in (("alibi_slopes", ("b", "hq")), ("sinks", ("hq",))):
            if name not in self.views:
                continue
            shape = self.views[name].shape
            dims = most[-len(shape) :]
            expected, got = "'%s' of shape [%s]" % (name, ", ".join(dims)), list(shape)
            if len(shape) != len(dims):
                _fail(expected, "shape %s" % got)
            for dim, size in zip(dims, shape):
                if size != sizes.get(dim, size):
                    expected += " with %s = %d as in 'q'" % (dim, sizes[dim])
                    _fail(expected, "shape %s" % got)

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
        found = signatures.get(self.key)
        if found is None:
            views = [self.views["q"], self.views["k"]]
            options = {"target": c.device_target(self.device)}
            if self.layout == "thd" or self.is_paged:
                # Which kernel the call has, other inputs tell.
                options = {"target": "host", "until_after": "input"}
            kernel = _kernel.compile_call(self.desc, views, **options)
            if len(signatures) >= _MOST_SIGNATURES:
                signatures.clear()
            found = signatures[self.key] = kernel.inputs, kernel.outputs
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
            raise ValueError(
                "%s (dimensions in the order %s)" % (error, order)
            ) from None
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

        def call():
            return c.lib.attnAttention(
                c.context,
                ctypes.byref(self.desc),
                tensors,
                len(inputs),
                results,
                len(outputs),
                ctypes.byref(options),
            )

        c.run(call, options)

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
                _fail(
                    "out to be %s of shape %s" % (arg.dtype, dense),
                    arrays.describe(out),
                )
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
    try:
        is_wide = operator.index(size) >= 2**31 - 1
    except TypeError:
        is_wide = False
    return arrays.scalar("window", -1 if is_wide else size, c.I32)


def _tuple_of(values):
    """Of what is no sequence None."""
    try:
        return tuple(values)
    except TypeError:
        return None


def _params_of(values):
    params = None if isinstance(values, (str, bytes)) else _tuple_of(values)
    if params is None:
        found = arrays.describe(values)
        _fail("monoid_params to be a sequence of numbers", found, TypeError)
    return params


def _levels_of(cascade):
    """The member `cascade` of the description."""
    if isinstance(cascade, str) and cascade == "auto":
        return -1
    if arrays.is_bool(cascade):
        return int(cascade)
    try:
        levels = operator.index(cascade)
    except TypeError:
        levels = None
    if levels not in (1, 2, 3, 4):
        _fail(
            "cascade to be True, False, 'auto' or a number of levels from 1 to 4",
            checks.shown(cascade),
        )
    return levels


def _name(arg):
    return arg.name

"""Gradients: attn.attention_vjp, and what training in a framework is built on.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

A `Plan` is one call of attention with its operands: `forward` gives the results and
what the backward pass reads of each row, `backward` takes these and a cotangent for
each result. A plan made again of the same operands and options is the same plan, so
that a framework may keep the arrays alone.
"""

import ctypes
import math
from typing import Any, Callable, Dict, Tuple

from . import _arrays as arrays
from . import _attention
from . import _kernel
from . import _library as c
from ._operands import fail as _fail

# Arguments that have gradients, by the names of the kernel's inputs.
_NAMES = ("q", "k", "v", "scale", "softcap", "bias", "alibi_slopes", "sinks")
_DEFAULT = ("q", "k", "v", "bias", "alibi_slopes", "sinks")
_BATCH, _HEADS, _QUERIES, _KEYS = _attention._BROADCAST
_MOST_PROGRAMS = 256
_programs = {}


class _Program:
    """The kernels of a description: forward, backward, and of pairs."""

    def __init__(self, desc, inputs, target):
        texts = []
        take = c._TEXT(lambda text, user: texts.append(text.decode()))
        names = ",".join(inputs).encode()
        c.check(
            c.lib.attnDifferentiateAttention(ctypes.byref(desc), names, take, None)
        )
        self.text = texts[0]
        whole = _kernel.compile_text(self.text, target=target, keep_ir=False)
        count = c.lib.attnKernelNumEntries(whole._pointer)
        entries = {
            c.lib.attnKernelEntryName(whole._pointer, i).decode() for i in range(count)
        }

        def entry(name):
            name = "attention_" + name
            return _kernel.Kernel(whole._handle, name) if name in entries else None

        self.forward = entry("forward")
        self.backward = entry("backward")
        self.pairs = entry("pairs")


def _program(call, inputs, target):
    key = call.key, inputs, target
    found = _programs.get(key)
    if found is None:
        found = _Program(call.desc, inputs, target)
        if len(_programs) >= _MOST_PROGRAMS:
            _programs.clear()
        _programs[key] = found
    return found


def differentiate(text: str, *, inputs: Any = None, source_name: str = None) -> str:
    """The functions for training of a program, as MLIR text for attn.compile.

    Args:
        text: MLIR with one public function @f, which returns the results of one
            operation of attn.
        inputs: names of arguments of @f to differentiate; None: all floats.
        source_name: stands for the text in errors.

    Returns:
        The module with @f_forward and @f_backward (and @f_pairs, for captures with
        an element for each row and key) in the place of @f: docs/Gradients.md.
    """
    if not isinstance(text, (str, bytes)):
        _fail("MLIR text", arrays.describe(text), TypeError)
    data = text.encode() if isinstance(text, str) else text
    if inputs is not None and not isinstance(inputs, str):
        inputs = ",".join(inputs)
    texts = []
    take = c._TEXT(lambda text, user: texts.append(text.decode()))
    names = None if inputs is None else inputs.encode()
    source = None if source_name is None else str(source_name).encode()
    c.check(c.lib.attnDifferentiate(data, len(data), names, source, take, None))
    return texts[0]


def clear() -> None:
    """Lets go of the kernels that are kept."""
    _programs.clear()


def _dense(array, dtype, copy=False):
    """`array` as a kernel takes it: of that type, 1 apart in the last dimension."""
    view = arrays.view("a cotangent", array)
    name = c.DTYPE_NAMES[dtype]
    if not copy and view.dtype == dtype and (
        view.is_empty or not view.shape or view.shape[-1] == 1 or view.strides[-1] == 1
    ):
        return array
    if arrays.is_torch(array):
        torch = arrays.torch_module()
        types = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
        return array.to(types[name]).contiguous()
    import numpy

    if name == "bf16":
        import ml_dtypes

        kind = ml_dtypes.bfloat16
    else:
        kind = {"f32": numpy.float32, "f16": numpy.float16}[name]
    array = numpy.from_dlpack(array) if not arrays.is_numpy(array) else array
    return numpy.ascontiguousarray(array, kind)


def _zeros(like, dtype, shape):
    result = arrays.empty(like, dtype, shape)
    result[...] = 0
    return result


def _whole(array):
    """A dense copy of what repeats in memory: each place has a gradient of its
    own."""
    if not arrays.kind_of(array):
        return array
    view = arrays.view("bias", array)
    if all(size <= 1 or step for size, step in zip(view.shape, view.strides)):
        return array
    return _dense(array, view.dtype, copy=True)


def _sum(array, axes, shape):
    """Adds up dimensions in float64, in a fixed order; float32 of `shape`."""
    axes = tuple(axes)
    if arrays.is_torch(array):
        torch = arrays.torch_module()
        if axes:
            array = array.sum(dim=axes, dtype=torch.float64)
        return array.to(torch.float32).reshape(shape)
    import numpy

    if axes:
        array = numpy.sum(array, axis=axes, dtype=numpy.float64)
    return numpy.asarray(array).astype(numpy.float32).reshape(shape)


def _cast(array, like):
    """To the type of an array that was given."""
    if arrays.is_torch(array):
        return array.to(like.dtype) if arrays.is_torch(like) else array
    dtype = getattr(like, "dtype", None)
    return array.astype(dtype) if arrays.is_numpy(like) else array


class Plan:
    """A call of attention whose gradients are wanted.

    Attributes:
        names: the outputs of the monoid that `forward` gives, from "o".
        inputs: the names of the arguments that `backward` gives gradients of.
    """

    def __init__(self, q, k, v, *, inputs=None, target=None, **options):
        for name in ("block_table", "k_start", "k_new", "v_new"):
            if options.get(name) is not None:
                _fail(
                    "attention without a cache where gradients are wanted, with q, k "
                    "and v as arrays or packed",
                    name,
                    NotImplementedError,
                )
        if options.get("rolling"):
            _fail("attention without a rolling cache", "rolling", NotImplementedError)
        if inputs is not None and not isinstance(inputs, str):
            if not hasattr(inputs, "__iter__"):
                _fail("inputs to hold names of arguments", repr(inputs), TypeError)
            inputs = tuple(inputs)
        wants_bias = inputs is None or "bias" in inputs
        if options.get("bias") is not None and wants_bias:
            if options.get("layout") == "thd":
                _fail(
                    "a bias without gradient with layout 'thd'; leave it out of inputs",
                    "one with",
                    NotImplementedError,
                )
            options["bias"] = _whole(options["bias"])
        self.given = dict(options, q=q, k=k, v=v)
        self.call = _attention._Call(q, k, v, **options)
        self.target = target if target else c.device_target(self.call.device)
        self.value_in_key = v is None and "v" in self.call.views
        self.inputs = self._choose(inputs)
        self.names = self.call.output_names[: self.call.desc.numOutputs]
        asked = self.inputs or ("q",)
        if self.value_in_key and "k" in asked:
            asked = tuple(sorted({*asked, "v"}, key=_NAMES.index))
        self.asked = asked
        self.program = _program(self.call, asked, self.target)
        kernel = self.program.forward
        self.operands = [self.call.views[arg.name] for arg in kernel.inputs]

    def _choose(self, inputs):
        views = self.call.views
        there = [name for name in _NAMES if self.given.get(name) is not None]
        there = [name for name in there if name in views]
        if inputs is None:
            return tuple(name for name in there if name in _DEFAULT)
        if isinstance(inputs, str):
            inputs = (inputs,)
        for name in inputs:
            if name not in there:
                _fail(
                    "inputs to name arguments that are given, of %s" % ", ".join(there),
                    repr(name),
                )
        return tuple(name for name in there if name in inputs)

    def _make(self, kernel):
        """New arrays for what a kernel gives, by its names of dimensions, and views
        in its order."""
        results, views = [], []
        q = self.call.views["q"].shape
        k = self.call.views["k"].shape
        for arg in kernel.outputs:
            rows = k if self._is_of_keys(arg) else q
            shape = list(rows[:-1])
            has_channels = len(arg.shape) == len(q)
            axes = list(self.call.axes) if has_channels else list(range(len(shape)))
            if has_channels:
                shape.append(arg.shape[-1])
            dense = [0] * len(shape)
            for i, axis in enumerate(axes):
                dense[axis] = shape[i]
            result = arrays.empty(self.call.like, arg.code, dense)
            results.append(result)
            views.append(arrays.view(arg.name, result).permuted(axes))
        return results, views

    @staticmethod
    def _is_of_keys(arg):
        return any(dim in ("sk", "total_k") for dim in arg.dims)

    def forward(self) -> Tuple[list, list]:
        """The results, one for each of `names`, and the state of the rows."""
        results, views = self._make(self.program.forward)
        self._run(self.program.forward, self.operands, views)
        count = len(self.names)
        return results[:count], results[count:]

    def _run(self, kernel, inputs, outputs):
        kernel.run(inputs, outputs)

    def _views(self, results, state, cotangents):
        """The inputs of the backward pass, in order."""
        kernel = self.program.backward or self.program.pairs
        wanted = kernel.inputs[len(self.operands) :]
        axes, found, keep = self.call.axes, list(self.operands), []
        places = iter(state)
        for arg in wanted:
            if arg.name in ("identity", "first_key", "num_keys"):
                break
            if arg.name.startswith("saved"):
                array = next(places)
            elif arg.name.startswith("out"):
                array = results[int(arg.name[3:])]
            else:
                array = cotangents[int(arg.name[4:])]
                like = results[int(arg.name[4:])]
                name = "the cotangent of " + self.names[int(arg.name[4:])]
                if array is None:
                    shape = arrays.view(name, like).shape
                    array = _zeros(like, arg.code, shape)
                else:
                    if arrays.kind_of(array) is None:
                        _fail("%s to be an array" % name, arrays.describe(array))
                    shape = tuple(arrays.view(name, like).shape)
                    if tuple(array.shape) != shape:
                        _fail(
                            "%s of shape %s" % (name, list(shape)),
                            arrays.describe(array),
                        )
                    array = _dense(array, arg.code)
            keep.append(array)
            view = arrays.view(arg.name, array)
            arrays.check_device(arg.name, view, self.call.device)
            if len(arg.shape) == len(axes):
                view = view.permuted(axes)
            found.append(view)
        return found, keep

    def backward(self, results, state, cotangents) -> Dict[str, Any]:
        """The gradients by argument.

        Args:
            results, state: what `forward` has given.
            cotangents: one for each result, in order, or a dict of them by name;
                None for 0.
        """
        if isinstance(cotangents, dict):
            for name in cotangents:
                if name not in self.names:
                    _fail(
                        "cotangents of the outputs %s" % ", ".join(self.names),
                        repr(name),
                    )
            cotangents = [cotangents.get(name) for name in self.names]
        inputs, keep = self._views(results, state, list(cotangents))
        kernel, pairs = self.program.backward, self.program.pairs
        of_pairs = self._of_pairs()
        found = {}
        if kernel is not None:
            made, views = self._make(kernel)
            self._run(kernel, inputs, views)
            direct = [name for name in self.asked if name not in of_pairs]
            found = dict(zip(direct, made))
        if pairs is not None:
            found.update(zip(of_pairs, self._run_pairs(pairs, inputs, of_pairs)))
        gradients = {}
        for name in self.asked:
            array = found[name]
            if name not in of_pairs and name not in ("q", "k", "v"):
                array = self._reduce(name, array)
            if name not in ("q", "k", "v"):
                array = _cast(array, self.given[name])
            gradients[name] = array
        if self.value_in_key and "v" in gradients:
            value = gradients.pop("v")
            gradients["k"][..., : value.shape[-1]] += value
        return {name: arrays.like(self.call.like, gradients[name]) for name in self.inputs}

    def _of_pairs(self):
        """Arguments that are read by row and by key."""
        flags = self.call.desc.bias
        if "bias" not in self.asked or flags & _KEYS:
            return ()
        # What keys alone have is added up over the rows.
        return () if flags & _HEADS and flags & _QUERIES else ("bias",)

    def _reduce(self, name, array):
        """From what each row has (each key, of a bias of keys) to the argument."""
        view = self.call.views[name]
        packed = self.call.layout == "thd"
        if name in ("scale", "softcap"):
            return _sum(array, range(len(array.shape)), ())
        if name == "bias":
            kept = [0, 1, 3] if _KEYS & ~self.call.desc.bias else [0, 1, 2]
            drop = [i for i, axis in enumerate(kept) if view.shape[axis] == 1]
            return _sum(array, drop, self.given["bias"].shape)
        # [hq] or [b, hq]
        if packed:
            if len(view.shape) == 2:
                return self._by_sequence(array, view.shape)
            return _sum(array, [1], view.shape)
        return _sum(array, [2] if len(view.shape) == 2 else [0, 2], view.shape)

    def _run_pairs(self, kernel, inputs, names):
        """Runs the kernel of pairs for some keys after others."""
        like = self.call.like
        arg = next(arg for arg in kernel.inputs if arg.name == "identity")
        step = arg.shape[-1]
        b, hq, sq, _ = self.call.views["q"].shape
        _, hk, sk, _ = self.call.views["k"].shape
        flags = self.call.desc.bias
        sizes = [1 if flags & flag else size
                 for flag, size in zip(_attention._BROADCAST, (b, hq, sq, sk))]
        result = _zeros(like, c.F32, sizes)
        axes = tuple(i for i in range(3) if sizes[i] == 1 and (b, hq, sq)[i] != 1)
        identity = _zeros(like, c.F32, (step, step))
        identity.reshape(-1)[:: step + 1] = 1
        whole = arrays.view("identity", identity)
        part = arrays.empty(like, c.F32, (b, hq, sq, step))
        names_of = [arg.name for arg in kernel.inputs]
        shape = self.given["bias"].shape
        if not (b and hq and sq):
            return [result.reshape(shape)]
        for first in range(0, sk, step):
            count = min(step, sk - first)
            views = []
            for name, view in zip(names_of, inputs):
                if name in ("k", "v"):
                    item = arrays.item_size(view.dtype)
                    part_of = view.shape[:2] + (count,) + view.shape[3:]
                    data = (view.data or 0) + first * view.strides[2] * item
                    view = arrays.View(
                        data, view.dtype, part_of, view.strides, view.owner, view.device
                    )
                views.append(view)
            eye = arrays.View(
                whole.data, c.F32, (b, hk, count, step), (0, 0, step, 1),
                identity, whole.device,
            )
            views += [
                eye,
                arrays.scalar("first_key", first, c.I32),
                arrays.scalar("num_keys", sk, c.I32),
            ]
            self._run(kernel, views, [arrays.view("part", part)])
            columns = part[..., :count]
            result[..., first : first + count] = _sum(
                columns, axes, tuple(sizes[:3]) + (count,)
            )
        return [result.reshape(shape)]

    def _by_sequence(self, array, shape):
        offsets = self.given["cu_seqlens_q"]
        offsets = offsets.tolist() if hasattr(offsets, "tolist") else list(offsets)
        result = _zeros(array, c.F32, shape)
        for n, (first, last) in enumerate(zip(offsets, offsets[1:])):
            result[n] = _sum(array[:, first:last], [1], shape[1:])
        return result

    @property
    def saved_bytes(self) -> int:
        """Bytes of the row states that are kept between the passes, beside inputs
        and results."""
        rows = math.prod(self.call.views["q"].shape[:-1])
        return 4 * rows * (len(self.program.forward.outputs) - len(self.names))


def attention_vjp(
    q: Any, k: Any, v: Any, *, inputs: Any = None, **options: Any
) -> Tuple[Any, Callable[..., Dict[str, Any]]]:
    """Attention, and the function that gives its gradients.

    Args:
        q, k, v, options: as of attn.attention, but caches (block_table, k_start,
            k_new, rolling) and `out`.
        inputs: the names of the arguments to differentiate; None: those given of
            q, k, v, bias, alibi_slopes and sinks. scale and softcap may be named.

    Returns:
        (outputs, vjp). `outputs` is what attn.attention returns. `vjp(do, dlse=None,
        **cotangents)` takes a cotangent for the output and, where it is returned,
        for the LSE; for others by name, as dentropy. It returns a dict of gradients
        by argument name, each of the argument's shape and type. It may be called
        many times, and gives the same bits.

    Raises:
        ValueError, TypeError: as attn.attention; or a monoid that has no gradients,
            with the reason.
        NotImplementedError: an option that has none yet.
    """
    if options.pop("out", None) is not None:
        _fail("no out where gradients are wanted", "one")
    plan = Plan(q, k, v, inputs=inputs, **options)
    results, state = plan.forward()
    pick = plan.call._picker()
    outputs = pick([arrays.like(plan.call.like, result) for result in results])

    def vjp(do=None, dlse=None, **others):
        cotangents = {}
        for name, value in [("d" + plan.names[0], do), ("dlse", dlse), *others.items()]:
            if value is None:
                continue
            if not name.startswith("d") or name[1:] not in plan.names:
                _fail(
                    "cotangents of what was returned, %s"
                    % ", ".join("d" + name for name in plan.names),
                    repr(name),
                    TypeError,
                )
            cotangents[name[1:]] = value
        return plan.backward(results, state, cotangents)

    vjp.plan = plan
    return outputs, vjp

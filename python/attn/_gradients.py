"""Gradients: attn.attention_vjp, and what training in a framework is built on.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

A `Plan` is one call of attention with its operands: `forward` gives the results and
what the backward pass reads of each row, `backward` takes these and a cotangent for
each result. A plan made again of the same operands and options is the same plan, so
that a framework may keep the arrays alone.
"""

import copy
import ctypes
import math
from typing import Any, Callable, Dict, Tuple

from . import _arrays as arrays
from . import _call
from . import _checks as checks
from . import _gradient_blocks as blocks
from . import _gradient_sums as sums
from . import _kernel
from . import _library as c
from . import _masks
from . import _rotary
from ._checks import fail as _fail

# Arguments that have gradients, by the names of the kernel's inputs.
_NAMES = ("q", "k", "v", "scale", "softcap", "bias", "alibi_slopes", "sinks")
_NAMES += ("monoid_params",)
_DEFAULT = ("q", "k", "v", "bias", "alibi_slopes", "sinks")
_BATCH, _HEADS, _QUERIES, _KEYS = _call.BROADCAST
_MOST_PROGRAMS = 256
_programs = {}


class _Program:
    """The kernels of a description: forward, backward, and of pairs; where the order of
    keys matters, of a block's states, too."""

    def __init__(self, desc, inputs, target):
        names = ",".join(inputs).encode()
        self.text = c.text_of(
            c.lib.attnDifferentiateAttention, ctypes.byref(desc), names
        )
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
        self.distances = entry("distances")
        self.states = entry("states")
        # A block of a general monoid takes the state ahead of it.
        self.unfolds = self.states is not None and any(
            arg.name == "state0" for arg in self.states.inputs
        )
        # What each result of these is a gradient of, and where it is read.
        gradients = sums.parse(self.text)
        self.of_backward = gradients.get("attention_backward", [])
        self.of_pairs = gradients.get("attention_pairs", [])
        self.of_distances = gradients.get("attention_distances", [])
        self.near = sums.near_diagonals(self.text)


class _BySequence:
    """What stands for the kernels of packed sequences in which the order of keys
    matters: they are differentiated one after the other."""

    backward = pairs = distances = states = None

    def __init__(self, forward):
        self.forward = forward


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
        The module with @f_forward and @f_backward (and @f_distances or @f_pairs, for
        captures with an element for each row and key, or at computed indices;
        @f_states, of suffix and prefix monoids) in the place of @f: docs/Gradients.md.
    """
    if not isinstance(text, (str, bytes)):
        _fail("MLIR text", arrays.describe(text), TypeError)
    data = text.encode() if isinstance(text, str) else text
    if inputs is not None:
        inputs = ",".join(checks.names("inputs", inputs, "arguments"))
    names = None if inputs is None else inputs.encode()
    source = None if source_name is None else str(source_name).encode()
    return c.text_of(c.lib.attnDifferentiate, data, len(data), names, source)


def clear() -> None:
    """Lets go of the kernels that are kept."""
    _programs.clear()


def _dense(array, dtype, copy=False):
    """`array` as a kernel takes it: of that type, 1 apart in the last dimension."""
    if arrays.is_torch(array):
        array = array.resolve_neg()  # which autograd may leave pending
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


def _cast(array, like):
    """To the type of an array that was given."""
    if arrays.is_torch(array):
        return array.to(like.dtype) if arrays.is_torch(like) else array
    dtype = getattr(like, "dtype", None)
    return array.astype(dtype) if arrays.is_numpy(like) else array


def _is_parameter(name):
    """Whether this is an input for a parameter of the monoid; captures have other
    names."""
    return name.startswith("param") and name[len("param") :].isdigit()


def _place_of_pairs(shape, n, rows, keys):
    """Where the pairs of sequence n are in an array of the pairs of all."""
    at = n if shape[0] != 1 else 0
    sizes = [s if s == 1 else m for s, m in zip(shape[2:], (rows, keys))]
    return (slice(at, at + 1), slice(None), slice(sizes[0]), slice(sizes[1]))


class Plan:
    """A call of attention whose gradients are wanted.

    Attributes:
        names: the outputs of the monoid that `forward` gives, from "o".
        inputs: the names of the arguments that `backward` gives gradients of.
    """

    def __init__(self, q, k, v, *, inputs=None, target=None, **options):
        for name in ("block_table", "k_start", "k_new", "v_new", "rolling"):
            if options.get(name) is not None and options[name] is not False:
                _fail(
                    "attention without a cache where gradients are wanted, with q, k "
                    "and v as arrays or packed",
                    name,
                    NotImplementedError,
                )
        _rotary.check_traced(options.get("rotary"))
        if inputs is not None:
            inputs = checks.names("inputs", inputs, "arguments")
        wants_bias = inputs is None or "bias" in inputs
        if options.get("bias") is not None and wants_bias:
            options["bias"] = _whole(options["bias"])
        self.given = dict(options, q=q, k=k, v=v)
        self.options = options
        self.call = _call.Call(q, k, v, **options)
        self.target = target if target else c.device_target(self.call.device)
        self.value_in_key = v is None and "v" in self.call.views
        self.inputs = self._choose(inputs)
        self.names = self.call.output_names[: self.call.desc.numOutputs]
        self.asked = asked = self.inputs or ("q",)
        if self.value_in_key and "k" in asked:
            self.asked = asked = asked + ("v",)
        # A bias of pairs, where sequences are packed, has a program of its own.
        self.packed_bias = self.call.layout == "thd" and self._has_pairs("bias")
        if self.packed_bias:
            if self.call.views.get("dropout_p") is not None:
                _fail(
                    "no dropout where a bias of rows and keys has a gradient and "
                    "layout is 'thd'",
                    "dropout_p",
                    NotImplementedError,
                )
            asked = tuple(name for name in asked if name != "bias") or ("q",)
        kernel_inputs = []
        for name in asked:
            if name == "monoid_params":
                count = len(self.given[name])
                kernel_inputs += ["param%d" % i for i in range(count)]
            else:
                kernel_inputs.append(name)
        # All that are given are to be taken, whether they are asked for or not.
        params = [name for name in self.call.views if _is_parameter(name)]
        try:
            self.program = _program(self.call, tuple(kernel_inputs), self.target)
            kernel = self.program.forward
            taken = {arg.name for arg in kernel.inputs}
        except ValueError as error:
            if "expected sequences that are not packed" in str(error):
                self._check_by_sequence()
                self.program = _BySequence(self.call.compile(target=self.target))
                kernel = self.program.forward
                taken = {arg.name for arg in kernel.inputs}
            elif "but got 'param" in str(error):
                taken = set()
            else:
                raise
        if not taken.issuperset(params):
            _fail("as many monoid_params as the monoid takes", len(params))
        _masks.bind_captures(self.call, kernel.inputs)
        for arg in kernel.inputs:
            if arg.name not in self.call.views:
                _fail(_masks.describe_missing(arg.name), "none")

    @property
    def operands(self):
        """Views of the inputs of the forward pass, in order."""
        return [self.call.views[arg.name] for arg in self.program.forward.inputs]

    def template(self, arrays_given):
        """This plan without its arrays, which `bound` gives others; None where it
        holds arrays that were made of the caller's (a list, a bias that repeats), or
        numbers that were read from them."""
        for name, view in self.call.views.items():
            if view.shape and view.owner is not self._owner(name, arrays_given):
                return None
        views = [self.call.views[n] for n in self.call.captures if n in arrays_given]
        if not all(view.shape for view in views):
            return None
        return self._with(dict.fromkeys(arrays_given), lambda view, owner: 0)

    def bound(self, arrays_given):
        """The plan that `template` was made of, on arrays of the same types, sizes,
        strides and devices, by name."""

        def address(view, owner):
            where = owner.data_ptr()
            if where % arrays.item_size(view.dtype):
                raise arrays.misaligned("operands")
            return where

        return self._with(arrays_given, address)

    def _owner(self, name, arrays_given):
        """The array that a view is of."""
        return arrays_given["k" if name == "v" and self.value_in_key else name]

    def _with(self, arrays_given, address):
        plan, call = copy.copy(self), copy.copy(self.call)
        plan.call, call.like = call, arrays_given["q"]
        call.views = dict(call.views)
        for name, view in call.views.items():
            if not view.shape:  # a number
                continue
            owner = self._owner(name, arrays_given)
            call.views[name] = arrays.View(
                address(view, owner), view.dtype, view.shape, view.strides, owner,
                view.device,
            )

        def given(options):
            return {n: arrays_given.get(n, value) for n, value in options.items()}

        call.captures = given(call.captures)
        plan.given = dict(self.given, **arrays_given)
        plan.options = given(self.options)
        if plan.options.get("captures") is not None:
            plan.given["captures"] = plan.options["captures"] = call.captures
        return plan

    def _choose(self, inputs):
        views = self.call.views
        there = [name for name in _NAMES if self.given.get(name) is not None]
        if not len(self.given.get("monoid_params", ())):
            there = [name for name in there if name != "monoid_params"]
        there = [n for n in there if n in views or n == "monoid_params"]
        floats = {
            name: arrays.kind_of(value)
            and arrays.view(name, value).dtype in _call.FLOATS
            for name, value in self.call.captures.items()
        }
        there += list(floats)
        if inputs is None:
            return tuple(n for n in there if n in _DEFAULT or floats.get(n))
        for name in inputs:
            if name not in there:
                _fail(
                    "inputs to name arguments that are given, of %s" % ", ".join(there),
                    repr(name),
                )
        return tuple(name for name in there if name in inputs)

    def _has_pairs(self, name):
        """Whether a bias is asked for that is read by row and by key."""
        flags = self.call.desc.bias
        if name not in self.asked or flags & _KEYS:
            return False
        # What keys alone have is added up over the rows.
        return not (flags & _HEADS and flags & _QUERIES)

    def _make(self, kernel, outputs=None):
        """New arrays for what a kernel gives, or some of it, by its names of
        dimensions, and views in its order."""
        results = []
        q = self.call.views["q"].shape
        k = self.call.views["k"].shape
        outputs = kernel.outputs if outputs is None else outputs
        for arg in outputs:
            rows = k if self._is_of_keys(arg) else q
            shape = list(rows[:-1])
            if len(arg.shape) == len(q):
                shape.append(arg.shape[-1])
            dense = [0] * len(shape)
            for i, axis in enumerate(self._axes_of(arg)):
                dense[axis] = shape[i]
            results.append(arrays.empty(self.call.like, arg.code, dense))
        return results, self._views_of(outputs, results)

    def _axes_of(self, arg):
        axes = self.call.axes
        return axes if len(arg.shape) == len(axes) else range(len(arg.shape))

    def _views_of(self, args, made):
        """Views of arrays as `_make` gives them, in the kernel's order."""
        return [
            arrays.view(arg.name, array).permuted(self._axes_of(arg))
            for arg, array in zip(args, made)
        ]

    def runs_alone(self):
        """Whether a pass is one run of a kernel, and what that of the backward pass
        gives are the gradients."""
        program, asked = self.program, set(self.asked)
        others = program.pairs, program.distances, program.states
        return (
            program.backward is not None
            and bool(self.inputs)
            and not any(others)
            and not self.packed_bias
            and not self.value_in_key
            and asked <= {"q", "k", "v"}
            and [name for name, _ in program.of_backward] == list(self.asked)
            and len(program.of_backward) == len(program.backward.outputs)
        )

    def packed_forward(self, operands, names, made):
        """`forward` of a plan that runs alone, to be run on other arrays.

        Args:
            operands, names: the arrays of this call, and what they are called.
            made: what it has given.
        """
        kernel = self.program.forward
        return self._packed(kernel, operands, names, self.operands, made)

    def packed_backward(self, operands, names, results, state, cotangents, made):
        """As `packed_forward`, of `backward`; behind the operands come results, state
        and cotangents."""
        kernel = self.program.backward
        saved = [arg.name for arg in kernel.inputs if arg.name.startswith("saved")]
        if len(saved) != len(state):
            return None
        names += tuple("out%d" % i for i in range(len(results)))
        names += tuple(saved)
        names += tuple("dout%d" % i for i in range(len(results)))
        operands += tuple(results) + tuple(state) + tuple(cotangents)
        inputs, _ = self._views(results, state, cotangents)
        return self._packed(kernel, operands, names, inputs, made)

    def _packed(self, kernel, operands, names, inputs, made):
        """None where an array was made of one of the caller's."""
        if len(inputs) != len(kernel.inputs):
            return None
        places = []
        for arg, view in zip(kernel.inputs, inputs):
            place = names.index(arg.name) if arg.name in names else None
            is_number = not view.shape and place is None
            if not is_number and (place is None or view.owner is not operands[place]):
                return None
            places.append(place)
        places += [None] * len(made)
        views = self._views_of(kernel.outputs, made)
        return kernel.packed(operands, inputs, views, places, made, names)

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
        program = self.program
        kernel = program.states or program.backward or program.pairs
        kernel = kernel or program.distances
        # Without either no score depends on anything.
        wanted = kernel.inputs[len(self.operands) :] if kernel else ()
        axes, found, keep = self.call.axes, list(self.operands), []
        places = iter(state)
        for arg in wanted:
            if not arg.name.startswith(("saved", "out", "dout")):
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
        cotangents = list(cotangents)
        if isinstance(self.program, _BySequence):
            found = self._each_sequence(cotangents)
            return {x: arrays.like(self.call.like, found[x]) for x in self.inputs}
        inputs, keep = self._views(results, state, cotangents)
        kernel, pairs = self.program.backward, self.program.pairs
        found = {}
        if self.program.states is not None:
            (blocks.unfold if self.program.unfolds else blocks.walk)(
                self, inputs, found
            )
        elif kernel is not None:
            made, views = self._make(kernel)
            self._run(kernel, inputs, views)
            for (name, place), arg, array in zip(
                self.program.of_backward, kernel.outputs, made
            ):
                if name not in ("q", "k", "v"):
                    array = self._reduce(name, place, array, self._is_of_keys(arg))
                # Of a table several elements, and below those of near pairs.
                found[name] = found[name] + array if name in found else array
        if pairs is not None and self.program.states is None:
            blocks.run_pairs(self, inputs, found)
        if self.program.distances is not None:
            blocks.run_distances(self, inputs, found)
        if self.packed_bias:
            found["bias"] = self._add_sequences(results, state, cotangents)
        gradients = {}
        for name in self.asked:
            if name == "monoid_params":
                gradients[name] = self._of_params(found)
                continue
            array = found.get(name)
            like = self._given(name)
            if array is None:  # no score depends on it
                shape = arrays.view(name, like).shape if arrays.kind_of(like) else ()
                array = _zeros(self.call.like, c.F32, shape)
            if name not in ("q", "k", "v"):
                array = _cast(array, like)
            gradients[name] = array
        if self.value_in_key and "v" in gradients:
            value = gradients.pop("v")
            gradients["k"][..., : value.shape[-1]] += value
        return {
            name: arrays.like(self.call.like, gradients[name]) for name in self.inputs
        }

    def _given(self, name):
        if name in self.call.captures and name not in _NAMES:
            return self.call.captures[name]
        return self.given[name]

    def _as_input(self, name, array):
        """A gradient that may be of a wider type than its argument."""
        if name not in ("q", "k", "v"):
            return array
        return _dense(array, self.call.views[name].dtype)

    def _of_params(self, found):
        result = _zeros(self.call.like, c.F32, (len(self.given["monoid_params"]),))
        for i in range(result.shape[0]):
            if "param%d" % i in found:
                result[i] = found["param%d" % i]
        return result

    def _reduce(self, name, place, array, of_keys):
        """From what each row has (each key, of what is read by key) to the argument."""
        packed = self.call.layout == "thd"
        if name in ("scale", "softcap") or _is_parameter(name) or (
            name in self.call.captures and not place
        ):
            return sums.add_up(array, range(len(array.shape)), ())
        if name in self.call.captures:
            view = arrays.view(name, self.call.captures[name])
            return self._total(array, place, view.shape, of_keys)
        view = self.call.views[name]
        if name == "bias":
            shape = self.given["bias"].shape
            if packed:
                result = self._total(array, "b,h,i,j", view.shape, of_keys)
                return result.reshape(shape)
            kept = [0, 1, 3] if _KEYS & ~self.call.desc.bias else [0, 1, 2]
            drop = [i for i, axis in enumerate(kept) if view.shape[axis] == 1]
            return sums.add_up(array, drop, shape)
        # [hq] or [b, hq]
        if packed:
            if len(view.shape) == 2:
                return self._total(array, "b,h", view.shape, False)
            return sums.add_up(array, [1], view.shape)
        return sums.add_up(array, [2] if len(view.shape) == 2 else [0, 2], view.shape)

    def _total(self, array, place, shape, of_keys):
        """Adds up what rows or keys have, at a place. Of keys heads are those of k, and
        no index is of these."""
        total = sums.Total(self.call.like, shape)
        if self.call.layout != "thd":
            total.add(array, place, sums.positions_of_rows(array.shape))
            return total.get()
        offsets = self.given["cu_seqlens_k" if of_keys else "cu_seqlens_q"]
        rows, positions = sums.positions_in_sequences(offsets, array.shape)
        if arrays.is_torch(array):
            rows = arrays.torch_module().from_numpy(rows).to(array.device)
        total.add(array[:, rows], place, positions)
        return total.get()

    def _shape_of(self, name):
        if name == "bias":
            return self.call.views[name].shape
        return arrays.view(name, self.call.captures[name]).shape

    def _plans_of_sequences(self, inputs):
        """For each sequence with rows and keys: its number, its rows, its keys and a
        plan of it alone."""
        offsets = [
            [int(x) for x in self.given[name]]
            for name in ("cu_seqlens_q", "cu_seqlens_k")
        ]
        options = dict(self.options, layout="bshd")
        del options["cu_seqlens_q"], options["cu_seqlens_k"]
        views, slopes = self.call.views, options.get("alibi_slopes")
        number = _masks.take_number(options)
        pairs = zip(*(zip(x, x[1:]) for x in offsets))
        for n, ((i0, i1), (j0, j1)) in enumerate(pairs):
            if i0 >= i1 or j0 >= j1:
                continue
            for name in ("bias", "mask"):
                array = self.options.get(name)
                if arrays.kind_of(array):
                    shape = (1,) * (4 - len(array.shape)) + tuple(array.shape)
                    place = _place_of_pairs(shape, n, i1 - i0, j1 - j0)
                    options[name] = array.reshape(shape)[place]
            if number is not None:
                options["captures"] = dict(options.get("captures") or {})
                options["captures"][number] = n
            if slopes is not None and len(views["alibi_slopes"].shape) == 2:
                options["alibi_slopes"] = slopes[n : n + 1]
            operands = [
                None if x is None else x[None, a:b]
                for x, a, b in (
                    (self.given["q"], i0, i1),
                    (self.given["k"], j0, j1),
                    (self.given["v"], j0, j1),
                )
            ]
            plan = Plan(*operands, inputs=inputs, target=self.target, **options)
            yield n, slice(i0, i1), slice(j0, j1), plan

    def _place_of_bias(self, n, rows, keys):
        """Where the bias of a sequence is."""
        return _place_of_pairs(self.call.views["bias"].shape, n, rows, keys)

    @staticmethod
    def _rows_of(array, rows):
        """Some rows of what all sequences have."""
        if array is None:
            return None
        whole = len(array.shape) == 3
        return array[None, rows] if whole else array[None, :, rows]

    def _add_sequences(self, results, state, cotangents):
        """The gradient of a bias of pairs, of one sequence after the other."""
        view = self.call.views["bias"]
        total = _zeros(self.call.like, c.F32, view.shape)
        for n, rows, keys, plan in self._plans_of_sequences(("bias",)):
            found = plan.backward(
                *([self._rows_of(x, rows) for x in y]
                  for y in (results, state, cotangents))
            )
            place = self._place_of_bias(n, rows.stop - rows.start,
                                        keys.stop - keys.start)
            total[place] += found["bias"].reshape(total[place].shape)
        return total.reshape(self.given["bias"].shape)

    def _each_sequence(self, cotangents):
        """All gradients, of one sequence after the other, whose forward pass runs
        again."""
        found = {}
        for name in self.inputs:
            view = self.call.views[name]
            shape = view.shape if name in ("bias", "alibi_slopes") else (
                self.given[name].shape
            )
            dtype = view.dtype if name in ("q", "k", "v") else c.F32
            found[name] = _zeros(self.call.like, dtype, shape)
        for n, rows, keys, plan in self._plans_of_sequences(self.inputs):
            parts = [self._rows_of(x, rows) for x in cotangents]
            for name, part in plan.backward(*plan.forward(), parts).items():
                if name in ("q", "k", "v"):
                    found[name][rows if name == "q" else keys] = part[0]
                    continue
                place = slice(None)
                if name == "bias":
                    place = self._place_of_bias(n, rows.stop - rows.start,
                                                keys.stop - keys.start)
                elif len(found[name].shape) == 2:
                    place = slice(n, n + 1)
                found[name][place] += part.reshape(found[name][place].shape)
        return {
            name: array if name in ("q", "k", "v")
            else _cast(array.reshape(self.given[name].shape), self.given[name])
            for name, array in found.items()
        }

    def _check_by_sequence(self):
        """What a plan for each sequence does not know is refused: its number among
        them, and where its rows are."""
        for name in ("score_mod", "mask_mod", "block_mask"):
            if self.options.get(name) is not None:
                _fail(
                    "no %s where gradients of a monoid for which the order of keys "
                    "matters are wanted and layout is 'thd'" % name,
                    name,
                    NotImplementedError,
                )
        for name in self.inputs:
            if name not in ("q", "k", "v", "bias", "alibi_slopes"):
                _fail(
                    "inputs of q, k, v, bias and alibi_slopes where layout is 'thd' "
                    "and the order of keys matters",
                    repr(name),
                    NotImplementedError,
                )
        if self.call.views.get("dropout_p") is not None:
            _fail(
                "no dropout where the order of keys matters and layout is 'thd'",
                "dropout_p",
                NotImplementedError,
            )

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
            q, k, v, bias, alibi_slopes and sinks, and arrays of `captures`. scale,
            softcap, monoid_params and numbers of `captures` may be named.

    Returns:
        (outputs, vjp). `outputs` is what attn.attention returns. `vjp(do, dlse=None,
        **cotangents)` takes a cotangent for the output and, where it is returned,
        for the LSE; for others by name, as dentropy. It returns a dict of gradients
        by argument name, each of the argument's shape and type. It may be called
        many times, and gives the same bits. It reads the arguments and the outputs
        in their memory: neither may be changed in place before the last call.

    Raises:
        ValueError, TypeError: as attn.attention; or a monoid that has no gradients,
            with the reason; of vjp also where a tensor of torch was changed in place.
        NotImplementedError: an option that has none yet.
    """
    if options.pop("out", None) is not None:
        _fail("no out where gradients are wanted", "one")
    plan = Plan(q, k, v, inputs=inputs, **options)
    results, state = plan.forward()
    pick = plan.call._picker()
    outputs = pick([arrays.like(plan.call.like, result) for result in results])
    held = list(plan.given.values()) + results
    versions = arrays.versions(held)

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
        if arrays.versions(held) != versions:
            _fail(
                "arguments and outputs as they were in the forward pass",
                "a tensor that was changed in place; change a copy",
            )
        return plan.backward(results, state, cotangents)

    vjp.plan = plan
    return outputs, vjp

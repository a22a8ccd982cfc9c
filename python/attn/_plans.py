"""Calls of attn.attention that are like one before them.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

What a call checks, chooses and describes depends on its options and on the types,
sizes, strides and devices of its arrays. A call that agrees with an earlier one in
all of these differs from it in addresses alone: it takes that one's description
with addresses of its own, which the library checks as always.
"""

import ctypes
import marshal

from . import _arrays as arrays
from . import _library as c

# The arrays of a call, in this order, then `out`.
OPERANDS = ("q", "k", "v", "mask", "bias", "alibi_slopes", "sinks", "kv_lengths")
OPERANDS += ("cu_seqlens_q", "cu_seqlens_k", "block_table", "k_start", "k_new", "v_new")
OPERANDS += ("rotary_cos", "rotary_sin")
_OUT = len(OPERANDS)
_NAMES = OPERANDS + ("out",)

# Plans that are kept: sizes that never come back must not fill the memory.
_MOST = 1024
_plans = {}

_WORD = ctypes.sizeof(ctypes.c_uint64)
_TENSOR_WORDS = ctypes.sizeof(c.Tensor) // _WORD
# Of these, equal ones of one type mean the same, now and later, but for zeros.
_PLAIN = frozenset((type(None), bool, int, float, str))


def plain_of(options):
    """What plain options alone have, equal only where they mean the same (True == 1,
    and -0.0 == 0.0); None where one is not plain."""
    return marshal.dumps(options, 2) if _are_plain(options) else None


def _are_plain(options):
    for value in options:
        kind = type(value)
        if kind not in _PLAIN and not (kind is tuple and _are_plain(value)):
            return False
    return True


def key_of(operands, options):
    """What makes calls alike, or None where no plan serves.

    Args:
        operands: the arrays, or None for those that are not given.
        options: a tuple of all other arguments.
    """
    tensor, ndarray = arrays.tensor_type(), arrays.ndarray_type()
    if tensor is not None:
        torch = arrays.torch_module()
        # Dynamo would make code for each size out of what is kept.
        if _is_traced(torch) or arrays.in_forward_ad():
            return None
        strided, wants_gradients = torch.strided, torch.is_grad_enabled()
    key = []
    for operand in operands:
        kind = type(operand)
        if operand is None:
            key.append(None)
        elif kind is tensor:
            if (
                wants_gradients
                and operand.requires_grad
                or operand.layout is not strided
                or operand.is_nested
                or operand.is_neg()
            ):
                return None
            key += operand.dtype, operand.shape, operand.stride(), operand.device
        elif kind is ndarray:
            flags = operand.flags
            key += operand.dtype, operand.shape, operand.strides
            key += flags.aligned, flags.writeable
        else:
            return None
    exact = plain_of(options)
    if exact is None:
        return None
    key.append(exact)
    return tuple(key)


def _is_traced(torch):
    is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    return is_compiling is not None and is_compiling()


def find(key):
    """The plan for calls of this key, or None."""
    # Dynamo, which has no key, would look into all that there are.
    return None if key is None else _plans.get(key)


def remember(key, operands, desc, args, inputs, outputs, results, pick):
    """Makes a plan of a call that has run, if it can be one.

    Args:
        desc: the description (c.AttentionDesc) of the call.
        args: what the description says of each input.
        inputs, outputs: the views (attn._arrays) that the kernel ran on.
        results: the arrays of the outputs.
        pick: a function from `results` to what the call returns.
    """
    if key is None:
        return
    places = []
    for arg, view in zip(args, inputs):
        if arg.shape is None:
            places.append(None)
            continue
        place = OPERANDS.index(arg.name)
        if arg.name == "v" and operands[place] is None:
            place = OPERANDS.index("k")  # the first columns of it
        if view.owner is not operands[place]:
            return  # it was converted, which must happen each time
        places.append(place)
    for result in results:
        places.append(_OUT if result is operands[_OUT] else None)
    if len(_plans) >= _MOST:
        _plans.clear()
    _plans[key] = _Plan(operands, desc, inputs, outputs, places, results, pick)


def clear():
    """Lets go of all plans."""
    _plans.clear()


class Packed:
    """A call of the library on arrays like those of one before it. It holds no array.

    Args:
        function, head: what is called, and with which two words first.
        operands: the arrays of that call.
        inputs, outputs: the views (attn._arrays) that it ran on.
        places: of each view the operand that it is of; None: a number that is the
            same in all calls, or an output that is made.
        results: the arrays of the outputs.
        options: c.RunOptions.
        names: of the operands, for errors.
    """

    def __init__(
        self, function, head, operands, inputs, outputs, places, results, options, names
    ):
        self._function, self._names = function, names
        views = inputs + outputs
        tensors, self._keep = arrays.pack(views)
        self._device = next((view.device for view in views if view.shape), None)
        self._template = bytes(tensors) + bytes(options)
        self._words = ctypes.c_uint64 * (len(self._template) // _WORD)
        # Scalars are the same in all these calls.
        self._keep += [
            view.owner
            for view, place in zip(views, places)
            if not view.shape and place is None
        ]

        # Where addresses go, and whose.
        self._operands, self._results = [], []
        for i, place in enumerate(places):
            slot, made = i * _TENSOR_WORDS, i - len(inputs)
            if place is not None:
                address = arrays.address_function(operands[place])
                odd = arrays.item_size(views[i].dtype) - 1
                self._operands.append((slot, place, address, odd))
            elif made >= 0:
                address = arrays.address_function(results[made])
                make = arrays.maker(
                    operands[0], outputs[made].dtype, results[made].shape
                )
                self._results.append((slot, make, address))

        outputs_at = ctypes.sizeof(c.Tensor) * len(inputs)
        options_at = ctypes.sizeof(tensors)
        self._stream = (options_at + c.RunOptions.stream.offset) // _WORD
        self._interrupt = (options_at + c.RunOptions.interrupt.offset) // _WORD
        self._head = head
        self._layout = len(inputs), outputs_at, len(outputs), options_at

    def run(self, operands):
        """The arrays that are made, for `operands` in the order of that call's."""
        words = self._words.from_buffer_copy(self._template)
        for slot, place, address, odd in self._operands:
            try:
                words[slot] = where = address(operands[place])
            except RuntimeError:
                raise arrays.without_memory(self._names[place]) from None
            if where & odd:
                raise arrays.misaligned(self._names[place])
        results = []
        for slot, make, address in self._results:
            result = make()
            words[slot] = address(result)
            results.append(result)
        words[self._interrupt] = c.interrupt() or 0
        if self._device is not None:
            words[self._stream] = arrays.stream_of(self._device) or 0
        start = ctypes.addressof(words)
        num_inputs, outputs_at, num_outputs, options_at = self._layout
        call = self._head + (start, num_inputs)
        call += start + outputs_at, num_outputs, start + options_at
        error = self._function(*call)
        if error:
            if c.go_on(error):
                words[self._interrupt] = 0
                error = self._function(*call)
            c.check(error)
        return results


class _Plan:
    """What calls of one key run. It holds no array."""

    def __init__(self, operands, desc, inputs, outputs, places, results, pick):
        self._desc, self._pick = desc, pick
        self._takes_out = operands[_OUT] is not None
        device = next((v.device for v in inputs + outputs if v.shape), None)
        self._packed = Packed(
            c.run_at,
            (c.context.value, ctypes.addressof(desc)),
            operands,
            inputs,
            outputs,
            places,
            results,
            c.run_options(device),
            _NAMES,
        )

    def run(self, operands):
        """As attn.attention of `operands`, which are in the order of OPERANDS."""
        results = self._packed.run(operands)
        if self._takes_out:
            results.insert(0, operands[_OUT])
        return self._pick(results)

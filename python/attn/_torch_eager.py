"""attn.attention with gradients on tensors of torch, call by call.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

The operator of torch (_torch_operator) can be held by a graph, and costs some hundred
microseconds of Python for each of its many arguments' sake. Where nothing looks on, a
call is an autograd function, and what it checks and describes is kept for calls that
are like it in all but addresses.
"""

from typing import Any

import torch

from . import _arrays as arrays
from . import _dropout
from . import _gradients
from . import _library as c
from . import _plans

# Tensors of attn.attention that may have gradients or are read; the other arguments
# are options.
TENSORS = ("q", "k", "v", "mask", "bias", "alibi_slopes", "sinks", "kv_lengths")
TENSORS += ("cu_seqlens_q", "cu_seqlens_k")
_REAL = ("q", "k", "v", "bias", "alibi_slopes", "sinks")
_KINDS = (torch.Tensor, torch.nn.Parameter)
_ALL = frozenset(_KINDS)
_MAYBE = _ALL | {type(None)}

# Templates of plans by what makes calls alike, and what such calls run (_Runs), where
# that is known: sizes that never come back must not fill the memory.
_MOST = 256
_templates = {}
_runs = {}


def key_of(tensors: tuple, options: dict) -> Any:
    """What calls that are like this one have in common beside their tensors, or None
    where it cannot be served here: nothing but autograd sees it, and the tensors, in
    the order of TENSORS, and those of `captures` are all that wants a gradient."""
    if options["block_mask"] is not None or not _MAYBE.issuperset(map(type, tensors)):
        return None
    captures = options["captures"]
    if captures is not None and not _are_plain(captures, options):
        return None
    plain = _plans.plain_of(tuple(_without_tensors(options).values()))
    return None if _is_watched() else plain


def _are_plain(captures, options):
    """Whether these are tensors and numbers whose names no argument has."""
    return type(captures) is dict and all(
        type(name) is str
        and name not in TENSORS
        and name not in options
        and name != "dropout_rng"
        and type(x) in _KINDS + (bool, int, float)
        for name, x in captures.items()
    )


def _without_tensors(options):
    """The options, with names and numbers of captures in the place of these."""
    captures = options["captures"]
    if captures is None:
        return options
    captures = tuple(
        (name, None if type(x) in _KINDS else x) for name, x in captures.items()
    )
    return dict(options, captures=captures)


def _is_watched() -> bool:
    """Whether modes or transforms of torch would miss an operator."""
    try:
        return bool(
            torch._C._len_torch_dispatch_stack()
            or torch._C._len_torch_function_stack()
            or torch._C._functorch.maybe_current_level() is not None
            or torch.jit.is_tracing()
            or torch._C._is_torch_function_mode_enabled()
        )
    except AttributeError:  # an older torch, or a newer one
        return True


def clear() -> None:
    """Lets go of all templates."""
    _templates.clear()
    _runs.clear()


def attention(tensors: tuple, options: dict, key: Any, rng: Any) -> Any:
    """As attn.attention of `tensors`, in the order of TENSORS, and the options.

    Args:
        key: what key_of has given.
        rng: dropout_rng, which is not among the options.

    Raises what attn.attention raises.
    """
    given = {name: x for name, x in zip(TENSORS, tensors) if x is not None}
    for name, x in (options["captures"] or {}).items():
        if type(x) in _KINDS:
            given[name] = x
    wanted = tuple(
        [name for name, x in given.items() if x.requires_grad and _may_want(name)]
    )
    box = _Box(tuple(given), wanted, options, key, rng)
    results = _Attention.apply(box, *given.values())
    return box.pick(list(results))


def _may_want(name):
    return name in _REAL or name not in TENSORS


class _Runs:
    """What calls of one key run: the forward pass, the backward pass for what is saved
    and cotangents of some layouts, and what picks a call's results. They hold no
    arrays."""

    def __init__(self, forward, count, pick):
        self.forward, self.count, self.pick = forward, count, pick
        self.backward = {}


class _Box:
    """What a call has beside its tensors: their names, those that want gradients, and
    the options. The numbers of dropout are others in each call."""

    def __init__(self, names, wanted, options, key, rng):
        self.names, self.wanted = names, wanted
        self.options, self.rng = options, rng
        self.words, self.numbers = {}, ()
        words = _dropout.words_of(options["dropout_p"], rng)
        if words is not None:
            self.words = {
                half: arrays.scalar(half, word, c.I32)
                for half, word in zip(_dropout.WORDS, words)
            }
            self.numbers = tuple(view.owner for view in self.words.values())
        self.alike = names, wanted, key
        self.pick = self.runs = None

    def plan_of(self, tensors):
        """The plan of a call of these tensors, in the order of the names."""
        given = dict(zip(self.names, tensors))
        key = self.alike + _layouts_of(tensors)
        template = _templates.get(key)
        if template is not None:
            plan = template.bound(given)
            plan.call.views.update(self.words)
            for options in (plan.given, plan.options):
                options["dropout_rng"] = self.rng
            return plan
        options = dict(self.options, dropout_rng=self.rng)
        options.update((name, given.get(name)) for name in TENSORS)
        if options["captures"] is not None:
            options["captures"] = {
                name: given.get(name, x) for name, x in options["captures"].items()
            }
        q, k, v = (options.pop(name) for name in ("q", "k", "v"))
        plan = _gradients.Plan(q, k, v, inputs=self.wanted, **options)
        template = plan.template(given)
        if template is not None:
            if len(_templates) >= _MOST:
                clear()
            _templates[key] = template
        return plan

    def keep_forward(self, plan, tensors, results, state):
        """Keeps what a call has run, which was like none before it."""
        key = self.alike + _layouts_of(tensors)
        if key not in _templates or not plan.runs_alone():
            return
        operands, names = tensors + self.numbers, self.names + tuple(self.words)
        plan.call.views.update(self.words)
        made = results + state
        packed = plan.packed_forward(operands, names, made)
        if packed is not None:
            _runs[key] = self.runs = _Runs(packed, len(results), self.pick)


def _layouts_of(tensors):
    parts = []
    for x in tensors:
        if x is None:
            parts.append(None)
        else:
            parts += x.dtype, x.shape, x.stride(), x.device, x.is_neg(), x.layout
    return tuple(parts)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, box, *tensors):
        runs = box.runs = _runs.get(box.alike + _layouts_of(tensors))
        if runs is not None:
            made = runs.forward.run(tensors + box.numbers)
            results, state = made[: runs.count], made[runs.count :]
            box.pick = runs.pick
        else:
            plan = box.plan_of(tensors)
            results, state = plan.forward()
            box.pick = plan.call._picker()
            box.keep_forward(plan, tensors, results, state)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, *results, *state)
        ctx.box, ctx.count = box, len(results)
        return tuple(results)

    @staticmethod
    def backward(ctx, *cotangents):
        box, count, saved = ctx.box, ctx.count, ctx.saved_tensors
        if torch.is_grad_enabled():
            run = lambda: _backward(box, count, saved, cotangents)
            return (None, *_Gradients.apply(run, *saved, *cotangents))
        return (None, *_backward(box, count, saved, cotangents))


def _backward(box, count, saved, cotangents):
    """The gradients in the order of the names, None where none is wanted."""
    # What is saved may be no more as it was: hooks of torch move it, or narrow it.
    all_arrays, runs, layouts = saved + cotangents, box.runs, None
    if runs is not None and _ALL.issuperset(map(type, all_arrays)):
        layouts = _layouts_of(all_arrays)
        packed = runs.backward.get(layouts)
        if packed is not None:
            operands = all_arrays
            if box.numbers:
                end = len(box.names)
                operands = saved[:end] + box.numbers + saved[end:] + cotangents
            made = packed.run(operands)
            return packed.give(made, saved)
    tensors, rest = saved[: len(box.names)], saved[len(box.names) :]
    plan = box.plan_of(tensors)
    results, state = rest[:count], rest[count:]
    found = plan.backward(results, state, cotangents)
    made = [found[name] for name in plan.asked]
    give = _give(box.names, plan.asked, made, tensors)
    if layouts is not None and len(runs.backward) < _MOST:
        packed = plan.packed_backward(
            tensors + box.numbers,
            box.names + tuple(box.words),
            results,
            state,
            cotangents,
            made,
        )
        if packed is not None:
            packed.give = give
            runs.backward[layouts] = packed
    return give(made, tensors)


def _give(names, asked, made, tensors):
    """The function from gradients that are made, and the tensors, to a result for each
    name: gradients of the tensor's shape and type, or None."""
    places = [asked.index(name) if name in asked else None for name in names]
    if all(
        place is None
        or made[place].shape == x.shape
        and made[place].dtype == x.dtype
        and made[place].device == x.device
        for place, x in zip(places, tensors)
    ):
        return lambda made, _: [None if i is None else made[i] for i in places]
    return lambda made, tensors: [
        None if i is None else _as(made[i], x) for i, x in zip(places, tensors)
    ]


class _Gradients(torch.autograd.Function):
    """The gradients, where a graph of them is made: they have none."""

    @staticmethod
    def forward(ctx, run, *tensors):
        return tuple(run())

    @staticmethod
    def backward(ctx, *cotangents):
        raise RuntimeError(
            "attn: expected first derivatives of attn.attention, but got a derivative "
            "of its gradients; there are no second ones"
        )


def _as(gradient, tensor):
    """Of the tensor's shape and type."""
    if gradient.dtype != tensor.dtype or gradient.device != tensor.device:
        gradient = gradient.to(dtype=tensor.dtype, device=tensor.device)
    if gradient.shape == tensor.shape:
        return gradient
    return gradient.reshape(tensor.shape)

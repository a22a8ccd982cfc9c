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
_STRIDED = torch.strided

# The options, in the order in which `again` has them, without numbers of dropout.
OPTIONS = ("scale", "causal", "window", "softcap", "score_mod", "mask_mod", "monoid")
OPTIONS += ("layout", "return_lse", "return_aux", "monoid_params", "precision")
OPTIONS += ("rolling", "batch_invariant", "v_dim", "captures", "block_mask")
OPTIONS += ("dropout_p", "deterministic")

# Templates of plans by what makes calls alike, and what such calls run (_Runs), where
# that is known: sizes that never come back must not fill the memory.
_MOST = 256
_templates = {}
_runs = {}


def again(tensors: tuple, options: tuple, rng: Any) -> Any:
    """attn.attention of a call that is like one before it whose passes are packed, or
    None where it is not. The tensors are in the order of TENSORS, the options in that
    of OPTIONS; there are no others."""
    if not torch.is_grad_enabled() or not _are_strided(tensors):
        return None
    plain = _plans.plain_of(options)
    if plain is None:
        return None
    given = [x for x in tensors if x is not None]
    runs = _runs.get(_alike(plain, tensors) + _layouts_of(given))
    if runs is None or _is_watched():
        return None
    kind = given[0].device.type
    if torch.is_autocast_enabled(kind):
        if torch.get_autocast_dtype(kind) is not given[0].dtype:
            return None
    return _Box(runs.call, rng, runs).run(given)


def _are_strided(tensors):
    """Whether these are None or tensors with strides, of no subclass."""
    return _MAYBE.issuperset(map(type, tensors)) and not any(
        [x is not None and (x.layout is not _STRIDED or x.is_nested) for x in tensors]
    )


def _alike(plain, tensors):
    """What calls with the same options have in common beside the layouts of their
    tensors: which are given, and which want gradients."""
    return plain, tuple([None if x is None else x.requires_grad for x in tensors])


def plain_of(tensors: tuple, options: dict) -> Any:
    """What options are alike, or None where a call cannot be served here: nothing but
    autograd sees it, and the tensors, in the order of TENSORS, and those of `captures`
    are all that wants a gradient."""
    if options["block_mask"] is not None or not _are_strided(tensors):
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
            or torch._C._is_tracing()
        )
    except AttributeError:  # an older torch, or a newer one
        return True


def clear() -> None:
    """Lets go of all templates."""
    _templates.clear()
    _runs.clear()


def attention(tensors: tuple, options: dict, plain: Any, rng: Any) -> Any:
    """As attn.attention of `tensors`, in the order of TENSORS, and the options.

    Args:
        plain: what plain_of has given.
        rng: dropout_rng, which is not among the options.

    Raises what attn.attention raises.
    """
    given = {name: x for name, x in zip(TENSORS, tensors) if x is not None}
    for name, x in (options["captures"] or {}).items():
        if type(x) in _KINDS:
            given[name] = x
            tensors += (x,)
    call = _Call(given, _without_tensors(options), _alike(plain, tensors))
    return _Box(call, rng).run(given.values())


class _Call:
    """What a call and those that are like it have beside their arrays."""

    def __init__(self, given, options, alike):
        self.names, self.options, self.alike = tuple(given), options, alike
        self.wanted = tuple(
            name
            for name, x in given.items()
            if x.requires_grad and (name in _REAL or name not in TENSORS)
        )


class _Runs:
    """What calls of one key run: the forward pass, the backward pass for what is saved
    and cotangents of some layouts, and what picks a call's results. They hold no
    arrays."""

    def __init__(self, call, forward, count, pick):
        self.call, self.forward, self.count, self.pick = call, forward, count, pick
        self.backward = {}


class _Box:
    """One call: what it has in common with others, its numbers of dropout, which are
    others in each, and what it runs, where that is known."""

    def __init__(self, call, rng, runs=None):
        self.call, self.rng, self.runs, self.pick = call, rng, runs, None
        self.words, self.numbers = {}, ()
        p = call.options["dropout_p"]
        if runs is not None and p == 0.0:
            return  # whose numbers were looked at
        words = _dropout.words_of(p, rng)
        if words is not None:
            self.words = {
                half: arrays.scalar(half, word, c.I32)
                for half, word in zip(_dropout.WORDS, words)
            }
            self.numbers = tuple(view.owner for view in self.words.values())

    def run(self, given):
        """The results of the call of these tensors, in the order of the names."""
        results = _Attention.apply(self, *given)
        return self.pick(list(results))

    def plan_of(self, tensors):
        """The plan of a call of these tensors, in the order of the names."""
        names, options = self.call.names, self.call.options
        given = dict(zip(names, tensors))
        key = self.call.alike + _layouts_of(tensors)
        template = _templates.get(key)
        if template is not None:
            plan = template.bound(given)
            plan.call.views.update(self.words)
            for taken in (plan.given, plan.options):
                taken["dropout_rng"] = self.rng
            return plan
        options = dict(options, dropout_rng=self.rng)
        options.update((name, given.get(name)) for name in TENSORS)
        if options["captures"] is not None:
            options["captures"] = {
                name: given.get(name, x) for name, x in options["captures"]
            }
        q, k, v = (options.pop(name) for name in ("q", "k", "v"))
        plan = _gradients.Plan(q, k, v, inputs=self.call.wanted, **options)
        template = plan.template(given)
        if template is not None:
            if len(_templates) >= _MOST:
                clear()
            _templates[key] = template
        return plan

    def keep_forward(self, plan, tensors, results, state):
        """Keeps what a call has run, which was like none before it."""
        key = self.call.alike + _layouts_of(tensors)
        if key not in _templates or not plan.runs_alone():
            return
        operands = tensors + self.numbers
        plan.call.views.update(self.words)
        names = self.call.names + tuple(self.words)
        packed = plan.packed_forward(operands, names, results + state)
        if packed is not None:
            self.runs = _Runs(self.call, packed, len(results), self.pick)
            _runs[key] = self.runs


def _layouts_of(tensors):
    parts = []
    for x in tensors:
        parts += x.dtype, x.shape, x.stride(), x.device, x.is_neg(), x.layout
    return tuple(parts)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, box, *tensors):
        runs = box.runs
        if runs is None:
            runs = box.runs = _runs.get(box.call.alike + _layouts_of(tensors))
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
    runs, layouts, end = box.runs, None, len(box.call.names)
    if runs is not None and _ALL.issuperset(map(type, saved + cotangents)):
        # What is saved may lie otherwise by now: hooks of torch move it, or narrow it.
        layouts = [(x.dtype, x.shape, x.stride(), x.device) for x in saved]
        layouts = (*layouts, *_layouts_of(cotangents))
        packed = runs.backward.get(layouts)
        if packed is not None:
            operands = saved + cotangents
            if box.numbers:
                operands = operands[:end] + box.numbers + operands[end:]
            return packed.give(packed.run(operands), saved)
    tensors, rest = saved[:end], saved[end:]
    plan = box.plan_of(tensors)
    results, state = rest[:count], rest[count:]
    found = plan.backward(results, state, cotangents)
    made = [found[name] for name in plan.inputs]
    give = _give(box.call.names, plan.inputs, made, tensors)
    if layouts is not None and len(runs.backward) < _MOST:
        names = box.call.names + tuple(box.words)
        packed = plan.packed_backward(
            tensors + box.numbers, names, results, state, cotangents, made
        )
        if packed is not None:
            packed.give = give
            runs.backward[layouts] = packed
    return give(made, tensors)


def _give(names, inputs, made, tensors):
    """The function from gradients that are made, and the tensors, to a result for each
    name: gradients of the tensor's shape and type, or None."""
    places = [inputs.index(name) if name in inputs else None for name in names]
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


# Threads may find this module while one imports it.
IS_WHOLE = True

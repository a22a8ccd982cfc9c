"""attn.attention as an operator of torch: under torch.compile, and with gradients.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

`attn::attention` takes tensors, and every option as a number or a name, so that a
graph can hold it; seed and offset of dropout are numbers that a graph need not know.
It gives all outputs of the kernel and, where gradients are wanted, the states of the
rows that `attn::attention_backward` reads. Imported where a call is traced or wants
gradients, for it needs torch.library.custom_op, which torch has since 2.4.
"""

import operator
from typing import Any

import torch

from . import _arrays as arrays
from . import _call
from . import _dropout
from . import _gradients
from . import _masks
from . import _operands
from . import _torch
from ._checks import fail as _fail

# The tensors of the operator, in order, then its options.
TENSORS = ("q", "k", "v", "mask", "bias", "alibi_slopes", "sinks", "kv_lengths")
TENSORS += ("cu_seqlens_q", "cu_seqlens_k", "block_table", "k_start")
# Behind them numbers that want a gradient, and the classes of blocks of a mask.
_NUMBERS = ("scale", "softcap", "monoid_params")
_HELD = TENSORS + tuple(name + "_tensor" for name in _NUMBERS) + ("block_mask",)
_OPTIONAL = ", ".join("Tensor? " + name for name in _HELD[2:])
_OPTIONS = (
    "Tensor[] captures, str capture_names, str score_mod, str mask_mod, "
    "SymInt block_rows, SymInt block_keys, float? scale, str causal, SymInt left, "
    "SymInt right, float softcap, str monoid, "
    "str layout, str outputs, float[] monoid_params, str precision, bool rolling, "
    "bool batch_invariant, SymInt v_dim, float dropout_p, SymInt seed, SymInt offset, "
    "bool deterministic, str wanted"
)
_ARGUMENTS = "Tensor q, Tensor k, %s, %s" % (_OPTIONAL, _OPTIONS)
_NAMES = tuple(part.split()[-1] for part in _ARGUMENTS.split(", "))
# What may have a gradient.
_REAL = ("q", "k", "v", "bias", "alibi_slopes", "sinks")
_INTEGERS = ("kv_lengths", "cu_seqlens_q", "cu_seqlens_k", "block_table", "k_start")


def _options_of(given):
    """What attn.attention takes, of the arguments of the operator."""
    options = {name: given[name] for name in TENSORS[3:]}
    captures, block_mask = _captures_of(given), None
    if given["block_mask"] is not None:
        sizes = given["block_rows"], given["block_keys"]
        block_mask = _masks.BlockMask.from_classes(
            given["block_mask"], sizes, given["mask_mod"] or None
        )
    names = [name for name in given["outputs"].split(",") if name]
    drops = given["dropout_p"] != 0.0
    options.update(
        scale=given["scale"],
        causal=given["causal"] or None,
        window=(given["left"], given["right"]),
        softcap=given["softcap"],
        monoid=given["monoid"],
        layout=given["layout"],
        return_aux=names or None,
        monoid_params=tuple(given["monoid_params"]),
        precision=given["precision"],
        rolling=given["rolling"],
        batch_invariant=given["batch_invariant"],
        v_dim=given["v_dim"] if given["v_dim"] >= 0 else None,
        dropout_p=given["dropout_p"],
        dropout_rng=(given["seed"], given["offset"]) if drops else None,
        score_mod=given["score_mod"] or None,
        mask_mod=(given["mask_mod"] or None) if block_mask is None else None,
        captures=captures or None,
        block_mask=block_mask,
        deterministic=given["deterministic"],
    )
    for name in _NUMBERS:
        tensor = given[name + "_tensor"]
        if tensor is not None:
            number = tensor.detach().tolist()
            options[name] = tuple(number) if name == "monoid_params" else number
    return options


def _captures_of(given):
    """By name; what was a number, with "#" behind its name, is one."""
    names = [name for name in given["capture_names"].split(",") if name]
    found = {}
    for name, tensor in zip(names, given["captures"]):
        tensor = tensor.detach()
        number = name.endswith("#")
        found[name.rstrip("#")] = tensor.item() if number else tensor
    return found


def _tensor_of(given, name):
    """The tensor that an input of the gradients is."""
    if name in _NUMBERS:
        return given[name + "_tensor"]
    if name in TENSORS:
        return given[name]
    names = given["capture_names"].replace("#", "").split(",")
    return given["captures"][names.index(name)]


def _wanted(given):
    return tuple(name for name in given["wanted"].split(",") if name)


def _plan(given):
    options = _options_of(given)
    tensors = [given[name] for name in ("q", "k", "v")]
    return _gradients.Plan(*tensors, inputs=_wanted(given), **options)


@torch.library.custom_op(
    "attn::attention", mutates_args=(), schema="(%s) -> Tensor[]" % _ARGUMENTS
)
def _forward(*args):
    given = dict(zip(_NAMES, args))
    with torch.no_grad():
        if given["wanted"]:
            results, state = _plan(given).forward()
            return [*results, *state]
        call = _call.Call(given["q"], given["k"], given["v"], **_options_of(given))
        return call.run_all()


@torch.library.custom_op(
    "attn::attention_backward",
    mutates_args=(),
    schema="(%s, Tensor[] results, Tensor?[] cotangents) -> Tensor[]" % _ARGUMENTS,
)
def _backward(*args):
    given = dict(zip(_NAMES, args))
    results, cotangents = args[len(_NAMES) :]
    with torch.no_grad():
        plan = _plan(given)
        count = len(plan.names)
        found = plan.backward(results[:count], results[count:], cotangents[:count])
        # A tensor of the caller's shape and type, and of no other's memory.
        return [
            _as(found[name], _tensor_of(given, name)) for name in _wanted(given)
        ]


def _as(gradient, tensor):
    gradient = gradient.to(dtype=tensor.dtype, device=tensor.device)
    return gradient.reshape(tensor.shape).contiguous()


_probes = {}


def _probe(given):
    """The outputs of the kernel, of tensors of one row: which have channels."""
    def of(name, value):
        if isinstance(value, torch.Tensor):
            return (
                value.dtype,
                value.dim(),
                int(value.shape[-1]) if name in "qkv" else 0,
            )
        if isinstance(value, (list, tuple)):
            return tuple(of("-", x) for x in value)
        return value

    free = ("left", "right", "seed", "offset", "block_rows", "block_keys")
    key = tuple(of(*pair) for pair in given.items() if pair[0] not in free)
    if key not in _probes:
        from torch._subclasses.fake_tensor import unset_fake_temporarily

        with unset_fake_temporarily(), torch.no_grad():
            _probes[key] = _outputs_of_probe(given)
    return _probes[key]


def _outputs_of_probe(given):
    small = dict(given)
    small["captures"] = [
        torch.ones([1] * x.dim(), dtype=x.dtype) for x in given["captures"]
    ]
    small["block_rows"] = small["block_keys"] = 1
    for name in _HELD:
        value = given[name]
        if value is None:
            continue
        shape = [1] * value.dim()
        if name == "monoid_params_tensor":
            shape = list(value.shape)
        if name in "qkv":
            shape[-1] = int(value.shape[-1])
        if name.startswith("cu_"):
            shape = [2]
        small[name] = torch.ones(shape, dtype=value.dtype)
    for name in ("left", "right"):
        small[name] = -1 if given["left"] < 0 and given["right"] < 0 else 1
    small["seed"] = small["offset"] = 0
    if given["wanted"]:
        plan = _gradients.Plan(
            *(small[name] for name in ("q", "k", "v")),
            inputs=_wanted(given),
            target="host",
            **_options_of(small)
        )
        outputs = plan.program.forward.outputs
    else:
        call = _call.Call(small["q"], small["k"], small["v"], **_options_of(small))
        outputs = call.compile(target="host", until_after="input").outputs
    rank = given["q"].dim()
    return [(len(arg.shape) == rank, arg.shape[-1], arg.code) for arg in outputs]


_TYPES = {0: torch.float32, 1: torch.float16, 2: torch.bfloat16}  # AttnDType


@_forward.register_fake
def _(*args):
    given = dict(zip(_NAMES, args))
    q = given["q"]
    # Rows are in the order b, h, s.
    axes = _operands.LAYOUTS[given["layout"]]
    rows = [q.shape[axis] for axis in axes[:-1]]
    results = []
    for has_channels, channels, code in _probe(given):
        shape = [*q.shape[:-1], channels] if has_channels else rows
        results.append(q.new_empty(shape, dtype=_TYPES[code]))
    return results


@_backward.register_fake
def _(*args):
    given = dict(zip(_NAMES, args))
    tensors = [_tensor_of(given, name) for name in _wanted(given)]
    return [tensor.new_empty(tensor.shape) for tensor in tensors]


def _keep(ctx, inputs, output):
    given = dict(zip(_NAMES, inputs))
    tensors = [given[name] for name in _HELD] + list(given["captures"])
    ctx.options = inputs[len(_HELD) + 1 :]
    ctx.count = len(tensors)
    ctx.save_for_backward(*tensors, *output)


def _differentiate(ctx, cotangents):
    saved = ctx.saved_tensors
    captures = list(saved[len(_HELD) : ctx.count])
    args = (*saved[: len(_HELD)], captures, *ctx.options)
    given = dict(zip(_NAMES, args))
    wanted = _wanted(given)
    found = dict.fromkeys(_NAMES)
    found["monoid_params"] = [None] * len(given["monoid_params"])
    found["captures"] = [None] * len(captures)
    if wanted:
        gradients = _backward(*args, list(saved[ctx.count :]), list(cotangents))
        names = given["capture_names"].replace("#", "").split(",")
        for name, gradient in zip(wanted, gradients):
            if name in _NUMBERS:
                found[name + "_tensor"] = gradient
            elif name in TENSORS:
                found[name] = gradient
            else:
                found["captures"][names.index(name)] = gradient
    return tuple(found.values())


_forward.register_autograd(_differentiate, setup_context=_keep)


def _keep_nothing(ctx, inputs, output):
    pass


def _second(ctx, gradients):
    raise RuntimeError(
        "attn: expected first derivatives of attn.attention, but got a derivative of "
        "its gradients; there are no second ones"
    )


_backward.register_autograd(_second, setup_context=_keep_nothing)


@torch.compiler.assume_constant_result
def _places(monoid, names):
    """Where outputs are among those of the kernel."""
    wanted = tuple(name for name in names.split(",") if name)
    outputs = _call.choose_monoid(monoid, wanted)[1]
    return tuple(outputs.index(name) for name in wanted)


def _as_tensor(name, value, like):
    """An operand that may be a list."""
    if value is None or isinstance(value, torch.Tensor):
        return value
    if isinstance(value, (list, tuple)):
        dtype = torch.int32 if name in _INTEGERS else torch.float32
        return torch.tensor(value, dtype=dtype, device=like.device)
    _fail("%s of the kind of q, Tensor" % name, arrays.describe(value), TypeError)


def attention(
    tensors: Any,
    scale: Any,
    causal: Any,
    window: Any,
    softcap: Any,
    monoid: Any,
    layout: Any,
    return_lse: Any,
    return_aux: Any,
    monoid_params: Any,
    precision: Any,
    rolling: Any,
    batch_invariant: Any,
    v_dim: Any,
    dropout_p: Any,
    dropout_rng: Any,
    score_mod: Any = None,
    mask_mod: Any = None,
    captures: Any = None,
    block_mask: Any = None,
    deterministic: Any = True,
) -> Any:
    """As attn.attention, through the operator; `tensors` are in the order of
    TENSORS."""
    if isinstance(tensors[3], str):
        if mask_mod is not None:
            _fail("the text of a mask as mask or as mask_mod", "both")
        mask_mod = tensors[3]
        tensors = tensors[:3] + (None,) + tensors[4:]
    if not _torch.is_traced(tensors[0]):
        # Says of all that does not fit what would, in words of attn.attention.
        given = dict(zip(TENSORS, tensors))
        with torch.no_grad():
            _call.Call(
                **given,
                scale=scale,
                causal=causal,
                window=window,
                softcap=softcap,
                monoid=monoid,
                layout=layout,
                return_lse=return_lse,
                return_aux=return_aux,
                monoid_params=monoid_params,
                precision=precision,
                rolling=rolling,
                batch_invariant=batch_invariant,
                v_dim=v_dim,
                dropout_p=dropout_p,
                dropout_rng=dropout_rng,
                score_mod=score_mod,
                mask_mod=mask_mod,
                captures=captures,
                block_mask=block_mask,
                deterministic=deterministic,
            )
        if dropout_rng is not None:
            dropout_rng = _dropout.numbers_of(dropout_rng)
    q = tensors[0]
    tensors = [_as_tensor(*pair, q) for pair in zip(TENSORS, tensors)]
    names = return_aux
    if names is None:
        names = ()
    elif isinstance(names, str):
        names = (names,)
    all_names = ",".join((("lse",) if return_lse else ()) + tuple(names))
    left, right = (-1, -1) if window is None else window
    seed, offset = 0, 0
    if dropout_p:
        if dropout_rng is None:
            _dropout.fail_without_rng()
        seed, offset = dropout_rng
        seed, offset = _signed(seed), _signed(offset)
    numbers = [
        _as_number(*pair) for pair in zip(_NUMBERS, (scale, softcap, monoid_params))
    ]
    scale, softcap, monoid_params = (number for number, _ in numbers)
    numbers = [tensor for _, tensor in numbers]
    capture_names, held = [], []
    for name, value in (captures or {}).items():
        is_tensor = isinstance(value, torch.Tensor)
        capture_names.append(name if is_tensor else name + "#")
        held.append(value if is_tensor else _as_capture(name, value, q))
    classes, blocks = None, (1, 1)
    if block_mask is not None:
        classes, blocks = _classes_of(block_mask, tensors, layout)
        mask_mod = block_mask.mask_mod
    wanted = ""
    if torch.is_grad_enabled():
        real = [pair for pair in zip(TENSORS, tensors) if pair[0] in _REAL]
        real += zip(_NUMBERS, numbers)
        real += zip(capture_names, held)
        wanted = ",".join(
            [n for n, x in real if x is not None and x.requires_grad]
        )
    results = _forward(
        *tensors,
        *numbers,
        classes,
        held,
        ",".join(capture_names),
        score_mod or "",
        mask_mod or "",
        blocks[0],
        blocks[1],
        None if scale is None else float(scale),
        causal or "",
        left,
        right,
        float(softcap or 0.0),
        monoid,
        layout,
        all_names,
        [float(number) for number in monoid_params],
        precision,
        bool(rolling),
        bool(batch_invariant),
        -1 if v_dim is None else v_dim,
        float(dropout_p),
        seed,
        offset,
        bool(deterministic),
        wanted,
    )
    if not all_names:
        return (results[0], {}) if return_aux is not None else results[0]
    picked = [results[place] for place in _places(monoid, all_names)]
    found = (results[0],)
    if return_lse:
        found += (picked.pop(0),)
    if return_aux is not None:
        found += (dict(zip(names, picked)),)
    return found


def _as_number(name, value):
    """A number, and the tensor that it is where that wants a gradient."""
    many = name == "monoid_params"
    if many and isinstance(value, (list, tuple)):
        if not _torch.wants_gradient(*value):
            return value, None
        value = torch.stack([torch.as_tensor(x) for x in value])
    if not (isinstance(value, torch.Tensor) and _torch.wants_gradient(value)):
        return value, None
    if many:
        return [0.0] * value.shape[0], value
    return (None if name == "scale" else 0.0), value.reshape(())


def _as_capture(name, value, like):
    """What is no tensor, as one."""
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()  # a number of NumPy
    if isinstance(value, (bool, int, torch.SymInt)):
        return torch.tensor(value, dtype=torch.int64)
    if isinstance(value, (float, torch.SymFloat)):
        return torch.tensor(value, dtype=torch.float64)
    _fail(
        "captures of the kind of q, Tensor, or numbers",
        arrays.describe(value),
        TypeError,
    )


def _classes_of(mask, tensors, layout):
    """The table of a block mask, and the sizes of its blocks."""
    k = tensors[1]
    count = k.shape[_operands.LAYOUTS[layout][2]]
    classes = mask.classes(-(-count // mask.BLOCK_SIZE[1]))
    return torch.as_tensor(classes, device=k.device), mask.BLOCK_SIZE


def _signed(number):
    """An integer of 64 bits, as a graph holds it."""
    if not isinstance(number, (int, torch.SymInt)):
        number = operator.index(number)
    return number - 2**64 if number >= 2**63 else number

"""attn.linear_attention, attn.scan and attn.scan_step: a matrix carried along tokens.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

A call becomes the text of a function with one attn.scan, which is compiled once for
its types and channels. Batches, heads and tokens are free in it.
"""

from typing import Any, Optional

from . import _arrays as arrays
from . import _checks as checks
from . import _features
from . import _kernel
from . import _library as c
from ._checks import fail as _fail
from ._operands import LAYOUTS
from ._scan_checks import check_segments, check_slots, check_together

_FLOATS = (c.F32, c.F16, c.BF16)
_PARTS = ("S", "z", "m")

# What arrays in host memory are compiled for; tests say an emulator here.
_host_target = None


def as_own(name, value, like):
    """What is no array yet, as one of the kind of `like`."""
    if arrays.is_torch(value) or arrays.is_numpy(value):
        return value
    if arrays.kind_of(value) == "dlpack":
        import numpy

        return numpy.from_dlpack(value)
    try:
        if arrays.is_torch(like):
            return arrays.torch_module().as_tensor(value)
        import numpy

        return numpy.asarray(value)
    except (TypeError, ValueError, RuntimeError):
        _fail("%s to be an array" % name, arrays.describe(value), TypeError)


def as_float(name, value, exact=False):
    """Of a type that kernels read; `exact`: of float32."""
    found = arrays.view(name, value)
    if found.dtype in _FLOATS if not exact else found.dtype == c.F32:
        return value
    if found.dtype not in _FLOATS + (c.F64,):
        _fail("%s of a float type" % name, arrays.describe(value), TypeError)
    if arrays.is_torch(value):
        return value.to(arrays.torch_module().float32)
    return value.astype("float32")


def permuted(value, axes):
    return value.permute(axes) if arrays.is_torch(value) else value.transpose(axes)


def broadcast(name, value, shape):
    if len(value.shape) != len(shape) or any(
        size not in (1, wanted) for size, wanted in zip(value.shape, shape)
    ):
        _fail("%s of shape %s" % (name, list(shape)), list(value.shape))
    if tuple(value.shape) == tuple(shape):
        return value
    if arrays.is_torch(value):
        return value.expand(shape)
    import numpy

    return numpy.broadcast_to(value, shape)


def unit_stride(value):
    """With a last dimension whose elements lie one after the other."""
    if arrays.is_torch(value):
        return (
            value
            if value.shape[-1:] == (1,) or value.stride()[-1:] == (1,)
            else value.contiguous()
        )
    import numpy

    strides = value.strides[-1:] == (value.itemsize,)
    return value if strides else numpy.ascontiguousarray(value)


class Problem:
    """The operands of one call, as [b, h, t, d], or [h, total, d] where packed."""

    def __init__(self, q, k, v, layout, cu_seqlens, reverse=False, is_step=False):
        self.is_step = is_step
        axes = LAYOUTS[checks.choice("layout", layout, LAYOUTS)]
        views = [arrays.view(n, x) for n, x in zip("qkv", (q, k, v))]
        self.device = views[0].device
        for name, view in zip("kv", views[1:]):
            arrays.check_device(name, view, self.device)
        if views[0].dtype not in _FLOATS:
            _fail("q of float32, float16 or bfloat16", arrays.describe(q), TypeError)
        for name, x, view in zip("kv", (k, v), views[1:]):
            if view.dtype != views[0].dtype:
                _fail(
                    "%s of the type of q, %s" % (name, arrays.describe(q)),
                    arrays.describe(x),
                    TypeError,
                )
        for name, x, view in zip("qkv", (q, k, v), views):
            if len(view.shape) != len(axes):
                _fail(
                    "%s of %d dimensions, [%s]" % (name, len(axes), ", ".join(layout)),
                    arrays.describe(x),
                )
            if view.shape[-1] < 1:
                _fail("%s with channels" % name, arrays.describe(x))
        if layout == "thd" and cu_seqlens is None:
            _fail("cu_seqlens with layout 'thd'", "None")
        self.like, self.layout, self.axes, self.reverse = q, layout, axes, reverse
        self.dtype = views[0].dtype
        self.is_packed = cu_seqlens is not None
        self.cu = None
        # One batch that holds all sequences, as FLA has it.
        self.drops_batch = self.is_packed and layout != "thd"
        shapes = [tuple(view.shape[a] for a in axes) for view in views]
        if self.drops_batch and any(shape[0] != 1 for shape in shapes):
            _fail(
                "one batch with cu_seqlens, which holds all sequences",
                [s[0] for s in shapes],
            )
        if self.is_packed:
            self.cu = arrays.vector("cu_seqlens", cu_seqlens, c.I32, self.device)
            if len(self.cu.shape) != 1 or self.cu.shape[0] < 1:
                _fail("cu_seqlens of shape [sequences + 1]", list(self.cu.shape))
        shapes = [shape[-3:] if self.is_packed else shape for shape in shapes]
        lead = [shape[:-3] + shape[-2:-1] for shape in shapes]
        if lead[0] != lead[1] or lead[0] != lead[2]:
            _fail(
                "q, k and v of the same batches and tokens", [list(s) for s in shapes]
            )
        heads = [shape[-3] for shape in shapes]
        self.tokens = shapes[0][-2]
        self.dk, self.dv = shapes[0][-1], shapes[2][-1]
        if shapes[1][-1] != self.dk:
            _fail(
                "q and k of the same channels", "%d and %d" % (self.dk, shapes[1][-1])
            )
        self.heads = max(heads[1:])
        ok = (
            all(n and self.heads % n == 0 for n in heads[1:])
            if self.heads
            else heads[1] == heads[2]
        )
        if self.heads:
            ok = (
                ok
                and heads[0] > 0
                and (self.heads % heads[0] == 0 or heads[0] % self.heads == 0)
            )
        else:
            ok = ok and heads[0] == 0
        if not ok:
            _fail(
                "heads of k and v that divide the larger number of them, and those of "
                "q "
                "to divide it or be a multiple of it",
                "%d of q, %d of k and %d of v" % tuple(heads),
            )
        self.out_heads = max(heads[0], self.heads)
        self.batch = () if self.is_packed else shapes[0][:1]
        self.sequences = self.cu.shape[0] - 1 if self.is_packed else self.batch[0]
        self.names, self.views, self.types = [], [], []
        self.clauses, self.flags = [], []
        self.regions, self.values_first = [], False
        self.has_scale = False
        for name, clause, x in zip("qkv", ("queries", "keys", "values"), (q, k, v)):
            self.add(name, clause, self.ordered(x))

    def ordered(self, value):
        """An array in the caller's layout as [(b,) h, t(, d)]."""
        axes = self.axes if len(value.shape) == len(self.axes) else self.axes[:-1]
        view = value if isinstance(value, arrays.View) else arrays.view("q", value)
        view = view.permuted(axes)
        if self.drops_batch:
            view = _without_first(view)
        return _reversed(view, len(self.batch) + 1) if self.reverse else view

    def tensor(self, view):
        """The type of a tensor whose last dimension is static if it has channels."""
        return "tensor<%s%s>" % ("?x" * len(view.shape), c.DTYPE_NAMES[view.dtype])

    def add(self, name, clause, view, is_static=True, shown=None):
        """One more argument, and the clause that it is the operand of."""
        sizes = ["?"] * len(view.shape)
        if is_static and sizes:
            sizes[-1] = str(view.shape[-1])
        # A step is a kernel of its own, without a loop over tokens; on a GPU
        # whoever asks for it.
        on_gpu = self.device is not None or _host_target is not None
        is_step = (on_gpu or self.is_step) and self.tokens == 1
        is_step = is_step and not self.is_packed
        if name in ("q", "k", "v") and is_step:
            sizes[2] = "1"
        text = "tensor<%s%s>" % (
            "".join(s + "x" for s in sizes),
            c.DTYPE_NAMES[view.dtype],
        )
        if shown:
            text = shown
        self.names.append("%%%s" % name)
        self.views.append(view)
        self.types.append(text)
        if clause:
            self.clauses.append("%s(%%%s : %s)" % (clause, name, text))

    def add_numbers(self, name, value, clause, width=0):
        """One number of each token, or `width` of them, given for all heads or some."""
        value = as_own(name, value, self.like)
        arrays.check_device(name, arrays.view(name, value), self.device)
        value = as_float(name, value)
        rank = len(self.axes) - (0 if width else 1)
        heads_only = len(value.shape) == 1 and not width
        full = self.batch + (self.heads, self.tokens) + ((width,) if width else ())
        if self.drops_batch:
            full = (1,) + full
        if heads_only:  # one for each head, the same for all tokens
            value = (
                value.reshape((-1, 1))
                if self.layout == "thd"
                else value.reshape((1, -1, 1))
            )
        elif len(value.shape) != rank:
            _fail(
                "%s of %d dimensions%s"
                % (name, rank, ", or [heads]" if not width else ""),
                arrays.describe(value),
            )
        else:
            value = permuted(value, self.axes if width else self.axes[:-1])
        value = unit_stride(broadcast(name, value, full))
        view = arrays.view(name, value)
        if self.drops_batch:
            view = _without_first(view)
        if self.reverse:
            view = _reversed(view, len(self.batch) + 1)
            if not width:
                # Rows of numbers are read along memory.
                value = permuted_copy(value, view, self)
                view = arrays.view(name, value)
        self.add(name, clause, view, is_static=bool(width))

    def add_states(self, states, clause):
        texts, names = [], []
        for part, view in states:
            self.add("init_" + part, None, view, shown=self.state_type(part))
            names.append("%%init_%s" % part)
            texts.append(self.state_type(part))
        self.clauses.append(
            "%s(%s : %s)" % (clause, ", ".join(names), ", ".join(texts))
        )

    def state_type(self, part, dtype=c.F32):
        matrix = self.state_shape("S", 0)[2:]
        sizes = {
            "S": "?x?x%dx%d" % matrix,
            "z": "?x?x%d" % self.dk,
            "m": "?x?",
        }
        return "tensor<%sx%s>" % (sizes[part], c.DTYPE_NAMES[dtype])

    def state_shape(self, part, count=None):
        lead = (self.sequences if count is None else count, self.heads)
        matrix = (self.dv, self.dk) if self.values_first else (self.dk, self.dv)
        return lead + {"S": matrix, "z": (self.dk,), "m": ()}[part]

    def text(self, parts, feature):
        flags = self.flags + (["final"] if parts else [])
        rank = 3 if self.is_packed else 4
        results = [
            "tensor<%s%dx%s>" % ("?x" * (rank - 1), self.dv, c.DTYPE_NAMES[self.dtype])
        ]
        results += [self.state_type(part) for part in parts]
        clauses = list(self.clauses)
        clauses.insert(3, "scale(%scale)")
        args = ", ".join("%s: %s" % pair for pair in zip(self.names, self.types))
        regions = [" feature {\n%s\n}" % feature] if feature else []
        region = "".join(regions + self.regions)
        return (
            "func.func @scan(%s, %%scale: f32) -> (%s) {\n  %%r:%d = attn.scan %s "
            "{%s}%s\n"
            "      -> %s\n  return %s : %s\n}\n"
            % (
                args,
                ", ".join(results),
                len(results),
                "\n      ".join(clauses),
                ", ".join(flags),
                region,
                ", ".join(results),
                ", ".join("%%r#%d" % i for i in range(len(results))),
                ", ".join(results),
            )
        )

    def run(self, scale, parts, feature, outputs):
        text = self.text(parts, feature)
        target = _host_target if self.device is None else c.device_target(self.device)
        key = text if target is None else (text, target)
        kernel = _kernel.kept.get(key)
        if kernel is None:
            kernel = _kernel.compile_text(
                text, source_name="scan", keep_ir=False, target=target
            )
            if len(_kernel.kept) >= _kernel.MOST_KEPT:
                _kernel.kept.clear()
            _kernel.kept[key] = kernel
        kernel.run(self.views + [arrays.scalar("scale", scale, c.F32)], outputs)


def permuted_copy(value, view, problem):
    """A reversed copy of numbers, dense."""
    axis = len(value.shape) - 1
    if arrays.is_torch(value):
        value = value.flip(axis).contiguous()
        return value[0] if problem.drops_batch else value
    import numpy

    value = numpy.ascontiguousarray(numpy.flip(value, axis))
    return value[0] if problem.drops_batch else value


def _without_first(view):
    return arrays.View(
        view.data, view.dtype, view.shape[1:], view.strides[1:], view.owner, view.device
    )


def _reversed(view, axis):
    size, stride = view.shape[axis], view.strides[axis]
    strides = list(view.strides)
    strides[axis] = -stride
    offset = max(size - 1, 0) * stride * arrays.item_size(view.dtype)
    return arrays.View(
        view.data + offset, view.dtype, view.shape, strides, view.owner, view.device
    )


def _state_view(name, value, problem, part):
    """A part of a state, of float32."""
    value = as_own(name, value, problem.like)
    arrays.check_device(name, arrays.view(name, value), problem.device)
    shape = problem.state_shape(part)
    if tuple(value.shape) != shape:
        _fail("%s of shape %s" % (name, list(shape)), list(value.shape))
    return arrays.view(name, unit_stride(as_float(name, value, exact=True)))


def _add_region(problem, word, given, known):
    """A region `word` of elements, and the arrays that it takes beside them: a name
    or text alone, or followed by the arrays."""
    parts = given if isinstance(given, (tuple, list)) else (given,)
    if not parts or not isinstance(parts[0], str):
        _fail(
            "%s to be a name or MLIR text, or one in a tuple with arrays" % word,
            type(given).__name__,
            TypeError,
        )
    text, captures = known.get(parts[0], parts[0]), parts[1:]
    if parts[0] not in known and "attn.yield" not in parts[0]:
        names = ", ".join(map(repr, known))
        _fail("%s to be %s or MLIR text" % (word, names), repr(parts[0]))
    wanted = text.split(")")[0].count("f32") - 1
    if len(captures) != wanted:
        _fail("%d arrays beside %s" % (wanted, word), len(captures))
    is_gate = word == "gate"
    heads = problem.heads if is_gate else problem.out_heads
    names = []
    for i, value in enumerate(captures):
        name = "%s_%d" % (word, i)
        value = as_own(name, value, problem.like)
        arrays.check_device(name, arrays.view(name, value), problem.device)
        value = as_float(name, value)
        rank = len(value.shape)
        if rank == len(problem.axes) and not is_gate and rank > 2:
            view = problem.ordered(unit_stride(value))
        elif rank in (1, 2) and value.shape[0] == heads:
            view = arrays.view(name, unit_stride(value))
        else:
            more = "" if is_gate else ", or one like the output"
            _fail(
                "an array beside %s of %d heads, and with or without "
                "channels%s" % (word, heads, more),
                arrays.describe(value),
            )
        problem.add(name, None, view, is_static=rank > 1)
        names.append((problem.names[-1], problem.types[-1]))
    operands = ""
    if names:
        operands = "(%s : %s)" % tuple(map(", ".join, zip(*names)))
    problem.regions.append(" %s%s {\n%s\n}" % (word, operands, text))


def _parts_of(name, state, parts):
    """A state, which may be S alone, as a dict of the parts that there must be."""
    if not isinstance(state, dict):
        state = {"S": state}
    unknown = [key for key in state if key not in _PARTS]
    if unknown:
        _fail("%s with the keys %s" % (name, ", ".join(_PARTS)), repr(unknown[0]))
    for part in _PARTS:
        given = state.get(part) is not None
        if given != (part in parts):
            _fail(
                "%s with %s" % (name, " and ".join(map(repr, parts))),
                "%s '%s'" % ("also" if given else "no", part),
            )
    return [state[part] for part in parts]


def _number(name, value):
    if isinstance(value, bool):
        _fail("%s to be a number" % name, repr(value), TypeError)
    arrays.scalar(name, value, c.F32)
    return float(value)


def _gate_width(problem, decay, gate):
    """0, dk or dv: what decay has gates for."""
    decay = as_own("decay", decay, problem.like)
    rank = len(decay.shape)
    if gate not in (None, "head", "key", "value"):
        _fail("gate to be 'head', 'key', 'value' or None", repr(gate))
    if gate is None:
        gate = "key" if rank == len(problem.axes) else "head"
        if gate == "key" and decay.shape[-1] == 1 and problem.dk != 1:
            gate, decay = "head", decay[..., 0]
    width = {"head": 0, "key": problem.dk, "value": problem.dv}[gate]
    return decay, width, gate


def run_scan(
    q,
    k,
    v,
    *,
    feature_map=None,
    normalize=False,
    scale=None,
    causal=True,
    decay=None,
    beta=None,
    log_weight=None,
    initial_state=None,
    return_state=False,
    cu_seqlens=None,
    layout="bhsd",
    qk_l2norm=False,
    out=None,
    weight=None,
    gate=None,
    erase=None,
    read="after",
    bonus=None,
    direction="forward",
    slots=None,
    lengths=None,
    in_place=False,
    segments=None,
    chunk=None,
    state_layout="kv",
    gate_map=None,
    finalize=None,
):
    normalize = checks.boolean("normalize", normalize)
    qk_l2norm = checks.boolean("qk_l2norm", qk_l2norm)
    return_state = checks.boolean("return_state", return_state)
    causal = checks.boolean("causal", causal)
    checks.choice("state_layout", state_layout, ("kv", "vk"))
    checks.choice("direction", direction, ("forward", "reverse", "whole"))
    whole = direction == "whole" or not causal
    reverse = direction == "reverse"
    for name, value in (("beta", beta), ("erase", erase)):
        if normalize and value is not None:
            _fail(
                "normalize=False with %s, whose outputs have no denominator" % name,
                "True",
            )
    if scale is None and len(getattr(q, "shape", ())):
        scale = max(q.shape[-1], 1) ** -0.5
    scale = 1.0 if scale is None else _number("scale", scale)
    q, k, feature = _features.apply(feature_map, q, k)
    problem = Problem(q, k, v, layout, cu_seqlens, reverse, chunk == 1)
    if state_layout == "vk":
        problem.values_first = True
        problem.flags.append("values_first")
    if reverse and problem.is_packed:
        _fail("direction 'reverse' without cu_seqlens", "both")
    if whole:
        for name, value in (
            ("decay", decay),
            ("beta", beta),
            ("log_weight", log_weight),
            ("erase", erase),
        ):
            if value is not None:
                _fail("causal=True with %s" % name, "an order-free sum over all tokens")
        problem.flags.append("whole")
    if decay is not None:
        decay, width, gate = _gate_width(problem, decay, gate)
        problem.add_numbers("decay", decay, "decay", width)
        if gate == "value":
            problem.flags.append("value_gates")
    elif gate is not None:
        _fail("decay, the log gates that gate=%s is of" % checks.shown(gate), "None")
    if weight is not None:
        problem.add_numbers("weight", weight, "weight")
    if log_weight is not None:
        problem.add_numbers("log_weight", log_weight, "log_weight")
    if beta is not None:
        problem.add_numbers("beta", beta, "delta")
    if erase is not None:
        if not isinstance(erase, (tuple, list)) or len(erase) not in (2, 3):
            _fail(
                "erase to be a tuple (a, b) or (a, b, 'before')",
                type(erase).__name__,
                TypeError,
            )
        when = erase[2] if len(erase) == 3 else "after"
        if when not in ("before", "after"):
            _fail("an erase 'before' or 'after' the decay", repr(when))
        problem.add_numbers("erase_a", erase[0], None, problem.dk)
        problem.add_numbers("erase_b", erase[1], None, problem.dk)
        problem.clauses.append(
            "erase(%%erase_a, %%erase_b : %s, %s)" % tuple(problem.types[-2:])
        )
        if when == "before":
            problem.flags.append("erase_before")
    if checks.choice("read", read, ("after", "before")) == "before":
        problem.flags.append("read_before")
    if bonus is not None:
        bonus = as_own("bonus", bonus, q)
        arrays.check_device("bonus", arrays.view("bonus", bonus), problem.device)
        found = unit_stride(as_float("bonus", bonus))
        found = broadcast("bonus", found, (problem.heads, problem.dk))
        problem.add("bonus", "bonus", arrays.view("bonus", unit_stride(found)))
    check_together(
        gate if decay is not None else None,
        normalize,
        weight,
        log_weight,
        erase,
        beta,
        bonus,
        read,
    )
    if normalize:
        problem.flags.append("normalize")
    if qk_l2norm:
        problem.flags.append("l2norm")
    if segments is not None:
        check_segments(
            segments, problem.is_packed, whole, slots, log_weight, erase, beta
        )
        problem.flags.append("segments = %d" % segments)
    if chunk is not None:
        problem.flags.append("chunk = %d" % chunk)
    parts = [
        p
        for p, there in zip(_PARTS, (True, normalize, log_weight is not None))
        if there
    ]
    if initial_state is not None and slots is None and not in_place:
        given = _parts_of("initial_state", initial_state, parts)
        problem.add_states(
            [
                (p, _state_view("initial_state", x, problem, p))
                for p, x in zip(parts, given)
            ],
            "init",
        )
    if problem.is_packed:
        problem.add("cu", "cu_seqlens", problem.cu, is_static=False)
    if lengths is not None:
        if problem.is_packed or reverse:
            other = "cu_seqlens" if problem.is_packed else "direction 'reverse'"
            _fail("lengths without %s" % other, "both")
        view = arrays.vector("lengths", lengths, c.I32, problem.device)
        if view.shape != (problem.sequences,):
            _fail("lengths of shape [%d]" % problem.sequences, list(view.shape))
        problem.add("lengths", "lengths", view, is_static=False)
    if slots is not None or in_place:
        if return_state:
            _fail("return_state=False with slots, where the states are", "True")
        _add_pool(problem, initial_state, slots, parts)
    if gate_map is not None:
        if decay is None:
            _fail("decay, which gate_map makes log gates of", "None")
        _add_region(problem, "gate", gate_map, _features.GATES)
    if finalize is not None:
        _add_region(problem, "finalize", finalize, _features.FINALS)
    return _finish(problem, out, scale, parts if return_state else [], feature)


def _add_pool(problem, state, slots, parts):
    """States that are updated in place: those of `slots`, or one of each sequence."""
    given = _parts_of("state", state, parts)
    count = given[0].shape[0] if len(getattr(given[0], "shape", ())) else 0
    names, texts = [], []
    for part, value in zip(parts, given):
        view = arrays.view("state", value)
        arrays.check_device("state", view, problem.device)
        shape = problem.state_shape(part, count)
        fits = view.dtype in _FLOATS if part == "S" else view.dtype == c.F32
        if tuple(value.shape) != shape or not fits:
            types = "float32, bfloat16 or float16" if part == "S" else "float32"
            _fail(
                "a state %s of %s and shape %s" % (part, types, list(shape)),
                arrays.describe(value),
            )
        arrays.check_writable("state", value, view)
        if view.shape[-1] > 1 and view.strides[-1] != 1 and not view.is_empty:
            _fail("a state with stride 1 in its last dimension", view.strides[-1])
        problem.add(
            "pool_" + part, None, view, shown=problem.state_type(part, view.dtype)
        )
        names.append("%%pool_%s" % part)
        texts.append(problem.types[-1])
    clause = "slots(%s : %s)" % (", ".join(names), ", ".join(texts))
    if slots is None:
        if count != problem.sequences:
            _fail(
                "a state of %d sequences, or slots" % problem.sequences,
                arrays.describe(given[0]),
            )
        return problem.clauses.append(clause)
    index = arrays.vector("slots", slots, c.I32, problem.device)
    if index.shape != (problem.sequences,):
        _fail("slots of shape [%d]" % problem.sequences, list(index.shape))
    # Those on a GPU are not waited for.
    if problem.device is None or not arrays.kind_of(slots):
        check_slots(index if problem.device is None else slots, count)
    problem.add("slot", None, index, is_static=False)
    problem.clauses.append(clause + " index(%slot : tensor<?xi32>)")


def _finish(problem, out, scale, parts, feature):
    """Runs, and gives the output and the state in the caller's layout."""
    sizes = dict(
        zip("bhsd", (problem.sequences, problem.out_heads, problem.tokens, problem.dv))
    )
    if problem.drops_batch:
        sizes["b"] = 1
    if problem.layout == "thd":
        sizes["t"] = problem.tokens
    shape = [sizes[letter] for letter in problem.layout]
    if out is None:
        result = arrays.empty(problem.like, problem.dtype, shape)
    else:
        result = out
    view = arrays.view("out", result)
    arrays.check_writable("out", result, view)
    if list(view.shape) != shape or view.dtype != problem.dtype:
        _fail(
            "out like the result, %s of shape %s"
            % (c.DTYPE_NAMES[problem.dtype], shape),
            arrays.describe(out),
        )
    outputs = [problem.ordered(view)]
    states = {
        part: arrays.empty(problem.like, c.F32, problem.state_shape(part))
        for part in parts
    }
    outputs += [arrays.view("state", states[part]) for part in parts]
    problem.run(scale, parts, feature, outputs)
    like = problem.like
    if out is None:
        result = arrays.like(like, result)
    if not parts:
        return result
    return result, {part: arrays.like(like, states[part]) for part in parts}


def linear_attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    feature_map: Any = None,
    normalize: bool = True,
    scale: Optional[float] = None,
    causal: bool = True,
    decay: Any = None,
    beta: Any = None,
    log_weight: Any = None,
    initial_state: Any = None,
    return_state: bool = False,
    cu_seqlens: Any = None,
    lengths: Any = None,
    layout: str = "bhsd",
    qk_l2norm: bool = False,
    state_layout: str = "kv",
    out: Any = None
) -> Any:
    """Attention whose weights are linear in the products of queries and keys.

    Each token t, in order, takes a state S of dk x dv from the one before:

        S_t = exp(decay_t) S_{t-1} + w_t k_t v_t^T,    o_t = scale q_t^T S_t

    With `normalize` outputs are divided by scale q_t^T z_t, where z is as S with
    values of 1, and is 0 where that is 0: z decays with S. With `beta` the state
    first forgets what it has for the key (the delta rule): beta_t k_t (v_t -
    k_t^T S)^T is added, where S is the decayed state.

    Args:
        q, k, v: float32, float16 or bfloat16 arrays [b, h, t, d] in the order that
            `layout` says. Heads of k and v divide H, the larger number of them; those
            of q divide H or are a multiple of it.
        feature_map: what is applied to rows of q and k first. "elu1": elu(x) + 1;
            "relu"; "taylor2": 1, x d^-1/4 and products of pairs, whose dots are the
            Taylor series of exp(q.k / sqrt(d)) to the second order; "hedgehog":
            exp(x), and ("hedgehog", w) exp(x w) for a matrix w; or MLIR text of a
            region that maps an f32, "^bb0(%x: f32): ... attn.yield %y : f32".
        normalize: see above; False with beta.
        scale: None: 1 / sqrt(dk) of q as given.
        causal: False: every token reads the state after all of them.
        decay: logarithms of gates, <= 0, -inf for a gate of 0: [b, H, t], or
            [b, H, t, dk] for each key channel, in the order of `layout`; or [H].
        beta, log_weight: [b, H, t]. log_weight is log w_t.
        initial_state: a dict of float32 arrays "S" [n, H, dk, dv], with normalize "z"
            [n, H, dk], with log_weight "m" [n, H], as return_state gives it; an
            array is S. n is b, or the number of sequences.
        return_state: returns (o, state) with the state after the last token. With
            log_weight it is S exp(-m), z exp(-m) and m, the largest logarithm of a
            weight so far.
        cu_seqlens: int32 [n + 1], where packed sequences begin; with layout "thd",
            or one batch.
        lengths: int32 [b], how many tokens each batch has: those behind do nothing,
            whatever they hold, and their outputs are 0.
        layout: "bhsd", "bshd", "sbhd" or "thd".
        qk_l2norm: divides rows of q and k by their norms, after feature_map.
        state_layout: "vk": S is [n, H, dv, dk] in initial_state and in what is
            returned.
        out: an array to write o to.
    Returns:
        o, of the type of q: [b, max(hq, H), t, dv] in the order of `layout`.
    Raises:
        ValueError, TypeError: what was given does not fit.
    """
    return run_scan(
        q,
        k,
        v,
        feature_map=feature_map,
        normalize=normalize,
        scale=scale,
        causal=causal,
        decay=decay,
        beta=beta,
        log_weight=log_weight,
        initial_state=initial_state,
        return_state=return_state,
        cu_seqlens=cu_seqlens,
        lengths=lengths,
        layout=layout,
        qk_l2norm=qk_l2norm,
        state_layout=state_layout,
        out=out,
    )

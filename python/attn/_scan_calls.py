"""attn.scan with all of its options, and attn.scan_step.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

from typing import Any, Optional

from . import _arrays as arrays
from . import _checks as checks
from . import _scans
from ._checks import fail as _fail


def scan(
    q: Any,
    k: Any,
    v: Any,
    *,
    feature_map: Any = None,
    normalize: bool = False,
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
    out: Any = None,
    monoid: Optional[str] = None,
    weight: Any = None,
    gate: Optional[str] = None,
    erase: Any = None,
    read: str = "after",
    bonus: Any = None,
    direction: str = "forward",
    states_every: Optional[int] = None,
    slots: Any = None,
    segments: Optional[int] = None,
    gate_map: Any = None,
    finalize: Any = None
) -> Any:
    """The scan that attn.linear_attention is, with every option of attn.scan.

        S_t = exp(decay_t) S_{t-1} + b_t a_t^T S' + w_t k_t v_t^T
        o_t = scale q_t^T S_t

    Args beside those of attn.linear_attention:
        normalize: False by default.
        monoid: None, or the one that the operands say: "gated_decay" with decay,
            "mlstm" with decay and log_weight; prefixes of other monoids are
            attn.prefix_states.
        weight: w_t, [b, H, t] in the order of `layout`.
        gate: what decay has gates for: "head", "key" (each key channel), "value"
            (each value channel); None: by its dimensions, head or key.
        erase: (a, b) or (a, b, "before"), each [b, H, t, dk]: S' is the decayed
            state, or with "before" S_{t-1} (DPLR, RWKV-7).
        read: "before": o_t reads S_{t-1} (RWKV-6), and with bonus u [H, dk] has
            scale (q_t * u . k_t) v_t more.
        direction: "reverse": from the last token to the first; "whole": every token
            reads the last state, which is causal=False.
        states_every: n; also returns the states after every n-th token, as the last
            result: a dict of arrays [sequences, H, t // n, ...].
        slots: int32 [sequences]; initial_state is then a pool of states, S
            [slots, H, dk, dv], in which sequence i begins with that of slots[i] and
            leaves its last one. -1: it begins with 0, and leaves none.
        segments: cuts the tokens into so many, which run beside each other: for few
            heads with many tokens, and for a third more work. Without beta, erase,
            log_weight, cu_seqlens and slots.
        gate_map: what makes log gates of the elements of decay. ("softplus", A, bias):
            -exp(A) softplus(decay + bias), with A and bias [H], or [H, d] where gates
            are of d channels; or (text, array...): MLIR text of a region, and what it
            takes beside the element, "^bb0(%x: f32, %a: f32): ... attn.yield %y : f32".
        finalize: what is made of the outputs, after normalize. ("silu", z): o silu(z),
            z like o; or (text, array...), with arrays like o, [Ho] or [Ho, dv], where
            o has Ho heads.
    Returns:
        o; (o, state) with return_state; and the states of states_every behind.
    """
    own = "gated_decay" if log_weight is None else "mlstm"
    own = None if decay is None else own
    if monoid is not None and not (isinstance(monoid, str) and monoid == own):
        _fail(
            "monoid=%r, since decay and log_weight say which; attn.prefix_states "
            "has the prefixes of other monoids" % (own,),
            checks.shown(monoid),
        )
    if slots is not None and initial_state is None:
        _fail("a pool as initial_state with slots", "None")
    options = dict(
        feature_map=feature_map,
        normalize=normalize,
        scale=scale,
        causal=causal,
        qk_l2norm=qk_l2norm,
        state_layout=state_layout,
        layout=layout,
        gate=gate,
        read=read,
        bonus=bonus,
        direction=direction,
        gate_map=gate_map,
    )
    if states_every is None:
        return _scans.run_scan(
            q,
            k,
            v,
            decay=decay,
            beta=beta,
            log_weight=log_weight,
            weight=weight,
            erase=erase,
            initial_state=initial_state,
            return_state=return_state,
            cu_seqlens=cu_seqlens,
            lengths=lengths,
            slots=slots,
            segments=segments,
            out=out,
            finalize=finalize,
            **options
        )
    states_every = checks.integer("states_every", states_every, 1)
    for name, given in (
        ("cu_seqlens", cu_seqlens is not None),
        ("lengths", lengths is not None),
        ("slots", slots is not None),
        ("segments", segments is not None),
        ("out", out is not None),
        ("finalize", finalize is not None),
        ("direction %r" % direction, direction != "forward"),
        ("causal=False", not causal),
    ):
        if given:
            _fail("states_every without %s" % name, "both")
    if erase is not None and (
        not isinstance(erase, (tuple, list)) or len(erase) not in (2, 3)
    ):
        _fail(
            "erase to be a tuple (a, b) or (a, b, 'before')",
            type(erase).__name__,
            TypeError,
        )
    operands = dict(decay=decay, beta=beta, log_weight=log_weight, weight=weight)
    return _by_parts(
        q, k, v, operands, erase, initial_state, return_state, states_every, options
    )


def _by_parts(q, k, v, operands, erase, state, return_state, size, options):
    """One part of the tokens after the other, each from the state of the last."""
    axes = _scans.LAYOUTS.get(options["layout"])
    arrays.view("q", q)
    if axes is None or len(axes) != 4 or len(q.shape) != 4:
        _fail(
            "q of 4 dimensions in layout 'bhsd', 'bshd' or 'sbhd' with states_every",
            arrays.describe(q),
        )
    axis = options["layout"].index("s")
    tokens, outputs, states = q.shape[axis], [], []

    def cut(x, first, end):
        if x is None or len(getattr(x, "shape", ())) < 2:
            return x  # one for each head
        return x[(slice(None),) * axis + (slice(first, end),)]

    def cut_numbers(x, first, end):
        if len(getattr(x, "shape", ())) > axis and x.shape[axis] == 1:
            return x  # one for all tokens
        return cut(x, first, end)

    first = 0
    while first < tokens or not outputs:
        end = min(first + size, tokens)
        parts = {n: cut_numbers(x, first, end) for n, x in operands.items()}
        if erase is not None:
            pair = tuple(cut_numbers(x, first, end) for x in erase[:2])
            parts["erase"] = pair + tuple(erase[2:])
        o, state = _scans.run_scan(
            *(cut(x, first, end) for x in (q, k, v)),
            initial_state=state,
            return_state=True,
            **parts,
            **options
        )
        outputs.append(o)
        if end - first == size:
            states.append(state)
        first = end
    joined = {part: _stack([s[part] for s in states], state[part], 2) for part in state}
    o = _concatenate(outputs, axis)
    return (o, state, joined) if return_state else (o, joined)


def _stack(values, like, axis):
    if arrays.is_torch(like):
        torch = arrays.torch_module()
        shape = list(like.shape)
        shape.insert(axis, 0)
        return torch.stack(values, axis) if values else like.new_empty(shape)
    import numpy

    if values:
        return numpy.stack(values, axis)
    shape = list(like.shape)
    shape.insert(axis, 0)
    return numpy.empty(shape, numpy.float32)


def _concatenate(values, axis):
    if arrays.is_torch(values[0]):
        return arrays.torch_module().cat(values, axis)
    import numpy

    return numpy.concatenate(values, axis)


def scan_step(
    q: Any,
    k: Any,
    v: Any,
    state: Any,
    *,
    decay: Any = None,
    beta: Any = None,
    log_weight: Any = None,
    weight: Any = None,
    gate: Optional[str] = None,
    erase: Any = None,
    read: str = "after",
    bonus: Any = None,
    feature_map: Any = None,
    normalize: Optional[bool] = None,
    scale: Optional[float] = None,
    qk_l2norm: bool = False,
    layout: str = "bhsd",
    slots: Any = None,
    state_layout: str = "kv",
    gate_map: Any = None,
    finalize: Any = None,
    out: Any = None
) -> Any:
    """One more token of each sequence; the state is updated in place.

    Args:
        q, k, v: [b, h, d]; or of 4 dimensions, as `layout` says, with one token or
            more.
        state: a dict of writable float32 arrays, as attn.scan returns it, or S alone;
            S may be bfloat16 or float16, to which each step rounds it.
        decay, beta, log_weight, weight: [b, H], decay also [b, H, dk]; of q with 4
            dimensions as in attn.scan. erase: two arrays [b, H, dk].
        normalize: None: whether the state has a "z".
        state_layout: "vk": S is [n, H, dv, dk], of which a step on a GPU reads and
            writes whole rows of keys; a CPU takes longer for it.
        gate_map, finalize: as in attn.scan; arrays like o are [b, Ho, dv].
        slots: int32 [b]: the state of sequence i is number slots[i] of the arrays,
            which may have more; -1: none, it begins with 0 and leaves none. None:
            those of the sequences are 0, 1, .... Of tensors on a GPU an int32 tensor
            there is read by the kernel alone: nothing waits for it, graphs may be
            captured, and that its numbers differ is up to the caller.
    Returns:
        o, [b, max(hq, H), dv], of the dimensions of q.
    """
    if not isinstance(state, dict):
        state = {"S": state}
    arrays.view("q", q)
    is_token = len(q.shape) == 3
    if len(q.shape) not in (3, 4):
        _fail("q of 3 or 4 dimensions", arrays.describe(q))
    if is_token and not (isinstance(layout, str) and layout == "bhsd"):
        _fail("layout 'bhsd' with q [b, h, d]", checks.shown(layout))

    def wide(name, x, axis=2):
        if x is None or not is_token:
            return x
        x = _scans.as_own(name, x, q)
        if len(x.shape) < 2:
            return x
        return x[:, :, None]

    if is_token:
        for name, x in (("k", k), ("v", v)):
            arrays.view(name, x)
            if len(x.shape) != 3:
                _fail("%s [b, h, d], as q is" % name, arrays.describe(x))
    if erase is not None and is_token and isinstance(erase, (tuple, list)):
        erase = tuple(wide("erase", x) for x in erase[:2]) + tuple(erase[2:])
    if normalize is None:
        normalize = state.get("z") is not None
    if out is not None and is_token:
        arrays.view("out", out)
        if len(out.shape) != 3:
            _fail("out [b, h, d], as q is", arrays.describe(out))
    if is_token and isinstance(finalize, (tuple, list)):
        finalize = tuple(
            wide("finalize", x) if len(getattr(x, "shape", ())) == 3 else x
            for x in finalize
        )
    result = _scans.run_scan(
        wide("q", q),
        wide("k", k),
        wide("v", v),
        feature_map=feature_map,
        normalize=normalize,
        scale=scale,
        decay=wide("decay", decay),
        beta=wide("beta", beta),
        log_weight=wide("log_weight", log_weight),
        weight=wide("weight", weight),
        gate=gate,
        erase=erase,
        read=read,
        bonus=bonus,
        initial_state=state,
        layout=layout,
        qk_l2norm=qk_l2norm,
        slots=slots,
        state_layout=state_layout,
        gate_map=gate_map,
        finalize=finalize,
        in_place=True,
        out=wide("out", out),
        chunk=1 if is_token else None,
    )
    if out is not None:
        return out
    return result[:, :, 0] if is_token else result

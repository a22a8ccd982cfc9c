"""Functions of flash-linear-attention, by their names and with their arguments.

    from attn import fla
    o, state = fla.chunk_gated_delta_rule(q, k, v, g, beta, output_final_state=True)

Arrays are [b, t, h, d] as there, states float32 [n, h, dk, dv]; chunk_ and
fused_recurrent_ are one function here. An argument that is not known, or that
changes what is computed in a way that is not supported, raises.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

from . import _arrays as arrays
from ._checks import fail as _fail
from ._scan_calls import scan as _scan
from ._scans import as_own as _as_own, unit_stride as _unit_stride

__all__ = []


def _export(*names):
    def add(function):
        for name in names:
            globals()[name] = function
            __all__.append(name)
        return function

    return add


def _heads_of(x):
    arrays.view("q", x)
    if len(x.shape) != 4:
        _fail("q of 4 dimensions, [b, t, h, d]", arrays.describe(x))
    return x.shape[2]


def _run(
    q,
    k,
    v,
    *,
    scale,
    initial_state,
    output_final_state,
    cu_seqlens=None,
    state_v_first=False,
    head_first=False,
    **options,
):
    if head_first:
        _fail("head_first=False, [b, t, h, d]", "True")
    # Views of any strides, as there.
    q, k, v = (
        _unit_stride(x) if arrays.is_torch(x) or arrays.is_numpy(x) else x
        for x in (q, k, v)
    )
    arrays.view("q", q)
    if initial_state is not None:
        initial_state = _as_own("initial_state", initial_state, q)
    result = _scan(
        q,
        k,
        v,
        scale=scale,
        initial_state=initial_state,
        return_state=output_final_state,
        cu_seqlens=cu_seqlens,
        layout="bshd",
        state_layout="vk" if state_v_first else "kv",
        **options
    )
    if not output_final_state:
        return result, None
    o, state = result
    return o, state["S"]


@_export("chunk_linear_attn", "fused_chunk_linear_attn")
def chunk_linear_attn(
    q,
    k,
    v,
    scale=None,
    initial_state=None,
    output_final_state=False,
    normalize=True,
    head_first=False,
):
    """Without decay; with `normalize` divided by the sum of all weights."""
    if not normalize:
        return _run(
            q,
            k,
            v,
            scale=scale,
            initial_state=initial_state,
            output_final_state=output_final_state,
            head_first=head_first,
        )
    if initial_state is not None:
        _fail("normalize=False with initial_state, which has no sum of keys", "True")
    if head_first:
        _fail("head_first=False, [b, t, h, d]", "True")
    o, state = _scan(
        q, k, v, scale=scale, normalize=True, return_state=True, layout="bshd"
    )
    return o, state["S"] if output_final_state else None


@_export("fused_recurrent_linear_attn")
def fused_recurrent_linear_attn(
    q,
    k,
    v,
    scale=None,
    initial_state=None,
    output_final_state=False,
    normalize=False,
    head_first=False,
):
    """As chunk_linear_attn, which normalizes by default."""
    return chunk_linear_attn(
        q, k, v, scale, initial_state, output_final_state, normalize, head_first
    )


@_export("chunk_simple_gla", "fused_recurrent_simple_gla", "fused_chunk_simple_gla")
def chunk_simple_gla(
    q,
    k,
    v,
    g=None,
    g_gamma=None,
    scale=None,
    initial_state=None,
    output_final_state=False,
    state_v_first=False,
    cu_seqlens=None,
    head_first=False,
):
    """Log gates g [b, t, h] of each token, or g_gamma [h] of each head."""
    if g is not None and g_gamma is not None:
        _fail("g or g_gamma", "both")
    return _run(
        q,
        k,
        v,
        decay=g if g is not None else g_gamma,
        gate=None if g is None and g_gamma is None else "head",
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
        state_v_first=state_v_first,
        head_first=head_first,
    )


@_export(
    "chunk_retention",
    "fused_recurrent_retention",
    "fused_chunk_retention",
    "parallel_retention",
)
def chunk_retention(
    q,
    k,
    v,
    scale=None,
    initial_state=None,
    output_final_state=False,
    state_v_first=False,
    cu_seqlens=None,
    head_first=False,
):
    """Gates 1 - 2^(-5 - head)."""
    import numpy

    gates = numpy.log1p(-(2.0 ** (-5.0 - numpy.arange(_heads_of(q)))))
    return chunk_simple_gla(
        q,
        k,
        v,
        g_gamma=gates,
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        state_v_first=state_v_first,
        cu_seqlens=cu_seqlens,
        head_first=head_first,
    )


@_export("chunk_lightning_attn", "fused_recurrent_lightning_attn")
def chunk_lightning_attn(
    q,
    k,
    v,
    layer_idx,
    num_layers,
    scale=None,
    initial_state=None,
    output_final_state=False,
    state_v_first=False,
    cu_seqlens=None,
    head_first=False,
):
    """Gates by the layer: exp(-8 / heads (1 - layer / layers) head)."""
    import numpy

    heads = _heads_of(q)
    gates = -(8 / max(heads, 1) * (1 - layer_idx / num_layers)) * numpy.arange(heads)
    return chunk_simple_gla(
        q,
        k,
        v,
        g_gamma=gates,
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        state_v_first=state_v_first,
        cu_seqlens=cu_seqlens,
        head_first=head_first,
    )


@_export("chunk_gla", "fused_chunk_gla")
def chunk_gla(
    q,
    k,
    v,
    g,
    scale=None,
    initial_state=None,
    output_final_state=False,
    state_v_first=False,
    cu_seqlens=None,
    head_first=False,
):
    """Log gates g [b, t, h, dk]."""
    return _run(
        q,
        k,
        v,
        decay=g,
        gate="key",
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
        state_v_first=state_v_first,
        head_first=head_first,
    )


@_export("fused_recurrent_gla")
def fused_recurrent_gla(
    q,
    k,
    v,
    gk=None,
    gv=None,
    scale=None,
    initial_state=None,
    output_final_state=False,
    reverse=False,
    cu_seqlens=None,
    head_first=False,
):
    """Log gates gk of key channels or gv of value channels."""
    if gk is not None and gv is not None:
        _fail("gk or gv", "both")
    return _run(
        q,
        k,
        v,
        decay=gv if gk is None else gk,
        gate="key" if gk is not None else "value" if gv is not None else None,
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
        head_first=head_first,
        direction="reverse" if reverse else "forward",
    )


@_export("chunk_delta_rule", "fused_recurrent_delta_rule", "fused_chunk_delta_rule")
def chunk_delta_rule(
    q,
    k,
    v,
    beta=None,
    scale=None,
    initial_state=None,
    output_final_state=False,
    use_qk_l2norm_in_kernel=False,
    state_v_first=False,
    cu_seqlens=None,
    head_first=False,
):
    """The delta rule; beta [b, t, h], 1 where there is none."""
    return chunk_gated_delta_rule(
        q,
        k,
        v,
        None,
        beta,
        scale,
        initial_state,
        output_final_state,
        use_qk_l2norm_in_kernel,
        state_v_first=state_v_first,
        cu_seqlens=cu_seqlens,
        head_first=head_first,
    )


def _ones(q, v):
    """beta of 1 for all tokens."""
    import numpy

    heads = max(_heads_of(q), _heads_of(v))
    return numpy.ones((q.shape[0], q.shape[1], heads), "float32")


@_export("chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule")
def chunk_gated_delta_rule(
    q,
    k,
    v,
    g=None,
    beta=None,
    scale=None,
    initial_state=None,
    output_final_state=False,
    use_qk_l2norm_in_kernel=False,
    state_v_first=False,
    cu_seqlens=None,
    head_first=False,
):
    """The delta rule with log gates g [b, t, h]."""
    return _run(
        q,
        k,
        v,
        decay=g,
        gate=None if g is None else "head",
        beta=_ones(q, v) if beta is None else beta,
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        qk_l2norm=use_qk_l2norm_in_kernel,
        cu_seqlens=cu_seqlens,
        state_v_first=state_v_first,
        head_first=head_first,
    )


@_export("chunk_kda", "fused_recurrent_kda")
def chunk_kda(
    q,
    k,
    v,
    g,
    beta,
    scale=None,
    initial_state=None,
    output_final_state=False,
    use_qk_l2norm_in_kernel=False,
    use_gate_in_kernel=False,
    state_v_first=False,
    cu_seqlens=None,
    A_log=None,
    dt_bias=None,
):
    """The delta rule with log gates g [b, t, h, dk]; with use_gate_in_kernel they are
    -exp(A_log) softplus(g + dt_bias), A_log [h] and dt_bias [h dk] or None."""
    if beta is None:
        _fail("beta [b, t, h]", "None")
    gate_map = None
    if use_gate_in_kernel:
        if A_log is None:
            _fail("A_log with use_gate_in_kernel", "None")
        shape = tuple(g.shape[-2:])
        rate = A_log.reshape((-1,))
        bias = 0 * rate if dt_bias is None else dt_bias.reshape(shape)
        gate_map = ("softplus", rate, bias)
    elif A_log is not None or dt_bias is not None:
        _fail("use_gate_in_kernel with A_log and dt_bias", "False")
    return _run(
        q,
        k,
        v,
        decay=g,
        gate="key",
        gate_map=gate_map,
        beta=beta,
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        qk_l2norm=use_qk_l2norm_in_kernel,
        cu_seqlens=cu_seqlens,
        state_v_first=state_v_first,
    )


@_export("chunk_rwkv6", "fused_recurrent_rwkv6")
def chunk_rwkv6(
    r,
    k,
    v,
    w,
    u,
    scale=None,
    initial_state=None,
    output_final_state=False,
    cu_seqlens=None,
    head_first=False,
):
    """Log gates w [b, t, h, dk]; each token reads the state before it, and itself with
    the bonus u [h, dk]."""
    return _run(
        r,
        k,
        v,
        decay=w,
        gate="key",
        read="before",
        bonus=u,
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
        head_first=head_first,
    )


@_export("chunk_dplr_delta_rule", "fused_recurrent_dplr_delta_rule")
def chunk_dplr_delta_rule(
    q,
    k,
    v,
    a,
    b,
    gk,
    scale=None,
    initial_state=None,
    output_final_state=False,
    cu_seqlens=None,
    head_first=False,
):
    """S_t = diag(exp gk) S + b (a^T S) + k v^T, S being the state before."""
    return _run(
        q,
        k,
        v,
        decay=gk,
        gate="key",
        erase=(a, b, "before"),
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
        head_first=head_first,
    )


@_export("chunk_iplr_delta_rule", "fused_recurrent_iplr_delta_rule")
def chunk_iplr_delta_rule(
    q,
    k,
    v,
    a,
    b,
    scale=None,
    initial_state=None,
    output_final_state=False,
    cu_seqlens=None,
    head_first=False,
):
    """As chunk_dplr_delta_rule, without gates."""
    return _run(
        q,
        k,
        v,
        erase=(a, b),
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
        head_first=head_first,
    )


@_export("chunk_rwkv7", "fused_recurrent_rwkv7")
def chunk_rwkv7(
    r,
    w,
    k,
    v,
    a,
    b,
    scale=1.0,
    initial_state=None,
    output_final_state=True,
    cu_seqlens=None,
    head_first=False,
):
    """RWKV-7, with log gates w."""
    return chunk_dplr_delta_rule(
        r,
        k,
        v,
        a,
        b,
        w,
        scale,
        initial_state,
        output_final_state,
        cu_seqlens,
        head_first,
    )


def _ones_like(x):
    if arrays.is_torch(x):
        return arrays.torch_module().ones_like(x)
    import numpy

    return numpy.ones_like(x)


@_export("chunk_hgrn", "fused_recurrent_hgrn")
def chunk_hgrn(x, g, initial_state=None, output_final_state=False, cu_seqlens=None):
    """h_t = exp(g_t) h + x_t in each channel, of arrays [b, t, d]."""
    arrays.view("x", x)
    if len(x.shape) != 3 or len(getattr(g, "shape", ())) != 3:
        _fail("x and g of 3 dimensions, [b, t, d]", arrays.describe(x))
    ones = _ones_like(x[:, :, None, :1])
    state = None if initial_state is None else initial_state[:, None, None, :]
    o, state = _run(
        ones,
        ones,
        x[:, :, None],
        decay=g[:, :, None],
        gate="value",
        scale=1.0,
        initial_state=state,
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
    )
    return o[:, :, 0], None if state is None else state[:, 0, 0]


def _numpy_or_torch(x):
    if arrays.is_torch(x):
        return arrays.torch_module()
    import numpy

    return numpy


def _wide(name, x):
    arrays.view(name, x)
    return x.float() if arrays.is_torch(x) else x.astype("float32")


def _like(x, q):
    """Of the type of q."""
    return x.to(q.dtype) if arrays.is_torch(q) else x.astype(q.dtype)


def _softmax(x):
    if arrays.is_torch(x):
        return x.softmax(-1)
    import numpy

    e = numpy.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@_export("chunk_gsa", "fused_recurrent_gsa")
def chunk_gsa(
    q,
    k,
    v,
    s,
    g=None,
    scale=None,
    initial_state=None,
    output_final_state=False,
    cu_seqlens=None,
    head_first=False,
):
    """Gated slot attention: slots s and their log gates g, [b, t, h, m]. Queries read
    keys from the slots, and with the softmax of that values from them. States are
    ([n, h, dk, m], [n, h, m, dv]); without g slots are s relative to what came before.
    """
    for name, x in (("q", q), ("k", k), ("v", v), ("s", s)):
        arrays.view(name, x)
        if len(x.shape) != 4:
            _fail("%s of 4 dimensions, [b, t, h, d]" % name, arrays.describe(x))
    if initial_state is not None and (
        not isinstance(initial_state, (tuple, list)) or len(initial_state) != 2
    ):
        _fail(
            "initial_state to be a tuple of two states",
            type(initial_state).__name__,
            TypeError,
        )
    first, second = (None, None) if initial_state is None else initial_state
    slots = _wide("s", s)
    if g is None:
        if cu_seqlens is not None or initial_state is not None:
            _fail("g with cu_seqlens and initial_state", "None")
        library = _numpy_or_torch(s)
        if arrays.is_torch(s):
            z = slots.logcumsumexp(1)
            g = library.cat([z[:, :1], z[:, :-1]], 1) - z
        else:
            z = library.logaddexp.accumulate(slots, 1)
            g = library.concatenate([z[:, :1], z[:, :-1]], 1) - z
        slots = library.exp(slots - z)
    how = dict(
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
        head_first=head_first,
    )
    read, keys = _run(
        _wide("q", q),
        _wide("k", k),
        slots,
        decay=g,
        gate="value",
        scale=scale,
        initial_state=first,
        **how,
    )
    o, values = _run(
        _softmax(read),
        slots,
        _wide("v", v),
        decay=g,
        scale=1.0,
        initial_state=second,
        **how,
    )
    return _like(o, q), (keys, values) if output_final_state else None


@_export("chunk_log_linear_attn")
def chunk_log_linear_attn(q, k, v, g, level_scales, scale=None, head_first=False):
    """Sums over the nodes of a Fenwick tree: token t reads itself with level_scales
    [..., 0], and with [..., n] the first half of its block of 2^n tokens, if it is in
    the second. q, k [b, t, h, dk], v [b, t, H, dv], log gates g [b, t, H],
    level_scales [b, t, H, levels]. A scan for each level."""
    import numpy

    arrays.view("g", g)
    for name, x in (("q", q), ("k", k), ("v", v), ("level_scales", level_scales)):
        arrays.view(name, x)
        if len(x.shape) != 4:
            _fail("%s of 4 dimensions, [b, t, h, d]" % name, arrays.describe(x))
    b, t, heads = v.shape[:3]
    levels = max(t - 1, 0).bit_length() + 1
    if tuple(level_scales.shape[:3]) != (b, t, heads) or level_scales.shape[3] < levels:
        _fail(
            "level_scales of shape [%d, %d, %d, %d]" % (b, t, heads, levels),
            list(level_scales.shape),
        )
    if tuple(g.shape) != (b, t, heads):
        _fail("g of shape [%d, %d, %d]" % (b, t, heads), list(g.shape))
    flat = lambda name, x: _wide(name, x).reshape((1, b * t) + tuple(x.shape[2:]))
    q, k, v, g, dtype = flat("q", q), flat("k", k), flat("v", v), flat("g", g), q
    scales, total = flat("level_scales", level_scales), None
    token = numpy.tile(numpy.arange(t), b)
    for level in range(levels):
        # Blocks are sequences; the first half of each writes, the second reads.
        size = 1 << level
        cu = (numpy.arange(b)[:, None] * t + numpy.arange(0, t, size)).ravel()
        half = token % size < size // 2
        writes, reads = (
            (half, ~half) if level else (numpy.ones(b * t), numpy.ones(b * t))
        )
        turn = lambda x: _as_own("weight", x.astype("float32")[None, :, None], q)
        weight = turn(numpy.asarray(writes))
        mask = turn(numpy.asarray(reads))[..., None]
        if arrays.is_torch(q):
            as_tensor = arrays.torch_module().as_tensor
            weight, mask = (as_tensor(x, device=q.device) for x in (weight, mask))
        o, _ = _run(
            q,
            k,
            v,
            decay=g,
            weight=weight,
            scale=scale,
            initial_state=None,
            output_final_state=False,
            cu_seqlens=numpy.append(cu, b * t).tolist(),
            head_first=head_first,
        )
        part = o * mask * scales[..., level : level + 1]
        total = part if total is None else total + part
    return _like(total.reshape((b, t) + tuple(total.shape[2:])), dtype), None


def __getattr__(name):
    raise AttributeError(
        "attn: expected one of the functions %s, but got %r"
        % (", ".join(sorted(set(__all__))), name)
    )

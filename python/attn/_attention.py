"""attn.attention and attn.compile.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import operator
import os
import sys
from typing import Any, Dict, Optional, Sequence, Tuple, Union

from . import _arrays as arrays
from . import _call
from . import _kernel
from . import _library as c
from . import _masks
from . import _plans
from . import _rotary
from ._checks import fail as _fail


def clear_cache() -> None:
    """Lets go of all kernels that are kept for later calls, in memory; those that a
    program holds stay. Not of the cache on disk, which is for GPUs."""
    from . import _gradients  # which imports this

    _plans.clear()
    _call.signatures.clear()
    _kernel.kept.clear()
    _gradients.clear()
    eager = sys.modules.get(__package__ + "._torch_eager")
    if getattr(eager, "IS_WHOLE", False):
        eager.clear()
    c.lib.attnContextClearCache(c.context)


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    scale: Optional[float] = None,
    causal: Optional[str] = None,
    window: Optional[Tuple[int, int]] = (-1, -1),
    softcap: float = 0.0,
    mask: Any = None,
    bias: Any = None,
    alibi_slopes: Any = None,
    sinks: Any = None,
    kv_lengths: Any = None,
    score_mod: Optional[str] = None,
    mask_mod: Optional[str] = None,
    monoid: str = "softmax",
    layout: str = "bhsd",
    return_lse: bool = False,
    return_aux: Union[str, Sequence[str], None] = None,
    out: Any = None,
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
    monoid_params: Sequence[float] = (),
    precision: str = "ieee",
    block_table: Any = None,
    k_start: Any = None,
    rolling: bool = False,
    batch_invariant: bool = False,
    k_new: Any = None,
    v_new: Any = None,
    v_dim: Optional[int] = None,
    captures: Optional[Dict[str, Any]] = None,
    block_mask: Optional[_masks.BlockMask] = None,
    dropout_p: float = 0.0,
    dropout_rng: Optional[Tuple[int, int]] = None,
    deterministic: bool = True,
    rotary: Optional[_rotary.Rotary] = None,
    cascade: Union[bool, int, str] = False
) -> Any:
    """Attention on NumPy arrays, torch tensors or other arrays in host memory with
    __dlpack__, without copies: on the CPU, or on the NVIDIA GPU that torch tensors
    are on, then in order on torch's current stream.

    score = scale * q.k, then softcap, then score_mod, then bias and ALiBi, then the
    masks, then the monoid (softmax). A kernel is compiled on the first call of its
    kind, in a fraction of a second; sizes and the values of all operands are free.
    Sizes fall into classes with a kernel each (few rows, and few rows of many keys in
    powers of two; on sm_90a many keys, and many rows with them), so that new lengths
    seldom compile again.

    Args:
        q, k, v: float32, float16 or bfloat16 (NumPy: ml_dtypes.bfloat16), the
            same for all; q [b, hq, sq, d], k [b, hk, sk, d], v [b, hk, sk, dv]
            in the order that `layout` says, any strides with 1 in the last
            dimension. Query head h reads key head h // (hq / hk). Sizes may be 0.
            `v` may be None where the monoid takes no values, and with v_dim.
        scale: factor on q.k; None: 1 / sqrt(d).
        causal: None, "top_left" (query i sees keys up to i) or "bottom_right"
            (the last query sees the last key, of kv_lengths where given).
        window: (left, right) numbers of keys, inclusive, around the diagonal,
            which is that of `causal`, else bottom-right; -1: no bound. None is
            (-1, -1).
        softcap: scores become softcap * tanh(score / softcap); 0 or inf: off.
        mask: boolean, True = attend, broadcast to [b, hq, sq, sk] as NumPy does,
            in every layout. For "thd": [sequences, hq, sq, sk], with positions
            counted within the sequence.
        bias: as mask, a float type; added to the score; -inf is dead.
        alibi_slopes: float32 [hq] or [b, hq]; adds -slope * |i + len - sq - j|.
        sinks: float32 [hq], logits in units of the final score that enter the
            denominator only.
        kv_lengths: int32 [b], the keys of each batch: those behind are not read.
        score_mod, mask_mod: a function of scores and a mask, as the text of a region
            in MLIR (docs/Masks.md): "^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j:
            i32): ... attn.yield %x : f32"; a mask has no %s and yields an i1. They
            go with all other options: a key is live that every mask lets pass.
            mask may be such a text in place of mask_mod.
        captures: a dict of what score_mod and mask_mod take behind %j, arrays and
            numbers by the names of these arguments.
        block_mask: an attn.BlockMask, lists of the blocks of keys that blocks of
            queries see; others are not visited.
        monoid: a shipped name (attn.monoids()), or the text of an `attn.monoid`.
        layout: "bhsd", "bshd", "sbhd", or "thd" for packed sequences, with rows
            cu_seqlens[n] to cu_seqlens[n + 1] for sequence n. Rows behind the
            last sequence are rows without a key, in `out` too.
        return_lse: also return the natural logarithm of the sum of exponentials
            of each row, float32 [b, hq, sq] ("thd": [hq, total_q]), sinks
            included; -inf for a row without a live key.
        return_aux: names of more outputs of the monoid, as ("entropy",) or
            ("max",); a dict of them, float32 [b, hq, sq], is returned as well.
        out: an array to write the output to, of the output's shape and type. It
            must not share an element with q, k, v or another operand; what
            interleaves with them, as the heads of one buffer, is fine. After an
            error it holds anything.
        cu_seqlens_q, cu_seqlens_k: int32 [sequences + 1], from 0; layout "thd".
        block_table: int32 [b, n], the pages of each sequence: k and v are then
            pools, [pages, hk, page, d] in layout "bhsd", and [pages, page, hk, d]
            in "bshd" and in "thd", which then takes cu_seqlens_q alone. Sequences
            may share pages. Entries behind the last page of a sequence, as -1,
            are not looked at.
        k_start: int32 [b], the position of the first key: key j of a sequence is
            at position k_start + j, for masks too that begin at 0 (causal
            "top_left"). Diagonals that end with the last key are where they were.
        rolling: k and v are caches that are written round and round: the key at
            position p is in row p modulo the rows there are. Takes k_start.
        batch_invariant: whether the bits of a row are to depend on its query, its
            keys and their positions alone, and not on what else is in the call:
            other sequences, how many, packed or not, whether the row is one of a
            prompt, of a chunk of it, or alone. Keys are then cut after a fixed number
            of them, whatever is beside, which prompts take somewhat longer for.
        cascade: whether pages that the block tables of several sequences begin with
            are read once for the rows of all of them; a number from 1 (True) to 4
            says in how many levels: with 2 also the pages that some of those go on
            with, and so on. Equal entries at equal places tell, on the device and in
            each call, so that tables may change under a captured CUDA graph. For few
            rows of each sequence, as when decoding; with block_table, and with
            causal=None or "bottom_right", and neither with other masks nor with scores
            that differ by position. Results are those without it but for rounding.
            "auto": one level where it goes with the other options and pays; on a CPU
            the table of the call tells, on a GPU its sizes do, by what is saved if
            all sequences share all pages.
        k_new, v_new: [b, hk, n, d] and [b, hk, n, dv] in the order of `layout`
            ("thd": of "bshd"), rows that are appended to k and v, in place, before
            the call attends to them: row i of batch b becomes row
            kv_lengths[b] + i of its sequence. k and v are caches then, dense, in
            pages or rolling, with room for n more rows, and kv_lengths, which
            must be given, are the lengths before; causal "bottom_right" ends at
            the last new row. On a GPU, where lengths are not read, what has no
            room is not written. Sequences that share the page of their new rows
            both write to it. With layout "thd" and block_table they may be packed,
            too, [total, hk, d]: sequence b appends the rows cu_seqlens_q[b] to
            cu_seqlens_q[b + 1], as many as it has queries, or none.
        v_dim: with v=None, the values are the first v_dim columns of k, in its
            memory (multi-head latent attention). k_new then has them too. A v that
            is such a view, k[..., :n], is read once as well, but with k_new or
            rotary.
        dropout_p: between 0 and 1, the share of pairs of a query and a key whose
            value is dropped; the others count 1 / (1 - p) times as much. As in
            torch, that is after the softmax: its sum, and the LSE, are those of
            all keys.
        dropout_rng: (seed, offset), two integers of 64 bits, which must be given
            with dropout_p: the pairs that are dropped follow from them, and are
            those of attn.dropout_mask on every device. Count the offset up from
            call to call.
        deterministic: False allows gradients to be added up in any order, so that
            the last bits of those of q may differ from call to call. That is one
            kernel instead of two where a GPU has it (docs/Gradients.md); elsewhere,
            and in the forward pass, sums have one order also then.
        rotary: an attn.Rotary, whose angles q and k turn by before the product, so
            that caches hold keys as they were before. On GPUs what has turned is
            rounded to the type of q, as where torch turns the rows, which it does
            where there are gradients. Not with v_dim.
        monoid_params: numbers, the run-time parameters of the monoid.
        precision: "ieee", or "tf32": float32 may be rounded to 10 bits behind the
            point where products are faster so, which is on NVIDIA GPUs
            (torch.backends.cuda.matmul.fp32_precision).

    kv_lengths, sinks, alibi_slopes, cu_seqlens and k_start may be lists.

    Of torch tensors that require grad it has gradients, as torch.autograd takes them:
    of q, k, v, bias, alibi_slopes, sinks, captures, scale, softcap and monoid_params,
    through the output, the LSE and other outputs; not of caches (block_table,
    k_start, rolling, k_new), and no second ones. It works under torch.compile,
    torch.utils.checkpoint and torch.autocast, which casts q, k and v.
    attn.attention_vjp has gradients of other arrays.

    The 256 kernels for CPUs that were used last are kept, and others compiled anew
    when they are needed again. Ctrl-C (SIGINT) ends a run on a CPU within a block of
    its work, with KeyboardInterrupt.

    Returns:
        The output [b, hq, sq, dv] in the order of `layout`, of q's type and kind (a
        NumPy array where q is neither of torch nor of a package that follows the
        array API standard); or a tuple (output, lse), (output, aux) or (output, lse,
        aux). A row without a live key is 0.

    Raises:
        ValueError: sizes, strides, devices or values that do not fit.
        TypeError: a type that is not supported.
        NotImplementedError: a score_mod or mask_mod that is a function of Python.
    """
    traced = (q, k, v, bias, mask, alibi_slopes, sinks, kv_lengths)
    traced += (cu_seqlens_q, cu_seqlens_k, block_table, k_start)
    if arrays.is_traced_jax(*traced):
        given = dict(locals())
        given.pop("traced")
        _rotary.check_traced(given.pop("rotary"))
        from . import _jax

        return _jax.attention(given)
    if type(return_aux) is list:
        return_aux = tuple(return_aux)
    operands = (q, k, v, mask, bias, alibi_slopes, sinks, kv_lengths)
    operands += (cu_seqlens_q, cu_seqlens_k, block_table, k_start, k_new, v_new)
    tables, turns = _rotary.operands_of(rotary)
    operands += tables + (out,)
    plain = (scale, causal, window, softcap, score_mod, mask_mod, monoid, layout)
    plain += (return_lse, return_aux, monoid_params, precision, rolling)
    plain += (batch_invariant, v_dim, captures, block_mask, deterministic, turns)
    plain += (cascade,)
    # A plan serves calls without gradients, which nothing else is asked of. The
    # numbers of dropout are others in each call, which then has none.
    drops = not (type(dropout_p) is float and dropout_p == 0.0)
    key = None if drops else _plans.key_of(operands, plain)
    plan = _plans.find(key)
    if plan is not None and not arrays.may_cast():
        return plan.run(operands)
    if arrays.is_torch(q):
        from . import _torch

        options = (scale, causal, window, softcap, score_mod, mask_mod, monoid, layout)
        options += (return_lse, return_aux, monoid_params, precision, rolling)
        options += (batch_invariant, v_dim, captures, block_mask, dropout_p)
        options += (deterministic,)
        tensors = (q, k, v, mask, bias, alibi_slopes, sinks, kv_lengths)
        tensors += (cu_seqlens_q, cu_seqlens_k)
        if out is block_table is k_start is k_new is v_new is rotary is None:
            result = None if cascade else _torch.again(tensors, options, dropout_rng)
            if result is not None:
                return result
        # Caches are as they are in memory.
        if block_table is None and k_new is None and not rolling and out is None:
            q, k, v = _torch.cast(q, k, v)
        wants = _torch.wants_gradient(
            *(q, k, v, bias, alibi_slopes, sinks, scale, softcap),
            *_torch.parts(monoid_params),
            *_torch.parts(captures)
        )
        _torch.check_number("dropout_p", dropout_p)
        writes = out is not None or k_new is not None or v_new is not None
        if wants and writes:
            _fail(
                "neither out nor k_new where gradients are wanted",
                "one; call under torch.no_grad()",
            )
        if (wants or (_torch.is_traced(q) and block_mask is None)) and not writes:
            if cascade and cascade != "auto":
                _fail(
                    "cascade=True without gradients, and not in a traced graph", "one"
                )
            if rotary is not None:
                from . import _torch_rotary

                caches = block_table, k_start, v_dim, rolling or None
                cu_seqlens = cu_seqlens_q, cu_seqlens_k
                rest = layout, causal, window, kv_lengths, cu_seqlens, caches
                if not _torch.is_traced(q):
                    _torch_rotary.check(q, k, v, rotary, *rest)
                q, k = _torch_rotary.turned(q, k, rotary, *rest)
            cached = block_table is not None or k_start is not None
            if not (_torch.is_traced(q) or cached):
                from . import _torch_eager

                tensors = (q, k, v) + tensors[3:]
                given = dict(zip(_torch_eager.OPTIONS, options))
                plain = _torch_eager.plain_of(tensors, given)
                if plain is not None:
                    return _torch_eager.attention(tensors, given, plain, dropout_rng)
            from . import _torch_operator

            return _torch_operator.attention(
                (q, k, v, mask, bias, alibi_slopes, sinks, kv_lengths)
                + (cu_seqlens_q, cu_seqlens_k, block_table, k_start),
                scale,
                causal,
                window,
                softcap,
                monoid,
                layout,
                return_lse,
                return_aux,
                monoid_params,
                precision,
                rolling,
                batch_invariant,
                v_dim,
                dropout_p,
                dropout_rng,
                score_mod,
                mask_mod,
                captures,
                block_mask,
                deterministic,
            )
    given, operands = operands, (q, k, v) + operands[3:]
    if not all(map(operator.is_, given, operands)):  # by autocast
        key = None if drops else _plans.key_of(operands, plain)
        plan = _plans.find(key)
    if plan is not None:
        return plan.run(operands)
    call = _call.Call(
        q,
        k,
        v,
        scale,
        causal,
        window,
        softcap,
        mask,
        bias,
        alibi_slopes,
        sinks,
        kv_lengths,
        score_mod,
        mask_mod,
        monoid,
        layout,
        return_lse,
        return_aux,
        cu_seqlens_q,
        cu_seqlens_k,
        monoid_params,
        precision,
        block_table,
        k_start,
        rolling,
        batch_invariant,
        k_new,
        v_new,
        v_dim,
        captures,
        block_mask,
        dropout_p,
        dropout_rng,
        deterministic,
        rotary,
        cascade,
    )
    result, how = call.run(out)
    _plans.remember(key, operands, *how)
    return result


_COMPILER_OPTIONS = ("target", "until_after", "dump_phases_to", "no_cache")
_TEXT_OPTIONS = ("entry", "source_name", "keep_ir") + _COMPILER_OPTIONS
_code = _call.Call.__init__.__code__
_CALL_OPTIONS = _code.co_varnames[4 : _code.co_argcount]  # behind self, q, k, v


def _check_options(given, known):
    for name in given:
        if name not in known:
            _fail(
                "an option of attn.compile (%s)" % ", ".join(known),
                repr(name),
                TypeError,
            )


def _is_path(source):
    """Whether this names a file of MLIR, where its text was asked for."""
    if isinstance(source, os.PathLike):
        return True
    return (
        isinstance(source, str)
        and source.endswith((".mlir", ".mlirbc"))
        and not set(source) & set("\n{}()")
    )


def compile(source: Any, *operands: Any, **options: Any) -> _kernel.Kernel:
    """Compiles a kernel and returns its handle, an attn.Kernel.

    compile(text, *, entry=None, target=None, until_after=None,
            dump_phases_to=None, source_name=None)
        compiles MLIR text or bytecode; a call runs the function `entry`, the
        first if None.
    compile(q, k, v, *, target=None, until_after=None, dump_phases_to=None,
            **options)
        compiles what attn.attention(q, k, v, **options) would run. Of sizes and
        values only the head dimensions count, and the class that the sizes fall
        into, whose schedule it has; it runs on any. Its inputs have the order
        [b, h, s, d].

    Args:
        target: a target's name, as "cpu-avx2" or "sm_90a", or "cuda" for the best
            of the current GPU; None: the module's, or that of the device that q
            is on, else this machine's.
        until_after: stop after this phase: "input", "aggregate", "schedule" or
            "tile"; of a CPU "vector" or "llvm", of a GPU "gpu" or "nvvm"; the
            kernel cannot run then.
        dump_phases_to: a directory for one numbered file per phase.
        source_name: stands for the text in errors.

    The handle has .mlir(phase), .explain(), .timings (milliseconds), .inputs and
    .outputs, and runs when called.

    Raises:
        ValueError: the text is wrong, or not supported; one line, with the
            compiler's notes attached (__notes__).
        TypeError: wrong types, as for attn.attention.
    """
    if _is_path(source):
        _fail(
            "MLIR text, or q, k and v",
            "a path, %r; pass what the file holds" % os.fspath(source),
        )
    if isinstance(source, (str, bytes, bytearray)):
        if operands:
            _fail(
                "nothing after the text", "%d more arguments" % len(operands), TypeError
            )
        _check_options(options, _TEXT_OPTIONS)
        return _kernel.compile_text(source, **options)
    if len(operands) != 2:
        _fail(
            "MLIR text, or q, k and v",
            "%d arguments, the first %s" % (1 + len(operands), arrays.describe(source)),
            TypeError,
        )
    _check_options(options, _CALL_OPTIONS + _COMPILER_OPTIONS)
    compiler = {
        name: options.pop(name) for name in _COMPILER_OPTIONS if name in options
    }
    return _call.Call(source, *operands, **options).compile(keep_ir=True, **compiler)

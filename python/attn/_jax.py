"""attn.attention in programs that JAX traces: under jax.jit, and with gradients.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

A traced call is a function of its arrays with a derivative of its own
(jax.custom_vjp); what it computes, it computes when the program runs, on the host
(jax.pure_callback). The backward pass runs the forward pass again for the states of
the rows. Imported where JAX traces a call, and never before.
"""

from typing import Any, Dict

import jax
import numpy

from . import _arrays as arrays
from . import _attention
from . import _call
from . import _gradients
from . import _operands
from ._checks import fail as _fail

# What may be traced, and of it what may have a gradient.
_ARRAYS = ("q", "k", "v", "mask", "bias", "alibi_slopes", "sinks", "kv_lengths")
_ARRAYS += ("cu_seqlens_q", "cu_seqlens_k", "block_table", "k_start")
_LISTS = {"alibi_slopes": "f4", "sinks": "f4", "kv_lengths": "i4"}
_LISTS.update(cu_seqlens_q="i4", cu_seqlens_k="i4", k_start="i4")
_REAL = ("q", "k", "v", "bias", "alibi_slopes", "sinks")


def attention(given: Dict[str, Any]) -> Any:
    """As attn.attention, of its arguments by name."""
    backend = jax.default_backend()
    if backend != "cpu":
        _fail(
            "JAX on the CPU where it traces or differentiates a call",
            backend + "; calls outside of jax.jit and jax.vjp run where arrays are",
            NotImplementedError,
        )
    for name in ("out", "k_new", "v_new"):
        if given[name] is not None:
            _fail("no %s where JAX traces, which writes to no array" % name, "one")
    for name, kind in _LISTS.items():
        if isinstance(given[name], (list, tuple)):
            given[name] = numpy.asarray(given[name], kind)
    names = [name for name in _ARRAYS if _is_array(given[name])]
    options = {name: value for name, value in given.items() if name not in names}
    for name, value in options.items():
        if any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(value)):
            _fail("%s to be known where JAX traces" % name, "a tracer", TypeError)
    values = [jax.numpy.asarray(given[name]) for name in names]
    return _Call(names, options, values).function(*values)


def _is_array(value):
    return isinstance(value, jax.core.Tracer) or arrays.kind_of(value) is not None


class _Call:
    """A call with arrays of these names, shapes and types, and other arguments.

    Attributes:
        function: the traced function of the arrays.
    """

    def __init__(self, names, options, values):
        self.names = names
        self.options = options
        self.real = tuple(name for name in names if name in _REAL)
        self.shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in values]
        self._check()
        self.results = jax.tree.map(self._widen, self._probe())
        self.gradients = tuple(
            shape for name, shape in zip(names, self.shapes) if name in self.real
        )
        self.function = self._build()

    def _check(self):
        """Says what does not fit while the program is traced, as far as arguments
        and shapes tell."""
        given = dict(self.options)
        given.pop("out")
        for name, value in zip(self.names, self.shapes):
            given[name] = numpy.empty(value.shape, value.dtype)
        call = _call.Call(**given)
        if given["k"].shape[-1] != given["q"].shape[-1]:
            _fail(
                "k of the head dimension of q, %d" % given["q"].shape[-1],
                arrays.describe(given["k"]),
            )
        if call.is_paged or call.layout == "thd":
            return
        q, k, v = (call.views.get(name) for name in ("q", "k", "v"))
        if q.shape[0] != k.shape[0] or q.shape[1] % max(k.shape[1], 1):
            _fail(
                "k of the batches of q, and of a number of heads that divides q's",
                "%s and %s" % (list(q.shape[:2]), list(k.shape[:2])),
            )
        if v is not None and v.shape[:3] != k.shape[:3]:
            _fail("v of the rows of k, %s" % list(k.shape[:3]), list(v.shape[:3]))

    def _probe(self):
        """The results of arrays of one row."""
        small = {}
        for name, value in zip(self.names, self.shapes):
            shape = [1] * len(value.shape)
            if name in ("q", "k", "v"):
                shape[-1] = value.shape[-1]
            if name.startswith("cu_"):
                shape = [2]
            small[name] = numpy.zeros(shape, value.dtype)
        # Which blocks are live changes no shape.
        return _attention.attention(**small, **dict(self.options, block_mask=None))

    def _widen(self, result):
        """The shape of a result, of that of one row."""
        q = self.shapes[self.names.index("q")]
        axes = _operands.LAYOUTS[self.options["layout"]]
        if result.ndim == len(q.shape):
            shape = q.shape[:-1] + result.shape[-1:]
        else:
            shape = tuple(q.shape[axis] for axis in axes[:-1])
        return jax.ShapeDtypeStruct(shape, result.dtype)

    def _arguments(self, values):
        found = {name: numpy.asarray(x) for name, x in zip(self.names, values)}
        return {**found, **self.options}

    def _run(self, *values):
        return _attention.attention(**self._arguments(values))

    def _pull(self, cotangents, *values):
        """The gradients of the real arrays, of cotangents for all results."""
        given = self._arguments(values)
        for name in ("out", "k_new", "v_new"):
            given.pop(name)
        returns_lse, aux = given["return_lse"], given["return_aux"]
        q, k, v = (given.pop(name) for name in ("q", "k", "v"))
        plan = _gradients.Plan(q, k, v, inputs=self.real, **given)
        parts = list(cotangents) if returns_lse or aux is not None else [cotangents]
        named = {plan.names[0]: parts.pop(0)}
        if returns_lse:
            named["lse"] = parts.pop(0)
        for part in parts:
            for name, value in part.items():
                named[name] = named[name] + value if name in named else value
        named = {name: numpy.asarray(value) for name, value in named.items()}
        found = plan.backward(*plan.forward(), named)
        return tuple(
            numpy.asarray(found[name]).astype(shape.dtype)
            for name, shape in zip(self.real, self.gradients)
        )

    def _build(self):
        def run(*values):
            return jax.pure_callback(
                self._run, self.results, *values, vmap_method="sequential"
            )

        @jax.custom_vjp
        def pull(cotangents, *values):
            return jax.pure_callback(
                self._pull,
                self.gradients,
                cotangents,
                *values,
                vmap_method="sequential",
            )

        def refuse(*_):
            raise NotImplementedError(
                "attn: expected first derivatives of attn.attention, but got a "
                "derivative of its gradients; there are no second ones"
            )

        pull.defvjp(refuse, refuse)

        def forward(*values):
            return whole(*values), values

        def backward(values, cotangents):
            found = dict(zip(self.real, pull(cotangents, *values)))
            return tuple(found.get(name) for name in self.names)

        whole = jax.custom_vjp(run)
        whole.defvjp(forward, backward)
        return whole

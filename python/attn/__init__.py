"""attn: attention compiled from its algebra.

    import attn
    o = attn.attention(q, k, v, causal="bottom_right")

q, k and v are NumPy arrays, torch tensors or other arrays in host memory with
__dlpack__. attn.compile gives a kernel handle to look into and to run.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

from . import _checks
from . import _library
from . import fla
from ._attention import attention, clear_cache, compile
from ._cache import KVCache
from ._call import monoids
from ._dropout import dropout_mask
from ._gradients import attention_vjp, differentiate
from ._kernel import Kernel
from ._library import OutOfPages
from ._masks import BlockMask
from ._rotary import Rotary
from ._prefixes import prefix_states
from ._scan_calls import scan, scan_step
from ._scans import linear_attention
from ._selection import top_keys
from ._states import merge_states
from ._tree import StateTree

__all__ = [
    "BlockMask",
    "KVCache",
    "Kernel",
    "OutOfPages",
    "Rotary",
    "StateTree",
    "attention",
    "attention_vjp",
    "clear_cache",
    "compile",
    "differentiate",
    "dropout_mask",
    "fla",
    "get_num_threads",
    "host_target",
    "linear_attention",
    "merge_states",
    "monoids",
    "prefix_states",
    "scan",
    "scan_step",
    "set_num_threads",
    "top_keys",
]

# Names that users of other packages look for, and what does the same here.
_LATER = {
    "create_block_mask": "attn.BlockMask takes lists of blocks",
    "distributed": "attn.merge_states merges what several devices have computed",
    "flash_attn_func": "attn.attention(..., layout='bshd') does the same",
    "flash_attn_varlen_func": "attn.attention(..., layout='thd') does the same",
    "flash_attn_with_kvcache": "attn.attention(..., block_table=) does the same",
    "flex_attention": "attn.attention(..., score_mod=, mask_mod=) takes MLIR text",
}


def __getattr__(name: str):
    if name in _LATER:
        raise AttributeError(
            "attn: expected a name of this version, but got attn.%s, which is not "
            "there yet; %s" % (name, _LATER[name])
        )
    raise AttributeError("module 'attn' has no attribute %r" % name)


__version__: str = _library.lib.attnVersion().decode()


def set_num_threads(count: int) -> None:
    """Sets the threads that a run uses, for the whole process.

    Args:
        count: at least 1, or 0 for the default, the physical cores that the
            process may use. Results do not depend on it.
    Raises:
        ValueError: count is negative.
        TypeError: count is no integer.
    """
    _library.lib.attnSetNumThreads(_checks.integer("count", count, 0, 4096))


def get_num_threads() -> int:
    """The threads that a run uses."""
    return _library.lib.attnGetNumThreads()


def host_target() -> str:
    """The name of the target that code is made for on this machine."""
    return _library.lib.attnHostTarget().decode()

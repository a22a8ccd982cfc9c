"""Functions of scores and masks as text, and blocks that a mask names.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import re
from typing import Any, Optional, Tuple, Union

from . import _arrays as arrays
from . import _checks as checks
from . import _library as c
from ._checks import fail

_DEAD, _PARTIAL, _FULL = 0, 1, 2
# What an index may be: the classes of a table are made anew for each number of
# key blocks, of which calls of one mask have few.
_MOST_TABLES = 8


def _text(name, value):
    """The text of a region, or None."""
    if isinstance(value, str) and not value.strip():
        fail("%s to be the text of a region in MLIR" % name, "nothing")
    if value is None or isinstance(value, str):
        return value
    if callable(value):
        raise NotImplementedError(
            "attn: expected %s to be the text of a region in MLIR (docs/Masks.md), but "
            "got %s; functions of Python are not supported yet"
            % (name, arrays.describe(value))
        )
    fail(
        "%s to be the text of a region in MLIR" % name,
        arrays.describe(value),
        TypeError,
    )


def _encode(name, text):
    if text is None:
        return None
    if "\0" in text:
        fail("%s to be text" % name, "one with a zero byte")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        fail("%s to be text that UTF-8 has" % name, "%a" % text[error.start])


def set_functions(call, score_mod, mask, mask_mod, captures, block_mask):
    """Reads the functions and the blocks of a call. Returns the mask that is an
    array, if any, and the last members of the description."""
    score = _text("score_mod", score_mod)
    text = _text("mask_mod", mask_mod)
    if isinstance(mask, str):
        if text is not None:
            fail("the text of a mask as mask or as mask_mod", "both")
        text, mask = _text("mask", mask), None
    call.captures = {}
    if captures is not None:
        if not isinstance(captures, dict) or not all(
            isinstance(name, str) for name in captures
        ):
            fail(
                "captures to be a dict from names to arrays and numbers",
                arrays.describe(captures),
                TypeError,
            )
        if score is None and text is None and block_mask is None:
            fail("captures with score_mod or mask_mod, which take them", "neither")
        call.captures = dict(captures)
    flags, sizes = 0, (0, 0)
    if block_mask is not None:
        if not isinstance(block_mask, BlockMask):
            fail(
                "block_mask to be an attn.BlockMask",
                arrays.describe(block_mask),
                TypeError,
            )
        if text is not None:
            fail("the mask function of a block mask in the BlockMask", "mask_mod")
        text = block_mask.mask_mod
        flags, sizes = _set_blocks(call, block_mask)
    members = _encode("score_mod", score), _encode("mask_mod", text), flags
    return mask, members + sizes


def _set_blocks(call, mask):
    if call.layout == "thd" or "k_start" in call.views:
        which = "thd" if call.layout == "thd" else "k_start"
        fail("block_mask without layout 'thd' and without k_start", which)
    b, hq, sq, _ = call.views["q"].shape
    key = call.views["k"].shape
    sk = call.views["block_table"].shape[1] * key[2] if call.is_paged else key[2]
    rows, keys = mask.BLOCK_SIZE
    blocks = -(-sq // rows), -(-sk // keys)
    view = arrays.view("block_mask", mask.classes(blocks[1]))
    arrays.check_device("block_mask", view, call.device)
    flags = 1  # ATTN_GIVEN
    wanted = (b, hq) + blocks
    for i, (size, want) in enumerate(zip(view.shape, wanted)):
        if i < 2 and size == 1:
            flags |= (2, 4)[i]  # ATTN_BROADCAST_BATCH, ATTN_BROADCAST_HEADS
        elif size != want:
            fail(
                "block_mask for [b, hq, query blocks, key blocks] of %s, or 1 for b "
                "and "
                "hq" % (list(wanted),),
                list(view.shape),
            )
    call.views["block_mask"] = view
    return flags, (rows, keys)


# What a monoid may need.
_OF_MONOIDS = ("v", "param")


def describe_missing(name):
    """What is expected of an argument that nobody gave."""
    if name.startswith(_OF_MONOIDS) and (name == "v" or name[5:].isdigit()):
        return "%s, which the monoid needs" % name
    return "captures to hold '%s', which score_mod or mask_mod takes" % name


_NUMBER = "number_of_sequence"


def take_number(options):
    """Lets the functions among the options of a call read the number of the sequence,
    %b, from a capture: for calls of one sequence out of several. Returns the name of
    that capture, or None where no function reads it."""
    name = "mask" if isinstance(options.get("mask"), str) else "mask_mod"
    reads = False
    for name, at in (("score_mod", 1), (name, 0)):
        text = _text(name, options.get(name))
        if not text:
            continue
        head = re.search(r"\^[\w$.-]+\s*\(([^()]*)\)", text)
        arguments = head[1].split(",") if head else ()
        if len(arguments) < at + 4:
            fail(
                "%s without locations, where a bias of rows and keys has a gradient "
                "and layout is 'thd'" % name,
                "another text",
                NotImplementedError,
            )
        b = arguments[at].split(":")[0].strip()
        body = text[head.end() :]
        of_b = re.escape(b) + r"(?![\w$.-])"
        if not re.search(of_b, body):
            continue
        arguments[at] = arguments[at].replace(b, "%" + _NUMBER + "_alone")
        arguments.append(" %%%s: i32" % _NUMBER)
        body = re.sub(of_b, "%" + _NUMBER, body)
        head = text[: head.start(1)] + ",".join(arguments) + ")"
        options[name], reads = head + body, True
    return _NUMBER if reads else None


def check_names(call):
    """No capture stands for another operand that a call has."""
    for name in call.captures:
        if name in call.views:
            fail("captures by names that no other operand has", repr(name))


def bind_captures(call, inputs):
    """Gives the arguments of a kernel that are captures what the caller has for
    them. `inputs` are all of the kernel."""
    given = dict(call.captures)
    for arg in inputs:
        if arg.name not in given:
            continue
        value = given.pop(arg.name)
        if arg.shape is None or (arg.shape == () and not arrays.kind_of(value)):
            view = arrays.scalar(arg.name, value, arg.code)
        elif arrays.kind_of(value) or arg.code not in (c.F32, c.I32):
            view = arrays.view(arg.name, value)
            arrays.check_device(arg.name, view, call.device)
        else:
            view = arrays.vector(arg.name, value, arg.code, call.device)
        call.views[arg.name] = view
    if given:
        fail(
            "captures that score_mod or mask_mod take",
            ", ".join("'%s'" % name for name in given),
        )


class BlockMask:
    """Which blocks of keys the queries of a block see, as lists.

    For each batch, head and block of queries `kv_num_blocks` blocks of keys, those
    of `kv_indices`, are partial: in these `mask_mod` says which pairs are live
    (all, where it is None). `full_kv_num_blocks` and `full_kv_indices` are those
    in which every pair is. Blocks in neither list are dead, and not visited. A
    call has its other masks too: a pair is live that all let pass.

    The names are those of torch.nn.attention.flex_attention.BlockMask.

    Args:
        kv_num_blocks: integers [b, hq, query blocks]; b and hq may be 1 or absent.
        kv_indices: integers [b, hq, query blocks, n], n of at least the largest
            number; what is behind the number of a row may be anything.
        full_kv_num_blocks, full_kv_indices: the same of full blocks, or None.
        BLOCK_SIZE: queries and keys of a block, a pair or one number for both.
        mask_mod: text of a region in MLIR (docs/Masks.md), or None.

    Arrays are of NumPy or torch, or lists. In host memory they are checked when a
    call uses them: a number out of range and a block that is named twice are
    errors. On a GPU such numbers are ignored, a block that is named twice counts
    once, and one that is full and partial is full. The arrays are read once for
    each number of key blocks, and must not change afterwards.
    """

    def __init__(
        self,
        kv_num_blocks: Any,
        kv_indices: Any,
        full_kv_num_blocks: Any = None,
        full_kv_indices: Any = None,
        BLOCK_SIZE: Union[int, Tuple[int, int]] = 128,
        mask_mod: Optional[str] = None,
    ):
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            fail("full_kv_num_blocks and full_kv_indices together", "one of them")
        self.BLOCK_SIZE = _pair(BLOCK_SIZE)
        self.mask_mod = _text("mask_mod", mask_mod)
        self._lists = [("kv", _PARTIAL, kv_num_blocks, kv_indices)]
        if full_kv_indices is not None:
            self._lists.append(
                ("full_kv", _FULL, full_kv_num_blocks, full_kv_indices)
            )
        self._table = self._bits = None
        self._tables = {}

    @classmethod
    def from_kv_blocks(cls, *args: Any, **options: Any) -> "BlockMask":
        """As the constructor, which has the arguments."""
        return cls(*args, **options)

    @classmethod
    def from_classes(
        cls,
        classes: Any,
        BLOCK_SIZE: Union[int, Tuple[int, int]] = 128,
        mask_mod: Optional[str] = None,
    ) -> "BlockMask":
        """Of a table [b, hq, query blocks, key blocks] (b and hq may be 1 or absent)
        of int8: 0 for a dead block, 1 for a partial one, 2 for a full one."""
        mask = cls([[0]], [[[]]], BLOCK_SIZE=BLOCK_SIZE, mask_mod=mask_mod)
        what = "classes of int8, [b, hq, query blocks, key blocks]"
        mask._table = _of_blocks(what, classes, c.I8)
        _check_classes(mask._table)
        return mask

    @classmethod
    def from_bits(
        cls,
        bits: Any,
        BLOCK_SIZE: Union[int, Tuple[int, int]] = 128,
        mask_mod: Optional[str] = None,
    ) -> "BlockMask":
        """Of bits [b, hq, query blocks, bytes] (b and hq may be 1 or absent) of uint8,
        as cuDNN has them: bit n % 8 of byte n / 8, from the lowest on, says whether
        block n of the keys is seen, which `mask_mod` then tests."""
        mask = cls([[0]], [[[]]], BLOCK_SIZE=BLOCK_SIZE, mask_mod=mask_mod)
        what = "bits of uint8, [b, hq, query blocks, key blocks / 8]"
        mask._bits = _of_blocks(what, bits, c.U8)
        return mask

    def classes(self, key_blocks: int) -> Any:
        """The table of classes [b, hq, query blocks, key_blocks], int8: 0 for a dead
        block, 1 for a partial one, 2 for a full one."""
        if self._table is not None:
            return self._table
        table = self._tables.get(key_blocks)
        if table is None:
            if self._bits is not None:
                kind = _FULL if self.mask_mod is None else _PARTIAL
                table = _unpack(self._bits, key_blocks, kind)
            else:
                table = _tabulate(self._lists, key_blocks)
            if len(self._tables) >= _MOST_TABLES:
                self._tables.clear()
            self._tables[key_blocks] = table
        return table


def _of_blocks(what, array, dtype):
    """An array of 2 to 4 dimensions as one of 4."""
    found = arrays.view("blocks", array)
    missing = 4 - len(found.shape)
    if found.dtype != dtype or missing not in (0, 1, 2):
        fail(what, arrays.describe(array), TypeError)
    return array.reshape((1,) * missing + found.shape)


def _check_classes(table):
    """Of what the host can read. On a GPU, and while a graph is made, numbers that are
    no class are dead blocks."""
    if arrays.is_torch(table):
        from . import _torch

        if table.device.type != "cpu" or _torch.is_traced(table):
            return
    wrong = (table < _DEAD) | (table > _FULL)
    if wrong.any():
        fail("classes of 0, 1 or 2", int(table[wrong][0]))


def _unpack(bits, columns, kind):
    """The classes that bits say, `kind` where they are set."""
    if bits.shape[3] != -(-columns // 8):
        fail(
            "bits of %d blocks of keys, %d bytes" % (columns, -(-columns // 8)),
            bits.shape[3],
        )
    lead = tuple(bits.shape[:3])
    if not arrays.is_torch(bits):
        np = arrays.numpy_module()
        table = np.unpackbits(bits, axis=3, count=columns, bitorder="little")
        return table.astype(np.int8) * np.int8(kind)
    torch = arrays.torch_module()
    places = torch.arange(8, dtype=torch.int32, device=bits.device)
    table = (bits.int()[..., None] >> places & 1).to(torch.int8) * kind
    return table.reshape(lead + (8 * bits.shape[3],))[..., :columns].contiguous()


def _pair(size):
    sizes = size if isinstance(size, (tuple, list)) else (size, size)
    if len(sizes) != 2:
        fail("BLOCK_SIZE to be a positive integer, or two", checks.shown(size))
    return tuple(checks.integer("BLOCK_SIZE", x, 1, 2**31 - 1) for x in sizes)


def _is_on_gpu(array):
    return arrays.is_torch(array) and array.device.type == "cuda"


def _tabulate(lists, columns):
    if any(_is_on_gpu(x) for _, _, *pair in lists for x in pair):
        return _tabulate_on_gpu(lists, columns)
    np = arrays.numpy_module()
    if np is None:
        fail("NumPy, to read lists of blocks in host memory", "none", ImportError)
    read = []
    for prefix, kind, numbers, indices in lists:
        numbers, indices = (
            _integers(np, prefix + suffix, array)
            for suffix, array in (("_num_blocks", numbers), ("_indices", indices))
        )
        numbers = numbers.reshape((1,) * (3 - numbers.ndim) + numbers.shape)
        indices = indices.reshape((1,) * (4 - indices.ndim) + indices.shape)
        if (
            numbers.ndim != 3
            or indices.ndim != 4
            or numbers.shape[2] != indices.shape[2]
        ):
            fail(
                "%s_num_blocks of shape [b, hq, query blocks] and %s_indices with one "
                "more dimension" % (prefix, prefix),
                "%s and %s" % (list(numbers.shape), list(indices.shape)),
            )
        width = indices.shape[3]
        wrong = (numbers < 0) | (numbers > width)
        if wrong.any():
            fail(
                "%s_num_blocks between 0 and %d, which %s_indices has room for"
                % (prefix, width, prefix),
                int(numbers[wrong][0]),
            )
        used = np.arange(width) < numbers[..., None]
        used, indices = np.broadcast_arrays(used, indices)
        wrong = used & ((indices < 0) | (indices >= columns))
        if wrong.any():
            fail(
                "%s_indices to be blocks of the keys, 0 to %d" % (prefix, columns - 1),
                int(indices[wrong][0]),
            )
        read.append((kind, used, indices))
    try:
        lead = np.broadcast_shapes(*(used.shape[:3] for _, used, _ in read))
    except ValueError:
        fail(
            "lists of full and of partial blocks for as many batches, heads and blocks "
            "of queries",
            " and ".join(str(list(used.shape[:3])) for _, used, _ in read),
        )
    table = np.zeros(lead + (columns,), np.int8)
    for kind, used, indices in read:
        used, indices = (
            np.broadcast_to(x, lead + x.shape[3:]) for x in (used, indices)
        )
        times = np.zeros(table.shape, np.int32)
        place = np.nonzero(used)
        np.add.at(times, place[:3] + (indices[place],), 1)
        twice = (times > 1) | ((times > 0) & (table != _DEAD))
        if twice.any():
            b, h, row, block = (int(x[0]) for x in np.nonzero(twice))
            fail(
                "lists that name a block once",
                "block %d twice for query block %d of batch %d, head %d"
                % (block, row, b, h),
            )
        table[times > 0] = kind
    return table


def _integers(np, name, array):
    if arrays.is_torch(array):
        array = array.detach().numpy()
    try:
        found = np.asarray(array)
    except ValueError:
        found = None
    if found is not None and found.size == 0 and found.dtype.kind == "f":
        found = found.astype(np.int32)
    if found is None or found.dtype.kind not in "iu":
        fail("%s to hold integers" % name, arrays.describe(array), TypeError)
    return found


def _tabulate_on_gpu(lists, columns):
    """Without a word from the GPU: what is out of range goes to a column that is
    cut off."""
    torch = arrays.torch_module()
    read = []
    for prefix, kind, numbers, indices in lists:
        for array in (numbers, indices):
            if not _is_on_gpu(array) or array.dtype.is_floating_point:
                fail(
                    "%s_num_blocks and %s_indices of integers on one GPU"
                    % (prefix, prefix),
                    arrays.describe(array),
                    TypeError,
                )
        numbers = numbers.reshape((1,) * (3 - numbers.dim()) + tuple(numbers.shape))
        indices = indices.reshape((1,) * (4 - indices.dim()) + tuple(indices.shape))
        places = torch.arange(indices.shape[3], device=indices.device)
        used = (places < numbers[..., None]) & (indices >= 0) & (indices < columns)
        read.append((kind, torch.where(used, indices.long(), columns)))
    lead = torch.broadcast_shapes(*(indices.shape[:3] for _, indices in read))
    table = torch.zeros(
        lead + (columns + 1,), dtype=torch.int8, device=read[0][1].device
    )
    for kind, indices in read:
        indices = indices.expand(lead + indices.shape[3:])
        table.scatter_(3, indices, kind)
    return table[..., :columns].contiguous()

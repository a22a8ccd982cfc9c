"""What agreement.py says of outputs that differ.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import struct
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import agreement


def array(folder, kind, rows):
    """Rows of numbers, or of words of 16 bits."""
    descr, letter = {"f32": ("<f4", "f"), "bf16": ("<V2", "H"),
                     "f16": ("<f2", "e")}[kind]
    numbers = [x for row in rows for x in row]
    header = "{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d), }" % (
        descr,
        len(rows),
        len(rows[0]),
    )
    header = header.ljust(117) + "\n"
    path = os.path.join(folder, "x.npy")
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00"
                   + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack("<%d%s" % (len(numbers), letter), *numbers))
    return agreement.Array(path)


NAN = float("nan")
with tempfile.TemporaryDirectory() as folder:
    for name, kind, ours, theirs, bound in (
        ("equal", "f16", [[1, NAN], [0, -2]], [[1, NAN], [-0.0, -2]], 0),
        ("one unit", "bf16", [[0x3F80, 0x3F81]], [[0x3F80, 0x3F82]], 0),
        # Ten of its own, a part of one of the row's largest.
        ("small beside its row", "bf16", [[0x3F80, 0x3A80]], [[0x3F80, 0x3A8A]], 0),
        ("small in a row of small ones", "bf16", [[0x3F80], [0x3A80]],
         [[0x3F80], [0x3A8A]], 0),
        ("two units", "bf16", [[0x3F80, 0x3F80]], [[0x3F80, 0x3F82]], 0),
        ("NaN", "f16", [[NAN, 1]], [[0, 1]], 0),
        ("infinite", "f32", [[float("inf"), 1]], [[1, 1]], 1),
        ("within the bound", "f32", [[1, 2]], [[1, 2.5]], 0.5),
        ("beyond the bound", "f32", [[1, 2]], [[1, 2.75]], 0.5),
        ("other rows", "f32", [[1, 2]], [[1], [2]], 0.5),
    ):
        found = agreement.Difference(array(folder, kind, ours),
                                     array(folder, kind, theirs), bound)
        print(("%s: %d %s" % (name, found.wrong, found.first)).strip())

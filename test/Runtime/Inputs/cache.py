"""Looks at the one file of a cache folder, or damages it.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

folder, action = sys.argv[1:]
(name,) = os.listdir(folder)
path = os.path.join(folder, name)
with open(path, "rb") as file:
    data = bytearray(file.read())
assert data.startswith(b"attn-kernel-cache-1\n") and name.endswith(".attn")
if action == "check":
    assert os.stat(path).st_mode & 0o777 == 0o600, oct(os.stat(path).st_mode)
    assert b".visible .entry" in data
elif action == "truncate":
    data = data[: len(data) // 2]
elif action == "flip":
    data[len(data) // 2] ^= 1
elif action == "writable":
    os.chmod(path, 0o666)
with open(path, "wb") as file:
    file.write(data)

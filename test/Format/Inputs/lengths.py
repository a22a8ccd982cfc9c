"""Holds files to 800 lines, functions of C++ to 100, and Python to 88 columns.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import importlib.machinery
import os
import sys
import types

root = sys.argv[1]
HERE = os.path.dirname(os.path.abspath(__file__))
# As tools/shape counts them for docs/Rationale.md.
sys.dont_write_bytecode = True
shape = types.ModuleType("shape")
importlib.machinery.SourceFileLoader(
    "shape", os.path.join(HERE, "..", "..", "..", "tools", "shape")).exec_module(shape)
LINES, FUNCTION, COLUMNS = 800, 100, 88
wrong = 0
for top in ("include", "lib", "python", "test", "tools"):
    for folder, folders, names in sorted(os.walk(os.path.join(root, top))):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in sorted(names):
            path = os.path.join(folder, name)
            shown = os.path.relpath(path, root)
            if not name.endswith((".cpp", ".h", ".td", ".def", ".mlir", ".py")):
                continue
            with open(path, encoding="utf-8") as file:
                lines = file.read().splitlines()
            if len(lines) > LINES:
                print(
                    "%s: expected at most %d lines, but got %d"
                    % (shown, LINES, len(lines))
                )
                wrong += 1
            longest = max(shape.functions(lines), default=0) \
                if top == "lib" and name.endswith((".cpp", ".h")) else 0
            if longest > FUNCTION:
                print(
                    "%s: expected functions of at most %d lines, but got %d"
                    % (shown, FUNCTION, longest)
                )
                wrong += 1
            for i, line in enumerate(lines if name.endswith(".py") else []):
                if len(line) > COLUMNS:
                    print(
                        "%s:%d: expected at most %d columns, but got %d"
                        % (shown, i + 1, COLUMNS, len(line))
                    )
                    wrong += 1
sys.exit(wrong != 0)

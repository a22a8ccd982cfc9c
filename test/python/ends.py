# RUN: %python %s
"""Python ends while daemon threads are in the library, at whatever they do there.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import subprocess
import sys

# What is registered ahead of the library runs after the library's destructors: the
# threads go on for a second without what these destroy.
ENDS = """
import ctypes, threading, time
libc = ctypes.CDLL(None)
getattr(libc, "__cxa_atexit")(libc.sleep, ctypes.c_void_p(1), None)
import numpy as np, attn
q = np.ones((1, 2, 64, 64), "f4")
text = attn.compile(q, q, q).mlir("input")
names = attn._library.monoid_outputs

def compile():
    attn.clear_cache()
    attn.attention(q, q, q)

def differentiate():
    attn.clear_cache()
    out, vjp = attn.attention_vjp(q, q, q)
    vjp(out)

def work():
    %s
    started.release()
    while True:
        %s

started = threading.Semaphore(0)
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
for _ in range(2):
    started.acquire()
time.sleep(0.1)
"""
for call in (
    "compile()",
    "differentiate()",
    "attn.differentiate(text)",
    "names('softmax')",
):
    command = [sys.executable, "-c", ENDS % (call, call)]
    for running in [subprocess.Popen(command) for _ in range(2)]:
        assert running.wait(120) == 0, (call, running.returncode)

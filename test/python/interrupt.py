# RUN: %python %s
"""Ctrl-C ends a run between blocks, by KeyboardInterrupt; what a program has set up
in its place is asked once.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np

import attn

# Who started this may have had the signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)


def press_after(seconds):
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


def is_interrupted(run):
    """Whether Ctrl-C after 0.3 s ends `run`, within a second."""
    timer = press_after(0.3)
    start = time.monotonic()
    try:
        run()
        timer.cancel()
        timer.join()
        return False
    except KeyboardInterrupt:
        took = time.monotonic() - start
        print("ended after %.2f s" % took)
        return took < 1.5


# Some ten seconds of work, in many blocks.
long = np.ones((1, 16, 32768, 64), np.float32)
short = np.ones((1, 1, 40, 64), np.float32)
compiled = attn.compile(long, long, long)
for run in (
    lambda: attn.attention(long, long, long),  # the first call, and one like it
    lambda: attn.attention(long, long, long),
    lambda: compiled(long, long, long),
):
    attn.attention(short, short, short)
    assert is_interrupted(run)
    assert (attn.attention(short, short, short) == 1).all()

# A handler that raises something else, and one that raises nothing: the run goes on
# to its end then, and its result is right.
class Stop(Exception):
    pass


def stop(*_):
    raise Stop


pressed = []
signal.signal(signal.SIGINT, stop)
timer = press_after(0.3)
try:
    attn.attention(long, long, long)
    raise AssertionError("not stopped")
except Stop:
    pass
signal.signal(signal.SIGINT, lambda *_: pressed.append(1))
middle = np.ones((1, 8, 4096, 64), np.float32)
for _ in range(2):
    timer = press_after(0.06)
    assert np.abs(attn.attention(middle, middle, middle) - 1).max() < 1e-5
    timer.join()
assert pressed == [1, 1], pressed

# Another thread's run is not the one to end.
signal.signal(signal.SIGINT, signal.default_int_handler)
results, done = [], threading.Event()


def work():
    results.append(attn.attention(middle, middle, middle))
    done.set()


threading.Thread(target=work).start()
timer = press_after(0.06)
try:
    time.sleep(60)
    raise AssertionError("not pressed")
except KeyboardInterrupt:
    pass
assert done.wait(60)
assert np.abs(results[0] - 1).max() < 1e-5
print("interrupt")


# A thread that runs when Python ends asks nothing of it.
ENDS = """
import threading, time, numpy as np, attn
q = np.ones((1, 2, 3000, 64), "f4")
def work():
    while True:
        attn.attention(q, q, q)
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
attn.attention(q[:, :, :8], q, q)
time.sleep(0.6)
"""
for _ in range(3):
    ended = subprocess.run([sys.executable, "-c", ENDS], timeout=120)
    assert ended.returncode == 0, ended.returncode

"""What attn-run reads of a cache folder that others may have touched, and what it
does where nothing can be written.

usage: trust.py FOLDER FAKE_CUDA

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import resource
import shutil
import signal
import subprocess
import sys

base, driver = sys.argv[1:]
cache = os.path.join(base, "cache")
NOBODY = 65534


def no_room():
    """As on a full disk: what a process writes to files is an error."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def run(*options, before=None, **variables):
    """How the kernel came about, "cold" or "warm", its explanation and stderr."""
    env = dict(os.environ, ATTN_LIBCUDA=driver, ATTN_PTXAS="none", ATTN_CACHE_DIR=cache)
    env.update(variables)
    env = {name: value for name, value in env.items() if value is not None}
    command = ["attn-run", "--device", "cuda", "--timings", "--explain"]
    command += ["--attention", "d=256,dtype=bf16,sq=512,hq=2", *options]
    # A FIFO must not hold it up.
    process = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=60, preexec_fn=before
    )
    assert process.returncode == 0, process.stderr
    warm = "time disk-cache" in process.stdout
    assert warm != ("time ptx-codegen" in process.stdout)
    return "warm" if warm else "cold", process.stdout, process.stderr


def expect(how, warning, *options, **variables):
    """One run, and whether it warns: once, naming the folder or file."""
    got, _, errors = run(*options, **variables)
    assert got == how, (got, errors)
    if warning is None:
        assert errors == "", errors
    else:
        assert errors.count("warning") == 1 and errors.count("\n") == 1, errors
        assert warning in errors, errors


def fresh():
    shutil.rmtree(base, ignore_errors=True)
    os.makedirs(base)
    expect("cold", None)
    expect("warm", None)
    (name,) = [x for x in os.listdir(cache) if x.endswith(".attn")]
    assert os.stat(cache).st_mode & 0o777 == 0o700
    return os.path.join(cache, name)


def replace(path, make):
    """Puts something else in a file's place."""
    os.rename(path, path + ".old")
    make(path)


def chown(path):
    os.chown(path, NOBODY, NOBODY)


# Each is one warning, a compilation, and a good file in the place of the bad one.
bad_files = {
    "may be written by others": [
        lambda path: os.chmod(path, 0o622),
        lambda path: os.chmod(path, 0o620),
    ],
    "is no regular file": [lambda path: replace(path, os.mkfifo)],
    "is a symbolic link": [
        lambda path: replace(path, lambda p: os.symlink(p + ".old", p)),
        lambda path: replace(path, lambda p: os.symlink("/dev/zero", p)),
        lambda path: replace(path, lambda p: os.symlink(p, p)),
    ],
    "has other names": [lambda path: os.link(path, path + ".link")],
    "has more than 268435456 bytes": [lambda path: os.truncate(path, 300 << 20)],
}
if os.geteuid() == 0:
    bad_files["belongs to user 65534"] = [chown]
path = fresh()
for warning, ways in bad_files.items():
    for spoil in ways:
        spoil(path)
        expect("cold", "cannot use '%s': it %s" % (path, warning))
        expect("warm", None)
        for name in os.listdir(cache):
            if name.endswith((".old", ".link")):
                os.remove(os.path.join(cache, name))

# The folder is not used at all.
for mode in (0o777, 0o770, 0o702, 0o1777):
    path = fresh()
    os.chmod(cache, mode)
    if mode & 0o1000:  # others may only put files of their own
        expect("warm", None)
        continue
    for _ in range(2):
        expect("cold", "folder of the cache, '%s': it may be written" % cache)
if os.geteuid() == 0:
    path = fresh()
    chown(cache)
    expect("cold", "folder of the cache, '%s': it belongs to user 65534" % cache)

# Schedules that were tuned are read as carefully.
shutil.rmtree(base)
os.makedirs(base)
tuned = subprocess.run(
    ["attn-run", "--device", "cuda", "--attention", "d=256,dtype=bf16,sq=512,hq=2",
     "--autotune"],
    env=dict(os.environ, ATTN_LIBCUDA=driver, ATTN_PTXAS="none", ATTN_CACHE_DIR=cache),
    capture_output=True, text=True, timeout=300)
assert tuned.returncode == 0, tuned.stderr
(table,) = [x for x in os.listdir(cache) if x.startswith("schedules-")]
table = os.path.join(cache, table)
assert os.stat(table).st_mode & 0o777 == 0o600
with open(table) as file:
    lines = file.read()
_, text, _ = run("--no-cache")
assert "schedule from the tuned table" in text


def write(path):
    with open(path, "w") as file:
        file.write(lines)
    os.chmod(path, 0o600)


bad_files["has more than 16777216 bytes"] = [lambda path: os.truncate(path, 20 << 20)]
del bad_files["has more than 268435456 bytes"]
for warning, ways in bad_files.items():
    for spoil in ways:
        spoil(table)
        _, text, errors = run("--no-cache")
        assert "schedule from the tuned table" not in text, text
        assert errors.count("\n") == 1, errors
        assert "cannot use '%s': it %s" % (table, warning) in errors, errors
        for name in os.listdir(cache):
            if not name.endswith(".attn"):
                os.remove(os.path.join(cache, name))
        write(table)

# No room, no folder, nothing that may be written: no cache, and one warning.
shutil.rmtree(cache)
os.makedirs(cache, 0o700)
expect("cold", "cannot write '%s" % cache, before=no_room)
assert os.listdir(cache) == []
file = os.path.join(base, "file")
open(file, "w").close()
expect("cold", "cannot make the folder of the cache, '%s/x'" % file,
       ATTN_CACHE_DIR=file + "/x")
if os.geteuid() != 0:
    os.chmod(cache, 0o500)
    expect("cold", "cannot write '%s" % cache)
    os.chmod(cache, 0o700)
expect("cold", "cannot make the folder of the cache, '/proc/.cache/attn'",
       ATTN_CACHE_DIR=None, XDG_CACHE_HOME=None, HOME="/proc")
expect("cold", None, ATTN_CACHE_DIR="")
expect("cold", None, ATTN_CACHE_DIR=None, HOME="", XDG_CACHE_HOME="")

# An assembler without a place for its files: the driver compiles.
assembler = os.path.join(base, "ptxas")
with open(assembler, "w") as file:
    file.write('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\nprintf code > "$2"\n')
os.chmod(assembler, 0o755)
nowhere = os.path.join(base, "nowhere")
for variables in ({"TMPDIR": nowhere}, {"TMPDIR": base, "before": no_room}):
    got, text, errors = run(ATTN_PTXAS=assembler, ATTN_CACHE_DIR="", **variables)
    assert errors.count("warning") == 1 and errors.count("\n") == 1, errors
    assert "; the driver compiles the code when it loads it" in errors, errors
    assert variables["TMPDIR"] in errors, errors
    assert "ptxas: cannot " in text
# What came about so is not kept.
expect("cold", nowhere, ATTN_PTXAS=assembler, TMPDIR=nowhere)
assert os.listdir(cache) == []
shutil.rmtree(base)
print("trusted")

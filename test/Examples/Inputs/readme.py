"""Runs the README: its example is the file that it names, and its commands,
its Python and its C do what they should.

    readme.py SOURCE LIBRARIES CC SCRATCH

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import re
import subprocess
import sys

source, libraries, cc, scratch = sys.argv[1:]
os.makedirs(scratch, exist_ok=True)
os.chdir(source)
with open("README.md") as file:
    readme = file.read()


def block(language):
    return re.search(r"^```%s\n(.*?)^```$" % language, readme, re.S | re.M).group(1)


# The monoid, and what is said of a wrong one.
with open("test/Examples/hardmax.mlir") as file:
    assert file.read().endswith(block("mlir")), "test/Examples/hardmax.mlir differs"
wrong = os.path.join(scratch, "wrong.mlir")
with open(wrong, "w") as file:
    file.write(block("mlir").replace("maximumf", "addf"))
done = subprocess.run(
    ["attn-run", "--attention", "b=1,hq=1,sq=5,d=16", "--monoid", wrong],
    stderr=subprocess.PIPE,
    text=True,
)
said = re.search(r"^    .*breaks the law.*\n(?:^    .*\n)*", readme, re.M)[0]
said = " ".join(said.split())
assert done.returncode == 1 and said in done.stderr, (said, done.stderr)

# The commands.
commands = re.findall(r"^    (attn-run (?:.*\\\n)*.*)$", readme, re.M)
assert len(commands) == 3, commands
for command in commands:
    subprocess.run(["sh", "-ec", command], check=True)

# Python.
exec(block("python"))
assert o.shape == (1, 8, 512, 64) and aux["count"].shape == (1, 8, 512)

# C, in what it takes for granted.
program = """
#include "attn-c/attn.h"
#include <math.h>
#include <stdio.h>
enum { hq = 8, hk = 2, sq = 40, sk = 50, d = 64 };
static float q[hq * sq * d], k[hk * sk * d], v[hk * sk * d], o[hq * sq * d];
int main(void) {
  int64_t qShape[] = {1, hq, sq, d}, kShape[] = {1, hk, sk, d};
  AttnContext *context;
  for (int i = 0; i < hk * sk * d; ++i)
    v[i] = 3.0f;
  attnContextCreate(&context);
%s
  attnContextDestroy(context);
  for (int i = 0; i < hq * sq * d; ++i)
    if (!(fabsf(o[i] - 3.0f) < 1e-5f))
      return printf("o[%%d] is %%g\\n", i, o[i]), 1;
  return 0;
}
""" % block("c")
path = os.path.join(scratch, "readme")
with open(path + ".c", "w") as file:
    file.write(program)
flags = "-std=c11 -Wall -Werror -Iinclude -L{0} -Wl,-rpath,{0} -lattn -lm"
subprocess.run(
    [cc, path + ".c", "-o", path, *flags.format(libraries).split()], check=True
)
subprocess.run([path], check=True)

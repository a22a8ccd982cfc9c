//===- ReferenceTest.cpp - Entry point of the reference tests -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Checks.h"

using namespace ::attn::test;

int main(int argc, char **argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s <folder of ONNX cases> <scratch folder>\n",
                 argv[0]);
    return 2;
  }
  runFloat16Tests();
  runNpyTests(argv[2]);
  runJsonTests();
  runMonoidTests();
  runMaskTests();
  runErrorBoundTests();
  runExtremesTests();
  runScanTests();
  runOnnxTests(argv[1], argv[2]);
  std::printf("%d checks passed\n", counters().passed);
  if (counters().failed)
    std::printf("%d checks failed\n", counters().failed);
  return counters().failed != 0;
}

//===- Compile.cpp - Compile what the command line names ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compile.h"
#include "Attention.h"

#include <algorithm>
#include <cstdio>

using namespace ::attn::run;
using namespace ::attn::support;

Result<std::string> attn::run::readFile(const std::string &path) {
  std::FILE *file = std::fopen(path.c_str(), "rb");
  std::string text;
  char buffer[1 << 14];
  while (size_t got = file ? std::fread(buffer, 1, sizeof(buffer), file) : 0)
    text.append(buffer, got);
  // A directory opens, but does not read.
  bool ok = file && !std::ferror(file);
  if (file)
    std::fclose(file);
  if (!ok)
    return Failure{"cannot read '" + path + "'"};
  return text;
}

Result<std::string> attn::run::readMonoid(const Options &options) {
  return options.monoidFile.empty() ? std::string()
                                    : readFile(options.monoidFile);
}

Result<Kernel> attn::run::compileProgram(const Options &options,
                                         AttnCompileOptions how) {
  if (options.scan) {
    how.sourceName = "scan";
    return compileScan(*options.scan, how);
  }
  if (!options.attention) {
    auto text = readFile(options.file);
    if (!text)
      return text.takeFailure();
    how.sourceName = options.file.c_str();
    return Kernel::compile(*text, how, options.entry);
  }
  auto monoid = readMonoid(options);
  if (!monoid)
    return monoid.takeFailure();
  if (!options.monoidFile.empty())
    how.sourceName = options.monoidFile.c_str();
  const AttentionSpec &spec = *options.attention;
  AttnAttentionDesc desc = makeDesc(spec, *monoid, options.schedule);
  // Ahead of time, sizes that nobody has said are any.
  if (how.objectOnly && spec.sq == 0 && spec.sk == 0) {
    std::fill_n(desc.expectedSizes, 4, 0);
    desc.expectedKeyHeads = 0;
  }
  return Kernel::compile(desc, how);
}

//===- Diagnostics.h - Texts of MLIR's diagnostics --------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_COMPILER_DIAGNOSTICS_H
#define ATTN_LIB_COMPILER_DIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"

namespace attn {

/// The lines of a text that its author wrote; the others were put around them.
struct OwnLines {
  int skipped = 0;
  int count = 0; ///< 0: all that follow.
};

/// "FILE:LINE:COLUMN: ", with lines counted as their author does; empty for
/// what is not the author's.
inline std::string printLocation(mlir::Location location, OwnLines own = {}) {
  auto file = location->findInstanceOf<mlir::FileLineColLoc>();
  if (!file)
    return "";
  // Bytecode has no lines; its errors are at 0.
  int line = int(file.getLine()) - own.skipped;
  if (own.count && (line < 1 || line > own.count))
    return "";
  return (file.getFilename().getValue() + ":" + llvm::Twine(line) + ":" +
          llvm::Twine(file.getColumn()) + ": ")
      .str();
}

inline std::string firstLine(const std::string &text) {
  return text.substr(0, text.find('\n'));
}

} // namespace attn

#endif // ATTN_LIB_COMPILER_DIAGNOSTICS_H

//===- CacheFolder.h - Files that only this user may write ------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is read from the folder becomes code, so that nobody else may have
// written it. The folder and each file are opened first and judged by what was
// opened, and files are named relative to the open folder: a name that changes
// its meaning in between changes nothing.
//
// Nothing here is needed for a result. Where the folder is of no use, the first
// to notice says so on stderr, once in a process.
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_COMPILER_CACHEFOLDER_H
#define ATTN_LIB_COMPILER_CACHEFOLDER_H

#include "attn/Support/Result.h"

#include <optional>
#include <string>
#include <vector>

namespace attn {

/// Writes "attn: warning: TEXT" to stderr, the first time in this process that
/// `TEXT` is about something of this kind.
enum class Warning { Cache, Assembler };
void warnOnce(Warning kind, const std::string &text);

class CacheFolder {
public:
  /// The folder's path, empty where there is to be no cache: ATTN_CACHE_DIR,
  /// else XDG_CACHE_HOME/attn, else HOME/.cache/attn.
  static std::string getPath();

  /// Opens it if it is there and can be trusted; warns where it cannot.
  static std::optional<CacheFolder> open();
  /// The same, and makes it where it is not there. Says what is wrong.
  static support::Result<CacheFolder> make();

  CacheFolder(CacheFolder &&other);
  CacheFolder &operator=(CacheFolder &&) = delete;
  ~CacheFolder();

  /// The text of a file of at most `maxBytes` bytes; nothing where there is
  /// none. Warns of one that is not to be trusted.
  std::optional<std::string> read(const std::string &name,
                                  uint64_t maxBytes) const;
  /// Replaces a file as a whole, for its owner alone. Says what went wrong.
  support::Status write(const std::string &name, const std::string &text) const;
  /// Removes the oldest files of an extension down to 3/4 of `most`, if there
  /// are more.
  void prune(const std::string &extension, size_t most) const;

private:
  CacheFolder(std::string path, int descriptor)
      : path(std::move(path)), descriptor(descriptor) {}
  static support::Result<CacheFolder> openAt(const std::string &path);

  std::string path;
  int descriptor;
};

} // namespace attn

#endif // ATTN_LIB_COMPILER_CACHEFOLDER_H

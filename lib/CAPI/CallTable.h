//===- CallTable.h - The kernels of attnAttention ---------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finding a kernel is part of every call: it takes a hash of some numbers, a
// lock that readers share, and no memory. Compiling one is done by the first
// thread that asks; others that ask for the same wait for it.
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CAPI_CALLTABLE_H
#define ATTN_LIB_CAPI_CALLTABLE_H

#include "attn/Compiler/Compiler.h"
#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>

namespace attn {

/// Forks wait until no thread is inside: the child has none but its own, and
/// must not find locks taken, or waits for a compilation, that nobody ends.
class ForkGate {
public:
  /// The calling thread is inside as long as this lives.
  struct Inside {
    Inside();
    ~Inside();
    Inside(const Inside &) = delete;
    Inside &operator=(const Inside &) = delete;
  };
};

/// What calls of one kernel agree in: numbers, and texts that most calls have
/// not.
struct CallKey {
  static constexpr size_t numWords = 20;
  std::array<int64_t, numWords> words = {};
  std::string_view monoid, schedule, score, mask;

  bool operator==(const CallKey &other) const {
    return words == other.words && monoid == other.monoid &&
           schedule == other.schedule && score == other.score &&
           mask == other.mask;
  }
  size_t hash() const;
};

/// Kernels by their calls, those used last.
class CallTable {
public:
  using Kernel = std::shared_ptr<const CompiledKernel>;
  using Compile = std::function<support::Result<Kernel>()>;

  /// More kernels than most programs have. Each takes 0.1 MB and more, and two
  /// mappings, of which a process may have 65,530.
  static constexpr size_t maxHost = 256;
  /// What was loaded onto a GPU stays there, so that compiling it again would
  /// take more memory and not less.
  static constexpr size_t maxDevice = 4096;

  CallTable();
  ~CallTable();

  /// The kernel, or null.
  Kernel find(const CallKey &key);
  /// The kernel, compiled where there is none.
  support::Result<Kernel> get(const CallKey &key, const Compile &compile);
  size_t size() const;
  void clear();

  /// Around a fork: takes the lock, and makes a new one in the child.
  void stop() { mutex.lock(); }
  void goOn(bool inChild);

private:
  struct Entry;
  struct Hash {
    size_t operator()(const CallKey &key) const { return key.hash(); }
  };

  void evict(bool onDevice);

  mutable std::shared_mutex mutex;
  /// Entries hold the texts of their keys.
  std::unordered_map<CallKey, std::shared_ptr<Entry>, Hash> entries;
  std::atomic<uint64_t> clock{0};
};

} // namespace attn

#endif // ATTN_LIB_CAPI_CALLTABLE_H

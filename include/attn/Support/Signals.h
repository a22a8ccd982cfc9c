//===- Signals.h - Threads that take no signals -----------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_SUPPORT_SIGNALS_H
#define ATTN_SUPPORT_SIGNALS_H

#include <csignal>
#include <pthread.h>

namespace attn::support {

/// While it lives, signals are not for this thread, nor ever for threads that
/// it starts: the host's signals are for the host's threads.
class BlockedSignals {
public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &old, nullptr); }
  BlockedSignals(const BlockedSignals &) = delete;
  BlockedSignals &operator=(const BlockedSignals &) = delete;

private:
  sigset_t old;
};

} // namespace attn::support

#endif // ATTN_SUPPORT_SIGNALS_H

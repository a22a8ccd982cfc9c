//===- CallTable.cpp - The kernels of attnAttention -----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CallTable.h"

#include <condition_variable>
#include <mutex>
#include <new>
#include <pthread.h>
#include <set>

using namespace ::attn;
using support::Result;

//===----------------------------------------------------------------------===//
// Forks
//===----------------------------------------------------------------------===//

namespace {
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  int numInside = 0;
  /// A fork waits: who comes now, waits for it.
  bool isClosed = false;
  /// Those of all contexts.
  std::set<CallTable *> tables;
};
} // namespace

/// How often this thread is inside. It may fork itself there, as who starts an
/// assembler does, and need not wait for itself.
static thread_local int depth = 0;

static Gate &getGate() {
  // Never destroyed: threads may outlive static destructors.
  static Gate *gate = [] {
    auto *made = new Gate;
    pthread_atfork(
        [] {
          if (depth)
            return;
          Gate &gate = getGate();
          std::unique_lock<std::mutex> lock(gate.mutex);
          gate.changed.wait(lock, [&] { return !gate.isClosed; });
          gate.isClosed = true;
          gate.changed.wait(lock, [&] { return gate.numInside == 0; });
          for (CallTable *table : gate.tables)
            table->stop();
          lock.release(); // held by both until they go on
        },
        [] {
          if (depth)
            return;
          Gate &gate = getGate();
          for (CallTable *table : gate.tables)
            table->goOn(/*inChild=*/false);
          gate.isClosed = false;
          gate.mutex.unlock();
          gate.changed.notify_all();
        },
        [] {
          if (depth)
            return;
          // Locks know the thread that took them, which the child has not.
          Gate &gate = getGate();
          for (CallTable *table : gate.tables)
            table->goOn(/*inChild=*/true);
          gate.isClosed = false;
          new (&gate.mutex) std::mutex;
          new (&gate.changed) std::condition_variable;
        });
    return made;
  }();
  return *gate;
}

ForkGate::Inside::Inside() {
  if (depth++)
    return;
  Gate &gate = getGate();
  std::unique_lock<std::mutex> lock(gate.mutex);
  gate.changed.wait(lock, [&] { return !gate.isClosed; });
  ++gate.numInside;
}

ForkGate::Inside::~Inside() {
  if (--depth)
    return;
  Gate &gate = getGate();
  std::lock_guard<std::mutex> lock(gate.mutex);
  if (--gate.numInside == 0)
    gate.changed.notify_all();
}

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

size_t CallKey::hash() const {
  uint64_t state = monoid.size() + 31 * schedule.size();
  for (int64_t word : words) {
    state = (state ^ uint64_t(word)) * 0x9e3779b97f4a7c15;
    state ^= state >> 32;
  }
  for (std::string_view text : {monoid, schedule, score, mask})
    if (!text.empty())
      state =
          (state ^ std::hash<std::string_view>()(text)) * 0x9e3779b97f4a7c15;
  return size_t(state ^ (state >> 29));
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

struct CallTable::Entry {
  using Outcome = Result<Kernel>;

  std::string monoid, schedule, score, mask;
  CallKey key;
  /// When a call used it last, by the table's clock.
  std::atomic<uint64_t> used{0};
  /// Written once, under the lock of the table.
  Kernel kernel;
  std::promise<Outcome> promise;
  std::shared_future<Outcome> outcome{promise.get_future().share()};
};

CallTable::CallTable() {
  Gate &gate = getGate();
  std::lock_guard<std::mutex> lock(gate.mutex);
  gate.tables.insert(this);
}

CallTable::~CallTable() {
  Gate &gate = getGate();
  std::lock_guard<std::mutex> lock(gate.mutex);
  gate.tables.erase(this);
}

void CallTable::goOn(bool inChild) {
  if (inChild)
    new (&mutex) std::shared_mutex;
  else
    mutex.unlock();
}

CallTable::Kernel CallTable::find(const CallKey &key) {
  std::shared_lock<std::shared_mutex> lock(mutex);
  auto it = entries.find(key);
  if (it == entries.end())
    return nullptr;
  Entry &entry = *it->second;
  // Many threads that use one kernel write nothing.
  uint64_t now = clock.load(std::memory_order_relaxed);
  if (entry.used.load(std::memory_order_relaxed) != now)
    entry.used.store(clock.fetch_add(1, std::memory_order_relaxed) + 1,
                     std::memory_order_relaxed);
  return entry.kernel;
}

Result<CallTable::Kernel> CallTable::get(const CallKey &key,
                                         const Compile &compile) {
  ForkGate::Inside inside;
  std::shared_ptr<Entry> entry;
  bool isFirst = false;
  {
    std::lock_guard<std::shared_mutex> lock(mutex);
    if (auto it = entries.find(key); it != entries.end()) {
      entry = it->second;
      entry->used = ++clock;
    } else {
      isFirst = true;
      entry = std::make_shared<Entry>();
      entry->monoid = key.monoid;
      entry->schedule = key.schedule;
      entry->score = key.score;
      entry->mask = key.mask;
      entry->key = {key.words, entry->monoid, entry->schedule, entry->score,
                    entry->mask};
      entry->used = ++clock;
      entries.emplace(entry->key, entry);
    }
  }
  if (!isFirst)
    return entry->outcome.get();
  Result<Kernel> compiled = compile();
  {
    std::lock_guard<std::shared_mutex> lock(mutex);
    if (compiled) {
      entry->kernel = *compiled;
      evict((*compiled)->device != nullptr);
    } else if (auto it = entries.find(entry->key);
               it != entries.end() && it->second == entry) {
      entries.erase(it);
    }
  }
  entry->promise.set_value(compiled);
  return compiled;
}

/// Lets go of what was used least recently, of more than may be kept.
void CallTable::evict(bool onDevice) {
  size_t count = 0;
  auto oldest = entries.end();
  for (auto it = entries.begin(); it != entries.end(); ++it) {
    const Kernel &kernel = it->second->kernel;
    if (!kernel || (kernel->device != nullptr) != onDevice)
      continue;
    ++count;
    if (oldest == entries.end() || it->second->used < oldest->second->used)
      oldest = it;
  }
  if (count > (onDevice ? maxDevice : maxHost))
    entries.erase(oldest);
}

size_t CallTable::size() const {
  std::shared_lock<std::shared_mutex> lock(mutex);
  size_t count = 0;
  for (auto &[key, entry] : entries)
    count += entry->kernel != nullptr;
  return count;
}

void CallTable::clear() {
  // Kernels go when the lock is free again: that takes a while.
  decltype(entries) old;
  std::lock_guard<std::shared_mutex> lock(mutex);
  // Who compiles finds out that its entry is gone.
  old.swap(entries);
}

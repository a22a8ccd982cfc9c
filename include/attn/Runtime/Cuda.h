//===- Cuda.h - Kernels on NVIDIA GPUs --------------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The driver (libcuda.so.1) is opened on first use; without it every function
// here returns one line that says so, and nothing else of the project minds.
//
// Contexts: a thread's current context is used where it is of the device in
// question (PyTorch's is the primary one), else the device's primary context,
// which is retained once and never given back. Nothing here waits for the
// device but what says so, so runs may be captured into graphs.
//
// This header includes neither MLIR nor CUDA.
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_CUDA_H
#define ATTN_RUNTIME_CUDA_H

#include "attn/Runtime/Abi.h"
#include "attn/Support/Result.h"
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace attn::cuda {

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

struct DeviceInfo {
  int ordinal = 0;
  std::string name;
  /// Compute capability.
  int major = 0, minor = 0;
  int multiprocessors = 0;
  /// The most that one block may ask for.
  int64_t sharedMemoryBytes = 0;
  int64_t l2Bytes = 0;
  int64_t memoryBytes = 0;
  /// As in 13000 for CUDA 13.0.
  int driverVersion = 0;

  /// The best target (attn/Target/TargetInfo.h) whose code the device runs;
  /// empty for a device that is too old.
  std::string target() const;
};

support::Result<int> countDevices();
support::Result<DeviceInfo> getDevice(int ordinal);
/// The device of this thread's current context, else 0.
support::Result<int> currentDevice();

/// The device that holds this memory; -1 for memory of the host.
support::Result<int> deviceOf(const void *pointer);

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

/// What a launch has to know of a kernel.
struct KernelInfo {
  std::string name;
  int64_t threads = 0;
  int64_t sharedBytes = 0;
  /// The blocks share the work out among themselves: no more of them are
  /// launched than run at once.
  bool persistent = false;
};

/// Code for a GPU: PTX, and machine code where an assembler has made it.
struct DeviceCode {
  std::string target;
  std::string ptx;
  std::string cubin;
  std::vector<KernelInfo> kernels;
};

/// What the assembler found in a log that costs most of the speed or says that
/// our code is wrong, as "(C7510) Potential Performance Loss: ..."; empty if
/// nothing, or where ATTN_ALLOW_COMPLAINTS is set.
std::string findAssemblerComplaint(const std::string &log);

/// Code that is loaded into each context on first use, and kept there: contexts
/// may be gone when a process ends. May be used from many threads.
class Program {
public:
  explicit Program(std::shared_ptr<const DeviceCode> code);
  ~Program();

  const DeviceCode &code() const;
  /// Loads the code for a device (-1: the current one), as the first run would:
  /// the driver compiles PTX then, for 0.1 to 0.5 s.
  support::Status load(int device = -1) const;

  struct Implementation;
  Implementation &get() const { return *implementation; }

private:
  std::unique_ptr<Implementation> implementation;
};

/// Where a run takes place.
struct Placement {
  /// -1: the current device.
  int device = -1;
  /// A CUstream of that device; null: the default stream.
  void *stream = nullptr;
};

/// Runs a compiled plan on a device. Asynchronous: what the kernels meet shows
/// in the caller's next synchronisation.
support::Status run(const Program &program, AttnEntry entry, void **args,
                    const Placement &placement);

/// Rows of bytes within the memory of one device, `from` some pitch apart `to`
/// another.
struct RowsCopy {
  void *to = nullptr;
  const void *from = nullptr;
  size_t bytes = 0, rows = 0;
  int64_t toPitch = 0, fromPitch = 0;
};
/// Copies them in order on a stream, without waiting. They do not overlap.
support::Status copyRows(const std::vector<RowsCopy> &copies,
                         const Placement &placement);

/// Memory on a device (-1: the current one) that reads as zeros: what an empty
/// tensor's record points at.
support::Result<void *> getZeros(int device);
constexpr int64_t zeroBytes = 1 << 16;

//===----------------------------------------------------------------------===//
// For tools: memory, copies, time. These wait for the device.
//===----------------------------------------------------------------------===//

/// Memory on the current device.
class Buffer {
public:
  Buffer() = default;
  Buffer(Buffer &&other) noexcept { *this = std::move(other); }
  Buffer &operator=(Buffer &&other) noexcept {
    std::swap(pointer, other.pointer);
    std::swap(bytes, other.bytes);
    return *this;
  }
  ~Buffer();
  static support::Result<Buffer> create(size_t bytes);
  support::Status fill(unsigned char byte);
  /// The first `count` bytes, or all.
  support::Status copyFrom(const void *host, size_t count = SIZE_MAX);
  support::Status copyTo(void *host, size_t count = SIZE_MAX) const;
  void *data() const { return pointer; }
  size_t size() const { return bytes; }

private:
  void *pointer = nullptr;
  size_t bytes = 0;
};

/// Waits for all work of the default stream.
support::Status synchronize();

/// A point of the default stream's time.
class Event {
public:
  Event() = default;
  Event(Event &&other) noexcept { std::swap(event, other.event); }
  ~Event();
  static support::Result<Event> record();
  support::Status wait() const;
  /// Milliseconds from `earlier` to this; both must have been waited for.
  support::Result<double> since(const Event &earlier) const;

private:
  void *event = nullptr;
};

} // namespace attn::cuda

#endif // ATTN_RUNTIME_CUDA_H

//===- DiskCache.cpp - Compiled kernels on disk ---------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DiskCache.h"
#include "CacheFolder.h"
#include "attn/Runtime/Cuda.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"

#include <cstring>
#include <dlfcn.h>
#include <sys/stat.h>

using namespace ::attn;
using namespace llvm;

/// Files beyond this many make room, oldest first.
static constexpr size_t kMaxFiles = 4096;
/// A kernel with the text of all its phases has some megabytes.
static constexpr uint64_t kMaxBytes = 256 << 20;
static constexpr const char *extension = ".attn";
static constexpr StringRef kMagic = "attn-kernel-cache-1\n";

static std::string hash(StringRef text) {
  BLAKE3 hasher;
  hasher.update(text);
  auto bytes = hasher.final();
  return toHex(ArrayRef<uint8_t>(bytes.data(), bytes.size()),
               /*LowerCase=*/true);
}

//===----------------------------------------------------------------------===//
// What a file holds
//===----------------------------------------------------------------------===//

namespace {
/// Numbers of 8 bytes, texts as length and bytes.
class Writer {
public:
  void add(int64_t value) {
    text.append(reinterpret_cast<const char *>(&value), sizeof(value));
  }
  void add(const std::string &value) {
    add(int64_t(value.size()));
    text += value;
  }
  template <typename T> void addAll(const std::vector<T> &values) {
    add(int64_t(values.size()));
    for (const T &value : values)
      add(value);
  }
  void add(const std::pair<std::string, std::string> &value) {
    add(value.first);
    add(value.second);
  }
  void add(const PhaseText &value) {
    add(value.name);
    add(value.text);
  }
  void add(const cuda::KernelInfo &value) {
    add(value.name);
    add(value.threads);
    add(value.sharedBytes);
    add(int64_t(value.persistent));
  }
  void add(const ArgInfo &value) {
    add(value.name);
    add(int64_t(value.isScalar));
    add(int64_t(value.isOutput));
    add(int64_t(value.dtype));
    addAll(value.shape);
    addAll(value.strides);
    addAll(value.dims);
    addAll(value.atLeast);
    add(value.elementsUpTo);
    add(value.offsetsUpTo);
    add(value.pagesOf);
    add(value.lengthsFrom);
    add(value.moreRows);
    add(int64_t(value.isWritten));
    add(int64_t(value.isApart));
    add(value.columnsOf);
  }
  void add(const EntryInfo &value) {
    add(value.name);
    addAll(value.args);
    addAll(value.multiples);
  }

  std::string text;
};

/// The same in the same order; false once the text ends too early.
class Reader {
public:
  explicit Reader(StringRef text) : text(text) {}

  bool get(int64_t &value) {
    if (text.size() < sizeof(value))
      return false;
    std::memcpy(&value, text.data(), sizeof(value));
    text = text.drop_front(sizeof(value));
    return true;
  }
  bool get(bool &value) {
    int64_t number = 0;
    bool ok = get(number);
    value = number != 0;
    return ok;
  }
  bool get(std::string &value) {
    int64_t size = 0;
    if (!get(size) || size < 0 || uint64_t(size) > text.size())
      return false;
    value = text.take_front(size).str();
    text = text.drop_front(size);
    return true;
  }
  template <typename T> bool getAll(std::vector<T> &values) {
    int64_t size = 0;
    // Each takes a byte at least.
    if (!get(size) || size < 0 || uint64_t(size) > text.size())
      return false;
    values.resize(size_t(size));
    return llvm::all_of(values, [&](T &value) { return get(value); });
  }
  bool get(std::pair<std::string, std::string> &value) {
    return get(value.first) && get(value.second);
  }
  bool get(PhaseText &value) { return get(value.name) && get(value.text); }
  bool get(cuda::KernelInfo &value) {
    return get(value.name) && get(value.threads) && get(value.sharedBytes) &&
           get(value.persistent);
  }
  bool get(ArgInfo &value) {
    int64_t dtype = 0;
    if (!get(value.name) || !get(value.isScalar) || !get(value.isOutput) ||
        !get(dtype))
      return false;
    value.dtype = ::attn::support::DType(dtype);
    return getAll(value.shape) && getAll(value.strides) && getAll(value.dims) &&
           getAll(value.atLeast) && get(value.elementsUpTo) &&
           get(value.offsetsUpTo) && get(value.pagesOf) &&
           get(value.lengthsFrom) && get(value.moreRows) &&
           get(value.isWritten) && get(value.isApart) && get(value.columnsOf);
  }
  bool get(EntryInfo &value) {
    return get(value.name) && getAll(value.args) && getAll(value.multiples);
  }

  StringRef text;
};
} // namespace

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

/// The file that this code is in.
const std::string &DiskCache::getLibraryIdentity() {
  static const std::string identity = [] {
    Dl_info info;
    struct stat status;
    if (!dladdr(reinterpret_cast<void *>(&getLibraryIdentity), &info) ||
        !info.dli_fname)
      return std::string();
    const char *path = info.dli_fname;
    // A program may have been called by a relative path.
    if (stat(path, &status) != 0 && stat("/proc/self/exe", &status) != 0)
      return std::string();
    return std::to_string(status.st_size) + "." +
           std::to_string(status.st_mtim.tv_sec) + "." +
           std::to_string(status.st_mtim.tv_nsec);
  }();
  return identity;
}

DiskCache::DiskCache(const std::string &key) {
  const std::string &library = getLibraryIdentity();
  if (!CacheFolder::getPath().empty() && !library.empty())
    identity = hash(library + "|" + key);
}

bool DiskCache::load(CompiledKernel &kernel) const {
  if (identity.empty())
    return false;
  std::optional<CacheFolder> folder = CacheFolder::open();
  std::optional<std::string> text;
  if (folder)
    text = folder->read(identity + extension, kMaxBytes);
  if (!text)
    return false;
  Reader reader(*text);
  if (!reader.text.consume_front(kMagic))
    return false;
  std::string sum, name;
  if (!reader.get(sum) || sum != hash(reader.text) || !reader.get(name) ||
      name != identity)
    return false;
  auto device = std::make_shared<cuda::DeviceCode>();
  if (!reader.get(kernel.target) || !reader.getAll(kernel.entries) ||
      !reader.get(kernel.explanation) || !reader.get(kernel.ir) ||
      !reader.getAll(kernel.phases) || !reader.get(kernel.object) ||
      !reader.get(device->target) || !reader.get(device->ptx) ||
      !reader.get(device->cubin) || !reader.getAll(device->kernels) ||
      !reader.text.empty())
    return false;
  kernel.device = std::move(device);
  return true;
}

void DiskCache::store(const CompiledKernel &kernel) const {
  if (identity.empty() || !kernel.device)
    return;
  auto folder = CacheFolder::make();
  if (!folder)
    return warnOnce(Warning::Cache, folder.error());
  Writer body;
  body.add(identity);
  body.add(kernel.target);
  body.addAll(kernel.entries);
  body.add(kernel.explanation);
  body.add(kernel.ir);
  body.addAll(kernel.phases);
  body.add(kernel.object);
  body.add(kernel.device->target);
  body.add(kernel.device->ptx);
  body.add(kernel.device->cubin);
  body.addAll(kernel.device->kernels);
  Writer head;
  head.add(hash(body.text));

  std::string text = kMagic.str() + head.text + body.text;
  if (text.size() > kMaxBytes)
    return;
  auto written = folder->write(identity + extension, text);
  if (!written)
    return warnOnce(Warning::Cache, written.error());
  folder->prune(extension, kMaxFiles);
}

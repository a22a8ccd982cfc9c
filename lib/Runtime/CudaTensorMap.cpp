//===- CudaTensorMap.cpp - Describe tensors for box copies ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The copy engine's rules (cuTensorMapEncodeTiled) are checked first, so that a
// tensor which breaks one is named, with what would do.
//===----------------------------------------------------------------------===//

#include "CudaModule.h"

#include <algorithm>
#include <array>
#include <cstring>

using namespace ::attn;
using namespace ::attn::cuda;
using attn::support::Failure;
using attn::support::Status;
using attn::support::success;

namespace {
struct Element {
  int64_t bytes;
  /// CUtensorMapDataType.
  int type;
};
} // namespace

static const Element *getElement(int32_t code) {
  static const Element f32 = {4, CU_TENSOR_MAP_DATA_TYPE_FLOAT32},
                       f16 = {2, CU_TENSOR_MAP_DATA_TYPE_FLOAT16},
                       bf16 = {2, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16},
                       i32 = {4, CU_TENSOR_MAP_DATA_TYPE_INT32},
                       u8 = {1, CU_TENSOR_MAP_DATA_TYPE_UINT8};
  switch (code) {
  case ATTN_ELEMENT_F32:
    return &f32;
  case ATTN_ELEMENT_F16:
    return &f16;
  case ATTN_ELEMENT_BF16:
    return &bf16;
  case ATTN_ELEMENT_I32:
    return &i32;
  case ATTN_ELEMENT_U8:
    return &u8;
  }
  return nullptr;
}

static int getSwizzle(int32_t bytes) {
  switch (bytes) {
  case 0:
    return CU_TENSOR_MAP_SWIZZLE_NONE;
  case 32:
    return CU_TENSOR_MAP_SWIZZLE_32B;
  case 64:
    return CU_TENSOR_MAP_SWIZZLE_64B;
  case 128:
    return CU_TENSOR_MAP_SWIZZLE_128B;
  }
  return -1;
}

static constexpr int32_t maxRank = 5;

namespace {
/// Maps that this thread has made: calls in a row mostly describe the same few
/// tensors, and a map is a function of what describes them.
class KnownMaps {
public:
  using Key = std::array<int64_t, 6 + 2 * maxRank>;

  /// The key of a tensor; of ranks that maps do not have, and of empty tensors,
  /// nothing is known.
  static bool makeKey(Key &key, void *data, int32_t code, int32_t rank,
                      const int64_t *sizes, const int64_t *strides,
                      int64_t boxRows, int64_t boxCols, int32_t swizzleBytes) {
    if (rank < 1 || rank > maxRank)
      return false;
    key = {reinterpret_cast<int64_t>(data),
           code,
           rank,
           boxRows,
           boxCols,
           swizzleBytes};
    for (int32_t i = 0; i < rank; ++i) {
      if (sizes[i] == 0)
        return false;
      key[6 + 2 * i] = sizes[i];
      key[7 + 2 * i] = strides[i];
    }
    return true;
  }

  struct Slot {
    Key key;
    bool isKnown;
    CUtensorMap map;
  };

  /// The slot of a key, or one to put it in.
  Slot &find(const Key &key) {
    uint64_t state = 0;
    for (int64_t word : key)
      state = (state ^ uint64_t(word)) * 0x9e3779b97f4a7c15;
    Slot *slots = sets[state >> 61].data();
    for (size_t i = 0; i < numWays; ++i)
      if (!slots[i].isKnown || slots[i].key == key)
        return slots[i];
    return slots[next++ % numWays];
  }

private:
  /// As many maps as most kernels have are in one set, if they must.
  static constexpr size_t numWays = 4, numSets = 8;
  std::array<std::array<Slot, numWays>, numSets> sets = {};
  size_t next = 0;
};
} // namespace

static Status makeTensorMap(const Driver &driver, void *map, const char *name,
                            void *data, int32_t code, int32_t rank,
                            const int64_t *sizes, const int64_t *strides,
                            int64_t boxRows, int64_t boxCols,
                            int32_t swizzleBytes, CUdeviceptr zeros) {
  constexpr int64_t align = 16, maxBox = 256;
  constexpr int64_t maxSize = int64_t(1) << 32, maxStride = int64_t(1) << 40;
  // For messages alone.
  auto what = [&] { return std::string("'") + (name ? name : "tensor") + "'"; };
  auto fail = [&](const std::string &expected, const std::string &got) {
    return Failure{"expected " + what() + " " + expected + ", but got " + got};
  };

  if (!driver.cuTensorMapEncodeTiled)
    return Failure{"expected an NVIDIA driver of CUDA 12.0 or later for tensor "
                   "copies, but got one without them"};
  const Element *element = getElement(code);
  int swizzle = getSwizzle(swizzleBytes);
  if (!element || swizzle < 0 || rank < 1 || rank > maxRank)
    return Failure{"expected a tensor map of f32, f16, bf16, i32 or u8, rank 1 "
                   "to 5 and swizzle 0, 32, 64 or 128, but got element " +
                   std::to_string(code) + ", rank " + std::to_string(rank) +
                   " and swizzle " + std::to_string(swizzleBytes)};
  int64_t rowBytes = boxCols * element->bytes;
  if (boxRows < 1 || boxRows > maxBox || boxCols < 1 || boxCols > maxBox ||
      rowBytes % align || (swizzleBytes && rowBytes > swizzleBytes))
    return Failure{"expected a box of at most 256 x 256 elements and of rows "
                   "of 16 bytes or more that fit the swizzle, but got " +
                   std::to_string(boxRows) + " x " + std::to_string(boxCols)};

  uint64_t dims[maxRank], byteStrides[maxRank] = {};
  uint32_t box[maxRank], steps[maxRank];
  bool isEmpty =
      std::any_of(sizes, sizes + rank, [](int64_t size) { return size == 0; });
  if (isEmpty) {
    // Copies from it are never asked for; if one were, it would read zeros.
    data = reinterpret_cast<void *>(zeros);
  } else if (reinterpret_cast<uintptr_t>(data) % align) {
    return fail("to start at a multiple of 16 bytes in memory",
                "an address that is " +
                    std::to_string(reinterpret_cast<uintptr_t>(data) % align) +
                    " bytes past one; copy it");
  }
  // Innermost first.
  for (int32_t i = 0; i < rank; ++i) {
    int32_t dim = rank - 1 - i;
    int64_t size = isEmpty ? 1 : sizes[dim];
    if (isEmpty && i == 0)
      size = std::clamp<int64_t>(sizes[dim], 1, zeroBytes / element->bytes);
    if (size < 0 || size > maxSize)
      return fail("to have sizes from 0 to 4294967296",
                  std::to_string(size) + " in dimension " +
                      std::to_string(dim));
    dims[i] = uint64_t(size);
    steps[i] = 1;
    box[i] = i == 0 ? uint32_t(boxCols) : i == 1 ? uint32_t(boxRows) : 1;
    if (i == 0) {
      if (!isEmpty && size > 1 && strides[dim] != 1)
        return fail("to have stride 1 in its last dimension",
                    "stride " + std::to_string(strides[dim]) + "; copy it");
      continue;
    }
    // A dimension of one element has no stride to speak of; what it was given
    // need not keep the rules.
    int64_t stride = size == 1 ? align / element->bytes : strides[dim];
    bool inRange = stride >= 0 && stride < maxStride / element->bytes;
    int64_t bytes = inRange ? stride * element->bytes : 0;
    if (!inRange || bytes % align)
      return fail(
          "to have strides " +
              (inRange ? std::string("of multiples of ") +
                             std::to_string(align / element->bytes) +
                             " elements (16 bytes)"
                       : std::string("from 0 to below 2^40 bytes")) +
              " for tensor copies",
          "stride " + std::to_string(stride) + " in dimension " +
              std::to_string(dim) +
              (inRange ? "; copy it to memory with padded rows" : "; copy it"));
    byteStrides[i - 1] = uint64_t(bytes);
  }
  CUresult result = driver.cuTensorMapEncodeTiled(
      static_cast<CUtensorMap *>(map), element->type, uint32_t(rank), data,
      dims, byteStrides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
      CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result)
    return driver.failure("describe " + what() + " for tensor copies", result);
  return success();
}

Status attn::cuda::encodeTensorMap(const Driver &driver, void *map,
                                   const char *name, void *data, int32_t code,
                                   int32_t rank, const int64_t *sizes,
                                   const int64_t *strides, int64_t boxRows,
                                   int64_t boxCols, int32_t swizzleBytes,
                                   CUdeviceptr zeros) {
  thread_local KnownMaps known;
  KnownMaps::Key key;
  if (!KnownMaps::makeKey(key, data, code, rank, sizes, strides, boxRows,
                          boxCols, swizzleBytes))
    return makeTensorMap(driver, map, name, data, code, rank, sizes, strides,
                         boxRows, boxCols, swizzleBytes, zeros);
  KnownMaps::Slot &slot = known.find(key);
  if (slot.isKnown && slot.key == key) {
    std::memcpy(map, &slot.map, sizeof(CUtensorMap));
    return success();
  }
  Status made = makeTensorMap(driver, map, name, data, code, rank, sizes,
                              strides, boxRows, boxCols, swizzleBytes, zeros);
  if (made) {
    slot.key = key;
    slot.isKnown = true;
    std::memcpy(&slot.map, map, sizeof(CUtensorMap));
  }
  return made;
}

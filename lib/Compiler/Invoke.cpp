//===- Invoke.cpp - Check arguments and run an entry ----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Compiler/Invoke.h"
#include "attn/Compiler/Overlap.h"
#include "attn/Emulator/Emulator.h"

#include <algorithm>
#include <optional>
#include <sstream>

using namespace ::attn;
using namespace ::attn::support;

Sizes attn::denseStrides(const Sizes &shape) {
  Sizes strides;
  strides.resize(shape.size(), 1);
  // Sizes that no tensor has may overflow; they are refused later.
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = int64_t(uint64_t(strides[i]) *
                             uint64_t(std::max<int64_t>(shape[i], 1)));
  return strides;
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

static std::string printSizes(const Sizes &sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i)
    text += (i ? ", " : "") + std::to_string(sizes[i]);
  return text + "]";
}

/// "[b, hq, sq, 64]": names where sizes are free, sizes where they are not.
static std::string printRule(const ArgInfo &info) {
  std::string text = "[";
  for (size_t i = 0; i < info.shape.size(); ++i) {
    text += i ? ", " : "";
    if (info.shape[i] >= 0)
      text += std::to_string(info.shape[i]);
    else
      text += info.dims[i].empty() ? "?" : info.dims[i];
  }
  return text + "]";
}

static std::string listNames(const EntryInfo &entry, bool outputs) {
  std::string text;
  for (const ArgInfo &arg : entry.args)
    if (arg.isOutput == outputs)
      text += (text.empty() ? "" : ", ") + arg.name;
  return text.empty() ? "none" : text;
}

static Failure fail(const std::string &expected, const std::string &got) {
  return Failure{"expected " + expected + ", but got " + got};
}

static std::string quote(const ArgInfo &arg) { return "'" + arg.name + "'"; }

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// Booleans come as whatever type of one byte the caller has.
static bool isCompatible(DType have, DType want) {
  auto isByte = [](DType dtype) {
    return dtype == DType::boolean || dtype == DType::i8 || dtype == DType::u8;
  };
  return have == want || (isByte(have) && isByte(want));
}

namespace {
/// Where the size of a named dimension was first seen.
struct Seen {
  const std::string *dim;
  int64_t size;
  const std::string *arg;
};

/// The few named dimensions of an entry. It refers to the entry's names.
class SeenSizes {
public:
  const Seen *find(const std::string &dim) const {
    for (const Seen &one : all)
      if (isSame(*one.dim, dim))
        return &one;
    return nullptr;
  }
  /// Names have a letter or two, for which a call takes longer than this.
  static bool isSame(const std::string &a, const std::string &b) {
    if (a.size() != b.size())
      return false;
    for (size_t i = 0; i < a.size(); ++i)
      if (a[i] != b[i])
        return false;
    return true;
  }
  void add(const std::string &dim, int64_t size, const std::string &arg) {
    all.push_back({&dim, size, &arg});
  }
  const InlineVector<Seen, 16> &get() const { return all; }

private:
  InlineVector<Seen, 16> all;
};
} // namespace

static Status checkTensor(const ArgInfo &info, const TensorArg &tensor,
                          SeenSizes &seen) {
  if (!isCompatible(tensor.dtype, info.dtype))
    return fail(quote(info) + " to be " + nameOf(info.dtype),
                nameOf(tensor.dtype));
  if (info.isScalar) {
    if (!tensor.shape.empty())
      return fail(quote(info) + " to be a scalar",
                  "shape " + printSizes(tensor.shape));
    if (!tensor.data)
      return fail(quote(info) + " to have data", "a null pointer");
    return success();
  }

  // For messages alone: a call that fits writes no text.
  auto rule = [&] { return quote(info) + " of shape " + printRule(info); };
  if (tensor.shape.size() != info.shape.size() ||
      tensor.strides.size() != tensor.shape.size())
    return fail(rule(), "shape " + printSizes(tensor.shape));
  bool isEmpty = false;
  for (size_t i = 0; i < info.shape.size(); ++i) {
    int64_t size = tensor.shape[i];
    // Positions are 32-bit integers in the regions, and so are the counters of
    // loops, which go a tile beyond the last one.
    constexpr int64_t mostSize = INT32_MAX - (1 << 16);
    if (size < 0 || size > mostSize)
      return fail(quote(info) + " to have sizes between 0 and " +
                      std::to_string(mostSize),
                  "shape " + printSizes(tensor.shape));
    if (info.shape[i] >= 0 && size != info.shape[i])
      return fail(rule(), "shape " + printSizes(tensor.shape));
    isEmpty |= size == 0;
    if (info.dims[i].empty())
      continue;
    const Seen *before = seen.find(info.dims[i]);
    if (!before)
      seen.add(info.dims[i], size, info.name);
    else if (before->size != size)
      return fail(rule() + " with " + info.dims[i] + " = " +
                      std::to_string(before->size) + " as in '" + *before->arg +
                      "'",
                  "shape " + printSizes(tensor.shape));
  }
  for (size_t i = 0; i < info.shape.size(); ++i) {
    if (info.strides[i] < 0 || tensor.shape[i] <= 1 || isEmpty ||
        tensor.strides[i] == info.strides[i])
      continue;
    if (i + 1 == info.shape.size() && info.strides[i] == 1)
      return fail(quote(info) + " to have stride 1 in its last dimension",
                  "stride " + std::to_string(tensor.strides[i]) +
                      "; copy it to contiguous memory");
    return fail(quote(info) + " to have stride " +
                    std::to_string(info.strides[i]) + " in dimension " +
                    std::to_string(i),
                "stride " + std::to_string(tensor.strides[i]));
  }
  if (!tensor.data && !isEmpty)
    return fail(quote(info) + " to have data", "a null pointer");
  for (size_t i = 0; i < tensor.shape.size() && !isEmpty; ++i) {
    // No memory reaches as far; the sum over 16 dimensions must not overflow.
    int64_t reach, longest = INT64_MAX / 256;
    if (__builtin_mul_overflow(tensor.strides[i], tensor.shape[i] - 1,
                               &reach) ||
        reach > longest || reach < -longest)
      return fail(quote(info) + " to have strides that memory has room for",
                  "stride " + std::to_string(tensor.strides[i]) +
                      " in dimension " + std::to_string(i) + " of size " +
                      std::to_string(tensor.shape[i]));
  }
  return success();
}

/// The size that `name` is of: that of a dimension, a number, or the product of
/// such with asterisks between; less another, behind a minus.
static std::optional<int64_t> sizeOf(const std::string &name,
                                     const SeenSizes &seen) {
  if (size_t minus = name.find('-'); minus != std::string::npos) {
    std::optional<int64_t> from = sizeOf(name.substr(0, minus), seen);
    std::optional<int64_t> less = sizeOf(name.substr(minus + 1), seen);
    if (!from || !less)
      return std::nullopt;
    return *from - *less;
  }
  int64_t product = 1;
  std::istringstream factors(name);
  for (std::string factor; std::getline(factors, factor, '*');) {
    if (!factor.empty() &&
        std::isdigit(static_cast<unsigned char>(factor[0]))) {
      product *= std::stoll(factor);
      continue;
    }
    const Seen *dim = seen.find(factor);
    if (!dim || __builtin_mul_overflow(product, dim->size, &product))
      return std::nullopt;
  }
  return product;
}

/// Entries of a table of pages are pages, as far as the sequence reaches.
/// `hasKeys` becomes false where none reaches any.
static Status checkPages(const EntryInfo &entry, const ArgInfo &info,
                         const TensorArg &table, TensorArgs inputs,
                         const SeenSizes &seen, bool &hasKeys) {
  std::istringstream names(info.pagesOf);
  std::string pagesName, pageName;
  names >> pagesName >> pageName;
  std::optional<int64_t> pages = sizeOf(pagesName, seen);
  std::optional<int64_t> page = sizeOf(pageName, seen);
  if (!pages || !page || *page == 0 || table.shape.size() != 2)
    return success();
  const TensorArg *lengths = nullptr;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (entry.args[i].name == info.lengthsFrom)
      lengths = &inputs[i];
  const Seen *more = seen.find(info.moreRows);
  bool reachesAny = false;
  for (int64_t b = 0; b < table.shape[0]; ++b) {
    int64_t used = table.shape[1];
    if (lengths && lengths->shape.size() == 1 && b < lengths->shape[0])
      used = (int64_t(loadElement(lengths->data, lengths->dtype,
                                  b * lengths->strides[0])) +
              (more ? more->size : 0) + *page - 1) /
             *page;
    reachesAny |= used > 0;
    for (int64_t n = 0; n < std::min(used, table.shape[1]); ++n) {
      auto value =
          int64_t(loadElement(table.data, table.dtype,
                              b * table.strides[0] + n * table.strides[1]));
      if (value < 0 || value >= *pages)
        return fail(quote(info) + " to hold numbers of the " +
                        std::to_string(*pages) +
                        " pages as far as a sequence reaches",
                    std::to_string(value) + " at " + std::to_string(b) + ", " +
                        std::to_string(n));
    }
  }
  hasKeys &= reachesAny;
  return success();
}

/// Lengths and row offsets address memory: they are read before the code does.
/// Offsets of rows and of keys have several bounds, separated by blanks.
static Status checkElements(const ArgInfo &info, const TensorArg &tensor,
                            const SeenSizes &seen) {
  bool isOffsets = !info.offsetsUpTo.empty();
  if (!isOffsets && info.elementsUpTo.empty())
    return success();
  if (isOffsets && tensor.shape.size() == 1 && tensor.shape[0] == 0)
    return fail(quote(info) + " to hold at least one offset, 0", "none");
  std::istringstream names(isOffsets ? info.offsetsUpTo : info.elementsUpTo);
  for (std::string dim; names >> dim;) {
    std::optional<int64_t> limit = sizeOf(dim, seen);
    if (!limit || tensor.shape.size() != 1)
      continue;
    int64_t previous = 0;
    for (int64_t i = 0; i < tensor.shape[0]; ++i) {
      auto value = int64_t(
          loadElement(tensor.data, tensor.dtype, i * tensor.strides[0]));
      std::string got = std::to_string(value) + " at " + std::to_string(i);
      if (isOffsets && i == 0 && value != 0)
        return fail(quote(info) + " to start at 0", got);
      if (isOffsets && value < previous)
        return fail(quote(info) + " not to decrease",
                    got + " after " + std::to_string(previous));
      if (value < 0 || value > *limit) {
        std::string most = std::to_string(*limit);
        return fail(quote(info) + " to hold values between 0 and " +
                        (dim == most ? most : dim + " = " + most),
                    got);
      }
      previous = value;
    }
  }
  return success();
}

/// Captures that regions index by position hold an element for each; those that
/// they index in another way, one where there is a pair to index for.
static Status checkCaptures(const ArgInfo &info, const TensorArg &tensor,
                            const SeenSizes &seen, bool hasPairs) {
  for (size_t i = 0; i < info.atLeast.size() && i < tensor.shape.size(); ++i) {
    std::istringstream names(info.atLeast[i]);
    for (std::string name; names >> name;) {
      if (name == "1" && hasPairs && tensor.shape[i] == 0)
        return fail(quote(info) + " to have an element or more in dimension " +
                        std::to_string(i) + ", which regions index",
                    "shape " + printSizes(tensor.shape));
      // What has no size of its own is clamped to the capture.
      const Seen *bound = seen.find(name);
      if (bound && tensor.shape[i] < bound->size)
        return fail(quote(info) + " to have a size of at least " + name +
                        " = " + std::to_string(bound->size) + " in dimension " +
                        std::to_string(i) + ", which regions index",
                    "shape " + printSizes(tensor.shape));
    }
  }
  return success();
}

/// The size of a dimension that is the largest of others, "max(hk, hv)";
/// `divides` becomes false unless all of these divide it.
static std::optional<int64_t> largestOf(const std::string &name,
                                        const SeenSizes &seen,
                                        bool *divides = nullptr) {
  if (name.compare(0, 4, "max(") != 0)
    return std::nullopt;
  std::istringstream names(name.substr(4, name.size() - 5));
  int64_t largest = 0;
  InlineVector<int64_t, 4> sizes;
  for (std::string one; names >> one;) {
    if (one.back() == ',')
      one.pop_back();
    const Seen *dim = seen.find(one);
    if (!dim)
      return std::nullopt;
    largest = std::max(largest, dim->size);
    sizes.push_back(dim->size);
  }
  for (int64_t size : sizes)
    if (divides && largest && (!size || largest % size))
      *divides = false;
  return largest;
}

static bool isEmptyTensor(const TensorArg &tensor) {
  for (int64_t size : tensor.shape)
    if (size == 0)
      return true;
  return false;
}

/// Dimensions of outputs that are the largest of inputs.
static Status addLargest(const EntryInfo &entry, SeenSizes &seen) {
  for (const ArgInfo &info : entry.args)
    for (const std::string &dim : info.dims) {
      bool divides = true;
      if (!info.isOutput || seen.find(dim))
        continue;
      std::optional<int64_t> size = largestOf(dim, seen, &divides);
      if (size && !divides)
        return fail("heads that divide the largest number of them, " + dim,
                    "a largest of " + std::to_string(*size));
      if (size)
        seen.add(dim, *size, info.name);
    }
  return success();
}

/// `readable`: whether the host can read the tensors.
static Status checkAllInputs(const EntryInfo &entry, TensorArgs inputs,
                             SeenSizes &seen, bool readable) {
  if (inputs.size() != entry.numInputs())
    return fail(std::to_string(entry.numInputs()) + " inputs (" +
                    listNames(entry, false) + ")",
                std::to_string(inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i)
    if (Status ok = checkTensor(entry.args[i], inputs[i], seen); !ok)
      return ok;
  for (auto &[first, second] : entry.multiples) {
    const Seen *a = seen.find(first), *b = seen.find(second);
    if (!a || !b)
      continue;
    int64_t dividend = a->size, divisor = b->size;
    if (divisor == 0 ? dividend != 0 : dividend % divisor != 0)
      return fail(first + " to be a multiple of " + second,
                  first + " = " + std::to_string(dividend) + " and " + second +
                      " = " + std::to_string(divisor));
  }
  for (const Seen &one : seen.get())
    if (std::optional<int64_t> size = largestOf(*one.dim, seen);
        size && *size != one.size)
      return fail("'" + *one.arg + "' to have " + *one.dim + " = " +
                      std::to_string(*size) + " heads",
                  std::to_string(one.size));
  for (size_t i = 0; readable && i < inputs.size(); ++i)
    if (Status ok = checkElements(entry.args[i], inputs[i], seen); !ok)
      return ok;
  // Where an operand is empty, so is what regions are evaluated for.
  bool hasPairs = true;
  for (size_t i = 0; readable && i < inputs.size(); ++i)
    if (!entry.args[i].pagesOf.empty())
      if (Status ok = checkPages(entry, entry.args[i], inputs[i], inputs, seen,
                                 hasPairs);
          !ok)
        return ok;
  for (size_t i = 0; i < inputs.size(); ++i)
    hasPairs &= !entry.args[i].atLeast.empty() || !isEmptyTensor(inputs[i]);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (Status ok = checkCaptures(entry.args[i], inputs[i], seen, hasPairs);
        !ok)
      return ok;
  return success();
}

Result<DimSizes> attn::checkInputs(const EntryInfo &entry, TensorArgs inputs,
                                   bool readable) {
  SeenSizes seen;
  if (Status ok = checkAllInputs(entry, inputs, seen, readable); !ok)
    return ok.takeFailure();
  if (Status ok = addLargest(entry, seen); !ok)
    return ok.takeFailure();
  DimSizes sizes;
  for (const Seen &one : seen.get())
    sizes[*one.dim] = one.size;
  return sizes;
}

Result<std::vector<int64_t>> attn::getOutputShape(const EntryInfo &entry,
                                                  const DimSizes &sizes,
                                                  size_t index) {
  size_t number = entry.numInputs() + index;
  if (number >= entry.args.size())
    return fail("an output below " +
                    std::to_string(entry.args.size() - entry.numInputs()),
                std::to_string(index));
  const ArgInfo &info = entry.args[number];
  std::vector<int64_t> shape = info.shape;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] >= 0)
      continue;
    auto it = sizes.find(info.dims[i]);
    if (it == sizes.end())
      return fail("dimension " + std::to_string(i) + " of output " +
                      quote(info) + " to be that of an input",
                  "a size that only the code knows");
    shape[i] = it->second;
  }
  return shape;
}

/// An output, or an input that is written as one.
static std::string describeWritten(const ArgInfo &info) {
  return info.isOutput ? "output " + quote(info)
                       : "input " + quote(info) + ", which is written,";
}

/// What to say of an output that overlaps another argument, or may do so.
static Failure explainOverlap(const ArgInfo &info, const TensorArg &output,
                              const ArgInfo &otherInfo,
                              const TensorArg &other) {
  std::string name =
      (otherInfo.isOutput ? "output " : "input ") + quote(otherInfo);
  std::string expected = describeWritten(info) + " to have memory of its own";
  if (findOverlap(output, other) == Overlap::Unknown)
    return fail(expected, "strides from which it takes too long to tell that "
                          "it does not overlap " +
                              name + "; pass memory that lies apart");
  return fail(expected,
              (output.data == other.data ? "that of " : "some that overlaps ") +
                  name);
}

static Status checkOutput(const ArgInfo &info, const TensorArg &output) {
  if (isEmptyTensor(output))
    return success();
  for (size_t i = 0; i < output.shape.size(); ++i)
    if (output.strides[i] == 0 && output.shape[i] > 1)
      return fail(describeWritten(info) + " to have an element of its own "
                                          "at each position",
                  "stride 0 in dimension " + std::to_string(i));
  Overlap overlap = findSelfOverlap(output);
  if (overlap == Overlap::No)
    return success();
  return fail(
      describeWritten(info) + " to have an element of its own at each position",
      "strides " + printSizes(output.strides) + " for shape " +
          printSizes(output.shape) +
          (overlap == Overlap::Yes ? ", by which some overlap"
                                   : ", from which it takes too long to tell"));
}

static bool isEmpty(const Sizes &shape) {
  return std::find(shape.begin(), shape.end(), 0) != shape.end();
}

namespace {
/// The bytes from the first to the last of a tensor that checkTensor has taken,
/// which fit in 64 bits.
struct Extent {
  explicit Extent(const TensorArg &tensor) : isEmpty(isEmptyTensor(tensor)) {
    if (isEmpty) // of which strides are anything
      return;
    first = last = reinterpret_cast<intptr_t>(tensor.data);
    auto bytes = int64_t(support::sizeOf(tensor.dtype));
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      int64_t reach = tensor.shape[i] > 1
                          ? (tensor.shape[i] - 1) * tensor.strides[i] * bytes
                          : 0;
      (reach < 0 ? first : last) += reach;
    }
    last += bytes - 1;
  }
  bool isApartFrom(const Extent &other) const {
    return isEmpty || other.isEmpty || last < other.first || other.last < first;
  }

  int64_t first = 0, last = 0;
  bool isEmpty;
};
} // namespace

/// Checks the inputs that are written against those that lie apart from them.
/// Others may share their memory: they are read later.
static Status checkWritten(const EntryInfo &entry, TensorArgs inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ArgInfo &info = entry.args[i];
    if (!info.isWritten)
      continue;
    if (Status ok = checkOutput(info, inputs[i]); !ok)
      return ok;
    Extent extent(inputs[i]);
    for (size_t j = 0; j < inputs.size(); ++j) {
      const ArgInfo &other = entry.args[j];
      bool counts = other.isApart || (other.isWritten && j < i);
      if (counts && !extent.isApartFrom(Extent(inputs[j])) &&
          findOverlap(inputs[i], inputs[j]) != Overlap::No)
        return explainOverlap(info, inputs[i], other, inputs[j]);
    }
  }
  return success();
}

/// Checks that inputs which are columns of others are in their memory.
static Status checkColumns(const EntryInfo &entry, TensorArgs inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ArgInfo &info = entry.args[i];
    if (info.columnsOf < 0 || size_t(info.columnsOf) >= inputs.size())
      continue;
    const TensorArg &part = inputs[i], &whole = inputs[info.columnsOf];
    bool isSame = part.shape.size() == whole.shape.size() &&
                  (part.data == whole.data || isEmptyTensor(part));
    for (size_t d = 0; isSame && d < part.shape.size(); ++d)
      isSame = d + 1 == part.shape.size()
                   ? part.shape[d] <= whole.shape[d]
                   : part.shape[d] <= 1 || part.strides[d] == whole.strides[d];
    if (!isSame)
      return fail(quote(info) + " to be the first columns of " +
                      quote(entry.args[info.columnsOf]) +
                      ", in its memory and with its strides",
                  "other memory");
  }
  return success();
}

/// Checks all that compiled code trusts.
static Status checkCall(const CompiledKernel &kernel, size_t entryIndex,
                        TensorArgs inputs, TensorArgs outputs, bool readable) {
  if (entryIndex >= kernel.entries.size())
    return fail("an entry below " + std::to_string(kernel.entries.size()),
                std::to_string(entryIndex));
  if (entryIndex >= kernel.code.size() || !kernel.code[entryIndex])
    return fail("a kernel compiled to the end for this machine",
                "one that stopped before");
  const EntryInfo &entry = kernel.entries[entryIndex];
  SeenSizes seen;
  if (Status ok = checkAllInputs(entry, inputs, seen, readable); !ok)
    return ok;
  if (Status ok = checkWritten(entry, inputs); !ok)
    return ok;
  if (Status ok = checkColumns(entry, inputs); !ok)
    return ok;
  if (Status ok = addLargest(entry, seen); !ok)
    return ok;
  size_t numInputs = inputs.size();
  if (outputs.size() != entry.args.size() - numInputs)
    return fail(std::to_string(entry.args.size() - numInputs) + " outputs (" +
                    listNames(entry, true) + ")",
                std::to_string(outputs.size()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ArgInfo &info = entry.args[numInputs + i];
    if (Status ok = checkTensor(info, outputs[i], seen); !ok)
      return ok;
    if (Status ok = checkOutput(info, outputs[i]); !ok)
      return ok;
    Extent extent(outputs[i]);
    auto check = [&](const TensorArg &other, size_t number) {
      return extent.isApartFrom(Extent(other)) ||
                     findOverlap(outputs[i], other) == Overlap::No
                 ? success()
                 : explainOverlap(info, outputs[i], entry.args[number], other);
    };
    for (size_t j = 0; j < numInputs; ++j)
      if (Status ok = check(inputs[j], j); !ok)
        return ok;
    for (size_t j = 0; j < i; ++j)
      if (Status ok = check(outputs[j], numInputs + j); !ok)
        return ok;
  }
  return success();
}

/// Zeros that stand for an empty tensor. Indices that a region computes are
/// clamped to the tensor, and this one has nothing to clamp to. Elements alone
/// are read of it where there are no pairs, and these are all the first one: of
/// long rows there are no more.
static size_t bytesOfZeros(const TensorArg &tensor) {
  constexpr int64_t longestRow = 1 << 24;
  return size_t(std::clamp<int64_t>(tensor.shape.back(), 1, longestRow)) *
         support::sizeOf(tensor.dtype);
}

namespace {
/// The records of attn/Runtime/Abi.h: data, sizes, strides.
class Records {
public:
  /// `deviceZeros`: what empty tensors point at; null: zeros of our own.
  Records(const EntryInfo &entry, TensorArgs inputs, TensorArgs outputs,
          void *deviceZeros = nullptr) {
    auto tensorOf = [&](size_t i) -> const TensorArg & {
      return i < inputs.size() ? inputs[i] : outputs[i - inputs.size()];
    };
    size_t words = 0;
    for (size_t i = 0; i < entry.args.size(); ++i)
      words += 1 + 2 * tensorOf(i).shape.size();
    // Pointers to records are handed out as they are made.
    records.reserve(words);
    args.reserve(entry.args.size());
    for (size_t i = 0; i < entry.args.size(); ++i) {
      const TensorArg &tensor = tensorOf(i);
      if (entry.args[i].isScalar) {
        args.push_back(tensor.data);
        continue;
      }
      void *data = tensor.data;
      if (i < inputs.size() && isEmpty(tensor.shape))
        data = deviceZeros ? deviceZeros
                           : zeros.emplace_back(bytesOfZeros(tensor)).data();
      args.push_back(records.end());
      records.push_back(reinterpret_cast<int64_t>(data));
      for (int64_t size : tensor.shape)
        records.push_back(size);
      for (int64_t stride : tensor.strides)
        records.push_back(data == tensor.data ? stride : 0);
    }
  }

  /// Where the elements of an argument's tensor are.
  void *dataOf(size_t i) const {
    return reinterpret_cast<void *>(*static_cast<const int64_t *>(args[i]));
  }

  InlineVector<void *, 24> args;

private:
  InlineVector<int64_t, 160> records;
  std::vector<std::vector<char>> zeros;
};
} // namespace

/// The memory of all tensors, outputs first.
static std::vector<emulator::Buffer> makeBuffers(const EntryInfo &entry,
                                                 TensorArgs inputs,
                                                 TensorArgs outputs,
                                                 const Records &records) {
  std::vector<emulator::Buffer> buffers;
  auto add = [&](size_t i, const TensorArg &tensor, bool isOutput) {
    const ArgInfo &info = entry.args[i];
    if (info.isScalar)
      return;
    auto bytes = int64_t(support::sizeOf(tensor.dtype));
    int64_t low = 0, high = bytes;
    for (size_t d = 0; d < tensor.shape.size(); ++d) {
      int64_t reach = (tensor.shape[d] - 1) * tensor.strides[d] * bytes;
      (reach < 0 ? low : high) +=
          std::max<int64_t>(tensor.shape[d], 1) > 1 ? reach : 0;
    }
    auto *data = static_cast<char *>(records.dataOf(i));
    if (isEmpty(tensor.shape)) {
      low = 0;
      high = int64_t(bytesOfZeros(tensor));
      if (isOutput)
        return;
    }
    buffers.push_back(
        {data + low, size_t(high - low), info.name, isOutput, info.isWritten});
  };
  for (size_t i = 0; i < outputs.size(); ++i)
    add(inputs.size() + i, outputs[i], true);
  // What is written comes first: others may be in its memory.
  for (bool isWritten : {true, false})
    for (size_t i = 0; i < inputs.size(); ++i)
      if (entry.args[i].isWritten == isWritten)
        add(i, inputs[i], false);
  return buffers;
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

Status attn::invoke(const CompiledKernel &kernel, size_t entryIndex,
                    TensorArgs inputs, TensorArgs outputs,
                    const AttnRuntime &runtime, std::string *counters) {
  if (kernel.device)
    return fail("a kernel for the CPU", "one for '" + kernel.target + "'");
  Status checked = checkCall(kernel, entryIndex, inputs, outputs,
                             !kernel.emulated || emulator::readsIndices());
  if (!checked)
    return checked;
  const EntryInfo &entry = kernel.entries[entryIndex];
  Records records(entry, inputs, outputs);
  if (kernel.emulated) {
    auto schedules = emulator::readSchedules();
    if (!schedules)
      return schedules.takeFailure();
    return emulator::run(
        *kernel.emulated, kernel.code[entryIndex], records.args.data(),
        makeBuffers(entry, inputs, outputs, records), *schedules,
        /*observer=*/nullptr, counters);
  }
  int32_t status = kernel.code[entryIndex](records.args.data(), &runtime);
  if (status & ATTN_RUNTIME_STOPPED)
    return Failure{"interrupted: the run was stopped on request, and its "
                   "outputs hold anything"};
  if (status != ATTN_RUNTIME_OK)
    return Failure{"out of memory: the kernel's workspace or scratch could "
                   "not be allocated"};
  return success();
}

/// Finds the one device that all tensors are on; -1 where none has memory.
static Result<int> findDevice(const EntryInfo &entry, TensorArgs inputs,
                              TensorArgs outputs,
                              std::optional<int> firstDevice) {
  int device = -1;
  std::string first;
  for (size_t i = 0; i < entry.args.size(); ++i) {
    const ArgInfo &info = entry.args[i];
    const TensorArg &tensor =
        i < inputs.size() ? inputs[i] : outputs[i - inputs.size()];
    if (isEmpty(tensor.shape))
      continue;
    auto place = i == 0 && firstDevice ? Result<int>(*firstDevice)
                                       : cuda::deviceOf(tensor.data);
    if (!place)
      return place.takeFailure();
    auto nameOf = [](int device) {
      return device < 0 ? std::string("the host")
                        : "GPU " + std::to_string(device);
    };
    if (info.isScalar ? *place >= 0 : *place < 0)
      return fail(quote(info) + " in memory of " +
                      (info.isScalar ? "the host" : "the GPU"),
                  "memory of " + nameOf(*place));
    if (info.isScalar)
      continue;
    if (device >= 0 && *place != device)
      return fail(quote(info) + " on " + nameOf(device) + ", where '" + first +
                      "' is",
                  nameOf(*place));
    if (device < 0)
      first = info.name;
    device = *place;
  }
  return device;
}

Status attn::invokeOnDevice(const CompiledKernel &kernel, size_t entryIndex,
                            TensorArgs inputs, TensorArgs outputs, void *stream,
                            std::optional<int> firstDevice,
                            cuda::LaunchRecord *record) {
  if (!kernel.device)
    return fail("a kernel for a GPU", "one for '" + kernel.target + "'");
  Status checked =
      checkCall(kernel, entryIndex, inputs, outputs, /*readable=*/false);
  if (!checked)
    return checked;
  const EntryInfo &entry = kernel.entries[entryIndex];
  auto device = findDevice(entry, inputs, outputs, firstDevice);
  if (!device)
    return device.takeFailure();
  void *zeros = nullptr;
  for (const TensorArg &input : inputs)
    if (isEmpty(input.shape) && !zeros) {
      auto memory = cuda::getZeros(*device);
      if (!memory)
        return memory.takeFailure();
      zeros = *memory;
    }
  Records records(entry, inputs, outputs, zeros);
  return cuda::run(*kernel.program, kernel.code[entryIndex],
                   records.args.data(), {*device, stream}, record);
}

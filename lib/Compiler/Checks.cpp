//===- Checks.cpp - Inputs of a call beside an entry ----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Checks.h"

#include <algorithm>
#include <optional>
#include <sstream>

using namespace ::attn;
using namespace ::attn::checks;
using namespace ::attn::support;

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

std::string checks::printSizes(const Sizes &sizes) {
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

std::string checks::listNames(const EntryInfo &entry, bool outputs) {
  std::string text;
  for (const ArgInfo &arg : entry.args)
    if (arg.isOutput == outputs)
      text += (text.empty() ? "" : ", ") + arg.name;
  return text.empty() ? "none" : text;
}

Failure checks::fail(const std::string &expected, const std::string &got) {
  return Failure{"expected " + expected + ", but got " + got};
}

std::string checks::quote(const ArgInfo &arg) { return "'" + arg.name + "'"; }

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

Status checks::checkTensor(const ArgInfo &info, const TensorArg &tensor,
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

/// What ArgInfo::atLeast says of elements of an argument: "longest(OFFSETS)"
/// and the like. Nothing where the host cannot read them.
static std::optional<int64_t>
sizeByElements(const std::string &rule, const EntryInfo &entry,
               TensorArgs inputs, const SeenSizes &seen, bool readable) {
  size_t open = rule.find('('), close = rule.find(')');
  if (open > close || close == std::string::npos)
    return std::nullopt;
  std::string how = rule.substr(0, open), more = rule.substr(close + 1);
  std::string from = rule.substr(open + 1, close - open - 1);
  const TensorArg *tensor = nullptr;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (entry.args[i].name == from)
      tensor = &inputs[i];
  if (!tensor || tensor->shape.size() != 1)
    return std::nullopt;
  if (how == "sequences")
    return std::max<int64_t>(tensor->shape[0] - 1, 0);
  if (!readable)
    return std::nullopt;
  int64_t size = 0, previous = 0;
  for (int64_t i = 0; i < tensor->shape[0]; ++i) {
    auto value = int64_t(
        loadElement(tensor->data, tensor->dtype, i * tensor->strides[0]));
    size = std::max(size, how == "longest" ? value - previous : value);
    previous = value;
  }
  const Seen *added = more.empty() ? nullptr : seen.find(more.substr(1));
  return added ? size + added->size : size;
}

/// Captures that regions index by position hold an element for each; those that
/// they index in another way, one where there is a pair to index for.
static Status checkCaptures(const EntryInfo &entry, const ArgInfo &info,
                            const TensorArg &tensor, TensorArgs inputs,
                            const SeenSizes &seen, bool hasPairs,
                            bool readable) {
  for (size_t i = 0; i < info.atLeast.size() && i < tensor.shape.size(); ++i) {
    std::istringstream names(info.atLeast[i]);
    for (std::string name; names >> name;) {
      bool isByElements = name.find('(') != std::string::npos;
      std::optional<int64_t> bound =
          isByElements  ? sizeByElements(name, entry, inputs, seen, readable)
          : name == "1" ? std::optional<int64_t>()
                        : sizeOf(name, seen);
      // What has no size that is known is clamped to the capture.
      if (!bound && (isByElements || name == "1") && hasPairs &&
          tensor.shape[i] == 0)
        return fail(quote(info) + " to have an element or more in dimension " +
                        std::to_string(i) + ", which regions index",
                    "shape " + printSizes(tensor.shape));
      if (bound && tensor.shape[i] < *bound)
        return fail(quote(info) + " to have a size of at least " + name +
                        " = " + std::to_string(*bound) + " in dimension " +
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

bool checks::isEmptyTensor(const TensorArg &tensor) {
  for (int64_t size : tensor.shape)
    if (size == 0)
      return true;
  return false;
}

Status checks::addLargest(const EntryInfo &entry, SeenSizes &seen) {
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

Status checks::checkAllInputs(const EntryInfo &entry, TensorArgs inputs,
                              SeenSizes &seen, bool readable) {
  if (inputs.size() != entry.numInputs())
    return fail(std::to_string(entry.numInputs()) + " inputs (" +
                    listNames(entry, false) + ")",
                std::to_string(inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i)
    if (Status ok = checkTensor(entry.args[i], inputs[i], seen); !ok)
      return ok;
  // Offsets are one more than sequences.
  for (const Seen &one : seen.get()) {
    size_t plus = one.dim->rfind("+1");
    bool isOneMore = plus != std::string::npos && plus + 2 == one.dim->size();
    const Seen *count =
        isOneMore ? seen.find(one.dim->substr(0, plus)) : nullptr;
    if (count && one.size != count->size + 1)
      return fail(
          "'" + *one.arg + "' to have " + std::to_string(count->size + 1) +
              " offsets, one more than " + *count->dim + " = " +
              std::to_string(count->size) + " as in '" + *count->arg + "'",
          std::to_string(one.size));
  }
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
    if (Status ok = checkCaptures(entry, entry.args[i], inputs[i], inputs, seen,
                                  hasPairs, readable);
        !ok)
      return ok;
  return success();
}

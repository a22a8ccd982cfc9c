//===- States.cpp - Results over parts of the keys, merged ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The product of states is attn.combine, of a monoid whose states are what
// attention returns: the LSE of a part and the mean of its values. Beside the
// LSE of the part with the largest one, m, the statistic has the logarithm z of
// the sum of all exponentials relative to it. That is 0 of a single part, and
// small always, so that LSEs are not rounded again with each part.
//===----------------------------------------------------------------------===//

#include "attn-c/States.h"
#include "Handles.h"
#include "attn/Runtime/Cuda.h"

using namespace ::attn;
using support::DType;

static constexpr char monoidText[] = R"mlir(
attn.monoid private @states cocycle stats(f32, f32) components(value)
    outputs("o", "lse") {
  identity {
    %ninf = arith.constant 0xFF800000 : f32
    %zero = arith.constant 0.0 : f32
    attn.yield %ninf, %zero : f32, f32
  }
  combine {
  ^bb0(%m1: f32, %z1: f32, %m2: f32, %z2: f32):
    %ninf = arith.constant 0xFF800000 : f32
    %m = arith.maximumf %m1, %m2 : f32
    %d1 = arith.subf %m1, %m : f32
    %d2 = arith.subf %m2, %m : f32
    %x1 = arith.addf %d1, %z1 : f32
    %x2 = arith.addf %d2, %z2 : f32
    %e1 = math.exp %x1 : f32
    %e2 = math.exp %x2 : f32
    %sum = arith.addf %e1, %e2 : f32
    %log = math.log %sum : f32
    %none1 = arith.cmpf oeq, %m1, %ninf : f32
    %none2 = arith.cmpf oeq, %m2, %ninf : f32
    %right = arith.select %none2, %z1, %log : f32
    %z = arith.select %none1, %z2, %right : f32
    attn.yield %m, %z : f32, f32
  }
  rescale {
  ^bb0(%m1: f32, %z1: f32, %m: f32, %z: f32):
    %d = arith.subf %m1, %m : f32
    %r = math.exp %d : f32
    attn.yield %r : f32
  }
  lift {
  ^bb0(%s: f32):
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    attn.yield %s, %zero, %one : f32, f32, f32
  }
  finalize {
  ^bb0(%m: f32, %z: f32, %acc: f32):
    %ninf = arith.constant 0xFF800000 : f32
    %zero = arith.constant 0.0 : f32
    %neg = arith.subf %zero, %z : f32
    %factor = math.exp %neg : f32
    %mean = arith.mulf %acc, %factor : f32
    %none = arith.cmpf oeq, %m, %ninf : f32
    %o = arith.select %none, %zero, %mean : f32
    %lse = arith.addf %m, %z : f32
    attn.yield %o, %lse : f32, f32
  }
}
)mlir";

/// A function of `lse`, zeros of its shape, and `o`.
static std::string makeText(DType dtype, size_t rank, int64_t channels) {
  std::string rows, type = support::nameOf(dtype);
  for (size_t i = 0; i < rank; ++i)
    rows += "?x";
  std::string width = std::to_string(channels) + "x";
  std::string part = "tensor<?x" + rows + "f32>",
              row = "tensor<" + rows + "f32>",
              parts = "tensor<?x" + rows + width + type + ">",
              sums = "tensor<" + rows + width + "f32>",
              means = "tensor<" + rows + width + type + ">";
  return std::string(monoidText) + "func.func @merge_states(%lse: " + part +
         ", %zeros: " + part + ", %o: " + parts + ") -> (" + means + ", " +
         row + ") {\n  %c:3 = attn.combine @states(%lse, %zeros, %o : " + part +
         ", " + part + ", " + parts + ") -> " + row + ", " + row + ", " + sums +
         "\n  %r:2 = attn.finalize @states(%c#0, %c#1, %c#2 : " + row + ", " +
         row + ", " + sums + ") -> " + means + ", " + row +
         "\n  return %r#0, %r#1 : " + means + ", " + row + "\n}\n";
}

static AttnError *checkShape(const char *name, const TensorArg &tensor,
                             const TensorArg &like, size_t skipped) {
  auto print = [](const support::Sizes &sizes, size_t from) {
    std::string text;
    for (size_t i = from; i < sizes.size(); ++i)
      text += (text.empty() ? "" : ", ") + std::to_string(sizes[i]);
    return "[" + text + "]";
  };
  bool isEqual = tensor.shape.size() + skipped == like.shape.size() &&
                 std::equal(tensor.shape.begin(), tensor.shape.end(),
                            like.shape.begin() + skipped);
  return isEqual ? nullptr
                 : makeError(std::string("expected ") + name + " of shape " +
                             print(like.shape, skipped) + ", but got " +
                             print(tensor.shape, 0));
}

/// `given`: o, lse, and both merged.
static AttnError *checkStates(const TensorList &given) {
  const TensorArg &o = given[0], &lse = given[1];
  bool isFloat =
      o.dtype == DType::f32 || o.dtype == DType::f16 || o.dtype == DType::bf16;
  if (!isFloat || lse.dtype != DType::f32)
    return makeError(
        std::string("expected o of type f32, f16 or bf16, and lse of f32, but "
                    "got ") +
        support::nameOf(o.dtype) + " and " + support::nameOf(lse.dtype));
  size_t rank = lse.shape.size();
  if ((rank != 3 && rank != 4) || o.shape.size() != rank + 1)
    return makeError("expected lse [parts, b, h, s] and o [parts, b, h, s, "
                     "dv], or both without b, but got " +
                     std::to_string(rank) + " and " +
                     std::to_string(o.shape.size()) + " dimensions");
  if (lse.shape[0] < 1)
    return makeError("expected one part or more, but got " +
                     std::to_string(lse.shape[0]));
  if (o.shape[rank] < 1)
    return makeError("expected one channel of o or more, but got " +
                     std::to_string(o.shape[rank]));
  TensorArg rows = o;
  rows.shape.assign(o.shape.begin(), o.shape.begin() + rank);
  if (AttnError *error = checkShape("lse", lse, rows, 0))
    return error;
  if (AttnError *error = checkShape("the merged o", given[2], o, 1))
    return error;
  return checkShape("the merged lse", given[3], lse, 1);
}

/// Some rows of a tensor, as the C ABI has them.
namespace {
struct RowRange {
  RowRange(const TensorArg &all, const AttnTensor &given, size_t dim,
           int64_t first, int64_t count)
      : tensor(given) {
    std::copy(all.shape.begin(), all.shape.end(), shape);
    std::copy(all.strides.begin(), all.strides.end(), strides);
    shape[dim] = count;
    if (all.data)
      tensor.data = static_cast<char *>(all.data) +
                    first * strides[dim] * int64_t(support::sizeOf(all.dtype));
    tensor.shape = shape;
    tensor.strides = strides;
  }
  RowRange(const RowRange &) = delete;

  int64_t shape[support::Sizes::maxRank], strides[support::Sizes::maxRank];
  AttnTensor tensor;
};
} // namespace

AttnError *attnMergeStates(AttnContext *context, const AttnTensor *o,
                           const AttnTensor *lse, const AttnTensor *mergedO,
                           const AttnTensor *mergedLse,
                           const AttnRunOptions *options) {
  if (!context || !o || !lse || !mergedO || !mergedLse)
    return makeError("expected a context and tensors, but got null");
  AttnRunOptions how;
  if (AttnError *error = readStruct(options, "AttnRunOptions", how))
    return error;
  if (AttnError *error = checkPlace(how.place))
    return error;
  TensorList given;
  for (const AttnTensor *tensor : {o, lse, mergedO, mergedLse})
    if (AttnError *error = convert(tensor, 1, given))
      return error;
  if (AttnError *error = checkStates(given))
    return error;
  size_t rank = given[1].shape.size() - 1;
  std::string text = makeText(given[0].dtype, rank, given[0].shape[rank + 1]);
  AttnCompileOptions compileOptions = {};
  compileOptions.structSize = sizeof(compileOptions);
  compileOptions.sourceName = "merge_states";
  // Zeros for as many rows at a time as there are.
  static const float hostZeros[4096] = {};
  const void *zeros = hostZeros;
  int64_t numZeros = int64_t(std::size(hostZeros));
  if (how.place == ATTN_PLACE_GPU) {
    compileOptions.target = "cuda";
    auto device = cuda::deviceOf(given[0].data);
    auto found = cuda::getZeros(device ? *device : -1);
    if (!found)
      return makeError(found.error());
    zeros = *found;
    numZeros = cuda::zeroBytes / int64_t(sizeof(float));
  }
  AttnKernel *kernel = nullptr;
  if (AttnError *error = attnCompile(context, text.data(), text.size(),
                                     &compileOptions, &kernel))
    return error;
  int64_t rows = given[1].shape[rank];
  AttnError *error = nullptr;
  for (int64_t first = 0; !error && (first == 0 || first < rows);
       first += numZeros) {
    int64_t count = std::min(rows - first, numZeros);
    RowRange values(given[0], *o, rank, first, count);
    RowRange stats(given[1], *lse, rank, first, count);
    RowRange nothing(given[1], *lse, rank, 0, count);
    nothing.tensor.data = const_cast<void *>(zeros);
    std::fill_n(nothing.strides, rank, 0);
    RowRange resultO(given[2], *mergedO, rank - 1, first, count);
    RowRange resultLse(given[3], *mergedLse, rank - 1, first, count);
    AttnTensor inputs[] = {stats.tensor, nothing.tensor, values.tensor};
    AttnTensor outputs[] = {resultO.tensor, resultLse.tensor};
    error = attnKernelRunOn(kernel, 0, inputs, 3, outputs, 2, options);
  }
  attnKernelDestroy(kernel);
  return error;
}

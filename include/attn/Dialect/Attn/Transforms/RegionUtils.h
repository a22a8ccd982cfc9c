//===- RegionUtils.h - Copying values out of regions ------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Regions of monoids and reductions are single blocks of pure operations.
// Passes copy what a yielded value needs, and nothing else, to where they
// build code: a slice at a time, so that nothing dead is ever emitted.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_TRANSFORMS_REGIONUTILS_H
#define ATTN_DIALECT_ATTN_TRANSFORMS_REGIONUTILS_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::attn {

class MonoidOp;

/// Copies single values of a region, with the operations they depend on.
class RegionCloner {
public:
  /// Builds the copy of an op other than by cloning; returns null to clone.
  using Hook = function_ref<Value(Operation *, RegionCloner &)>;

  RegionCloner(OpBuilder &builder, Hook hook = nullptr)
      : builder(builder), hook(hook) {}

  void map(Value from, Value to) { mapping.map(from, to); }
  void map(ValueRange from, ValueRange to) { mapping.map(from, to); }
  /// The copy of `value`, built on first use. Values from outside of any
  /// region under copy stand for themselves, except constants, which are
  /// copied: later folding must not turn them into captures.
  Value get(Value value);
  OpBuilder &getBuilder() { return builder; }

private:
  OpBuilder &builder;
  Hook hook;
  IRMapping mapping;
};

/// Gives `op` of a region the result that docs/Semantics.md (Regions) defines
/// where MLIR has none and a processor may stop the process: quotients and
/// remainders by 0 and -1, shifts by the width and more, floats that an integer
/// cannot hold, and what nsw, nuw or exact promised. Constants that need
/// nothing cost nothing.
void defineIntegers(Operation *op);

/// The operands of the terminator of `region`.
ValueRange getYielded(Region &region);

/// Copies all yielded values of `region` with `arguments` for its arguments.
SmallVector<Value> inlineRegion(OpBuilder &builder, Region &region,
                                ValueRange arguments,
                                RegionCloner::Hook hook = nullptr);

/// Puts what `shift` makes of the unit components of `monoid` in their place,
/// where it has that region.
void inlineShift(OpBuilder &builder, MonoidOp monoid, ValueRange from,
                 ValueRange to, ValueRange params,
                 MutableArrayRef<Value> components);

/// True when `value` is computed from `argument` (a block argument of its
/// region), or is it.
bool dependsOn(Value value, Value argument);

/// Whether `mask` (b, h, i, j, captures) leaves a row the key of its own number
/// alone, so that memory bounds the reduction.
bool isDiagonal(Region &mask);
/// Keys of a block whose diagonals `op`, of attn.scores, adds up; or 0.
int64_t diagonalsOf(Operation *op);

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_TRANSFORMS_REGIONUTILS_H

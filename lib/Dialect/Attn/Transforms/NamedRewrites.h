//===- NamedRewrites.h - What attn-tile carries out -------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to the passes over reductions. A named rewrite is decided by a pass
// of that name, which leaves an attribute on the reduction; attn-tile does what
// the attribute says, and refuses one that does not hold. What both need is
// here: why a rewrite does not apply, and the values that a kernel needs for
// it, built from the score region by functions that know nothing of kernels.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_NAMEDREWRITES_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_NAMEDREWRITES_H

#include "KeyRanges.h"
#include "attn/Analysis/MaskAnalysis.h"
#include "attn/Dialect/Attn/IR/Attn.h"
#include "attn/Target/TargetInfo.h"
#include "llvm/ADT/DenseSet.h"

namespace mlir::attn {

/// Builds a value of a region that is the same for all pairs of a kernel's
/// block.
using UniformFn = function_ref<Value(Value)>;

/// Values of `region` that differ between the pairs of a block. Its arguments
/// are `firstPosition` scores or states, then b, h, i and, with `hasKey`, j.
llvm::DenseSet<Value> findVarying(Region &region, unsigned firstPosition,
                                  bool hasKey, bool headVaries);

//===----------------------------------------------------------------------===//
// Types of products
//===----------------------------------------------------------------------===//

/// The 16-bit types that dots and sums of values are multiplied in, null for
/// f32; and whether f32 is rounded to tf32 for them.
struct ProductTypes {
  Type dots, values;
  bool tf32 = false;
};
ProductTypes findProductTypes(ReductionOpInterface op, MonoidOp monoid,
                              const ::attn::TargetInfo &target);

/// Whether weights are rounded to 16 bits, and so is all that is made of them;
/// or they are, but not all that is made of them.
enum class WeightRounding { none, all, some };
WeightRounding findWeightRounding(ReductionOpInterface op,
                                  const ProductTypes &types);

//===----------------------------------------------------------------------===//
// Dead scores (GuardDeadScores.cpp)
//===----------------------------------------------------------------------===//

/// Whether scores may be -inf whatever the dots are, as a bias of -inf makes
/// them.
bool killsByScore(ReductionOpInterface op);
/// The same of a reduction whose kernel multiplies such keys' values by 0
/// (TileRepair.cpp).
bool mayKillByScore(ReductionOpInterface op, MonoidOp monoid);
/// Whether a second kernel does those rows again that such values have spoiled:
/// the first one marks them.
bool marksSpoiledRows(ReductionOpInterface op, MonoidOp monoid);
/// Keeps a dot that is NaN out of such scores: s + b is b where b is -inf. Or,
/// where a mark shows the NaN, leaves it to the second kernel. Returns whether
/// the region has changed; a second time it does not.
bool guardDeadScores(ReductionOpInterface op, MonoidOp monoid);
/// Lets the mask of the reduction say which keys scores kill.
void moveDeadScoresToMask(ReductionOpInterface op);

/// Drops the tests that make s + b -inf where b is, whatever s: a NaN shows
/// there then, unless the mask has the pair dead. Returns whether there was
/// one.
bool dropDeadTests(ReductionOpInterface op);

//===----------------------------------------------------------------------===//
// The online form (OnlineForm.cpp)
//===----------------------------------------------------------------------===//

/// Why weights are not held as powers of 2; empty where they can be.
StringRef whyNotOnline(ReductionOpInterface op, MonoidOp monoid);
/// Whether attn-online-form has said that they are.
bool isOnline(ReductionOpInterface op);
/// Whether the exponent is one multiply-add for each element.
bool fusesExponent(ReductionOpInterface op);
/// Whether the score of a reduction is its dot.
bool scoreIsDot(ReductionOpInterface op);

//===----------------------------------------------------------------------===//
// The unit of the maximum (FoldScale.cpp)
//===----------------------------------------------------------------------===//

/// A score that is `factor` times `x`; `constant` where the factor is one.
struct ScaledScore {
  Value x, factor;
  bool isDot = false;
  std::optional<float> constant;
};
/// Finds it, or says why the maximum stays in units of the score. `varies`:
/// values of the score region that are not the same for all pairs.
std::optional<ScaledScore> findScaledScore(ReductionOpInterface op,
                                           MonoidOp monoid,
                                           const ::attn::TargetInfo &target,
                                           const llvm::DenseSet<Value> &varies,
                                           StringRef &whyNot);

/// Why nothing is folded in a kernel whose heads have tiles of their own; empty
/// where it is. Where heads are packed, factors of a head stay.
StringRef whyNotScaled(ReductionOpInterface op, MonoidOp monoid,
                       const ::attn::TargetInfo &target);

/// What a kernel needs of it; all null where nothing is folded.
struct ScoreUnit {
  /// The score is x times `unit` > 0, and the statistic, a maximum, is held in
  /// units of x. `scaleLog2` = unit * base; `queryFactor`: what the queries
  /// take of a run-time factor: its sign, or all of it where it is no unit.
  Value unit, scaleLog2, queryFactor;
  /// Where x is no dot: x, and the sign of the factor.
  Value inUnits, sign;
};
ScoreUnit emitScoreUnit(OpBuilder &b, Location loc, const ScaledScore &score,
                        float base, UniformFn uniform);

//===----------------------------------------------------------------------===//
// Bias that grows evenly (FoldLinearBias.cpp)
//===----------------------------------------------------------------------===//

/// Whether scores are the dot, or a multiple, and what grows evenly with the
/// distance from row to key.
bool growsEvenly(ReductionOpInterface op);

/// Why no tile is linear; empty where whole ones are.
StringRef whyNotLinear(ReductionOpInterface op, MonoidOp monoid,
                       const ::attn::TargetInfo &target);

/// Values of a score region that are the same for all pairs whose row is so far
/// behind the key (row - key), or ahead of it (key - row); null where there is
/// no such distance. Where the region does not tell, but values differ by the
/// distance alone, a kernel finds out (`isMeasured`).
struct FarTerms {
  SmallVector<Value> values;
  std::optional<int64_t> behind = 0, ahead = 0;
  bool isMeasured = false;
};
/// Those of a reduction with `linear_bias`.
FarTerms findFarTerms(ReductionOpInterface op);

/// Scores that grow evenly from key to key, as a kernel needs them.
struct LinearBias {
  bool applies = false;
  /// The dot's factor, times the base of the exponential.
  Value scaleLog2;
  /// Ramps of tiles left and right of the distance's zero, null for 0.
  Value left, right;
  /// Run-time values allow it.
  Value fits;
  /// The size of a distance is taken; it is positive for the first keys.
  bool hasSides = false, positiveFirst = false;
  std::unique_ptr<Region> region; // distance >= 0
  /// Whole tiles are linear where these are far; there is no ramp then. The
  /// distances as they are when it runs, i32; null for none.
  FarTerms far;
  Value farBehind, farAhead;
  std::unique_ptr<::attn::MaskAnalysis> distance;

  /// What the product of a tile adds from key to key.
  Value ramp(OpBuilder &b, Location loc, Value isLeft) const;
};
LinearBias emitLinearBias(OpBuilder &b, Location loc, ReductionOpInterface op,
                          float base, const llvm::DenseSet<Value> &varies,
                          UniformFn uniform);
/// Which full tiles are linear: on either side of where the distance is 0.
LinearRange emitLinearRange(OpBuilder &b, Location loc, const LinearBias &bias,
                            ::attn::MaskAnalysis::UniformFn uniform,
                            Value firstRow, Value lastRow, Value numKeys);

//===----------------------------------------------------------------------===//
// Heads of a key head in one tile (PackHeads.cpp)
//===----------------------------------------------------------------------===//

/// What keeps the heads of a reduction from being packed, or nothing.
std::string whyNotPacked(ReductionOpInterface op);

//===----------------------------------------------------------------------===//
// Lists of key tiles (ListKeyTiles.cpp)
//===----------------------------------------------------------------------===//

/// Whether the mask reads a tensor with an element for each pair of a row and a
/// key.
bool readsPairs(ReductionOpInterface op);
/// Whether an element of the mask costs more than a bit that a kernel before
/// has made of it: bits are few beside a tensor of pairs, and masks of another
/// kind have them where a run has room.
bool paysBits(ReductionOpInterface op);
/// The same of scores, as of a bias.
bool scoresReadPairs(ReductionOpInterface op);

/// Why a kernel before the reduction lists no key tiles, whatever its schedule
/// is; empty where one may: a GPU's warpgroups visit whole tiles alone, and of
/// this mask the bounds of the keys do not say which those are.
StringRef whyNotListed(ReductionOpInterface op, MonoidOp monoid,
                       const ::attn::TargetInfo &target);
/// The same in one of the forms of `listed_keys`, with its schedule.
StringRef whyNotListedAs(ReductionOpInterface op, ListForm form,
                         MonoidOp monoid, const ::attn::TargetInfo &target);
/// Whether lists, if there are any, have bits.
bool mayListBits(ReductionOpInterface op, const ::attn::TargetInfo &target);
/// Whether attn-list-key-tiles has said that they do.
bool listsBits(ReductionOpInterface op);
/// Whether one kernel says what the key tiles are and lists them. A mask that
/// reads memory for each key, or for its rows in one comparison, leaves few of
/// them to a look at their elements, so that a block has a query tile's: more
/// kernels, with more blocks, cost more than they gain (measured:
/// docs/performance). Not so one that compares coordinates.
bool listsAtOnce(ReductionOpInterface op);
/// Whether the listed keys start and end with the row, so that all rows have
/// about as many, and most of them in common with the rows beside.
bool listsBand(ReductionOpInterface op);
/// Of which heads lists of key tiles say in which order query tiles come: of
/// all, of the last ones, which advance together and end the launch, or of
/// none.
enum class ListedOrder { none, lastHeads, allHeads };
/// Whether query tiles whose key tiles are listed take so unlike times that
/// their lists say in which order they come. Those of a band do not, nor those
/// of a mask of keys alone. Where they are listed at once they do for the last
/// heads alone, but in gradients: tiles side by side have their keys in common,
/// and long ones cost most that end the launch. Not where memory is read for
/// rows alone, whose tiles are few (measured: docs/performance).
ListedOrder listsSayOrder(ReductionOpInterface op);
/// The most work tiles of which no kernel says so.
int64_t mostTilesWithoutOrder(ReductionOpInterface op,
                              const ::attn::TargetInfo &target);
/// Whether more heads advance together where key tiles are listed, than where
/// they are not: so do those of unlike times. Not those of a mask that reads
/// memory for its rows and not for its keys, or coordinates, whose tiles are
/// few (measured: docs/performance).
bool listsTakeManyHeads(ReductionOpInterface op);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_NAMEDREWRITES_H

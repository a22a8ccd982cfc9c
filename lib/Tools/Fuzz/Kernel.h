//===- Kernel.h - What is fixed when a kernel is compiled -------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A random kernel: the options of an attention or the regions of an aggregate,
// and its text. Sizes, strides and contents are random for each case
// (Instance.h).
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TOOLS_FUZZ_KERNEL_H
#define ATTN_LIB_TOOLS_FUZZ_KERNEL_H

#include "Expr.h"
#include "attn/Support/Problem.h"

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace attn::fuzz {

using support::Causal;
using support::DType;
using support::Monoid;

enum class Family {
  Options,
  Masks,
  Scores,
  Monoids,
  Own,
  Packed,
  Schedules,
  Precision, // of the others, in f32 that may be rounded to tf32
  Edges,     // see Edges.h
  Paged,     // keys in pages, see Caches.h
  Ring,      // keys in rolling caches
  Dropout,   // of the others, with values dropped
  Scan,      // see Scans.h
  Rotary,    // of the others, with queries and keys that turn
  Pairs      // masks and biases that are tensors of pairs
};
constexpr Family allFamilies[] = {
    Family::Options, Family::Masks,  Family::Scores,    Family::Monoids,
    Family::Own,     Family::Packed, Family::Schedules, Family::Precision,
    Family::Edges,   Family::Paged,  Family::Ring,      Family::Dropout,
    Family::Scan,    Family::Rotary, Family::Pairs};
/// Without --family the first of them take turns. Others were added later: with
/// them, the numbers of cases would mean others than they did.
constexpr uint64_t numMixedFamilies = 8;
const char *nameOf(Family family);

/// What is at the edge in a kernel of the family `edges`.
enum class Edge {
  Bias,    ///< A bias of -1e4 and less for masked keys.
  Fill,    ///< A score function that gives masked keys such a score.
  Padding, ///< Lengths, masks, packed sequences: NaN in all that is dead.
  Layout,  ///< Strides below 0 and of 0.
  Views,   ///< Inputs that share memory, rows that overlap.
  Scale,   ///< Tiny and huge, and NaN where every key is dead.
  Scores,  ///< Dots up to 2^120.
  Sinks    ///< Up to the largest of f32.
};

/// A monoid as the IR names it, and what the oracle knows it by.
struct MonoidInfo {
  const char *name;
  Monoid oracle;
  /// The outputs of `finalize`, in order.
  std::vector<const char *> outputs;
  /// Definition for the module; null for those that ship.
  const char *text = nullptr;
  bool takesSinks = false;
  /// Weights grow with the score without bound.
  bool unbounded = false;
  /// Ties decide: scores have to be exact.
  bool exactScores = false;
  int numValues = 1;
  /// Keys enter the state one by one, or take each other's gates: a GPU's
  /// schedule has rows of warps, and of warpgroups it is refused.
  bool ofWarps = false;
  /// Came after the others, and is drawn apart: what they are drawn for stays.
  bool drawnApart = false;
};
/// The monoids that ship, then those written in this tool alone.
const std::vector<MonoidInfo> &allMonoids();

/// A tensor that broadcasts to [b, hq, sq, sk], matched from the right.
struct BroadcastForm {
  int rank = 0; // 0: absent
  /// Of the trailing `rank` dimensions: static size 1.
  bool one[4] = {false, false, false, false};
  DType dtype = DType::f32;
};

/// An argument of the function, in order.
struct Argument {
  enum Role {
    Q,
    K,
    V,
    Scale,
    Softcap,
    Bias,
    Mask,
    Alibi,
    Sinks,
    Lengths,
    WindowLeft,
    WindowRight,
    CuQ,
    CuK,
    Table,
    Start,
    KeyNew,
    ValueNew,
    DropShare,
    DropWord,
    Cosines,
    Sines,
    Param,
    CapturedValue,
    Output
  } role;
  std::string name, type;
  int index = 0; // of a parameter, capture or output
};

struct Schedule {
  int64_t blockQ, rows, blockK, splits;
  const char *loop;
  std::string overlap = "next_step";
  const char *turns = "none";
  bool packHeads = false;
  int64_t cluster = 1;
  /// Whether keys turn in shared memory (rotate = inside).
  bool turnsInside = false;
  /// How scores come by elements of pairs, or nothing.
  std::string pairs = "";

  /// Splits that the plan counts.
  static constexpr int64_t automatic = 0;

  /// As an attribute.
  std::string print() const;
};

struct ScanKernel;

struct Kernel {
  Family family = Family::Options;
  std::set<Edge> edges;
  const MonoidInfo *monoid = nullptr;
  int64_t dqk = 64, dv = 64;
  DType dtype = DType::f32, outDType = DType::f32;
  /// Products may round f32 to tf32, which GPUs do.
  bool tf32 = false;
  int numOutputs = 1;

  /// Rung 1 text with regions, or rung 0 text with options.
  bool aggregate = false;
  /// attn.partial, attn.combine and attn.finalize in the place of one op.
  int64_t partials = 0;
  /// What the keys of each are a multiple of, or 0.
  int64_t granule = 0;
  bool packed = false;

  /// Keys in pages of so many rows, or 0; whether their type says so.
  int64_t page = 0;
  bool fixedPage = false;
  /// The position of the first key is given; keys are in a cache that is
  /// written round and round.
  bool kStart = false, rolling = false;
  bool batchInvariant = false;
  /// Levels in which sequences share what their tables begin with.
  int cascade = 0;
  /// The last rows of the sequences are appended in the call.
  bool append = false;
  /// Values are dropped.
  bool dropout = false;
  /// How many channels turn, or 0; which are pairs, and what positions are.
  int64_t turned = 0;
  bool interleaved = false, turnsBySlot = false;

  bool scale = false, softcap = false, lengths = false, sinks = false;
  bool windowLeft = false, windowRight = false;
  bool constantWindow = false;
  int64_t constantLeft = 0, constantRight = 0;
  int alibiRank = 0;
  Causal causal = Causal::none;
  BroadcastForm bias, mask;
  ExprPtr maskExpr, scoreExpr, gateExpr;
  std::vector<Capture> captures;
  int numParams = 0;
  std::optional<Schedule> schedule;
  /// Sizes that the types fix; -1 where they are free. b, hq, hk, sq, sk.
  int64_t fixed[5] = {-1, -1, -1, -1, -1};

  /// A scan in the place of all this.
  std::shared_ptr<ScanKernel> scan;

  /// Drawn for a GPU, whose instances differ too.
  bool gpu = false;

  std::vector<Argument> arguments;
  std::string text;

  bool has(Edge edge) const { return edges.count(edge); }
  /// Whether values are as they are in the wild: what is dead is no number,
  /// and scores may be too large for 16 bits.
  bool isWild() const {
    return family == Family::Edges || family == Family::Pairs;
  }
  bool perChannel(int output) const;
};

/// The kernel number `index` of a seed. Those for GPUs have schedules that GPUs
/// run, and more 16-bit types and usual head dimensions.
Kernel makeKernel(uint64_t seed, uint64_t index,
                  std::optional<Family> family = std::nullopt,
                  bool gpu = false);

/// One of the family `pairs`.
Kernel makeOfPairs(uint64_t seed, uint64_t index, bool gpu);
/// One of the family `rotary`.
Kernel makeTurning(uint64_t seed, uint64_t index, bool gpu);
/// How its channels turn, as text.
std::string rotateRegion(const Kernel &kernel);

/// Fills in `arguments` and `text`.
void printKernel(Kernel &kernel);

/// "softmax bf16 d=64/80 causal mask=...": one line for people.
std::string describe(const Kernel &kernel);

} // namespace attn::fuzz

#endif // ATTN_LIB_TOOLS_FUZZ_KERNEL_H

//===- AggregateToScan.cpp - Linear weights need no pairs -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A sum over keys whose weights are linear in the dots,
//
//   sum_j (q . k_j) w_j v_j = q^T (sum_j w_j k_j v_j^T),
//
// is a scan of matrices, where w_j is the product of gates behind key j that do
// not depend on the query. Its time grows with the keys, not with the pairs.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/TargetAttr.h"
#include "attn/Dialect/Attn/IR/Scan.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/Dialect/Attn/Transforms/RegionUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Matchers.h"

namespace attn {
#define GEN_PASS_DEF_ATTNAGGREGATETOSCANPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace mlir::attn;

namespace {

/// Reads a scan off an aggregate, or says why it is none.
class Matcher {
public:
  Matcher(AggregateOp op, MonoidOp monoid) : op(op), monoid(monoid) {}

  /// Empty: it is a scan.
  StringRef why() {
    for (auto test :
         {&Matcher::checkOperands, &Matcher::checkMonoid, &Matcher::checkMask,
          &Matcher::checkScores, &Matcher::checkCost})
      if (StringRef reason = (this->*test)(); !reason.empty())
        return reason;
    return {};
  }

  void rewrite() {
    OpBuilder b(op);
    Location loc = op.getLoc();
    if (constant)
      scale = arith::ConstantOp::create(b, loc, constant);
    auto scan = ScanOp::create(
        b, loc, op->getResultTypes(), op.getQueries().front(),
        op.getKeys().front(), op.getValues().front(), scale, decay,
        /*weight=*/Value(), /*log_weight=*/Value(), /*delta=*/Value(),
        /*erase_a=*/Value(), /*erase_b=*/Value(), /*bonus=*/Value(),
        /*init=*/ValueRange(), /*cu=*/Value(), /*lengths=*/Value(),
        /*pool=*/ValueRange(), /*slot=*/Value(), /*gate_captures=*/ValueRange(),
        /*finalize_captures=*/ValueRange(), /*value_gates=*/false,
        /*erase_before=*/false,
        /*read_before=*/false, /*whole=*/op.getMask().empty(),
        /*normalize=*/false, /*l2norm=*/false, /*final=*/false,
        /*values_first=*/false, queryStates,
        /*chunk=*/IntegerAttr(), /*segments=*/IntegerAttr());
    op->replaceAllUsesWith(scan.getOutputs());
    op.erase();
  }

private:
  static RankedTensorType typeOf(Value value) {
    return cast<RankedTensorType>(value.getType());
  }

  StringRef checkOperands() {
    if (op.getSchedule())
      return "it has a schedule";
    if (op.getSide() != Side::keys || op.getQueries().size() != 1 ||
        op.getValues().size() != 1 || op->getNumResults() != 1)
      return "it has not one dot, one value and one output";
    if (op.getRowBase() || op.getKeyBase() ||
        op.getQuerySource().getForm(op.getContext()) ||
        op.getKeySource().getForm(op.getContext()))
      return "its rows or keys are not those of plain tensors";
    if (!op.getInit().empty())
      return "its rows start from states";
    if (op.getRotary())
      return "it turns channels before its dots";
    if (!op.getFactor().empty())
      return "it has factors of pairs";
    auto q = typeOf(op.getQueries()[0]), k = typeOf(op.getKeys()[0]),
         v = typeOf(op.getValues()[0]);
    if (q.getElementType() != k.getElementType() ||
        q.getElementType() != v.getElementType())
      return "queries, keys and values have different types";
    int64_t sq = q.getDimSize(2), sk = k.getDimSize(2);
    if (sq != sk && !ShapedType::isDynamic(sq) && !ShapedType::isDynamic(sk))
      return "queries and keys are known to be of different numbers";
    return {};
  }

  /// The argument of a region that it yields as it is, or -1.
  static int64_t yieldsArgument(Region &region, unsigned result) {
    auto argument = dyn_cast<BlockArgument>(getYielded(region)[result]);
    return argument ? int64_t(argument.getArgNumber()) : -1;
  }

  StringRef checkMonoid() {
    unsigned stats = monoid.getNumStats();
    bool isSum = monoid.getKind() == MonoidKind::cocycle && stats == 0;
    isDecayed = monoid.getKind() == MonoidKind::suffix && stats == 1;
    if ((!isSum && !isDecayed) || monoid.getNumComponents() != 1 ||
        monoid.getComponent(0) != Component::value || monoid.getNumParams())
      return "its monoid is not a sum or a suffix of one value";
    if (yieldsArgument(monoid.getLift(), stats) < 0)
      return "its weights are not scores as they are";
    weightScore = yieldsArgument(monoid.getLift(), stats);
    Region &finalize =
        op.getFinalize().empty() ? monoid.getFinalize() : op.getFinalize();
    if (yieldsArgument(finalize, 0) != int64_t(stats))
      return "its outputs are not the sums as they are";
    if (!isDecayed)
      return {};
    // exp of sums of logarithms.
    gateScore = yieldsArgument(monoid.getLift(), 0);
    Value gate = getYielded(monoid.getGate())[0];
    auto exp = gate.getDefiningOp<math::ExpOp>();
    auto sum =
        getYielded(monoid.getCombine())[0].getDefiningOp<arith::AddFOp>();
    bool isLog =
        exp && exp.getOperand() == Value(monoid.getGate().getArgument(0)) &&
        sum && sum.getLhs() == Value(monoid.getCombine().getArgument(0)) &&
        sum.getRhs() == Value(monoid.getCombine().getArgument(1));
    if (!isLog || gateScore < 0)
      return "its gates are not exponentials of sums";
    return {};
  }

  /// All keys, or those up to the row.
  StringRef checkMask() {
    if (op.getMask().empty())
      return isDecayed ? "a gate without a causal mask is no prefix"
                       : StringRef();
    Region &mask = op.getMask();
    Value row = mask.getArgument(2), key = mask.getArgument(3);
    auto compare = getYielded(mask)[0].getDefiningOp<arith::CmpIOp>();
    bool isCausal =
        compare && ((compare.getPredicate() == arith::CmpIPredicate::sle &&
                     compare.getLhs() == key && compare.getRhs() == row) ||
                    (compare.getPredicate() == arith::CmpIPredicate::sge &&
                     compare.getLhs() == row && compare.getRhs() == key));
    return isCausal ? StringRef()
                    : "its mask is not that of keys up to the row";
  }

  StringRef checkScores() {
    Region &score = op.getScore();
    if (score.empty())
      return {};
    Value dot = score.getArgument(0);
    ValueRange captured =
        score.getArguments().take_back(op.getCaptures().size());
    auto captureOf = [&](Value value) -> Value {
      for (auto [argument, capture] :
           llvm::zip_equal(captured, op.getCaptures()))
        if (argument == value)
          return capture;
      return {};
    };
    Value weight = getYielded(score)[weightScore];
    if (auto product = weight.getDefiningOp<arith::MulFOp>()) {
      for (auto [x, factor] : {std::pair(product.getLhs(), product.getRhs()),
                               std::pair(product.getRhs(), product.getLhs())}) {
        Attribute number;
        if (x != dot)
          continue;
        if (matchPattern(factor, m_Constant(&number)))
          constant = cast<TypedAttr>(number);
        else if (Value capture = captureOf(factor);
                 capture && capture.getType().isF32())
          scale = capture;
        else
          continue;
        weight = dot;
        break;
      }
    }
    if (weight != dot)
      return "its weights are not a factor times the dot";
    if (!isDecayed)
      return {};
    auto extract =
        getYielded(score)[gateScore].getDefiningOp<tensor::ExtractOp>();
    Value tensor = extract ? captureOf(extract.getTensor()) : Value();
    if (!tensor || typeOf(tensor).getRank() != 3 ||
        !isa<FloatType>(typeOf(tensor).getElementType()))
      return "its gate is not an element of a capture of the key";
    for (auto [d, argument] : {std::pair(0, 1), {1, 2}, {2, 4}}) {
      auto cast = extract.getIndices()[d].getDefiningOp<arith::IndexCastOp>();
      if (!cast || cast.getIn() != Value(score.getArgument(argument)))
        return "its gate is not an element of a capture of the key";
    }
    // The gates are those of query heads, which may share a key head.
    int64_t hq = typeOf(op.getQueries()[0]).getDimSize(1),
            hk = typeOf(op.getKeys()[0]).getDimSize(1);
    queryStates = ShapedType::isDynamic(hq) || hq != hk;
    decay = tensor;
    return {};
  }

  /// A token costs two products with the matrix and its pairs in a chunk;
  /// without a scan its keys, half of them where they are those up to it. Where
  /// no number of tokens is known, it is taken for large.
  StringRef checkCost() {
    constexpr double chunk = 64;
    auto q = typeOf(op.getQueries()[0]), v = typeOf(op.getValues()[0]);
    int64_t tokens = q.getDimSize(2);
    if (ShapedType::isDynamic(tokens))
      tokens = v.getDimSize(2);
    if (ShapedType::isDynamic(tokens))
      return {};
    double dk = double(q.getDimSize(3)), dv = double(v.getDimSize(3));
    bool isWhole = op.getMask().empty();
    double scan = 4 * dk * dv + (isWhole ? 0 : 2 * chunk * (dk + dv));
    double without = (isWhole ? 2 : 1) * double(tokens) * (dk + dv);
    return scan < without ? StringRef() : "its keys are too few for a matrix";
  }

  AggregateOp op;
  MonoidOp monoid;
  bool isDecayed = false, queryStates = false;
  int64_t weightScore = 0, gateScore = -1;
  Value scale, decay;
  TypedAttr constant;
};

struct AggregateToScanPass
    : ::attn::impl::AttnAggregateToScanPassBase<AggregateToScanPass> {
  using AttnAggregateToScanPassBase::AttnAggregateToScanPassBase;

  void runOnOperation() final {
    std::optional<::attn::TargetInfo> target =
        ::attn::getTarget(getOperation());
    if (!target)
      return signalPassFailure();
    SmallVector<AggregateOp> ops;
    // What is fused keeps its form.
    getOperation().walk([&](AggregateOp op) {
      if (!isa<FusedOp>(op->getParentOp()))
        ops.push_back(op);
    });
    for (AggregateOp op : ops) {
      MonoidOp monoid = lookupMonoid(op, op.getMonoidAttr());
      if (!monoid)
        continue;
      Matcher matcher(op, monoid);
      StringRef why = target->isCpu()
                          ? matcher.why()
                          : "the target's kernels of scans take a token "
                            "after the other";
      if (explain && why.empty())
        op->emitRemark("scan: a matrix is carried along the keys");
      else if (explain && isLinear(monoid))
        op->emitRemark("no scan: ") << why;
      if (!why.empty())
        continue;
      matcher.rewrite();
      ++numScans;
    }
  }

  /// Whether anybody would expect a scan.
  static bool isLinear(MonoidOp monoid) {
    return monoid.getKind() == MonoidKind::suffix ||
           (monoid.getKind() == MonoidKind::cocycle && !monoid.getNumStats());
  }
};
} // namespace

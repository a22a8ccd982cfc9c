//===- PlanToLLVM.cpp - Lower plans and their kernels to LLVM -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One dialect conversion takes everything to the LLVM dialect: upstream's
// patterns for the kernels' insides, ours for the plan around them. A plan
// becomes straight-line code around one status word:
//
//   status = 0
//   for each workspace: p = runtime.allocate(bytes); status |= (p == null)
//   for each launch:    status |= runtime.parallel_for(body, frame,
//                                     status ? 0 : grid, scratch bytes)
//   release every workspace; return status
//
// so that a failed allocation skips the launches instead of branching around
// them. A launch stores the kernel's arguments (memref descriptors, scalars)
// to a frame on the stack; its body function loads them and calls the kernel,
// which LLVM inlines there: the kernel exists once and descriptors dissolve.
// Launches on a GPU are in GpuPlan.cpp.
//===----------------------------------------------------------------------===//

#include "PlanLowering.h"
#include "attn/Conversion/Passes.h"
#include "attn/Dialect/Tile/IR/Tile.h"
#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/Pattern.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/AMX/AMXDialect.h"
#include "mlir/Dialect/AMX/Transforms.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/Transforms/Transforms.h"
#include "mlir/Dialect/Vector/Transforms/LoweringPatterns.h"
#include "mlir/Dialect/Vector/Transforms/VectorRewritePatterns.h"
#include "mlir/Dialect/X86Vector/Transforms.h"
#include "mlir/Dialect/X86Vector/X86VectorDialect.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace attn {
#define GEN_PASS_DEF_CONVERTPLANTOLLVM
#include "attn/Conversion/Passes.h.inc"
} // namespace attn

using namespace mlir;

//===----------------------------------------------------------------------===//
// The plan
//===----------------------------------------------------------------------===//

static constexpr StringRef entryPrefix = "attn_entry_";

namespace {
/// func.func with `tile.plan`: the entry reads its arguments from the records.
struct PlanFuncLowering : PlanPattern<func::FuncOp> {
  using PlanPattern::PlanPattern;

  LogicalResult
  matchAndRewrite(func::FuncOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!op->hasAttr(tile::TileDialect::planName) || op.isExternal())
      return failure();
    Location loc = op.getLoc();
    PlanBuilder b(rewriter, loc);
    auto entry = LLVM::LLVMFuncOp::create(
        rewriter, loc, (entryPrefix + op.getName()).str(),
        LLVM::LLVMFunctionType::get(b.i32, {b.ptr, b.ptr}));
    if (op.isPrivate())
      entry.setLinkage(LLVM::Linkage::Internal);
    rewriter.inlineRegionBefore(op.getBody(), entry.getBody(),
                                entry.getBody().end());
    TypeConverter::SignatureConversion signature(op.getNumArguments());
    for (auto [i, type] : llvm::enumerate(op.getArgumentTypes())) {
      Type converted = getTypeConverter()->convertType(type);
      if (!converted)
        return rewriter.notifyMatchFailure(op, "unsupported argument type");
      signature.addInputs(i, converted);
    }
    Block *body = rewriter.applySignatureConversion(
        &entry.getBody().front(), signature, getTypeConverter());
    Block *head = rewriter.createBlock(
        &entry.getBody(), entry.getBody().begin(), {b.ptr, b.ptr}, {loc, loc});

    PlanFrame frame;
    frame.records = head->getArgument(0);
    frame.runtime = head->getArgument(1);
    frame.status = LLVM::AllocaOp::create(rewriter, loc, b.ptr, b.i32,
                                          b.constant(b.i64, 1));
    b.store(b.constant(b.i32, 0), frame.status);
    SmallVector<Value> arguments;
    for (auto [i, type] : llvm::enumerate(op.getArgumentTypes())) {
      Value record = b.load(b.ptr, b.gep(b.ptr, head->getArgument(0), i));
      arguments.push_back(readArgument(b, rewriter, record, type));
    }
    LLVM::BrOp::create(rewriter, loc, arguments, body);
    state.frames[entry] = std::move(frame);
    rewriter.eraseOp(op);
    return success();
  }

private:
  Value readArgument(PlanBuilder &b, ConversionPatternRewriter &rewriter,
                     Value record, Type type) const {
    auto memref = dyn_cast<MemRefType>(type);
    if (!memref) {
      // i1 is a byte in memory.
      if (type.isInteger(1))
        return LLVM::TruncOp::create(rewriter, b.loc, type,
                                     b.load(rewriter.getI8Type(), record));
      return b.load(getTypeConverter()->convertType(type), record);
    }
    Value data = b.load(b.ptr, record);
    int64_t rank = memref.getRank();
    auto field = [&](int64_t i) {
      return b.load(b.i64, b.gep(b.i64, record, 1 + i));
    };
    auto [staticStrides, offset] = memref.getStridesAndOffset();
    SmallVector<Value> sizes, strides;
    for (int64_t i = 0; i < rank; ++i) {
      sizes.push_back(memref.isDynamicDim(i)
                          ? field(i)
                          : b.constant(b.i64, memref.getDimSize(i)));
      strides.push_back(ShapedType::isDynamic(staticStrides[i])
                            ? field(rank + i)
                            : b.constant(b.i64, staticStrides[i]));
    }
    MemRefDescriptor descriptor = createMemRefDescriptor(
        b.loc, memref, data, data, sizes, strides, rewriter);
    return descriptor;
  }
};

/// tile.launch: a frame of arguments, a body function, one parallel_for.
struct LaunchLowering : PlanPattern<tile::LaunchOp> {
  using PlanPattern::PlanPattern;

  LogicalResult
  matchAndRewrite(tile::LaunchOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    PlanFrame *frame = getFrame(op);
    if (!frame)
      return rewriter.notifyMatchFailure(op, "not inside a plan");
    const KernelInfo &kernel = state.kernels.find(op.getKernel())->second;
    Location loc = op.getLoc();
    PlanBuilder b(rewriter, loc);

    SmallVector<Type> types(adaptor.getArguments().getTypes());
    auto frameType =
        LLVM::LLVMStructType::getLiteral(rewriter.getContext(), types);
    LLVM::LLVMFuncOp body = createBody(op, kernel, frameType, rewriter);

    Value slot;
    {
      // In the entry block, so that a launch in a loop reuses its frame.
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPointAfterValue(frame->status);
      slot = LLVM::AllocaOp::create(rewriter, loc, b.ptr, frameType,
                                    b.constant(b.i64, 1));
    }
    for (auto [i, value] : llvm::enumerate(adaptor.getArguments()))
      b.store(value,
              LLVM::GEPOp::create(rewriter, loc, b.ptr, frameType, slot,
                                  ArrayRef<LLVM::GEPArg>{0, int32_t(i)}));

    Value failed = LLVM::ICmpOp::create(rewriter, loc, LLVM::ICmpPredicate::ne,
                                        b.load(b.i32, frame->status),
                                        b.constant(b.i32, 0));
    Value grid = LLVM::SelectOp::create(
        rewriter, loc, failed, b.constant(b.i64, 0), adaptor.getGrid());
    Value address = LLVM::AddressOfOp::create(rewriter, loc, body);
    Value scratch = b.constant(b.i64, kernel.scratchBytes.value_or(0));
    LLVM::CallOp call = b.callRuntime(frame->runtime, ParallelFor, b.i32,
                                      ValueRange{address, slot, grid, scratch});
    b.mergeStatus(*frame, call.getResult());
    rewriter.eraseOp(op);
    return success();
  }

private:
  /// void body(frame, block, scratch): unpacks the frame, calls the kernel.
  LLVM::LLVMFuncOp createBody(tile::LaunchOp op, const KernelInfo &kernel,
                              LLVM::LLVMStructType frameType,
                              ConversionPatternRewriter &rewriter) const {
    OpBuilder::InsertionGuard guard(rewriter);
    Location loc = op.getLoc();
    PlanBuilder b(rewriter, loc);
    auto module = op->getParentOfType<ModuleOp>();
    rewriter.setInsertionPointToEnd(module.getBody());
    Type voidType = LLVM::LLVMVoidType::get(rewriter.getContext());
    auto body = LLVM::LLVMFuncOp::create(
        rewriter, loc,
        (op.getKernel() + "__body" + Twine(state.numBodies++)).str(),
        LLVM::LLVMFunctionType::get(voidType, {b.ptr, b.i64, b.ptr}),
        LLVM::Linkage::Internal);
    Block *block = rewriter.createBlock(&body.getBody(), {},
                                        {b.ptr, b.i64, b.ptr}, {loc, loc, loc});

    SmallVector<Value> operands;
    auto pass = [&](Value value, Type type) {
      if (auto memref = dyn_cast<MemRefType>(type))
        MemRefDescriptor::unpack(rewriter, loc, value, memref, operands);
      else
        operands.push_back(value);
    };
    for (auto [i, type] : llvm::enumerate(op.getArguments().getTypes())) {
      Value address = LLVM::GEPOp::create(
          rewriter, loc, b.ptr, frameType, block->getArgument(0),
          ArrayRef<LLVM::GEPArg>{0, int32_t(i)});
      pass(b.load(frameType.getBody()[i], address), type);
    }
    operands.push_back(block->getArgument(1));
    if (kernel.scratchBytes) {
      auto type = cast<MemRefType>(kernel.type.getInputs().back());
      pass(MemRefDescriptor::fromStaticShape(rewriter, loc, *getTypeConverter(),
                                             type, block->getArgument(2)),
           type);
    }
    LLVM::CallOp::create(rewriter, loc, TypeRange{}, op.getKernel(), operands);
    LLVM::ReturnOp::create(rewriter, loc, ValueRange{});
    return body;
  }
};

/// tile.dispatch: the other plan's entry takes the same records.
struct DispatchLowering : PlanPattern<tile::DispatchOp> {
  using PlanPattern::PlanPattern;

  LogicalResult
  matchAndRewrite(tile::DispatchOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    PlanFrame *frame = getFrame(op);
    if (!frame)
      return rewriter.notifyMatchFailure(op, "not inside a plan");
    Location loc = op.getLoc();
    PlanBuilder b(rewriter, loc);
    Block *before = op->getBlock();
    Block *rest = rewriter.splitBlock(before, std::next(op->getIterator()));
    Block *other = rewriter.createBlock(rest);
    auto call = LLVM::CallOp::create(
        rewriter, loc, TypeRange{b.i32}, (entryPrefix + op.getPlan()).str(),
        ValueRange{frame->records, frame->runtime});
    LLVM::ReturnOp::create(rewriter, loc, call.getResult());
    rewriter.setInsertionPointToEnd(before);
    LLVM::CondBrOp::create(rewriter, loc, adaptor.getCondition(), other, rest);
    rewriter.eraseOp(op);
    return success();
  }
};

/// Memory of the runtime, released when the plan returns.
template <typename OpTy> struct MemoryLowering : PlanPattern<OpTy> {
  using PlanPattern<OpTy>::PlanPattern;

  LogicalResult lower(OpTy op, ValueRange dynamicSizes,
                      ConversionPatternRewriter &rewriter) const {
    PlanFrame *frame = this->getFrame(op);
    if (!frame)
      return rewriter.notifyMatchFailure(op, "not inside a plan");
    auto type = cast<MemRefType>(op.getType());
    if (!this->isConvertibleAndHasIdentityMaps(type))
      return rewriter.notifyMatchFailure(op, "not a dense memref");
    Location loc = op.getLoc();
    PlanBuilder b(rewriter, loc);
    SmallVector<Value> sizes, strides;
    Value bytes;
    this->getMemRefDescriptorSizes(loc, type, dynamicSizes, rewriter, sizes,
                                   strides, bytes);
    Value memory =
        b.callRuntime(frame->runtime, Allocate, b.ptr, bytes).getResult();
    Value isNull =
        LLVM::ICmpOp::create(rewriter, loc, LLVM::ICmpPredicate::eq, memory,
                             LLVM::ZeroOp::create(rewriter, loc, b.ptr));
    b.mergeStatus(*frame, LLVM::ZExtOp::create(rewriter, loc, b.i32, isNull));
    frame->workspaces.push_back(memory);
    Value descriptor = this->createMemRefDescriptor(loc, type, memory, memory,
                                                    sizes, strides, rewriter);
    rewriter.replaceOp(op, descriptor);
    return success();
  }
};

/// tile.workspace.
struct WorkspaceLowering : MemoryLowering<tile::WorkspaceOp> {
  using MemoryLowering::MemoryLowering;
  LogicalResult
  matchAndRewrite(tile::WorkspaceOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    return lower(op, adaptor.getSizes(), rewriter);
  }
};

/// memref.alloc in a plan is the same.
struct AllocLowering : MemoryLowering<memref::AllocOp> {
  using MemoryLowering::MemoryLowering;
  LogicalResult
  matchAndRewrite(memref::AllocOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    return lower(op, adaptor.getDynamicSizes(), rewriter);
  }
};

/// func.return of a plan.
struct PlanReturnLowering : PlanPattern<func::ReturnOp> {
  using PlanPattern::PlanPattern;

  LogicalResult
  matchAndRewrite(func::ReturnOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    PlanFrame *frame = getFrame(op);
    if (!frame)
      return failure();
    PlanBuilder b(rewriter, op.getLoc());
    for (Value workspace : llvm::reverse(frame->workspaces))
      b.callRuntime(frame->runtime, Release, nullptr, workspace);
    rewriter.replaceOpWithNewOp<LLVM::ReturnOp>(op,
                                                b.load(b.i32, frame->status));
    return success();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// Vectors of rank 2 and more, strided views and the like become rank 1 and
/// plain addresses here; only modules that hold such ops pay for it.
static void populatePreparationPatterns(RewritePatternSet &patterns) {
  memref::populateExpandStridedMetadataPatterns(patterns);
  vector::populateVectorTransferLoweringPatterns(patterns,
                                                 /*maxTransferRank=*/1);
  vector::populateVectorTransferPermutationMapLoweringPatterns(patterns);
  vector::populateVectorMultiReductionLoweringPatterns(
      patterns, vector::VectorMultiReductionLowering::InnerParallel);
  vector::populateVectorContractLoweringPatterns(
      patterns, vector::VectorContractLowering::OuterProduct);
  vector::populateVectorOuterProductLoweringPatterns(patterns);
  vector::populateVectorTransposeLoweringPatterns(
      patterns, vector::VectorTransposeLowering::Shuffle16x16);
  vector::populateVectorGatherLoweringPatterns(patterns);
  vector::populateVectorBroadcastLoweringPatterns(patterns);
  vector::populateVectorMaskOpLoweringPatterns(patterns);
  vector::populateVectorMaskLoweringPatternsForSideEffectingOps(patterns);
  vector::populateVectorShapeCastLoweringPatterns(patterns);
  vector::populateVectorScanLoweringPatterns(patterns);
  vector::populateVectorInterleaveLoweringPatterns(patterns);
  vector::populateVectorInterleaveToShufflePatterns(patterns);
  vector::populateVectorBitCastLoweringPatterns(patterns);
  vector::populateVectorRankReducingFMAPattern(patterns);
  vector::populateVectorInsertExtractStridedSliceTransforms(patterns);
}

static bool needsPreparation(Operation *op, bool expandBF16) {
  auto isDeep = [](Type type) {
    auto vector = dyn_cast<VectorType>(type);
    return vector && vector.getRank() > 1;
  };
  if (llvm::any_of(op->getOperandTypes(), isDeep) ||
      llvm::any_of(op->getResultTypes(), isDeep))
    return true;
  if (isa<vector::TransferReadOp, vector::TransferWriteOp,
          vector::ContractionOp, vector::MultiDimReductionOp, vector::MaskOp,
          vector::ScanOp, vector::InterleaveOp, vector::DeinterleaveOp,
          vector::InsertStridedSliceOp, vector::ExtractStridedSliceOp,
          vector::OuterProductOp, memref::SubViewOp, memref::CollapseShapeOp,
          memref::ExpandShapeOp>(op))
    return true;
  return expandBF16 && isa<arith::TruncFOp>(op) &&
         getElementTypeOrSelf(op->getResult(0).getType()).isBF16();
}

namespace {
struct ConvertPlanToLLVM
    : ::attn::impl::ConvertPlanToLLVMBase<ConvertPlanToLLVM> {
  using ConvertPlanToLLVMBase::ConvertPlanToLLVMBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    LoweringState state;
    if (failed(prepareGpuKernels(module)) || failed(collect(module, state)))
      return signalPassFailure();

    bool prepare = false;
    module.walk([&](Operation *op) {
      prepare |= needsPreparation(op, expandBF16);
      return prepare ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (prepare) {
      RewritePatternSet patterns(&getContext());
      populatePreparationPatterns(patterns);
      if (expandBF16)
        arith::populateExpandBFloat16Patterns(patterns);
      GreedyRewriteConfig config;
      // Nothing here is dead across regions that canonicalization has left.
      config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
      if (failed(applyPatternsGreedily(module, std::move(patterns), config)))
        return signalPassFailure();
    }
    if (failed(convert(module, state)))
      return signalPassFailure();
    finish(module, state);
  }

private:
  /// Kernels are functions like others from here on.
  static void toFunction(tile::KernelOp kernel) {
    OpBuilder b(kernel);
    auto func = func::FuncOp::create(b, kernel.getLoc(), kernel.getName(),
                                     kernel.getFunctionType());
    func.setPrivate();
    func.getBody().takeBody(kernel.getBody());
    if (!func.isExternal()) {
      Operation *end = func.getBody().back().getTerminator();
      b.setInsertionPoint(end);
      func::ReturnOp::create(b, end->getLoc());
      end->erase();
    }
    kernel.erase();
  }

  /// Records the kernels and checks what the patterns rely on.
  LogicalResult collect(ModuleOp module, LoweringState &state) {
    for (auto kernel :
         llvm::make_early_inc_range(module.getOps<tile::KernelOp>())) {
      if (kernel.isExternal())
        return kernel.emitOpError("expected a body; a plan launches kernels of "
                                  "its own module alone");
      KernelInfo info{kernel.getFunctionType(), kernel.getScratchBytes()};
      state.kernels[kernel.getName()] = info;
      toFunction(kernel);
    }
    for (auto plan : module.getOps<func::FuncOp>()) {
      if (!plan->hasAttr(tile::TileDialect::planName))
        continue;
      std::string entry = (entryPrefix + plan.getName()).str();
      if (module.lookupSymbol(entry))
        return plan.emitError("expected no symbol '@")
               << entry << "' in the module; it is the name of this plan's "
               << "entry";
      for (Type type : plan.getArgumentTypes())
        if (auto memref = dyn_cast<MemRefType>(type)) {
          int64_t offset;
          SmallVector<int64_t> strides;
          if (failed(memref.getStridesAndOffset(strides, offset)) ||
              offset != 0)
            return plan.emitError("expected plan arguments to be strided "
                                  "memrefs with offset 0, but got ")
                   << memref;
        }
      if (failed(checkPlan(plan, state)))
        return failure();
    }
    return success();
  }

  LogicalResult checkPlan(func::FuncOp plan, LoweringState &state) {
    Operation *first = nullptr; // that another plan must not run after
    for (Operation &op : plan.getBody().getOps()) {
      if (isa<tile::DispatchOp>(op) && first)
        return op.emitOpError("expected to come before '")
               << first->getName() << "'";
      if (isa<tile::WorkspaceOp, memref::AllocOp, tile::LaunchOp>(op))
        first = &op;
    }
    WalkResult result = plan.walk([&](Operation *op) {
      if (isa<tile::WorkspaceOp, memref::AllocOp>(op)) {
        if (op->getParentOp() == plan)
          return WalkResult::advance();
        op->emitOpError("expected to be at the top level of the plan");
        return WalkResult::interrupt();
      }
      auto launch = dyn_cast<tile::LaunchOp>(op);
      if (!launch)
        return WalkResult::advance();
      auto kernel = state.kernels.find(launch.getKernel());
      if (kernel == state.kernels.end()) {
        launch.emitOpError("expected '")
            << launch.getKernel() << "' to be a tile.kernel";
        return WalkResult::interrupt();
      }
      SmallVector<Type> types(launch.getArguments().getTypes());
      types.push_back(IndexType::get(&getContext()));
      ArrayRef<Type> inputs = kernel->second.type.getInputs();
      bool hasScratch = kernel->second.scratchBytes.has_value();
      if (hasScratch)
        types.push_back(inputs.back());
      if (ArrayRef<Type>(types) != inputs) {
        launch.emitOpError("expected arguments and a block index of types (")
            << inputs << "), but got (" << types << ")";
        return WalkResult::interrupt();
      }
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }

  LogicalResult convert(ModuleOp module, LoweringState &state) {
    MLIRContext *context = &getContext();
    LowerToLLVMOptions options(context);
    options.overrideIndexBitwidth(64);
    LLVMTypeConverter converter(context, options);
    LLVMConversionTarget target(*context);
    target.addLegalOp<ModuleOp, gpu::GPUModuleOp>();
    // Code of the device, lowered already.
    target.markOpRecursivelyLegal<gpu::GPUModuleOp>();

    RewritePatternSet patterns(context);
    patterns.add<PlanFuncLowering, DispatchLowering, LaunchLowering,
                 WorkspaceLowering, AllocLowering, PlanReturnLowering>(
        converter, state);
    populateGpuPlanPatterns(converter, patterns, state);
    populateSCFToControlFlowConversionPatterns(patterns);
    populateAffineToStdConversionPatterns(patterns);
    arith::populateCeilFloorDivExpandOpsPatterns(patterns);
    arith::populateArithToLLVMConversionPatterns(converter, patterns);
    vector::populateVectorMaskMaterializationPatterns(
        patterns, /*force32BitVectorIndices=*/true);
    // Constant masks are of rank 1 and come without anything to prepare.
    vector::populateVectorMaskOpLoweringPatterns(patterns);
    vector::populateVectorStepLoweringPatterns(patterns);
    populateVectorToLLVMConversionPatterns(converter, patterns,
                                           /*reassociateFPReductions=*/true,
                                           /*force32BitVectorIndices=*/true);
    populateFinalizeMemRefToLLVMConversionPatterns(converter, patterns);
    populateFuncToLLVMConversionPatterns(converter, patterns);
    cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
    ub::populateUBToLLVMConversionPatterns(converter, patterns);
    // LLVM's own intrinsics where there is one, else libm; log1p and expm1
    // exist for what exp(x) - 1 loses.
    populateMathToLLVMConversionPatterns(converter, patterns,
                                         /*approximateLog1p=*/false);
    populateMathToLibmConversionPatterns(patterns, /*benefit=*/0);
    populateX86VectorLegalizeForLLVMExportPatterns(converter, patterns);
    configureX86VectorLegalizeForExportTarget(target);
    populateAMXLegalizeForLLVMExportPatterns(converter, patterns);
    configureAMXLegalizeForExportTarget(target);
    return applyFullConversion(module, target, std::move(patterns));
  }

  /// Linkage and the aliasing facts, once signatures are final.
  void finish(ModuleOp module, LoweringState &state) {
    for (auto function : module.getOps<LLVM::LLVMFuncOp>()) {
      if (function.isExternal() || state.frames.count(function))
        continue;
      function.setLinkage(LLVM::Linkage::Internal);
      auto kernel = state.kernels.find(function.getName());
      if (kernel == state.kernels.end())
        continue;
      function.setAlwaysInline(true);
      // A descriptor is (allocated, aligned, offset, sizes, strides); accesses
      // go through the aligned pointer alone.
      unsigned index = 0;
      for (Type type : kernel->second.type.getInputs()) {
        auto memref = dyn_cast<MemRefType>(type);
        if (memref)
          function.setArgAttr(index + 1,
                              LLVM::LLVMDialect::getNoAliasAttrName(),
                              UnitAttr::get(&getContext()));
        index += memref ? 3 + 2 * memref.getRank() : 1;
      }
    }
  }
};
} // namespace

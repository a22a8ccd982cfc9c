//===- GpuPlan.cpp - Lower what plans do on a GPU -------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tensor maps, launches, resets and tickets become calls of AttnGpu
// (Runtime/Abi.h). A tensor map is 128 bytes on the plan's stack. A launch
// lists the addresses of its kernel's parameters, which are flat:
//
//   tensor map           itself, by value
//   memref of rank r     the data's address, r sizes, r strides, all 64 bits
//   index                64 bits
//   i1                   a byte
//   other scalars        as they are
//===----------------------------------------------------------------------===//

#include "PlanLowering.h"
#include "attn/Dialect/Attn/IR/AttributeNames.h"
#include "attn/Dialect/TileGPU/IR/TileGPU.h"
#include "attn/Runtime/Abi.h"
#include "mlir/Conversion/LLVMCommon/MemRefBuilder.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;

namespace {
template <typename OpTy> struct GpuPattern : PlanPattern<OpTy> {
  using PlanPattern<OpTy>::PlanPattern;

  /// The address of the first element.
  Value getData(PlanBuilder &b, OpBuilder &builder, Value descriptor,
                MemRefType type) const {
    return MemRefDescriptor(descriptor)
        .bufferPtr(builder, b.loc, *this->getTypeConverter(), type);
  }

  /// Stack memory in the entry block, so that a loop reuses it.
  Value makeSlot(PlanBuilder &b, ConversionPatternRewriter &rewriter,
                 const PlanFrame &frame, Type type, unsigned align = 0) const {
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPointAfterValue(frame.status);
    return LLVM::AllocaOp::create(rewriter, b.loc, b.ptr, type,
                                  b.constant(b.i64, 1), align);
  }

  /// The address of a text that ends in zero.
  Value makeText(PlanBuilder &b, ConversionPatternRewriter &rewriter,
                 Operation *op, StringRef text) const {
    LLVM::GlobalOp &global = this->state.texts[text];
    if (!global) {
      OpBuilder::InsertionGuard guard(rewriter);
      auto module = op->getParentOfType<ModuleOp>();
      rewriter.setInsertionPointToStart(module.getBody());
      std::string value = text.str();
      value.push_back(0);
      auto type = LLVM::LLVMArrayType::get(rewriter.getI8Type(), value.size());
      global = LLVM::GlobalOp::create(
          rewriter, b.loc, type, /*isConstant=*/true, LLVM::Linkage::Internal,
          ("attn_text" + Twine(this->state.texts.size() - 1)).str(),
          rewriter.getStringAttr(value));
    }
    return LLVM::AddressOfOp::create(rewriter, b.loc, global);
  }
};

/// The code of an element type in tensor maps, or -1.
int32_t getElementCode(Type type) {
  if (type.isF32())
    return ATTN_ELEMENT_F32;
  if (type.isF16())
    return ATTN_ELEMENT_F16;
  if (type.isBF16())
    return ATTN_ELEMENT_BF16;
  if (type.isInteger(32))
    return ATTN_ELEMENT_I32;
  if (type.isInteger(8))
    return ATTN_ELEMENT_U8;
  return -1;
}

/// What the user calls a tensor: the name of the plan's argument.
std::string getTensorName(Value tensor) {
  while (auto view = tensor.getDefiningOp<memref::ReinterpretCastOp>())
    tensor = view.getSource();
  auto argument = dyn_cast<BlockArgument>(tensor);
  auto function =
      argument
          ? dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp())
          : FunctionOpInterface();
  if (!function)
    return "workspace";
  if (auto info = function.getArgAttrOfType<DictionaryAttr>(
          argument.getArgNumber(), mlir::attn::getArgName()))
    if (auto name = info.getAs<StringAttr>("name"))
      return name.str();
  return "arg" + std::to_string(argument.getArgNumber());
}

/// Fails the plan where the runtime had no memory to give.
void failWhereNull(PlanBuilder &b, PlanFrame &frame, Value memory) {
  Value isNull =
      LLVM::ICmpOp::create(b.b, b.loc, LLVM::ICmpPredicate::eq, memory,
                           LLVM::ZeroOp::create(b.b, b.loc, b.ptr));
  b.mergeStatus(frame, LLVM::ZExtOp::create(b.b, b.loc, b.i32, isNull));
}

struct TensorMapLowering : GpuPattern<tile_gpu::TensorMapOp> {
  using GpuPattern::GpuPattern;

  LogicalResult
  matchAndRewrite(tile_gpu::TensorMapOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    PlanFrame *frame = getFrame(op);
    if (!frame)
      return rewriter.notifyMatchFailure(op, "not inside a plan");
    auto type = cast<MemRefType>(op.getSource().getType());
    int32_t element = getElementCode(type.getElementType());
    if (element < 0)
      return rewriter.notifyMatchFailure(op, "no such element in tensor maps");
    tile_gpu::SmemType box = op.getMap().getType().getBox();
    Location loc = op.getLoc();
    PlanBuilder b(rewriter, loc);

    int64_t rank = type.getRank();
    auto sizesType = LLVM::LLVMArrayType::get(b.i64, rank);
    Value sizes = makeSlot(b, rewriter, *frame, sizesType);
    Value strides = makeSlot(b, rewriter, *frame, sizesType);
    MemRefDescriptor descriptor(adaptor.getSource());
    for (int64_t i = 0; i < rank; ++i) {
      b.store(descriptor.size(rewriter, loc, i), b.gep(b.i64, sizes, i));
      b.store(descriptor.stride(rewriter, loc, i), b.gep(b.i64, strides, i));
    }
    // Panels are as wide as the swizzle; each is a copy of its own.
    int64_t bits = type.getElementTypeBitWidth();
    int64_t columns =
        box.getSwizzle() ? box.getSwizzle() * 8 / bits : box.getStoredCols();
    Value map = makeSlot(
        b, rewriter, *frame,
        LLVM::LLVMArrayType::get(rewriter.getI8Type(), ATTN_TENSOR_MAP_BYTES),
        ATTN_TENSOR_MAP_ALIGN);
    auto name = op->getAttrOfType<StringAttr>(mlir::attn::getTensorNameName());
    LLVM::CallOp call = b.callGpu(
        frame->runtime, EncodeTensorMap,
        {map, makeText(b, rewriter, op, name ? name.getValue() : "workspace"),
         getData(b, rewriter, adaptor.getSource(), type),
         b.constant(b.i32, element), b.constant(b.i32, rank), sizes, strides,
         b.constant(b.i64, box.getBoxRows()), b.constant(b.i64, columns),
         b.constant(b.i32, box.getSwizzle())});
    b.mergeStatus(*frame, call.getResult());
    rewriter.replaceOp(op, map);
    return success();
  }
};

struct ResetLowering : GpuPattern<tile_gpu::ResetOp> {
  using GpuPattern::GpuPattern;

  LogicalResult
  matchAndRewrite(tile_gpu::ResetOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    PlanFrame *frame = getFrame(op);
    auto type = cast<MemRefType>(op.getMemory().getType());
    if (!frame || !type.getLayout().isIdentity())
      return rewriter.notifyMatchFailure(op, "not dense memory of a plan");
    Location loc = op.getLoc();
    PlanBuilder b(rewriter, loc);
    Value bytes = b.constant(b.i64, (type.getElementTypeBitWidth() + 7) / 8);
    MemRefDescriptor descriptor(adaptor.getMemory());
    for (int64_t i = 0; i < type.getRank(); ++i)
      bytes = LLVM::MulOp::create(rewriter, loc, bytes,
                                  descriptor.size(rewriter, loc, i));
    LLVM::CallOp call =
        b.callGpu(frame->runtime, FillZero,
                  {getData(b, rewriter, adaptor.getMemory(), type), bytes});
    b.mergeStatus(*frame, call.getResult());
    rewriter.eraseOp(op);
    return success();
  }
};

struct TicketsLowering : GpuPattern<tile_gpu::TicketsOp> {
  using GpuPattern::GpuPattern;

  /// The launch that draws: its grid where that is known here, else null.
  struct Drawing {
    StringRef kernel;
    Value grid;
  };
  Drawing findLaunch(tile_gpu::TicketsOp op,
                     ConversionPatternRewriter &rewriter) const {
    tile_gpu::LaunchOp launch;
    if (op->hasOneUse())
      launch = dyn_cast<tile_gpu::LaunchOp>(*op->getUsers().begin());
    if (!launch)
      return {};
    Operation *def = launch.getGrid().getDefiningOp();
    bool isKnown =
        !def || (def->getBlock() == op->getBlock() && def->isBeforeInBlock(op));
    return {launch.getKernel(),
            isKnown ? rewriter.getRemappedValue(launch.getGrid()) : Value()};
  }

  LogicalResult
  matchAndRewrite(tile_gpu::TicketsOp op, OpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    PlanFrame *frame = getFrame(op);
    if (!frame)
      return rewriter.notifyMatchFailure(op, "not inside a plan");
    Location loc = op.getLoc();
    PlanBuilder b(rewriter, loc);
    MemRefType type = op.getCounters().getType();
    Drawing launch = findLaunch(op, rewriter);
    constexpr int64_t any = std::numeric_limits<int64_t>::max();
    Value grid = launch.grid && !op.getDrawsFirst() ? launch.grid
                                                    : b.constant(b.i64, any);
    Value text = makeText(b, rewriter, op, launch.kernel);
    Value memory =
        b.callGpu(frame->runtime, Counters,
                  {b.constant(b.i64, type.getNumElements()), text, grid}, b.ptr)
            .getResult();
    failWhereNull(b, *frame, memory);
    rewriter.replaceOp(op,
                       Value(MemRefDescriptor::fromStaticShape(
                           rewriter, loc, *getTypeConverter(), type, memory)));
    return success();
  }
};

struct KeepLowering : GpuPattern<tile_gpu::KeepOp> {
  using GpuPattern::GpuPattern;

  LogicalResult
  matchAndRewrite(tile_gpu::KeepOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    PlanFrame *frame = getFrame(op);
    if (!frame)
      return rewriter.notifyMatchFailure(op, "not inside a plan");
    Location loc = op.getLoc();
    PlanBuilder b(rewriter, loc);
    // One behind the other, from addresses on that are multiples of 256.
    struct Part {
      SmallVector<Value> sizes, strides;
      Value offset;
    };
    SmallVector<Part> parts;
    ValueRange rest = adaptor.getSizes();
    Value end = b.constant(b.i64, 0);
    for (Type each : op.getMemories().getTypes()) {
      auto type = cast<MemRefType>(each);
      Part &part = parts.emplace_back(Part{{}, {}, end});
      Value bytes;
      getMemRefDescriptorSizes(loc, type,
                               rest.take_front(type.getNumDynamicDims()),
                               rewriter, part.sizes, part.strides, bytes);
      rest = rest.drop_front(type.getNumDynamicDims());
      Value room = LLVM::AndOp::create(
          rewriter, loc,
          LLVM::AddOp::create(rewriter, loc, bytes, b.constant(b.i64, 255)),
          b.constant(b.i64, -256));
      end = LLVM::AddOp::create(rewriter, loc, end, room);
    }
    // Sizes of the same bytes may differ.
    SmallVector<Value> key = {b.constant(b.i64, op.getNumber())};
    llvm::append_range(key, adaptor.getSizes());
    llvm::append_range(key, adaptor.getKey());
    Value keys = makeSlot(b, rewriter, *frame,
                          LLVM::LLVMArrayType::get(b.i64, key.size()));
    for (auto [i, value] : llvm::enumerate(key))
      b.store(value, b.gep(b.i64, keys, i));
    Value isNew = makeSlot(b, rewriter, *frame, b.i32);
    Value memory =
        b.callGpu(frame->runtime, Keep,
                  {end, b.constant(b.i64, key.size()), keys, isNew}, b.ptr)
            .getResult();
    failWhereNull(b, *frame, memory);
    SmallVector<Value> results;
    for (auto [type, part] : llvm::zip(op.getMemories().getTypes(), parts)) {
      Value at = LLVM::GEPOp::create(rewriter, loc, b.ptr, rewriter.getI8Type(),
                                     memory, ValueRange{part.offset});
      results.push_back(createMemRefDescriptor(loc, cast<MemRefType>(type), at,
                                               at, part.sizes, part.strides,
                                               rewriter));
    }
    results.push_back(
        LLVM::ICmpOp::create(rewriter, loc, LLVM::ICmpPredicate::ne,
                             b.load(b.i32, isNew), b.constant(b.i32, 0)));
    rewriter.replaceOp(op, results);
    return success();
  }
};

struct GpuLaunchLowering : GpuPattern<tile_gpu::LaunchOp> {
  using GpuPattern::GpuPattern;

  LogicalResult
  matchAndRewrite(tile_gpu::LaunchOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    PlanFrame *frame = getFrame(op);
    if (!frame)
      return rewriter.notifyMatchFailure(op, "not inside a plan");
    Location loc = op.getLoc();
    PlanBuilder b(rewriter, loc);

    SmallVector<Value> addresses;
    auto pass = [&](Value value) {
      Value slot = makeSlot(b, rewriter, *frame, value.getType());
      b.store(value, slot);
      addresses.push_back(slot);
    };
    for (auto [value, argument] :
         llvm::zip_equal(adaptor.getArguments(), op.getArguments())) {
      if (isa<tile_gpu::TensorMapType>(argument.getType())) {
        addresses.push_back(value);
      } else if (auto type = dyn_cast<MemRefType>(argument.getType())) {
        MemRefDescriptor descriptor(value);
        pass(getData(b, rewriter, value, type));
        for (int64_t i = 0; i < type.getRank(); ++i)
          pass(descriptor.size(rewriter, loc, i));
        for (int64_t i = 0; i < type.getRank(); ++i)
          pass(descriptor.stride(rewriter, loc, i));
      } else if (argument.getType().isInteger(1)) {
        pass(LLVM::ZExtOp::create(rewriter, loc, rewriter.getI8Type(), value));
      } else {
        pass(value);
      }
    }
    Value params = makeSlot(
        b, rewriter, *frame,
        LLVM::LLVMArrayType::get(b.ptr, std::max<size_t>(addresses.size(), 1)));
    for (auto [i, address] : llvm::enumerate(addresses))
      b.store(address, b.gep(b.ptr, params, i));

    Value failed = LLVM::ICmpOp::create(rewriter, loc, LLVM::ICmpPredicate::ne,
                                        b.load(b.i32, frame->status),
                                        b.constant(b.i32, 0));
    Value grid = LLVM::SelectOp::create(
        rewriter, loc, failed, b.constant(b.i64, 0), adaptor.getGrid());
    int32_t flags = op.getProgrammatic() ? ATTN_LAUNCH_PROGRAMMATIC : 0;
    LLVM::CallOp call = b.callGpu(frame->runtime, LaunchKernel,
                                  {makeText(b, rewriter, op, op.getKernel()),
                                   grid, b.constant(b.i32, flags), params});
    b.mergeStatus(*frame, call.getResult());
    rewriter.eraseOp(op);
    return success();
  }
};

/// The declaration of a kernel: its code is elsewhere.
struct GpuKernelLowering : PlanPattern<tile_gpu::KernelOp> {
  using PlanPattern::PlanPattern;

  LogicalResult
  matchAndRewrite(tile_gpu::KernelOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!op.isExternal())
      return failure();
    rewriter.eraseOp(op);
    return success();
  }
};
} // namespace

void mlir::populateGpuPlanPatterns(LLVMTypeConverter &converter,
                                   RewritePatternSet &patterns,
                                   LoweringState &state) {
  converter.addConversion([](tile_gpu::TensorMapType type) -> Type {
    return LLVM::LLVMPointerType::get(type.getContext());
  });
  patterns.add<TensorMapLowering, ResetLowering, TicketsLowering, KeepLowering,
               GpuLaunchLowering, GpuKernelLowering>(converter, state);
}

LogicalResult mlir::prepareGpuKernels(ModuleOp module) {
  for (auto kernel : module.getOps<tile_gpu::KernelOp>()) {
    if (!kernel.isExternal())
      return kernel.emitError("expected the kernel to be lowered, but got its "
                              "body; run convert-tile-gpu-to-nvvm first");
    if (!kernel.getLaunch())
      return kernel.emitError("expected the declaration of a kernel to have "
                              "launch = #tile_gpu.launch<...>");
    for (auto gpuModule : module.getOps<gpu::GPUModuleOp>())
      if (Operation *code = gpuModule.lookupSymbol(kernel.getName()))
        code->setAttr(tile_gpu::TileGPUDialect::launchName,
                      kernel.getLaunchAttr());
  }
  // Before the plan's body moves: its arguments say what tensors are called.
  module.walk([](tile_gpu::TensorMapOp op) {
    op->setAttr(
        mlir::attn::getTensorNameName(),
        StringAttr::get(op.getContext(), getTensorName(op.getSource())));
  });
  return success();
}

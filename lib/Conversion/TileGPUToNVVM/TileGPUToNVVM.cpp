//===- TileGPUToNVVM.cpp - tile_gpu kernels to the LLVM dialect -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// convert-tile-gpu-to-nvvm: one walk for each kernel (KernelLowering.h).
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "attn/Analysis/TargetAttr.h"
#include "attn/Conversion/Passes.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

namespace attn {
#define GEN_PASS_DEF_CONVERTTILEGPUTONVVM
#include "attn/Conversion/Passes.h.inc"
} // namespace attn

using namespace mlir;

namespace {

/// The gpu.module that holds all kernels of a module.
constexpr StringRef kernelModuleName = "attn_kernels";

struct ConvertTileGPUToNVVM
    : ::attn::impl::ConvertTileGPUToNVVMBase<ConvertTileGPUToNVVM> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<tile_gpu::KernelOp> kernels;
    for (auto kernel : module.getOps<tile_gpu::KernelOp>())
      if (!kernel.isExternal())
        kernels.push_back(kernel);
    if (kernels.empty())
      return;
    std::optional<::attn::TargetInfo> target = ::attn::getGpuTarget(module);
    if (!target)
      return signalPassFailure();
    auto gpuModule = module.lookupSymbol<gpu::GPUModuleOp>(kernelModuleName);
    if (!gpuModule) {
      OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
      gpuModule =
          gpu::GPUModuleOp::create(builder, module.getLoc(), kernelModuleName);
    }
    for (tile_gpu::KernelOp kernel : kernels) {
      if (failed(::attn::gpu::expandMath(kernel)))
        return signalPassFailure();
      ::attn::gpu::KernelLowering lowering(
          kernel, *target, OpBuilder::atBlockEnd(gpuModule.getBody()));
      if (failed(lowering.run()))
        return signalPassFailure();
      kernel.eraseBody();
      kernel.setPrivate();
      kernel.removeSharedBytesAttr();
      kernel.setLaunchAttr(tile_gpu::LaunchAttr::get(
          module.getContext(), lowering.getThreads(), lowering.getSharedBytes(),
          lowering.isPersistent()));
    }
  }
};

} // namespace

//===- CompilerTest.cpp - From IR text to code that runs ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Compiler/Compiler.h"
#include "attn/Runtime/ThreadPool.h"
#include "attn/Target/TargetInfo.h"
#include "gtest/gtest.h"

#include <cmath>
#include <numeric>
#include <vector>

using namespace ::attn;

namespace {
/// The record of a tensor of rank R (attn/Runtime/Abi.h).
template <int R> struct Record {
  void *data;
  int64_t sizes[R];
  int64_t strides[R];
};

/// o[i, :] = f * x[i, :], twice, the first time into a workspace.
const char *scaleTwice = R"(
tile.kernel private @kernel(%x: memref<?x16xf32, strided<[?, 1]>>,
                          %o: memref<?x16xf32, strided<[?, 1]>>, %f: f32,
                          %block: index, %scratch: memref<64xi8>)
    attributes {scratch_bytes = 64 : i64} {
  %c0 = arith.constant 0 : index
  %s = memref.view %scratch[%c0][] : memref<64xi8> to memref<16xf32>
  %v = vector.load %x[%block, %c0] : memref<?x16xf32, strided<[?, 1]>>, vector<16xf32>
  %b = vector.broadcast %f : f32 to vector<16xf32>
  %m = arith.mulf %v, %b : vector<16xf32>
  vector.store %m, %s[%c0] : memref<16xf32>, vector<16xf32>
  %w = vector.load %s[%c0] : memref<16xf32>, vector<16xf32>
  vector.store %w, %o[%block, %c0] : memref<?x16xf32, strided<[?, 1]>>, vector<16xf32>
  tile.return
}
func.func @scale(%x: memref<?x16xf32, strided<[?, 1]>>, %f: f32,
                 %o: memref<?x16xf32, strided<[?, 1]>> {attn.arg = {output}})
    attributes {tile.plan} {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?x16xf32, strided<[?, 1]>>
  %w = tile.workspace(%n) : memref<?x16xf32>
  %wc = memref.cast %w : memref<?x16xf32> to memref<?x16xf32, strided<[?, 1]>>
  tile.launch @kernel grid(%n) args(%x, %wc, %f : memref<?x16xf32, strided<[?, 1]>>, memref<?x16xf32, strided<[?, 1]>>, f32)
  tile.launch @kernel grid(%n) args(%wc, %o, %f : memref<?x16xf32, strided<[?, 1]>>, memref<?x16xf32, strided<[?, 1]>>, f32)
  return
}
)";

/// A plan of one block whose kernel is `body`, on x and o of eight f32.
std::string makeMap(const std::string &body) {
  return R"(
tile.kernel private @kernel(%x: memref<8xf32>, %o: memref<8xf32>, %block: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  scf.for %i = %c0 to %c8 step %c1 {
    %a = memref.load %x[%i] : memref<8xf32>
)" + body +
         R"(
    memref.store %r, %o[%i] : memref<8xf32>
  }
  tile.return
}
func.func @map(%x: memref<8xf32>, %o: memref<8xf32>) attributes {tile.plan} {
  %c1 = arith.constant 1 : index
  tile.launch @kernel grid(%c1) args(%x, %o : memref<8xf32>, memref<8xf32>)
  return
}
)";
}

/// Compiles and runs makeMap(body) on x.
std::vector<float> runMap(const std::string &body, std::vector<float> x,
                          const std::string &target = "") {
  CompileOptions options;
  options.target = target;
  auto kernel = compile(makeMap(body), options);
  EXPECT_TRUE(bool(kernel)) << kernel.error();
  std::vector<float> o(8);
  if (!kernel)
    return o;
  Record<1> rx{x.data(), {8}, {1}}, ro{o.data(), {8}, {1}};
  void *args[] = {&rx, &ro};
  EXPECT_EQ((*kernel)->code[0](args, &defaultRuntime()), ATTN_RUNTIME_OK);
  return o;
}
} // namespace

TEST(Compiler, RunsAPlanWithScratchAndWorkspace) {
  auto kernel = compile(scaleTwice);
  ASSERT_TRUE(bool(kernel)) << kernel.error();
  const CompiledKernel &k = **kernel;
  ASSERT_EQ(k.entries.size(), 1u);
  EXPECT_EQ(k.entries[0].name, "scale");
  ASSERT_EQ(k.entries[0].args.size(), 3u);
  EXPECT_TRUE(k.entries[0].args[1].isScalar);
  EXPECT_TRUE(k.entries[0].args[2].isOutput);
  EXPECT_EQ(k.entries[0].args[0].shape, (std::vector<int64_t>{-1, 16}));

  // Rows of x are 20 elements apart, those of o 17.
  int64_t n = 100;
  std::vector<float> x(n * 20), o(n * 17, -1.0f);
  std::iota(x.begin(), x.end(), 0.0f);
  float f = 3.0f;
  Record<2> rx{x.data(), {n, 16}, {20, 1}}, ro{o.data(), {n, 16}, {17, 1}};
  void *args[] = {&rx, &f, &ro};
  ASSERT_EQ(k.code[0](args, &defaultRuntime()), ATTN_RUNTIME_OK);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < 17; ++j)
      ASSERT_EQ(o[i * 17 + j], j == 16 ? -1.0f : 9.0f * x[i * 20 + j]);

  // Without memory for the workspace nothing runs, and the caller hears of it.
  AttnRuntime poor = defaultRuntime();
  poor.allocate = [](const AttnRuntime *, int64_t) -> void * {
    return nullptr;
  };
  o.assign(o.size(), -1.0f);
  EXPECT_EQ(k.code[0](args, &poor), ATTN_RUNTIME_NO_MEMORY);
  EXPECT_EQ(o[0], -1.0f);
}

TEST(Compiler, FindsLibmAndHalfPrecisionOnEveryTarget) {
  std::vector<float> x = {-2.0f, -0.5f, 0.0f, 1e-6f,
                          0.1f,  0.7f,  1.0f, 60000.0f};
  for (const char *target : {"cpu-generic", "cpu-avx2", ""}) {
    if (std::string(target) == "cpu-avx2" &&
        TargetInfo::host().name == "cpu-generic")
      continue;
    auto erf = runMap("%r = math.erf %a : f32", x, target);
    auto half = runMap("%h = arith.truncf %a : f32 to f16\n"
                       "%r = arith.extf %h : f16 to f32",
                       x, target);
    auto bfloat = runMap("%h = arith.truncf %a : f32 to bf16\n"
                         "%r = arith.extf %h : bf16 to f32",
                         x, target);
    for (int i = 0; i < 8; ++i) {
      EXPECT_FLOAT_EQ(erf[i], std::erf(x[i])) << target;
      EXPECT_NEAR(half[i], x[i], std::fabs(x[i]) * 0x1p-11 + 0x1p-25) << target;
      EXPECT_NEAR(bfloat[i], x[i], std::fabs(x[i]) * 0x1p-8) << target;
    }
  }
}

TEST(Compiler, ReportsErrorsInOneLine) {
  auto fails = [](const char *source, const CompileOptions &options) {
    auto kernel = compile(source, options);
    EXPECT_FALSE(bool(kernel));
    return kernel.error();
  };
  CompileOptions options;
  options.sourceName = "x.mlir";
  EXPECT_EQ(fails("func.func @f(", options).rfind("x.mlir:1:", 0), 0u);
  EXPECT_EQ(fails("", options),
            "expected a public function with an operation of attn, but got "
            "none");
  options.target = "sm_90a";
  options.untilAfter = Phase::Vector;
  EXPECT_NE(fails(scaleTwice, options).find("expected a phase of 'sm_90a'"),
            std::string::npos);
  options.untilAfter.reset();
  options.target = "vax";
  EXPECT_NE(fails(scaleTwice, options).find("but got 'vax'"),
            std::string::npos);
  options.target = "";
  options.untilAfter = Phase::Input;
  EXPECT_NE(fails(scaleTwice, options).find("which the input has reached"),
            std::string::npos);
}

TEST(Compiler, StopsAndResumesAtPhases) {
  CompileOptions options;
  options.untilAfter = Phase::LLVM;
  auto lowered = compile(scaleTwice, options);
  ASSERT_TRUE(bool(lowered)) << lowered.error();
  EXPECT_TRUE((*lowered)->code.empty());
  auto resumed = compile((*lowered)->ir);
  ASSERT_TRUE(bool(resumed)) << resumed.error();
  ASSERT_EQ((*resumed)->code.size(), 1u);
  EXPECT_NE((*resumed)->code[0], nullptr);
}

// RUN: attn-opt %s --tile-expand-math=target=cpu-avx512 | FileCheck %s --check-prefixes=CHECK,AVX512
// RUN: attn-opt %s --tile-expand-math=target=cpu-avx2 | FileCheck %s --check-prefixes=CHECK,AVX2

// The integer part is split off by vreduce and put back by vscalef, or rounded
// off by the magic number and put back through the exponent field.
// CHECK-LABEL: func.func @exp2
func.func @exp2(%x: vector<16xf32>) -> vector<16xf32> {
  // AVX512: llvm.call_intrinsic "llvm.x86.avx512.mask.reduce.ps.512"
  // AVX2-DAG: %[[MAGIC:.*]] = arith.constant dense<0x4B400000> : vector<16xf32>
  // AVX2: %[[SHIFTED:.*]] = arith.addf %{{.*}}, %[[MAGIC]]
  // AVX2: %[[N:.*]] = arith.subf %[[SHIFTED]], %[[MAGIC]]
  // CHECK-COUNT-6: math.fma
  // AVX512: llvm.call_intrinsic "llvm.x86.avx512.mask.scalef.ps.512"
  // AVX2: arith.shli
  // CHECK-NOT: math.exp2
  %y = math.exp2 %x : vector<16xf32>
  return %y : vector<16xf32>
}

// CHECK-LABEL: func.func @tanh
func.func @tanh(%x: vector<16xf32>) -> vector<16xf32> {
  // AVX512: llvm.call_intrinsic "llvm.x86.avx512.rcp14.ps.512"
  // AVX2: arith.divf
  // CHECK-NOT: math.tanh
  %y = math.tanh %x : vector<16xf32>
  return %y : vector<16xf32>
}

// Others take upstream's polynomials.
// CHECK-LABEL: func.func @log
func.func @log(%x: vector<16xf32>) -> vector<16xf32> {
  // CHECK-NOT: math.log
  %y = math.log %x : vector<16xf32>
  return %y : vector<16xf32>
}

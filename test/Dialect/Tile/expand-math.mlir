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

// Beside products of bf16: a quadratic whose coefficients a permutation picks,
// with the factors in them that all lanes share. Other factors stay outside.
// CHECK-LABEL: func.func @softcap
// CHECK-SAME: %[[X:[^:]*]]: vector<16xf32>, %{{.*}}: vector<32xbf16>, %[[Y:[^:]*]]: vector<16xf32>
func.func @softcap(%x: vector<16xf32>, %p: vector<32xbf16>, %y: vector<16xf32>,
                   %step: f32, %cap: f32)
    -> (vector<16xf32>, vector<16xf32>) {
  // AVX512: %[[S:.*]] = llvm.call_intrinsic
  // AVX512: %[[STEP:.*]] = vector.broadcast
  // AVX512: %[[CAP:.*]] = vector.broadcast
  // AVX512: arith.divf
  // AVX512: arith.cmpf olt, %[[S]], %{{.*}}
  // AVX512: arith.bitcast %{{.*}} : vector<16xf32> to vector<16xi32>
  // AVX512: arith.mulf %[[STEP]], %[[CAP]]
  // AVX512: llvm.call_intrinsic "llvm.x86.avx512.vpermi2var.ps.512"
  // AVX512-COUNT-2: math.fma
  // AVX512: %[[CAPPED:.*]] = arith.mulf
  // AVX512: arith.cmpf olt, %[[X]], %{{.*}}
  // AVX512-COUNT-2: math.fma
  // AVX512: %[[TANH:.*]] = arith.mulf
  // AVX512: %[[OWN:.*]] = arith.mulf %[[TANH]], %[[Y]]
  // AVX2: arith.divf
  // CHECK-NOT: math.tanh
  // AVX512: return %[[CAPPED]], %[[OWN]]
  %s = llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"(%x, %p, %p)
      : (vector<16xf32>, vector<32xbf16>, vector<32xbf16>) -> vector<16xf32>
  %w = vector.broadcast %step : f32 to vector<16xf32>
  %r = arith.mulf %s, %w : vector<16xf32>
  %t = math.tanh %r : vector<16xf32>
  %c = vector.broadcast %cap : f32 to vector<16xf32>
  %capped = arith.mulf %c, %t : vector<16xf32>
  %u = math.tanh %x : vector<16xf32>
  %own = arith.mulf %u, %y : vector<16xf32>
  return %capped, %own : vector<16xf32>, vector<16xf32>
}

// Others take upstream's polynomials.
// CHECK-LABEL: func.func @log
func.func @log(%x: vector<16xf32>) -> vector<16xf32> {
  // CHECK-NOT: math.log
  %y = math.log %x : vector<16xf32>
  return %y : vector<16xf32>
}

// The quadrant of x and what is left of it, with pi / 2 in three parts.
// CHECK-LABEL: func.func @sine(
// CHECK-NOT:     math.sin
// CHECK-COUNT-3: math.fma {{.*}} : vector<16xf32>
// CHECK:         arith.bitcast {{.*}} : vector<16xf32> to vector<16xi32>
// CHECK-NOT:     math.{{sin|cos}}
// CHECK:         return
func.func @sine(%x: vector<16xf32>) -> (vector<16xf32>, vector<16xf32>) {
  %y = math.sin %x : vector<16xf32>
  %z = math.cos %x : vector<16xf32>
  return %y, %z : vector<16xf32>, vector<16xf32>
}

// RUN: attn-opt %s --tile-expand-math=target=cpu-avx512 | FileCheck %s --check-prefixes=CHECK,AVX512
// RUN: attn-opt %s --tile-expand-math=target=cpu-avx2 | FileCheck %s --check-prefixes=CHECK,AVX2
// RUN: attn-opt %s --tile-expand-math=target=cpu-generic | FileCheck %s --check-prefixes=CHECK,GENERIC

// The integer part is split off by vreduce and put back by vscalef, or rounded
// off by the magic number and put back through the exponent field.
// CHECK-LABEL: func.func @exp2
func.func @exp2(%x: vector<16xf32>) -> vector<16xf32> {
  // AVX512: llvm.call_intrinsic "llvm.x86.avx512.mask.reduce.ps.512"
  // AVX2-DAG: %[[MAGIC:.*]] = arith.constant dense<0x4B400000> : vector<16xf32>
  // AVX2: %[[SHIFTED:.*]] = arith.addf %{{.*}}, %[[MAGIC]]
  // AVX2: %[[N:.*]] = arith.subf %[[SHIFTED]], %[[MAGIC]]
  // AVX512-COUNT-6: math.fma
  // AVX2-COUNT-6: math.fma
  // GENERIC-COUNT-6: arith.addf
  // AVX512: llvm.call_intrinsic "llvm.x86.avx512.mask.scalef.ps.512"
  // AVX2: arith.shli
  // CHECK-NOT: math.exp2
  %y = math.exp2 %x : vector<16xf32>
  return %y : vector<16xf32>
}

// What is known to be 0 takes no part in arithmetic of numbers that are too
// small: its lanes are masked off, or its power of two is 0.
// CHECK-LABEL: func.func @vanishing
// CHECK-SAME: %[[X:.*]]: vector<16xf32>
func.func @vanishing(%x: vector<16xf32>) -> (vector<16xf32>, vector<16xf32>) {
  // CHECK-DAG: %[[LEAST:.*]] = arith.constant dense<-1.160000e+02>
  // CHECK: %[[MORE:.*]] = arith.cmpf uge, %[[X]], %[[LEAST]]
  // AVX512: vector.bitcast %[[MORE]] : vector<16xi1> to vector<1xi16>
  // AVX512: llvm.call_intrinsic "llvm.x86.avx512.mask.scalef.ps.512"
  // AVX2: arith.select %[[MORE]], %{{.*}}, %{{.*}} : vector<16xi1>, vector<16xf32>
  // GENERIC: arith.select %[[MORE]], %{{.*}}, %{{.*}} : vector<16xi1>, vector<16xf32>
  // By default what rounds to 0 does; of powers of e, below -150 log(2).
  // CHECK-DAG: %[[DEFAULT:.*]] = arith.constant dense<-103.972076>
  // CHECK: arith.cmpf uge, %[[X]], %[[DEFAULT]]
  %y = math.exp2 %x {tile.least_power = -116 : i32} : vector<16xf32>
  %z = math.exp %x : vector<16xf32>
  return %y, %z : vector<16xf32>, vector<16xf32>
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
// with a factor in them that all lanes share. The tangent's argument is clamped,
// so that infinite ones give the factor. Other factors stay outside.
// CHECK-LABEL: func.func @softcap
// CHECK-SAME: %[[X:[^:]*]]: vector<16xf32>, %{{.*}}: vector<32xbf16>, %[[Y:[^:]*]]: vector<16xf32>
func.func @softcap(%x: vector<16xf32>, %p: vector<32xbf16>, %y: vector<16xf32>,
                   %step: f32, %cap: f32)
    -> (vector<16xf32>, vector<16xf32>) {
  // AVX512: %[[R:.*]] = arith.mulf
  // AVX512: %[[CAP:.*]] = vector.broadcast
  // AVX512: arith.cmpf olt, %[[R]], %{{.*}}
  // AVX512: arith.bitcast %{{.*}} : vector<16xf32> to vector<16xi32>
  // AVX512: arith.mulf %{{.*}}, %[[CAP]]
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

// No function of f32 is left that would be a call, of 16 bits neither; those of
// f64 are. What libm has is left where it is an instruction.
// CHECK-LABEL: func.func @all(
// CHECK-NOT:     math.{{exp|log|rsqrt|cbrt|sin|cos|tan|asin|acos|atan|erf|pow|fpowi}}
// CHECK-NOT:     arith.remf
// CHECK:         math.sin {{.*}} : vector<8xf64>
// CHECK-NOT:     math.{{exp|log|rsqrt|cbrt|sin|cos|tan|asin|acos|atan|erf|pow|fpowi}}
// CHECK:         return
func.func @all(%x: vector<16xf32>, %y: vector<16xf32>, %n: vector<16xi32>,
               %wide: vector<8xf64>, %narrow: vector<16xbf16>)
    -> (vector<16xf32>, vector<8xf64>, vector<16xbf16>) {
  %0 = math.exp %x : vector<16xf32>
  %1 = math.expm1 %0 : vector<16xf32>
  %2 = math.log %1 : vector<16xf32>
  %3 = math.log2 %2 : vector<16xf32>
  %4 = math.log10 %3 : vector<16xf32>
  %5 = math.log1p %4 : vector<16xf32>
  %6 = math.rsqrt %5 : vector<16xf32>
  %7 = math.cbrt %6 : vector<16xf32>
  %8 = math.sin %7 : vector<16xf32>
  %9 = math.cos %8 : vector<16xf32>
  %10 = math.tan %9 : vector<16xf32>
  %11 = math.sinh %10 : vector<16xf32>
  %12 = math.cosh %11 : vector<16xf32>
  %13 = math.tanh %12 : vector<16xf32>
  %14 = math.asin %13 : vector<16xf32>
  %15 = math.acos %14 : vector<16xf32>
  %16 = math.atan %15 : vector<16xf32>
  %17 = math.atan2 %16, %y : vector<16xf32>
  %18 = math.asinh %17 : vector<16xf32>
  %19 = math.acosh %18 : vector<16xf32>
  %20 = math.atanh %19 : vector<16xf32>
  %21 = math.erf %20 : vector<16xf32>
  %22 = math.erfc %21 : vector<16xf32>
  %23 = math.powf %22, %y : vector<16xf32>
  %24 = math.fpowi %23, %n : vector<16xf32>, vector<16xi32>
  %25 = arith.remf %24, %y : vector<16xf32>
  %26 = math.sin %wide : vector<8xf64>
  %27 = math.log1p %narrow : vector<16xbf16>
  return %25, %26, %27 : vector<16xf32>, vector<8xf64>, vector<16xbf16>
}

// Rounding is an instruction from SSE4.1 on.
// CHECK-LABEL: func.func @rounding(
// AVX2:          math.floor
// AVX2:          math.roundeven
// GENERIC-NOT:   math.{{floor|ceil|trunc|round}}
// GENERIC-NOT:   math.fma
// GENERIC:       return
func.func @rounding(%x: vector<4xf32>) -> vector<4xf32> {
  %0 = math.floor %x : vector<4xf32>
  %1 = math.ceil %0 : vector<4xf32>
  %2 = math.trunc %1 : vector<4xf32>
  %3 = math.round %2 : vector<4xf32>
  %4 = math.roundeven %3 : vector<4xf32>
  %5 = math.fma %4, %3, %2 : vector<4xf32>
  return %5 : vector<4xf32>
}

// The quadrant of x and what is left of it, with pi / 2 in three parts; large
// angles are another function's, called for a lane at a time.
// CHECK-LABEL: func.func @sine(
// CHECK-NOT:     math.sin
// AVX512-COUNT-3: math.fma {{.*}} : vector<16xf32>
// CHECK:         arith.bitcast {{.*}} : vector<16xf32> to vector<16xi32>
// CHECK:         vector.reduction <or>
// CHECK:         scf.if
// CHECK:           scf.for
// CHECK:             call @attn_large_sin(%{{.*}}) : (f32) -> f32
// CHECK-NOT:     math.{{sin|cos}}
// CHECK:         return
func.func @sine(%x: vector<16xf32>) -> (vector<16xf32>, vector<16xf32>) {
  %y = math.sin %x : vector<16xf32>
  %z = math.cos %x : vector<16xf32>
  return %y, %z : vector<16xf32>, vector<16xf32>
}

// CHECK: func.func private @attn_large_{{sin|cos|tan}}(%{{.*}}: f32) -> f32 attributes {passthrough = ["cold", "noinline"]}

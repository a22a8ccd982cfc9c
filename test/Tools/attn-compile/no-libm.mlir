// RUN: attn-compile %s --target cpu-generic -o %t && llvm-nm -u %t.o | FileCheck %s --allow-empty
// RUN: attn-compile %s --target cpu-avx2 -o %t && llvm-nm -u %t.o | FileCheck %s --allow-empty
// RUN: attn-compile %s --target cpu-avx512 -o %t && llvm-nm -u %t.o | FileCheck %s --allow-empty
// RUN: attn-compile %s --target cpu-avx512-bf16 -o %t && llvm-nm -u %t.o | FileCheck %s --allow-empty
// RUN: attn-compile %s --target cpu-amx -o %t && llvm-nm -u %t.o | FileCheck %s --allow-empty

// Objects of CPU targets call no function of libm, whatever a region asks for of
// f32 and narrower types; this one names no symbol that it does not hold.
// CHECK-NOT: {{.}}
func.func @all(%q: tensor<?x?x?x8xf32>, %k: tensor<?x?x?x8xf32>, %v: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x8xf32>) keys(%k : tensor<?x?x?x8xf32>)
    values(%v : tensor<?x?x?x8xf32>)
    score {
    ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
      %y = arith.sitofp %j : i32 to f32
      %0 = math.exp %s : f32
      %1 = math.exp2 %0 : f32
      %2 = math.expm1 %1 : f32
      %3 = math.log %2 : f32
      %4 = math.log2 %3 : f32
      %5 = math.log10 %4 : f32
      %6 = math.log1p %5 : f32
      %7 = math.sqrt %6 : f32
      %8 = math.rsqrt %7 : f32
      %9 = math.cbrt %8 : f32
      %10 = math.sin %9 : f32
      %11 = math.cos %10 : f32
      %12 = math.tan %11 : f32
      %13 = math.sinh %12 : f32
      %14 = math.cosh %13 : f32
      %15 = math.tanh %14 : f32
      %16 = math.asin %15 : f32
      %17 = math.acos %16 : f32
      %18 = math.atan %17 : f32
      %19 = math.asinh %18 : f32
      %20 = math.acosh %19 : f32
      %21 = math.atanh %20 : f32
      %22 = math.erf %21 : f32
      %23 = math.erfc %22 : f32
      %24 = math.floor %23 : f32
      %25 = math.ceil %24 : f32
      %26 = math.round %25 : f32
      %27 = math.roundeven %26 : f32
      %28 = math.trunc %27 : f32
      %29 = math.absf %28 : f32
      %b0 = math.powf %29, %y : f32
      %b1 = math.atan2 %b0, %y : f32
      %b2 = math.copysign %b1, %y : f32
      %b3 = arith.remf %b2, %y : f32
      %b4 = math.fma %b3, %y, %y : f32
      %b5 = math.fpowi %b4, %i : f32, i32
      %b6 = arith.maximumf %b5, %y : f32
      %b7 = arith.minnumf %b6, %y : f32
      %b8 = math.clampf %b7 to [%y, %s] : f32
      %narrow = arith.truncf %b8 : f32 to bf16
      %log = math.log %narrow : bf16
      %wide = arith.extf %log : bf16 to f32
      %tests0 = math.isnan %wide : f32
      %tests1 = math.isinf %s : f32
      %tests2 = math.isfinite %s : f32
      %tests3 = math.isnormal %s : f32
      %t1 = arith.andi %tests0, %tests1 : i1
      %t2 = arith.andi %tests2, %tests3 : i1
      %t3 = arith.ori %t1, %t2 : i1
      %i0 = math.absi %i : i32
      %i2 = math.ctlz %i0 : i32
      %i3 = math.cttz %i2 : i32
      %i4 = math.ctpop %i3 : i32
      %number = arith.sitofp %i4 : i32 to f32
      %chosen = arith.select %t3, %wide, %number : f32
      attn.yield %chosen : f32
    } -> tensor<?x?x?x8xf32>
  return %o : tensor<?x?x?x8xf32>
}

// A bias of bf16, whose elements at the end of a row are read one by one: libgcc has
// a function that narrows to bf16 from version 13 on alone.
func.func @bias(%q: tensor<?x?x?x8xf32>, %k: tensor<?x?x?x8xf32>, %v: tensor<?x?x?x8xf32>, %x: tensor<?x?x?x?xbf16>) -> tensor<?x?x?x8xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x8xf32>) keys(%k : tensor<?x?x?x8xf32>)
    values(%v : tensor<?x?x?x8xf32>) bias(%x : tensor<?x?x?x?xbf16>)
    -> tensor<?x?x?x8xf32>
  return %o : tensor<?x?x?x8xf32>
}

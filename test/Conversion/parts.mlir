// Keys of bf16 beside values and a state of f32. AMX multiplies them by three
// parts of bf16, which have all bits of an f32, in the same sums; other CPUs
// widen the keys.
// RUN: attn-opt %s --convert-tile-to-vector=target=cpu-amx | FileCheck %s --check-prefix=AMX
// RUN: attn-opt %s --convert-tile-to-vector=target=cpu-avx512-bf16 | FileCheck %s --check-prefix=FMA

!rows = memref<?x64xbf16, strided<[?, 1]>>
!wide = memref<?x64xf32, strided<[?, 1]>>

// AMX-LABEL: tile.kernel @parts
// The first part is rounded and stored; of what is not finite nothing is left.
// The others are the upper halves of what is left, and of what that leaves.
// AMX: %[[FIRST:.*]] = llvm.call_intrinsic "llvm.x86.avx512bf16.cvtne2ps2bf16.512"
// AMX: %[[PAIR:.*]] = vector.shuffle %[[FIRST]], %[[FIRST]] [0, 16, 1, 17,
// AMX: %[[LEFT:.*]] = arith.subf
// AMX: llvm.call_intrinsic "llvm.x86.avx512.mask.fixupimm.ps.512"(%[[LEFT]], %[[LEFT]],
// AMX: %[[LOW:.*]] = arith.shrui
// AMX: %[[BOTH:.*]] = arith.ori %[[LOW]],
// AMX: %[[SECOND:.*]] = vector.bitcast %[[BOTH]] : vector<16xi32> to vector<32xbf16>
// AMX: %[[LOWER:.*]] = arith.shrui
// AMX: %[[REST:.*]] = arith.ori %[[LOWER]],
// AMX: %[[THIRD:.*]] = vector.bitcast %[[REST]] : vector<16xi32> to vector<32xbf16>
// AMX: vector.store %[[PAIR]], %[[ROUNDED:.*]][%{{.*}}] : memref<2048xbf16>, vector<32xbf16>
// AMX: vector.store %[[SECOND]], %[[OTHERS:.*]][%{{.*}}] : memref<2048xbf16>, vector<32xbf16>
// AMX: vector.store %[[THIRD]], %[[OTHERS]][%{{.*}}] : memref<2048xbf16>, vector<32xbf16>
// AMX-COUNT-1: cvtne2ps2bf16
// AMX-NOT: cvtne2ps2bf16
// The three of a block follow each other, with the same sums and rows.
// AMX-COUNT-4: "llvm.x86.tilezero"
// AMX-COUNT-4: "llvm.x86.tileloadd64"
// AMX-COUNT-4: "llvm.x86.tdpbf16ps"
// AMX-COUNT-2: "llvm.x86.tileloadd64"
// AMX-COUNT-4: "llvm.x86.tdpbf16ps"
// AMX-COUNT-2: "llvm.x86.tileloadd64"
// AMX-COUNT-4: "llvm.x86.tdpbf16ps"
// Then they are added to rows of the state, which are scaled: a third each while
// the next block computes a part, those of the last one behind it.
// AMX-COUNT-4: "llvm.x86.tilestored64"
// AMX-COUNT-4: "llvm.x86.tdpbf16ps"
// AMX-COUNT-20: math.fma
// AMX-COUNT-4: "llvm.x86.tdpbf16ps"
// AMX-COUNT-22: math.fma
// AMX-COUNT-4: "llvm.x86.tdpbf16ps"
// AMX-COUNT-22: math.fma
// AMX-COUNT-4: "llvm.x86.tilestored64"
// AMX-COUNT-64: math.fma
// AMX-NOT: math.fma
// FMA-LABEL: tile.kernel @parts
// FMA: arith.extf %{{.*}} : {{.*}}bf16{{.*}} to {{.*}}f32
// FMA: math.fma {{.*}} : vector<16xf32>
tile.kernel @parts(%K: !rows, %V: !wide, %S: !wide, %x: f32, %block: index) {
  %c0 = arith.constant 0 : index
  %k = tile.load %K[%c0, %c0] : !rows -> !tile.tile<32x64xbf16>
  %v = tile.load %V[%c0, %c0] : !wide -> !tile.tile<32x64xf32>
  %acc = tile.load %S[%c0, %c0] : !wide -> !tile.tile<64x64xf32>
  %scale = tile.fill %x : f32 -> !tile.tile<64x1xf32>
  %s = tile.dot %k, %v acc %acc scale %scale transpose_lhs
      : !tile.tile<32x64xbf16>, !tile.tile<32x64xf32> -> !tile.tile<64x64xf32>
  tile.store %s, %S[%c0, %c0] : !tile.tile<64x64xf32>, !wide
  tile.return
}

// What is rounded for products alone is packed as it is read; the first of its
// parts is the same.
// AMX-LABEL: tile.kernel @rounded
// AMX-COUNT-2: cvtne2ps2bf16
// AMX-NOT: cvtne2ps2bf16
// AMX-NOT: arith.truncf
// AMX: tile.return
tile.kernel @rounded(%K: !rows, %V: !wide, %S: !wide, %T: !wide, %block: index) {
  %c0 = arith.constant 0 : index
  %k = tile.load %K[%c0, %c0] : !rows -> !tile.tile<32x64xbf16>
  %v = tile.load %V[%c0, %c0] : !wide -> !tile.tile<64x64xf32>
  %exact = tile.dot %k, %v : !tile.tile<32x64xbf16>, !tile.tile<64x64xf32> -> !tile.tile<32x64xf32>
  %narrow = tile.map ins(%v : !tile.tile<64x64xf32>) {
  ^bb0(%r: i32, %c: i32, %x: f32):
    %y = arith.truncf %x : f32 to bf16
    tile.yield %y : bf16
  } -> !tile.tile<64x64xbf16>
  %rough = tile.dot %k, %narrow : !tile.tile<32x64xbf16>, !tile.tile<64x64xbf16> -> !tile.tile<32x64xf32>
  tile.store %exact, %S[%c0, %c0] : !tile.tile<32x64xf32>, !wide
  tile.store %rough, %T[%c0, %c0] : !tile.tile<32x64xf32>, !wide
  tile.return
}

// Rows that lie in memory are as far apart as those of the tensor.
// AMX-LABEL: tile.kernel @in_memory
// AMX: %[[BYTES:.*]] = arith.muli %strides{{.*}}#0, %c4
// AMX-NEXT: %[[STRIDE:.*]] = arith.index_cast %[[BYTES]]
// AMX: "llvm.x86.tileloadd64"(%{{.*}}, %{{.*}}, %[[STRIDE]])
tile.kernel @in_memory(%K: !rows, %V: !wide, %S: !wide, %block: index) {
  %c0 = arith.constant 0 : index
  %k = tile.load %K[%c0, %c0] : !rows -> !tile.tile<32x64xbf16>
  %v = tile.load %V[%c0, %c0] : !wide -> !tile.tile<32x64xf32>
  %acc = tile.load %S[%c0, %c0] : !wide -> !tile.tile<64x64xf32>
  %s = tile.dot %k, %v acc %acc transpose_lhs
      : !tile.tile<32x64xbf16>, !tile.tile<32x64xf32> -> !tile.tile<64x64xf32>
  tile.store %s, %S[%c0, %c0] : !tile.tile<64x64xf32>, !wide
  tile.return
}

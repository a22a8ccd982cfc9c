// RUN: attn-opt %s --convert-tile-to-vector=target=cpu-avx512 | FileCheck %s --check-prefixes=CHECK,F32
// RUN: attn-opt %s --convert-tile-to-vector=target=cpu-amx | FileCheck %s --check-prefixes=CHECK,AMX
// RUN: attn-opt %s --convert-tile-to-vector=target=cpu-avx2 | FileCheck %s --check-prefixes=CHECK,AVX2

!in = memref<?x64xf32, strided<[?, 1]>>
!half = memref<?x64xbf16, strided<[?, 1]>>

// S = Q K^T and its row maximum; the map and the reduction are one loop.
// CHECK-LABEL: tile.kernel @scores
// CHECK-SAME: %[[SCRATCH:[a-z0-9]+]]: memref<[[N:[0-9]+]]xi8>) attributes {scratch_bytes = [[N]] : i64}
tile.kernel @scores(%Q: !in, %K: !in, %M: memref<?xf32, strided<[1]>>, %n: index, %block: index) {
  %c0 = arith.constant 0 : index
  %ninf = arith.constant 0xFF800000 : f32
  %two = arith.constant 2.0 : f32
  %q = tile.load %Q[%block, %c0] rows(%c0 to %n) : !in -> !tile.tile<32x64xf32>
  // The keys are transposed into panels as they are read.
  // F32: vector.maskedload {{.*}} vector<16xf32>
  // F32: vector.shuffle
  // AVX2: vector.shuffle {{.*}} vector<8xf32>
  %k = tile.load %K[%c0, %c0] rows(%c0 to %n) : !in -> !tile.tile<128x64xf32>
  // F32: math.fma {{.*}} : vector<16xf32>
  %s = tile.dot %q, %k transpose_rhs : !tile.tile<32x64xf32>, !tile.tile<128x64xf32> -> !tile.tile<32x128xf32>
  // F32: arith.mulf {{.*}} : vector<16xf32>
  // F32: arith.maximumf {{.*}} : vector<16xf32>
  // The lanes of 16 rows are folded together.
  // F32: vector.shuffle {{.*}} vector<16xf32>
  // F32: arith.maximumf {{.*}} : vector<16xf32>
  %t = tile.map ins(%s : !tile.tile<32x128xf32>) {
  ^bb0(%r: i32, %c: i32, %x: f32):
    %y = arith.mulf %x, %two : f32
    tile.yield %y : f32
  } -> !tile.tile<32x128xf32>
  %m = tile.reduce ins(%t : !tile.tile<32x128xf32>) identity(%ninf : f32) {
  ^bb0(%a: f32, %b: f32):
    %x = arith.maximumf %a, %b : f32
    tile.yield %x : f32
  } -> !tile.tile<32x1xf32>
  tile.store vector %m, %M[%block] rows(%c0 to %n) : !tile.tile<32x1xf32>, memref<?xf32, strided<[1]>>
  // CHECK-NOT: tile.{{load|dot|map|store}}
  tile.return
}

// CHECK-LABEL: kernel @bf16
tile.kernel @bf16(%Q: !half, %K: !half, %S: memref<?x128xf32, strided<[?, 1]>>, %block: index) {
  %c0 = arith.constant 0 : index
  %q = tile.load %Q[%block, %c0] : !half -> !tile.tile<32x64xbf16>
  %k = tile.load %K[%c0, %c0] : !half -> !tile.tile<128x64xbf16>
  // AMX: llvm.call_intrinsic "llvm.x86.ldtilecfg"
  // AMX: llvm.call_intrinsic "llvm.x86.tdpbf16ps"
  // AMX: llvm.call_intrinsic "llvm.x86.tilerelease"
  // F32-NOT: tdpbf16ps
  // F32: arith.extf
  %s = tile.dot %q, %k transpose_rhs : !tile.tile<32x64xbf16>, !tile.tile<128x64xbf16> -> !tile.tile<32x128xf32>
  tile.store %s, %S[%block, %c0] : !tile.tile<32x128xf32>, memref<?x128xf32, strided<[?, 1]>>
  tile.return
}

// Loop states that change places: the one that is overwritten first moves out
// of the way.
// CHECK-LABEL: kernel @swap
// CHECK-SAME:  scratch_bytes = 192 : i64
// CHECK:       memref.store %{{.*}}, %[[X:.*]][%{{.*}}] : memref<16xf32>
// CHECK:       memref.store %{{.*}}, %[[Y:.*]][%{{.*}}] : memref<16xf32>
// CHECK:       scf.for
// CHECK:         %[[V:.*]] = vector.load %[[X]][
// CHECK-NEXT:    vector.store %[[V]], %[[ASIDE:.*]][
// CHECK:         %[[V:.*]] = vector.load %[[Y]][
// CHECK-NEXT:    vector.store %[[V]], %[[X]][
// CHECK:         %[[V:.*]] = vector.load %[[ASIDE]][
// CHECK-NEXT:    vector.store %[[V]], %[[Y]][
tile.kernel @swap(%A: memref<?xf32, strided<[1]>>, %B: memref<?xf32, strided<[1]>>, %n: index, %block: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = tile.load vector %A[%c0] : memref<?xf32, strided<[1]>> -> !tile.tile<16x1xf32>
  %b = tile.load vector %B[%c0] : memref<?xf32, strided<[1]>> -> !tile.tile<16x1xf32>
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a, %y = %b)
      -> (!tile.tile<16x1xf32>, !tile.tile<16x1xf32>) {
    scf.yield %y, %x : !tile.tile<16x1xf32>, !tile.tile<16x1xf32>
  }
  tile.store vector %r#0, %A[%c0] : !tile.tile<16x1xf32>, memref<?xf32, strided<[1]>>
  tile.store vector %r#1, %B[%c0] : !tile.tile<16x1xf32>, memref<?xf32, strided<[1]>>
  tile.return
}

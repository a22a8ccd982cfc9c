// Left operands and loads that are transposed, vectors along the columns and
// additions to memory, on CPUs.
// RUN: attn-opt %s --convert-tile-to-vector=target=cpu-avx512 | FileCheck %s --check-prefixes=CHECK,F32
// RUN: attn-opt %s --convert-tile-to-vector=target=cpu-amx | FileCheck %s --check-prefixes=CHECK,AMX

!in = memref<?x64xf32, strided<[?, 1]>>
!half = memref<?x64xbf16, strided<[?, 1]>>

// K^T V: the left operand is read down its columns, in place.
// CHECK-LABEL: tile.kernel @left
tile.kernel @left(%K: !in, %V: !in, %S: !in, %n: index, %block: index) {
  %c0 = arith.constant 0 : index
  %k = tile.load %K[%block, %c0] rows(%c0 to %n) : !in -> !tile.tile<32x64xf32>
  %v = tile.load %V[%block, %c0] rows(%c0 to %n) : !in -> !tile.tile<32x64xf32>
  // F32: scf.for %[[ROW:.*]] = %{{.*}} to %c64
  // F32: scf.for %[[K:.*]] = %{{.*}} to %c32{{.*}} iter_args
  // F32: memref.load %{{.*}}[%[[K]], %{{.*}}] : memref<32x64xf32>
  // F32: math.fma {{.*}} : vector<16xf32>
  %s = tile.dot %k, %v transpose_lhs : !tile.tile<32x64xf32>, !tile.tile<32x64xf32> -> !tile.tile<64x64xf32>
  // Added with vectors, in order.
  // F32: %[[OLD:.*]] = vector.load %{{.*}} : memref<?x64xf32, strided<[?, 1]>>, vector<16xf32>
  // F32: arith.addf %[[OLD]], %{{.*}} : vector<16xf32>
  // F32: vector.store
  // CHECK-NOT: memref.atomic_rmw
  tile.accumulate %s, %S[%c0, %c0] : !tile.tile<64x64xf32>, !in
  tile.return
}

// Pairs of bf16 are neighbours in a row, and matrix units want rows: the operand
// is transposed first, as words of two neighbours, of whose halves two rows are
// made.
// CHECK-LABEL: tile.kernel @left_half
// AMX-COUNT-128: vector.shuffle %{{.*}} : vector<16xi32>, vector<16xi32>
// AMX: vector.shuffle %{{.*}}, %{{.*}} [0, 2, 4, {{.*}}, 62] : vector<32xbf16>, vector<32xbf16>
// AMX: vector.shuffle %{{.*}}, %{{.*}} [1, 3, 5, {{.*}}, 63] : vector<32xbf16>, vector<32xbf16>
// AMX: vector.store %{{.*}} : memref<64x32xbf16>, vector<32xbf16>
// AMX: tdpbf16ps
tile.kernel @left_half(%K: !half, %V: !half, %S: !in, %n: index, %block: index) {
  %c0 = arith.constant 0 : index
  %k = tile.load %K[%block, %c0] rows(%c0 to %n) : !half -> !tile.tile<32x64xbf16>
  %v = tile.load %V[%block, %c0] rows(%c0 to %n) : !half -> !tile.tile<32x64xbf16>
  %s = tile.dot %k, %v transpose_lhs : !tile.tile<32x64xbf16>, !tile.tile<32x64xbf16> -> !tile.tile<64x64xf32>
  // CHECK: memref.atomic_rmw addf %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] : (f32, memref<?x64xf32, strided<[?, 1]>>) -> f32
  tile.accumulate any_order %s, %S[%c0, %c0] rows(%c0 to %n) : !tile.tile<64x64xf32>, !in
  tile.return
}

// What is loaded transposed is packed as the plain operand of a transposing
// product is, and the other way round.
// CHECK-LABEL: tile.kernel @right
tile.kernel @right(%Q: !in, %K: !in, %S: memref<?x32xf32, strided<[?, 1]>>, %block: index) {
  %c0 = arith.constant 0 : index
  %q = tile.load %Q[%block, %c0] : !in -> !tile.tile<32x64xf32>
  // F32: vector.shuffle
  %k = tile.load transposed %K[%block, %c0] : !in -> !tile.tile<64x32xf32>
  %s = tile.dot %q, %k : !tile.tile<32x64xf32>, !tile.tile<64x32xf32> -> !tile.tile<32x32xf32>
  tile.store %s, %S[%c0, %c0] : !tile.tile<32x32xf32>, memref<?x32xf32, strided<[?, 1]>>
  tile.return
}

// Rows of memory that are columns, of those that there are: element by element.
// CHECK-LABEL: tile.kernel @store
// CHECK: %[[C:.*]] = memref.dim %{{.*}}, %c1
// CHECK: %[[N:.*]] = arith.minsi %{{.*}}, %[[C]]
// CHECK: scf.for %[[R:.*]] = %{{.*}} to %{{.*}}
// CHECK: scf.for %[[I:.*]] = %c0{{.*}} to %[[N]]
// CHECK: memref.load %{{.*}}[%[[I]], %[[R]]] : memref<32x64xf32>
// CHECK: memref.store %{{.*}}, %{{.*}}[%{{.*}}, %[[I]]]
tile.kernel @store(%X: !in, %O: memref<?x32xf32, strided<[?, 1]>>, %n: index, %block: index) {
  %c0 = arith.constant 0 : index
  %x = tile.load %X[%block, %c0] : !in -> !tile.tile<32x64xf32>
  tile.store transposed %x, %O[%c0, %c0] rows(%c0 to %n) : !tile.tile<32x64xf32>, memref<?x32xf32, strided<[?, 1]>>
  tile.return
}

// CHECK-LABEL: tile.kernel @columns
tile.kernel @columns(%X: !in, %L: memref<?xf32, strided<[?]>>, %O: memref<?x32xf32, strided<[?, 1]>>, %n: index, %block: index) {
  %c0 = arith.constant 0 : index
  // CHECK: %[[X:.*]] = memref.load %{{.*}}[%{{.*}}] : memref<?xf32, strided<[?]>>
  // CHECK: memref.store %{{.*}}, %{{.*}}[%c0{{.*}}, %{{.*}}] : memref<1x32xf32>
  %l = tile.load vector transposed %L[%block] rows(%c0 to %n) : memref<?xf32, strided<[?]>> -> !tile.tile<1x32xf32>
  // CHECK: memref.store %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] : memref<64x32xf32>
  %x = tile.load transposed %X[%block, %c0] rows(%c0 to %n) : !in -> !tile.tile<64x32xf32>
  %y = tile.map ins(%x, %l : !tile.tile<64x32xf32>, !tile.tile<1x32xf32>) {
  ^bb0(%r: i32, %c: i32, %a: f32, %b: f32):
    %s = arith.subf %a, %b : f32
    tile.yield %s : f32
  } -> !tile.tile<64x32xf32>
  tile.store %y, %O[%c0, %c0] : !tile.tile<64x32xf32>, memref<?x32xf32, strided<[?, 1]>>
  tile.return
}

// Columns that are no words of 32 rows: 16 x 16 elements at a time.
// CHECK-LABEL: tile.kernel @left_narrow
// AMX-COUNT-64: vector.shuffle %{{.*}} : vector<16xbf16>, vector<16xbf16>
// AMX: vector.store %{{.*}} : memref<48x32xbf16>, vector<16xbf16>
// AMX: tdpbf16ps
tile.kernel @left_narrow(%K: memref<?x48xbf16, strided<[?, 1]>>, %V: !half, %S: !in, %n: index, %block: index) {
  %c0 = arith.constant 0 : index
  %k = tile.load %K[%c0, %c0] rows(%c0 to %n) : memref<?x48xbf16, strided<[?, 1]>> -> !tile.tile<32x48xbf16>
  %v = tile.load %V[%c0, %c0] rows(%c0 to %n) : !half -> !tile.tile<32x64xbf16>
  %s = tile.dot %k, %v transpose_lhs : !tile.tile<32x48xbf16>, !tile.tile<32x64xbf16> -> !tile.tile<48x64xf32>
  tile.store %s, %S[%c0, %c0] : !tile.tile<48x64xf32>, !in
  tile.return
}

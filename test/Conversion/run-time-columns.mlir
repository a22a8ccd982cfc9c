// RUN: attn-opt %s --convert-tile-to-vector=target=cpu-avx2 | FileCheck %s

// Where the columns of a tensor end is known as the kernel runs: whole tiles are
// stored by vectors, others element by element.

// CHECK-LABEL: tile.kernel @scores
// CHECK:         scf.for %[[ROW:.*]] =
// CHECK:           %[[END:.*]] = memref.dim %{{.*}}, %{{.*}} : memref<?x?xf32, strided<[?, 1]>>
// CHECK:           %[[LEFT:.*]] = arith.subi %[[END]], %[[COLUMN:.*]] : index
// CHECK:           %[[WHOLE:.*]] = arith.cmpi sge, %[[LEFT]], %{{.*}} : index
// CHECK:           scf.if %[[WHOLE]] {
// CHECK-COUNT-2:     vector.store {{.*}} vector<8xf32>
// CHECK:           } else {
// CHECK:             scf.for %{{.*}} = %{{.*}} to %[[LEFT]]
// CHECK-NEXT:          memref.load
// CHECK:               memref.store
tile.kernel @scores(%S: memref<?x?xf32, strided<[?, 1]>>, %j: index, %n: index, %block: index) {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %t = tile.fill %z : f32 -> !tile.tile<16x16xf32>
  tile.store %t, %S[%c0, %j] rows(%c0 to %n) : !tile.tile<16x16xf32>, memref<?x?xf32, strided<[?, 1]>>
  tile.return
}

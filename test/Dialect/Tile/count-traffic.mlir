// RUN: attn-opt %s --tile-count-traffic=address=4096 | FileCheck %s

// Of rows between the bounds and columns that the tensor has, times the bytes of
// an element; the numbers are one behind the other.
// CHECK-LABEL: tile.kernel @kernel
// CHECK:         %[[COUNT:.*]] = arith.muli
// CHECK:         %[[BYTES:.*]] = arith.constant 4 : index
// CHECK:         %[[ALL:.*]] = arith.muli %{{.*}}, %[[BYTES]]
// CHECK:         %[[MOVED:.*]] = arith.index_cast %[[ALL]] : index to i64
// CHECK:         %[[AT:.*]] = llvm.mlir.constant(4096 : i64)
// CHECK:         %[[PLACE:.*]] = llvm.inttoptr %[[AT]]
// CHECK:         llvm.atomicrmw add %[[PLACE]], %[[MOVED]] monotonic
// CHECK-NEXT:    tile.load
// A map that reads a tensor for each of its 16 x 64 elements.
// CHECK:         arith.constant 1024 : index
// CHECK:         llvm.mlir.constant(4096 : i64)
// CHECK:         llvm.atomicrmw add
// CHECK-NEXT:    tile.map
// CHECK:         llvm.mlir.constant(4104 : i64)
// CHECK:         llvm.atomicrmw add
// CHECK-NEXT:    tile.store
tile.kernel @kernel(%Q: memref<?x64xf32, strided<[?, 1]>>, %B: memref<?x?xf32>, %n: index, %block: index) {
  %c0 = arith.constant 0 : index
  %q = tile.load %Q[%block, %c0] rows(%c0 to %n) : memref<?x64xf32, strided<[?, 1]>> -> !tile.tile<16x64xf32>
  %m = tile.map ins(%q : !tile.tile<16x64xf32>) {
  ^bb0(%r: i32, %c: i32, %x: f32):
    %i = arith.index_cast %r : i32 to index
    %j = arith.index_cast %c : i32 to index
    %b = memref.load %B[%i, %j] : memref<?x?xf32>
    %y = arith.addf %x, %b : f32
    tile.yield %y : f32
  } -> !tile.tile<16x64xf32>
  tile.store %m, %Q[%block, %c0] rows(%c0 to %n) : !tile.tile<16x64xf32>, memref<?x64xf32, strided<[?, 1]>>
  tile.return
}

// CHECK-LABEL: func.func @plan
// CHECK:         tile.workspace
// CHECK:         llvm.mlir.constant(4112 : i64)
// CHECK:         llvm.atomicrmw add
func.func @plan(%n: index) attributes {tile.plan} {
  %w = tile.workspace(%n) : memref<?x64xf32>
  return
}

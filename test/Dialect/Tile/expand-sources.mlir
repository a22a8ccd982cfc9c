// RUN: attn-opt %s --verify-roundtrip --tile-expand-sources | FileCheck %s

// Packed sequences: rows are those of the tensor, from the first of the sequence
// on. No offset, whatever it is, leads out of the tensor.
// CHECK-LABEL: kernel @varlen(
// CHECK-SAME:    %[[Q:[^:]*]]: memref<?x?x64xf32, {{[^%]*}}%[[CU:[^:]*]]: memref<?xi32>, %[[BLOCK:[^:]*]]: index)
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0 : index
// CHECK-DAG:     %[[ROWS:.*]] = memref.dim %[[Q]], %{{.*}} :
// CHECK:         %[[LASTONE:.*]] = arith.maxsi
// CHECK:         %[[NEXT:.*]] = arith.minsi %{{.*}}, %[[LASTONE]]
// CHECK:         %[[C:.*]] = memref.load %[[CU]][%[[BLOCK]]]
// CHECK:         %[[FIRST:.*]] = arith.index_cast %[[C]]
// CHECK:         %[[LOW:.*]] = arith.maxsi %[[FIRST]], %{{.*}}
// CHECK:         %[[START:.*]] = arith.minsi %[[LOW]], %[[ROWS]]
// CHECK:         memref.load %[[CU]][%[[NEXT]]]
// CHECK:         %[[HIGH:.*]] = arith.maxsi %{{.*}}, %[[START]]
// CHECK:         %[[END:.*]] = arith.minsi %[[HIGH]], %[[ROWS]]
// Rows behind the last sequence are one more.
// CHECK:         %[[ISREST:.*]] = arith.cmpi eq, %[[BLOCK]], %[[LASTONE]]
// CHECK:         %[[UPTO:.*]] = arith.select %[[ISREST]], %[[ROWS]], %[[END]]
// CHECK-NOT:     memref.load %[[CU]]
// CHECK:         tile.load %[[Q]][%[[ZERO]], %[[START]], %[[ZERO]]] rows(%[[START]] to %[[UPTO]])
// CHECK:         tile.store %{{.*}}, %[[Q]][%[[ZERO]], %[[START]], %[[ZERO]]] rows(%[[START]] to %[[UPTO]])
tile.kernel @varlen(%q: memref<?x?x64xf32, strided<[?, ?, 1]>>,
                    %cu: memref<?xi32>, %block: index) {
  %zero = arith.constant 0 : index
  %rows = tile.source %q varlen(%cu : memref<?xi32>) rest
      : memref<?x?x64xf32, strided<[?, ?, 1]>> -> !tile.source<?x?x?x64xf32>
  %n = tile.extent %rows[%block] : !tile.source<?x?x?x64xf32>
  %tile = tile.load %rows[%block, %zero, %zero, %zero] rows(%zero to %n)
      : !tile.source<?x?x?x64xf32> -> !tile.tile<32x64xf32>
  tile.store %tile, %rows[%block, %zero, %zero, %zero] rows(%zero to %n)
      : !tile.tile<32x64xf32>, !tile.source<?x?x?x64xf32>
  tile.return
}

// Lengths bound the rows there are; a lone element is clamped to them.
// CHECK-LABEL: kernel @vectors(
// CHECK-SAME:    %[[M:[^:]*]]: memref<?x?xf32>, %[[CU:[^:]*]]: memref<?xi32>
// CHECK-COUNT-2: memref.load %[[CU]]
// CHECK:         %[[LAST:.*]] = arith.subi %{{.*}}, %c1{{.*}} : index
// CHECK-NEXT:    %[[AT:.*]] = arith.minsi %{{.*}}, %[[LAST]] : index
// CHECK-NEXT:    memref.load %[[M]][%{{.*}}, %[[AT]]] : memref<?x?xf32>
tile.kernel @vectors(%m: memref<?x?xf32>, %cu: memref<?xi32>, %block: index) {
  %zero = arith.constant 0 : index
  %rows = tile.source vector %m varlen(%cu : memref<?xi32>)
      : memref<?x?xf32> -> !tile.source<?x?x?xf32>
  %x = tile.element %rows[%block, %zero, %zero] : !tile.source<?x?x?xf32> -> f32
  tile.return
}

// CHECK-LABEL: kernel @lengths(
// CHECK-SAME:    %[[K:[^:]*]]: memref<?x?x?x64xf32, {{[^%]*}}%[[N:[^:]*]]: memref<?xi32>, %[[BLOCK:[^:]*]]: index)
// CHECK:         %[[ROWS:.*]] = memref.dim %[[K]]
// CHECK:         memref.load %[[N]][%[[BLOCK]]]
// CHECK:         %[[LEAST:.*]] = arith.maxsi
// CHECK:         %[[KEYS:.*]] = arith.minsi %[[LEAST]], %[[ROWS]]
// CHECK:         tile.load %[[K]][%[[BLOCK]], %{{.*}}, %{{.*}}, %{{.*}}] rows(%{{.*}} to %[[KEYS]])
tile.kernel @lengths(%k: memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>>,
                     %n: memref<?xi32>, %block: index) {
  %zero = arith.constant 0 : index
  %rows = tile.source %k lengths(%n : memref<?xi32>)
      : memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>> -> !tile.source<?x?x?x64xf32>
  %keys = tile.extent %rows[%block] : !tile.source<?x?x?x64xf32>
  %tile = tile.load %rows[%block, %zero, %zero, %zero] rows(%zero to %keys)
      : !tile.source<?x?x?x64xf32> -> !tile.tile<32x64xf32>
  tile.return
}

// Pages stay for the loads of a target. There are as many rows as the table has
// room for, and none in a pool without pages; with `rest`, a batch behind the
// last has none, and nothing is read of it.
// CHECK-LABEL: kernel @pages(
// CHECK-SAME:    %[[POOL:[^:]*]]: memref<?x?x16x64xf32, {{[^%]*}}%[[TABLE:[^:]*]]: memref<?x?xi32>, %[[N:[^:]*]]: memref<?xi32>, %[[BLOCK:[^:]*]]: index)
// CHECK:         %[[ALL:.*]] = tile.source %[[POOL]] paged(%[[TABLE]] : memref<?x?xi32>)
// CHECK:         %[[PAGES:.*]] = memref.dim %[[POOL]]
// CHECK:         %[[ROOM:.*]] = arith.muli
// CHECK:         %[[NONE:.*]] = arith.cmpi eq, %[[PAGES]]
// CHECK:         %[[CAPACITY:.*]] = arith.select %[[NONE]], %{{.*}}, %[[ROOM]]
// CHECK:         %[[EXISTS:.*]] = arith.cmpi slt, %[[BLOCK]]
// CHECK:         %[[KEYS:.*]] = scf.if %[[EXISTS]]
// CHECK:           memref.load %[[N]][%[[BLOCK]]]
// CHECK:           arith.minsi %{{.*}}, %[[CAPACITY]]
// CHECK:         tile.load %[[ALL]][%[[BLOCK]], {{.*}}] rows(%{{.*}} to %[[KEYS]])
tile.kernel @pages(%k: memref<?x?x16x64xf32, strided<[?, ?, ?, 1]>>,
                   %table: memref<?x?xi32>, %n: memref<?xi32>, %block: index) {
  %zero = arith.constant 0 : index
  %rows = tile.source %k paged(%table : memref<?x?xi32>) lengths(%n : memref<?xi32>) rest
      : memref<?x?x16x64xf32, strided<[?, ?, ?, 1]>> -> !tile.source<?x?x?x64xf32>
  %keys = tile.extent %rows[%block] : !tile.source<?x?x?x64xf32>
  %tile = tile.load %rows[%block, %zero, %zero, %zero] rows(%zero to %keys)
      : !tile.source<?x?x?x64xf32> -> !tile.tile<32x64xf32>
  tile.return
}

// Tiles that lie within pages: a page for each, and its row in that. Bounds
// follow, but for that at the first key, which every row is behind.
// CHECK-LABEL: kernel @aligned(
// CHECK-SAME:    %[[POOL:[^:]*]]: memref<?x?x64x64xf32, {{[^%]*}}%[[TABLE:[^:]*]]: memref<?x?xi32>, %[[BLOCK:[^:]*]]: index, %[[FIRST:[^:]*]]: index)
// CHECK:         %[[ZERO:.*]] = arith.constant 0 : index
// CHECK:         %[[NUMBER:.*]] = arith.divui %[[FIRST]]
// CHECK:         %[[ROW:.*]] = arith.remui %[[FIRST]]
// CHECK:         %[[COLUMN:.*]] = arith.minsi %[[NUMBER]]
// CHECK:         %[[ENTRY:.*]] = memref.load %[[TABLE]][%[[BLOCK]], %[[COLUMN]]]
// CHECK:         %[[CAST:.*]] = arith.index_cast %[[ENTRY]]
// CHECK:         %[[LOW:.*]] = arith.maxsi %[[CAST]]
// CHECK:         %[[PAGE:.*]] = arith.minsi %[[LOW]]
// CHECK:         %[[BEFORE:.*]] = arith.subi %[[FIRST]], %[[ROW]]
// CHECK:         %[[END:.*]] = arith.subi %{{.*}}, %[[BEFORE]]
// CHECK:         tile.load %[[POOL]][%[[PAGE]], %[[ZERO]], %[[ROW]], %[[ZERO]]] rows(%[[ZERO]] to %[[END]])
tile.kernel @aligned(%k: memref<?x?x64x64xf32, strided<[?, ?, ?, 1]>>,
                     %table: memref<?x?xi32>, %block: index, %first: index) {
  %zero = arith.constant 0 : index
  %rows = tile.source %k paged(%table : memref<?x?xi32>) aligned
      : memref<?x?x64x64xf32, strided<[?, ?, ?, 1]>> -> !tile.source<?x?x?x64xf32>
  %keys = tile.extent %rows[%block] : !tile.source<?x?x?x64xf32>
  %tile = tile.load %rows[%block, %zero, %first, %zero] rows(%zero to %keys)
      : !tile.source<?x?x?x64xf32> -> !tile.tile<32x64xf32>
  tile.return
}

// Boxes of pages, and rows of a cache that goes round, stay as well.
// CHECK-LABEL: kernel @boxes(
// CHECK:         %[[ALL:.*]] = tile.source %{{.*}} paged({{.*}}) boxes(16)
// CHECK:         tile.load %[[ALL]][
tile.kernel @boxes(%k: memref<?x?x16x64xf32, strided<[?, ?, ?, 1]>>,
                   %table: memref<?x?xi32>, %block: index, %first: index) {
  %zero = arith.constant 0 : index
  %rows = tile.source %k paged(%table : memref<?x?xi32>) boxes(16)
      : memref<?x?x16x64xf32, strided<[?, ?, ?, 1]>> -> !tile.source<?x?x?x64xf32>
  %tile = tile.load %rows[%block, %zero, %first, %zero]
      : !tile.source<?x?x?x64xf32> -> !tile.tile<32x64xf32>
  tile.return
}

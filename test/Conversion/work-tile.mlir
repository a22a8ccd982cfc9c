// RUN: attn-opt %s --convert-tile-to-vector=target=cpu-avx2 --canonicalize --cse | FileCheck %s

// The tile is the innermost, then the head: two divisions.
// CHECK-LABEL: kernel @plain
// CHECK-SAME: %{{[^:]*}}: index, %[[H:[^:]*]]: index, %[[T:[^:]*]]: index, %{{.*}}: memref<?xindex>, %[[N:[^:]*]]: index, %{{.*}}: memref<64xi8>
// CHECK-DAG: %[[REST:.*]] = arith.divui %[[N]], %[[T]] : index
// CHECK-DAG: %[[TILE:.*]] = arith.remui %[[N]], %[[T]] : index
// CHECK-DAG: %[[BATCH:.*]] = arith.divui %[[REST]], %[[H]] : index
// CHECK-DAG: %[[HEAD:.*]] = arith.remui %[[REST]], %[[H]] : index
// CHECK: memref.store %[[BATCH]]
// CHECK: memref.store %[[HEAD]]
// CHECK: memref.store %[[TILE]]
// CHECK-NOT: arith.divui
// CHECK: return
tile.kernel @plain(%b: index, %h: index, %t: index, %out: memref<?xindex>, %block: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %batch, %head, %tile, %part = tile.work_tile %block in_order batches(%b) heads(%h) tiles(%t) parts(%c1)
  memref.store %batch, %out[%c0] : memref<?xindex>
  memref.store %head, %out[%c1] : memref<?xindex>
  memref.store %tile, %out[%c2] : memref<?xindex>
  tile.return
}

// Two neighbouring tiles, the parts, the heads of a section, of which the last
// may have fewer, its tiles, from the last on.
// CHECK-LABEL: kernel @sections
// CHECK-SAME: %[[B:[^:]*]]: index, %[[H:[^:]*]]: index, %[[T:[^:]*]]: index, %[[S:[^:]*]]: index, %[[P:[^:]*]]: index, %{{.*}}: memref<?xindex>, %[[N:[^:]*]]: index, %{{.*}}: memref<64xi8>
// CHECK-DAG: %[[C1:.*]] = arith.constant 1 : index
// CHECK-DAG: %[[C2:.*]] = arith.constant 2 : index
// CHECK-DAG: %[[PAIRS:.*]] = arith.divui %[[T]], %[[C2]]
// CHECK-DAG: %[[ALL:.*]] = arith.muli %[[PAIRS]], %[[S]]
// CHECK-DAG: %[[PAIR:.*]] = arith.divui %[[N]], %[[C2]]
// CHECK-DAG: %[[RANK:.*]] = arith.remui %[[N]], %[[C2]]
// CHECK-DAG: %[[REST:.*]] = arith.divui %[[PAIR]], %[[P]]
// CHECK-DAG: %[[PART:.*]] = arith.remui %[[PAIR]], %[[P]]
// CHECK-DAG: %[[SECTION:.*]] = arith.divui %[[REST]], %[[ALL]]
// CHECK-DAG: %[[IN:.*]] = arith.remui %[[REST]], %[[ALL]]
// CHECK-DAG: %[[FIRST:.*]] = arith.muli %[[SECTION]], %[[S]]
// CHECK-DAG: %[[HEADS:.*]] = arith.muli %[[B]], %[[H]]
// CHECK: %[[LEFT:.*]] = arith.subi %[[HEADS]], %[[FIRST]]
// CHECK: %[[WIDTH:.*]] = arith.minsi %{{.*}}, %{{.*}}
// CHECK-DAG: %[[ROW:.*]] = arith.divui %[[IN]], %[[WIDTH]]
// CHECK-DAG: %[[WITHIN:.*]] = arith.remui %[[IN]], %[[WIDTH]]
// CHECK: %[[BH:.*]] = arith.addi %[[FIRST]], %[[WITHIN]]
// CHECK-DAG: %[[BATCH:.*]] = arith.divui %[[BH]], %[[H]]
// CHECK-DAG: %[[HEAD:.*]] = arith.remui %[[BH]], %[[H]]
// CHECK: %[[LAST:.*]] = arith.subi %[[PAIRS]], %[[C1]]
// CHECK: %[[AT:.*]] = arith.subi %[[LAST]], %[[ROW]]
// CHECK: %[[EVEN:.*]] = arith.muli %[[AT]], %[[C2]]
// CHECK: %[[TILE:.*]] = arith.addi %[[EVEN]], %[[RANK]]
// CHECK: memref.store %[[BATCH]]
// CHECK: memref.store %[[HEAD]]
// CHECK: memref.store %[[TILE]]
// CHECK: memref.store %[[PART]]
tile.kernel @sections(%b: index, %h: index, %t: index, %s: index, %p: index,
                      %out: memref<?xindex>, %block: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %batch, %head, %tile, %part = tile.work_tile %block longest_first section(%s) cluster(2)
      batches(%b) heads(%h) tiles(%t) parts(%p)
  memref.store %batch, %out[%c0] : memref<?xindex>
  memref.store %head, %out[%c1] : memref<?xindex>
  memref.store %tile, %out[%c2] : memref<?xindex>
  memref.store %part, %out[%c3] : memref<?xindex>
  tile.return
}

// A tile finds its sequence by the bits of its number. No offset leads out of
// the rows, and the rows behind the last sequence are one more.
// CHECK-LABEL: kernel @sequences
// CHECK-SAME: %[[CU:[^:]*]]: memref<?xi32>, %[[ROWS:[^:]*]]: index
// CHECK: %[[SEQUENCE:.*]] = scf.for
// CHECK: %[[PROBE:.*]] = memref.load %[[CU]]
// CHECK: arith.maxsi %[[PROBE]]
// CHECK: arith.divui
// CHECK: scf.yield
// CHECK: %[[BATCH:.*]] = arith.index_cast %[[SEQUENCE]]
// CHECK: arith.maxsi
// CHECK: %[[START:.*]] = arith.minsi %{{.*}}, %[[ROWS]]
// CHECK: %[[HIGH:.*]] = arith.maxsi %{{.*}}, %[[START]]
// CHECK: %[[END:.*]] = arith.minsi %[[HIGH]], %[[ROWS]]
// CHECK: %[[REST:.*]] = arith.cmpi eq, %[[BATCH]]
// CHECK: %[[LAST:.*]] = arith.select %[[REST]], %[[ROWS]], %[[END]]
// CHECK: %[[LENGTH:.*]] = arith.subi %[[LAST]], %[[START]]
// CHECK: %[[TILES:.*]] = arith.ceildivui %[[LENGTH]]
// CHECK: %[[EMPTY:.*]] = arith.cmpi sge, %[[AT:.*]], %[[TILES]]
// CHECK: %[[BEFORE:.*]] = arith.subi %[[TILES]]
// CHECK: %[[BACK:.*]] = arith.subi %[[BEFORE]], %[[AT]]
// CHECK: %[[TILE:.*]] = arith.select %[[EMPTY]], %[[AT]], %[[BACK]]
// CHECK: memref.store %[[BATCH]]
// CHECK: memref.store %[[TILE]]
tile.kernel @sequences(%cu: memref<?xi32>, %rows: index, %h: index, %t: index,
                       %out: memref<?xindex>, %block: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %sequence, %head, %tile, %part = tile.work_tile %block longest_first
      varlen(%cu : memref<?xi32>, %rows) block_q(128) heads(%h) tiles(%t) parts(%c1)
  memref.store %sequence, %out[%c0] : memref<?xindex>
  memref.store %tile, %out[%c1] : memref<?xindex>
  tile.return
}

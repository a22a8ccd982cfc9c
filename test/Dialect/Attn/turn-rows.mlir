// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=tile" | FileCheck %s
// RUN: attn-opt %s --attn-pipeline="target=sm_80 until-after=tile" | FileCheck %s
// RUN: attn-opt %s --attn-pipeline="target=sm_90a until-after=gpu" | FileCheck %s --check-prefix=GPU

// Queries stay as they lie; keys of pages are one after the other in workspace. The
// reduction has both from there, and values from their pages.
// CHECK-LABEL: func.func @pages(
// CHECK:         %[[Q:.*]] = tile.workspace(%{{.*}}) : memref<?x?x?x64xbf16>
// CHECK:         tile.launch @[[QUERIES:.*]] grid({{.*}}%[[Q]] :
// CHECK:         %[[TABLE:.*]] = memref.dim %{{.*}} : memref<?x?xi32
// CHECK:         %[[K:.*]] = tile.workspace(%{{.*}}) : memref<?x?x?x64xbf16>
// CHECK:         tile.launch @[[KEYS:.*]] grid({{.*}}%[[K]] :
// CHECK:         tile.launch @[[REDUCTION:.*]] grid({{.*}}%[[K]]
// Both channels of 16 pairs turn in tiles that lie in one page; the others stay.
// CHECK:       tile.kernel private @[[KEYS]](%[[POOL:[^:]*]]: memref<?x?x16x64xbf16,
// CHECK:         tile.work_tile
// CHECK:         %[[ROWS:.*]] = tile.source %[[POOL]] paged({{.*}}) lengths({{.*}}) aligned
// CHECK:         %[[END:.*]] = tile.extent %[[ROWS]]
// CHECK:         scf.if
// CHECK:           %[[X:.*]] = tile.load %[[ROWS]]{{.*}} rows({{.*}} to %[[END]]) : {{.*}} -> <16x16xf32>
// CHECK:           %[[Y:.*]] = tile.load %[[ROWS]]{{.*}} rows({{.*}} to %[[END]]) : {{.*}} -> <16x16xf32>
// CHECK:           %[[BOTH:.*]]:2 = tile.map ins(%[[X]], %[[Y]] :
// CHECK:           tile.store %[[BOTH]]#0
// CHECK:           tile.store %[[BOTH]]#1
// CHECK:           %[[REST:.*]] = tile.load %[[ROWS]]{{.*}} -> <16x32xf32>
// CHECK:           tile.store %[[REST]]
// CHECK:       tile.kernel private @[[REDUCTION]](
// CHECK:         tile.stream
// CHECK:           tile.load %arg{{[0-9]+}}[
// CHECK:           tile.load %{{.*}} : !tile.source<
// The reduction starts early, and waits for what has turned.
// GPU-LABEL: func.func @pages(
// GPU:         tile_gpu.launch @pages_kernel2 {{.*}} programmatic
func.func @pages(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x16x64xbf16>, %v: tensor<?x?x16x64xbf16>,
                 %n: tensor<?xi32>, %t: tensor<?x?xi32>, %cos: tensor<?x16xf32>)
    -> tensor<?x?x?x64xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xbf16>) keys(%k : tensor<?x?x16x64xbf16>)
      values(%v : tensor<?x?x16x64xbf16>) lengths(%n : tensor<?xi32>) block_table(%t : tensor<?x?xi32>)
      tables(%cos : tensor<?x16xf32>) {rotary = #attn.rotary<32, halves>}
    rotate {
    ^bb0(%x: f32, %y: f32, %b: i32, %h: i32, %p: i32, %c: i32, %cosines: tensor<?x16xf32>):
      %row = arith.index_cast %p : i32 to index
      %column = arith.index_cast %c : i32 to index
      %u = tensor.extract %cosines[%row, %column] : tensor<?x16xf32>
      %xu = arith.mulf %x, %u : f32
      attn.yield %xu, %y : f32, f32
    } -> tensor<?x?x?x64xbf16>
  return %o : tensor<?x?x?x64xbf16>
}

// Interleaved pairs are read element by element; rows begin at multiples of 16 bytes.
// CHECK-LABEL: func.func @ring(
// CHECK:         %[[WIDE:.*]] = tile.workspace(%{{.*}}) : memref<?x?x?x56xbf16>
// CHECK:         memref.reinterpret_cast %[[WIDE]] {{.*}} to memref<?x?x?x50xbf16, strided<[?, ?, 56, 1]>>
// CHECK:         tile.kernel private @ring_kernel1(
// CHECK:           tile.map {
// CHECK:             arith.shrui
// CHECK:             arith.remui
// CHECK:             memref.load %arg0[
// CHECK:             memref.load %arg0[
func.func @ring(%q: tensor<?x?x?x50xbf16>, %k: tensor<?x?x?x50xbf16>, %start: tensor<?xi32>)
    -> tensor<?x?x?x50xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x50xbf16>) keys(%k : tensor<?x?x?x50xbf16>)
      values(%k : tensor<?x?x?x50xbf16>) k_start(%start : tensor<?xi32>)
      {rotary = #attn.rotary<50, interleaved>, rolling}
    rotate {
    ^bb0(%x: f32, %y: f32, %b: i32, %h: i32, %p: i32, %c: i32):
      %f = arith.sitofp %p : i32 to f32
      %z = arith.mulf %y, %f : f32
      attn.yield %x, %z : f32, f32
    } -> tensor<?x?x?x50xbf16>
  return %o : tensor<?x?x?x50xbf16>
}

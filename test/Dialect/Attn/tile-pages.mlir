// RUN: attn-opt %s --attn-pipeline=until-after=tile | FileCheck %s
// RUN: attn-opt %s --attn-pipeline="until-after=gpu target=sm_90a" | FileCheck %s --check-prefix=GPU

// On GPUs a tile of keys that lies within a page is loaded like any other.
// CHECK-LABEL: kernel private @pages_kernel0(
// CHECK-SAME:    %[[Q:[^:, ]*]]: memref<?x?x?x128xbf16, {{[^%]*}}%[[K:[^:, ]*]]: memref<?x?x128x128xbf16, {{[^%]*}}%[[V:[^:, ]*]]: memref<?x?x128x128xbf16, {{[^%]*}}%[[TABLE:[^:, ]*]]: memref<?x?xi32, {{[^%]*}}%[[N:[^:, ]*]]: memref<?xi32
// CHECK-SAME:    block_k = 128,
// CHECK:         %[[KEYS:.*]] = tile.source %[[K]] paged(%[[TABLE]] : {{[^)]*}}) lengths(%[[N]] : {{[^)]*}}) aligned
// CHECK:         tile.extent %[[KEYS]]
// CHECK:         %[[VALUES:.*]] = tile.source %[[V]] paged(%[[TABLE]] : {{[^)]*}}) lengths(%[[N]] : {{[^)]*}}) aligned
// CHECK:         tile.load %[[KEYS]]
// CHECK:         tile.load %[[VALUES]]

// They are copied by TMA, from a page that the table names, both keys and values.
// GPU-LABEL:   tile_gpu.kernel private @pages_kernel0(
// GPU-SAME:      %[[TABLE:[^:, ]*]]: memref<?x?xi32
// GPU:           tile_gpu.role "load"
// GPU:             scf.for
// GPU:               memref.load %[[TABLE]]
// GPU:               %[[PAGE:.*]] = arith.index_cast %{{.*}} : index to i32
// GPU-NOT:           memref.load
// GPU:               tile_gpu.ring.load %{{[^[]*}}[%[[PAGE]], {{.*}} : !tile_gpu.tensor_map<
// GPU-NOT:           memref.load
// GPU:               tile_gpu.ring.load %{{[^[]*}}[%{{.*}} : !tile_gpu.tensor_map<

// A longer tile comes in boxes, each of which a lane copies from its page. Of many
// copies one warp makes those of the keys, another those of the values.
// CHECK-LABEL: kernel private @boxes_kernel0(
// CHECK-SAME:    block_k = 128,
// CHECK:         tile.source %{{.*}} paged({{.*}}) boxes(32)
// GPU-LABEL:   tile_gpu.kernel private @boxes_kernel0(
// GPU-SAME:      %[[TABLE:[^:, ]*]]: memref<?x?xi32
// GPU:           %[[KEYS:.*]] = tile_gpu.ring.create tma {{.*}} 128x128xbf16
// GPU:           %[[VALUES:.*]] = tile_gpu.ring.create tma {{.*}} 128x128xbf16
// GPU:           tile_gpu.role "load"
// GPU:             scf.for
// GPU-NOT:           memref.load
// GPU:               %[[SLOT:.*]] = tile_gpu.ring.acquire %[[KEYS]]
// GPU:               tile_gpu.ring.load %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %c0_i32], %[[SLOT]] table(%[[TABLE]] : memref<?x?xi32, {{.*}}>) page(32) : !tile_gpu.tensor_map<32x128xbf16 swizzle 128>, <128x128xbf16 swizzle 128>
// GPU-NOT:           tile_gpu.ring.acquire %[[VALUES]]
// GPU:           tile_gpu.role "load_values"
// GPU-NOT:         tile_gpu.ring.acquire %[[KEYS]]
// GPU:             tile_gpu.ring.acquire %[[VALUES]]
// GPU:             tile_gpu.ring.load {{.*}} table(%[[TABLE]] : {{.*}}) page(32)
// GPU-NOT:         tile_gpu.ring.acquire %[[KEYS]]
// GPU:           tile_gpu.role "compute"

// Rows of other pages are found one by one, as are those of a cache that goes
// round: warps that copy for themselves do so.
// CHECK-LABEL: kernel private @rows_kernel0(
// CHECK:         tile.source %{{.*}} paged({{.*}}) :
// GPU-LABEL:   tile_gpu.kernel private @rows_kernel0(
// GPU-SAME:      %[[TABLE:[^:, ]*]]: memref<?x?xi32
// GPU:           scf.for
// GPU-NOT:         memref.load
// GPU:             tile_gpu.ring.load {{.*}} table(%[[TABLE]] : memref<?x?xi32,
// GPU-LABEL:   tile_gpu.kernel private @any_rows_kernel0(
// GPU:             tile_gpu.ring.load {{.*}} table(
// GPU-LABEL:   tile_gpu.kernel private @boxes_of_rows_kernel0(
// GPU:             tile_gpu.ring.load {{.*}} table({{.*}}) boxes(32)
// GPU-LABEL:   tile_gpu.kernel private @rolling_kernel0(
// GPU:             tile_gpu.ring.load {{.*}} start(
module attributes {attn.target = "sm_90a"} {
func.func @pages(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x128x128xbf16>,
                 %v: tensor<?x?x128x128xbf16>, %n: tensor<?xi32>,
                 %table: tensor<?x?xi32>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x128x128xbf16>) values(%v : tensor<?x?x128x128xbf16>)
      lengths(%n : tensor<?xi32>) block_table(%table : tensor<?x?xi32>)
      -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
func.func @boxes(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x32x128xbf16>,
                 %v: tensor<?x?x32x128xbf16>, %index: tensor<?x?xi32>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x32x128xbf16>) values(%v : tensor<?x?x32x128xbf16>)
      block_table(%index : tensor<?x?xi32>)
      -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
func.func @rows(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x20x128xbf16>,
                 %v: tensor<?x?x20x128xbf16>, %index: tensor<?x?xi32>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x20x128xbf16>) values(%v : tensor<?x?x20x128xbf16>)
      block_table(%index : tensor<?x?xi32>)
      -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
func.func @any_rows(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                 %v: tensor<?x?x?x128xbf16>, %index: tensor<?x?xi32>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      block_table(%index : tensor<?x?xi32>)
      -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
func.func @boxes_of_rows(%q: tensor<?x?x?x128xf32>, %k: tensor<?x?x32x128xf32>,
                 %v: tensor<?x?x32x128xf32>, %index: tensor<?x?xi32>) -> tensor<?x?x?x128xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xf32>)
      keys(%k : tensor<?x?x32x128xf32>) values(%v : tensor<?x?x32x128xf32>)
      block_table(%index : tensor<?x?xi32>)
      -> tensor<?x?x?x128xf32>
  return %o : tensor<?x?x?x128xf32>
}
func.func @rolling(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                 %v: tensor<?x?x?x128xbf16>, %index: tensor<?xi32>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      k_start(%index : tensor<?xi32>) {rolling}
      -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

// RUN: attn-opt %s --attn-pipeline=until-after=tile | FileCheck %s
// RUN: attn-opt %s --attn-pipeline="until-after=gpu target=sm_90a" | FileCheck %s --check-prefix=GPU

// On GPUs tiles of keys lie within pages: they have as many keys as a page has
// rows, or a part of them.
// CHECK-LABEL: kernel private @pages_kernel0(
// CHECK-SAME:    %[[Q:[^:, ]*]]: memref<?x?x?x128xbf16, {{[^%]*}}%[[K:[^:, ]*]]: memref<?x?x64x128xbf16, {{[^%]*}}%[[V:[^:, ]*]]: memref<?x?x64x128xbf16, {{[^%]*}}%[[TABLE:[^:, ]*]]: memref<?x?xi32, {{[^%]*}}%[[N:[^:, ]*]]: memref<?xi32
// CHECK-SAME:    block_k = 64,
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
module attributes {attn.target = "sm_90a"} {
func.func @pages(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x64x128xbf16>,
                 %v: tensor<?x?x64x128xbf16>, %n: tensor<?xi32>,
                 %table: tensor<?x?xi32>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x64x128xbf16>) values(%v : tensor<?x?x64x128xbf16>)
      lengths(%n : tensor<?xi32>) block_table(%table : tensor<?x?xi32>)
      -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

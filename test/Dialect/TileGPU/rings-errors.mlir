// RUN: attn-opt %s --split-input-file --verify-diagnostics

// Rings, their copies and exchanges.

func.func @ring_cluster() {
  // expected-error @below {{expected clusters of 2 to 8 blocks, but got 1}}
  %r = tile_gpu.ring.create tma consumers(8) cluster(1) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  return
}

// -----

func.func @ring_members_fill() {
  // expected-error @below {{expected members(...) on a tma ring with consumers only, but got cp_async}}
  %r = tile_gpu.ring.create cp_async producers(1) consumers(4) members(2) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  return
}

// -----

func.func @ring_members_slots() {
  // expected-error @below {{expected as many slots for each member, but got 3 slots for 2 members}}
  %r = tile_gpu.ring.create tma consumers(4) members(2) : !tile_gpu.ring<3, 64x64xbf16 swizzle 128>
  return
}

// -----

func.func @ring_cluster_fill() {
  // expected-error @below {{expected cluster(...) on a tma ring with consumers, or one of states, only, but got cp_async}}
  %r = tile_gpu.ring.create cp_async producers(1) consumers(8) cluster(2) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  return
}

// -----

func.func @ring_cluster_consumers() {
  // expected-error @below {{expected cluster(...) on a tma ring with consumers, or one of states, only, but got tma without consumers}}
  %r = tile_gpu.ring.create tma cluster(2) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  return
}

// -----

func.func @ring_producers() {
  // expected-error @below {{expected no producers(...) with tma: its one arrival announces the bytes}}
  %r = tile_gpu.ring.create tma producers(1) consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  return
}

// -----

func.func @ring_no_producers() {
  // expected-error @below {{expected producers(warps) with this fill}}
  %r = tile_gpu.ring.create cp_async consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  return
}

// -----

func.func @exchange_slots() {
  // expected-error @below {{expected an exchange ring of 2 slots or more, but got 1}}
  %r = tile_gpu.ring.create exchange producers(8) : !tile_gpu.ring<1, 64x64xbf16 swizzle 128>
  return
}

// -----

func.func @load_not_acquired(%c: i32, %m: !tile_gpu.tensor_map<64x64xbf16 swizzle 128>) {
  %r = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  %t = tile_gpu.ring.wait %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected a tile of ring.acquire: its slot counts the copy}}
  tile_gpu.ring.load %m[%c, %c], %t : !tile_gpu.tensor_map<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @load_box(%c: i32, %m: !tile_gpu.tensor_map<64x128xbf16 swizzle 128>) {
  %r = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected a tensor map with boxes of '!tile_gpu.smem<64x64xbf16 swizzle 128>', but got '!tile_gpu.smem<64x128xbf16 swizzle 128>'}}
  tile_gpu.ring.load %m[%c, %c], %t : !tile_gpu.tensor_map<64x128xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @load_which_box(%c: i32, %m: !tile_gpu.tensor_map<16x64xbf16 swizzle 128>) {
  %r = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128 boxes 4>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128 boxes 4>
  // expected-error @below {{expected box(...) or table(...): this tile has 4 boxes}}
  tile_gpu.ring.load %m[%c, %c], %t : !tile_gpu.tensor_map<16x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128 boxes 4>
  return
}

// -----

func.func @commit_tma(%c: i32) {
  %r = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected a ring filled by cp_async, warps or exchange, but got tma, which becomes full by its bytes}}
  tile_gpu.ring.commit %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  return
}

// -----

func.func @release_unconsumed(%c: i32) {
  %r = tile_gpu.ring.create tma : !tile_gpu.ring<1, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected a ring with consumers(warps), whose empty barrier counts the release}}
  tile_gpu.ring.release %r[%c] : !tile_gpu.ring<1, 64x64xbf16 swizzle 128>
  return
}

// -----

func.func @exchange_part(%f: !tile_gpu.frag<64x64xbf16, a>, %c: i32) {
  %r = tile_gpu.ring.create exchange producers(8) : !tile_gpu.ring<2, 64x96xbf16 swizzle 64>
  // expected-error @below {{expected parts that divide the tile of 64x96, but got 64x64}}
  tile_gpu.exchange %f, %r[%c] at(%c, %c) transposed : !tile_gpu.frag<64x64xbf16, a>, !tile_gpu.ring<2, 64x96xbf16 swizzle 64>
  return
}

// -----

func.func @group_consumers() {
  // expected-error @below {{expected no consumers(...) on a cp_group ring: the warps that fill it read it, and release nothing}}
  %r = tile_gpu.ring.create cp_group producers(4) consumers(4) : !tile_gpu.ring<1, 64x64xbf16 swizzle 128>
  return
}

// -----

func.func @rounded_ring() {
  // expected-error @below {{expected tiles of tf32 on a cp_group ring, whose warps round what they have copied, but got '!tile_gpu.smem<64x64xtf32 swizzle 128>' on a tma ring}}
  %r = tile_gpu.ring.create tma consumers(4) : !tile_gpu.ring<1, 64x64xtf32 swizzle 128>
  return
}

// -----

func.func @rounded_source(%m: memref<?x?xbf16>, %c: i32) {
  %r = tile_gpu.ring.create cp_group producers(4) : !tile_gpu.ring<1, 64x64xtf32 swizzle 128>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<1, 64x64xtf32 swizzle 128>
  // expected-error @below {{expected a source of 'f32', but got 'bf16'}}
  tile_gpu.ring.load %m[%c, %c], %t : memref<?x?xbf16>, !tile_gpu.smem<64x64xtf32 swizzle 128>
  return
}

// -----

func.func @exchange_consumers() {
  // expected-error @below {{expected no consumers(...) on an exchange ring: it has no empty barrier}}
  %r = tile_gpu.ring.create exchange producers(8) consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  return
}

// -----

func.func @producing_warps() {
  // expected-error @below {{expected 1 producing warp or more, but got 0}}
  %r = tile_gpu.ring.create warps producers(0) consumers(4) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  return
}

// -----

func.func @consuming_warps() {
  // expected-error @below {{expected 1 consuming warp or more, but got -4}}
  %r = tile_gpu.ring.create tma consumers(-4) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  return
}

// -----

func.func @load_by_warps(%c: i32, %m: memref<?x?xbf16>) {
  %r = tile_gpu.ring.create warps producers(1) consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected a tma, cp_async or cp_group ring, but got a ring that is filled by warps}}
  tile_gpu.ring.load %m[%c, %c], %t : memref<?x?xbf16>, !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @load_one_box(%c: i32, %m: !tile_gpu.tensor_map<64x64xbf16 swizzle 128>) {
  %r = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected box(...) with a tile of several boxes and no table only}}
  tile_gpu.ring.load %m[%c, %c], %t box(%c) : !tile_gpu.tensor_map<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @load_map_by_threads(%c: i32, %m: !tile_gpu.tensor_map<64x64xbf16 swizzle 128>) {
  %r = tile_gpu.ring.create cp_async producers(4) consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected a memref source on a cp_async ring, but got a tensor map}}
  tile_gpu.ring.load %m[%c, %c], %t : !tile_gpu.tensor_map<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @load_map_rows(%c: i32, %m: !tile_gpu.tensor_map<64x64xbf16 swizzle 128>) {
  %r = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected no rows(...) with a tensor map: it bounds the rows itself}}
  tile_gpu.ring.load %m[%c, %c], %t rows(%c) : !tile_gpu.tensor_map<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @load_map_indices(%c: i32, %m: !tile_gpu.tensor_map<64x64xbf16 swizzle 128>) {
  %r = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected 2 to 4 indices, as many as the tensor of the map has dimensions, but got 1}}
  tile_gpu.ring.load %m[%c], %t : !tile_gpu.tensor_map<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @load_map_many_indices(%c: i32, %m: !tile_gpu.tensor_map<64x64xbf16 swizzle 128>) {
  %r = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected 2 to 4 indices, as many as the tensor of the map has dimensions, but got 5}}
  tile_gpu.ring.load %m[%c, %c, %c, %c, %c], %t : !tile_gpu.tensor_map<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @load_indices(%c: i32, %m: memref<?x?xbf16>) {
  %r = tile_gpu.ring.create cp_async producers(4) consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected 2 indices, but got 3}}
  tile_gpu.ring.load %m[%c, %c, %c], %t : memref<?x?xbf16>, !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @load_bulk_rows(%c: i32, %m: memref<?x?xbf16>) {
  %r = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected a tile of one row and no rows(...): from a memref, a tma ring copies contiguous bytes; use a tensor map for more rows}}
  tile_gpu.ring.load %m[%c, %c], %t : memref<?x?xbf16>, !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @exchange_fill(%f: !tile_gpu.frag<64x64xbf16, a>, %c: i32) {
  %r = tile_gpu.ring.create warps producers(8) consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected an exchange ring, but got a ring filled by warps}}
  tile_gpu.exchange %f, %r[%c] at(%c, %c) : !tile_gpu.frag<64x64xbf16, a>, !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  return
}

// -----

func.func @exchange_element(%f: !tile_gpu.frag<64x64xf16, a>, %c: i32) {
  %r = tile_gpu.ring.create exchange producers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected a fragment of 'bf16', but got 'f16'}}
  tile_gpu.exchange %f, %r[%c] at(%c, %c) : !tile_gpu.frag<64x64xf16, a>, !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  return
}

// -----

func.func @exchange_layout(%f: !tile_gpu.frag<64x64xbf16, b, warp>, %c: i32) {
  %r = tile_gpu.ring.create exchange producers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected an acc or a fragment, but got b}}
  tile_gpu.exchange %f, %r[%c] at(%c, %c) : !tile_gpu.frag<64x64xbf16, b, warp>, !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  return
}

// -----

func.func @exchange_wide(%f: !tile_gpu.frag<64x64xf32, acc>, %c: i32) {
  %r = tile_gpu.ring.create exchange producers(8) : !tile_gpu.ring<2, 64x64xf32 swizzle 128>
  // expected-error @below {{expected 16-bit elements, but got 'f32'}}
  tile_gpu.exchange %f, %r[%c] at(%c, %c) : !tile_gpu.frag<64x64xf32, acc>, !tile_gpu.ring<2, 64x64xf32 swizzle 128>
  return
}

// -----

func.func @many_warps() {
  // expected-error @below {{expected at most 1048576 producing and consuming warps, but got 4611686018427387904}}
  %r = tile_gpu.ring.create tma consumers(4611686018427387904) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  return
}

// -----

func.func @load_boxes_of_a_tile(%m: !tile_gpu.tensor_map<16x64xbf16 swizzle 128>, %c: i32) {
  %r = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected box(...) or table(...): this tile has 4 boxes}}
  tile_gpu.ring.load %m[%c, %c], %t : !tile_gpu.tensor_map<16x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @load_table_and_start(%m: memref<?x?x?x64xbf16>, %table: memref<?x?xi32>, %start: memref<?xi32>, %c: i32) {
  %r = tile_gpu.ring.create cp_group producers(4) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected one of table and start}}
  tile_gpu.ring.load %m[%c, %c, %c, %c], %t table(%table : memref<?x?xi32>) start(%start : memref<?xi32>) : memref<?x?x?x64xbf16>, !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @load_table_rank(%m: memref<?x?x64xbf16>, %table: memref<?x?xi32>, %c: i32) {
  %r = tile_gpu.ring.create cp_group producers(4) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected rows that are found one by one in a tensor of rank 4, on a cp_async or cp_group ring, but got 'memref<?x?x64xbf16>' on a cp_group ring}}
  tile_gpu.ring.load %m[%c, %c, %c], %t table(%table : memref<?x?xi32>) : memref<?x?x64xbf16>, !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @load_table_map(%m: !tile_gpu.tensor_map<64x64xbf16 swizzle 128>, %table: memref<?x?xi32>, %c: i32) {
  %r = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected table(...) and page(...) together}}
  tile_gpu.ring.load %m[%c, %c, %c, %c], %t table(%table : memref<?x?xi32>) : !tile_gpu.tensor_map<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @load_table_boxes(%m: memref<?x?x20x64xbf16>, %table: memref<?x?xi32>, %c: i32) {
  %r = tile_gpu.ring.create cp_group producers(4) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected boxes of a number of rows that divides a page of a table, but got 16 and 'memref<?x?x20x64xbf16>'}}
  tile_gpu.ring.load %m[%c, %c, %c, %c], %t table(%table : memref<?x?xi32>) boxes(16) : memref<?x?x20x64xbf16>, !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @load_start_map(%m: !tile_gpu.tensor_map<64x64xbf16 swizzle 128>, %table: memref<?x?xi32>, %start: memref<?xi32>, %c: i32) {
  %r = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected no start or boxes with a tensor map, whose boxes say where they are}}
  tile_gpu.ring.load %m[%c, %c, %c, %c], %t start(%start : memref<?xi32>) : !tile_gpu.tensor_map<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @load_map_page_rows(%m: !tile_gpu.tensor_map<64x64xbf16 swizzle 128>, %table: memref<?x?xi32>, %start: memref<?xi32>, %c: i32) {
  %r = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected pages of a multiple of the 64 rows of a box, but got 96}}
  tile_gpu.ring.load %m[%c, %c, %c, %c], %t table(%table : memref<?x?xi32>) page(96) : !tile_gpu.tensor_map<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @load_map_table_rank(%m: !tile_gpu.tensor_map<64x64xbf16 swizzle 128>, %table: memref<?x?xi32>, %start: memref<?xi32>, %c: i32) {
  %r = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected 4 indices with a table, but got 2}}
  tile_gpu.ring.load %m[%c, %c], %t table(%table : memref<?x?xi32>) page(64) : !tile_gpu.tensor_map<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @load_pages_of_memory(%m: memref<?x?x16x64xbf16>, %table: memref<?x?xi32>, %c: i32) {
  %r = tile_gpu.ring.create cp_group producers(4) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected no page(...) with a memref, whose type has the rows of a page}}
  tile_gpu.ring.load %m[%c, %c, %c, %c], %t table(%table : memref<?x?xi32>) page(16) : memref<?x?x16x64xbf16>, !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @states_without_cluster() {
  // expected-error @below {{expected a ring of states to have 1 slot, cluster(...), and as many consumers as producers}}
  %r = tile_gpu.ring.create states producers(1) consumers(1) : !tile_gpu.ring<1, 8x144xf32>
  return
}

// -----

func.func @states_slots() {
  // expected-error @below {{expected a ring of states to have 1 slot, cluster(...), and as many consumers as producers}}
  %r = tile_gpu.ring.create states producers(1) consumers(1) cluster(8) : !tile_gpu.ring<2, 8x144xf32>
  return
}

// -----

func.func @states_consumers() {
  // expected-error @below {{expected a ring of states to have 1 slot, cluster(...), and as many consumers as producers}}
  %r = tile_gpu.ring.create states producers(2) consumers(1) cluster(8) : !tile_gpu.ring<1, 8x144xf32>
  return
}

// -----

func.func @entries_without_table(%m: !tile_gpu.tensor_map<64x64xbf16 swizzle 128>, %e: !tile_gpu.vec<16xi32, row, warp>, %c: i32) {
  %r = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected entries(...) with a tensor map and the table that they are of}}
  tile_gpu.ring.load %m[%c, %c, %c, %c], %t entries(%e from %c : !tile_gpu.vec<16xi32, row, warp>) : !tile_gpu.tensor_map<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @entries_of_a_memref(%m: memref<?x?x16x64xbf16>, %table: memref<?x?xi32>, %e: !tile_gpu.vec<16xi32, row, warp>, %c: i32) {
  %r = tile_gpu.ring.create cp_group producers(4) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected entries(...) with a tensor map and the table that they are of}}
  tile_gpu.ring.load %m[%c, %c, %c, %c], %t table(%table : memref<?x?xi32>) entries(%e from %c : !tile_gpu.vec<16xi32, row, warp>) : memref<?x?x16x64xbf16>, !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @entries_by_column(%m: !tile_gpu.tensor_map<64x64xbf16 swizzle 128>, %table: memref<?x?xi32>, %e: !tile_gpu.vec<16xi32, col, warp>, %c: i32) {
  %r = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected entries in a warp's row vector of i32, but got '!tile_gpu.vec<16xi32, col, warp>'}}
  tile_gpu.ring.load %m[%c, %c, %c, %c], %t table(%table : memref<?x?xi32>) entries(%e from %c : !tile_gpu.vec<16xi32, col, warp>) page(64) : !tile_gpu.tensor_map<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

// -----

func.func @entries_of_larger_pages(%m: !tile_gpu.tensor_map<64x64xbf16 swizzle 128>, %table: memref<?x?xi32>, %e: !tile_gpu.vec<16xi32, row, warp>, %c: i32) {
  %r = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  %t = tile_gpu.ring.acquire %r[%c] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  // expected-error @below {{expected a tile of 1, 2, 4 or 8 whole pages with entries(...), but got one of 64 rows and pages of 128 in boxes of 64}}
  tile_gpu.ring.load %m[%c, %c, %c, %c], %t table(%table : memref<?x?xi32>) entries(%e from %c : !tile_gpu.vec<16xi32, row, warp>) page(128) : !tile_gpu.tensor_map<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128>
  return
}

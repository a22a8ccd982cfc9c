// o = q k_0 + q k_1 + ..., of tiles of 64x64: one warp copies, a warpgroup
// multiplies, with a product in flight across the end of the loop's body.
// Tests change a line of this to break it.
!tile = !tile_gpu.smem<64x64xbf16 swizzle 128>
!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!one = !tile_gpu.ring<1, 64x64xbf16 swizzle 128>
!map = !tile_gpu.tensor_map<64x64xbf16 swizzle 128>
!acc = !tile_gpu.frag<64x64xf32, acc>
!token = !tile_gpu.token<64x64xf32>
module attributes {attn.target = "sm_90a"} {
  func.func @products(%q: memref<?x64xbf16> {attn.arg = {name = "q", dims = ["m", "d"]}},
                      %k: memref<?x64xbf16> {attn.arg = {name = "k", dims = ["n", "d"]}},
                      %o: memref<?x64xbf16> {attn.arg = {name = "o", dims = ["m", "d"], output}})
      attributes {tile.plan} {
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %m = memref.dim %q, %c0 : memref<?x64xbf16>
    %n = memref.dim %k, %c0 : memref<?x64xbf16>
    %blocks = arith.ceildivui %m, %c64 : index
    %tiles = arith.ceildivui %n, %c64 : index
    %count = arith.index_cast %blocks : index to i32
    %keys = arith.index_cast %tiles : index to i32
    %qMap = tile_gpu.tensor_map %q : memref<?x64xbf16> -> !map
    %kMap = tile_gpu.tensor_map %k : memref<?x64xbf16> -> !map
    %oMap = tile_gpu.tensor_map %o : memref<?x64xbf16> -> !map
    %tickets = tile_gpu.tickets : memref<1xi32>
    tile_gpu.launch @kernel grid(%blocks) args(%qMap, %kMap, %oMap, %count, %keys, %tickets
        : !map, !map, !map, i32, i32, memref<1xi32>)
    return
  }
  tile_gpu.kernel private @kernel(%q: !map, %k: !map, %o: !map, %count: i32, %keys: i32,
                            %tickets: memref<1xi32>) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %zero = arith.constant 0.0 : f32
    %qs = tile_gpu.ring.create tma consumers(4) : !one
    %ks = tile_gpu.ring.create tma consumers(4) : !ring
    %staging = tile_gpu.smem.alloc : !tile
    %all = tile_gpu.barrier.create warps(4)
    %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
        tiles(%count) heads(%c1) batch(%c1) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
      tile_gpu.yield %c0, %keys : i32, i32
    }
    tile_gpu.role "load" warps(1) {
    ^bb0(%warp: i32):
      %end:2 = tile_gpu.foreach %s lead iter_args(%c0, %c0 : i32, i32) {
      ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32, %i: i32, %c: i32):
        %row = arith.muli %tile, %c64 : i32
        %qt = tile_gpu.ring.acquire %qs[%i] : !one
        tile_gpu.ring.load %q[%row, %c0], %qt : !map, !tile
        %next = scf.for %n = %lo to %hi step %c1 iter_args(%u = %c) -> (i32) : i32 {
          %kt = tile_gpu.ring.acquire %ks[%u] : !ring
          %at = arith.muli %n, %c64 : i32
          tile_gpu.ring.load %k[%at, %c0], %kt : !map, !tile
          %v = arith.addi %u, %c1 : i32
          scf.yield %v : i32
        }
        %j = arith.addi %i, %c1 : i32
        tile_gpu.yield %j, %next : i32, i32
      } -> i32, i32
      tile_gpu.yield
    }
    tile_gpu.role "compute" warpgroups(1) {
    ^bb0(%wg: i32):
      %end:2 = tile_gpu.foreach %s iter_args(%c0, %c0 : i32, i32) {
      ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32, %i: i32, %c: i32):
        %row = arith.muli %tile, %c64 : i32
        %qt = tile_gpu.ring.wait %qs[%i] : !one
        %none = tile_gpu.frag.fill %zero : f32 -> !acc
        %k0 = tile_gpu.ring.wait %ks[%c] : !ring
        %t0 = tile_gpu.mma.issue %qt, %k0 acc(%none) : !tile, !tile -> !token
        %first = arith.addi %lo, %c1 : i32
        %next:2 = scf.for %n = %first to %hi step %c1 iter_args(%u = %c, %t = %t0) -> (i32, !token) : i32 {
          %v = arith.addi %u, %c1 : i32
          %kt = tile_gpu.ring.wait %ks[%v] : !ring
          %sum = tile_gpu.mma.wait %t pending(0) : !token
          %w = tile_gpu.mma.issue %qt, %kt acc(%sum) : !tile, !tile -> !token
          tile_gpu.ring.release %ks[%u] : !ring
          scf.yield %v, %w : i32, !token
        }
        %sum = tile_gpu.mma.wait %next#1 pending(0) : !token
        tile_gpu.ring.release %ks[%next#0] : !ring
        tile_gpu.ring.release %qs[%i] : !one
        %short = tile_gpu.frag.convert %sum : !acc -> !tile_gpu.frag<64x64xbf16, acc>
        tile_gpu.bulk.wait pending(0)
        tile_gpu.barrier.sync %all threads_only
        tile_gpu.frag.store %short, %staging : !tile_gpu.frag<64x64xbf16, acc>, !tile
        tile_gpu.barrier.sync %all
        tile_gpu.bulk.store %staging, %o[%row, %c0] : !tile, !map
        %after = arith.addi %next#0, %c1 : i32
        %j = arith.addi %i, %c1 : i32
        tile_gpu.yield %j, %after : i32, i32
      } -> i32, i32
      tile_gpu.bulk.wait pending(0)
      tile_gpu.yield
    }
    tile_gpu.return
  }
}

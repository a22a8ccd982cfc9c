// o = 2: each of two blocks stores 1 for the sums of one of its items, and what
// they have together is combined in halves, 16 rows by each block. No barrier of the
// cluster ends the kernel.
!ring = !tile_gpu.ring<1, 2x136xf32>
!vec = !tile_gpu.vec<8xf32, col, warp>
!whole = !tile_gpu.frag<32x8xf32, acc, warp>
!half = !tile_gpu.frag<16x8xf32, acc, warp>
module attributes {attn.target = "sm_90a"} {
  func.func @merged(%x: memref<?x8xf32> {attn.arg = {name = "x", dims = ["n", "d"]}},
                    %o: memref<?x8xf32> {attn.arg = {name = "o", dims = ["n", "d"], output}})
      attributes {tile.plan} {
    %c6 = arith.constant 6 : index
    %n = arith.constant 3 : i32
    %tickets = tile_gpu.tickets : memref<1xi32>
    tile_gpu.launch @kernel grid(%c6) args(%tickets, %n, %o : memref<1xi32>, i32, memref<?x8xf32>)
    return
  }
  tile_gpu.kernel private @kernel(%tickets: memref<1xi32>, %n: i32, %o: memref<?x8xf32>) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %c16 = arith.constant 16 : i32
    %c32 = arith.constant 32 : i32
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %states = tile_gpu.ring.create states producers(1) consumers(1) cluster(2) : !ring
    %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
        cluster(2) by_parts tiles(%n) heads(%c1) batch(%c1) splits(%c2) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %part: i32):
      tile_gpu.yield
    }
    tile_gpu.role "draw" warps(1) {
    ^bb0(%warp: i32):
      tile_gpu.foreach %s lead {
      ^bb0(%tile: i32, %head: i32, %batch: i32, %part: i32):
        tile_gpu.yield
      }
      tile_gpu.yield
    }
    tile_gpu.role "compute" warps(1) {
    ^bb0(%warp: i32):
      %end = tile_gpu.foreach %s iter_args(%c0 : i32) {
      ^bb0(%tile: i32, %head: i32, %batch: i32, %part: i32, %use: i32):
        %m = tile_gpu.frag.fill %zero : f32 -> !vec
        %v = tile_gpu.frag.fill %one : f32 -> !whole
        %m1, %v1 = tile_gpu.merge_states cluster stats(%m : !vec) values(%v : !whole)
            ring(%states[%use] : !ring) part(%part) count(2) {
        ^bb1(%a: f32, %b: f32):
          %c = arith.maximumf %a, %b : f32
          tile_gpu.yield %c, %one, %one : f32, f32, f32
        } -> !vec, !half
        %first = arith.muli %tile, %c32 : i32
        %behind = arith.muli %part, %c16 : i32
        %row = arith.addi %first, %behind : i32
        tile_gpu.global.store %v1, %o[%row, %c0] : !half, memref<?x8xf32>
        %next = arith.addi %use, %c1 : i32
        tile_gpu.yield %next : i32
      } -> i32
      tile_gpu.yield
    }
    tile_gpu.return
  }
}

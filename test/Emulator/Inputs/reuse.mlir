// o[i] = 2 x[i mod 7]: blocks of one warp draw rows. A block keeps the row that
// it has read for an item that takes the same one, seven items later: if other
// blocks have drawn all those between.
!vec = !tile_gpu.vec<16xf32, row, warp>
module attributes {attn.target = "sm_80"} {
  func.func @reuse(%x: memref<?x16xf32> {attn.arg = {name = "x", dims = ["n", "d"]}},
                   %o: memref<?x16xf32> {attn.arg = {name = "o", dims = ["n", "d"], output}})
      attributes {tile.plan} {
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %n = memref.dim %o, %c0 : memref<?x16xf32>
    %count = arith.index_cast %n : index to i32
    // Fewer blocks than items: counters of the plan's own.
    %tickets = memref.alloc() : memref<1xi32>
    tile_gpu.reset %tickets : memref<1xi32>
    tile_gpu.launch @kernel grid(%c2) args(%x, %o, %count, %tickets
        : memref<?x16xf32>, memref<?x16xf32>, i32, memref<1xi32>)
    return
  }
  tile_gpu.kernel private @kernel(%x: memref<?x16xf32>, %o: memref<?x16xf32>, %count: i32,
                            %tickets: memref<1xi32>) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c7 = arith.constant 7 : i32
    %none = arith.constant -1 : i32
    %zero = arith.constant 0.0 : f32
    %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
        tiles(%count) heads(%c1) batch(%c1) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
      tile_gpu.yield %c0, %c0 : i32, i32
    }
    tile_gpu.role "rows" warps(1) {
    ^bb0(%warp: i32):
      %empty = tile_gpu.frag.fill %zero : f32 -> !vec
      %end:2 = tile_gpu.foreach %s lead iter_args(%none, %empty : i32, !vec) {
      ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32, %last: i32, %kept: !vec):
        %row = arith.remsi %tile, %c7 : i32
        %same = arith.cmpi eq, %row, %last : i32
        %read = scf.if %same -> (!vec) {
          scf.yield %kept : !vec
        } else {
          %v = tile_gpu.global.load %x[%row, %c0] : memref<?x16xf32> -> !vec
          scf.yield %v : !vec
        }
        %twice = tile_gpu.map ins(%read : !vec) {
        ^bb0(%r: i32, %c: i32, %e: f32):
          %t = arith.addf %e, %e : f32
          tile_gpu.yield %t : f32
        } -> !vec
        tile_gpu.global.store %twice, %o[%tile, %c0] : !vec, memref<?x16xf32>
        tile_gpu.yield %row, %read : i32, !vec
      } -> i32, !vec
      tile_gpu.yield
    }
    tile_gpu.return
  }
}

// RUN: attn-opt %s --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm --split-input-file --verify-diagnostics

// What the types allow and the instructions at hand do not.

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @k(%m: memref<?x?xf32>) {
  %r = tile_gpu.ring.create cp_group producers(8) : !tile_gpu.ring<1, 64x64xf32 swizzle 128>
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %i = arith.constant 0 : i32
    %t = tile_gpu.ring.acquire %r[%i] : !tile_gpu.ring<1, 64x64xf32 swizzle 128>
    // expected-error@+1 {{expected a role of the ring's 8 producing warps, but got 4}}
    tile_gpu.ring.load %m[%i, %i], %t : memref<?x?xf32>, !tile_gpu.smem<64x64xf32 swizzle 128>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @k(%m: memref<?xf32>) {
  %r = tile_gpu.ring.create cp_group producers(4) : !tile_gpu.ring<1, 64x64xf32 swizzle 128>
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %i = arith.constant 0 : i32
    %t = tile_gpu.ring.acquire %r[%i] : !tile_gpu.ring<1, 64x64xf32 swizzle 128>
    // expected-error@+1 {{expected a tensor of rank 2 or more, but got 1}}
    tile_gpu.ring.load %m[%i], %t : memref<?xf32>, !tile_gpu.smem<64x64xf32 swizzle 128>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @k(%m: memref<?x?xf32>) {
  %r = tile_gpu.ring.create cp_group producers(4) : !tile_gpu.ring<1, 64x2xf32>
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %i = arith.constant 0 : i32
    %t = tile_gpu.ring.acquire %r[%i] : !tile_gpu.ring<1, 64x2xf32>
    // expected-error@+1 {{expected rows of a multiple of 16 bytes, but got 8}}
    tile_gpu.ring.load %m[%i, %i], %t : memref<?x?xf32>, !tile_gpu.smem<64x2xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @k() {
  %t = tile_gpu.smem.alloc : !tile_gpu.smem<64x2xf32>
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %i = arith.constant 0 : i32
    // expected-error@+1 {{expected rows of a multiple of 16 bytes, but got 8}}
    tile_gpu.smem.clear_rows %t from(%i) : !tile_gpu.smem<64x2xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @k() {
  %t = tile_gpu.smem.alloc : !tile_gpu.smem<64x4xbf16>
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %i = arith.constant 0 : i32
    // expected-error@+1 {{expected rows of a multiple of 16 bytes, but got 8}}
    tile_gpu.smem.map %t {
    ^bb0(%x: bf16):
      tile_gpu.yield %x : bf16
    } : !tile_gpu.smem<64x4xbf16>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @k() {
  %t = tile_gpu.smem.alloc : !tile_gpu.smem<8x8xbf16>
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %i = arith.constant 0 : i32
    // expected-error@+1 {{expected panels of a multiple of 32 chunks of 16 bytes, but got 8}}
    tile_gpu.smem.map %t {
    ^bb0(%x: bf16):
      tile_gpu.yield %x : bf16
    } : !tile_gpu.smem<8x8xbf16>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_80"} {
tile_gpu.kernel private @k() {
  %t = tile_gpu.smem.alloc : !tile_gpu.smem<64x16xbf16 swizzle 32>
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %i = arith.constant 0 : i32
    %v = tile_gpu.smem.transpose %t : !tile_gpu.smem<64x16xbf16 swizzle 32>
    %cf = arith.constant 0.0 : bf16
    %f = tile_gpu.frag.fill %cf : bf16 -> !tile_gpu.frag<16x64xbf16, acc, warp>
    // expected-error@+1 {{expected a store that is not transposed on sm_80}}
    tile_gpu.frag.store %f, %v : !tile_gpu.frag<16x64xbf16, acc, warp>, !tile_gpu.smem<16x64xbf16 swizzle 32 transposed>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @k() {
  %a = tile_gpu.smem.alloc : !tile_gpu.smem<16x2xf32>
  %b = tile_gpu.smem.alloc : !tile_gpu.smem<2x64xf32>
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %i = arith.constant 0 : i32
    %cf = arith.constant 0.0 : f32
    %f = tile_gpu.frag.fill %cf : f32 -> !tile_gpu.frag<16x64xf32, acc, warp>
    // expected-error@+1 {{expected a depth K of a multiple of 4, but got 2}}
    %x = tile_gpu.mma.sync %a, %b, %f : !tile_gpu.smem<16x2xf32>, !tile_gpu.smem<2x64xf32> -> !tile_gpu.frag<16x64xf32, acc, warp>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @k() {
  %a = tile_gpu.smem.alloc : !tile_gpu.smem<64x64xbf16>
  %b = tile_gpu.smem.alloc : !tile_gpu.smem<64x64xbf16>
  tile_gpu.role "r" warpgroups(1) {
  ^bb0(%w: i32):
    %i = arith.constant 0 : i32
    // expected-error@+1 {{expected operands in swizzled tiles}}
    %x = tile_gpu.mma.issue %a, %b : !tile_gpu.smem<64x64xbf16>, !tile_gpu.smem<64x64xbf16> -> !tile_gpu.token<64x64xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @k() {
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %i = arith.constant 0 : i32
    %cf = arith.constant 0.0 : bf16
    %f = tile_gpu.frag.fill %cf : bf16 -> !tile_gpu.frag<16x64xbf16, acc, warp>
    // expected-error@+1 {{expected fragments of elements of 32 bits}}
    %x = tile_gpu.scan ins(%f : !tile_gpu.frag<16x64xbf16, acc, warp>) identity(%cf : bf16) {
    ^bb0(%a: bf16, %b: bf16):
      %c = arith.addf %a, %b : bf16
      tile_gpu.yield %c : bf16
    } -> !tile_gpu.frag<16x64xbf16, acc, warp>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @k(%r: !tile_gpu.ring<1, 64x64xf32 swizzle 128>) {
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %i = arith.constant 0 : i32
    // expected-error@+1 {{expected a ring made in this kernel by tile_gpu.ring.create}}
    %t = tile_gpu.ring.wait %r[%i] : !tile_gpu.ring<1, 64x64xf32 swizzle 128>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @k(%b: !tile_gpu.barrier) {
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %i = arith.constant 0 : i32
    // expected-error@+1 {{expected a barrier made in this kernel by tile_gpu.barrier.create}}
    tile_gpu.barrier.sync %b
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @k(%tickets: memref<1xi32>, %n: i32, %none: i1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
      tiles(%n) heads(%c1) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32):
    // expected-error@+1 {{expected the schedule's items to be drawn by a role of one warp}}
    tile_gpu.skip %none
    tile_gpu.yield %c0, %c0 : i32, i32
  }
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32, %lo: i32, %hi: i32):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @load_boxes() {
  %t = tile_gpu.smem.alloc : !tile_gpu.smem<64x64xbf16 swizzle 128 boxes 2>
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    // expected-error@+1 {{expected a tile of one box; take a slice}}
    %f = tile_gpu.frag.load %t : !tile_gpu.smem<64x64xbf16 swizzle 128 boxes 2> -> !tile_gpu.frag<64x64xbf16, a, warp>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @store_boxes() {
  %t = tile_gpu.smem.alloc : !tile_gpu.smem<64x64xbf16 swizzle 128 boxes 2>
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %c = arith.constant 0.0 : bf16
    %f = tile_gpu.frag.fill %c : bf16 -> !tile_gpu.frag<64x64xbf16, acc, warp>
    // expected-error@+1 {{expected a tile of one box; take a slice}}
    tile_gpu.frag.store %f, %t : !tile_gpu.frag<64x64xbf16, acc, warp>, !tile_gpu.smem<64x64xbf16 swizzle 128 boxes 2>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @write_right_operand(%m: memref<?x?xbf16>) {
  %i = arith.constant 0 : i32
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %c = arith.constant 0.0 : bf16
    %f = tile_gpu.frag.fill %c : bf16 -> !tile_gpu.frag<16x8xbf16, b, warp>
    // expected-error@+1 {{expected an acc or a fragment, but got b}}
    tile_gpu.global.store %f, %m[%i, %i] : !tile_gpu.frag<16x8xbf16, b, warp>, memref<?x?xbf16>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @write_rounded(%m: memref<?x?xtf32>) {
  %i = arith.constant 0 : i32
  %r = tile_gpu.ring.create cp_group producers(4) : !tile_gpu.ring<1, 16x64xtf32 swizzle 128>
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %t = tile_gpu.ring.view %r[%i] : !tile_gpu.ring<1, 16x64xtf32 swizzle 128>
    %f = tile_gpu.frag.load %t : !tile_gpu.smem<16x64xtf32 swizzle 128> -> !tile_gpu.frag<16x64xtf32, a, warp>
    // expected-error@+1 {{expected memory of f32, bf16, f16, i32 or i1, but got 'tf32'}}
    tile_gpu.global.store %f, %m[%i, %i] : !tile_gpu.frag<16x64xtf32, a, warp>, memref<?x?xtf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @merge_cluster(%part: i32, %tickets: memref<1xi32>) {
  %z = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : i32
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
      cluster(2) by_parts tiles(%part) heads(%part) batch(%part) splits(%part) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield
  }
  %ring = tile_gpu.ring.create states producers(1) consumers(1) cluster(2) : !tile_gpu.ring<1, 2x1088xf32>
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %v = tile_gpu.frag.fill %z : f32 -> !tile_gpu.vec<64xf32, col, warp>
    %f = tile_gpu.frag.fill %z : f32 -> !tile_gpu.frag<16x64xf32, acc, warp>
    // expected-error@+1 {{expected a ring of states of clusters of 2 blocks that 2 of the role's warps combine}}
    %r:2 = tile_gpu.merge_states cluster stats(%v : !tile_gpu.vec<64xf32, col, warp>) values(%f : !tile_gpu.frag<16x64xf32, acc, warp>) ring(%ring[%c0] : !tile_gpu.ring<1, 2x1088xf32>) part(%part) count(2) {
    ^bb0(%a: f32, %b: f32):
      tile_gpu.yield %a, %z, %z : f32, f32, f32
    } -> !tile_gpu.vec<64xf32, col, warp>, !tile_gpu.frag<16x64xf32, acc, warp>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @merge_without_statistics() {
  %z = arith.constant 0.0 : f32
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %f = tile_gpu.frag.fill %z : f32 -> !tile_gpu.frag<16x64xf32, acc, warp>
    // expected-error@+1 {{expected 1 statistic or more, but got 0}}
    %r = "tile_gpu.merge_states"(%f, %f) <{scope = 0 : i32, operandSegmentSizes = array<i32: 0, 2, 0, 0, 0, 0>}> ({
      tile_gpu.yield %z, %z : f32, f32
    }) : (!tile_gpu.frag<16x64xf32, acc, warp>, !tile_gpu.frag<16x64xf32, acc, warp>) -> !tile_gpu.frag<16x64xf32, acc, warp>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @merge_types() {
  %i = arith.constant 0 : i32
  %z = arith.constant 0.0 : f32
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %v = tile_gpu.frag.fill %z : f32 -> !tile_gpu.vec<64xf32, col, warp>
    %u = tile_gpu.frag.fill %i : i32 -> !tile_gpu.vec<64xi32, col, warp>
    %f = tile_gpu.frag.fill %z : f32 -> !tile_gpu.frag<16x64xf32, acc, warp>
    // expected-error@+1 {{expected statistics of one type}}
    %r:3 = tile_gpu.merge_states pair stats(%v, %u, %v, %u : !tile_gpu.vec<64xf32, col, warp>, !tile_gpu.vec<64xi32, col, warp>, !tile_gpu.vec<64xf32, col, warp>, !tile_gpu.vec<64xi32, col, warp>) values(%f, %f : !tile_gpu.frag<16x64xf32, acc, warp>, !tile_gpu.frag<16x64xf32, acc, warp>) {
    ^bb0(%a: f32, %c: i32, %b: f32, %d: i32):
      tile_gpu.yield %a, %c, %z, %z : f32, i32, f32, f32
    } -> !tile_gpu.vec<64xf32, col, warp>, !tile_gpu.vec<64xi32, col, warp>, !tile_gpu.frag<16x64xf32, acc, warp>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @merge_role() {
  %z = arith.constant 0.0 : f32
  %t = tile_gpu.smem.alloc : !tile_gpu.smem<64x256xf32>
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %v = tile_gpu.frag.fill %z : f32 -> !tile_gpu.vec<64xf32, col, warp>
    %f = tile_gpu.frag.fill %z : f32 -> !tile_gpu.frag<16x64xf32, acc, warp>
    // expected-error@+1 {{expected a role of 8 warps, but got one of 4}}
    %r:2 = tile_gpu.merge_states warps stats(%v : !tile_gpu.vec<64xf32, col, warp>) values(%f : !tile_gpu.frag<16x64xf32, acc, warp>) scratch(%t : !tile_gpu.smem<64x256xf32>) count(8) {
    ^bb0(%a: f32, %b: f32):
      tile_gpu.yield %a, %z, %z : f32, f32, f32
    } -> !tile_gpu.vec<64xf32, col, warp>, !tile_gpu.frag<16x64xf32, acc, warp>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @reduce_columns() {
  %z = arith.constant 0.0 : f32
  tile_gpu.role "r" warpgroups(1) {
  ^bb0(%w: i32):
    %f = tile_gpu.frag.fill %z : f32 -> !tile_gpu.frag<64x64xf32, acc>
    // expected-error@+1 {{expected one input, a row vector, a partial vector or the scope of a warp; the rows of a column lie in four warps}}
    %v:2 = tile_gpu.reduce ins(%f, %f : !tile_gpu.frag<64x64xf32, acc>, !tile_gpu.frag<64x64xf32, acc>) identity(%z, %z : f32, f32) {
    ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
      tile_gpu.yield %a, %b : f32, f32
    } -> !tile_gpu.vec<64xf32, col>, !tile_gpu.vec<64xf32, col>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @exchange_plain() {
  %i = arith.constant 0 : i32
  %r = tile_gpu.ring.create exchange producers(4) : !tile_gpu.ring<2, 64x64xbf16>
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %c = arith.constant 0.0 : bf16
    %f = tile_gpu.frag.fill %c : bf16 -> !tile_gpu.frag<16x64xbf16, acc, warp>
    // expected-error@+1 {{expected a swizzled tile, but got '!tile_gpu.smem<64x64xbf16>'}}
    tile_gpu.exchange %f, %r[%i] at(%i, %i) : !tile_gpu.frag<16x64xbf16, acc, warp>, !tile_gpu.ring<2, 64x64xbf16>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @exchange_panels() {
  %i = arith.constant 0 : i32
  %r = tile_gpu.ring.create exchange producers(4) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %c = arith.constant 0.0 : bf16
    %f = tile_gpu.frag.fill %c : bf16 -> !tile_gpu.frag<16x32xbf16, acc, warp>
    // expected-error@+1 {{expected parts of whole panels of 64 columns, but got 32}}
    tile_gpu.exchange %f, %r[%i] at(%i, %i) : !tile_gpu.frag<16x32xbf16, acc, warp>, !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @load_complex(%m: memref<?xcomplex<f32>>, %c: index) {
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    // expected-error@+1 {{expected an element of an integer or float type}}
    %d = memref.load %m[%c] : memref<?xcomplex<f32>>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @which_dimension(%m: memref<?xf32>, %c: index) {
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    // expected-error@+1 {{expected a constant dimension of a ranked memref}}
    %d = memref.dim %m, %c : memref<?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @store_wide(%m: memref<?xi64>, %c: index, %d: i64) {
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    // expected-error@+1 {{expected to store an i32}}
    memref.store %d, %m[%c] : memref<?xi64>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel private @wide_function(%d: f64) {
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    // expected-error@+1 {{expected a function that has a form on the GPU, but got 'math.exp'}}
    %e = math.exp %d : f64
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
// expected-error@+1 {{expected a name that PTX can have, of letters, digits and underscores, but got 'a.b'}}
tile_gpu.kernel private @a.b() {
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}

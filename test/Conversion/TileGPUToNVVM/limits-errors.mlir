// RUN: attn-opt %s --convert-tile-gpu-to-nvvm --split-input-file --verify-diagnostics

// What the types allow and the instructions at hand do not.

module attributes {attn.target = "sm_90a"} {
func.func private @k(%m: memref<?x?xf32>) attributes {tile_gpu.kernel} {
  %r = tile_gpu.ring.create cp_group producers(8) : !tile_gpu.ring<1, 64x64xf32 swizzle 128>
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %i = arith.constant 0 : i32
    %t = tile_gpu.ring.acquire %r[%i] : !tile_gpu.ring<1, 64x64xf32 swizzle 128>
    // expected-error@+1 {{expected a role of the ring's 8 producing warps, but got 4}}
    tile_gpu.ring.load %m[%i, %i], %t : memref<?x?xf32>, !tile_gpu.smem<64x64xf32 swizzle 128>
    tile_gpu.yield
  }
  return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
func.func private @k(%m: memref<?xf32>) attributes {tile_gpu.kernel} {
  %r = tile_gpu.ring.create cp_group producers(4) : !tile_gpu.ring<1, 64x64xf32 swizzle 128>
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %i = arith.constant 0 : i32
    %t = tile_gpu.ring.acquire %r[%i] : !tile_gpu.ring<1, 64x64xf32 swizzle 128>
    // expected-error@+1 {{expected a tensor of rank 2 or more, but got 1}}
    tile_gpu.ring.load %m[%i], %t : memref<?xf32>, !tile_gpu.smem<64x64xf32 swizzle 128>
    tile_gpu.yield
  }
  return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
func.func private @k(%m: memref<?x?xf32>) attributes {tile_gpu.kernel} {
  %r = tile_gpu.ring.create cp_group producers(4) : !tile_gpu.ring<1, 64x2xf32>
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %i = arith.constant 0 : i32
    %t = tile_gpu.ring.acquire %r[%i] : !tile_gpu.ring<1, 64x2xf32>
    // expected-error@+1 {{expected rows of a multiple of 16 bytes, but got 8}}
    tile_gpu.ring.load %m[%i, %i], %t : memref<?x?xf32>, !tile_gpu.smem<64x2xf32>
    tile_gpu.yield
  }
  return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
func.func private @k() attributes {tile_gpu.kernel} {
  %t = tile_gpu.smem.alloc : !tile_gpu.smem<64x2xf32>
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %i = arith.constant 0 : i32
    // expected-error@+1 {{expected rows of a multiple of 16 bytes, but got 8}}
    tile_gpu.smem.clear_rows %t from(%i) : !tile_gpu.smem<64x2xf32>
    tile_gpu.yield
  }
  return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
func.func private @k() attributes {tile_gpu.kernel} {
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
  return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
func.func private @k() attributes {tile_gpu.kernel} {
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
  return
}
}

// -----

module attributes {attn.target = "sm_80"} {
func.func private @k() attributes {tile_gpu.kernel} {
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
  return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
func.func private @k() attributes {tile_gpu.kernel} {
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
  return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
func.func private @k() attributes {tile_gpu.kernel} {
  %a = tile_gpu.smem.alloc : !tile_gpu.smem<64x64xbf16>
  %b = tile_gpu.smem.alloc : !tile_gpu.smem<64x64xbf16>
  tile_gpu.role "r" warpgroups(1) {
  ^bb0(%w: i32):
    %i = arith.constant 0 : i32
    // expected-error@+1 {{expected operands in swizzled tiles}}
    %x = tile_gpu.mma.issue %a, %b : !tile_gpu.smem<64x64xbf16>, !tile_gpu.smem<64x64xbf16> -> !tile_gpu.token<64x64xf32>
    tile_gpu.yield
  }
  return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
func.func private @k() attributes {tile_gpu.kernel} {
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
  return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
func.func private @k(%r: !tile_gpu.ring<1, 64x64xf32 swizzle 128>) attributes {tile_gpu.kernel} {
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %i = arith.constant 0 : i32
    // expected-error@+1 {{expected a ring made in this kernel by tile_gpu.ring.create}}
    %t = tile_gpu.ring.wait %r[%i] : !tile_gpu.ring<1, 64x64xf32 swizzle 128>
    tile_gpu.yield
  }
  return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
func.func private @k(%b: !tile_gpu.barrier) attributes {tile_gpu.kernel} {
  tile_gpu.role "r" warps(4) {
  ^bb0(%w: i32):
    %i = arith.constant 0 : i32
    // expected-error@+1 {{expected a barrier made in this kernel by tile_gpu.barrier.create}}
    tile_gpu.barrier.sync %b
    tile_gpu.yield
  }
  return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
func.func private @k(%tickets: memref<1xi32>, %n: i32, %none: i1)
    attributes {tile_gpu.kernel} {
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
  return
}
}

// RUN: attn-opt %s --tile-gpu-allocate-shared --tile-gpu-verify-budget --split-input-file --verify-diagnostics

// expected-error @below {{expected attn.target to name a GPU (sm_80, sm_86, sm_89, sm_90a, sm_100a), but got none}}
module {
tile_gpu.kernel @k() {
  tile_gpu.role "all" warps(8) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

// expected-error @below {{expected attn.target to name a GPU (sm_80, sm_86, sm_89, sm_90a, sm_100a), but got "cpu-avx2"}}
module attributes {attn.target = "cpu-avx2"} {
tile_gpu.kernel @k() {
  tile_gpu.role "all" warps(8) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

// Scores of the next tile beside P V of this one, d = 128, in 160 registers:
// O, S and the packed P of 128 keys do not fit beside three warpgroups.
module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel @overlap_192(%p0: !tile_gpu.frag<64x128xf32, acc>, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %q = tile_gpu.smem.alloc : !tile_gpu.smem<64x128xbf16 swizzle 128>
  %k = tile_gpu.smem.alloc : !tile_gpu.smem<128x128xbf16 swizzle 128>
  // expected-error @below {{needs 64 + 64 + 32 = 160 registers of live fragments and 32 more, but has 160}}
  tile_gpu.role "compute" warpgroups(3) registers(160) {
  ^bb0(%wg: i32):
    %o = tile_gpu.frag.fill %zero : f32 -> !tile_gpu.frag<64x128xf32, acc>
    %p = tile_gpu.frag.convert %p0 : !tile_gpu.frag<64x128xf32, acc> -> !tile_gpu.frag<64x128xbf16, a>
    %qk = tile_gpu.mma.issue %q, %k : !tile_gpu.smem<64x128xbf16 swizzle 128>, !tile_gpu.smem<128x128xbf16 swizzle 128> -> !tile_gpu.token<64x128xf32>
    // expected-note @below {{live after this operation}}
    %pv = tile_gpu.mma.issue %p, %k acc(%o) : !tile_gpu.frag<64x128xbf16, a>, !tile_gpu.smem<128x128xbf16 swizzle 128> -> !tile_gpu.token<64x128xf32>
    %s = tile_gpu.mma.wait %qk pending(1) : !tile_gpu.token<64x128xf32>
    tile_gpu.global.store %s, %m[%c0, %c0] : !tile_gpu.frag<64x128xf32, acc>, memref<?x?xf32>
    %r = tile_gpu.mma.wait %pv pending(0) : !tile_gpu.token<64x128xf32>
    tile_gpu.global.store %r, %m[%c0, %c0] : !tile_gpu.frag<64x128xf32, acc>, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
// expected-error @below {{needs 67584 registers for its roles, but sm_90a has 65536}}
tile_gpu.kernel @k() {
  tile_gpu.role "load" warps(4) registers(48) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(2) registers(240) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

// A multiprocessor has as many, but 640 threads are launched with 96 each.
module attributes {attn.target = "sm_90a"} {
// expected-error @below {{needs 64512 registers for its roles, but a launch of 640 threads gives them 61440}}
tile_gpu.kernel @k() {
  tile_gpu.role "load" warps(4) registers(24) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(4) registers(120) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel @k() {
  // expected-note @below {{shared with this role}}
  tile_gpu.role "load" warps(1) registers(24) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  // expected-error @below {{expected the registers of the role whose warpgroup it shares}}
  tile_gpu.role "reduce" warps(1) registers(40) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
// expected-error @below {{needs 1152 threads, but sm_90a has 1024}}
tile_gpu.kernel @k() {
  tile_gpu.role "all" warpgroups(9) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
// expected-error @below {{expected registers(...) on all roles or none}}
tile_gpu.kernel @k() {
  tile_gpu.role "load" warpgroups(1) registers(24) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

// Places that somebody wrote by hand.
module attributes {attn.target = "sm_90a"} {
// expected-error @below {{needs 262208 bytes of shared memory, but sm_90a has 232448}}
tile_gpu.kernel @k() attributes {shared_bytes = 262208 : i64} {
  %r = tile_gpu.ring.create tma consumers(8) at <tiles = [0] full = 262144 empty = 262176> : !tile_gpu.ring<4, 128x256xbf16 swizzle 128>
  tile_gpu.role "all" warpgroups(1) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
// expected-error @below {{needs 17 hardware barriers, the block's own included, but sm_90a has 16}}
tile_gpu.kernel @k() attributes {shared_bytes = 0 : i64} {
  %b = tile_gpu.barrier.create warps(1) each(16) first(1)
  tile_gpu.role "all" warps(16) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel @k() attributes {shared_bytes = 32768 : i64} {
  // expected-error @below {{'tile_gpu.smem.alloc' op expected !tile_gpu.smem<64x64xbf16 swizzle 128> at a multiple of 1024 bytes, but got 512}}
  %a = tile_gpu.smem.alloc at(512) : !tile_gpu.smem<64x64xbf16 swizzle 128>
  tile_gpu.role "all" warps(16) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel @k() attributes {shared_bytes = 32768 : i64} {
  %a = tile_gpu.smem.alloc at(0) : !tile_gpu.smem<64x64xbf16 swizzle 128>
  // expected-error @below {{expected 1 slots of !tile_gpu.smem<64x64xbf16 swizzle 128> at 8192 or behind, where the one before ends, but got 7168}}
  %r = tile_gpu.ring.create tma consumers(8) at <tiles = [7168] full = 16384 empty = 16392> : !tile_gpu.ring<1, 64x64xbf16 swizzle 128>
  tile_gpu.role "all" warps(16) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
// expected-error @below {{expected shared_bytes of 8192 or more, but got 8191}}
tile_gpu.kernel @k() attributes {shared_bytes = 8191 : i64} {
  %a = tile_gpu.smem.alloc at(0) : !tile_gpu.smem<64x64xbf16 swizzle 128>
  tile_gpu.role "all" warps(16) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel @k() attributes {shared_bytes = 0 : i64} {
  %a = tile_gpu.barrier.create warps(4) each(2) first(1)
  // expected-error @below {{expected hardware barriers from 3 on, but got 2}}
  %b = tile_gpu.barrier.create warps(4) first(2)
  tile_gpu.role "all" warps(16) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_80"} {
tile_gpu.kernel @k() {
  // expected-error @below {{needs tensor copies, which sm_80 lacks; expected a cp_async ring}}
  %r = tile_gpu.ring.create tma consumers(8) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_89"} {
tile_gpu.kernel @k(%s: !tile_gpu.smem<64x64xbf16 swizzle 128>) {
  // expected-error @below {{needs products of a warpgroup, which sm_89 lacks; expected mma.sync}}
  %t = tile_gpu.mma.issue %s, %s : !tile_gpu.smem<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128> -> !tile_gpu.token<64x64xf32>
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_100a"} {
tile_gpu.kernel @k(%s: !tile_gpu.smem<64x64xbf16 swizzle 128>) {
  // expected-error @below {{needs products of a warpgroup, which sm_100a lacks; expected mma.sync}}
  %t = tile_gpu.mma.issue %s, %s : !tile_gpu.smem<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x64xbf16 swizzle 128> -> !tile_gpu.token<64x64xf32>
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_80"} {
tile_gpu.kernel @k() {
  // expected-error @below {{needs registers(...) of a role, which sm_80 lacks; expected an even share}}
  tile_gpu.role "all" warpgroups(1) registers(240) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
tile_gpu.kernel @k() {
  // expected-error @below {{asks for 256 registers, but a thread of sm_90a has at most 255}}
  tile_gpu.role "all" warpgroups(1) registers(256) {
  ^bb0(%w: i32):
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

module attributes {attn.target = "sm_90a"} {
// expected-error @below {{expected 1 role or more}}
tile_gpu.kernel @k() {
  tile_gpu.return
}
}

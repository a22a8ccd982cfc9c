// RUN: attn-opt %s --split-input-file --verify-diagnostics --tile-gpu-expand-pipeline

!q = !tile_gpu.smem<64x64xbf16 swizzle 128>
!kt = !tile_gpu.smem<64x64xbf16 swizzle 128 transposed>
!v = !tile_gpu.smem<64x64xbf16 swizzle 128>
!k_ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!v_ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!s = !tile_gpu.frag<64x64xf32, acc>
!p = !tile_gpu.frag<64x64xbf16, a>
!o = !tile_gpu.frag<64x64xf32, acc>
!row = !tile_gpu.vec<64xf32, row>
!scores = !tile_gpu.token<64x64xf32>
!sum = !tile_gpu.token<64x64xf32>

tile_gpu.kernel @no_first(%q: !q, %n: i32, %init: !o, %out: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %k = tile_gpu.ring.create tma consumers(4) : !k_ring
  %v = tile_gpu.ring.create tma consumers(4) : !v_ring
  tile_gpu.role "load" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %ks0 = tile_gpu.ring.wait %k[%c0] : !k_ring
    %vs0 = tile_gpu.ring.wait %v[%c0] : !v_ring
    %kt0 = tile_gpu.smem.transpose %ks0 : !q
    %qk0 = tile_gpu.mma.issue %q, %kt0 : !q, !kt -> !scores
    %s0 = tile_gpu.mma.wait %qk0 pending(0) : !scores
    %m0 = tile_gpu.reduce ins(%s0 : !s) identity(%zero : f32) {
    ^bb1(%x: f32, %y: f32):
      %z = arith.maximumf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !row
    %w0 = tile_gpu.map ins(%s0, %m0 : !s, !row) {
    ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
      %z = arith.subf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !s
    %p0 = tile_gpu.frag.convert %w0 : !s -> !p
    %scaled0 = tile_gpu.map ins(%init, %m0 : !o, !row) {
    ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
      %z = arith.mulf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !o
    %pv0 = tile_gpu.mma.issue %p0, %vs0 acc(%scaled0) : !p, !v -> !sum
    %o0 = tile_gpu.mma.wait %pv0 pending(0) : !sum
    tile_gpu.ring.release %k[%c0] : !k_ring
    tile_gpu.ring.release %v[%c0] : !v_ring
    // expected-error@+1 {{expected stage 1 of its body to be that of the step ahead of the loops, on other values}}
    %r = scf.for %c = %c1 to %n step %c1 iter_args(%o = %o0) -> (!o) : i32 {
      %ks = tile_gpu.ring.wait %k[%c] {tile_gpu.stage = #tile_gpu.stage<0, 0>} : !k_ring
      %vs = tile_gpu.ring.wait %v[%c] {tile_gpu.stage = #tile_gpu.stage<1, 3>} : !v_ring
      %kt = tile_gpu.smem.transpose %ks {tile_gpu.stage = #tile_gpu.stage<0, 1>} : !q
      %qk = tile_gpu.mma.issue %q, %kt {tile_gpu.stage = #tile_gpu.stage<0, 2>} : !q, !kt -> !scores
      %s = tile_gpu.mma.wait %qk pending(0) {tile_gpu.stage = #tile_gpu.stage<0, 6>} : !scores
      %m = tile_gpu.reduce ins(%s : !s) identity(%zero : f32) attributes {tile_gpu.stage = #tile_gpu.stage<0, 7>} {
      ^bb1(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %w = tile_gpu.map ins(%s, %m : !s, !row) attributes {tile_gpu.stage = #tile_gpu.stage<0, 9>} {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.subf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !s
      %p = tile_gpu.frag.convert %w {tile_gpu.stage = #tile_gpu.stage<0, 12>} : !s -> !p
      %scaled = tile_gpu.map ins(%o, %m : !o, !row) attributes {tile_gpu.stage = #tile_gpu.stage<1, 4>} {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.mulf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !o
      %pv = tile_gpu.mma.issue %p, %vs acc(%scaled) {tile_gpu.stage = #tile_gpu.stage<1, 5>} : !p, !v -> !sum
      %on = tile_gpu.mma.wait %pv pending(0) {tile_gpu.stage = #tile_gpu.stage<1, 10>} : !sum
      tile_gpu.ring.release %k[%c] {tile_gpu.stage = #tile_gpu.stage<0, 8>} : !k_ring
      tile_gpu.ring.release %v[%c] {tile_gpu.stage = #tile_gpu.stage<1, 11>} : !v_ring
      scf.yield %on : !o
    }
    tile_gpu.global.store %r, %out[%c0, %c0] : !o, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!q = !tile_gpu.smem<64x64xbf16 swizzle 128>
!kt = !tile_gpu.smem<64x64xbf16 swizzle 128 transposed>
!v = !tile_gpu.smem<64x64xbf16 swizzle 128>
!k_ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!v_ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!s = !tile_gpu.frag<64x64xf32, acc>
!p = !tile_gpu.frag<64x64xbf16, a>
!o = !tile_gpu.frag<64x64xf32, acc>
!row = !tile_gpu.vec<64xf32, row>
!scores = !tile_gpu.token<64x64xf32>
!sum = !tile_gpu.token<64x64xf32>

tile_gpu.kernel @unlike(%q: !q, %n: i32, %init: !o, %out: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %k = tile_gpu.ring.create tma consumers(4) : !k_ring
  %v = tile_gpu.ring.create tma consumers(4) : !v_ring
  tile_gpu.role "load" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %ks0 = tile_gpu.ring.wait %k[%c0] {tile_gpu.stage = #tile_gpu.stage<0, 0>} : !k_ring
    %vs0 = tile_gpu.ring.wait %v[%c0] {tile_gpu.stage = #tile_gpu.stage<1, 3>} : !v_ring
    %kt0 = tile_gpu.smem.transpose %ks0 {tile_gpu.stage = #tile_gpu.stage<0, 1>} : !q
    %qk0 = tile_gpu.mma.issue %q, %kt0 {tile_gpu.stage = #tile_gpu.stage<0, 2>} : !q, !kt -> !scores
    %s0 = tile_gpu.mma.wait %qk0 pending(0) {tile_gpu.stage = #tile_gpu.stage<0, 6>} : !scores
    %m0 = tile_gpu.reduce ins(%s0 : !s) identity(%zero : f32) attributes {tile_gpu.stage = #tile_gpu.stage<0, 7>} {
    ^bb1(%x: f32, %y: f32):
      %z = arith.maximumf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !row
    %w0 = tile_gpu.map ins(%s0, %m0 : !s, !row) attributes {tile_gpu.stage = #tile_gpu.stage<0, 9>} {
    ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
      %z = arith.subf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !s
    %p0 = tile_gpu.frag.convert %w0 {tile_gpu.stage = #tile_gpu.stage<0, 12>} : !s -> !p
    %scaled0 = tile_gpu.map ins(%init, %m0 : !o, !row) attributes {tile_gpu.stage = #tile_gpu.stage<0, 13>} {
    ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
      %z = arith.mulf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !o
    %pv0 = tile_gpu.mma.issue %p0, %vs0 acc(%scaled0) {tile_gpu.stage = #tile_gpu.stage<1, 5>} : !p, !v -> !sum
    %o0 = tile_gpu.mma.wait %pv0 pending(0) {tile_gpu.stage = #tile_gpu.stage<1, 10>} : !sum
    tile_gpu.ring.release %k[%c0] {tile_gpu.stage = #tile_gpu.stage<0, 8>} : !k_ring
    tile_gpu.ring.release %v[%c0] {tile_gpu.stage = #tile_gpu.stage<1, 11>} : !v_ring
    // expected-error@+1 {{expected stage 1 of its body to be that of the step ahead of the loops, on other values}}
    %r = scf.for %c = %c1 to %n step %c1 iter_args(%o = %o0) -> (!o) : i32 {
      %ks = tile_gpu.ring.wait %k[%c] {tile_gpu.stage = #tile_gpu.stage<0, 0>} : !k_ring
      %vs = tile_gpu.ring.wait %v[%c] {tile_gpu.stage = #tile_gpu.stage<1, 3>} : !v_ring
      %kt = tile_gpu.smem.transpose %ks {tile_gpu.stage = #tile_gpu.stage<0, 1>} : !q
      %qk = tile_gpu.mma.issue %q, %kt {tile_gpu.stage = #tile_gpu.stage<0, 2>} : !q, !kt -> !scores
      %s = tile_gpu.mma.wait %qk pending(0) {tile_gpu.stage = #tile_gpu.stage<0, 6>} : !scores
      %m = tile_gpu.reduce ins(%s : !s) identity(%zero : f32) attributes {tile_gpu.stage = #tile_gpu.stage<0, 7>} {
      ^bb1(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %w = tile_gpu.map ins(%s, %m : !s, !row) attributes {tile_gpu.stage = #tile_gpu.stage<0, 9>} {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.subf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !s
      %p = tile_gpu.frag.convert %w {tile_gpu.stage = #tile_gpu.stage<0, 12>} : !s -> !p
      %scaled = tile_gpu.map ins(%o, %m : !o, !row) attributes {tile_gpu.stage = #tile_gpu.stage<1, 4>} {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.mulf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !o
      %pv = tile_gpu.mma.issue %p, %vs acc(%scaled) {tile_gpu.stage = #tile_gpu.stage<1, 5>} : !p, !v -> !sum
      %on = tile_gpu.mma.wait %pv pending(0) {tile_gpu.stage = #tile_gpu.stage<1, 10>} : !sum
      tile_gpu.ring.release %k[%c] {tile_gpu.stage = #tile_gpu.stage<0, 8>} : !k_ring
      tile_gpu.ring.release %v[%c] {tile_gpu.stage = #tile_gpu.stage<1, 11>} : !v_ring
      scf.yield %on : !o
    }
    tile_gpu.global.store %r, %out[%c0, %c0] : !o, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!q = !tile_gpu.smem<64x64xbf16 swizzle 128>
!kt = !tile_gpu.smem<64x64xbf16 swizzle 128 transposed>
!v = !tile_gpu.smem<64x64xbf16 swizzle 128>
!k_ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!v_ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!s = !tile_gpu.frag<64x64xf32, acc>
!p = !tile_gpu.frag<64x64xbf16, a>
!o = !tile_gpu.frag<64x64xf32, acc>
!row = !tile_gpu.vec<64xf32, row>
!scores = !tile_gpu.token<64x64xf32>
!sum = !tile_gpu.token<64x64xf32>

tile_gpu.kernel @unmarked(%q: !q, %n: i32, %init: !o, %out: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %k = tile_gpu.ring.create tma consumers(4) : !k_ring
  %v = tile_gpu.ring.create tma consumers(4) : !v_ring
  tile_gpu.role "load" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %ks0 = tile_gpu.ring.wait %k[%c0] {tile_gpu.stage = #tile_gpu.stage<0, 0>} : !k_ring
    %vs0 = tile_gpu.ring.wait %v[%c0] {tile_gpu.stage = #tile_gpu.stage<1, 3>} : !v_ring
    %kt0 = tile_gpu.smem.transpose %ks0 {tile_gpu.stage = #tile_gpu.stage<0, 1>} : !q
    %qk0 = tile_gpu.mma.issue %q, %kt0 {tile_gpu.stage = #tile_gpu.stage<0, 2>} : !q, !kt -> !scores
    %s0 = tile_gpu.mma.wait %qk0 pending(0) {tile_gpu.stage = #tile_gpu.stage<0, 6>} : !scores
    %m0 = tile_gpu.reduce ins(%s0 : !s) identity(%zero : f32) attributes {tile_gpu.stage = #tile_gpu.stage<0, 7>} {
    ^bb1(%x: f32, %y: f32):
      %z = arith.maximumf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !row
    %w0 = tile_gpu.map ins(%s0, %m0 : !s, !row) attributes {tile_gpu.stage = #tile_gpu.stage<0, 9>} {
    ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
      %z = arith.subf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !s
    %p0 = tile_gpu.frag.convert %w0 {tile_gpu.stage = #tile_gpu.stage<0, 12>} : !s -> !p
    %scaled0 = tile_gpu.map ins(%init, %m0 : !o, !row) attributes {tile_gpu.stage = #tile_gpu.stage<1, 4>} {
    ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
      %z = arith.mulf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !o
    %pv0 = tile_gpu.mma.issue %p0, %vs0 acc(%scaled0) {tile_gpu.stage = #tile_gpu.stage<1, 5>} : !p, !v -> !sum
    %o0 = tile_gpu.mma.wait %pv0 pending(0) {tile_gpu.stage = #tile_gpu.stage<1, 10>} : !sum
    tile_gpu.ring.release %k[%c0] {tile_gpu.stage = #tile_gpu.stage<0, 8>} : !k_ring
    tile_gpu.ring.release %v[%c0] {tile_gpu.stage = #tile_gpu.stage<1, 11>} : !v_ring
    %r = scf.for %c = %c1 to %n step %c1 iter_args(%o = %o0) -> (!o) : i32 {
      %ks = tile_gpu.ring.wait %k[%c] {tile_gpu.stage = #tile_gpu.stage<0, 0>} : !k_ring
      %vs = tile_gpu.ring.wait %v[%c] {tile_gpu.stage = #tile_gpu.stage<1, 3>} : !v_ring
      %kt = tile_gpu.smem.transpose %ks {tile_gpu.stage = #tile_gpu.stage<0, 1>} : !q
      %qk = tile_gpu.mma.issue %q, %kt {tile_gpu.stage = #tile_gpu.stage<0, 2>} : !q, !kt -> !scores
      %s = tile_gpu.mma.wait %qk pending(0) {tile_gpu.stage = #tile_gpu.stage<0, 6>} : !scores
      %m = tile_gpu.reduce ins(%s : !s) identity(%zero : f32) attributes {tile_gpu.stage = #tile_gpu.stage<0, 7>} {
      ^bb1(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %w = tile_gpu.map ins(%s, %m : !s, !row) attributes {tile_gpu.stage = #tile_gpu.stage<0, 9>} {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.subf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !s
      %p = tile_gpu.frag.convert %w {tile_gpu.stage = #tile_gpu.stage<0, 12>} : !s -> !p
      %scaled = tile_gpu.map ins(%o, %m : !o, !row) attributes {tile_gpu.stage = #tile_gpu.stage<1, 4>} {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.mulf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !o
      %pv = tile_gpu.mma.issue %p, %vs acc(%scaled) {tile_gpu.stage = #tile_gpu.stage<1, 5>} : !p, !v -> !sum
      %on = tile_gpu.mma.wait %pv pending(0) {tile_gpu.stage = #tile_gpu.stage<1, 10>} : !sum
    // expected-error@+1 {{expected tile_gpu.stage, as other operations of this step have it}}
      tile_gpu.ring.release %k[%c] : !k_ring
      tile_gpu.ring.release %v[%c] {tile_gpu.stage = #tile_gpu.stage<1, 11>} : !v_ring
      scf.yield %on : !o
    }
    tile_gpu.global.store %r, %out[%c0, %c0] : !o, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!q = !tile_gpu.smem<64x64xbf16 swizzle 128>
!kt = !tile_gpu.smem<64x64xbf16 swizzle 128 transposed>
!v = !tile_gpu.smem<64x64xbf16 swizzle 128>
!k_ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!v_ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!s = !tile_gpu.frag<64x64xf32, acc>
!p = !tile_gpu.frag<64x64xbf16, a>
!o = !tile_gpu.frag<64x64xf32, acc>
!row = !tile_gpu.vec<64xf32, row>
!scores = !tile_gpu.token<64x64xf32>
!sum = !tile_gpu.token<64x64xf32>

tile_gpu.kernel @read_early(%q: !q, %n: i32, %init: !o, %out: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %k = tile_gpu.ring.create tma consumers(4) : !k_ring
  %v = tile_gpu.ring.create tma consumers(4) : !v_ring
  tile_gpu.role "load" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %ks0 = tile_gpu.ring.wait %k[%c0] {tile_gpu.stage = #tile_gpu.stage<0, 0>} : !k_ring
    %vs0 = tile_gpu.ring.wait %v[%c0] {tile_gpu.stage = #tile_gpu.stage<1, 3>} : !v_ring
    %kt0 = tile_gpu.smem.transpose %ks0 {tile_gpu.stage = #tile_gpu.stage<0, 1>} : !q
    %qk0 = tile_gpu.mma.issue %q, %kt0 {tile_gpu.stage = #tile_gpu.stage<0, 2>} : !q, !kt -> !scores
    %s0 = tile_gpu.mma.wait %qk0 pending(0) {tile_gpu.stage = #tile_gpu.stage<0, 6>} : !scores
    %m0 = tile_gpu.reduce ins(%s0 : !s) identity(%zero : f32) attributes {tile_gpu.stage = #tile_gpu.stage<0, 7>} {
    ^bb1(%x: f32, %y: f32):
      %z = arith.maximumf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !row
    %w0 = tile_gpu.map ins(%s0, %m0 : !s, !row) attributes {tile_gpu.stage = #tile_gpu.stage<0, 9>} {
    ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
      %z = arith.subf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !s
    %p0 = tile_gpu.frag.convert %w0 {tile_gpu.stage = #tile_gpu.stage<0, 12>} : !s -> !p
    %scaled0 = tile_gpu.map ins(%init, %m0 : !o, !row) attributes {tile_gpu.stage = #tile_gpu.stage<1, 4>} {
    ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
      %z = arith.mulf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !o
    %pv0 = tile_gpu.mma.issue %p0, %vs0 acc(%scaled0) {tile_gpu.stage = #tile_gpu.stage<1, 5>} : !p, !v -> !sum
    %o0 = tile_gpu.mma.wait %pv0 pending(0) {tile_gpu.stage = #tile_gpu.stage<1, 10>} : !sum
    tile_gpu.ring.release %k[%c0] {tile_gpu.stage = #tile_gpu.stage<0, 8>} : !k_ring
    tile_gpu.ring.release %v[%c0] {tile_gpu.stage = #tile_gpu.stage<1, 11>} : !v_ring
    // expected-error@+1 {{reads what stage 1 of the step ahead of a loop makes; expected the loop alone to}}
    tile_gpu.global.store %o0, %out[%c0, %c0] : !o, memref<?x?xf32>
    %r = scf.for %c = %c1 to %n step %c1 iter_args(%o = %o0) -> (!o) : i32 {
      %ks = tile_gpu.ring.wait %k[%c] {tile_gpu.stage = #tile_gpu.stage<0, 0>} : !k_ring
      %vs = tile_gpu.ring.wait %v[%c] {tile_gpu.stage = #tile_gpu.stage<1, 3>} : !v_ring
      %kt = tile_gpu.smem.transpose %ks {tile_gpu.stage = #tile_gpu.stage<0, 1>} : !q
      %qk = tile_gpu.mma.issue %q, %kt {tile_gpu.stage = #tile_gpu.stage<0, 2>} : !q, !kt -> !scores
      %s = tile_gpu.mma.wait %qk pending(0) {tile_gpu.stage = #tile_gpu.stage<0, 6>} : !scores
      %m = tile_gpu.reduce ins(%s : !s) identity(%zero : f32) attributes {tile_gpu.stage = #tile_gpu.stage<0, 7>} {
      ^bb1(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %w = tile_gpu.map ins(%s, %m : !s, !row) attributes {tile_gpu.stage = #tile_gpu.stage<0, 9>} {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.subf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !s
      %p = tile_gpu.frag.convert %w {tile_gpu.stage = #tile_gpu.stage<0, 12>} : !s -> !p
      %scaled = tile_gpu.map ins(%o, %m : !o, !row) attributes {tile_gpu.stage = #tile_gpu.stage<1, 4>} {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.mulf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !o
      %pv = tile_gpu.mma.issue %p, %vs acc(%scaled) {tile_gpu.stage = #tile_gpu.stage<1, 5>} : !p, !v -> !sum
      %on = tile_gpu.mma.wait %pv pending(0) {tile_gpu.stage = #tile_gpu.stage<1, 10>} : !sum
      tile_gpu.ring.release %k[%c] {tile_gpu.stage = #tile_gpu.stage<0, 8>} : !k_ring
      tile_gpu.ring.release %v[%c] {tile_gpu.stage = #tile_gpu.stage<1, 11>} : !v_ring
      scf.yield %on : !o
    }
    tile_gpu.global.store %r, %out[%c0, %c0] : !o, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!q = !tile_gpu.smem<64x64xbf16 swizzle 128>
!kt = !tile_gpu.smem<64x64xbf16 swizzle 128 transposed>
!v = !tile_gpu.smem<64x64xbf16 swizzle 128>
!k_ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!v_ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!s = !tile_gpu.frag<64x64xf32, acc>
!p = !tile_gpu.frag<64x64xbf16, a>
!o = !tile_gpu.frag<64x64xf32, acc>
!row = !tile_gpu.vec<64xf32, row>
!scores = !tile_gpu.token<64x64xf32>
!sum = !tile_gpu.token<64x64xf32>

tile_gpu.kernel @between(%q: !q, %n: i32, %init: !o, %out: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %k = tile_gpu.ring.create tma consumers(4) : !k_ring
  %v = tile_gpu.ring.create tma consumers(4) : !v_ring
  tile_gpu.role "load" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %ks0 = tile_gpu.ring.wait %k[%c0] {tile_gpu.stage = #tile_gpu.stage<0, 0>} : !k_ring
    %vs0 = tile_gpu.ring.wait %v[%c0] {tile_gpu.stage = #tile_gpu.stage<1, 3>} : !v_ring
    %kt0 = tile_gpu.smem.transpose %ks0 {tile_gpu.stage = #tile_gpu.stage<0, 1>} : !q
    %qk0 = tile_gpu.mma.issue %q, %kt0 {tile_gpu.stage = #tile_gpu.stage<0, 2>} : !q, !kt -> !scores
    %s0 = tile_gpu.mma.wait %qk0 pending(0) {tile_gpu.stage = #tile_gpu.stage<0, 6>} : !scores
    %m0 = tile_gpu.reduce ins(%s0 : !s) identity(%zero : f32) attributes {tile_gpu.stage = #tile_gpu.stage<0, 7>} {
    ^bb1(%x: f32, %y: f32):
      %z = arith.maximumf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !row
    %w0 = tile_gpu.map ins(%s0, %m0 : !s, !row) attributes {tile_gpu.stage = #tile_gpu.stage<0, 9>} {
    ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
      %z = arith.subf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !s
    %p0 = tile_gpu.frag.convert %w0 {tile_gpu.stage = #tile_gpu.stage<0, 12>} : !s -> !p
    %scaled0 = tile_gpu.map ins(%init, %m0 : !o, !row) attributes {tile_gpu.stage = #tile_gpu.stage<1, 4>} {
    ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
      %z = arith.mulf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !o
    %pv0 = tile_gpu.mma.issue %p0, %vs0 acc(%scaled0) {tile_gpu.stage = #tile_gpu.stage<1, 5>} : !p, !v -> !sum
    %o0 = tile_gpu.mma.wait %pv0 pending(0) {tile_gpu.stage = #tile_gpu.stage<1, 10>} : !sum
    tile_gpu.ring.release %k[%c0] {tile_gpu.stage = #tile_gpu.stage<0, 8>} : !k_ring
    tile_gpu.ring.release %v[%c0] {tile_gpu.stage = #tile_gpu.stage<1, 11>} : !v_ring
    %r = scf.for %c = %c1 to %n step %c1 iter_args(%o = %o0) -> (!o) : i32 {
      %ks = tile_gpu.ring.wait %k[%c] {tile_gpu.stage = #tile_gpu.stage<0, 0>} : !k_ring
      %vs = tile_gpu.ring.wait %v[%c] {tile_gpu.stage = #tile_gpu.stage<1, 3>} : !v_ring
      %kt = tile_gpu.smem.transpose %ks {tile_gpu.stage = #tile_gpu.stage<0, 1>} : !q
      %qk = tile_gpu.mma.issue %q, %kt {tile_gpu.stage = #tile_gpu.stage<0, 2>} : !q, !kt -> !scores
      %s = tile_gpu.mma.wait %qk pending(0) {tile_gpu.stage = #tile_gpu.stage<0, 6>} : !scores
      %m = tile_gpu.reduce ins(%s : !s) identity(%zero : f32) attributes {tile_gpu.stage = #tile_gpu.stage<0, 7>} {
      ^bb1(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %w = tile_gpu.map ins(%s, %m : !s, !row) attributes {tile_gpu.stage = #tile_gpu.stage<0, 9>} {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.subf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !s
      %p = tile_gpu.frag.convert %w {tile_gpu.stage = #tile_gpu.stage<0, 12>} : !s -> !p
      %scaled = tile_gpu.map ins(%o, %m : !o, !row) attributes {tile_gpu.stage = #tile_gpu.stage<1, 4>} {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.mulf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !o
      %pv = tile_gpu.mma.issue %p, %vs acc(%scaled) {tile_gpu.stage = #tile_gpu.stage<1, 5>} : !p, !v -> !sum
      %on = tile_gpu.mma.wait %pv pending(0) {tile_gpu.stage = #tile_gpu.stage<1, 10>} : !sum
      tile_gpu.ring.release %k[%c] {tile_gpu.stage = #tile_gpu.stage<0, 8>} : !k_ring
      tile_gpu.ring.release %v[%c] {tile_gpu.stage = #tile_gpu.stage<1, 11>} : !v_ring
      scf.yield %on : !o
    }
    // expected-error@+1 {{reads what is not yet there after a loop; expected the next loop alone to take what stage 1 makes}}
    tile_gpu.global.store %r, %out[%c0, %c0] : !o, memref<?x?xf32>
    %r2 = scf.for %c = %c1 to %n step %c1 iter_args(%o = %r) -> (!o) : i32 {
      %ks = tile_gpu.ring.wait %k[%c] {tile_gpu.stage = #tile_gpu.stage<0, 0>} : !k_ring
      %vs = tile_gpu.ring.wait %v[%c] {tile_gpu.stage = #tile_gpu.stage<1, 3>} : !v_ring
      %kt = tile_gpu.smem.transpose %ks {tile_gpu.stage = #tile_gpu.stage<0, 1>} : !q
      %qk = tile_gpu.mma.issue %q, %kt {tile_gpu.stage = #tile_gpu.stage<0, 2>} : !q, !kt -> !scores
      %s = tile_gpu.mma.wait %qk pending(0) {tile_gpu.stage = #tile_gpu.stage<0, 6>} : !scores
      %m = tile_gpu.reduce ins(%s : !s) identity(%zero : f32) attributes {tile_gpu.stage = #tile_gpu.stage<0, 7>} {
      ^bb1(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %w = tile_gpu.map ins(%s, %m : !s, !row) attributes {tile_gpu.stage = #tile_gpu.stage<0, 9>} {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.subf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !s
      %p = tile_gpu.frag.convert %w {tile_gpu.stage = #tile_gpu.stage<0, 12>} : !s -> !p
      %scaled = tile_gpu.map ins(%o, %m : !o, !row) attributes {tile_gpu.stage = #tile_gpu.stage<1, 4>} {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.mulf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !o
      %pv = tile_gpu.mma.issue %p, %vs acc(%scaled) {tile_gpu.stage = #tile_gpu.stage<1, 5>} : !p, !v -> !sum
      %on = tile_gpu.mma.wait %pv pending(0) {tile_gpu.stage = #tile_gpu.stage<1, 10>} : !sum
      tile_gpu.ring.release %k[%c] {tile_gpu.stage = #tile_gpu.stage<0, 8>} : !k_ring
      tile_gpu.ring.release %v[%c] {tile_gpu.stage = #tile_gpu.stage<1, 11>} : !v_ring
      scf.yield %on : !o
    }
    tile_gpu.global.store %r2, %out[%c0, %c0] : !o, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

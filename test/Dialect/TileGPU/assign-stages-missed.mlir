// RUN: attn-opt %s --split-input-file --verify-diagnostics --tile-gpu-assign-stages='explain=true' -o %t.mlir
// RUN: attn-opt %s --split-input-file --canonicalize --cse -o %t.tidy.mlir
// RUN: attn-opt %t.tidy.mlir --split-input-file --tile-gpu-assign-stages | FileCheck %s

// Loops whose products do not overlap, and why.
// CHECK: kernel @
// CHECK-NOT: tile_gpu.stage

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

tile_gpu.kernel @no_first_step(%q: !q, %n: i32, %init: !o, %out: memref<?x?xf32>) {
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
    // expected-remark@+1 {{products not overlapped: no step stands ahead of the loop}}
    %r = scf.for %c = %c1 to %n step %c1 iter_args(%o = %init) -> (!o) : i32 {
      %ks = tile_gpu.ring.wait %k[%c] : !k_ring
      %vs = tile_gpu.ring.wait %v[%c] : !v_ring
      %kt = tile_gpu.smem.transpose %ks : !q
      %qk = tile_gpu.mma.issue %q, %kt : !q, !kt -> !scores
      %s = tile_gpu.mma.wait %qk pending(0) : !scores
      %m = tile_gpu.reduce ins(%s : !s) identity(%zero : f32) {
      ^bb1(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %w = tile_gpu.map ins(%s, %m : !s, !row) {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.subf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !s
      %p = tile_gpu.frag.convert %w : !s -> !p
      %scaled = tile_gpu.map ins(%o, %m : !o, !row) {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.mulf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !o
      %pv = tile_gpu.mma.issue %p, %vs acc(%scaled) : !p, !v -> !sum
      %on = tile_gpu.mma.wait %pv pending(0) : !sum
      tile_gpu.ring.release %k[%c] : !k_ring
      tile_gpu.ring.release %v[%c] : !v_ring
      scf.yield %on : !o
    }
    tile_gpu.global.store %r, %out[%c0, %c0] : !o, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

tile_gpu.kernel @two_steps_ahead(%q: !q, %n: i32, %init: !o, %out: memref<?x?xf32>) {
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
    %ksb = tile_gpu.ring.wait %k[%c0] : !k_ring
    %vsb = tile_gpu.ring.wait %v[%c0] : !v_ring
    %ktb = tile_gpu.smem.transpose %ksb : !q
    %qkb = tile_gpu.mma.issue %q, %ktb : !q, !kt -> !scores
    %sb = tile_gpu.mma.wait %qkb pending(0) : !scores
    %mb = tile_gpu.reduce ins(%sb : !s) identity(%zero : f32) {
    ^bb1(%x: f32, %y: f32):
      %z = arith.maximumf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !row
    %wb = tile_gpu.map ins(%sb, %mb : !s, !row) {
    ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
      %z = arith.subf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !s
    %pb = tile_gpu.frag.convert %wb : !s -> !p
    %scaledb = tile_gpu.map ins(%o0, %mb : !o, !row) {
    ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
      %z = arith.mulf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !o
    %pvb = tile_gpu.mma.issue %pb, %vsb acc(%scaledb) : !p, !v -> !sum
    %o1 = tile_gpu.mma.wait %pvb pending(0) : !sum
    tile_gpu.ring.release %k[%c0] : !k_ring
    tile_gpu.ring.release %v[%c0] : !v_ring
    // expected-remark@+1 {{products not overlapped: its step reads the sum of a product that has weights}}
    %r = scf.for %c = %c1 to %n step %c1 iter_args(%o = %o1) -> (!o) : i32 {
      %ks = tile_gpu.ring.wait %k[%c] : !k_ring
      %vs = tile_gpu.ring.wait %v[%c] : !v_ring
      %kt = tile_gpu.smem.transpose %ks : !q
      %qk = tile_gpu.mma.issue %q, %kt : !q, !kt -> !scores
      %s = tile_gpu.mma.wait %qk pending(0) : !scores
      %m = tile_gpu.reduce ins(%s : !s) identity(%zero : f32) {
      ^bb1(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %w = tile_gpu.map ins(%s, %m : !s, !row) {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.subf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !s
      %p = tile_gpu.frag.convert %w : !s -> !p
      %scaled = tile_gpu.map ins(%o, %m : !o, !row) {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.mulf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !o
      %pv = tile_gpu.mma.issue %p, %vs acc(%scaled) : !p, !v -> !sum
      %on = tile_gpu.mma.wait %pv pending(0) : !sum
      tile_gpu.ring.release %k[%c] : !k_ring
      tile_gpu.ring.release %v[%c] : !v_ring
      scf.yield %on : !o
    }
    tile_gpu.global.store %r, %out[%c0, %c0] : !o, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

tile_gpu.kernel @sum_is_read(%q: !q, %n: i32, %init: !o, %out: memref<?x?xf32>) {
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
    // expected-remark@+1 {{products not overlapped: more than its product, or one map ahead of that, reads a sum in a step}}
    %r = scf.for %c = %c1 to %n step %c1 iter_args(%o = %o0) -> (!o) : i32 {
      %ks = tile_gpu.ring.wait %k[%c] : !k_ring
      %vs = tile_gpu.ring.wait %v[%c] : !v_ring
      %kt = tile_gpu.smem.transpose %ks : !q
      %qk = tile_gpu.mma.issue %q, %kt : !q, !kt -> !scores
      %s = tile_gpu.mma.wait %qk pending(0) : !scores
      %m = tile_gpu.reduce ins(%s : !s) identity(%zero : f32) {
      ^bb1(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %w = tile_gpu.map ins(%s, %m : !s, !row) {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.subf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !s
      %p = tile_gpu.frag.convert %w : !s -> !p
      tile_gpu.global.store %o, %out[%c0, %c0] : !o, memref<?x?xf32>
      %scaled = tile_gpu.map ins(%o, %m : !o, !row) {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.mulf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !o
      %pv = tile_gpu.mma.issue %p, %vs acc(%scaled) : !p, !v -> !sum
      %on = tile_gpu.mma.wait %pv pending(0) : !sum
      tile_gpu.ring.release %k[%c] : !k_ring
      tile_gpu.ring.release %v[%c] : !v_ring
      scf.yield %on : !o
    }
    tile_gpu.global.store %r, %out[%c0, %c0] : !o, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

tile_gpu.kernel @not_given_back(%q: !q, %n: i32, %init: !o, %out: memref<?x?xf32>) {
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
    // expected-remark@+1 {{products not overlapped: its step does not give back the slot of a product}}
    %r = scf.for %c = %c1 to %n step %c1 iter_args(%o = %o0) -> (!o) : i32 {
      %ks = tile_gpu.ring.wait %k[%c] : !k_ring
      %vs = tile_gpu.ring.wait %v[%c] : !v_ring
      %kt = tile_gpu.smem.transpose %ks : !q
      %qk = tile_gpu.mma.issue %q, %kt : !q, !kt -> !scores
      %s = tile_gpu.mma.wait %qk pending(0) : !scores
      %m = tile_gpu.reduce ins(%s : !s) identity(%zero : f32) {
      ^bb1(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %w = tile_gpu.map ins(%s, %m : !s, !row) {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.subf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !s
      %p = tile_gpu.frag.convert %w : !s -> !p
      %scaled = tile_gpu.map ins(%o, %m : !o, !row) {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.mulf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !o
      %pv = tile_gpu.mma.issue %p, %vs acc(%scaled) : !p, !v -> !sum
      %on = tile_gpu.mma.wait %pv pending(0) : !sum
      tile_gpu.ring.release %k[%c] : !k_ring
      scf.yield %on : !o
    }
    tile_gpu.global.store %r, %out[%c0, %c0] : !o, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

tile_gpu.kernel @shared_weights(%q: !q, %n: i32, %init: !o, %out: memref<?x?xf32>) {
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
    // expected-remark@+1 {{products not overlapped: the left operand of a product is no fragment of its own}}
    %r = scf.for %c = %c1 to %n step %c1 iter_args(%o = %o0) -> (!o) : i32 {
      %ks = tile_gpu.ring.wait %k[%c] : !k_ring
      %vs = tile_gpu.ring.wait %v[%c] : !v_ring
      %kt = tile_gpu.smem.transpose %ks : !q
      %qk = tile_gpu.mma.issue %q, %kt : !q, !kt -> !scores
      %s = tile_gpu.mma.wait %qk pending(0) : !scores
      %m = tile_gpu.reduce ins(%s : !s) identity(%zero : f32) {
      ^bb1(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %w = tile_gpu.map ins(%s, %m : !s, !row) {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.subf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !s
      %p = tile_gpu.frag.convert %w : !s -> !p
      %scaled = tile_gpu.map ins(%o, %m : !o, !row) {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.mulf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !o
      %pv = tile_gpu.mma.issue %p, %vs acc(%scaled) : !p, !v -> !sum
      %on = tile_gpu.mma.wait %pv pending(0) : !sum
      tile_gpu.ring.release %k[%c] after(%p : !p) : !k_ring
      tile_gpu.ring.release %v[%c] : !v_ring
      scf.yield %on : !o
    }
    tile_gpu.global.store %r, %out[%c0, %c0] : !o, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

tile_gpu.kernel @other_ring(%q: !q, %n: i32, %init: !o, %out: memref<?x?xf32>) {
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
    // expected-remark@+1 {{products not overlapped: steps multiply tiles of different rings or shapes}}
    %r = scf.for %c = %c1 to %n step %c1 iter_args(%o = %o0) -> (!o) : i32 {
      %ks = tile_gpu.ring.wait %k[%c] : !k_ring
      %vs = tile_gpu.ring.wait %k[%c] : !k_ring
      %kt = tile_gpu.smem.transpose %ks : !q
      %qk = tile_gpu.mma.issue %q, %kt : !q, !kt -> !scores
      %s = tile_gpu.mma.wait %qk pending(0) : !scores
      %m = tile_gpu.reduce ins(%s : !s) identity(%zero : f32) {
      ^bb1(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %w = tile_gpu.map ins(%s, %m : !s, !row) {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.subf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !s
      %p = tile_gpu.frag.convert %w : !s -> !p
      %scaled = tile_gpu.map ins(%o, %m : !o, !row) {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.mulf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !o
      %pv = tile_gpu.mma.issue %p, %vs acc(%scaled) : !p, !v -> !sum
      %on = tile_gpu.mma.wait %pv pending(0) : !sum
      tile_gpu.ring.release %k[%c] : !k_ring
      scf.yield %on : !o
    }
    tile_gpu.global.store %r, %out[%c0, %c0] : !o, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

tile_gpu.kernel @in_flight(%q: !q, %n: i32, %init: !o, %out: memref<?x?xf32>) {
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
    // expected-remark@+1 {{products not overlapped: a product is not waited for by itself in its step}}
    %r = scf.for %c = %c1 to %n step %c1 iter_args(%o = %o0) -> (!o) : i32 {
      %ks = tile_gpu.ring.wait %k[%c] : !k_ring
      %vs = tile_gpu.ring.wait %v[%c] : !v_ring
      %kt = tile_gpu.smem.transpose %ks : !q
      %qk = tile_gpu.mma.issue %q, %kt : !q, !kt -> !scores
      %s = tile_gpu.mma.wait %qk pending(1) : !scores
      %m = tile_gpu.reduce ins(%s : !s) identity(%zero : f32) {
      ^bb1(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %w = tile_gpu.map ins(%s, %m : !s, !row) {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.subf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !s
      %p = tile_gpu.frag.convert %w : !s -> !p
      %scaled = tile_gpu.map ins(%o, %m : !o, !row) {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.mulf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !o
      %pv = tile_gpu.mma.issue %p, %vs acc(%scaled) : !p, !v -> !sum
      %on = tile_gpu.mma.wait %pv pending(0) : !sum
      tile_gpu.ring.release %k[%c] : !k_ring
      tile_gpu.ring.release %v[%c] : !v_ring
      scf.yield %on : !o
    }
    tile_gpu.global.store %r, %out[%c0, %c0] : !o, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

tile_gpu.kernel @in_branches(%q: !q, %n: i32, %init: !o, %out: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %yes = arith.cmpi slt, %c0, %n : i32
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
    // expected-remark@+1 {{products not overlapped: products stand in branches of its body}}
    %r = scf.for %c = %c1 to %n step %c1 iter_args(%o = %o0) -> (!o) : i32 {
      %on = scf.if %yes -> (!o) {
        %ks = tile_gpu.ring.wait %k[%c] : !k_ring
        %vs = tile_gpu.ring.wait %v[%c] : !v_ring
        %kt = tile_gpu.smem.transpose %ks : !q
        %qk = tile_gpu.mma.issue %q, %kt : !q, !kt -> !scores
        %s = tile_gpu.mma.wait %qk pending(0) : !scores
        %m = tile_gpu.reduce ins(%s : !s) identity(%zero : f32) {
        ^bb1(%x: f32, %y: f32):
          %z = arith.maximumf %x, %y : f32
          tile_gpu.yield %z : f32
        } -> !row
        %w = tile_gpu.map ins(%s, %m : !s, !row) {
        ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
          %z = arith.subf %x, %y : f32
          tile_gpu.yield %z : f32
        } -> !s
        %p = tile_gpu.frag.convert %w : !s -> !p
        %scaled = tile_gpu.map ins(%o, %m : !o, !row) {
        ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
          %z = arith.mulf %x, %y : f32
          tile_gpu.yield %z : f32
        } -> !o
        %pv = tile_gpu.mma.issue %p, %vs acc(%scaled) : !p, !v -> !sum
        %new = tile_gpu.mma.wait %pv pending(0) : !sum
        tile_gpu.ring.release %k[%c] : !k_ring
        tile_gpu.ring.release %v[%c] : !v_ring
        scf.yield %new : !o
      } else {
        scf.yield %o : !o
      }
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
!v_ring = !tile_gpu.ring<1, 64x64xbf16 swizzle 128>
!s = !tile_gpu.frag<64x64xf32, acc>
!p = !tile_gpu.frag<64x64xbf16, a>
!o = !tile_gpu.frag<64x64xf32, acc>
!row = !tile_gpu.vec<64xf32, row>
!scores = !tile_gpu.token<64x64xf32>
!sum = !tile_gpu.token<64x64xf32>

// CHECK: kernel @one_slot
// CHECK-NOT: tile_gpu.stage
tile_gpu.kernel @one_slot(%q: !q, %n: i32, %init: !o, %out: memref<?x?xf32>) {
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
    // expected-remark@+1 {{products not overlapped: a ring of one slot cannot hold the tiles of two steps}}
    %r = scf.for %c = %c1 to %n step %c1 iter_args(%o = %o0) -> (!o) : i32 {
      %ks = tile_gpu.ring.wait %k[%c] : !k_ring
      %vs = tile_gpu.ring.wait %v[%c] : !v_ring
      %kt = tile_gpu.smem.transpose %ks : !q
      %qk = tile_gpu.mma.issue %q, %kt : !q, !kt -> !scores
      %s = tile_gpu.mma.wait %qk pending(0) : !scores
      %m = tile_gpu.reduce ins(%s : !s) identity(%zero : f32) {
      ^bb1(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %w = tile_gpu.map ins(%s, %m : !s, !row) {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.subf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !s
      %p = tile_gpu.frag.convert %w : !s -> !p
      %scaled = tile_gpu.map ins(%o, %m : !o, !row) {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.mulf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !o
      %pv = tile_gpu.mma.issue %p, %vs acc(%scaled) : !p, !v -> !sum
      %on = tile_gpu.mma.wait %pv pending(0) : !sum
      tile_gpu.ring.release %k[%c] : !k_ring
      tile_gpu.ring.release %v[%c] : !v_ring
      scf.yield %on : !o
    }
    tile_gpu.global.store %r, %out[%c0, %c0] : !o, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

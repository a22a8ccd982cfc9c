// RUN: attn-opt %s --split-input-file --tile-gpu-assign-stages -o %t.once.mlir
// RUN: FileCheck %s < %t.once.mlir
// RUN: attn-opt %s --split-input-file %tidy --tile-gpu-assign-stages %tidy | FileCheck %s
// RUN: attn-opt %s --split-input-file --tile-gpu-assign-stages --tile-gpu-assign-stages | diff %t.once.mlir -

// What each pass leaves is right, and nothing is left for it to do again.
// RUN: attn-opt %s --split-input-file --tile-gpu-assign-stages --tile-gpu-expand-pipeline %verify_kernels -o %t.expanded.mlir
// RUN: attn-opt %t.expanded.mlir --split-input-file --tile-gpu-assign-stages --tile-gpu-expand-pipeline | diff %t.expanded.mlir -
// RUN: attn-opt %s --split-input-file %tidy --tile-gpu-assign-stages %tidy --tile-gpu-expand-pipeline %tidy %verify_kernels -o /dev/null

// Of each step the last product, and the scaling of its sum, run a turn later.
!q = !tile_gpu.smem<64x64xbf16 swizzle 128>
!kt = !tile_gpu.smem<64x64xbf16 swizzle 128 transposed>
!v = !tile_gpu.smem<64x64xbf16 swizzle 128>
!k_ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!deep_ring = !tile_gpu.ring<3, 64x64xbf16 swizzle 128>
!v_ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!s = !tile_gpu.frag<64x64xf32, acc>
!p = !tile_gpu.frag<64x64xbf16, a>
!o = !tile_gpu.frag<64x64xf32, acc>
!row = !tile_gpu.vec<64xf32, row>
!scores = !tile_gpu.token<64x64xf32>
!sum = !tile_gpu.token<64x64xf32>

// CHECK-LABEL: kernel @few_columns
// CHECK: scf.for
// CHECK: tile_gpu.ring.wait %[[K:.*]][%{{.*}}] {tile_gpu.stage = #tile_gpu.stage<0, 0>}
// CHECK: tile_gpu.ring.wait %[[V:.*]][%{{.*}}] {tile_gpu.stage = #tile_gpu.stage<1, 3>}
// CHECK: tile_gpu.mma.issue {{.*}} {tile_gpu.stage = #tile_gpu.stage<0, 2>}
// CHECK: tile_gpu.mma.wait {{.*}} {tile_gpu.stage = #tile_gpu.stage<0, 6>}
// CHECK: %[[M:.*]] = tile_gpu.reduce {{.*}} {tile_gpu.stage = #tile_gpu.stage<0, 7>}
// CHECK: tile_gpu.ring.release %[[K]][%{{.*}}] after(%[[M]] : {{.*}}) {tile_gpu.stage = #tile_gpu.stage<0, 8>}
// CHECK: tile_gpu.frag.convert {{.*}} {tile_gpu.stage = #tile_gpu.stage<0, 12>}
// CHECK: tile_gpu.map {{.*}} {tile_gpu.stage = #tile_gpu.stage<1, 4>}
// CHECK: tile_gpu.mma.issue {{.*}} acc({{.*}}) {tile_gpu.stage = #tile_gpu.stage<1, 5>}
// CHECK: tile_gpu.mma.wait {{.*}} {tile_gpu.stage = #tile_gpu.stage<1, 10>}
// CHECK: tile_gpu.ring.release %[[V]][%{{.*}}] {tile_gpu.stage = #tile_gpu.stage<1, 11>}
tile_gpu.kernel @few_columns(%q: !q, %n: i32, %init: !o, %out: memref<?x?xf32>) {
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

// The first step scales in another way, so that loops cannot hand factors on.
// CHECK-LABEL: kernel @other_factor
// CHECK: scf.for
// CHECK: tile_gpu.mma.issue {{.*}} {tile_gpu.stage = #tile_gpu.stage<0, 2>}
// CHECK: tile_gpu.frag.convert {{.*}} {tile_gpu.stage = #tile_gpu.stage<0, 12>}
// CHECK: tile_gpu.map {{.*}} {tile_gpu.stage = #tile_gpu.stage<0, 11>}
// CHECK: tile_gpu.mma.issue {{.*}} acc({{.*}}) {tile_gpu.stage = #tile_gpu.stage<1, 4>}
tile_gpu.kernel @other_factor(%q: !q, %n: i32, %init: !o, %out: memref<?x?xf32>) {
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
      %z = arith.addf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !o
    %pv0 = tile_gpu.mma.issue %p0, %vs0 acc(%scaled0) : !p, !v -> !sum
    %o0 = tile_gpu.mma.wait %pv0 pending(0) : !sum
    tile_gpu.ring.release %k[%c0] : !k_ring
    tile_gpu.ring.release %v[%c0] : !v_ring
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

// A factor is a scalar of the step inside of the map.
// CHECK-LABEL: kernel @captured
// CHECK: scf.for
// CHECK: sitofp
// CHECK: tile_gpu.map {{.*}} {tile_gpu.stage = #tile_gpu.stage<0, 12>}
tile_gpu.kernel @captured(%q: !q, %n: i32, %init: !o, %out: memref<?x?xf32>) {
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
      %f = arith.mulf %x, %zero : f32
      %z = arith.mulf %f, %y : f32
      tile_gpu.yield %z : f32
    } -> !o
    %pv0 = tile_gpu.mma.issue %p0, %vs0 acc(%scaled0) : !p, !v -> !sum
    %o0 = tile_gpu.mma.wait %pv0 pending(0) : !sum
    tile_gpu.ring.release %k[%c0] : !k_ring
    tile_gpu.ring.release %v[%c0] : !v_ring
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
      %factor = arith.sitofp %c : i32 to f32
      %scaled = tile_gpu.map ins(%o, %m : !o, !row) {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %f = arith.mulf %x, %factor : f32
        %z = arith.mulf %f, %y : f32
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

// The schedule says so.
// CHECK-LABEL: kernel @not_wanted
// CHECK-NOT: tile_gpu.stage
// CHECK: return
tile_gpu.kernel @not_wanted(%q: !q, %n: i32, %init: !o, %out: memref<?x?xf32>)
    attributes {schedule = #attn.schedule<block_q = 64, rows = 64, block_k = 64, overlap = none>} {
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

// Three products of a backward pass: two start from zero, and the tile of one of
// these is the right operand of the third, a step later. Both stages wait for
// that slot; the other one goes back in its own turn.
// CHECK-LABEL: kernel @gradient
// CHECK: scf.for
// CHECK: %[[K:.*]] = tile_gpu.ring.wait %[[KEYS:.*]][%[[C:.*]]] {tile_gpu.stage = #tile_gpu.stage<0, 0>}
// CHECK: tile_gpu.mma.issue {{.*}} {tile_gpu.stage = #tile_gpu.stage<0, 2>}
// CHECK: tile_gpu.mma.wait {{.*}} {tile_gpu.stage = #tile_gpu.stage<0, 8>}
// CHECK: tile_gpu.ring.wait %[[VALUES:.*]][%[[C]]] {tile_gpu.stage = #tile_gpu.stage<0, 3>}
// CHECK: tile_gpu.mma.issue {{.*}} {tile_gpu.stage = #tile_gpu.stage<0, 5>}
// CHECK: tile_gpu.mma.wait {{.*}} {tile_gpu.stage = #tile_gpu.stage<0, 9>}
// CHECK: %[[W:.*]] = tile_gpu.map
// CHECK: tile_gpu.ring.release %[[VALUES]][%[[C]]] after(%[[W]] : {{.*}}) {tile_gpu.stage = #tile_gpu.stage<0, 11>}
// CHECK: %[[AGAIN:.*]] = tile_gpu.ring.wait %[[KEYS]][%[[C]]] {tile_gpu.stage = #tile_gpu.stage<1, 6>}
// CHECK: tile_gpu.mma.issue %{{.*}}, %[[AGAIN]] acc({{.*}}) {tile_gpu.stage = #tile_gpu.stage<1, 7>}
// CHECK: tile_gpu.mma.wait {{.*}} {tile_gpu.stage = #tile_gpu.stage<1, 12>}
// CHECK: tile_gpu.ring.release %[[KEYS]][%[[C]]] {tile_gpu.stage = #tile_gpu.stage<1, 13>}
tile_gpu.kernel @gradient(%q: !q, %n: i32, %init: !o, %out: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %k = tile_gpu.ring.create tma consumers(4) : !deep_ring
  %v = tile_gpu.ring.create tma consumers(4) : !v_ring
  tile_gpu.role "load" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %ks0 = tile_gpu.ring.wait %k[%c0] : !deep_ring
    %kt0 = tile_gpu.smem.transpose %ks0 : !q
    %qk0 = tile_gpu.mma.issue %q, %kt0 : !q, !kt -> !scores
    %s0 = tile_gpu.mma.wait %qk0 pending(0) : !scores
    %vs0 = tile_gpu.ring.wait %v[%c0] : !v_ring
    %vt0 = tile_gpu.smem.transpose %vs0 : !q
    %dp0 = tile_gpu.mma.issue %q, %vt0 : !q, !kt -> !scores
    %t0 = tile_gpu.mma.wait %dp0 pending(0) : !scores
    %ds0 = tile_gpu.map ins(%s0, %t0 : !s, !s) {
    ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
      %z = arith.mulf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !s
    %p0 = tile_gpu.frag.convert %ds0 : !s -> !p
    %dq0 = tile_gpu.mma.issue %p0, %ks0 acc(%init) : !p, !v -> !sum
    %o0 = tile_gpu.mma.wait %dq0 pending(0) : !sum
    tile_gpu.ring.release %k[%c0] : !deep_ring
    tile_gpu.ring.release %v[%c0] : !v_ring
    %r = scf.for %c = %c1 to %n step %c1 iter_args(%o = %o0) -> (!o) : i32 {
      %ks = tile_gpu.ring.wait %k[%c] : !deep_ring
      %kt = tile_gpu.smem.transpose %ks : !q
      %qk = tile_gpu.mma.issue %q, %kt : !q, !kt -> !scores
      %s = tile_gpu.mma.wait %qk pending(0) : !scores
      %vs = tile_gpu.ring.wait %v[%c] : !v_ring
      %vt = tile_gpu.smem.transpose %vs : !q
      %dp = tile_gpu.mma.issue %q, %vt : !q, !kt -> !scores
      %t = tile_gpu.mma.wait %dp pending(0) : !scores
      %ds = tile_gpu.map ins(%s, %t : !s, !s) {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.mulf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !s
      %p = tile_gpu.frag.convert %ds : !s -> !p
      %dq = tile_gpu.mma.issue %p, %ks acc(%o) : !p, !v -> !sum
      %on = tile_gpu.mma.wait %dq pending(0) : !sum
      tile_gpu.ring.release %k[%c] : !deep_ring
      tile_gpu.ring.release %v[%c] : !v_ring
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
!v = !tile_gpu.smem<64x128xbf16 swizzle 128>
!k_ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!v_ring = !tile_gpu.ring<2, 64x128xbf16 swizzle 128>
!s = !tile_gpu.frag<64x64xf32, acc>
!p = !tile_gpu.frag<64x64xbf16, a>
!o = !tile_gpu.frag<64x128xf32, acc>
!row = !tile_gpu.vec<64xf32, row>
!scores = !tile_gpu.token<64x64xf32>
!sum = !tile_gpu.token<64x128xf32>

// The other warpgroup keeps the tensor cores busy.
// CHECK-LABEL: kernel @between
// CHECK: scf.for
// CHECK: tile_gpu.mma.issue {{.*}} {tile_gpu.stage = #tile_gpu.stage<0, 2>}
// CHECK: tile_gpu.frag.convert {{.*}} {tile_gpu.stage = #tile_gpu.stage<0, 12>}
// CHECK: tile_gpu.map {{.*}} {tile_gpu.stage = #tile_gpu.stage<0, 11>}
// CHECK: tile_gpu.mma.issue {{.*}} acc({{.*}}) {tile_gpu.stage = #tile_gpu.stage<1, 4>}
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

// -----

!q = !tile_gpu.smem<64x64xbf16 swizzle 128>
!kt = !tile_gpu.smem<64x64xbf16 swizzle 128 transposed>
!v = !tile_gpu.smem<64x256xbf16 swizzle 128>
!k_ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!v_ring = !tile_gpu.ring<2, 64x256xbf16 swizzle 128>
!s = !tile_gpu.frag<64x64xf32, acc>
!p = !tile_gpu.frag<64x64xbf16, a>
!o = !tile_gpu.frag<64x256xf32, acc>
!row = !tile_gpu.vec<64xf32, row>
!scores = !tile_gpu.token<64x64xf32>
!sum = !tile_gpu.token<64x256xf32>

// Wider sums beside short early products are scaled behind the wait for the product before.
// CHECK-LABEL: kernel @alone
// CHECK: scf.for
// CHECK: tile_gpu.mma.issue {{.*}} {tile_gpu.stage = #tile_gpu.stage<0, 2>}
// CHECK: tile_gpu.frag.convert {{.*}} {tile_gpu.stage = #tile_gpu.stage<0, 12>}
// CHECK: tile_gpu.map {{.*}} {tile_gpu.stage = #tile_gpu.stage<0, 11>}
// CHECK: tile_gpu.mma.issue {{.*}} acc({{.*}}) {tile_gpu.stage = #tile_gpu.stage<1, 4>}
tile_gpu.kernel @alone(%q: !q, %n: i32, %init: !o, %out: memref<?x?xf32>) {
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

// Where work tiles are in order, keys go back at once, and what the late product is to run beside is
// held ahead of the wait for it.
// CHECK-LABEL: kernel @cluster
// CHECK: scf.for
// CHECK: tile_gpu.ring.wait %[[K:.*]][%{{.*}}] {tile_gpu.stage = #tile_gpu.stage<0, 0>}
// CHECK: tile_gpu.ring.wait %[[V:.*]][%{{.*}}] {tile_gpu.stage = #tile_gpu.stage<1, 3>}
// CHECK: tile_gpu.mma.wait {{.*}} {tile_gpu.stage = #tile_gpu.stage<0, 5>}
// CHECK: tile_gpu.ring.release %[[K]][%{{.*}}] {tile_gpu.stage = #tile_gpu.stage<0, 6>}
// CHECK: %[[M:.*]] = tile_gpu.reduce {{.*}} {tile_gpu.stage = #tile_gpu.stage<0, 7>}
// CHECK: tile_gpu.hold %[[M]] {tile_gpu.stage = #tile_gpu.stage<0, 8>}
// CHECK: tile_gpu.mma.wait {{.*}} {tile_gpu.stage = #tile_gpu.stage<1, 10>}
// CHECK: tile_gpu.ring.release %[[V]][%{{.*}}] {tile_gpu.stage = #tile_gpu.stage<1, 11>}
tile_gpu.kernel @cluster(%q: !q, %n: i32, %init: !o, %out: memref<?x?xf32>)
    attributes {schedule = #attn.schedule<block_q = 64, rows = 64, block_k = 64, cluster = 2>} {
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


// RUN: attn-opt %s --split-input-file --tile-gpu-assign-stages -o %t.once.mlir
// RUN: FileCheck %s < %t.once.mlir
// RUN: attn-opt %s --split-input-file %tidy --tile-gpu-assign-stages %tidy | FileCheck %s
// RUN: attn-opt %s --split-input-file --tile-gpu-assign-stages --tile-gpu-assign-stages | diff %t.once.mlir -

// What each pass leaves is right, and nothing is left for it to do again.
// RUN: attn-opt %s --split-input-file --tile-gpu-assign-stages --tile-gpu-expand-pipeline %verify_kernels -o %t.expanded.mlir
// RUN: attn-opt %t.expanded.mlir --split-input-file --tile-gpu-assign-stages --tile-gpu-expand-pipeline | diff %t.expanded.mlir -
// RUN: attn-opt %s --split-input-file %tidy --tile-gpu-assign-stages %tidy --tile-gpu-expand-pipeline %tidy %verify_kernels -o /dev/null

!q = !tile_gpu.smem<64x256xbf16 swizzle 128>
!keys = !tile_gpu.smem<80x256xbf16 swizzle 128>
!kt = !tile_gpu.smem<256x80xbf16 swizzle 128 transposed>
!v = !tile_gpu.smem<80x256xbf16 swizzle 128>
!k_ring = !tile_gpu.ring<2, 80x256xbf16 swizzle 128>
!v_ring = !tile_gpu.ring<2, 80x256xbf16 swizzle 128>
!s = !tile_gpu.frag<64x80xf32, acc>
!p = !tile_gpu.frag<64x80xbf16, a>
!o = !tile_gpu.frag<64x256xf32, acc>
!row = !tile_gpu.vec<64xf32, row>
!scores = !tile_gpu.token<64x80xf32>
!sum = !tile_gpu.token<64x256xf32>

// Early products of so many keys and channels hide the scaling of the sum, which stands ahead of them.
// CHECK-LABEL: kernel @early
// CHECK: scf.for
// CHECK: tile_gpu.mma.issue {{.*}} {tile_gpu.stage = #tile_gpu.stage<0, 3>}
// CHECK: tile_gpu.hold {{.*}} {tile_gpu.stage = #tile_gpu.stage<0, 9>}
// CHECK: tile_gpu.map {{.*}} : !tile_gpu.frag<64x256xf32, acc>{{.*}} {tile_gpu.stage = #tile_gpu.stage<1, 2>}
// CHECK: tile_gpu.mma.issue {{.*}} acc({{.*}}) {tile_gpu.stage = #tile_gpu.stage<1, 5>}
tile_gpu.kernel @early(%q: !q, %n: i32, %init: !o, %out: memref<?x?xf32>)
    attributes {schedule = #attn.schedule<block_q = 64, rows = 64, block_k = 80>} {
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
    %kt0 = tile_gpu.smem.transpose %ks0 : !keys
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
      %kt = tile_gpu.smem.transpose %ks : !keys
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

// Weights that are summed, and with factors as well: keys go back behind them.
!q = !tile_gpu.smem<64x128xbf16 swizzle 128>
!kt = !tile_gpu.smem<128x64xbf16 swizzle 128 transposed>
!ring = !tile_gpu.ring<2, 64x128xbf16 swizzle 128>
!s = !tile_gpu.frag<64x64xf32, acc>
!p = !tile_gpu.frag<64x64xbf16, a>
!o = !tile_gpu.frag<64x128xf32, acc>
!row = !tile_gpu.vec<64xf32, row>
// CHECK-LABEL: kernel @factors
// CHECK: scf.for
// CHECK: %[[W:.*]]:2 = tile_gpu.map
// CHECK: tile_gpu.ring.release %{{.*}}[%{{.*}}] after(%[[W]]#0 : {{.*}})
tile_gpu.kernel @factors(%q: !q, %n: i32, %init: !o, %out: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %k = tile_gpu.ring.create tma consumers(4) : !ring
  %v = tile_gpu.ring.create tma consumers(4) : !ring
  tile_gpu.role "load" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %ks0 = tile_gpu.ring.wait %k[%c0] : !ring
    %vs0 = tile_gpu.ring.wait %v[%c0] : !ring
    %kt0 = tile_gpu.smem.transpose %ks0 : <64x128xbf16 swizzle 128>
    %qk0 = tile_gpu.mma.issue %q, %kt0 : !q, !kt -> !tile_gpu.token<64x64xf32>
    %s0 = tile_gpu.mma.wait %qk0 pending(0) : !tile_gpu.token<64x64xf32>
    %m0 = tile_gpu.reduce ins(%s0 : !s) identity(%zero : f32) {
    ^bb1(%x: f32, %y: f32):
      %z = arith.maximumf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !row
    %w0:2 = tile_gpu.map ins(%s0, %m0 : !s, !row) {
    ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
      %d = arith.subf %x, %y : f32
      %z = math.exp2 %d : f32
      %t = arith.mulf %d, %z : f32
      tile_gpu.yield %z, %t : f32, f32
    } -> !s, !s
    %l0 = tile_gpu.reduce ins(%w0#0 : !s) identity(%zero : f32) {
    ^bb1(%x: f32, %y: f32):
      %z = arith.addf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !row
    %en0 = tile_gpu.reduce ins(%w0#1 : !s) identity(%zero : f32) {
    ^bb1(%x: f32, %y: f32):
      %z = arith.addf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !row
    %p0 = tile_gpu.frag.convert %w0#0 : !s -> !p
    %scaled0 = tile_gpu.map ins(%init, %m0 : !o, !row) {
    ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
      %z = arith.mulf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !o
    %pv0 = tile_gpu.mma.issue %p0, %vs0 acc(%scaled0) : !p, !q -> !tile_gpu.token<64x128xf32>
    %on0 = tile_gpu.mma.wait %pv0 pending(0) : !tile_gpu.token<64x128xf32>
    tile_gpu.ring.release %k[%c0] : !ring
    tile_gpu.ring.release %v[%c0] : !ring
    %r:3 = scf.for %c = %c1 to %n step %c1 iter_args(%o = %on0, %e = %en0, %lo = %l0) -> (!o, !row, !row) : i32 {
      %ks = tile_gpu.ring.wait %k[%c] : !ring
      %vs = tile_gpu.ring.wait %v[%c] : !ring
      %kt = tile_gpu.smem.transpose %ks : <64x128xbf16 swizzle 128>
      %qk = tile_gpu.mma.issue %q, %kt : !q, !kt -> !tile_gpu.token<64x64xf32>
      %s = tile_gpu.mma.wait %qk pending(0) : !tile_gpu.token<64x64xf32>
      %m = tile_gpu.reduce ins(%s : !s) identity(%zero : f32) {
      ^bb1(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %w:2 = tile_gpu.map ins(%s, %m : !s, !row) {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %d = arith.subf %x, %y : f32
        %z = math.exp2 %d : f32
        %t = arith.mulf %d, %z : f32
        tile_gpu.yield %z, %t : f32, f32
      } -> !s, !s
      %l = tile_gpu.reduce ins(%w#0 : !s) identity(%zero : f32) {
      ^bb1(%x: f32, %y: f32):
        %z = arith.addf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %en = tile_gpu.reduce ins(%w#1 : !s) identity(%zero : f32) {
      ^bb1(%x: f32, %y: f32):
        %z = arith.addf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %p = tile_gpu.frag.convert %w#0 : !s -> !p
      %scaled = tile_gpu.map ins(%o, %m : !o, !row) {
      ^bb1(%i: i32, %j: i32, %x: f32, %y: f32):
        %z = arith.mulf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !o
      %pv = tile_gpu.mma.issue %p, %vs acc(%scaled) : !p, !q -> !tile_gpu.token<64x128xf32>
      %on = tile_gpu.mma.wait %pv pending(0) : !tile_gpu.token<64x128xf32>
      tile_gpu.ring.release %k[%c] : !ring
      tile_gpu.ring.release %v[%c] : !ring
      scf.yield %on, %en, %l : !o, !row, !row
    }
    %sums = tile_gpu.map ins(%r#0, %r#1, %r#2 : !o, !row, !row) {
    ^bb1(%i: i32, %j: i32, %x: f32, %y: f32, %z: f32):
      %u = arith.mulf %x, %y : f32
      %t = arith.mulf %u, %z : f32
      tile_gpu.yield %t : f32
    } -> !o
    tile_gpu.global.store %sums, %out[%c0, %c0] : !o, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

// Keys go back behind the product that reads them, and not behind the fold of its scores.
// CHECK-LABEL: kernel @fold
// CHECK: tile_gpu.mma.wait
// CHECK-NEXT: tile_gpu.ring.release
// CHECK: tile_gpu.fold_above
// CHECK-NOT: tile_gpu.ring.release
!fq = !tile_gpu.smem<64x64xbf16 swizzle 128>
!fk_ring = !tile_gpu.ring<2, 32x64xbf16 swizzle 128>
tile_gpu.kernel @fold(%q: !fq, %n: i32, %out: memref<?xf32>)
    attributes {schedule = #attn.schedule<block_q = 64, rows = 64, block_k = 32>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %k = tile_gpu.ring.create tma consumers(4) : !fk_ring
  %scratch = tile_gpu.smem.alloc : !tile_gpu.smem<64x40xf32>
  tile_gpu.role "load" warps(1) {
  ^bb0(%warp: i32):
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %first = tile_gpu.frag.fill %zero : f32 -> !tile_gpu.vec<64xf32, row>
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%most = %first) -> (!tile_gpu.vec<64xf32, row>) : i32 {
      %ks = tile_gpu.ring.wait %k[%i] : !fk_ring
      %kt = tile_gpu.smem.transpose %ks : !tile_gpu.smem<32x64xbf16 swizzle 128>
      %qk = tile_gpu.mma.issue %q, %kt : !fq, !tile_gpu.smem<64x32xbf16 swizzle 128 transposed> -> !tile_gpu.token<64x32xf32>
      %s = tile_gpu.mma.wait %qk pending(0) : !tile_gpu.token<64x32xf32>
      %next = tile_gpu.fold_above %s, %scratch threshold(0) factor(1.0)
          states(%most : !tile_gpu.vec<64xf32, row>) {
      ^bb1(%a: i32, %j: i32, %x: f32, %best: f32):
        %z = arith.maximumf %best, %x : f32
        tile_gpu.yield %z : f32
      } : !tile_gpu.frag<64x32xf32, acc>, !tile_gpu.smem<64x40xf32> -> !tile_gpu.vec<64xf32, row>
      tile_gpu.ring.release %k[%i] : !fk_ring
      scf.yield %next : !tile_gpu.vec<64xf32, row>
    }
    tile_gpu.global.store %r, %out[%c0] : !tile_gpu.vec<64xf32, row>, memref<?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

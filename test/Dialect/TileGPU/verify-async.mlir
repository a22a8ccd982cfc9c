// RUN: attn-opt %s --tile-gpu-verify-async | FileCheck %s
// RUN: attn-opt %s %tidy %verify_kernels | FileCheck %s

// Programs that keep the rules, each close to one that does not (see
// verify-async-errors.mlir). Whole kernels are in kernels/.

!half = !tile_gpu.smem<64x64xbf16 swizzle 128>
!ring = !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
!a = !tile_gpu.frag<64x64xbf16, a>
!c = !tile_gpu.frag<64x64xf32, acc>
!t = !tile_gpu.token<64x64xf32>

// An accumulator may be in flight across the end of the body when it is
// accumulated in place: dK of one iteration is waited for in the next.
// CHECK-LABEL: kernel @in_place_over_back_edge
tile_gpu.kernel @in_place_over_back_edge(%n: i32, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    %z = tile_gpu.frag.fill %zero : f32 -> !c
    %t0 = tile_gpu.mma.issue %s, %s acc(%z) : !half, !half -> !t
    // CHECK: scf.for {{.*}} iter_args({{.*}}) -> (!tile_gpu.token<64x64xf32>)
    %tn = scf.for %i = %c0 to %n step %c1 iter_args(%tk = %t0) -> (!t) : i32 {
      %acc = tile_gpu.mma.wait %tk pending(0) : !t
      %tk1 = tile_gpu.mma.issue %s, %s acc(%acc) : !half, !half -> !t
      scf.yield %tk1 : !t
    }
    %r = tile_gpu.mma.wait %tn pending(0) : !t
    tile_gpu.global.store %r, %m[%c0, %c0] : !c, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// A product older than the loop stays in flight through it; waits inside count
// only the products of the loop.
// CHECK-LABEL: kernel @around_a_loop
tile_gpu.kernel @around_a_loop(%n: i32, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    %t0 = tile_gpu.mma.issue %s, %s : !half, !half -> !t
    scf.for %i = %c0 to %n step %c1 : i32 {
      %x = tile_gpu.mma.issue %s, %s : !half, !half -> !t
      %y = tile_gpu.mma.issue %s, %s : !half, !half -> !t
      %rx = tile_gpu.mma.wait %x pending(1) : !t
      tile_gpu.global.store %rx, %m[%c0, %c0] : !c, memref<?x?xf32>
      %ry = tile_gpu.mma.wait %y pending(0) : !t
      tile_gpu.global.store %ry, %m[%c0, %c0] : !c, memref<?x?xf32>
    }
    %r = tile_gpu.mma.wait %t0 pending(0) : !t
    tile_gpu.global.store %r, %m[%c0, %c0] : !c, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// Two products may read one A fragment, and a new A fragment that is not the
// next iteration's may be packed while another product is in flight.
// CHECK-LABEL: kernel @shared_fragment
tile_gpu.kernel @shared_fragment(%f: !c, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    %a = tile_gpu.frag.convert %f : !c -> !a
    %x = tile_gpu.mma.issue %a, %s : !a, !half -> !t
    %y = tile_gpu.mma.issue %a, %s : !a, !half -> !t
    %b = tile_gpu.frag.convert %f : !c -> !a
    %z = tile_gpu.mma.issue %b, %s : !a, !half -> !t
    // CHECK: tile_gpu.mma.wait %{{.*}}, %{{.*}} pending(1)
    %r:2 = tile_gpu.mma.wait %x, %y pending(1) : !t, !t
    %r2 = tile_gpu.mma.wait %z pending(0) : !t
    tile_gpu.global.store %r#0, %m[%c0, %c0] : !c, memref<?x?xf32>
    tile_gpu.global.store %r#1, %m[%c0, %c0] : !c, memref<?x?xf32>
    tile_gpu.global.store %r2, %m[%c0, %c0] : !c, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// A release that depends on the read through a loop: the accumulator of the
// product that took the fragment is carried, and named after the loop.
// CHECK-LABEL: kernel @release_after_loop
tile_gpu.kernel @release_after_loop(%n: i32, %z: !tile_gpu.frag<16x8xf32, acc, warp>,
    %q: !tile_gpu.frag<64x8xbf16, b, warp>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = tile_gpu.ring.create tma consumers(4) : !ring
  tile_gpu.role "four" warps(4) {
  ^bb0(%w: i32):
    %tile = tile_gpu.ring.wait %ring[%c0] : !ring
    %k = tile_gpu.smem.slice %tile[%c0, %c0] : !half -> !tile_gpu.smem<16x64xbf16 swizzle 128 pitch 64>
    %a = tile_gpu.frag.load %k : !tile_gpu.smem<16x64xbf16 swizzle 128 pitch 64> -> !tile_gpu.frag<16x64xbf16, a, warp>
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %z) -> (!tile_gpu.frag<16x8xf32, acc, warp>) : i32 {
      %acc1 = tile_gpu.mma.sync %a, %q, %acc : !tile_gpu.frag<16x64xbf16, a, warp>, !tile_gpu.frag<64x8xbf16, b, warp> -> !tile_gpu.frag<16x8xf32, acc, warp>
      scf.yield %acc1 : !tile_gpu.frag<16x8xf32, acc, warp>
    }
    // CHECK: tile_gpu.ring.release %{{.*}}[%{{.*}}] after
    tile_gpu.ring.release %ring[%c0] after(%r : !tile_gpu.frag<16x8xf32, acc, warp>) : !ring
    tile_gpu.yield
  }
  tile_gpu.return
}

// Three slots: one product of the previous exchange may still be in flight.
// CHECK-LABEL: kernel @late_reader
tile_gpu.kernel @late_reader(%f: !a, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ds = tile_gpu.ring.create exchange producers(4) : !tile_gpu.ring<3, 64x64xbf16 swizzle 128>
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    tile_gpu.exchange %f, %ds[%c0] at(%c0, %c0) : !a, !tile_gpu.ring<3, 64x64xbf16 swizzle 128>
    %s = tile_gpu.ring.wait %ds[%c0] : !tile_gpu.ring<3, 64x64xbf16 swizzle 128>
    %t = tile_gpu.mma.issue %s, %s : !half, !half -> !t
    // CHECK: tile_gpu.exchange
    tile_gpu.exchange %f, %ds[%c1] at(%c0, %c0) : !a, !tile_gpu.ring<3, 64x64xbf16 swizzle 128>
    %r = tile_gpu.mma.wait %t pending(0) : !t
    tile_gpu.global.store %r, %m[%c0, %c0] : !c, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// Two slots: a part may be stored beside a product of the one before.
// CHECK-LABEL: kernel @stored_early
tile_gpu.kernel @stored_early(%f: !a, %m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ds = tile_gpu.ring.create exchange producers(4) : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    tile_gpu.exchange %f, %ds[%c0] at(%c0, %c0) : !a, !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
    %s = tile_gpu.ring.wait %ds[%c0] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
    %t = tile_gpu.mma.issue %s, %s : !half, !half -> !t
    // CHECK: tile_gpu.exchange {{.*}} uncommitted
    tile_gpu.exchange %f, %ds[%c1] at(%c0, %c0) uncommitted : !a, !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
    %r = tile_gpu.mma.wait %t pending(0) : !t
    tile_gpu.ring.commit %ds[%c1] : !tile_gpu.ring<2, 64x64xbf16 swizzle 128>
    tile_gpu.global.store %r, %m[%c0, %c0] : !c, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// A copy is one however many ways lead past its wait: 40 branches have 2^40.
// CHECK-LABEL: kernel @many_branches
tile_gpu.kernel @many_branches(%c: i1, %o: !tile_gpu.tensor_map<64x64xbf16 swizzle 128>) {
  %c0 = arith.constant 0 : i32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    tile_gpu.bulk.store %s, %o[%c0, %c0] : !half, !tile_gpu.tensor_map<64x64xbf16 swizzle 128>
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    scf.if %c { scf.yield }
    // CHECK: tile_gpu.bulk.wait
    tile_gpu.bulk.wait pending(0)
    tile_gpu.yield
  }
  tile_gpu.return
}

// A function that is no kernel is not checked.
// CHECK-LABEL: func.func @no_kernel
func.func @no_kernel(%s: !half) {
  %t = tile_gpu.mma.issue %s, %s : !half, !half -> !t
  return
}

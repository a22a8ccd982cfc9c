// RUN: attn-opt %s --split-input-file --tile-gpu-copy-fragments --tile-gpu-verify-async | FileCheck %s
// RUN: attn-opt %s --split-input-file %tidy --tile-gpu-copy-fragments %tidy --tile-gpu-verify-async | FileCheck %s

!half = !tile_gpu.smem<64x64xbf16 swizzle 128>
!a = !tile_gpu.frag<64x64xbf16, a>
!c = !tile_gpu.frag<64x64xf32, acc>
!t = !tile_gpu.token<64x64xf32>

// Two products from one accumulator: the first takes a copy, made where the
// accumulator is and not between the products.
// CHECK-LABEL: kernel @one_accumulator
// CHECK: %[[O:.*]] = tile_gpu.map
// CHECK: %[[OWN:.*]] = tile_gpu.frag.copy %[[O]]
// CHECK: %[[T0:.*]] = tile_gpu.mma.issue %{{.*}}, %{{.*}} acc(%[[OWN]])
// CHECK: %[[T1:.*]] = tile_gpu.mma.issue %{{.*}}, %{{.*}} acc(%[[O]])
// CHECK-NOT: frag.copy
tile_gpu.kernel @one_accumulator(%m: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    %o = tile_gpu.map {
    ^bb0(%i: i32, %j: i32):
      %x = arith.sitofp %j : i32 to f32
      tile_gpu.yield %x : f32
    } -> !c
    %t0 = tile_gpu.mma.issue %s, %s acc(%o) : !half, !half -> !t
    %t1 = tile_gpu.mma.issue %s, %s acc(%o) : !half, !half -> !t
    %r0, %r1 = tile_gpu.mma.wait %t0, %t1 pending(0) : !t, !t
    tile_gpu.global.store %r0, %m[%c0, %c0] : !c, memref<?x?xf32>
    tile_gpu.global.store %r1, %m[%c0, %c0] : !c, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!half = !tile_gpu.smem<64x64xbf16 swizzle 128>
!c = !tile_gpu.frag<64x64xf32, acc>
!t = !tile_gpu.token<64x64xf32>

// One that comes into the loop from outside is copied in each turn.
// CHECK-LABEL: kernel @loop
// CHECK: %[[O:.*]] = tile_gpu.frag.fill
// CHECK: scf.for
// CHECK-NEXT: %[[OWN:.*]] = tile_gpu.frag.copy %[[O]]
// CHECK: tile_gpu.mma.issue %{{.*}}, %{{.*}} acc(%[[OWN]])
tile_gpu.kernel @loop(%m: memref<?x?xf32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    %o = tile_gpu.frag.fill %zero : f32 -> !c
    scf.for %i = %c0 to %n step %c1 : i32 {
      %t = tile_gpu.mma.issue %s, %s acc(%o) : !half, !half -> !t
      %r = tile_gpu.mma.wait %t pending(0) : !t
      tile_gpu.global.store %r, %m[%i, %c0] : !c, memref<?x?xf32>
    }
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!half = !tile_gpu.smem<64x64xbf16 swizzle 128>
!a = !tile_gpu.frag<64x64xbf16, a>
!c = !tile_gpu.frag<64x64xf32, acc>
!t = !tile_gpu.token<64x64xf32>

// An A fragment that is read while the product does.
// CHECK-LABEL: kernel @left
// CHECK: %[[A:.*]] = tile_gpu.frag.convert
// CHECK: %[[OWN:.*]] = tile_gpu.frag.copy %[[A]]
// CHECK: tile_gpu.mma.issue %[[OWN]],
// CHECK: tile_gpu.global.store %[[A]],
// CHECK: tile_gpu.mma.wait
tile_gpu.kernel @left(%p: !c, %m: memref<?x?xbf16>, %out: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    %a = tile_gpu.frag.convert %p : !c -> !a
    %t = tile_gpu.mma.issue %a, %s : !a, !half -> !t
    tile_gpu.global.store %a, %m[%c0, %c0] : !a, memref<?x?xbf16>
    %r = tile_gpu.mma.wait %t pending(0) : !t
    tile_gpu.global.store %r, %out[%c0, %c0] : !c, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!half = !tile_gpu.smem<64x64xbf16 swizzle 128>
!a = !tile_gpu.frag<64x64xbf16, a>
!c = !tile_gpu.frag<64x64xf32, acc>
!t = !tile_gpu.token<64x64xf32>

// Nothing to copy: a use before, one in the other branch, two products that
// read one A fragment, one that reads it after the wait.
// CHECK-LABEL: kernel @alone
// CHECK-NOT: frag.copy
tile_gpu.kernel @alone(%p: !c, %m: memref<?x?xf32>, %b: memref<?x?xbf16>, %if: i1) {
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %s = tile_gpu.smem.alloc : !half
  tile_gpu.role "one" warpgroups(1) {
  ^bb0(%wg: i32):
    %o = tile_gpu.frag.fill %zero : f32 -> !c
    tile_gpu.global.store %o, %m[%c0, %c0] : !c, memref<?x?xf32>
    %a = tile_gpu.frag.convert %p : !c -> !a
    %r = scf.if %if -> !c {
      %t0 = tile_gpu.mma.issue %a, %s acc(%o) : !a, !half -> !t
      %t1 = tile_gpu.mma.issue %a, %s : !a, !half -> !t
      %r0, %r1 = tile_gpu.mma.wait %t0, %t1 pending(0) : !t, !t
      tile_gpu.global.store %r1, %m[%c0, %c0] : !c, memref<?x?xf32>
      tile_gpu.global.store %a, %b[%c0, %c0] : !a, memref<?x?xbf16>
      scf.yield %r0 : !c
    } else {
      scf.yield %o : !c
    }
    tile_gpu.global.store %r, %m[%c0, %c0] : !c, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

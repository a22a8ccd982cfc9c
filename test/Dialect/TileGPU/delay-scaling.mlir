// RUN: attn-opt %s --split-input-file --tile-delay-scaling | FileCheck %s
// RUN: attn-opt %s --split-input-file %tidy --tile-delay-scaling %tidy %verify_kernels -o /dev/null

// Loops carry the sums as they are, and the factors; behind the last one they
// are scaled for the product that is left.
!q = !tile_gpu.smem<64x64xbf16 swizzle 128>
!k = !tile_gpu.smem<64x64xbf16 swizzle 128 transposed>
!v = !tile_gpu.smem<64x64xbf16 swizzle 128>
!p = !tile_gpu.frag<64x64xbf16, a>
!s = !tile_gpu.frag<64x64xf32, acc>
!o = !tile_gpu.frag<64x64xf32, acc>
!row = !tile_gpu.vec<64xf32, row>
!scores = !tile_gpu.token<64x64xf32>
!token = !tile_gpu.token<64x64xf32>

// CHECK-LABEL: kernel @two_loops
tile_gpu.kernel @two_loops(%q: !q, %k: !k, %v: !v, %p: !p, %o: !o, %a: !row, %n: index, %out: memref<?x?xf32>) {
  %half = arith.constant 0.5 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %first = tile_gpu.map ins(%o, %a : !o, !row) {
    ^bb1(%r: i32, %c: i32, %x: f32, %y: f32):
      %z = arith.mulf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !o
    // CHECK-NOT: mulf
    // CHECK: %[[L:.*]]:2 = scf.for {{.*}} iter_args(%[[O:.*]] = %arg4, %[[A:.*]] = %arg5)
    // CHECK: tile_gpu.mma.issue %arg0, %arg1
    // CHECK: %[[SCALED:.*]] = tile_gpu.map ins(%[[O]], %[[A]] :
    // CHECK: arith.mulf
    // CHECK: tile_gpu.mma.issue %arg3, %arg2 acc(%[[SCALED]])
    // CHECK: %[[M:.*]] = tile_gpu.reduce
    // CHECK: %[[NEW:.*]] = tile_gpu.mma.wait %{{.*}} pending(0)
    // CHECK-NOT: mulf
    // CHECK: scf.yield %[[NEW]], %[[M]]
    // CHECK-NOT: mulf
    // CHECK: %[[L2:.*]]:2 = scf.for {{.*}} iter_args(%{{.*}} = %[[L]]#0, %{{.*}} = %[[L]]#1)
    // CHECK: scf.yield
    // CHECK: %[[LAST:.*]] = tile_gpu.map ins(%[[L2]]#0, %[[L2]]#1 :
    // CHECK: tile_gpu.mma.issue %arg3, %arg2 acc(%[[LAST]])
    %last = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %first) -> (!o) {
      %s = tile_gpu.mma.issue %q, %k : !q, !k -> !scores
      %t = tile_gpu.mma.issue %p, %v acc(%sum) : !p, !v -> !token
      %scores = tile_gpu.mma.wait %s pending(1) : !scores
      %m = tile_gpu.reduce ins(%scores : !s) identity(%half : f32) {
      ^bb1(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %new = tile_gpu.mma.wait %t pending(0) : !token
      %next = tile_gpu.map ins(%new, %m : !o, !row) {
      ^bb1(%r: i32, %c: i32, %x: f32, %y: f32):
        %z = arith.mulf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !o
      scf.yield %next : !o
    }
    %other = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %last) -> (!o) {
      %s = tile_gpu.mma.issue %q, %k : !q, !k -> !scores
      %t = tile_gpu.mma.issue %p, %v acc(%sum) : !p, !v -> !token
      %scores = tile_gpu.mma.wait %s pending(1) : !scores
      %m = tile_gpu.reduce ins(%scores : !s) identity(%half : f32) {
      ^bb1(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %new = tile_gpu.mma.wait %t pending(0) : !token
      %next = tile_gpu.map ins(%new, %m : !o, !row) {
      ^bb1(%r: i32, %c: i32, %x: f32, %y: f32):
        %z = arith.mulf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !o
      scf.yield %next : !o
    }
    %end = tile_gpu.mma.issue %p, %v acc(%other) : !p, !v -> !token
    %done = tile_gpu.mma.wait %end pending(0) : !token
    %at = arith.constant 0 : i32
    tile_gpu.global.store %done, %out[%at, %at] : !o, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// What the loop starts from is scaled in another way.

// CHECK-LABEL: kernel @other_map
tile_gpu.kernel @other_map(%q: !q, %k: !k, %v: !v, %p: !p, %o: !o, %a: !row, %n: index, %out: memref<?x?xf32>) {
  %half = arith.constant 0.5 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %first = tile_gpu.map ins(%o, %a : !o, !row) {
    ^bb1(%r: i32, %c: i32, %x: f32, %y: f32):
      %z = arith.addf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !o
    // CHECK: scf.for {{.*}} iter_args(%[[O:.*]] = %{{.*}}) -> (
    // CHECK: acc(%[[O]])
    // CHECK: mulf
    // CHECK: scf.yield
    %last = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %first) -> (!o) {
      %s = tile_gpu.mma.issue %q, %k : !q, !k -> !scores
      %t = tile_gpu.mma.issue %p, %v acc(%sum) : !p, !v -> !token
      %scores = tile_gpu.mma.wait %s pending(1) : !scores
      %m = tile_gpu.reduce ins(%scores : !s) identity(%half : f32) {
      ^bb1(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %new = tile_gpu.mma.wait %t pending(0) : !token
      %next = tile_gpu.map ins(%new, %m : !o, !row) {
      ^bb1(%r: i32, %c: i32, %x: f32, %y: f32):
        %z = arith.mulf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !o
      scf.yield %next : !o
    }
    %end = tile_gpu.mma.issue %p, %v acc(%last) : !p, !v -> !token
    %done = tile_gpu.mma.wait %end pending(0) : !token
    %at = arith.constant 0 : i32
    tile_gpu.global.store %done, %out[%at, %at] : !o, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// The scores are there before the product is issued: nothing to hide behind.

// CHECK-LABEL: kernel @no_product
tile_gpu.kernel @no_product(%q: !q, %k: !k, %v: !v, %p: !p, %o: !o, %a: !row, %n: index, %out: memref<?x?xf32>) {
  %half = arith.constant 0.5 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %first = tile_gpu.map ins(%o, %a : !o, !row) {
    ^bb1(%r: i32, %c: i32, %x: f32, %y: f32):
      %z = arith.mulf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !o
    // CHECK: scf.for {{.*}} iter_args(%[[O:.*]] = %{{.*}}) -> (
    // CHECK: acc(%[[O]])
    // CHECK: mulf
    // CHECK: scf.yield
    %last = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %first) -> (!o) {
      %s = tile_gpu.mma.issue %q, %k : !q, !k -> !scores
      %scores = tile_gpu.mma.wait %s pending(0) : !scores
      %t = tile_gpu.mma.issue %p, %v acc(%sum) : !p, !v -> !token
      %m = tile_gpu.reduce ins(%scores : !s) identity(%half : f32) {
      ^bb1(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %new = tile_gpu.mma.wait %t pending(0) : !token
      %next = tile_gpu.map ins(%new, %m : !o, !row) {
      ^bb1(%r: i32, %c: i32, %x: f32, %y: f32):
        %z = arith.mulf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !o
      scf.yield %next : !o
    }
    %end = tile_gpu.mma.issue %p, %v acc(%last) : !p, !v -> !token
    %done = tile_gpu.mma.wait %end pending(0) : !token
    %at = arith.constant 0 : i32
    tile_gpu.global.store %done, %out[%at, %at] : !o, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// What it scales by is inside of the map.

// CHECK-LABEL: kernel @captured
tile_gpu.kernel @captured(%q: !q, %k: !k, %v: !v, %p: !p, %o: !o, %a: !row, %n: index, %out: memref<?x?xf32>) {
  %half = arith.constant 0.5 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %first = tile_gpu.map ins(%o, %a : !o, !row) {
    ^bb1(%r: i32, %c: i32, %x: f32, %y: f32):
      %z = arith.mulf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !o
    // CHECK: scf.for {{.*}} iter_args(%[[O:.*]] = %{{.*}}) -> (
    // CHECK: acc(%[[O]])
    // CHECK: mulf
    // CHECK: scf.yield
    %last = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %first) -> (!o) {
      %s = tile_gpu.mma.issue %q, %k : !q, !k -> !scores
      %t = tile_gpu.mma.issue %p, %v acc(%sum) : !p, !v -> !token
      %scores = tile_gpu.mma.wait %s pending(1) : !scores
      %m = tile_gpu.reduce ins(%scores : !s) identity(%half : f32) {
      ^bb1(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %new = tile_gpu.mma.wait %t pending(0) : !token
      %some = arith.index_cast %i : index to i32
      %factor = arith.sitofp %some : i32 to f32
      %next = tile_gpu.map ins(%new, %m : !o, !row) {
      ^bb1(%r: i32, %c: i32, %x: f32, %y: f32):
        %w = arith.mulf %x, %y : f32
      %z = arith.mulf %w, %factor : f32
        tile_gpu.yield %z : f32
      } -> !o
      scf.yield %next : !o
    }
    %end = tile_gpu.mma.issue %p, %v acc(%last) : !p, !v -> !token
    %done = tile_gpu.mma.wait %end pending(0) : !token
    %at = arith.constant 0 : i32
    tile_gpu.global.store %done, %out[%at, %at] : !o, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!q = !tile_gpu.smem<64x64xbf16 swizzle 128>
!k = !tile_gpu.smem<64x64xbf16 swizzle 128 transposed>
!v = !tile_gpu.smem<64x128xbf16 swizzle 128>
!p = !tile_gpu.frag<64x64xbf16, a>
!s = !tile_gpu.frag<64x64xf32, acc>
!o = !tile_gpu.frag<64x128xf32, acc>
!row = !tile_gpu.vec<64xf32, row>
!scores = !tile_gpu.token<64x64xf32>
!token = !tile_gpu.token<64x128xf32>

// The other warpgroup has products enough.
// CHECK-LABEL: kernel @wide
tile_gpu.kernel @wide(%q: !q, %k: !k, %v: !v, %p: !p, %o: !o, %a: !row, %n: index, %out: memref<?x?xf32>) {
  %half = arith.constant 0.5 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %first = tile_gpu.map ins(%o, %a : !o, !row) {
    ^bb1(%r: i32, %c: i32, %x: f32, %y: f32):
      %z = arith.mulf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !o
    // CHECK: scf.for {{.*}} iter_args(%[[O:.*]] = %{{.*}}) -> (
    // CHECK: acc(%[[O]])
    // CHECK: mulf
    // CHECK: scf.yield
    %last = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %first) -> (!o) {
      %s = tile_gpu.mma.issue %q, %k : !q, !k -> !scores
      %t = tile_gpu.mma.issue %p, %v acc(%sum) : !p, !v -> !token
      %scores = tile_gpu.mma.wait %s pending(1) : !scores
      %m = tile_gpu.reduce ins(%scores : !s) identity(%half : f32) {
      ^bb1(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %new = tile_gpu.mma.wait %t pending(0) : !token
      %next = tile_gpu.map ins(%new, %m : !o, !row) {
      ^bb1(%r: i32, %c: i32, %x: f32, %y: f32):
        %z = arith.mulf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !o
      scf.yield %next : !o
    }
    %end = tile_gpu.mma.issue %p, %v acc(%last) : !p, !v -> !token
    %done = tile_gpu.mma.wait %end pending(0) : !token
    %at = arith.constant 0 : i32
    tile_gpu.global.store %done, %out[%at, %at] : !o, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// -----

!q = !tile_gpu.smem<64x64xbf16 swizzle 128>
!k = !tile_gpu.smem<64x64xbf16 swizzle 128 transposed>
!v = !tile_gpu.smem<64x256xbf16 swizzle 128>
!p = !tile_gpu.frag<64x64xbf16, a>
!s = !tile_gpu.frag<64x64xf32, acc>
!o = !tile_gpu.frag<64x256xf32, acc>
!row = !tile_gpu.vec<64xf32, row>
!scores = !tile_gpu.token<64x64xf32>
!token = !tile_gpu.token<64x256xf32>

// Wider ones wait for each other in clusters.
// CHECK-LABEL: kernel @alone
tile_gpu.kernel @alone(%q: !q, %k: !k, %v: !v, %p: !p, %o: !o, %a: !row, %n: index, %out: memref<?x?xf32>) {
  %half = arith.constant 0.5 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %first = tile_gpu.map ins(%o, %a : !o, !row) {
    ^bb1(%r: i32, %c: i32, %x: f32, %y: f32):
      %z = arith.mulf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !o
    // CHECK: scf.for {{.*}} iter_args(%[[O:.*]] = %{{.*}}) -> (
    // CHECK: acc(%[[O]])
    // CHECK: mulf
    // CHECK: scf.yield
    %last = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %first) -> (!o) {
      %s = tile_gpu.mma.issue %q, %k : !q, !k -> !scores
      %t = tile_gpu.mma.issue %p, %v acc(%sum) : !p, !v -> !token
      %scores = tile_gpu.mma.wait %s pending(1) : !scores
      %m = tile_gpu.reduce ins(%scores : !s) identity(%half : f32) {
      ^bb1(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %new = tile_gpu.mma.wait %t pending(0) : !token
      %next = tile_gpu.map ins(%new, %m : !o, !row) {
      ^bb1(%r: i32, %c: i32, %x: f32, %y: f32):
        %z = arith.mulf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !o
      scf.yield %next : !o
    }
    %end = tile_gpu.mma.issue %p, %v acc(%last) : !p, !v -> !token
    %done = tile_gpu.mma.wait %end pending(0) : !token
    %at = arith.constant 0 : i32
    tile_gpu.global.store %done, %out[%at, %at] : !o, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// CHECK-LABEL: kernel @clusters
tile_gpu.kernel @clusters(%q: !q, %k: !k, %v: !v, %p: !p, %o: !o, %a: !row, %n: index, %out: memref<?x?xf32>)
    attributes {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, cluster = 2>} {
  %half = arith.constant 0.5 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %first = tile_gpu.map ins(%o, %a : !o, !row) {
    ^bb1(%r: i32, %c: i32, %x: f32, %y: f32):
      %z = arith.mulf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !o
    // CHECK: scf.for {{.*}} iter_args(%[[O:.*]] = %arg4, %[[A:.*]] = %arg5)
    // CHECK: %[[SCALED:.*]] = tile_gpu.map ins(%[[O]], %[[A]] :
    // CHECK: acc(%[[SCALED]])
    %last = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %first) -> (!o) {
      %s = tile_gpu.mma.issue %q, %k : !q, !k -> !scores
      %t = tile_gpu.mma.issue %p, %v acc(%sum) : !p, !v -> !token
      %scores = tile_gpu.mma.wait %s pending(1) : !scores
      %m = tile_gpu.reduce ins(%scores : !s) identity(%half : f32) {
      ^bb1(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %new = tile_gpu.mma.wait %t pending(0) : !token
      %next = tile_gpu.map ins(%new, %m : !o, !row) {
      ^bb1(%r: i32, %c: i32, %x: f32, %y: f32):
        %z = arith.mulf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !o
      scf.yield %next : !o
    }
    %end = tile_gpu.mma.issue %p, %v acc(%last) : !p, !v -> !token
    %done = tile_gpu.mma.wait %end pending(0) : !token
    %at = arith.constant 0 : i32
    tile_gpu.global.store %done, %out[%at, %at] : !o, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

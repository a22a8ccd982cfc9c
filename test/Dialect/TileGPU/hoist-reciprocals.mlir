// RUN: attn-opt %s --tile-gpu-hoist-reciprocals | FileCheck %s
// RUN: attn-opt %s --split-input-file %tidy --tile-gpu-hoist-reciprocals %tidy %verify_kernels -o /dev/null

!o = !tile_gpu.frag<64x64xf32, acc>
!o16 = !tile_gpu.frag<64x64xbf16, acc>
!row = !tile_gpu.vec<64xf32, row>

// CHECK-LABEL: kernel @rounded
tile_gpu.kernel @rounded(%o: !o, %l: !row, %out: memref<?x?xbf16>) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    // CHECK: %[[R:.*]] = tile_gpu.map ins(%[[L:.*]] : !tile_gpu.vec<64xf32, row>)
    // CHECK: arith.divf %cst, %{{.*}}
    // CHECK: -> !tile_gpu.vec<64xf32, row>
    // CHECK: tile_gpu.map ins(%{{.*}}, %[[L]], %[[R]] :
    // CHECK: ^bb0(%{{.*}}: i32, %{{.*}}: i32, %[[X:.*]]: f32, %{{.*}}: f32, %[[F:.*]]: f32):
    // CHECK: arith.mulf %[[X]], %[[F]]
    // CHECK-NOT: divf
    %x = tile_gpu.map ins(%o, %l : !o, !row) {
    ^bb1(%r: i32, %c: i32, %a: f32, %b: f32):
      %y = arith.divf %a, %b fastmath<arcp> : f32
      tile_gpu.yield %y : f32
    } -> !o
    %y = tile_gpu.frag.convert %x : !o -> !o16
    tile_gpu.global.store %y, %out[%c0, %c0] : !o16, memref<?x?xbf16>
    tile_gpu.yield
  }
  tile_gpu.return
}

// A divisor of any size is brought near 1 first.
// CHECK-LABEL: kernel @any_size
tile_gpu.kernel @any_size(%o: !o, %l: !row, %out: memref<?x?xbf16>) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    // CHECK: %[[R:.*]]:2 = tile_gpu.map ins(%[[L:.*]] : !tile_gpu.vec<64xf32, row>)
    // CHECK: ^bb0(%{{.*}}: i32, %{{.*}}: i32, %[[Y:.*]]: f32):
    // CHECK: %[[DOWN:.*]] = arith.constant 7.88860905E-31 : f32
    // CHECK: %[[UP:.*]] = arith.constant 1.2676506E+30 : f32
    // CHECK: %[[SCALE:.*]] = arith.select %{{.*}}, %[[UP]], %{{.*}} : f32
    // CHECK: %[[NEAR:.*]] = arith.mulf %[[Y]], %[[SCALE]]
    // CHECK: %[[INVERSE:.*]] = arith.divf %{{.*}}, %[[NEAR]] fastmath<arcp>
    // CHECK: tile_gpu.yield %[[SCALE]], %[[INVERSE]]
    // CHECK: tile_gpu.map ins(%{{.*}}, %[[L]], %[[R]]#0, %[[R]]#1 :
    // CHECK: ^bb0(%{{.*}}: i32, %{{.*}}: i32, %[[X:.*]]: f32, %{{.*}}: f32, %[[F:.*]]: f32, %[[G:.*]]: f32):
    // CHECK: %[[Z:.*]] = arith.mulf %[[X]], %[[F]]
    // CHECK: arith.mulf %[[Z]], %[[G]]
    // CHECK-NOT: divf
    %x = tile_gpu.map ins(%o, %l : !o, !row) {
    ^bb1(%r: i32, %c: i32, %a: f32, %b: f32):
      %y = arith.divf %a, %b : f32
      tile_gpu.yield %y : f32
    } -> !o
    %y = tile_gpu.frag.convert %x : !o -> !o16
    tile_gpu.global.store %y, %out[%c0, %c0] : !o16, memref<?x?xbf16>
    tile_gpu.yield
  }
  tile_gpu.return
}

// All 32 bits are asked for; a divisor that is no row vector.
// CHECK-LABEL: kernel @exact
// CHECK: tile_gpu.map
// CHECK: arith.divf
// CHECK: tile_gpu.map
// CHECK: arith.divf
// CHECK-NOT: arith.mulf
tile_gpu.kernel @exact(%o: !o, %l: !row, %out: memref<?x?xf32>, %half: memref<?x?xbf16>) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %x = tile_gpu.map ins(%o, %l : !o, !row) {
    ^bb1(%r: i32, %c: i32, %a: f32, %b: f32):
      %y = arith.divf %a, %b : f32
      tile_gpu.yield %y : f32
    } -> !o
    tile_gpu.global.store %x, %out[%c0, %c0] : !o, memref<?x?xf32>
    %z = tile_gpu.map ins(%o : !o) {
    ^bb1(%r: i32, %c: i32, %a: f32):
      %y = arith.divf %a, %a : f32
      tile_gpu.yield %y : f32
    } -> !o
    %y = tile_gpu.frag.convert %z : !o -> !o16
    tile_gpu.global.store %y, %half[%c0, %c0] : !o16, memref<?x?xbf16>
    tile_gpu.yield
  }
  tile_gpu.return
}

// RUN: attn-opt %s --verify-roundtrip | FileCheck %s

// One query tile of plain softmax attention, keys in tiles of 128.
// CHECK-LABEL: kernel @kernel
tile.kernel @kernel(%Q: memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>>,
                  %K: memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>>,
                  %V: memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>>,
                  %O: memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>>,
                  %block: index) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %ninf = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %sq = memref.dim %Q, %c2 : memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>>
  %sk = memref.dim %K, %c2 : memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>>
  %i0 = arith.muli %block, %c64 : index
  %q = tile.load %Q[%c0, %c0, %i0, %c0] rows(%c0 to %sq) : memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>> -> !tile.tile<64x64xf32>
  %m0 = tile.fill %ninf : f32 -> !tile.tile<64x1xf32>
  %l0 = tile.fill %zero : f32 -> !tile.tile<64x1xf32>
  %a0 = tile.fill %zero : f32 -> !tile.tile<64x64xf32>
  %r:3 = scf.for %j = %c0 to %sk step %c128 iter_args(%m = %m0, %l = %l0, %a = %a0) -> (!tile.tile<64x1xf32>, !tile.tile<64x1xf32>, !tile.tile<64x64xf32>) {
    %k = tile.load %K[%c0, %c0, %j, %c0] rows(%c0 to %sk) : memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>> -> !tile.tile<128x64xf32>
    %v = tile.load %V[%c0, %c0, %j, %c0] rows(%c0 to %sk) : memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>> -> !tile.tile<128x64xf32>
    // CHECK: tile.rows 32 ins(%{{.*}}) outs(
    %n:3 = tile.rows 32 ins(%q : !tile.tile<64x64xf32>) outs(%m, %l, %a : !tile.tile<64x1xf32>, !tile.tile<64x1xf32>, !tile.tile<64x64xf32>) {
    ^bb0(%row: index, %qr: !tile.tile<32x64xf32>, %mr: !tile.tile<32x1xf32>, %lr: !tile.tile<32x1xf32>, %ar: !tile.tile<32x64xf32>):
      // CHECK: tile.dot %{{.*}}, %{{.*}} transpose_rhs :
      %s = tile.dot %qr, %k transpose_rhs : !tile.tile<32x64xf32>, !tile.tile<128x64xf32> -> !tile.tile<32x128xf32>
      // CHECK: tile.dot %{{.*}}, %{{.*}} ramp %{{.*}} transpose_rhs :
      %ramp = tile.dot %qr, %k ramp %zero transpose_rhs : !tile.tile<32x64xf32>, !tile.tile<128x64xf32> -> !tile.tile<32x128xf32>
      %mt = tile.reduce ins(%s : !tile.tile<32x128xf32>) identity(%ninf : f32) {
      ^bb0(%x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        tile.yield %z : f32
      } -> !tile.tile<32x1xf32>
      %mn, %rho = tile.map ins(%mr, %mt : !tile.tile<32x1xf32>, !tile.tile<32x1xf32>) {
      ^bb0(%rr: i32, %cc: i32, %x: f32, %y: f32):
        %z = arith.maximumf %x, %y : f32
        %d = arith.subf %x, %z : f32
        %e = math.exp %d : f32
        tile.yield %z, %e : f32, f32
      } -> !tile.tile<32x1xf32>, !tile.tile<32x1xf32>
      %p = tile.map ins(%s, %mn : !tile.tile<32x128xf32>, !tile.tile<32x1xf32>) {
      ^bb0(%rr: i32, %cc: i32, %x: f32, %y: f32):
        %d = arith.subf %x, %y : f32
        %e = math.exp %d : f32
        tile.yield %e : f32
      } -> !tile.tile<32x128xf32>
      %lt = tile.reduce ins(%p : !tile.tile<32x128xf32>) identity(%zero : f32) {
      ^bb0(%x: f32, %y: f32):
        %z = arith.addf %x, %y : f32
        tile.yield %z : f32
      } -> !tile.tile<32x1xf32>
      %ln = tile.map ins(%lr, %rho, %lt : !tile.tile<32x1xf32>, !tile.tile<32x1xf32>, !tile.tile<32x1xf32>) {
      ^bb0(%rr: i32, %cc: i32, %x: f32, %y: f32, %z: f32):
        %f = math.fma %x, %y, %z : f32
        tile.yield %f : f32
      } -> !tile.tile<32x1xf32>
      // CHECK: tile.dot %{{.*}}, %{{.*}} acc %{{.*}} scale %{{.*}} :
      %an = tile.dot %p, %v acc %ar scale %rho : !tile.tile<32x128xf32>, !tile.tile<128x64xf32> -> !tile.tile<32x64xf32>
      tile.yield %mn, %ln, %an : !tile.tile<32x1xf32>, !tile.tile<32x1xf32>, !tile.tile<32x64xf32>
    } -> !tile.tile<64x1xf32>, !tile.tile<64x1xf32>, !tile.tile<64x64xf32>
    scf.yield %n#0, %n#1, %n#2 : !tile.tile<64x1xf32>, !tile.tile<64x1xf32>, !tile.tile<64x64xf32>
  }
  %o = tile.map ins(%r#2, %r#1 : !tile.tile<64x64xf32>, !tile.tile<64x1xf32>) {
  ^bb0(%rr: i32, %cc: i32, %x: f32, %y: f32):
    %z = arith.divf %x, %y : f32
    tile.yield %z : f32
  } -> !tile.tile<64x64xf32>
  // CHECK: tile.store %{{.*}}, %{{.*}}[%{{.*}}] rows(%{{.*}} to %{{.*}})
  tile.store %o, %O[%c0, %c0, %i0, %c0] rows(%c0 to %sq) : !tile.tile<64x64xf32>, memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>>
  tile.return
}

// CHECK-LABEL: func.func @plan
func.func @plan(%Q: memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>>,
                %K: memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>>,
                %V: memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>>,
                %O: memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>>) {
  %c2 = arith.constant 2 : index
  %c64 = arith.constant 64 : index
  %sq = memref.dim %Q, %c2 : memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>>
  %n = arith.ceildivui %sq, %c64 : index
  // CHECK: tile.launch @kernel grid(%{{.*}}) args(
  tile.launch @kernel grid(%n) args(%Q, %K, %V, %O : memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>>, memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>>, memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>>, memref<?x?x?x64xf32, strided<[?, ?, ?, 1]>>)
  return
}

// Truths as bits of words in memory.
// CHECK-LABEL: func.func @store_bits
func.func @store_bits(%a: !tile.tile<32x64xi1>, %m: memref<?x128x3xi32>, %n: index, %r: index, %c: index) {
  // CHECK: tile.store_bits %{{.*}}, %{{.*}}[%{{.*}}] row(%{{.*}}) column(%{{.*}}) : <32x64xi1>, memref<?x128x3xi32>
  tile.store_bits %a, %m[%n] row(%r) column(%c) : !tile.tile<32x64xi1>, memref<?x128x3xi32>
  return
}

// What a later block loads.
// CHECK-LABEL: func.func @prefetch
func.func @prefetch(%m: memref<?x128x64xbf16>, %n: index, %r: index) {
  // CHECK: tile.prefetch %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] rows(32) columns(64) : memref<?x128x64xbf16>
  tile.prefetch %m[%n, %r, %r] rows(32) columns(64) : memref<?x128x64xbf16>
  return
}

// Truths of columns as words, and words as a row of truths.
// CHECK-LABEL: func.func @words
func.func @words(%a: !tile.tile<48x1xi1>, %b: !tile.tile<48x1xi1>) {
  // CHECK: %[[W:.*]]:4 = tile.bits %{{.*}}, %{{.*}} : !tile.tile<48x1xi1>, !tile.tile<48x1xi1>
  %w:4 = tile.bits %a, %b : !tile.tile<48x1xi1>, !tile.tile<48x1xi1>
  // CHECK: tile.truths %[[W]]#0, %[[W]]#1 : <1x48xi1>
  %t = tile.truths %w#0, %w#1 : !tile.tile<1x48xi1>
  return
}

// CHECK-LABEL: func.func @pad
func.func @pad(%p: !tile.tile<64x64xf32>) -> !tile.tile<64x128xf32> {
  // CHECK: tile.pad %{{.*}} first 64 : <64x64xf32> -> <64x128xf32>
  %w = tile.pad %p first 64 : !tile.tile<64x64xf32> -> !tile.tile<64x128xf32>
  return %w : !tile.tile<64x128xf32>
}

// CHECK-LABEL: func.func @backward
func.func @backward(%Q: memref<?x?x64xbf16, strided<[?, ?, 1]>>, %L: memref<?x?xf32, strided<[?, ?]>>,
                      %DQ: memref<?x?x64xf32, strided<[?, ?, 1]>>, %ds: !tile.tile<128x64xf32>,
                      %k: !tile.tile<128x64xf32>, %kt: !tile.tile<64x128xf32>, %r: !tile.tile<64x1xf32>, %h: index, %i: index, %N: memref<?x?xi32>) {
  %c0 = arith.constant 0 : index
  // CHECK: tile.load transposed %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] rows(%{{.*}} to %{{.*}}) : {{.*}} -> <64x128xbf16>
  %qt = tile.load transposed %Q[%h, %i, %c0] rows(%c0 to %i) : memref<?x?x64xbf16, strided<[?, ?, 1]>> -> !tile.tile<64x128xbf16>
  // CHECK: tile.store transposed %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] rows(%{{.*}} to %{{.*}}) : <64x128xbf16>
  tile.store transposed %qt, %Q[%h, %i, %c0] rows(%c0 to %i) : !tile.tile<64x128xbf16>, memref<?x?x64xbf16, strided<[?, ?, 1]>>
  // CHECK: tile.load vector transposed %{{.*}}[%{{.*}}, %{{.*}}] : {{.*}} -> <1x64xf32>
  %l = tile.load vector transposed %L[%h, %i] : memref<?x?xf32, strided<[?, ?]>> -> !tile.tile<1x64xf32>
  // CHECK: tile.dot %{{.*}}, %{{.*}} transpose_lhs :
  %dq = tile.dot %ds, %k transpose_lhs : !tile.tile<128x64xf32>, !tile.tile<128x64xf32> -> !tile.tile<64x64xf32>
  // CHECK: tile.dot %{{.*}}, %{{.*}} acc %{{.*}} transpose_lhs transpose_rhs tf32 :
  %both = tile.dot %ds, %kt acc %dq transpose_lhs transpose_rhs tf32 : !tile.tile<128x64xf32>, !tile.tile<64x128xf32> -> !tile.tile<64x64xf32>
  // CHECK: tile.accumulate %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] rows(%{{.*}} to %{{.*}}) :
  tile.accumulate %dq, %DQ[%h, %i, %c0] rows(%c0 to %i) : !tile.tile<64x64xf32>, memref<?x?x64xf32, strided<[?, ?, 1]>>
  // CHECK: tile.accumulate any_order vector %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] :
  tile.accumulate any_order vector %r, %L[%h, %i] : !tile.tile<64x1xf32>, memref<?x?xf32, strided<[?, ?]>>
  // CHECK: tile.accumulate any_order %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] turn(%{{.*}} of %{{.*}}[%{{.*}}, %{{.*}}] : memref<?x?xi32>) :
  tile.accumulate any_order %dq, %DQ[%h, %i, %c0] turn(%i of %N[%h, %i] : memref<?x?xi32>) : !tile.tile<64x64xf32>, memref<?x?x64xf32, strided<[?, ?, 1]>>
  return
}

// CHECK-LABEL: func.func @turn
func.func @turn(%k: !tile.tile<64x128xbf16>) -> !tile.tile<64x128xbf16> {
  // CHECK: tile.turn %{{.*}}, <64, halves> {
  // CHECK-NEXT: ^bb0(%{{.*}}: i32, %{{.*}}: i32, %[[X:.*]]: bf16, %[[Y:.*]]: bf16):
  // CHECK-NEXT: tile.yield %[[Y]], %[[X]] : bf16, bf16
  // CHECK-NEXT: } : <64x128xbf16>
  %t = tile.turn %k, #attn.rotary<64, halves> {
  ^bb0(%r: i32, %c: i32, %x: bf16, %y: bf16):
    tile.yield %y, %x : bf16, bf16
  } : !tile.tile<64x128xbf16>
  return %t : !tile.tile<64x128xbf16>
}

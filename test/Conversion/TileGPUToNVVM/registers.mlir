// RUN: attn-opt %s --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm --split-input-file | FileCheck %s
// RUN: attn-opt %s --split-input-file %tidy --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm | FileCheck %s

// Positions of keys: both limits come to the side of what a thread's columns
// share, and each element compares its own constant, once.

!s = !tile_gpu.frag<16x16xf32, acc, warp>
module attributes {attn.target = "sm_80"} {
// CHECK-LABEL: llvm.func @limits
// CHECK-DAG: %[[KEYS:.*]] = llvm.call_intrinsic "llvm.ssub.sat.i32"
// CHECK: llvm.intr.smin
// CHECK-NOT: llvm.and
// CHECK-COUNT-8: llvm.select
tile_gpu.kernel private @limits(%in: memref<16x16xf32>, %out: memref<16x16xf32>,
    %first: index, %keys: i32, %limit: i32) {
  %c0 = arith.constant 0 : i32
  %low = arith.constant -1.0 : f32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %s = tile_gpu.global.load %in[%c0, %c0] : memref<16x16xf32> -> !s
    %j0 = arith.index_cast %first : index to i32
    %m = tile_gpu.map ins(%s : !s) {
    ^bb0(%r: i32, %c: i32, %x: f32):
      %exists = arith.cmpi slt, %c, %keys : i32
      %j = arith.addi %j0, %c : i32
      %i = arith.addi %limit, %r : i32
      %seen = arith.cmpi sle, %j, %i : i32
      %live = arith.andi %exists, %seen : i1
      %y = arith.select %live, %x, %low : f32
      tile_gpu.yield %y : f32
    } -> !s
    tile_gpu.global.store %m, %out[%c0, %c0] : !s, memref<16x16xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

// Bits of a column's number: the part that a thread's columns share is computed
// once, the others are constants; and as many registers as three blocks have.

!s = !tile_gpu.frag<16x16xi32, acc, warp>
module attributes {attn.target = "sm_80"} {
// CHECK-LABEL: llvm.func @column
// CHECK-SAME: nvvm.minctasm = 3 : i32
// CHECK-DAG: %[[SIX:.*]] = llvm.mlir.constant(6 : i32)
// CHECK: %[[OWN:.*]] = llvm.and %{{.*}}, %[[SIX]] : i32
// CHECK-NOT: llvm.and
// CHECK-COUNT-8: llvm.lshr %{{.*}}, %[[OWN]]
// CHECK-NOT: llvm.lshr
tile_gpu.kernel private @column(%in: memref<16x16xi32>, %out: memref<16x16xi32>)
    attributes {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, occupancy = 3>} {
  %c0 = arith.constant 0 : i32
  %c3 = arith.constant 3 : i32
  %own = arith.constant 6 : i32
  %others = arith.constant 25 : i32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %s = tile_gpu.global.load %in[%c0, %c0] : memref<16x16xi32> -> !s
    %m = tile_gpu.map ins(%s : !s) {
    ^bb0(%r: i32, %c: i32, %x: i32):
      %a = arith.andi %c, %own : i32
      %b = arith.andi %c, %others : i32
      %d = arith.shrui %c, %c3 : i32
      %y = arith.shrui %x, %a : i32
      %z = arith.addi %y, %b : i32
      %w = arith.addi %z, %d : i32
      tile_gpu.yield %w : i32
    } -> !s
    tile_gpu.global.store %m, %out[%c0, %c0] : !s, memref<16x16xi32>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

// What columns do not share is not folded: neither odd columns, nor a sum with
// something else, nor what stands under a condition of one element.

!s = !tile_gpu.frag<16x16xi32, acc, warp>
module attributes {attn.target = "sm_80"} {
// CHECK-LABEL: llvm.func @columns
// CHECK-DAG: %[[SIX:.*]] = llvm.mlir.constant(6 : i32)
// CHECK-DAG: %[[SEVEN:.*]] = llvm.mlir.constant(7 : i32)
// CHECK-COUNT-8: llvm.and %{{.*}}, %[[SIX]] : i32
// CHECK-NOT: llvm.and %{{.*}}, %[[SIX]] : i32
tile_gpu.kernel private @columns(%in: memref<16x16xi32>, %out: memref<16x16xi32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c2 = arith.constant 2 : i32
  %own = arith.constant 6 : i32
  %odd = arith.constant 7 : i32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %s = tile_gpu.global.load %in[%c0, %c0] : memref<16x16xi32> -> !s
    %m = tile_gpu.map ins(%s : !s) {
    ^bb0(%r: i32, %c: i32, %x: i32):
      %a = arith.andi %c, %odd : i32
      %d = arith.shrui %c, %c2 : i32
      %k = arith.addi %n, %c : i32
      %e = arith.andi %k, %odd : i32
      %p = arith.cmpi sgt, %x, %c0 : i32
      %y = scf.if %p -> i32 {
        %b = arith.andi %c, %own : i32
        scf.yield %b : i32
      } else {
        scf.yield %x : i32
      }
      %f = arith.addi %a, %d : i32
      %g = arith.addi %e, %f : i32
      %h = arith.addi %g, %y : i32
      tile_gpu.yield %h : i32
    } -> !s
    tile_gpu.global.store %m, %out[%c0, %c0] : !s, memref<16x16xi32>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

// More blocks of 8 x 8 than lanes take turns, and the last turn may have fewer:
// four lanes share one.

!t = !tile_gpu.frag<16x136xi1, acc, warp>
module attributes {attn.target = "sm_80"} {
// CHECK-LABEL: llvm.func @many_bits
// CHECK-COUNT-64: llvm.nvvm.vote.ballot.sync
// CHECK-NOT: llvm.nvvm.vote.ballot.sync
// CHECK-COUNT-8: st.global.b8
// CHECK-NOT: st.global.b8
// CHECK-COUNT-4: llvm.nvvm.vote.ballot.sync
// CHECK-NOT: llvm.nvvm.vote.ballot.sync
// CHECK-COUNT-2: st.global.b8
// CHECK-NOT: st.global.b8
tile_gpu.kernel private @many_bits(%in: memref<16x136xf32>, %out: memref<136x2xi32>, %c0: i32) {
  %zero = arith.constant 0.0 : f32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %s = tile_gpu.global.load %in[%c0, %c0] : memref<16x136xf32> -> !tile_gpu.frag<16x136xf32, acc, warp>
    %t = tile_gpu.map ins(%s : !tile_gpu.frag<16x136xf32, acc, warp>) {
    ^bb0(%r: i32, %c: i32, %x: f32):
      %p = arith.cmpf ogt, %x, %zero : f32
      tile_gpu.yield %p : i1
    } -> !t
    tile_gpu.global.store_bits %t, %out[] row(%c0) column(%c0) : !t, memref<136x2xi32>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

// Truths as bits: two votes for each block of 8 rows and 8 columns, which two of
// the 32 lanes take, and a byte for each of its columns.

!t = !tile_gpu.frag<16x64xi1, acc, warp>
module attributes {attn.target = "sm_80"} {
// CHECK-LABEL: llvm.func @bits
// CHECK-COUNT-32: llvm.nvvm.vote.ballot.sync
// CHECK-NOT: llvm.nvvm.vote.ballot.sync
// CHECK-COUNT-4: st.global.b8
// CHECK-NOT: st.global.b8
tile_gpu.kernel private @bits(%in: memref<16x64xf32>, %out: memref<?x128x2xi32>, %n: i32, %row: i32, %col: i32) {
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %s = tile_gpu.global.load %in[%c0, %c0] : memref<16x64xf32> -> !tile_gpu.frag<16x64xf32, acc, warp>
    %t = tile_gpu.map ins(%s : !tile_gpu.frag<16x64xf32, acc, warp>) {
    ^bb0(%r: i32, %c: i32, %x: f32):
      %p = arith.cmpf ogt, %x, %zero : f32
      tile_gpu.yield %p : i1
    } -> !t
    tile_gpu.global.store_bits %t, %out[%n] row(%row) column(%col) : !t, memref<?x128x2xi32>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

// 32 columns of 16 bits: each lane of a quad writes 16 bytes.

!o = !tile_gpu.frag<16x32xbf16, acc, warp>
module attributes {attn.target = "sm_80"} {
// CHECK-LABEL: llvm.func @rows
// CHECK-COUNT-4: llvm.nvvm.shfl.sync.bfly
// CHECK: st.global.v4.b32
// CHECK-COUNT-4: llvm.nvvm.shfl.sync.bfly
// CHECK: st.global.v4.b32
// CHECK: st.global.b16
tile_gpu.kernel private @rows(%out: memref<?x32xbf16, strided<[?, 1]>>) {
  %c0 = arith.constant 0 : i32
  %one = arith.constant 1.0 : bf16
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %o = tile_gpu.frag.fill %one : bf16 -> !o
    tile_gpu.global.store %o, %out[%c0, %c0] : !o, memref<?x32xbf16, strided<[?, 1]>>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

// What does not change between items comes before them, with the inverses of
// divisors; an item's own division is a product and two corrections.

module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: llvm.func @items
// CHECK: llvm.uitofp
// CHECK: llvm.nvvm.rcp.approx.ftz.f
// CHECK: llvm.nvvm.mulhi.ui
// CHECK: %[[INVERSE:.*]] = llvm.add
// CHECK: llvm.br
// CHECK-NOT: llvm.uitofp
// CHECK: llvm.call_intrinsic "llvm.nvvm.mulhi.ui"(%{{.*}}, %[[INVERSE]])
// CHECK-COUNT-2: llvm.icmp "uge"
// CHECK-NOT: llvm.udiv
tile_gpu.kernel private @items(%out: memref<?xf32>, %tickets: memref<1xi32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %schedule = tile_gpu.scheduler dynamic in_order
      tickets(%tickets : memref<1xi32>) tiles(%n) heads(%c1) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32):
    tile_gpu.yield %c0, %c1 : i32, i32
  }
  tile_gpu.role "load" warps(1) registers(24) {
  ^bb0(%warp: i32):
    tile_gpu.foreach %schedule lead {
    ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32, %lo: i32, %hi: i32):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) registers(240) {
  ^bb0(%wg: i32):
    tile_gpu.foreach %schedule {
    ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32, %lo: i32, %hi: i32):
      %m = arith.addi %n, %c1 : i32
      %q = arith.divui %tile, %m : i32
      %f = arith.sitofp %q : i32 to f32
      %v = tile_gpu.frag.fill %f : f32 -> !tile_gpu.vec<64xf32, row>
      tile_gpu.global.store %v, %out[%c0] : !tile_gpu.vec<64xf32, row>, memref<?xf32>
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

// Elements of a column vector by shuffles, a scalar that one lane stores, and
// rows that are cleared where their bit is 0.

module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: llvm.func @words
// CHECK-COUNT-8: "llvm.nvvm.shfl.sync.idx.i32"
// CHECK: llvm.inline_asm {{.*}}"@$2 st.global.b32 [$0], $1;"
// CHECK: llvm.inline_asm {{.*}}"@$1 st.shared::cta.v4.b32 [$0], {$2, $2, $2, $2};"
// CHECK: fence.proxy.async
tile_gpu.kernel private @words(%in: memref<8xi32>, %out: memref<4xi32>) {
  %c0 = arith.constant 0 : i32
  %at = arith.constant 1 : index
  %tile = tile_gpu.smem.alloc : !tile_gpu.smem<64x64xbf16 swizzle 128>
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %v = tile_gpu.global.load %in[%c0] : memref<8xi32> -> !tile_gpu.vec<8xi32, col, warp>
    %e:8 = tile_gpu.vec.elements %v : !tile_gpu.vec<8xi32, col, warp> -> i32, i32, i32, i32, i32, i32, i32, i32
    memref.store %e#3, %out[%at] : memref<4xi32>
    tile_gpu.smem.clear_rows %tile bits(%e#0, %e#5) : !tile_gpu.smem<64x64xbf16 swizzle 128>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

// Columns of zeros in front of 16: the first and last of the four blocks of 8
// columns that the result has are constants.
!f = !tile_gpu.frag<16x16xf32, acc, warp>
!w = !tile_gpu.frag<16x32xf32, acc, warp>
module attributes {attn.target = "sm_80"} {
// CHECK-LABEL: llvm.func @pad
// CHECK: %[[ZERO:.*]] = llvm.mlir.constant(0.000000e+00 : f32)
// CHECK: st.global.v2.b32 [$0+0], {$1, $2};", "l,f,f" %{{.*}}, %[[ZERO]], %[[ZERO]] :
// CHECK: st.global.v2.b32 [$0+96], {$1, $2};", "l,f,f" %{{.*}}, %[[ZERO]], %[[ZERO]] :
tile_gpu.kernel private @pad(%in: memref<16x16xf32>, %out: memref<16x32xf32>) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %f = tile_gpu.global.load %in[%c0, %c0] : memref<16x16xf32> -> !f
    %w = tile_gpu.frag.pad %f first 8 : !f -> !w
    tile_gpu.global.store %w, %out[%c0, %c0] : !w, memref<16x32xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

// The second 16 columns of 32, which zeros in front made: their first 8 are those
// that were the last before, and the others are zeros.
!f = !tile_gpu.frag<16x8xf32, acc, warp>
!w = !tile_gpu.frag<16x32xf32, acc, warp>
!p = !tile_gpu.frag<16x16xf32, acc, warp>
module attributes {attn.target = "sm_80"} {
// CHECK-LABEL: llvm.func @cols
// CHECK: %[[NONE:.*]] = llvm.mlir.constant(0.000000e+00 : f32)
// CHECK: st.global.v2.b32 [$0+0], {$1, $2};", "l,f,f" %{{.*}}, %[[X:[^N].*]], %[[Y:.*]] :
// CHECK: st.global.v2.b32 [$0+32], {$1, $2};", "l,f,f" %{{.*}}, %[[NONE]], %[[NONE]] :
tile_gpu.kernel private @cols(%in: memref<16x8xf32>, %out: memref<16x16xf32>) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %f = tile_gpu.global.load %in[%c0, %c0] : memref<16x8xf32> -> !f
    %w = tile_gpu.frag.pad %f first 16 : !f -> !w
    %p = tile_gpu.frag.cols %w first 16 : !w -> !p
    tile_gpu.global.store %p, %out[%c0, %c0] : !p, memref<16x16xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

// A state of constants is set in the branch that yields it, not ahead of both: a
// piece of assembly keeps its block.

!s = !tile_gpu.frag<128x16xf32, acc, warp>
module attributes {attn.target = "sm_80"} {
// CHECK-LABEL: llvm.func @unless
// CHECK: %[[SOME:.*]] = llvm.icmp "sgt"
// CHECK: llvm.cond_br %[[SOME]], ^{{bb[0-9]+}}, ^[[NO:bb[0-9]+]]
// CHECK: ^[[NO]]:
// CHECK-NEXT: llvm.inline_asm has_side_effects ""
// CHECK-NEXT: llvm.br
tile_gpu.kernel private @unless(%in: memref<128x16xf32>, %out: memref<128x16xf32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    %none = tile_gpu.frag.fill %zero : f32 -> !s
    %some = arith.cmpi sgt, %n, %c0 : i32
    %s = scf.if %some -> (!s) {
      %x = tile_gpu.global.load %in[%c0, %c0] : memref<128x16xf32> -> !s
      scf.yield %x : !s
    } else {
      scf.yield %none : !s
    }
    tile_gpu.global.store %s, %out[%c0, %c0] : !s, memref<128x16xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

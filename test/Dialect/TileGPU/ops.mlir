// RUN: attn-opt %s | attn-opt | FileCheck %s
// RUN: attn-opt %s --mlir-print-op-generic | attn-opt | FileCheck %s

// The operations one by one; whole kernels are in kernels/.

// CHECK-LABEL: func.func private @types
// CHECK-SAME: !tile_gpu.frag<64x128xf32, acc>
// CHECK-SAME: !tile_gpu.frag<16x64xbf16, a, warp>
// CHECK-SAME: !tile_gpu.frag<64x8xf16, b, warp>
// CHECK-SAME: !tile_gpu.vec<64xf32, row>
// CHECK-SAME: !tile_gpu.vec<8xf32, col, warp, partial>
// CHECK-SAME: !tile_gpu.smem<64x64xbf16 swizzle 128 pitch 128>
// CHECK-SAME: !tile_gpu.smem<128x64xbf16 swizzle 128 boxes 2 transposed>
// CHECK-SAME: !tile_gpu.ring<2, 64x128xbf16 swizzle 128, 1x64xf32>
// CHECK-SAME: !tile_gpu.token<64x256xf32>
// CHECK-SAME: !tile_gpu.tensor_map<64x64xbf16 swizzle 128>
// CHECK-SAME: !tile_gpu.barrier
// CHECK-SAME: !tile_gpu.schedule
func.func private @types(
    !tile_gpu.frag<64x128xf32, acc>, !tile_gpu.frag<16x64xbf16, a, warp>,
    !tile_gpu.frag<64x8xf16, b, warp>, !tile_gpu.vec<64xf32, row>,
    !tile_gpu.vec<8xf32, col, warp, partial>,
    !tile_gpu.smem<64x64xbf16 swizzle 128 pitch 128>,
    !tile_gpu.smem<128x64xbf16 swizzle 128 boxes 2 transposed>,
    !tile_gpu.ring<2, 64x128xbf16 swizzle 128, 1x64xf32>,
    !tile_gpu.token<64x256xf32>, !tile_gpu.tensor_map<64x64xbf16 swizzle 128>,
    !tile_gpu.barrier, !tile_gpu.schedule)

// A pitch that says nothing is not printed.
// CHECK-LABEL: func.func private @own_pitch
// CHECK-SAME: !tile_gpu.smem<64x64xbf16 swizzle 128>)
func.func private @own_pitch(!tile_gpu.smem<64x64xbf16 swizzle 128 pitch 64>)

// Two warpgroups take turns; without `each` a barrier has no member.
// CHECK-LABEL: kernel @barriers
tile_gpu.kernel @barriers() {
  // CHECK: %[[TURNS:.*]] = tile_gpu.barrier.create warps(8) each(2)
  %turns = tile_gpu.barrier.create warps(8) each(2)
  // CHECK: %[[ALL:.*]] = tile_gpu.barrier.create warps(8)
  %all = tile_gpu.barrier.create warps(8)
  // CHECK: tile_gpu.role "pair" warpgroups(2) registers(240)
  tile_gpu.role "pair" warpgroups(2) registers(240) {
  ^bb0(%wg: i32):
    // CHECK: tile_gpu.turn.wait %[[TURNS]][%[[WG:.*]]]
    tile_gpu.turn.wait %turns[%wg]
    // CHECK: tile_gpu.turn.pass %[[TURNS]][%[[WG]]]
    tile_gpu.turn.pass %turns[%wg]
    // CHECK: tile_gpu.barrier.sync %[[ALL]]
    tile_gpu.barrier.sync %all
    // CHECK: tile_gpu.barrier.sync %[[ALL]] threads_only
    tile_gpu.barrier.sync %all threads_only
    %zero = arith.constant 0.0 : f32
    // CHECK: %[[ROWS:.*]] = tile_gpu.frag.fill
    %rows = tile_gpu.frag.fill %zero : f32 -> !tile_gpu.vec<64xf32, row>
    // CHECK: tile_gpu.hold %[[ROWS]] : !tile_gpu.vec<64xf32, row>
    tile_gpu.hold %rows : !tile_gpu.vec<64xf32, row>
    // CHECK: tile_gpu.hold all %[[ROWS]] : !tile_gpu.vec<64xf32, row>
    tile_gpu.hold all %rows : !tile_gpu.vec<64xf32, row>
    tile_gpu.yield
  }
  tile_gpu.return
}

// Schedules: one block for each item, or blocks that take every n-th.
// CHECK-LABEL: kernel @schedules
tile_gpu.kernel @schedules(%n: i32, %h: i32, %b: i32) {
  %zero = arith.constant 0 : i32
  // CHECK: tile_gpu.scheduler grid in_order tiles
  %grid = tile_gpu.scheduler grid in_order tiles(%n) heads(%h) batch(%b) {
  ^bb0(%tile: i32, %head: i32, %bb: i32, %split: i32):
    tile_gpu.yield %zero, %n : i32, i32
  }
  // CHECK: tile_gpu.scheduler static longest_first section(%{{.*}}) tiles
  %static = tile_gpu.scheduler static longest_first section(%h)
      tiles(%n) heads(%h) batch(%b) splits(%n) {
  ^bb0(%tile: i32, %head: i32, %bb: i32, %split: i32):
    tile_gpu.yield %zero, %tile : i32, i32
  }
  tile_gpu.role "one" warps(1) {
  ^bb0(%warp: i32):
    // CHECK: tile_gpu.foreach %{{.*}} lead {
    tile_gpu.foreach %grid lead {
    ^bb0(%tile: i32, %head: i32, %bb: i32, %split: i32, %lo: i32, %hi: i32):
      tile_gpu.yield
    }
    // CHECK: tile_gpu.foreach %{{.*}} lead iter_args(%{{.*}} : i32) {
    %c = tile_gpu.foreach %static lead iter_args(%zero : i32) {
    ^bb0(%tile: i32, %head: i32, %bb: i32, %split: i32, %lo: i32, %hi: i32, %k: i32):
      tile_gpu.yield %k : i32
    // CHECK: } -> i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.return
}

// Blocks of a cluster, of which each combines some of the rows.
// CHECK-LABEL: func.func @cluster
func.func @cluster(%m: !tile_gpu.vec<8xf32, col, warp>,
    %o: !tile_gpu.frag<32x8xf32, acc, warp>,
    %ring: !tile_gpu.ring<1, 2x136xf32>, %use: i32, %part: i32)
    -> !tile_gpu.frag<16x8xf32, acc, warp> {
  // CHECK: tile_gpu.merge_states cluster stats(%{{.*}}) values(%{{.*}}) ring(%{{.*}}[%{{.*}}] : !tile_gpu.ring<1, 2x136xf32>) part(%{{.*}}) count(2)
  %m1, %o1 = tile_gpu.merge_states cluster
      stats(%m : !tile_gpu.vec<8xf32, col, warp>)
      values(%o : !tile_gpu.frag<32x8xf32, acc, warp>)
      ring(%ring[%use] : !tile_gpu.ring<1, 2x136xf32>) part(%part) count(2) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    %da = arith.subf %a, %c : f32
    %db = arith.subf %b, %c : f32
    %fa = math.exp2 %da : f32
    %fb = math.exp2 %db : f32
    tile_gpu.yield %c, %fa, %fb : f32, f32, f32
  } -> !tile_gpu.vec<8xf32, col, warp>, !tile_gpu.frag<16x8xf32, acc, warp>
  return %o1 : !tile_gpu.frag<16x8xf32, acc, warp>
}

// Adding a gradient to memory from registers, no warp to spare for it.
// CHECK-LABEL: func.func @reduce_from_registers
func.func @reduce_from_registers(%dq: !tile_gpu.frag<64x64xf32, acc>,
    %dQ: memref<?x?xf32>, %row: i32, %rows: i32) {
  %c0 = arith.constant 0 : i32
  // CHECK: tile_gpu.global.reduce %{{.*}}, %{{.*}}[%{{.*}}] rows(%{{.*}}) : !tile_gpu.frag<64x64xf32, acc>, memref<?x?xf32>
  tile_gpu.global.reduce %dq, %dQ[%row, %c0] rows(%rows)
      : !tile_gpu.frag<64x64xf32, acc>, memref<?x?xf32>
  return
}

// stmatrix: as it is, and transposed through the view of the tile.
// CHECK-LABEL: func.func @stores
func.func @stores(%f: !tile_gpu.frag<64x128xbf16, acc>,
    %t: !tile_gpu.smem<128x64xbf16 swizzle 128>,
    %u: !tile_gpu.smem<64x128xbf16 swizzle 128>) {
  // CHECK: tile_gpu.smem.transpose %{{.*}} : <128x64xbf16 swizzle 128>
  %tT = tile_gpu.smem.transpose %t : !tile_gpu.smem<128x64xbf16 swizzle 128>
  // CHECK: tile_gpu.frag.store %{{.*}} : <64x128xbf16, acc>, <64x128xbf16 swizzle 128 transposed>
  tile_gpu.frag.store %f, %tT : !tile_gpu.frag<64x128xbf16, acc>,
      !tile_gpu.smem<64x128xbf16 swizzle 128 transposed>
  // CHECK: tile_gpu.frag.store %{{.*}} : <64x128xbf16, acc>, <64x128xbf16 swizzle 128>
  tile_gpu.frag.store %f, %u : !tile_gpu.frag<64x128xbf16, acc>,
      !tile_gpu.smem<64x128xbf16 swizzle 128>
  return
}

// Several reductions in one pass; rows of a fragment, then its columns.
// CHECK-LABEL: func.func @reductions
func.func @reductions(%s: !tile_gpu.frag<64x128xf32, acc>)
    -> (!tile_gpu.vec<64xf32, row>, !tile_gpu.vec<64xf32, row>,
        !tile_gpu.vec<128xf32, col>) {
  %zero = arith.constant 0.0 : f32
  // CHECK: tile_gpu.reduce ins(%{{.*}}, %{{.*}} : {{.*}}) identity(%{{.*}}, %{{.*}} : f32, f32)
  %r:2 = tile_gpu.reduce ins(%s, %s : !tile_gpu.frag<64x128xf32, acc>, !tile_gpu.frag<64x128xf32, acc>) identity(%zero, %zero : f32, f32) {
  ^bb0(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %x = arith.addf %a0, %b0 : f32
    %y = arith.maximumf %a1, %b1 : f32
    tile_gpu.yield %x, %y : f32, f32
  } -> !tile_gpu.vec<64xf32, row>, !tile_gpu.vec<64xf32, row>
  // CHECK: -> !tile_gpu.vec<128xf32, col>
  %c = tile_gpu.reduce ins(%s : !tile_gpu.frag<64x128xf32, acc>) identity(%zero : f32) {
  ^bb0(%a: f32, %b: f32):
    %x = arith.addf %a, %b : f32
    tile_gpu.yield %x : f32
  } -> !tile_gpu.vec<128xf32, col>
  return %r#0, %r#1, %c : !tile_gpu.vec<64xf32, row>, !tile_gpu.vec<64xf32, row>, !tile_gpu.vec<128xf32, col>
}

// The portable path for monoids that are no cocycles: rows in order.
// CHECK-LABEL: func.func @rows_in_order
func.func @rows_in_order(%s: !tile_gpu.frag<16x64xf32, acc, warp>)
    -> (!tile_gpu.vec<16xf32, row, warp>, !tile_gpu.frag<16x64xf32, acc, warp>) {
  %zero = arith.constant 0.0 : f32
  // CHECK: tile_gpu.reduce ordered ins(
  %m = tile_gpu.reduce ordered ins(%s : !tile_gpu.frag<16x64xf32, acc, warp>) identity(%zero : f32) {
  ^bb0(%a: f32, %b: f32):
    tile_gpu.yield %b : f32
  } -> !tile_gpu.vec<16xf32, row, warp>
  // CHECK: tile_gpu.scan reverse ins(
  %r = tile_gpu.scan reverse ins(%s : !tile_gpu.frag<16x64xf32, acc, warp>) identity(%zero : f32) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile_gpu.yield %c : f32
  } -> !tile_gpu.frag<16x64xf32, acc, warp>
  return %m, %r : !tile_gpu.vec<16xf32, row, warp>, !tile_gpu.frag<16x64xf32, acc, warp>
}

// Which keys anyone sees: from registers to all warps and back.
// CHECK-LABEL: func.func @live_keys
func.func @live_keys(%mine: !tile_gpu.vec<64xi32, col, warp>,
    %all: !tile_gpu.smem<4x64xi32>, %v: !tile_gpu.smem<64x128xf16 swizzle 128>,
    %warp: i32, %bar: !tile_gpu.barrier) -> i1 {
  %zero = arith.constant 0 : i32
  // CHECK: tile_gpu.vec.store %{{.*}}, %{{.*}}[%{{.*}}] : <64xi32, col, warp>, <4x64xi32>
  tile_gpu.vec.store %mine, %all[%warp] : !tile_gpu.vec<64xi32, col, warp>, !tile_gpu.smem<4x64xi32>
  tile_gpu.barrier.sync %bar
  // CHECK: tile_gpu.vec.load %{{.*}}[%{{.*}}] : <4x64xi32> -> <64xi32, col, warp>
  %first = tile_gpu.vec.load %all[%zero] : !tile_gpu.smem<4x64xi32> -> !tile_gpu.vec<64xi32, col, warp>
  %live = tile_gpu.map ins(%first : !tile_gpu.vec<64xi32, col, warp>) {
  ^bb0(%r: i32, %c: i32, %x: i32):
    %some = arith.cmpi ne, %x, %zero : i32
    tile_gpu.yield %some : i1
  } -> !tile_gpu.vec<64xi1, col, warp>
  // CHECK: tile_gpu.smem.clear_rows %{{.*}} live(%{{.*}} : !tile_gpu.vec<64xi1, col, warp>) : <64x128xf16 swizzle 128>
  tile_gpu.smem.clear_rows %v live(%live : !tile_gpu.vec<64xi1, col, warp>) : !tile_gpu.smem<64x128xf16 swizzle 128>
  // CHECK: tile_gpu.smem.clear_rows %{{.*}} bits(%{{.*}}, %{{.*}}) : <64x128xf16 swizzle 128>
  tile_gpu.smem.clear_rows %v bits(%zero, %zero) : !tile_gpu.smem<64x128xf16 swizzle 128>
  // CHECK: tile_gpu.any %{{.*}} : !tile_gpu.vec<64xi1, col, warp>
  %some = tile_gpu.any %live : !tile_gpu.vec<64xi1, col, warp>
  return %some : i1
}

// A product that adds a ramp.
// CHECK-LABEL: func.func @ramp
func.func @ramp(%q: !tile_gpu.smem<64x64xbf16 swizzle 128>,
    %kT: !tile_gpu.smem<64x128xbf16 swizzle 128 transposed>, %x: f32)
    -> !tile_gpu.frag<64x128xf32, acc> {
  // CHECK: %[[C:.*]] = tile_gpu.smem.ramp : <136x8xbf16>
  %c = tile_gpu.smem.ramp : !tile_gpu.smem<136x8xbf16>
  // CHECK: tile_gpu.mma.issue %{{.*}}, %{{.*}} ramp(%{{.*}}, %[[C]]) : !tile_gpu.smem<64x64xbf16 swizzle 128>
  %t = tile_gpu.mma.issue %q, %kT ramp(%x, %c)
      : !tile_gpu.smem<64x64xbf16 swizzle 128>, !tile_gpu.smem<64x128xbf16 swizzle 128 transposed>
     -> !tile_gpu.token<64x128xf32>
  %s = tile_gpu.mma.wait %t pending(0) : !tile_gpu.token<64x128xf32>
  return %s : !tile_gpu.frag<64x128xf32, acc>
}

// f32 on multiply-add units: queries from shared memory, weights from registers.
// CHECK-LABEL: func.func @multiply_add
func.func @multiply_add(%q: !tile_gpu.smem<16x64xf32 swizzle 128 pitch 64>,
    %k: !tile_gpu.smem<64x64xf32 swizzle 128 transposed>,
    %v: !tile_gpu.smem<64x128xf32 swizzle 128>,
    %s0: !tile_gpu.frag<16x64xf32, acc, warp>,
    %o0: !tile_gpu.frag<16x128xf32, acc, warp>)
    -> !tile_gpu.frag<16x128xf32, acc, warp> {
  // CHECK: tile_gpu.mma.sync %{{.*}} : !tile_gpu.smem<16x64xf32 swizzle 128 pitch 64>, !tile_gpu.smem<64x64xf32 swizzle 128 transposed> -> <16x64xf32, acc, warp>
  %s = tile_gpu.mma.sync %q, %k, %s0 : !tile_gpu.smem<16x64xf32 swizzle 128 pitch 64>, !tile_gpu.smem<64x64xf32 swizzle 128 transposed> -> !tile_gpu.frag<16x64xf32, acc, warp>
  // CHECK: tile_gpu.mma.sync %{{.*}} : !tile_gpu.frag<16x64xf32, acc, warp>, !tile_gpu.smem<64x128xf32 swizzle 128> -> <16x128xf32, acc, warp>
  %o = tile_gpu.mma.sync %s, %v, %o0 : !tile_gpu.frag<16x64xf32, acc, warp>, !tile_gpu.smem<64x128xf32 swizzle 128> -> !tile_gpu.frag<16x128xf32, acc, warp>
  return %o : !tile_gpu.frag<16x128xf32, acc, warp>
}

// CHECK-LABEL: func.func @elements_in_place
func.func @elements_in_place(%q: !tile_gpu.smem<64x128xbf16 swizzle 128>, %negate: i1) {
  // CHECK: tile_gpu.smem.map %{{.*}} {
  // CHECK-NEXT: ^bb0(%[[X:.*]]: bf16):
  // CHECK: tile_gpu.yield %{{.*}} : bf16
  // CHECK: } : <64x128xbf16 swizzle 128>
  tile_gpu.smem.map %q {
  ^bb0(%x: bf16):
    %n = arith.negf %x : bf16
    %y = arith.select %negate, %n, %x : bf16
    tile_gpu.yield %y : bf16
  } : !tile_gpu.smem<64x128xbf16 swizzle 128>
  return
}

// CHECK-LABEL: func.func @pairs_in_place
func.func @pairs_in_place(%k: !tile_gpu.smem<64x128xbf16 swizzle 128>) {
  // CHECK: tile_gpu.smem.turn %{{.*}}, <64, interleaved> {
  // CHECK-NEXT: ^bb0(%{{.*}}: i32, %{{.*}}: i32, %[[X:.*]]: bf16, %[[Y:.*]]: bf16):
  // CHECK-NEXT: tile_gpu.yield %[[Y]], %[[X]] : bf16, bf16
  // CHECK-NEXT: } : <64x128xbf16 swizzle 128>
  tile_gpu.smem.turn %k, #attn.rotary<64, interleaved> {
  ^bb0(%r: i32, %c: i32, %x: bf16, %y: bf16):
    tile_gpu.yield %y, %x : bf16, bf16
  } : !tile_gpu.smem<64x128xbf16 swizzle 128>
  return
}

// f32 rounded to tf32: by the warps that copy it, in fragments, by products.
// CHECK-LABEL: func.func @rounded
func.func @rounded(%m: memref<?x?xf32>, %p: !tile_gpu.frag<16x64xf32, acc, warp>,
    %f: !tile_gpu.smem<16x64xf32 swizzle 128>, %i: i32) {
  // CHECK: tile_gpu.ring.create cp_group producers(4) : <1, 64x64xtf32 swizzle 128>
  %r = tile_gpu.ring.create cp_group producers(4) : !tile_gpu.ring<1, 64x64xtf32 swizzle 128>
  %t = tile_gpu.ring.acquire %r[%i] : !tile_gpu.ring<1, 64x64xtf32 swizzle 128>
  // CHECK: tile_gpu.ring.load %{{.*}} : memref<?x?xf32>, <64x64xtf32 swizzle 128>
  tile_gpu.ring.load %m[%i, %i], %t : memref<?x?xf32>, !tile_gpu.smem<64x64xtf32 swizzle 128>
  tile_gpu.ring.commit %r[%i] : !tile_gpu.ring<1, 64x64xtf32 swizzle 128>
  %v = tile_gpu.ring.wait %r[%i] : !tile_gpu.ring<1, 64x64xtf32 swizzle 128>
  %part = tile_gpu.smem.slice %v[%i, %i] : !tile_gpu.smem<64x64xtf32 swizzle 128>
      -> !tile_gpu.smem<16x64xtf32 swizzle 128 pitch 64>
  // CHECK: tile_gpu.frag.load %{{.*}} -> <16x64xtf32, a, warp>
  %a = tile_gpu.frag.load %part : !tile_gpu.smem<16x64xtf32 swizzle 128 pitch 64> -> !tile_gpu.frag<16x64xtf32, a, warp>
  // CHECK: tile_gpu.mma.sync %{{.*}} : !tile_gpu.frag<16x64xtf32, a, warp>, !tile_gpu.smem<64x64xtf32 swizzle 128>
  %x = tile_gpu.mma.sync %a, %v, %p : !tile_gpu.frag<16x64xtf32, a, warp>, !tile_gpu.smem<64x64xtf32 swizzle 128> -> !tile_gpu.frag<16x64xf32, acc, warp>
  // CHECK: tile_gpu.mma.sync %{{.*}} : !tile_gpu.frag<16x64xf32, acc, warp>, !tile_gpu.smem<64x64xtf32 swizzle 128>
  %y = tile_gpu.mma.sync %p, %v, %x : !tile_gpu.frag<16x64xf32, acc, warp>, !tile_gpu.smem<64x64xtf32 swizzle 128> -> !tile_gpu.frag<16x64xf32, acc, warp>
  // CHECK: tile_gpu.mma.sync %{{.*}} : !tile_gpu.smem<16x64xf32 swizzle 128>, !tile_gpu.smem<64x64xtf32 swizzle 128>
  %z = tile_gpu.mma.sync %f, %v, %y : !tile_gpu.smem<16x64xf32 swizzle 128>, !tile_gpu.smem<64x64xtf32 swizzle 128> -> !tile_gpu.frag<16x64xf32, acc, warp>
  return
}

// CHECK-LABEL: func.func @cols
func.func @cols(%f: !tile_gpu.frag<64x64xf32, acc>) {
  // CHECK: tile_gpu.frag.cols %{{.*}} first 40 : <64x64xf32, acc> -> <64x16xf32, acc>
  %g = tile_gpu.frag.cols %f first 40 : !tile_gpu.frag<64x64xf32, acc> -> !tile_gpu.frag<64x16xf32, acc>
  return
}

// CHECK-LABEL: func.func @pad
func.func @pad(%f: !tile_gpu.frag<64x64xf32, acc>) {
  // CHECK: tile_gpu.frag.pad %{{.*}} first 64 : <64x64xf32, acc> -> <64x128xf32, acc>
  %g = tile_gpu.frag.pad %f first 64 : !tile_gpu.frag<64x64xf32, acc> -> !tile_gpu.frag<64x128xf32, acc>
  return
}

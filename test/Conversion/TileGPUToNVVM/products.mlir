// RUN: attn-opt %s --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm | FileCheck %s
// RUN: attn-opt %s --emit-ptx | FileCheck %s --check-prefix=PTX
// RUN: attn-opt %s --split-input-file %tidy --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm | FileCheck %s

// Which products are fused with the sum that reads them.

!row = !tile_gpu.vec<64xf32, row>

module attributes {attn.target = "sm_90a"} {

// The exponent of the old sums' factor, 0 where a maximum stays: fused, it were
// what one of the products loses by rounding, in each key tile. Weights ask for
// their fma.
// CHECK-LABEL: llvm.func @rescale
// CHECK: %[[NEW:.*]] = llvm.fmul %{{[^ ]*}}, %{{[^ ]*}} : f32
// CHECK: %[[OFFSET:.*]] = llvm.fneg %[[NEW]] : f32
// CHECK: %[[OLD:.*]] = llvm.fmul %{{[^ ]*}}, %{{[^ ]*}} : f32
// CHECK: llvm.fadd %[[OLD]], %[[OFFSET]]
// CHECK: llvm.intr.fma
// PTX-LABEL: .entry rescale
// PTX-COUNT-2: mul.rn.f32
// PTX: add.f32 %[[EXPONENT:r[0-9]+]]
// PTX: ex2.approx.ftz.f32 %{{r[0-9]+}}, %[[EXPONENT]]
// PTX: fma.rn.f32
tile_gpu.kernel private @rescale(%m: memref<?xf32>, %w: memref<?xf32>, %k: f32,
    %old: f32, %new: f32) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "fill" warpgroups(1) {
  ^bb0(%wg: i32):
    %0 = tile_gpu.frag.fill %old : f32 -> !row
    %1 = tile_gpu.frag.fill %new : f32 -> !row
    %f:2 = tile_gpu.map ins(%0, %1 : !row, !row) {
    ^bb0(%r: i32, %c: i32, %x: f32, %y: f32):
      %scaled = arith.mulf %y, %k : f32
      %offset = arith.negf %scaled : f32
      %before = arith.mulf %x, %k : f32
      %d = arith.addf %before, %offset : f32
      %e = math.exp2 %d : f32
      tile_gpu.yield %e, %offset : f32, f32
    } -> !row, !row
    %g = tile_gpu.map ins(%0, %f#1 : !row, !row) {
    ^bb0(%r: i32, %c: i32, %x: f32, %y: f32):
      %d = math.fma %x, %k, %y : f32
      tile_gpu.yield %d : f32
    } -> !row
    tile_gpu.global.store %f#0, %m[%c0] : !row, memref<?xf32>
    tile_gpu.global.store %g, %w[%c0] : !row, memref<?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// The new product is the larger of two, chosen by a select: neither is fused.
// PTX-LABEL: .entry chosen
// PTX-NOT: fma
// PTX: ex2.approx
tile_gpu.kernel private @chosen(%m: memref<?xf32>, %k: f32, %least: f32, %old: f32,
    %new: f32) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "fill" warpgroups(1) {
  ^bb0(%wg: i32):
    %0 = tile_gpu.frag.fill %old : f32 -> !row
    %1 = tile_gpu.frag.fill %new : f32 -> !row
    %f = tile_gpu.map ins(%0, %1 : !row, !row) {
    ^bb0(%r: i32, %c: i32, %x: f32, %y: f32):
      %near = arith.cmpf ogt, %y, %least : f32
      %scaled = arith.mulf %y, %k : f32
      %a = arith.negf %scaled : f32
      %bound = arith.mulf %least, %k : f32
      %b = arith.negf %bound : f32
      %offset = arith.select %near, %a, %b : f32
      %before = arith.mulf %x, %k : f32
      %d = arith.addf %before, %offset : f32
      %e = math.exp2 %d : f32
      tile_gpu.yield %e : f32
    } -> !row
    tile_gpu.global.store %f, %m[%c0] : !row, memref<?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// The same as a user may write it.
// PTX-LABEL: .entry difference
// PTX-NOT: fma
// PTX: ex2.approx
tile_gpu.kernel private @difference(%m: memref<?xf32>, %k: f32, %old: f32, %new: f32) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "fill" warpgroups(1) {
  ^bb0(%wg: i32):
    %0 = tile_gpu.frag.fill %old : f32 -> !row
    %1 = tile_gpu.frag.fill %new : f32 -> !row
    %f = tile_gpu.map ins(%0, %1 : !row, !row) {
    ^bb0(%r: i32, %c: i32, %x: f32, %y: f32):
      %a = arith.mulf %x, %k : f32
      %b = arith.mulf %k, %y : f32
      %d = arith.subf %a, %b : f32
      %e = math.exp2 %d : f32
      tile_gpu.yield %e : f32
    } -> !row
    tile_gpu.global.store %f, %m[%c0] : !row, memref<?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// A product beside one whose rounding is known, as where sums move to another
// reference point.
// PTX-LABEL: .entry residue
// PTX-NOT: fma
// PTX: sub.f32
// PTX: fma.rn.f32
tile_gpu.kernel private @residue(%m: memref<?xf32>, %k: f32, %l: f32, %old: f32,
    %new: f32) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "fill" warpgroups(1) {
  ^bb0(%wg: i32):
    %0 = tile_gpu.frag.fill %old : f32 -> !row
    %1 = tile_gpu.frag.fill %new : f32 -> !row
    %f = tile_gpu.map ins(%0, %1 : !row, !row) {
    ^bb0(%r: i32, %c: i32, %x: f32, %y: f32):
      %a = arith.mulf %x, %k : f32
      %b = arith.mulf %y, %l : f32
      %d = arith.subf %a, %b : f32
      %negative = arith.negf %b : f32
      %low = math.fma %y, %l, %negative : f32
      %s = arith.subf %d, %low : f32
      tile_gpu.yield %s : f32
    } -> !row
    tile_gpu.global.store %f, %m[%c0] : !row, memref<?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// Products that have nothing to do with each other: one is fused.
// PTX-LABEL: .entry scores
// PTX: mul.f32
// PTX: fma.rn.f32
tile_gpu.kernel private @scores(%m: memref<?xf32>, %k: f32, %l: f32, %old: f32,
    %new: f32) {
  %c0 = arith.constant 0 : i32
  tile_gpu.role "fill" warpgroups(1) {
  ^bb0(%wg: i32):
    %0 = tile_gpu.frag.fill %old : f32 -> !row
    %1 = tile_gpu.frag.fill %new : f32 -> !row
    %f = tile_gpu.map ins(%0, %1 : !row, !row) {
    ^bb0(%r: i32, %c: i32, %x: f32, %y: f32):
      %a = arith.mulf %x, %k : f32
      %b = arith.mulf %y, %l : f32
      %d = arith.subf %a, %b : f32
      tile_gpu.yield %d : f32
    } -> !row
    tile_gpu.global.store %f, %m[%c0] : !row, memref<?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// Of the steps along K of one sum of a warp every other one adds to sums of its own, which
// come together behind the last.
// CHECK-LABEL: llvm.func @chains
// CHECK-COUNT-4: mma.sync.aligned.m16n8k16
// CHECK-NOT: mma.sync
// CHECK-COUNT-4: llvm.fadd
// CHECK-NOT: llvm.fadd
tile_gpu.kernel private @chains(%q: memref<?x?xbf16>, %o: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %keys = tile_gpu.smem.alloc : !tile_gpu.smem<16x64xbf16 swizzle 128>
  tile_gpu.role "compute" warps(1) {
  ^bb0(%w: i32):
    %b = tile_gpu.global.load %q[%c0, %c0] transposed : memref<?x?xbf16> -> !tile_gpu.frag<64x8xbf16, b, warp>
    %f = tile_gpu.frag.fill %zero : f32 -> !tile_gpu.frag<16x8xf32, acc, warp>
    %s = tile_gpu.mma.sync %keys, %b, %f : !tile_gpu.smem<16x64xbf16 swizzle 128>, !tile_gpu.frag<64x8xbf16, b, warp> -> <16x8xf32, acc, warp>
    tile_gpu.global.store %s, %o[%c0, %c0] : !tile_gpu.frag<16x8xf32, acc, warp>, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// A product of f32 of more than 4096 multiply-adds a thread, 64 steps of 128 sums: 16 steps
// are the body of a loop, behind which the registers of the left operand move on.
// CHECK-LABEL: llvm.func @long
// CHECK: llvm.br ^[[BODY:bb[0-9]+]](
// CHECK: ^[[BODY]](
// CHECK-COUNT-2048: llvm.intr.fma
// CHECK-NOT: llvm.intr.fma
// CHECK: llvm.cond_br %{{[^,]*}}, ^[[BODY]](
// CHECK-NOT: llvm.intr.fma
// CHECK: llvm.return
tile_gpu.kernel private @long(%q: memref<?x?xf32>, %o: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %values = tile_gpu.smem.alloc : !tile_gpu.smem<64x256xf32 swizzle 128>
  tile_gpu.role "compute" warps(1) {
  ^bb0(%w: i32):
    %p = tile_gpu.global.load %q[%c0, %c0] : memref<?x?xf32> -> !tile_gpu.frag<16x64xf32, acc, warp>
    %f = tile_gpu.frag.fill %zero : f32 -> !tile_gpu.frag<16x256xf32, acc, warp>
    %s = tile_gpu.mma.sync %p, %values, %f : !tile_gpu.frag<16x64xf32, acc, warp>, !tile_gpu.smem<64x256xf32 swizzle 128> -> <16x256xf32, acc, warp>
    tile_gpu.global.store %s, %o[%c0, %c0] : !tile_gpu.frag<16x256xf32, acc, warp>, memref<?x?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}
}

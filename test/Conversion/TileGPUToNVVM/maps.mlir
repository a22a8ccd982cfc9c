// RUN: attn-opt %s --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm | FileCheck %s
// RUN: attn-opt %s --split-input-file %tidy --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm | FileCheck %s

// What maps make once for a row, and what is left for each element.

!acc = !tile_gpu.frag<64x16xf32, acc>
!tile = !tile_gpu.smem<64x64xbf16 swizzle 128>

module attributes {attn.target = "sm_90a"} {

// A comparison of the column with a bound of the row, and what is made of two
// such, becomes bits for the columns of a thread; an element tests one.
// CHECK-LABEL: llvm.func @columns
// CHECK: llvm.intr.smax
// CHECK: %[[END:.*]] = llvm.inline_asm {{.*}}shl.b32 $0, -1, $1;
// CHECK: %[[BELOW:.*]] = llvm.xor %[[END]]
// CHECK: llvm.intr.smax
// CHECK: %[[FROM:.*]] = llvm.inline_asm {{.*}}shl.b32 $0, -1, $1;
// CHECK: %[[BOTH:.*]] = llvm.and %[[BELOW]], %[[FROM]]
// CHECK: %[[BIT:.*]] = llvm.and %[[BOTH]]
// CHECK: %[[LIVE:.*]] = llvm.icmp "ne" %[[BIT]]
// CHECK: llvm.select %[[LIVE]]
// CHECK-COUNT-7: llvm.icmp "ne"
// CHECK: llvm.return
tile_gpu.kernel private @columns(%m: memref<?x?xf32, strided<[?, 1]>>, %to: i32) {
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  tile_gpu.role "fill" warpgroups(1) {
  ^bb0(%wg: i32):
    %f = tile_gpu.frag.fill %one : f32 -> !acc
    %g = tile_gpu.map ins(%f : !acc) {
    ^bb0(%r: i32, %c: i32, %x: f32):
      %end = arith.addi %r, %to : i32
      %below = arith.cmpi slt, %c, %end : i32
      %from = arith.cmpi sge, %c, %r : i32
      %live = arith.andi %below, %from : i1
      %y = arith.select %live, %x, %zero : f32
      tile_gpu.yield %y : f32
    } -> !acc
    tile_gpu.global.store %g, %m[%c0, %c0] : !acc, memref<?x?xf32, strided<[?, 1]>>
    tile_gpu.yield
  }
  tile_gpu.return
}

// A weight is selected once, by what its truths are together; another element as
// LLVM has it.
// CHECK-LABEL: llvm.func @selections
// CHECK: %[[WEIGHT:.*]] = llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f32"
// CHECK: %[[BOTH:.*]] = llvm.and %{{.*}}, %{{.*}} : i1
// CHECK: llvm.inline_asm {{.*}}"selp.f32 $0, $1, $2, $3;", "=f,f,f,b" %[[WEIGHT]], %{{.*}}, %[[BOTH]]
// CHECK: %[[SOME:.*]] = llvm.or %{{.*}}, %{{.*}} : i1
// CHECK: llvm.select %[[SOME]]
// CHECK: llvm.return
tile_gpu.kernel private @selections(%m: memref<?x?xf32, strided<[?, 1]>>, %to: f32) {
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  tile_gpu.role "fill" warpgroups(1) {
  ^bb0(%wg: i32):
    %f = tile_gpu.frag.fill %one : f32 -> !acc
    %v = tile_gpu.frag.fill %to : f32 -> !tile_gpu.vec<64xf32, row>
    %own = tile_gpu.map ins(%v : !tile_gpu.vec<64xf32, row>) {
    ^bb0(%r: i32, %c: i32, %x: f32):
      %y = arith.negf %x : f32
      tile_gpu.yield %y : f32
    } -> !tile_gpu.vec<64xf32, row>
    %g = tile_gpu.map ins(%f, %own : !acc, !tile_gpu.vec<64xf32, row>) {
    ^bb0(%r: i32, %c: i32, %x: f32, %less: f32):
      %apart = arith.addf %x, %less : f32
      %weight = math.exp2 %apart fastmath<afn> : f32
      %above = arith.cmpf ogt, %x, %to : f32
      %below = arith.cmpi slt, %c, %r : i32
      %both = arith.andi %above, %below : i1
      %y = arith.select %both, %weight, %zero : f32
      %some = arith.ori %above, %below : i1
      %z = arith.select %some, %y, %x : f32
      tile_gpu.yield %z : f32
    } -> !acc
    tile_gpu.global.store %g, %m[%c0, %c0] : !acc, memref<?x?xf32, strided<[?, 1]>>
    tile_gpu.yield
  }
  tile_gpu.return
}

// The base of an approximate power goes into the factor of a difference, and
// below the lesser of it and a constant.
// CHECK-LABEL: llvm.func @powers
// CHECK-DAG: %[[FACTOR:.*]] = llvm.mlir.constant(0.72134751 : f32)
// CHECK-DAG: %[[BASE:.*]] = llvm.mlir.constant(-1.44269502 : f32)
// CHECK: %[[OWN:.*]] = llvm.fmul %{{.*}}, %[[BASE]]
// CHECK: %[[POWER:.*]] = llvm.intr.fma(%{{.*}}, %[[FACTOR]], %[[OWN]])
// CHECK: %[[LEAST:.*]] = llvm.intr.minimum(%[[POWER]], %{{.*}})
// CHECK: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f32"(%[[LEAST]])
tile_gpu.kernel private @powers(%m: memref<?x?xf32, strided<[?, 1]>>, %own: f32) {
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  tile_gpu.role "fill" warpgroups(1) {
  ^bb0(%wg: i32):
    %f = tile_gpu.frag.fill %half : f32 -> !acc
    %g = tile_gpu.map ins(%f : !acc) {
    ^bb0(%r: i32, %c: i32, %x: f32):
      %scaled = arith.mulf %x, %half : f32
      %apart = arith.subf %scaled, %own : f32
      %least = arith.minimumf %apart, %zero : f32
      %y = math.exp %least fastmath<afn> : f32
      tile_gpu.yield %y : f32
    } -> !acc
    tile_gpu.global.store %g, %m[%c0, %c0] : !acc, memref<?x?xf32, strided<[?, 1]>>
    tile_gpu.yield
  }
  tile_gpu.return
}

// A distance that may be off by its last bit is converted once for each of the
// two rows of a thread; the other columns are a constant away.
// CHECK-LABEL: llvm.func @positions
// CHECK-COUNT-2: llvm.sitofp
// CHECK: llvm.fadd
// CHECK: llvm.intr.fabs
// CHECK-NOT: llvm.sitofp
// CHECK: llvm.func @exact
// CHECK-COUNT-8: llvm.sitofp
tile_gpu.kernel private @positions(%m: memref<?x?xf32, strided<[?, 1]>>, %to: i32) {
  %c0 = arith.constant 0 : i32
  %one = arith.constant 1.0 : f32
  tile_gpu.role "fill" warpgroups(1) {
  ^bb0(%wg: i32):
    %f = tile_gpu.frag.fill %one : f32 -> !acc
    %g = tile_gpu.map ins(%f : !acc) {
    ^bb0(%r: i32, %c: i32, %x: f32):
      %i = arith.addi %r, %to : i32
      %d = arith.subi %i, %c : i32
      %a = math.absi %d : i32
      %n = arith.sitofp %a {tile.approximate} : i32 to f32
      %y = arith.mulf %x, %n : f32
      tile_gpu.yield %y : f32
    } -> !acc
    tile_gpu.global.store %g, %m[%c0, %c0] : !acc, memref<?x?xf32, strided<[?, 1]>>
    tile_gpu.yield
  }
  tile_gpu.return
}
tile_gpu.kernel private @exact(%m: memref<?x?xf32, strided<[?, 1]>>, %to: i32) {
  %c0 = arith.constant 0 : i32
  %one = arith.constant 1.0 : f32
  tile_gpu.role "fill" warpgroups(1) {
  ^bb0(%wg: i32):
    %f = tile_gpu.frag.fill %one : f32 -> !acc
    %g = tile_gpu.map ins(%f : !acc) {
    ^bb0(%r: i32, %c: i32, %x: f32):
      %i = arith.addi %r, %to : i32
      %d = arith.subi %i, %c : i32
      %n = arith.sitofp %d : i32 to f32
      %y = arith.mulf %x, %n : f32
      tile_gpu.yield %y : f32
    } -> !acc
    tile_gpu.global.store %g, %m[%c0, %c0] : !acc, memref<?x?xf32, strided<[?, 1]>>
    tile_gpu.yield
  }
  tile_gpu.return
}

// The distance of a row and a column is that of the thread's first ones and a
// constant; 8 rows and 8 columns further on it is the same value: 6 of 8.
// CHECK-LABEL: llvm.func @distances
// CHECK: %[[FIRST:.*]] = llvm.sub
// CHECK: llvm.mul %[[FIRST]], %[[FIRST]]
// CHECK: %[[NEXT:.*]] = llvm.add %[[FIRST]]
// CHECK: llvm.mul %[[NEXT]], %[[NEXT]]
// CHECK-COUNT-4: llvm.add %[[FIRST]]
// CHECK: llvm.mul %[[FIRST]], %[[FIRST]]
// CHECK: llvm.mul %[[NEXT]], %[[NEXT]]
tile_gpu.kernel private @distances(%m: memref<?x?xf32, strided<[?, 1]>>, %n: index) {
  %c0 = arith.constant 0 : i32
  %one = arith.constant 1.0 : f32
  %to = arith.index_cast %n : index to i32
  tile_gpu.role "fill" warpgroups(1) {
  ^bb0(%wg: i32):
    %f = tile_gpu.frag.fill %one : f32 -> !acc
    %g = tile_gpu.map ins(%f : !acc) {
    ^bb0(%r: i32, %c: i32, %x: f32):
      %i = arith.addi %to, %r : i32
      %d = arith.subi %i, %c : i32
      %a = arith.muli %d, %d : i32
      %y = arith.sitofp %a : i32 to f32
      %z = arith.mulf %x, %y : f32
      tile_gpu.yield %z : f32
    } -> !acc
    tile_gpu.global.store %g, %m[%c0, %c0] : !acc, memref<?x?xf32, strided<[?, 1]>>
    tile_gpu.yield
  }
  tile_gpu.return
}

// Pairs in place: words of a row side by side, what the body reads behind all of them
// and ahead of what is written.
// CHECK-LABEL: llvm.func @pairs
// CHECK-COUNT-16: ld.shared::cta.b32
// CHECK: llvm.load
// CHECK-COUNT-16: st.shared::cta.b32
// CHECK: fence.proxy.async
tile_gpu.kernel private @pairs(%m: memref<?x?xf32, strided<[?, 1]>>) {
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %t = tile_gpu.smem.alloc : !tile
    tile_gpu.smem.turn %t, #attn.rotary<64, halves> {
    ^bb0(%row: i32, %pair: i32, %x: bf16, %y: bf16):
      %r = arith.index_cast %row : i32 to index
      %c = arith.index_cast %pair : i32 to index
      %f = memref.load %m[%r, %c] : memref<?x?xf32, strided<[?, 1]>>
      %a = arith.extf %x : bf16 to f32
      %b = arith.extf %y : bf16 to f32
      %af = arith.mulf %a, %f : f32
      %bf = arith.mulf %b, %f : f32
      %an = arith.truncf %af : f32 to bf16
      %bn = arith.truncf %bf : f32 to bf16
      tile_gpu.yield %bn, %an : bf16, bf16
    } : !tile
    tile_gpu.yield
  }
  tile_gpu.return
}

// Elements in place: 16 bytes at a time, then what the copies and products of
// other proxies wait for.
// CHECK-LABEL: llvm.func @in_place
// CHECK-COUNT-4: ld.shared::cta.v4.b32
// CHECK: st.shared::cta.v4.b32
// CHECK: fence.proxy.async
tile_gpu.kernel private @in_place(%negate: i1) {
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %t = tile_gpu.smem.alloc : !tile
    tile_gpu.smem.map %t {
    ^bb0(%x: bf16):
      %n = arith.negf %x : bf16
      %y = arith.select %negate, %n, %x : bf16
      tile_gpu.yield %y : bf16
    } : !tile
    tile_gpu.yield
  }
  tile_gpu.return
}
}

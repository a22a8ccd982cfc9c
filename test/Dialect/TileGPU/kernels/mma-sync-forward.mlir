// RUN: attn-opt %s --tile-gpu-verify-async --tile-gpu-allocate-shared --tile-gpu-verify-budget | attn-opt | FileCheck %s
// RUN: attn-opt %s %tidy %verify_kernels --tile-gpu-allocate-shared --tile-gpu-verify-budget | FileCheck %s

// Softmax attention with a capped score for sm_80 and later, d = 128, bf16.
// Four warps of 16 queries each load (cp.async) and compute in one role; tiles
// of 64 keys; mma.sync, operands through ldmatrix.
//
// The same ring operations as with tensor copies: here the four warps are both
// producers and consumers of every slot. Keys run one tile ahead.

!qring = !tile_gpu.ring<1, 64x128xbf16 swizzle 128>
!kvring = !tile_gpu.ring<2, 64x128xbf16 swizzle 128>
!tile = !tile_gpu.smem<64x128xbf16 swizzle 128>
!tileT = !tile_gpu.smem<128x64xbf16 swizzle 128 transposed>
!mine = !tile_gpu.smem<16x128xbf16 swizzle 128 pitch 64>
!tensor = memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>
!qa = !tile_gpu.frag<16x128xbf16, a, warp>
!s = !tile_gpu.frag<16x64xf32, acc, warp>
!pa = !tile_gpu.frag<16x64xbf16, a, warp>
!o = !tile_gpu.frag<16x128xf32, acc, warp>
!row = !tile_gpu.vec<16xf32, row, warp>
!sum = !tile_gpu.vec<16xf32, row, warp, partial>

module attributes {attn.target = "sm_80"} {

// CHECK-LABEL: kernel private @capped_kernel
tile_gpu.kernel private @capped_kernel(
    %Q: !tensor, %K: !tensor, %V: !tensor, %O: !tensor, %sq: i32, %sk: i32,
    %heads: i32, %batch: i32, %group: i32, %scale: f32, %cap: f32,
    %invCap: f32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c16 = arith.constant 16 : i32
  %c63 = arith.constant 63 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %ninf = arith.constant 0xFF800000 : f32
  %log2e = arith.constant 1.4426950408889634 : f32

  // CHECK: tile_gpu.ring.create cp_async producers(4) consumers(4)
  %q = tile_gpu.ring.create cp_async producers(4) consumers(4) : !qring
  %k = tile_gpu.ring.create cp_async producers(4) consumers(4) : !kvring
  %v = tile_gpu.ring.create cp_async producers(4) consumers(4) : !kvring

  %up = arith.addi %sq, %c63 : i32
  %nq = arith.divsi %up, %c64 : i32
  %schedule = tile_gpu.scheduler grid in_order
      tiles(%nq) heads(%heads) batch(%batch) {
  ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32):
    tile_gpu.yield %c0, %sk : i32, i32
  }

  // No registers(...): sm_80 gives every thread an even share.
  // CHECK: tile_gpu.role "attend" warps(4) {
  tile_gpu.role "attend" warps(4) {
  ^bb0(%warp: i32):
    %myRow = arith.muli %warp, %c16 : i32
    tile_gpu.foreach %schedule lead {
    ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32, %lo: i32, %hi: i32):
      %hk = arith.divsi %head, %group : i32
      %ctaRow = arith.muli %tile, %c64 : i32
      %row0 = arith.addi %ctaRow, %myRow : i32
      %up1 = arith.addi %hi, %c63 : i32
      %n = arith.divsi %up1, %c64 : i32
      %last = arith.subi %n, %c1 : i32

      // Queries, once, into registers: their slot is free at once. Rows at or
      // beyond rows(...) are filled with zeros.
      %qt = tile_gpu.ring.acquire %q[%c0] : !qring
      tile_gpu.ring.load %Q[%b, %head, %ctaRow, %c0], %qt rows(%sq) : !tensor, !tile
      tile_gpu.ring.commit %q[%c0] : !qring
      %k0 = tile_gpu.ring.acquire %k[%c0] : !kvring
      tile_gpu.ring.load %K[%b, %hk, %c0, %c0], %k0 rows(%sk) : !tensor, !tile
      tile_gpu.ring.commit %k[%c0] : !kvring
      %qs = tile_gpu.ring.wait %q[%c0] : !qring
      %mine = tile_gpu.smem.slice %qs[%myRow, %c0] : !tile -> !mine
      // CHECK: tile_gpu.frag.load %{{.*}} : <16x128xbf16 swizzle 128 pitch 64> -> <16x128xbf16, a, warp>
      %qa = tile_gpu.frag.load %mine : !mine -> !qa
      tile_gpu.ring.release %q[%c0] after(%qa : !qa) : !qring

      %m0 = tile_gpu.frag.fill %ninf : f32 -> !row
      %l0 = tile_gpu.frag.fill %zero : f32 -> !sum
      %o0 = tile_gpu.frag.fill %zero : f32 -> !o
      %s0 = tile_gpu.frag.fill %zero : f32 -> !s
      %state:3 = scf.for %j = %c0 to %n step %c1
          iter_args(%m = %m0, %l = %l0, %o = %o0) -> (!row, !sum, !o) : i32 {
        %key0 = arith.muli %j, %c64 : i32
        // This tile's values and the next tile's keys are in flight while the
        // scores are computed.
        %vt = tile_gpu.ring.acquire %v[%j] : !kvring
        tile_gpu.ring.load %V[%b, %hk, %key0, %c0], %vt rows(%sk) : !tensor, !tile
        tile_gpu.ring.commit %v[%j] : !kvring
        %next = arith.addi %j, %c1 : i32
        %more = arith.cmpi slt, %j, %last : i32
        scf.if %more {
          %key1 = arith.muli %next, %c64 : i32
          %kt = tile_gpu.ring.acquire %k[%next] : !kvring
          tile_gpu.ring.load %K[%b, %hk, %key1, %c0], %kt rows(%sk) : !tensor, !tile
          tile_gpu.ring.commit %k[%next] : !kvring
        }
        %kj = tile_gpu.ring.wait %k[%j] : !kvring
        %kT = tile_gpu.smem.transpose %kj : !tile
        // CHECK: %[[S:.*]] = tile_gpu.mma.sync %{{.*}}, %{{.*}}, %{{.*}} : !tile_gpu.frag<16x128xbf16, a, warp>, !tile_gpu.smem<128x64xbf16 swizzle 128 transposed> -> <16x64xf32, acc, warp>
        %s = tile_gpu.mma.sync %qa, %kT, %s0 : !qa, !tileT -> !s
        // The release waits for the product: ldmatrix may otherwise still be
        // reading when the next copy arrives.
        // CHECK: tile_gpu.ring.release %{{.*}} after(%[[S]] : !tile_gpu.frag<16x64xf32, acc, warp>)
        tile_gpu.ring.release %k[%j] after(%s : !s) : !kvring

        // Scale, cap, mask: the user's regions, inlined on the fragment.
        %x = tile_gpu.map ins(%s : !s) {
        ^bb0(%r: i32, %c: i32, %raw: f32):
          %scaled = arith.mulf %raw, %scale : f32
          %small = arith.mulf %scaled, %invCap : f32
          %tanh = math.tanh %small : f32
          %capped = arith.mulf %tanh, %cap : f32
          %bits = arith.mulf %capped, %log2e : f32
          %key = arith.addi %key0, %c : i32
          %live = arith.cmpi slt, %key, %hi : i32
          %y = arith.select %live, %bits, %ninf : f32
          tile_gpu.yield %y : f32
        } -> !s
        %mt = tile_gpu.reduce ins(%x : !s) identity(%ninf : f32) {
        ^bb0(%a: f32, %c: f32):
          %z = arith.maximumf %a, %c : f32
          tile_gpu.yield %z : f32
        } -> !row
        // Key 0 of every tile is live: the maximum is finite.
        %mNew, %alpha = tile_gpu.map ins(%m, %mt : !row, !row) {
        ^bb0(%r: i32, %c: i32, %old: f32, %new: f32):
          %max = arith.maximumf %old, %new : f32
          %d = arith.subf %old, %max : f32
          %f = math.exp2 %d : f32
          tile_gpu.yield %max, %f : f32, f32
        } -> !row, !row
        %p = tile_gpu.map ins(%x, %mNew : !s, !row) {
        ^bb0(%r: i32, %c: i32, %a: f32, %max: f32):
          %d = arith.subf %a, %max : f32
          %w = math.exp2 %d : f32
          tile_gpu.yield %w : f32
        } -> !s
        %lt = tile_gpu.reduce ins(%p : !s) identity(%zero : f32) {
        ^bb0(%a: f32, %c: f32):
          %z = arith.addf %a, %c : f32
          tile_gpu.yield %z : f32
        } -> !sum
        %lNew = tile_gpu.map ins(%l, %lt, %alpha : !sum, !sum, !row) {
        ^bb0(%r: i32, %c: i32, %old: f32, %new: f32, %f: f32):
          %scaled = arith.mulf %old, %f : f32
          %z = arith.addf %scaled, %new : f32
          tile_gpu.yield %z : f32
        } -> !sum
        %oScaled = tile_gpu.map ins(%o, %alpha : !o, !row) {
        ^bb0(%r: i32, %c: i32, %a: f32, %f: f32):
          %z = arith.mulf %a, %f : f32
          tile_gpu.yield %z : f32
        } -> !o
        // The accumulator of one product is the left operand of the next.
        %pa = tile_gpu.frag.convert %p : !s -> !pa
        %vj = tile_gpu.ring.wait %v[%j] : !kvring
        %oNew = tile_gpu.mma.sync %pa, %vj, %oScaled : !pa, !tile -> !o
        tile_gpu.ring.release %v[%j] after(%oNew : !o) : !kvring
        scf.yield %mNew, %lNew, %oNew : !row, !sum, !o
      }

      %l = tile_gpu.reduce ins(%state#1 : !sum) identity(%zero : f32) {
      ^bb0(%a: f32, %c: f32):
        %z = arith.addf %a, %c : f32
        tile_gpu.yield %z : f32
      } -> !row
      %o = tile_gpu.map ins(%state#2, %l : !o, !row) {
      ^bb0(%r: i32, %c: i32, %a: f32, %total: f32):
        %none = arith.cmpf oeq, %total, %zero : f32
        %inv = arith.divf %one, %total : f32
        %f = arith.select %none, %zero, %inv : f32
        %z = arith.mulf %a, %f : f32
        tile_gpu.yield %z : f32
      } -> !o
      // CHECK: tile_gpu.global.store
      tile_gpu.global.store %o, %O[%b, %head, %row0, %c0] rows(%sq) : !o, !tensor
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
}

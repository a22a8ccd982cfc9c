// RUN: attn-opt %s --tile-gpu-verify-async --tile-gpu-allocate-shared --tile-gpu-verify-budget | attn-opt | FileCheck %s
// RUN: attn-opt %s %tidy %verify_kernels --tile-gpu-allocate-shared --tile-gpu-verify-budget | FileCheck %s
// RUN: sed "s/%unit: f32) {/%unit: f32) attributes {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 64, turns = products>} {/" %s | attn-opt --tile-gpu-order-warpgroups --tile-gpu-verify-async | FileCheck %s --check-prefix=TURNS

// Turns are taken from the scores to what is added up first, dV.
// TURNS: tile_gpu.role "compute"
// TURNS-NOT: turn.
// TURNS: scf.for
// TURNS-NOT: mma.issue
// TURNS: tile_gpu.turn.wait
// TURNS-NEXT: tile_gpu.mma.issue
// TURNS-NOT: mma.issue
// TURNS: tile_gpu.mma.issue {{.*}} acc(
// TURNS-NEXT: tile_gpu.turn.pass
// TURNS-NOT: turn.

// The five products of the backward in one kernel for sm_90a, d = 128, bf16:
// dkdv.mlir, and dQ besides. dS^T goes transposed into a tile that both
// warpgroups read; each makes half of the channels of dQ from it, and a
// reducing warp adds those to memory in f32. The order of those additions is
// not fixed: the deterministic mode uses dkdv.mlir and a kernel for dQ.
//
// dQ stays in the order of the fragments, 64 queries to a row of the
// workspace; a later kernel puts it right and converts it.

!kvring = !tile_gpu.ring<1, 128x128xbf16 swizzle 128>
!qring = !tile_gpu.ring<2, 64x128xbf16 swizzle 128, 1x64xf32>
!dsring = !tile_gpu.ring<2, 64x128xbf16 swizzle 128>
!dqring = !tile_gpu.ring<1, 128x64xf32>
!dstile = !tile_gpu.smem<64x128xbf16 swizzle 128>
!dqtile = !tile_gpu.smem<128x64xf32>
!dqpart = !tile_gpu.smem<64x64xf32>
!kcols = !tile_gpu.smem<128x64xbf16 swizzle 128>
!kv = !tile_gpu.smem<128x128xbf16 swizzle 128>
!mine = !tile_gpu.smem<64x128xbf16 swizzle 128 pitch 128>
!q = !tile_gpu.smem<64x128xbf16 swizzle 128>
!qT = !tile_gpu.smem<128x64xbf16 swizzle 128 transposed>
!stat = !tile_gpu.smem<1x64xf32>
!kvmap = !tile_gpu.tensor_map<128x128xbf16 swizzle 128>
!qmap = !tile_gpu.tensor_map<64x128xbf16 swizzle 128>
!stok = !tile_gpu.token<64x64xf32>
!dtok = !tile_gpu.token<64x128xf32>
!s = !tile_gpu.frag<64x64xf32, acc>
!sa = !tile_gpu.frag<64x64xbf16, a>
!d = !tile_gpu.frag<64x128xf32, acc>
!col = !tile_gpu.vec<64xf32, col>
!grad = memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>

module attributes {attn.target = "sm_90a"} {

// CHECK-LABEL: kernel private @fused_kernel
tile_gpu.kernel private @fused_kernel(
    %Q: !qmap, %dO: !qmap, %K: !kvmap, %V: !kvmap, %LSE: memref<?x?x?xf32>,
    %delta: memref<?x?x?xf32>, %dK: !grad, %dV: !grad, %dQ: memref<?x8192xf32>,
    %sq: i32, %sk: i32, %headsKV: i32, %batch: i32, %group: i32, %scale: f32,
    %unit: f32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c63 = arith.constant 63 : i32
  %c64 = arith.constant 64 : i32
  %c127 = arith.constant 127 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant 0.0 : f32

  // Keys and values stay for the whole block: rings of one slot, used once.
  %k = tile_gpu.ring.create tma : !kvring
  %v = tile_gpu.ring.create tma : !kvring
  // A slot holds queries and their statistics, full together.
  // CHECK: tile_gpu.ring.create tma consumers(8){{.*}} : <2, 64x128xbf16 swizzle 128, 1x64xf32>
  %q = tile_gpu.ring.create tma consumers(8) : !qring
  %do = tile_gpu.ring.create tma consumers(8) : !qring
  // dS: both warpgroups write their 64 keys, both read all 128.
  // CHECK: tile_gpu.ring.create exchange producers(8)
  %ds = tile_gpu.ring.create exchange producers(8) : !dsring
  // dQ, the other way: filled by the eight computing warps, emptied by one.
  // CHECK: tile_gpu.ring.create warps producers(8) consumers(1)
  %dq = tile_gpu.ring.create warps producers(8) consumers(1) : !dqring

  %up = arith.addi %sk, %c127 : i32
  %nk = arith.divsi %up, %c128 : i32
  %upq = arith.addi %sq, %c63 : i32
  %nq = arith.divsi %upq, %c64 : i32
  // The queries of all heads of the group, one after the other; there is one
  // at least, for without queries the plan launches nothing but a reset.
  %n = arith.muli %nq, %group : i32
  %last = arith.subi %n, %c1 : i32
  %schedule = tile_gpu.scheduler grid in_order
      tiles(%nk) heads(%headsKV) batch(%batch) {
  ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32):
    tile_gpu.yield %c0, %n : i32, i32
  }

  tile_gpu.role "load" warps(1) registers(24) {
  ^bb0(%warp: i32):
    tile_gpu.foreach %schedule lead {
    ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32, %lo: i32, %hi: i32):
      %key = arith.muli %tile, %c128 : i32
      %head0 = arith.muli %head, %group : i32
      %kt = tile_gpu.ring.acquire %k[%c0] : !kvring
      tile_gpu.ring.load %K[%b, %head, %key, %c0], %kt : !kvmap, !kv
      %vt = tile_gpu.ring.acquire %v[%c0] : !kvring
      tile_gpu.ring.load %V[%b, %head, %key, %c0], %vt : !kvmap, !kv
      scf.for %i = %c0 to %n step %c1 : i32 {
        %g = arith.divsi %i, %nq : i32
        %qi = arith.remsi %i, %nq : i32
        %h = arith.addi %head0, %g : i32
        %row = arith.muli %qi, %c64 : i32
        // CHECK: %{{.*}}:2 = tile_gpu.ring.acquire
        %qt, %lt = tile_gpu.ring.acquire %q[%i] : !qring
        tile_gpu.ring.load %Q[%b, %h, %row, %c0], %qt : !qmap, !q
        tile_gpu.ring.load %LSE[%b, %h, %row], %lt : memref<?x?x?xf32>, !stat
        %dot, %et = tile_gpu.ring.acquire %do[%i] : !qring
        tile_gpu.ring.load %dO[%b, %h, %row, %c0], %dot : !qmap, !q
        tile_gpu.ring.load %delta[%b, %h, %row], %et : memref<?x?x?xf32>, !stat
      }
      tile_gpu.yield
    }
    tile_gpu.yield
  }

  // One warp adds finished tiles of dQ to memory while the others go on.
  // CHECK: tile_gpu.role "reduce" warps(1) registers(24)
  tile_gpu.role "reduce" warps(1) registers(24) {
  ^bb0(%warp: i32):
    tile_gpu.foreach %schedule {
    ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32, %lo: i32, %hi: i32):
      %heads = arith.muli %b, %headsKV : i32
      %headAll = arith.addi %heads, %head : i32
      %block0 = arith.muli %headAll, %n : i32
      scf.for %i = %c0 to %n step %c1 : i32 {
        %block = arith.addi %block0, %i : i32
        %dqt = tile_gpu.ring.wait %dq[%i] : !dqring
        // CHECK: tile_gpu.bulk.reduce
        tile_gpu.bulk.reduce %dqt, %dQ[%block, %c0] : !dqtile, memref<?x8192xf32>
        tile_gpu.bulk.wait pending(0)
        tile_gpu.ring.release %dq[%i] : !dqring
      }
      tile_gpu.yield
    }
    tile_gpu.yield
  }

  // CHECK: tile_gpu.role "compute" warpgroups(2) registers(240)
  tile_gpu.role "compute" warpgroups(2) registers(240) {
  ^bb0(%wg: i32):
    %myKey = arith.muli %wg, %c64 : i32
    tile_gpu.foreach %schedule {
    ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32, %lo: i32, %hi: i32):
      %key = arith.muli %tile, %c128 : i32
      %key0 = arith.addi %key, %myKey : i32
      %kt = tile_gpu.ring.wait %k[%c0] : !kvring
      %kMine = tile_gpu.smem.slice %kt[%myKey, %c0] : !kv -> !mine
      // The columns of dQ that this warpgroup makes: one panel of the keys.
      %kCols = tile_gpu.smem.slice %kt[%c0, %myKey] : !kv -> !kcols
      %vt = tile_gpu.ring.wait %v[%c0] : !kvring
      %vMine = tile_gpu.smem.slice %vt[%myKey, %c0] : !kv -> !mine
      %d0 = tile_gpu.frag.fill %zero : f32 -> !d
      %none = tile_gpu.frag.fill %zero : f32 -> !s

      // S^T = K Q^T: operands swapped, queries are columns.
      %q0, %l0 = tile_gpu.ring.wait %q[%c0] : !qring
      %q0T = tile_gpu.smem.transpose %q0 : !q
      // CHECK: tile_gpu.mma.issue %{{.*}}, %{{.*}} : !tile_gpu.smem<64x128xbf16 swizzle 128 pitch 128>, !tile_gpu.smem<128x64xbf16 swizzle 128 transposed> -> !tile_gpu.token<64x64xf32>
      %t0 = tile_gpu.mma.issue %kMine, %q0T : !mine, !qT -> !stok
      %s0 = tile_gpu.mma.wait %t0 pending(0) : !stok

      %sums:3 = scf.for %i = %c0 to %n step %c1
          iter_args(%dv = %d0, %dk = %d0, %s = %s0) -> (!d, !d, !s) : i32 {
        // dP^T = V dO^T runs under the exponentials.
        %doi, %ei = tile_gpu.ring.wait %do[%i] : !qring
        %doT = tile_gpu.smem.transpose %doi : !q
        %dpT = tile_gpu.mma.issue %vMine, %doT : !mine, !qT -> !stok
        // P^T = exp2(S^T scale - lse), lse by column. Queries past the end, and
        // those without a live key, have lse = +inf and delta = 0: no mask.
        %qi, %li = tile_gpu.ring.view %q[%i] : !qring
        // CHECK: tile_gpu.vec.load %{{.*}} permuted : <1x64xf32> -> <64xf32, col>
        %lse = tile_gpu.vec.load %li permuted : !stat -> !col
        %p = tile_gpu.map ins(%s, %lse : !s, !col) {
        ^bb0(%r: i32, %c: i32, %x: f32, %m: f32):
          %scaled = arith.mulf %x, %scale : f32
          %e = arith.subf %scaled, %m : f32
          %w = math.exp2 %e : f32
          tile_gpu.yield %w : f32
        } -> !s
        // dV += P^T dO: the weights are the left operand as they are, and dO
        // is read the other way round this time.
        %pa = tile_gpu.frag.convert %p : !s -> !sa
        // CHECK: tile_gpu.mma.issue %{{.*}}, %{{.*}} acc(%{{.*}}) : !tile_gpu.frag<64x64xbf16, a>, !tile_gpu.smem<64x128xbf16 swizzle 128> -> !tile_gpu.token<64x128xf32>
        %dvT = tile_gpu.mma.issue %pa, %doi acc(%dv) : !sa, !q -> !dtok
        // CHECK: tile_gpu.mma.wait %{{.*}} pending(1) : !tile_gpu.token<64x64xf32>
        %dp = tile_gpu.mma.wait %dpT pending(1) : !stok
        %delt = tile_gpu.vec.load %ei permuted : !stat -> !col
        %dsf = tile_gpu.map ins(%p, %dp, %delt : !s, !s, !col) {
        ^bb0(%r: i32, %c: i32, %w: f32, %x: f32, %y: f32):
          %diff = arith.subf %x, %y : f32
          %z = arith.mulf %w, %diff : f32
          tile_gpu.yield %z : f32
        } -> !s
        %dsa = tile_gpu.frag.convert %dsf : !s -> !sa
        // dS, transposed on its way into the tile that both will read.
        // CHECK: tile_gpu.exchange {{.*}} transposed
        tile_gpu.exchange %dsa, %ds[%i] at(%c0, %myKey) transposed : !sa, !dsring
        // dK += dS^T Q.
        %dkT = tile_gpu.mma.issue %dsa, %qi acc(%dk) : !sa, !q -> !dtok
        %dvNew = tile_gpu.mma.wait %dvT pending(1) : !dtok
        tile_gpu.ring.release %do[%i] after(%delt : !col) : !qring
        // dQ = dS K, 64 queries by this warpgroup's 64 channels.
        %dst = tile_gpu.ring.wait %ds[%i] : !dsring
        %dqT = tile_gpu.mma.issue %dst, %kCols : !dstile, !kcols -> !stok
        %dkNew = tile_gpu.mma.wait %dkT pending(1) : !dtok
        tile_gpu.ring.release %q[%i] after(%lse : !col) : !qring
        %dqf = tile_gpu.mma.wait %dqT pending(0) : !stok
        %dqt = tile_gpu.ring.acquire %dq[%i] : !dqring
        %dqMine = tile_gpu.smem.slice %dqt[%myKey, %c0] : !dqtile -> !dqpart
        // CHECK: tile_gpu.frag.store %{{.*}} fragment_order
        tile_gpu.frag.store %dqf, %dqMine fragment_order : !s, !dqpart
        tile_gpu.ring.commit %dq[%i] : !dqring
        // The next scores, waited for before the loop turns: a product that
        // starts from zero must not be in flight there.
        %next = arith.addi %i, %c1 : i32
        %more = arith.cmpi slt, %i, %last : i32
        %sNew = scf.if %more -> (!s) {
          %q1, %l1 = tile_gpu.ring.wait %q[%next] : !qring
          %q1T = tile_gpu.smem.transpose %q1 : !q
          %t1 = tile_gpu.mma.issue %kMine, %q1T : !mine, !qT -> !stok
          %s1 = tile_gpu.mma.wait %t1 pending(0) : !stok
          scf.yield %s1 : !s
        } else {
          scf.yield %none : !s
        }
        scf.yield %dvNew, %dkNew, %sNew : !d, !d, !s
      }

      %dkOut = tile_gpu.map ins(%sums#1 : !d) {
      ^bb0(%r: i32, %c: i32, %x: f32):
        %z = arith.mulf %x, %unit : f32
        tile_gpu.yield %z : f32
      } -> !d
      // CHECK: tile_gpu.global.store
      tile_gpu.global.store %sums#0, %dV[%b, %head, %key0, %c0] rows(%sk) : !d, !grad
      tile_gpu.global.store %dkOut, %dK[%b, %head, %key0, %c0] rows(%sk) : !d, !grad
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// RUN: attn-opt %s --split-input-file --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm | FileCheck %s
// RUN: attn-opt %s --split-input-file %tidy --tile-gpu-allocate-shared --convert-tile-gpu-to-nvvm | FileCheck %s

!ring = !tile_gpu.ring<2, 64x128xbf16 swizzle 128>
!tile = !tile_gpu.smem<64x128xbf16 swizzle 128>
!map = !tile_gpu.tensor_map<64x128xbf16 swizzle 128>

// A ring of two blocks: 4 arrivals empty a slot of a block, whose copying warp
// then tells both blocks, by one lane each; 2 of these let it go on. Block 0 copies
// the first panel of 64 columns to both, block 1 the second one. The ring beside it
// is the block's own. Block 0 draws, and writes the number into both blocks. The
// kernel begins and ends with a barrier of the cluster.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: llvm.func @clusters
// CHECK-SAME: nvvm.cluster_dim = array<i32: 2, 1, 1>
// CHECK-DAG: %[[FOUR:.*]] = llvm.mlir.constant(4 : i32)
// CHECK-DAG: %[[TWO:.*]] = llvm.mlir.constant(2 : i32)
// CHECK: mbarrier.init.shared::cta.b64{{.*}} %{{.*}}, %[[FOUR]]
// CHECK: mbarrier.init.shared::cta.b64{{.*}} %{{.*}}, %[[FOUR]]
// CHECK: mbarrier.init.shared::cta.b64{{.*}} %{{.*}}, %[[FOUR]]
// CHECK: mbarrier.init.shared::cta.b64{{.*}} %{{.*}}, %[[FOUR]]
// CHECK: mbarrier.init.shared::cta.b64{{.*}} %{{.*}}, %[[TWO]]
// CHECK: mbarrier.init.shared::cta.b64{{.*}} %{{.*}}, %[[TWO]]
// CHECK: llvm.nvvm.barrier.cluster.arrive
// CHECK: llvm.nvvm.barrier.cluster.wait
// CHECK: cp.async.bulk.tensor.4d.shared::cta.global.tile.mbarrier::complete_tx::bytes [
// CHECK: mbarrier.try_wait.parity.shared::cta.b64
// CHECK: mapa.shared::cluster.u32
// CHECK: mbarrier.arrive.shared::cluster.b64 _,
// CHECK: mbarrier.try_wait.parity.shared::cta.b64
// CHECK: %[[RANK:.*]] = llvm.call_intrinsic "llvm.nvvm.read.ptx.sreg.cluster.ctarank"
// CHECK: %[[FIRST:.*]] = llvm.icmp "eq" %[[RANK]], %{{.*}} : i32
// CHECK: %[[COPIES:.*]] = llvm.and %{{.*}}, %[[FIRST]] : i1
// CHECK: cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster{{.*}} %[[COPIES]],
// CHECK: %[[SECOND:.*]] = llvm.icmp "eq" %[[RANK]], %{{.*}} : i32
// CHECK: %[[COPIES2:.*]] = llvm.and %{{.*}}, %[[SECOND]] : i1
// CHECK: cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster{{.*}} %[[COPIES2]],
// CHECK: atom.relaxed.gpu.global.inc.u32
// CHECK: mapa.shared::cluster.u32
// CHECK: st.shared::cluster.b32
// CHECK: mbarrier.arrive.release.cluster.shared::cluster.b64
// CHECK: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64
// CHECK: llvm.nvvm.barrier.cluster.arrive
// CHECK: llvm.nvvm.barrier.cluster.wait
// CHECK: llvm.return
// CHECK: mbarrier.arrive.shared::cta.b64 _,
// CHECK-NOT: mapa.shared::cluster.u32
// CHECK: mbarrier.arrive.shared::cta.b64 _,
// CHECK-NOT: llvm.return
tile_gpu.kernel private @clusters(%tickets: memref<1xi32>, %n: i32, %mq: !map,
    %mk: !map) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %q = tile_gpu.ring.create tma consumers(4) : !ring
  %k = tile_gpu.ring.create tma consumers(4) cluster(2) : !ring
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
      cluster(2) tiles(%n) heads(%c1) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield %c0, %c0 : i32, i32
  }
  tile_gpu.role "load" warps(1) {
  ^bb0(%w: i32):
    %e = tile_gpu.foreach %s lead iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32, %c: i32):
      %tq = tile_gpu.ring.acquire %q[%c] : !ring
      tile_gpu.ring.load %mq[%c0, %c0, %tile, %c0], %tq : !map, !tile
      %tk = tile_gpu.ring.acquire %k[%c] : !ring
      tile_gpu.ring.load %mk[%c0, %c0, %c0, %c0], %tk : !map, !tile
      %d = arith.addi %c, %c1 : i32
      tile_gpu.yield %d : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %e = tile_gpu.foreach %s iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %lo: i32, %hi: i32, %c: i32):
      %tq = tile_gpu.ring.wait %q[%c] : !ring
      tile_gpu.ring.release %q[%c] : !ring
      %tk = tile_gpu.ring.wait %k[%c] : !ring
      tile_gpu.ring.release %k[%c] : !ring
      %d = arith.addi %c, %c1 : i32
      tile_gpu.yield %d : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

!ring = !tile_gpu.ring<2, 64x128xbf16 swizzle 128>
!tile = !tile_gpu.smem<64x128xbf16 swizzle 128>
!map = !tile_gpu.tensor_map<64x128xbf16 swizzle 128>

// Consumers that release a slot in all blocks: 8 arrivals, 4 of each block, empty
// it, and the warp that copies tells nobody.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: llvm.func @release_all
// CHECK-SAME: nvvm.cluster_dim = array<i32: 2, 1, 1>
// CHECK-DAG: %[[EIGHT:.*]] = llvm.mlir.constant(8 : i32)
// CHECK: mbarrier.init.shared::cta.b64{{.*}} %{{.*}}, %[[EIGHT]]
// CHECK: mbarrier.init.shared::cta.b64{{.*}} %{{.*}}, %[[EIGHT]]
// CHECK: llvm.nvvm.barrier.cluster.wait
// CHECK-NOT: mapa.shared::cluster.u32
// CHECK: cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [
// CHECK: llvm.return
// CHECK: mapa.shared::cluster.u32
// CHECK: mbarrier.arrive.shared::cluster.b64 _,
tile_gpu.kernel private @release_all(%tickets: memref<1xi32>, %n: i32, %mk: !map) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %k = tile_gpu.ring.create tma consumers(4) cluster(2) release_all : !ring
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
      cluster(2) tiles(%n) heads(%c1) batch(%c1) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield
  }
  tile_gpu.role "load" warps(1) {
  ^bb0(%w: i32):
    %e = tile_gpu.foreach %s lead iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %c: i32):
      %tk = tile_gpu.ring.acquire %k[%c] : !ring
      tile_gpu.ring.load %mk[%c0, %c0, %c0, %c0], %tk : !map, !tile
      %d = arith.addi %c, %c1 : i32
      tile_gpu.yield %d : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    %e = tile_gpu.foreach %s iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %c: i32):
      %tk = tile_gpu.ring.wait %k[%c] : !ring
      tile_gpu.ring.release %k[%c] : !ring
      %d = arith.addi %c, %c1 : i32
      tile_gpu.yield %d : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

!states = !tile_gpu.ring<1, 2x136xf32>

// Two blocks have the parts of the keys of one tile. Each stores sixteen rows of its
// state into the other's slot, where they count as bytes, and combines the others.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: llvm.func @merged
// CHECK-SAME: nvvm.cluster_dim = array<i32: 2, 1, 1>
// CHECK-DAG: %[[ONE:.*]] = llvm.mlir.constant(1 : i32) : i32
// Barriers of the states (full, read) and of the drawn number (full, read).
// CHECK: llvm.add %[[BASE:.*]], %[[STATES:.*]] : i32
// CHECK-NEXT: mbarrier.init
// CHECK-NEXT: llvm.add %[[BASE]], %[[STATES_READ:.*]] : i32
// CHECK-NEXT: mbarrier.init
// CHECK-NEXT: llvm.add %[[BASE]], %[[NUMBER:.*]] : i32
// CHECK-NEXT: mbarrier.init
// CHECK-NEXT: llvm.add %[[BASE]], %[[NUMBER_READ:.*]] : i32
// CHECK-NEXT: mbarrier.init
// CHECK: llvm.nvvm.barrier.cluster.wait
// No barrier ends the kernel: the warp that draws waits in block 0 until its numbers
// have been read. It may be two turns ahead of the states, and knows no phase of theirs.
// CHECK-NOT: barrier.cluster
// CHECK-NOT: mbarrier.try_wait.parity.acquire.cluster
// CHECK: %[[BEFORE:.*]] = llvm.xor %{{.*}}, %[[ONE]] : i32
// CHECK-NEXT: %[[RANK:.*]] = llvm.call_intrinsic "llvm.nvvm.read.ptx.sreg.cluster.ctarank"
// CHECK-NEXT: %[[DREW:.*]] = llvm.icmp "eq" %[[RANK]], %{{.*}} : i32
// CHECK-NEXT: llvm.cond_br %[[DREW]], ^[[LISTEN:.*]], ^[[END:.*]]
// CHECK: atom.relaxed.gpu.global.inc.u32
// CHECK: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64
// CHECK: ^[[LISTEN]]:
// CHECK-NEXT: %[[READ:.*]] = llvm.add %[[BASE]], %[[NUMBER_READ]] : i32
// CHECK-NEXT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64{{.*}} %[[READ]], %[[BEFORE]] :
// CHECK-NEXT: llvm.br ^[[END]]
// CHECK-NEXT: ^[[END]]:
// CHECK-NEXT: llvm.return
// Warps that store states wait until what they stored last has been read.
// CHECK: %[[LAST:.*]] = llvm.xor %{{.*}}, %[[ONE]] : i32
// CHECK-NEXT: %[[SENT:.*]] = llvm.add %[[BASE]], %[[STATES_READ]] : i32
// CHECK-NEXT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64{{.*}} %[[SENT]], %[[LAST]] :
// CHECK-NEXT: llvm.return
// What this block stored before has been read.
// CHECK: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64
// CHECK: mapa.shared::cluster.u32
// CHECK: mapa.shared::cluster.u32
// CHECK: st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32
// CHECK: st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32
// CHECK: st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32
// CHECK: st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32
// CHECK: mbarrier.arrive.expect_tx.shared::cta.b64
// CHECK: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64
// CHECK: ld.shared::cta.v4.b32
// CHECK: ld.shared::cta.v2.b32
// CHECK: ld.shared::cta.v4.b32
// CHECK: ld.shared::cta.v2.b32
// The greatest statistic first, for both columns of a lane, then each state by it.
// CHECK-COUNT-2: llvm.intr.maximum
// CHECK: llvm.fmul
// CHECK: mapa.shared::cluster.u32
// CHECK: mbarrier.arrive.shared::cluster.b64 _,
// CHECK-NOT: barrier.cluster
tile_gpu.kernel private @merged(%tickets: memref<1xi32>, %n: i32, %heads: i32,
    %o: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %z = arith.constant 0.0 : f32
  %ring = tile_gpu.ring.create states producers(1) consumers(1) cluster(2) : !states
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
      cluster(2) by_parts tiles(%n) heads(%heads) batch(%c1) splits(%c2) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield
  }
  tile_gpu.role "draw" warps(1) {
  ^bb0(%w: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.role "compute" warps(1) {
  ^bb0(%w: i32):
    %e = tile_gpu.foreach %s iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %use: i32):
      %m = tile_gpu.frag.fill %z : f32 -> !tile_gpu.vec<8xf32, col, warp>
      %v = tile_gpu.frag.fill %z : f32 -> !tile_gpu.frag<32x8xf32, acc, warp>
      %m1, %v1 = tile_gpu.merge_states cluster
          stats(%m : !tile_gpu.vec<8xf32, col, warp>)
          values(%v : !tile_gpu.frag<32x8xf32, acc, warp>)
          ring(%ring[%use] : !states) part(%split) count(2) {
      ^bb1(%a: f32, %b: f32):
        %c = arith.maximumf %a, %b : f32
        tile_gpu.yield %c, %a, %b : f32, f32, f32
      } -> !tile_gpu.vec<8xf32, col, warp>, !tile_gpu.frag<16x8xf32, acc, warp>
      tile_gpu.global.store %v1, %o[%tile, %c0] : !tile_gpu.frag<16x8xf32, acc, warp>, memref<?x?xf32>
      %next = arith.addi %use, %c1 : i32
      tile_gpu.yield %next : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// -----

!states = !tile_gpu.ring<1, 2x520xf32>

// Of a warpgroup each warp stores its registers of the half that a block combines, and
// the first one the statistics; each announces a quarter of what comes.
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: llvm.func @groups
// CHECK: st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32
// CHECK: st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32
// CHECK: st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32
// CHECK: mbarrier.arrive.expect_tx.shared::cta.b64
// CHECK-COUNT-2: llvm.intr.maximum
// CHECK-NOT: barrier.cluster
tile_gpu.kernel private @groups(%tickets: memref<1xi32>, %n: i32, %heads: i32,
    %o: memref<?x?xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %z = arith.constant 0.0 : f32
  %ring = tile_gpu.ring.create states producers(4) consumers(4) cluster(2) : !states
  %s = tile_gpu.scheduler dynamic in_order tickets(%tickets : memref<1xi32>)
      cluster(2) by_parts tiles(%n) heads(%heads) batch(%c1) splits(%c2) {
  ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
    tile_gpu.yield
  }
  tile_gpu.role "draw" warps(1) registers(24) {
  ^bb0(%w: i32):
    tile_gpu.foreach %s lead {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32):
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.role "compute" warpgroups(1) registers(240) {
  ^bb0(%w: i32):
    %e = tile_gpu.foreach %s iter_args(%c0 : i32) {
    ^bb0(%tile: i32, %head: i32, %batch: i32, %split: i32, %use: i32):
      %m = tile_gpu.frag.fill %z : f32 -> !tile_gpu.vec<8xf32, col>
      %v = tile_gpu.frag.fill %z : f32 -> !tile_gpu.frag<128x8xf32, acc>
      %m1, %v1 = tile_gpu.merge_states cluster
          stats(%m : !tile_gpu.vec<8xf32, col>)
          values(%v : !tile_gpu.frag<128x8xf32, acc>)
          ring(%ring[%use] : !states) part(%split) count(2) {
      ^bb1(%a: f32, %b: f32):
        %c = arith.maximumf %a, %b : f32
        tile_gpu.yield %c, %a, %b : f32, f32, f32
      } -> !tile_gpu.vec<8xf32, col>, !tile_gpu.frag<64x8xf32, acc>
      tile_gpu.global.store %v1, %o[%tile, %c0] : !tile_gpu.frag<64x8xf32, acc>, memref<?x?xf32>
      %next = arith.addi %use, %c1 : i32
      tile_gpu.yield %next : i32
    } -> i32
    tile_gpu.yield
  }
  tile_gpu.return
}
}

// RUN: attn-opt %s --tile-gpu-verify-async --tile-gpu-allocate-shared --tile-gpu-verify-budget | attn-opt | FileCheck %s
// RUN: attn-opt %s %tidy %verify_kernels --tile-gpu-allocate-shared --tile-gpu-verify-budget | FileCheck %s

// Causal softmax attention for sm_90a, d = 128, bf16: one producer warp, two
// consumer warpgroups of 64 queries each, tiles of 128 keys.
//
// In flight at the widest point, in registers of each consumer thread: O (64)
// and S (64) owned by their products, P (32) owned by P V. With the reserve
// that is 192 of 240.
//
// Overlap: the scores of the next tile are issued before the weights of this
// one meet V, so the tensor cores have S(j) and P(j+1) V(j+1) while the other
// units do the softmax of S(j).

!tile = !tile_gpu.smem<128x128xbf16 swizzle 128>
!tileT = !tile_gpu.smem<128x128xbf16 swizzle 128 transposed>
!rows = !tile_gpu.smem<64x128xbf16 swizzle 128 pitch 128>
!panel = !tile_gpu.smem<64x64xbf16 swizzle 128 pitch 128>
!qring = !tile_gpu.ring<1, 128x128xbf16 swizzle 128>
!kvring = !tile_gpu.ring<2, 128x128xbf16 swizzle 128>
!map = !tile_gpu.tensor_map<128x128xbf16 swizzle 128>
!omap = !tile_gpu.tensor_map<64x64xbf16 swizzle 128>
!tok = !tile_gpu.token<64x128xf32>
!s = !tile_gpu.frag<64x128xf32, acc>
!o16 = !tile_gpu.frag<64x128xbf16, acc>
!p = !tile_gpu.frag<64x128xbf16, a>
!row = !tile_gpu.vec<64xf32, row>
!sum = !tile_gpu.vec<64xf32, row, partial>

module attributes {attn.target = "sm_90a"} {

// %scale is the user's times log2(e): exponentials are in base 2.
// CHECK-LABEL: kernel private @forward_kernel
tile_gpu.kernel private @forward_kernel(
    %Q: !map, %K: !map, %V: !map, %O: !omap, %LSE: memref<?x?x?xf32>,
    %tickets: memref<1xi32>, %sq: i32, %sk: i32, %heads: i32, %batch: i32,
    %group: i32, %scale: f32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %c127 = arith.constant 127 : i32
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %ninf = arith.constant 0xFF800000 : f32
  %ln2 = arith.constant 0.693147180559945 : f32

  // Rings: 32 KiB of queries, 64 of keys, 64 of values. A slot is released by
  // the eight warps of the two consumers.
  // CHECK: tile_gpu.ring.create tma consumers(8){{.*}} : <1, 128x128xbf16 swizzle 128>
  %q = tile_gpu.ring.create tma consumers(8) : !qring
  %k = tile_gpu.ring.create tma consumers(8) : !kvring
  %v = tile_gpu.ring.create tma consumers(8) : !kvring
  %staging = tile_gpu.smem.alloc : !tile
  %own = tile_gpu.barrier.create warps(4) each(2)

  // Query i sees keys up to i + (sk - sq). Long tiles are drawn first, four
  // heads side by side share their keys in L2.
  %shift = arith.subi %sk, %sq : i32
  %up = arith.addi %sq, %c127 : i32
  %nq = arith.divsi %up, %c128 : i32
  // CHECK: tile_gpu.scheduler dynamic longest_first tickets
  %schedule = tile_gpu.scheduler dynamic longest_first
      tickets(%tickets : memref<1xi32>) section(%c4)
      tiles(%nq) heads(%heads) batch(%batch) {
  ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32):
    %row = arith.muli %tile, %c128 : i32
    %end = arith.addi %row, %c128 : i32
    %seen = arith.addi %end, %shift : i32
    %atMost = arith.minsi %seen, %sk : i32
    %hi = arith.maxsi %atMost, %c0 : i32
    tile_gpu.yield %c0, %hi : i32, i32
  }

  // CHECK: tile_gpu.role "load" warps(1) registers(24)
  tile_gpu.role "load" warps(1) registers(24) {
  ^bb0(%warp: i32):
    // Counters run on from tile to tile: the keys of the next tile are on
    // their way while the consumers are in the epilogue of this one.
    %used:2 = tile_gpu.foreach %schedule lead iter_args(%c0, %c0 : i32, i32) {
    ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32, %lo: i32, %hi: i32,
         %it: i32, %c: i32):
      %hk = arith.divsi %head, %group : i32
      %hi1 = arith.addi %hi, %c127 : i32
      %n = arith.divsi %hi1, %c128 : i32
      %some = arith.cmpi sgt, %n, %c0 : i32
      %next:2 = scf.if %some -> (i32, i32) {
        %last = arith.subi %n, %c1 : i32
        %row = arith.muli %tile, %c128 : i32
        %key = arith.muli %last, %c128 : i32
        // Keys of the last tile first, then the queries; from there on the
        // values of tile j lag one step behind the keys.
        %k0 = tile_gpu.ring.acquire %k[%c] : !kvring
        tile_gpu.ring.load %K[%b, %hk, %key, %c0], %k0 : !map, !tile
        %q0 = tile_gpu.ring.acquire %q[%it] : !qring
        tile_gpu.ring.load %Q[%b, %head, %row, %c0], %q0 : !map, !tile
        scf.for %i = %c0 to %last step %c1 : i32 {
          %j = arith.subi %last, %i : i32
          %jm = arith.subi %j, %c1 : i32
          %keyV = arith.muli %j, %c128 : i32
          %keyK = arith.muli %jm, %c128 : i32
          %cv = arith.addi %c, %i : i32
          %ck = arith.addi %cv, %c1 : i32
          %ki = tile_gpu.ring.acquire %k[%ck] : !kvring
          tile_gpu.ring.load %K[%b, %hk, %keyK, %c0], %ki : !map, !tile
          %vi = tile_gpu.ring.acquire %v[%cv] : !kvring
          tile_gpu.ring.load %V[%b, %hk, %keyV, %c0], %vi : !map, !tile
        }
        %cl = arith.addi %c, %last : i32
        %v0 = tile_gpu.ring.acquire %v[%cl] : !kvring
        tile_gpu.ring.load %V[%b, %hk, %c0, %c0], %v0 : !map, !tile
        %it1 = arith.addi %it, %c1 : i32
        %cn = arith.addi %c, %n : i32
        scf.yield %it1, %cn : i32, i32
      } else {
        scf.yield %it, %c : i32, i32
      }
      tile_gpu.yield %next#0, %next#1 : i32, i32
    } -> i32, i32
    tile_gpu.yield
  }

  // CHECK: tile_gpu.role "compute" warpgroups(2) registers(240)
  tile_gpu.role "compute" warpgroups(2) registers(240) {
  ^bb0(%wg: i32):
    %myRow = arith.muli %wg, %c64 : i32
    %o0 = tile_gpu.frag.fill %zero : f32 -> !s
    %m0 = tile_gpu.frag.fill %ninf : f32 -> !row
    %l0 = tile_gpu.frag.fill %zero : f32 -> !sum
    %used:2 = tile_gpu.foreach %schedule iter_args(%c0, %c0 : i32, i32) {
    ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32, %lo: i32, %hi: i32,
         %it: i32, %c: i32):
      %ctaRow = arith.muli %tile, %c128 : i32
      %row0 = arith.addi %ctaRow, %myRow : i32
      // Row r of this warpgroup sees keys below limit + r, and below sk.
      %aligned = arith.addi %row0, %shift : i32
      %limit = arith.addi %aligned, %c1 : i32
      %hi1 = arith.addi %hi, %c127 : i32
      %n = arith.divsi %hi1, %c128 : i32
      %some = arith.cmpi sgt, %n, %c0 : i32
      %next:5 = scf.if %some -> (i32, i32, !row, !sum, !s) {
        %last = arith.subi %n, %c1 : i32
        // Tiles below `full` lie whole under the diagonal of every row.
        %blockLimit = arith.addi %ctaRow, %shift : i32
        %blockLimit1 = arith.addi %blockLimit, %c1 : i32
        %below = arith.divsi %blockLimit1, %c128 : i32
        %below0 = arith.maxsi %below, %c0 : i32
        %full = arith.minsi %below0, %last : i32

        %qs = tile_gpu.ring.wait %q[%it] : !qring
        %mine = tile_gpu.smem.slice %qs[%myRow, %c0] : !tile -> !rows

        // The first tile: nothing to overlap with, nothing to rescale.
        %ks = tile_gpu.ring.wait %k[%c] : !kvring
        %kT = tile_gpu.smem.transpose %ks : !tile
        // CHECK: tile_gpu.mma.issue %{{.*}}, %{{.*}} : !tile_gpu.smem<64x128xbf16 swizzle 128 pitch 128>, !tile_gpu.smem<128x128xbf16 swizzle 128 transposed> -> !tile_gpu.token<64x128xf32>
        %t0 = tile_gpu.mma.issue %mine, %kT : !rows, !tileT -> !tok
        %s0 = tile_gpu.mma.wait %t0 pending(0) : !tok
        tile_gpu.ring.release %k[%c] : !kvring
        %first = arith.muli %last, %c128 : i32
        %sm0 = tile_gpu.map ins(%s0 : !s) {
        ^bb0(%i: i32, %j: i32, %x: f32):
          %key = arith.addi %first, %j : i32
          %bound = arith.addi %limit, %i : i32
          %bound1 = arith.minsi %bound, %sk : i32
          %live = arith.cmpi slt, %key, %bound1 : i32
          %y = arith.select %live, %x, %ninf : f32
          tile_gpu.yield %y : f32
        } -> !s
        %m1 = tile_gpu.reduce ins(%sm0 : !s) identity(%ninf : f32) {
        ^bb0(%x: f32, %y: f32):
          %z = arith.maximumf %x, %y : f32
          tile_gpu.yield %z : f32
        } -> !row
        // A row without a live key keeps the statistic -inf; its anchor is 0,
        // so that no -inf is subtracted from another.
        %p1 = tile_gpu.map ins(%sm0, %m1 : !s, !row) {
        ^bb0(%i: i32, %j: i32, %x: f32, %max: f32):
          %dead = arith.cmpf oeq, %max, %ninf : f32
          %anchor = arith.select %dead, %zero, %max : f32
          %d = arith.subf %x, %anchor : f32
          %e = arith.mulf %d, %scale : f32
          %w = math.exp2 %e : f32
          tile_gpu.yield %w : f32
        } -> !s
        %l1 = tile_gpu.reduce ins(%p1 : !s) identity(%zero : f32) {
        ^bb0(%x: f32, %y: f32):
          %z = arith.addf %x, %y : f32
          tile_gpu.yield %z : f32
        } -> !sum
        %pa1 = tile_gpu.frag.convert %p1 : !s -> !p

        // Two clones of one body: tiles on the diagonal with the mask, tiles
        // below it without mask, guard or compare.
        %onDiagonal = arith.subi %last, %full : i32
        %d:4 = scf.for %i = %c0 to %onDiagonal step %c1
            iter_args(%m = %m1, %l = %l1, %o = %o0, %pa = %pa1)
            -> (!row, !sum, !s, !p) : i32 {
          %cv = arith.addi %c, %i : i32
          %ck = arith.addi %cv, %c1 : i32
          %kj = tile_gpu.ring.wait %k[%ck] : !kvring
          %kjT = tile_gpu.smem.transpose %kj : !tile
          %qk = tile_gpu.mma.issue %mine, %kjT : !rows, !tileT -> !tok
          %vj = tile_gpu.ring.wait %v[%cv] : !kvring
          %pv = tile_gpu.mma.issue %pa, %vj acc(%o) : !p, !tile -> !tok
          %s = tile_gpu.mma.wait %qk pending(1) : !tok
          tile_gpu.ring.release %k[%ck] : !kvring
          %back = arith.addi %i, %c1 : i32
          %jt = arith.subi %last, %back : i32
          %key0 = arith.muli %jt, %c128 : i32
          %sm = tile_gpu.map ins(%s : !s) {
          ^bb0(%r: i32, %j: i32, %x: f32):
            %key = arith.addi %key0, %j : i32
            %bound = arith.addi %limit, %r : i32
            %live = arith.cmpi slt, %key, %bound : i32
            %y = arith.select %live, %x, %ninf : f32
            tile_gpu.yield %y : f32
          } -> !s
          %mt = tile_gpu.reduce ins(%sm : !s) identity(%ninf : f32) {
          ^bb0(%x: f32, %y: f32):
            %z = arith.maximumf %x, %y : f32
            tile_gpu.yield %z : f32
          } -> !row
          %mNew, %alpha = tile_gpu.map ins(%m, %mt : !row, !row) {
          ^bb0(%r: i32, %j: i32, %old: f32, %new: f32):
            %max = arith.maximumf %old, %new : f32
            %same = arith.cmpf oeq, %old, %max : f32
            %diff = arith.subf %old, %max : f32
            %e = arith.mulf %diff, %scale : f32
            %r0 = math.exp2 %e : f32
            %r1 = arith.select %same, %one, %r0 : f32
            tile_gpu.yield %max, %r1 : f32, f32
          } -> !row, !row
          %p = tile_gpu.map ins(%sm, %mNew : !s, !row) {
          ^bb0(%r: i32, %j: i32, %x: f32, %max: f32):
            %dead = arith.cmpf oeq, %max, %ninf : f32
            %anchor = arith.select %dead, %zero, %max : f32
            %diff = arith.subf %x, %anchor : f32
            %e = arith.mulf %diff, %scale : f32
            %w = math.exp2 %e : f32
            tile_gpu.yield %w : f32
          } -> !s
          %lt = tile_gpu.reduce ins(%p : !s) identity(%zero : f32) {
          ^bb0(%x: f32, %y: f32):
            %z = arith.addf %x, %y : f32
            tile_gpu.yield %z : f32
          } -> !sum
          %lNew = tile_gpu.map ins(%l, %lt, %alpha : !sum, !sum, !row) {
          ^bb0(%r: i32, %j: i32, %old: f32, %new: f32, %f: f32):
            %scaled = arith.mulf %old, %f : f32
            %z = arith.addf %scaled, %new : f32
            tile_gpu.yield %z : f32
          } -> !sum
          %oj = tile_gpu.mma.wait %pv pending(0) : !tok
          tile_gpu.ring.release %v[%cv] : !kvring
          %oNew = tile_gpu.map ins(%oj, %alpha : !s, !row) {
          ^bb0(%r: i32, %j: i32, %x: f32, %f: f32):
            %z = arith.mulf %x, %f : f32
            tile_gpu.yield %z : f32
          } -> !s
          // Packed only here: %pa was the open product's until its wait.
          %paNew = tile_gpu.frag.convert %p : !s -> !p
          scf.yield %mNew, %lNew, %oNew, %paNew : !row, !sum, !s, !p
        }
        %cFull = arith.addi %c, %onDiagonal : i32
        // CHECK: scf.for {{.*}} iter_args
        %f:4 = scf.for %i = %c0 to %full step %c1
            iter_args(%m = %d#0, %l = %d#1, %o = %d#2, %pa = %d#3)
            -> (!row, !sum, !s, !p) : i32 {
          %cv = arith.addi %cFull, %i : i32
          %ck = arith.addi %cv, %c1 : i32
          %kj = tile_gpu.ring.wait %k[%ck] : !kvring
          %kjT = tile_gpu.smem.transpose %kj : !tile
          %qk = tile_gpu.mma.issue %mine, %kjT : !rows, !tileT -> !tok
          %vj = tile_gpu.ring.wait %v[%cv] : !kvring
          // CHECK: tile_gpu.mma.issue %{{.*}}, %{{.*}} acc(%{{.*}}) : !tile_gpu.frag<64x128xbf16, a>
          %pv = tile_gpu.mma.issue %pa, %vj acc(%o) : !p, !tile -> !tok
          // CHECK: tile_gpu.mma.wait %{{.*}} pending(1) : !tile_gpu.token<64x128xf32>
          %s = tile_gpu.mma.wait %qk pending(1) : !tok
          tile_gpu.ring.release %k[%ck] : !kvring
          %mt = tile_gpu.reduce ins(%s : !s) identity(%ninf : f32) {
          ^bb0(%x: f32, %y: f32):
            %z = arith.maximumf %x, %y : f32
            tile_gpu.yield %z : f32
          } -> !row
          %mNew, %alpha = tile_gpu.map ins(%m, %mt : !row, !row) {
          ^bb0(%r: i32, %j: i32, %old: f32, %new: f32):
            %max = arith.maximumf %old, %new : f32
            %diff = arith.subf %old, %max : f32
            %e = arith.mulf %diff, %scale : f32
            %r0 = math.exp2 %e : f32
            tile_gpu.yield %max, %r0 : f32, f32
          } -> !row, !row
          %p = tile_gpu.map ins(%s, %mNew : !s, !row) {
          ^bb0(%r: i32, %j: i32, %x: f32, %max: f32):
            %diff = arith.subf %x, %max : f32
            %e = arith.mulf %diff, %scale : f32
            %w = math.exp2 %e : f32
            tile_gpu.yield %w : f32
          } -> !s
          %lt = tile_gpu.reduce ins(%p : !s) identity(%zero : f32) {
          ^bb0(%x: f32, %y: f32):
            %z = arith.addf %x, %y : f32
            tile_gpu.yield %z : f32
          } -> !sum
          %lNew = tile_gpu.map ins(%l, %lt, %alpha : !sum, !sum, !row) {
          ^bb0(%r: i32, %j: i32, %old: f32, %new: f32, %a: f32):
            %scaled = arith.mulf %old, %a : f32
            %z = arith.addf %scaled, %new : f32
            tile_gpu.yield %z : f32
          } -> !sum
          %oj = tile_gpu.mma.wait %pv pending(0) : !tok
          tile_gpu.ring.release %v[%cv] : !kvring
          %oNew = tile_gpu.map ins(%oj, %alpha : !s, !row) {
          ^bb0(%r: i32, %j: i32, %x: f32, %a: f32):
            %z = arith.mulf %x, %a : f32
            tile_gpu.yield %z : f32
          } -> !s
          %paNew = tile_gpu.frag.convert %p : !s -> !p
          scf.yield %mNew, %lNew, %oNew, %paNew : !row, !sum, !s, !p
        }

        // No product reads the queries any more: the next tile's may come.
        tile_gpu.ring.release %q[%it] : !qring
        %cl = arith.addi %c, %last : i32
        %v0 = tile_gpu.ring.wait %v[%cl] : !kvring
        %pvl = tile_gpu.mma.issue %f#3, %v0 acc(%f#2) : !p, !tile -> !tok
        %ol = tile_gpu.mma.wait %pvl pending(0) : !tok
        tile_gpu.ring.release %v[%cl] : !kvring
        %it1 = arith.addi %it, %c1 : i32
        %cn = arith.addi %c, %n : i32
        scf.yield %it1, %cn, %f#0, %f#1, %ol : i32, i32, !row, !sum, !s
      } else {
        // No live key: the state is the identity.
        scf.yield %it, %c, %m0, %l0, %o0 : i32, i32, !row, !sum, !s
      }

      // Finalize once a tile: complete the row sums, divide, LSE.
      %l = tile_gpu.reduce ins(%next#3 : !sum) identity(%zero : f32) {
      ^bb0(%x: f32, %y: f32):
        %z = arith.addf %x, %y : f32
        tile_gpu.yield %z : f32
      } -> !row
      %inv, %lse = tile_gpu.map ins(%next#2, %l : !row, !row) {
      ^bb0(%r: i32, %j: i32, %max: f32, %total: f32):
        %none = arith.cmpf oeq, %total, %zero : f32
        %q0 = arith.divf %one, %total : f32
        %q1 = arith.select %none, %zero, %q0 : f32
        %log = math.log2 %total : f32
        %scaled = arith.mulf %max, %scale : f32
        %sum = arith.addf %scaled, %log : f32
        %natural = arith.mulf %sum, %ln2 : f32
        %lse1 = arith.select %none, %ninf, %natural : f32
        tile_gpu.yield %q1, %lse1 : f32, f32
      } -> !row, !row
      %o = tile_gpu.map ins(%next#4, %inv : !s, !row) {
      ^bb0(%r: i32, %j: i32, %x: f32, %f: f32):
        %z = arith.mulf %x, %f : f32
        tile_gpu.yield %z : f32
      } -> !s
      %o16 = tile_gpu.frag.convert %o : !s -> !o16

      // Output: through staging, once the previous tile's copy has read it.
      // Each panel of 64 columns is stored by itself, for the panels of this
      // warpgroup's rows lie 128 rows apart.
      tile_gpu.bulk.wait pending(0)
      tile_gpu.barrier.sync %own[%wg]
      %out = tile_gpu.smem.slice %staging[%myRow, %c0] : !tile -> !rows
      tile_gpu.frag.store %o16, %out : !o16, !rows
      tile_gpu.barrier.sync %own[%wg]
      %left = tile_gpu.smem.slice %out[%c0, %c0] : !rows -> !panel
      %right = tile_gpu.smem.slice %out[%c0, %c64] : !rows -> !panel
      // CHECK: tile_gpu.bulk.store
      tile_gpu.bulk.store %left, %O[%b, %head, %row0, %c0] : !panel, !omap
      tile_gpu.bulk.store %right, %O[%b, %head, %row0, %c64] : !panel, !omap
      tile_gpu.global.store %lse, %LSE[%b, %head, %row0] rows(%sq)
          : !row, memref<?x?x?xf32>
      tile_gpu.yield %next#0, %next#1 : i32, i32
    } -> i32, i32
    tile_gpu.bulk.wait pending(0)
    tile_gpu.yield
  }
  tile_gpu.return
}

// The plan: tensor maps, the ticket counter, one launch. The grid is an upper
// bound; a dynamic schedule takes as many blocks as the device runs at once.
// CHECK-LABEL: func.func @forward
func.func @forward(
    %q: memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>
      {attn.arg = {name = "q", dims = ["b", "hq", "sq", ""]}},
    %k: memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>
      {attn.arg = {name = "k", dims = ["b", "hk", "sk", ""]}},
    %v: memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>
      {attn.arg = {name = "v", dims = ["b", "hk", "sk", ""]}},
    %scale: f32 {attn.arg = {name = "scale"}},
    %o: memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>
      {attn.arg = {name = "o", output, dims = ["b", "hq", "sq", ""]}},
    %lse: memref<?x?x?xf32>
      {attn.arg = {name = "lse", output, dims = ["b", "hq", "sq"]}})
    attributes {tile.plan, attn.multiples = ["hq", "hk"]} {
  %d0 = arith.constant 0 : index
  %d1 = arith.constant 1 : index
  %d2 = arith.constant 2 : index
  %d128 = arith.constant 128 : index
  %log2e = arith.constant 1.4426950408889634 : f32
  %b = memref.dim %q, %d0 : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>
  %h = memref.dim %q, %d1 : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>
  %hk = memref.dim %k, %d1 : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>
  %sq = memref.dim %q, %d2 : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>
  %sk = memref.dim %k, %d2 : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>
  %b32 = arith.index_cast %b : index to i32
  %h32 = arith.index_cast %h : index to i32
  %hk32 = arith.index_cast %hk : index to i32
  %sq32 = arith.index_cast %sq : index to i32
  %sk32 = arith.index_cast %sk : index to i32
  %group = arith.divsi %h32, %hk32 : i32
  %scale2 = arith.mulf %scale, %log2e : f32
  %nq = arith.ceildivsi %sq, %d128 : index
  %bh = arith.muli %b, %h : index
  %grid = arith.muli %nq, %bh : index
  // CHECK: tile_gpu.tensor_map
  %Q = tile_gpu.tensor_map %q : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>> -> !map
  %K = tile_gpu.tensor_map %k : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>> -> !map
  %V = tile_gpu.tensor_map %v : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>> -> !map
  %O = tile_gpu.tensor_map %o : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>> -> !omap
  %tickets = memref.alloc() : memref<1xi32>
  tile_gpu.reset %tickets : memref<1xi32>
  // CHECK: tile_gpu.launch @forward_kernel grid
  tile_gpu.launch @forward_kernel grid(%grid) args(
      %Q, %K, %V, %O, %lse, %tickets, %sq32, %sk32, %h32, %b32, %group, %scale2
      : !map, !map, !map, !omap, memref<?x?x?xf32>, memref<1xi32>, i32, i32,
        i32, i32, i32, f32)
  return
}
}

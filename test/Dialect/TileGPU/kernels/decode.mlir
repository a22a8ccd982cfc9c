// RUN: attn-opt %s --tile-gpu-verify-async --tile-gpu-allocate-shared --tile-gpu-verify-budget | attn-opt | FileCheck %s
// RUN: attn-opt %s %tidy %verify_kernels --tile-gpu-allocate-shared --tile-gpu-verify-budget | FileCheck %s

// One new token per sequence against a paged cache, for sm_90a: d = 128, bf16,
// up to 8 query heads for each key head, pages of 64 keys.
//
// The operands are swapped: keys are the 16 rows of mma.sync, queries its 8
// columns, so nothing is padded. One producer warp keeps 192 KiB in flight;
// eight warps take 16 keys of every tile each, without a barrier between them,
// and merge their states once at the end. Blocks that share a sequence leave
// their states in a workspace for a second kernel, which starts early.

!ring = !tile_gpu.ring<6, 128x128xbf16 swizzle 128 boxes 2>
!tile = !tile_gpu.smem<128x128xbf16 swizzle 128 boxes 2>
!part = !tile_gpu.smem<16x128xbf16 swizzle 128 pitch 64>
!partT = !tile_gpu.smem<128x16xbf16 swizzle 128 pitch 64 transposed>
!scratch = !tile_gpu.smem<8x1040xf32>
!cache = !tile_gpu.tensor_map<64x128xbf16 swizzle 128>
!q = !tile_gpu.frag<128x8xbf16, b, warp>
!s = !tile_gpu.frag<16x8xf32, acc, warp>
!pb = !tile_gpu.frag<16x8xbf16, b, warp>
!o = !tile_gpu.frag<128x8xf32, acc, warp>
!od = !tile_gpu.frag<16x8xf32, acc, warp>
!oc = !tile_gpu.frag<32x8xf32, acc, warp>
!col = !tile_gpu.vec<8xf32, col, warp>
!sum = !tile_gpu.vec<8xf32, col, warp, partial>
!rows = memref<?x?x128xbf16, strided<[?, ?, 1]>>
!states = memref<?x?x?x128x8xf32>
!stats = memref<?x?x?x8xf32>

module attributes {attn.target = "sm_90a"} {

// %perSplit is a multiple of 128: every split but the last has whole tiles.
// CHECK-LABEL: kernel private @decode_kernel
tile_gpu.kernel private @decode_kernel(
    %Q: !rows, %K: !cache, %V: !cache, %O: !rows, %table: memref<?x?xi32>,
    %lengths: memref<?xi32>, %WO: !states, %WM: !stats, %WL: !stats,
    %headsKV: i32, %batch: i32, %splits: i32, %perSplit: i32, %group: i32,
    %scale: f32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c16 = arith.constant 16 : i32
  %c64 = arith.constant 64 : i32
  %c127 = arith.constant 127 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %ninf = arith.constant 0xFF800000 : f32

  // One ring for keys and values: use 2 t is the keys of tile t, 2 t + 1 its
  // values. A tile is two boxes, one page each.
  // CHECK: tile_gpu.ring.create tma consumers(8){{.*}} : <6, 128x128xbf16 swizzle 128 boxes 2>
  %ring = tile_gpu.ring.create tma consumers(8) : !ring
  %scratch = tile_gpu.smem.alloc : !scratch

  // CHECK: tile_gpu.scheduler grid in_order {{.*}} splits
  %schedule = tile_gpu.scheduler grid in_order
      tiles(%c1) heads(%headsKV) batch(%batch) splits(%splits) {
  ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32):
    %bi = arith.index_cast %b : i32 to index
    %length = memref.load %lengths[%bi] : memref<?xi32>
    %first = arith.muli %split, %perSplit : i32
    %end = arith.addi %first, %perSplit : i32
    %lo = arith.minsi %first, %length : i32
    %hi = arith.minsi %end, %length : i32
    tile_gpu.yield %lo, %hi : i32, i32
  }

  // CHECK: tile_gpu.role "load" warps(1) {
  tile_gpu.role "load" warps(1) {
  ^bb0(%warp: i32):
    // The combine kernel may be launched as soon as every block is running.
    // CHECK: tile_gpu.dependents.launch
    tile_gpu.dependents.launch
    tile_gpu.foreach %schedule lead {
    ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32, %lo: i32, %hi: i32):
      %bi = arith.index_cast %b : i32 to index
      %keys = arith.subi %hi, %lo : i32
      %up = arith.addi %keys, %c127 : i32
      %n = arith.divsi %up, %c128 : i32
      %some = arith.cmpi sgt, %n, %c0 : i32
      scf.if %some {
        %lastKey = arith.subi %hi, %c1 : i32
        %lastPage = arith.divsi %lastKey, %c64 : i32
        %page0 = arith.divsi %lo, %c64 : i32
        %page1 = arith.addi %page0, %c1 : i32
        %page1in = arith.minsi %page1, %lastPage : i32
        %e0 = arith.index_cast %page0 : i32 to index
        %e1 = arith.index_cast %page1in : i32 to index
        %p0 = memref.load %table[%bi, %e0] : memref<?x?xi32>
        %p1 = memref.load %table[%bi, %e1] : memref<?x?xi32>
        // The page numbers are read one tile ahead of the copies.
        scf.for %t = %c0 to %n step %c1 iter_args(%a = %p0, %z = %p1) -> (i32, i32) : i32 {
          %cK = arith.muli %t, %c2 : i32
          %cV = arith.addi %cK, %c1 : i32
          %ahead = arith.addi %cK, %c2 : i32
          %nextPage = arith.addi %page0, %ahead : i32
          %nextPage1 = arith.addi %nextPage, %c1 : i32
          %n0 = arith.minsi %nextPage, %lastPage : i32
          %n1 = arith.minsi %nextPage1, %lastPage : i32
          %f0 = arith.index_cast %n0 : i32 to index
          %f1 = arith.index_cast %n1 : i32 to index
          %a1 = memref.load %table[%bi, %f0] : memref<?x?xi32>
          %z1 = memref.load %table[%bi, %f1] : memref<?x?xi32>
          %kt = tile_gpu.ring.acquire %ring[%cK] : !ring
          // CHECK: tile_gpu.ring.load %{{.*}}, %{{.*}} box(%{{.*}}) evict_first
          tile_gpu.ring.load %K[%a, %head, %c0, %c0], %kt box(%c0) evict_first : !cache, !tile
          tile_gpu.ring.load %K[%z, %head, %c0, %c0], %kt box(%c1) evict_first : !cache, !tile
          %vt = tile_gpu.ring.acquire %ring[%cV] : !ring
          tile_gpu.ring.load %V[%a, %head, %c0, %c0], %vt box(%c0) evict_first : !cache, !tile
          tile_gpu.ring.load %V[%z, %head, %c0, %c0], %vt box(%c1) evict_first : !cache, !tile
          scf.yield %a1, %z1 : i32, i32
        }
      }
      tile_gpu.yield
    }
    tile_gpu.yield
  }

  // CHECK: tile_gpu.role "attend" warps(8) barrier(1) {
  tile_gpu.role "attend" warps(8) {
  ^bb0(%warp: i32):
    %myKey = arith.muli %warp, %c16 : i32
    tile_gpu.foreach %schedule {
    ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32, %lo: i32, %hi: i32):
      // Queries, straight from memory: column c is query head `row` + c, and
      // those beyond the group are zero.
      %row = arith.muli %head, %group : i32
      %rowEnd = arith.addi %row, %group : i32
      // CHECK: tile_gpu.global.load %{{.*}} transposed : {{.*}} -> !tile_gpu.frag<128x8xbf16, b, warp>
      %q = tile_gpu.global.load %Q[%b, %row, %c0] rows(%rowEnd) transposed : !rows -> !q
      %keys = arith.subi %hi, %lo : i32
      %up = arith.addi %keys, %c127 : i32
      %n = arith.divsi %up, %c128 : i32
      %m0 = tile_gpu.frag.fill %ninf : f32 -> !col
      %l0 = tile_gpu.frag.fill %zero : f32 -> !sum
      %o0 = tile_gpu.frag.fill %zero : f32 -> !o
      %s0 = tile_gpu.frag.fill %zero : f32 -> !s
      %state:3 = scf.for %t = %c0 to %n step %c1
          iter_args(%m = %m0, %l = %l0, %o = %o0) -> (!col, !sum, !o) : i32 {
        %cK = arith.muli %t, %c2 : i32
        %cV = arith.addi %cK, %c1 : i32
        %first = arith.muli %t, %c128 : i32
        %tileKey = arith.addi %lo, %first : i32
        %key0 = arith.addi %tileKey, %myKey : i32
        // S^T = K q^T: 16 keys by 8 queries.
        %kt = tile_gpu.ring.wait %ring[%cK] : !ring
        %k = tile_gpu.smem.slice %kt[%myKey, %c0] : !tile -> !part
        // CHECK: tile_gpu.mma.sync %{{.*}} : !tile_gpu.smem<16x128xbf16 swizzle 128 pitch 64>, !tile_gpu.frag<128x8xbf16, b, warp> -> <16x8xf32, acc, warp>
        %s = tile_gpu.mma.sync %k, %q, %s0 : !part, !q -> !s
        tile_gpu.ring.release %ring[%cK] after(%s : !s) : !ring
        %x = tile_gpu.map ins(%s : !s) {
        ^bb0(%r: i32, %c: i32, %raw: f32):
          %key = arith.addi %key0, %r : i32
          %live = arith.cmpi slt, %key, %hi : i32
          %y = arith.select %live, %raw, %ninf : f32
          tile_gpu.yield %y : f32
        } -> !s
        // Statistics belong to columns now: reduce over the rows.
        // CHECK: tile_gpu.reduce ins(%{{.*}} : !tile_gpu.frag<16x8xf32, acc, warp>)
        %mt = tile_gpu.reduce ins(%x : !s) identity(%ninf : f32) {
        ^bb0(%a: f32, %c: f32):
          %z = arith.maximumf %a, %c : f32
          tile_gpu.yield %z : f32
        } -> !col
        // A warp whose keys are all dead keeps the identity: its anchor is 0.
        %mNew, %alpha, %anchor = tile_gpu.map ins(%m, %mt : !col, !col) {
        ^bb0(%r: i32, %c: i32, %old: f32, %new: f32):
          %max = arith.maximumf %old, %new : f32
          %dead = arith.cmpf oeq, %max, %ninf : f32
          %at = arith.select %dead, %zero, %max : f32
          %same = arith.cmpf oeq, %old, %max : f32
          %d = arith.subf %old, %max : f32
          %e = arith.mulf %d, %scale : f32
          %f = math.exp2 %e : f32
          %f1 = arith.select %same, %one, %f : f32
          tile_gpu.yield %max, %f1, %at : f32, f32, f32
        } -> !col, !col, !col
        %p = tile_gpu.map ins(%x, %anchor : !s, !col) {
        ^bb0(%r: i32, %c: i32, %a: f32, %at: f32):
          %d = arith.subf %a, %at : f32
          %e = arith.mulf %d, %scale : f32
          %w = math.exp2 %e : f32
          tile_gpu.yield %w : f32
        } -> !s
        %lt = tile_gpu.reduce ins(%p : !s) identity(%zero : f32) {
        ^bb0(%a: f32, %c: f32):
          %z = arith.addf %a, %c : f32
          tile_gpu.yield %z : f32
        } -> !sum
        %lNew = tile_gpu.map ins(%l, %lt, %alpha : !sum, !sum, !col) {
        ^bb0(%r: i32, %c: i32, %old: f32, %new: f32, %f: f32):
          %scaled = arith.mulf %old, %f : f32
          %z = arith.addf %scaled, %new : f32
          tile_gpu.yield %z : f32
        } -> !sum
        %oScaled = tile_gpu.map ins(%o, %alpha : !o, !col) {
        ^bb0(%r: i32, %c: i32, %a: f32, %f: f32):
          %z = arith.mulf %a, %f : f32
          tile_gpu.yield %z : f32
        } -> !o
        // O^T += V^T P^T: the weights become a right operand in registers, the
        // values a left operand through the transposed view.
        // CHECK: tile_gpu.frag.convert %{{.*}} : <16x8xf32, acc, warp> -> <16x8xbf16, b, warp>
        %pb = tile_gpu.frag.convert %p : !s -> !pb
        %vt = tile_gpu.ring.wait %ring[%cV] : !ring
        %v = tile_gpu.smem.slice %vt[%myKey, %c0] : !tile -> !part
        // The tail of the last page is memory of anyone's: a weight of zero
        // would not silence a NaN there.
        %liveKeys = arith.subi %hi, %key0 : i32
        %ragged = arith.cmpi slt, %liveKeys, %c16 : i32
        scf.if %ragged {
          // CHECK: tile_gpu.smem.clear_rows
          tile_gpu.smem.clear_rows %v from(%liveKeys) : !part
        }
        %vT = tile_gpu.smem.transpose %v : !part
        %oNew = tile_gpu.mma.sync %vT, %pb, %oScaled : !partT, !pb -> !o
        tile_gpu.ring.release %ring[%cV] after(%oNew : !o) : !ring
        scf.yield %mNew, %lNew, %oNew : !col, !sum, !o
      }
      %lWarp = tile_gpu.reduce ins(%state#1 : !sum) identity(%zero : f32) {
      ^bb0(%a: f32, %c: f32):
        %z = arith.addf %a, %c : f32
        tile_gpu.yield %z : f32
      } -> !col

      // Eight states become one; each warp gets 16 of the 128 channels.
      // CHECK: tile_gpu.merge_states warps stats
      %m, %l, %o = tile_gpu.merge_states warps stats(%state#0 : !col)
          values(%lWarp, %state#2 : !col, !o) scratch(%scratch : !scratch) count(8) {
      ^bb0(%a: f32, %c: f32):
        %max = arith.maximumf %a, %c : f32
        %sameA = arith.cmpf oeq, %a, %max : f32
        %sameC = arith.cmpf oeq, %c, %max : f32
        %dA = arith.subf %a, %max : f32
        %dC = arith.subf %c, %max : f32
        %eA = arith.mulf %dA, %scale : f32
        %eC = arith.mulf %dC, %scale : f32
        %xA = math.exp2 %eA : f32
        %xC = math.exp2 %eC : f32
        %fA = arith.select %sameA, %one, %xA : f32
        %fC = arith.select %sameC, %one, %xC : f32
        tile_gpu.yield %max, %fA, %fC : f32, f32, f32
      } -> !col, !col, !od

      // One kernel, two exits: the result, or a state for the combine.
      %channel = arith.muli %warp, %c16 : i32
      %whole = arith.cmpi eq, %splits, %c1 : i32
      scf.if %whole {
        %out = tile_gpu.map ins(%o, %l : !od, !col) {
        ^bb0(%r: i32, %c: i32, %a: f32, %total: f32):
          %none = arith.cmpf oeq, %total, %zero : f32
          %inv = arith.divf %one, %total : f32
          %f = arith.select %none, %zero, %inv : f32
          %z = arith.mulf %a, %f : f32
          tile_gpu.yield %z : f32
        } -> !od
        tile_gpu.global.store %out, %O[%b, %row, %channel] rows(%rowEnd) transposed : !od, !rows
      } else {
        tile_gpu.global.store %o, %WO[%b, %head, %split, %channel, %c0] : !od, !states
        %leader = arith.cmpi eq, %warp, %c0 : i32
        scf.if %leader {
          tile_gpu.global.store %m, %WM[%b, %head, %split, %c0] : !col, !stats
          tile_gpu.global.store %l, %WL[%b, %head, %split, %c0] : !col, !stats
        }
      }
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}

// States of the splits, in order of the keys, by the same merge in registers.
// CHECK-LABEL: kernel private @combine_kernel
tile_gpu.kernel private @combine_kernel(
    %O: !rows, %WO: !states, %WM: !stats, %WL: !stats, %headsKV: i32,
    %batch: i32, %splits: i32, %group: i32, %scale: f32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c32 = arith.constant 32 : i32
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %ninf = arith.constant 0xFF800000 : f32
  %schedule = tile_gpu.scheduler grid in_order
      tiles(%c1) heads(%headsKV) batch(%batch) {
  ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32):
    tile_gpu.yield %c0, %splits : i32, i32
  }
  tile_gpu.role "combine" warps(4) {
  ^bb0(%warp: i32):
    // CHECK: tile_gpu.dependencies.wait
    tile_gpu.dependencies.wait
    %channel = arith.muli %warp, %c32 : i32
    tile_gpu.foreach %schedule lead {
    ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32, %lo: i32, %hi: i32):
      %m0 = tile_gpu.frag.fill %ninf : f32 -> !col
      %l0 = tile_gpu.frag.fill %zero : f32 -> !col
      %o0 = tile_gpu.frag.fill %zero : f32 -> !oc
      %state:3 = scf.for %p = %lo to %hi step %c1
          iter_args(%m = %m0, %l = %l0, %o = %o0) -> (!col, !col, !oc) : i32 {
        %mp = tile_gpu.global.load %WM[%b, %head, %p, %c0] : !stats -> !col
        %lp = tile_gpu.global.load %WL[%b, %head, %p, %c0] : !stats -> !col
        %op = tile_gpu.global.load %WO[%b, %head, %p, %channel, %c0] : !states -> !oc
        // CHECK: tile_gpu.merge_states pair stats
        %mNew, %lNew, %oNew = tile_gpu.merge_states pair
            stats(%m, %mp : !col, !col) values(%l, %o, %lp, %op : !col, !oc, !col, !oc) {
        ^bb0(%a: f32, %c: f32):
          %max = arith.maximumf %a, %c : f32
          %sameA = arith.cmpf oeq, %a, %max : f32
          %sameC = arith.cmpf oeq, %c, %max : f32
          %dA = arith.subf %a, %max : f32
          %dC = arith.subf %c, %max : f32
          %eA = arith.mulf %dA, %scale : f32
          %eC = arith.mulf %dC, %scale : f32
          %xA = math.exp2 %eA : f32
          %xC = math.exp2 %eC : f32
          %fA = arith.select %sameA, %one, %xA : f32
          %fC = arith.select %sameC, %one, %xC : f32
          tile_gpu.yield %max, %fA, %fC : f32, f32, f32
        } -> !col, !col, !oc
        scf.yield %mNew, %lNew, %oNew : !col, !col, !oc
      }
      %out = tile_gpu.map ins(%state#2, %state#1 : !oc, !col) {
      ^bb0(%r: i32, %c: i32, %a: f32, %total: f32):
        %none = arith.cmpf oeq, %total, %zero : f32
        %inv = arith.divf %one, %total : f32
        %f = arith.select %none, %zero, %inv : f32
        %z = arith.mulf %a, %f : f32
        tile_gpu.yield %z : f32
      } -> !oc
      %row = arith.muli %head, %group : i32
      %rowEnd = arith.addi %row, %group : i32
      tile_gpu.global.store %out, %O[%b, %row, %channel] rows(%rowEnd) transposed : !oc, !rows
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  tile_gpu.return
}

// The plan of a split: workspace, then two kernels, the second launched while
// the first runs.
// CHECK-LABEL: func.func @decode
func.func @decode(
    %q: !rows, %k: memref<?x?x64x128xbf16, strided<[?, ?, ?, 1]>>,
    %v: memref<?x?x64x128xbf16, strided<[?, ?, ?, 1]>>, %o: !rows,
    %table: memref<?x?xi32>, %lengths: memref<?xi32>, %splits: index,
    %perSplit: i32, %scale: f32) attributes {tile.plan} {
  %d0 = arith.constant 0 : index
  %d1 = arith.constant 1 : index
  %log2e = arith.constant 1.4426950408889634 : f32
  %b = memref.dim %q, %d0 : !rows
  %hq = memref.dim %q, %d1 : !rows
  %hk = memref.dim %k, %d1 : memref<?x?x64x128xbf16, strided<[?, ?, ?, 1]>>
  %g = arith.divsi %hq, %hk : index
  %b32 = arith.index_cast %b : index to i32
  %hk32 = arith.index_cast %hk : index to i32
  %g32 = arith.index_cast %g : index to i32
  %n32 = arith.index_cast %splits : index to i32
  %scale2 = arith.mulf %scale, %log2e : f32
  %heads = arith.muli %b, %hk : index
  %grid = arith.muli %heads, %splits : index
  %K = tile_gpu.tensor_map %k : memref<?x?x64x128xbf16, strided<[?, ?, ?, 1]>> -> !cache
  %V = tile_gpu.tensor_map %v : memref<?x?x64x128xbf16, strided<[?, ?, ?, 1]>> -> !cache
  %wo = memref.alloc(%b, %hk, %splits) : !states
  %wm = memref.alloc(%b, %hk, %splits) : !stats
  %wl = memref.alloc(%b, %hk, %splits) : !stats
  tile_gpu.launch @decode_kernel grid(%grid) args(
      %q, %K, %V, %o, %table, %lengths, %wo, %wm, %wl, %hk32, %b32, %n32,
      %perSplit, %g32, %scale2
      : !rows, !cache, !cache, !rows, memref<?x?xi32>, memref<?xi32>, !states,
        !stats, !stats, i32, i32, i32, i32, i32, f32)
  // One split has left its result, and no states to combine.
  %d2 = arith.constant 2 : index
  %split = arith.cmpi sge, %splits, %d2 : index
  %combined = arith.select %split, %heads, %d0 : index
  // CHECK: tile_gpu.launch @combine_kernel {{.*}} programmatic
  tile_gpu.launch @combine_kernel grid(%combined) args(
      %o, %wo, %wm, %wl, %hk32, %b32, %n32, %g32, %scale2
      : !rows, !states, !stats, !stats, i32, i32, i32, i32, f32) programmatic
  return
}
}

// RUN: attn-opt %s --tile-gpu-specialize-warps=stages=2 --canonicalize --cse | FileCheck %s
// RUN: attn-opt %s %tidy --tile-gpu-specialize-warps=stages=2 %tidy %verify_kernels | FileCheck %s

// Queries, keys and values through rings of two slots;
// one counter numbers the steps of all loops on both sides.

!in = memref<?x?x64xf16, strided<[?, ?, 1]>>
module attributes {attn.target = "sm_90a"} {
// CHECK-LABEL: tile_gpu.kernel private @kernel(
// CHECK-SAME: !tile_gpu.tensor_map<64x64xf16 swizzle 128>, %{{.*}}: !tile_gpu.tensor_map<64x64xf16 swizzle 128>, %{{.*}}: !tile_gpu.tensor_map<64x64xf16 swizzle 128>, %{{.*}}: memref<1xi32>, %{{.*}}: i32)
// Two slots of queries for each warpgroup, of its own rows.
// CHECK: %[[Q:.*]] = tile_gpu.ring.create tma consumers(4) members(2) : <4, 64x64xf16 swizzle 128>
// CHECK: %[[K:.*]] = tile_gpu.ring.create tma consumers(8) : <2, 64x64xf16 swizzle 128>
// CHECK: %[[V:.*]] = tile_gpu.ring.create tma consumers(8) : <2, 64x64xf16 swizzle 128>
// CHECK: tile_gpu.scheduler dynamic in_order
// CHECK: tile_gpu.role "load" warps(1) registers(24)
// CHECK: tile_gpu.foreach %{{.*}} lead
// CHECK: ^bb0({{.*}}, %[[ITEM:.*]]: i32, %[[STEP:.*]]: i32):
// Keys first: their slot is free before the queries'.
// CHECK: tile_gpu.ring.acquire %[[K]][%[[STEP]]]
// CHECK: %[[USE:.*]] = arith.muli %[[ITEM]], %c2
// CHECK: tile_gpu.ring.acquire %[[Q]][%[[USE]]]
// CHECK: tile_gpu.ring.load %{{.*}}[%c0{{.*}}, %[[ROW:.*]], %c0
// CHECK: %[[OTHER:.*]] = arith.addi %[[USE]], %c1
// CHECK: tile_gpu.ring.acquire %[[Q]][%[[OTHER]]]
// CHECK: %[[NEXT:.*]] = arith.addi %[[ROW]], %c64
// CHECK: tile_gpu.ring.load %{{.*}}[%c0{{.*}}, %[[NEXT]], %c0
// CHECK: tile_gpu.ring.acquire %[[V]][%[[STEP]]]
// CHECK: %[[SECOND:.*]] = arith.addi %[[STEP]], %c1
// CHECK: scf.for {{.*}} iter_args(%[[C:.*]] = %[[SECOND]]) -> (i32)
// CHECK: tile_gpu.ring.acquire %[[K]][%[[C]]]
// CHECK: tile_gpu.ring.load {{.*}} : !tile_gpu.tensor_map<64x64xf16 swizzle 128>
// CHECK: tile_gpu.ring.acquire %[[V]][%[[C]]]
// CHECK-NOT: tile.
// CHECK: tile_gpu.role "compute" warpgroups(2) registers(240)
// CHECK: ^bb0(%[[WG:.*]]: i32):
// CHECK: %[[USE:.*]] = arith.muli %{{.*}}, %c2
// CHECK: %[[OWN:.*]] = arith.addi %[[USE]], %[[WG]]
// CHECK: tile_gpu.ring.wait %[[Q]][%[[OWN]]]
// CHECK-NOT: smem.slice
// The first tile: bounds become a clearing of the values' dead rows.
// CHECK: %[[V0:.*]] = tile_gpu.ring.wait %[[V]]
// CHECK: scf.if
// CHECK: tile_gpu.smem.clear_rows %[[V0]] from(%{{.*}}) before(%{{.*}})
// CHECK: tile.dot %{{.*}}, %{{.*}} transpose_rhs : !tile.tile<64x64xf16>, !tile.tile<64x64xf16> -> !tile.tile<64x64xf32>
// CHECK: tile_gpu.ring.release %[[K]]
// CHECK: tile_gpu.ring.release %[[V]]
// CHECK: scf.for
// CHECK-NOT: clear_rows
// CHECK: tile_gpu.ring.release %[[Q]][%[[OWN]]]
// Rows of the output are the member's.
// CHECK: %[[MINE:.*]] = arith.muli %[[WG]], %c64
// CHECK: %[[OWN:.*]] = arith.index_cast %[[MINE]] : i32 to index
// CHECK: arith.addi %{{.*}}, %[[OWN]]
// CHECK: tile.store %{{.*}} : <64x64xf32>
tile.kernel private @kernel(%Q: !in, %K: !in, %V: !in, %O: !in, %lo: index, %hi: index,
    %block: index) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant 0.0 : f32
  %row = arith.muli %block, %c128 : index
  %init = tile.fill %zero : f32 -> !tile.tile<128x64xf32>
  %q = tile.load %Q[%c0, %row, %c0] : !in -> !tile.tile<128x64xf16>
  %k0 = tile.load %K[%c0, %c0, %c0] rows(%lo to %hi) : !in -> !tile.tile<64x64xf16>
  %v0 = tile.load %V[%c0, %c0, %c0] rows(%lo to %hi) : !in -> !tile.tile<64x64xf16>
  %o0 = tile.rows 64 ins(%q : !tile.tile<128x64xf16>) outs(%init : !tile.tile<128x64xf32>) {
  ^bb0(%first: index, %mine: !tile.tile<64x64xf16>, %old: !tile.tile<64x64xf32>):
    %s = tile.dot %mine, %k0 transpose_rhs : !tile.tile<64x64xf16>, !tile.tile<64x64xf16> -> !tile.tile<64x64xf32>
    %p = tile.map ins(%s : !tile.tile<64x64xf32>) {
    ^bb1(%r: i32, %c: i32, %x: f32):
      %y = arith.truncf %x : f32 to f16
      tile.yield %y : f16
    } -> !tile.tile<64x64xf16>
    %o = tile.dot %p, %v0 acc %old : !tile.tile<64x64xf16>, !tile.tile<64x64xf16> -> !tile.tile<64x64xf32>
    tile.yield %o : !tile.tile<64x64xf32>
  } -> !tile.tile<128x64xf32>
  %o1 = scf.for %j = %c64 to %hi step %c64 iter_args(%acc = %o0) -> (!tile.tile<128x64xf32>) {
    %k = tile.load %K[%c0, %j, %c0] : !in -> !tile.tile<64x64xf16>
    %v = tile.load %V[%c0, %j, %c0] : !in -> !tile.tile<64x64xf16>
    %next = tile.rows 64 ins(%q : !tile.tile<128x64xf16>) outs(%acc : !tile.tile<128x64xf32>) {
    ^bb0(%first: index, %mine: !tile.tile<64x64xf16>, %old: !tile.tile<64x64xf32>):
      %s = tile.dot %mine, %k transpose_rhs : !tile.tile<64x64xf16>, !tile.tile<64x64xf16> -> !tile.tile<64x64xf32>
      %p = tile.map ins(%s : !tile.tile<64x64xf32>) {
      ^bb1(%r: i32, %c: i32, %x: f32):
        %y = arith.truncf %x : f32 to f16
        tile.yield %y : f16
      } -> !tile.tile<64x64xf16>
      %o = tile.dot %p, %v acc %old : !tile.tile<64x64xf16>, !tile.tile<64x64xf16> -> !tile.tile<64x64xf32>
      tile.yield %o : !tile.tile<64x64xf32>
    } -> !tile.tile<128x64xf32>
    scf.yield %next : !tile.tile<128x64xf32>
  }
  tile.store %o1, %O[%c0, %row, %c0] : !tile.tile<128x64xf32>, !in
  tile.return
}
// CHECK-LABEL: func.func @f
// CHECK-COUNT-3: tile_gpu.tensor_map
// CHECK: %[[T:.*]] = tile_gpu.tickets : memref<1xi32>
// CHECK-NOT: tile_gpu.reset
// CHECK: tile_gpu.launch @kernel grid(
func.func @f(%Q: !in, %K: !in, %V: !in, %O: !in, %n: index) attributes {tile.plan} {
  %c0 = arith.constant 0 : index
  tile.launch @kernel grid(%n) args(%Q, %K, %V, %O, %c0, %n : !in, !in, !in, !in, index, index)
  return
}

// Items without steps: the queries are loaded and given back all the same, in
// both branches.
// CHECK-LABEL: kernel private @some
// CHECK: %[[Q:.*]] = tile_gpu.ring.create tma consumers(4) : <2, 64x64xf16 swizzle 128>
// CHECK: tile_gpu.role "load"
// CHECK: scf.if
// CHECK: tile_gpu.ring.acquire %[[Q]]
// CHECK: } else {
// CHECK: tile_gpu.ring.acquire %[[Q]]
// CHECK: tile_gpu.role "compute"
// CHECK: tile_gpu.ring.wait %[[Q]]
// CHECK: scf.if
// CHECK: tile_gpu.ring.release %[[Q]]
// CHECK: } else {
// CHECK: tile_gpu.ring.release %[[Q]]
// CHECK: tile.store
tile.kernel private @some(%Q: !in, %K: !in, %O: !in, %n: index, %block: index) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %init = tile.fill %zero : f32 -> !tile.tile<64x64xf32>
  %q = tile.load %Q[%c0, %block, %c0] : !in -> !tile.tile<64x64xf16>
  %any = arith.cmpi slt, %c0, %n : index
  %o = scf.if %any -> (!tile.tile<64x64xf32>) {
    %k = tile.load %K[%c0, %c0, %c0] : !in -> !tile.tile<64x64xf16>
    %next = tile.rows 64 ins(%q : !tile.tile<64x64xf16>) outs(%init : !tile.tile<64x64xf32>) {
    ^bb0(%first: index, %mine: !tile.tile<64x64xf16>, %old: !tile.tile<64x64xf32>):
      %s = tile.dot %mine, %k acc %old transpose_rhs : !tile.tile<64x64xf16>, !tile.tile<64x64xf16> -> !tile.tile<64x64xf32>
      tile.yield %s : !tile.tile<64x64xf32>
    } -> !tile.tile<64x64xf32>
    scf.yield %next : !tile.tile<64x64xf32>
  } else {
    scf.yield %init : !tile.tile<64x64xf32>
  }
  tile.store %o, %O[%c0, %block, %c0] : !tile.tile<64x64xf32>, !in
  tile.return
}

// Bounds in terms of a block's rows: each member's last loop ends at its own,
// and the steps that it leaves out are waited for and given back.
// CHECK-LABEL: kernel private @ends
// CHECK: %[[K:.*]] = tile_gpu.ring.create tma consumers(8) : <2, 64x64xf16 swizzle 128>
// CHECK: tile_gpu.role "compute"
// CHECK: %[[MY:.*]] = arith.muli %{{.*}}, %c64_i32 : i32
// CHECK: %[[MINE:.*]] = arith.index_cast %[[MY]]
// CHECK: %[[FIRST:.*]] = arith.addi %{{.*}}, %[[MINE]] : index
// CHECK: %[[LAST:.*]] = arith.addi %[[FIRST]], %c63
// CHECK: %[[OWN:.*]] = arith.minsi %[[LAST]], %{{.*}} : index
// CHECK: %[[END:.*]] = arith.addi %[[OWN]], %c1
// CHECK: %[[STOP:.*]] = arith.minsi %[[END]], %{{.*}} : index
// CHECK: %[[LIVE:.*]] = arith.cmpi slt, %[[MINE]], %{{.*}} : index
// CHECK: %[[UPPER:.*]] = arith.select %[[LIVE]], %[[STOP]], %c0
// CHECK: %[[R:.*]]:2 = scf.for %{{.*}} = %c0 to %[[UPPER]]
// CHECK: scf.for %[[I:.*]] = %[[R]]#0 to
// CHECK-NEXT: tile_gpu.ring.wait %[[K]][%[[I]]]
// CHECK-NEXT: tile_gpu.ring.release %[[K]][%[[I]]]
// CHECK: tile.store
tile.kernel private @ends(%Q: !in, %K: !in, %O: !in, %block: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant 0.0 : f32
  %row = arith.muli %block, %c128 : index
  %rows = memref.dim %Q, %c1 : !in
  %left = arith.subi %rows, %row : index
  %live = arith.minsi %left, %c128 : index
  %end = arith.addi %row, %live : index
  %bottom = arith.subi %end, %c1 : index
  %first, %last = tile.row_range %row to %bottom
  %next = arith.addi %last, %c1 : index
  %init = tile.fill %zero : f32 -> !tile.tile<128x64xf32>
  %q = tile.load %Q[%c0, %row, %c0] : !in -> !tile.tile<128x64xf16>
  %o = scf.for %j = %c0 to %next step %c64 iter_args(%acc = %init) -> (!tile.tile<128x64xf32>) {
    %k = tile.load %K[%c0, %j, %c0] : !in -> !tile.tile<64x64xf16>
    %sum = tile.rows 64 ins(%q : !tile.tile<128x64xf16>) outs(%acc : !tile.tile<128x64xf32>) extent(%live) {
    ^bb0(%r0: index, %mine: !tile.tile<64x64xf16>, %old: !tile.tile<64x64xf32>):
      %s = tile.dot %mine, %k acc %old transpose_rhs : !tile.tile<64x64xf16>, !tile.tile<64x64xf16> -> !tile.tile<64x64xf32>
      tile.yield %s : !tile.tile<64x64xf32>
    } -> !tile.tile<128x64xf32>
    scf.yield %sum : !tile.tile<128x64xf32>
  }
  tile.store %o, %O[%c0, %row, %c0] : !tile.tile<128x64xf32>, !in
  tile.return
}

// A warp of its own draws the items. The schedule has the order and the sizes of
// the work tiles, which are computed once, and its body finds the sequence of a
// tile, or that there is no such tile.
// CHECK-LABEL: kernel private @draws
// CHECK: %[[HALF:.*]] = arith.divui %{{.*}}, %{{.*}} : index
// CHECK: %[[TILES:.*]] = arith.index_cast %{{.*}} : index to i32
// CHECK: %[[HEADS:.*]] = arith.index_cast %[[HALF]] : index to i32
// CHECK: tile_gpu.scheduler dynamic in_order tickets(%{{.*}}) tiles(%[[TILES]]) heads(%[[HEADS]]) batch(%c1{{.*}}) {
// CHECK: scf.for
// CHECK: %[[NONE:.*]] = arith.cmpi sge
// CHECK: tile_gpu.skip %[[NONE]]
// CHECK: tile_gpu.yield %{{.*}}, %{{.*}} : index, index
// CHECK: tile_gpu.role "draw" warps(1) registers(56)
// CHECK: tile_gpu.foreach %{{.*}} lead {
// CHECK-NEXT: ^bb0
// CHECK-NEXT: tile_gpu.yield
// CHECK: tile_gpu.role "load" warps(1) registers(56)
// CHECK: tile_gpu.foreach %{{.*}} iter_args
// CHECK-NEXT: ^bb0(%{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: index, %[[TILE:.*]]: index, %{{.*}}: i32, %{{.*}}: i32):
// CHECK: %[[ROW:.*]] = arith.index_cast %[[TILE]] : index to i32
// CHECK: tile_gpu.ring.load %{{.*}}[%{{.*}}, %[[ROW]], %{{.*}}]
// CHECK: tile_gpu.role "compute" warpgroups(1)
tile.kernel private @draws(%Q: !in, %K: !in, %O: !in, %n: index, %cu: memref<?xi32>, %block: index)
    attributes {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, fetch = ahead>} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %heads = arith.divui %n, %c2 : index
  %sequence, %head, %row, %part = tile.work_tile %block longest_first
      varlen(%cu : memref<?xi32>, %n) block_q(64) heads(%heads) tiles(%n) parts(%c1)
  %init = tile.fill %zero : f32 -> !tile.tile<64x64xf32>
  %q = tile.load %Q[%c0, %row, %c0] : !in -> !tile.tile<64x64xf16>
  %k = tile.load %K[%c0, %c0, %c0] : !in -> !tile.tile<64x64xf16>
  %o = tile.rows 64 ins(%q : !tile.tile<64x64xf16>) outs(%init : !tile.tile<64x64xf32>) {
  ^bb0(%first: index, %mine: !tile.tile<64x64xf16>, %old: !tile.tile<64x64xf32>):
    %s = tile.dot %mine, %k acc %old transpose_rhs : !tile.tile<64x64xf16>, !tile.tile<64x64xf16> -> !tile.tile<64x64xf32>
    tile.yield %s : !tile.tile<64x64xf32>
  } -> !tile.tile<64x64xf32>
  tile.store %o, %O[%c0, %row, %c0] : !tile.tile<64x64xf32>, !in
  tile.return
}

// Items drawn late: ahead of the last step of the loop over whole tiles, which
// is the first of two, or at the start of an item without steps. Three
// warpgroups have three slots of queries each time.
// CHECK-LABEL: kernel private @late
// CHECK: %[[Q:.*]] = tile_gpu.ring.create tma consumers(4) members(3) : <6, 64x64xf16 swizzle 128>
// CHECK: tile_gpu.role "draw" warps(1)
// CHECK: tile_gpu.role "load" warps(1)
// CHECK: tile_gpu.foreach
// CHECK-NOT: draw_next
// CHECK: scf.if
// CHECK-NOT: draw_next
// CHECK: arith.ceildivui
// CHECK: %[[LAST:.*]] = arith.addi
// CHECK: scf.for %{{.*}} = %{{.*}} to %[[LAST]] step
// CHECK-NOT: draw_next
// CHECK: scf.yield
// CHECK-NEXT: }
// CHECK-NEXT: tile_gpu.draw_next
// CHECK-NEXT: scf.for %{{.*}} = %[[LAST]] to
// CHECK-NOT: draw_next
// CHECK: } else {
// CHECK-NEXT: tile_gpu.draw_next
// CHECK: %[[FIRST:.*]] = arith.muli %{{.*}}, %c3
// CHECK: tile_gpu.ring.acquire %[[Q]][%[[FIRST]]]
// CHECK: %[[SECOND:.*]] = arith.addi %[[FIRST]], %c1
// CHECK: tile_gpu.ring.acquire %[[Q]][%[[SECOND]]]
// CHECK: %[[THIRD:.*]] = arith.addi %[[FIRST]], %c2
// CHECK: tile_gpu.ring.acquire %[[Q]][%[[THIRD]]]
// CHECK-NOT: draw_next
// CHECK: tile_gpu.role "compute" warpgroups(3)
// CHECK-NOT: draw_next
tile.kernel private @late(%Q: !in, %K: !in, %O: !in, %n: index, %m: index, %block: index)
    attributes {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128, fetch = late>} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c192 = arith.constant 192 : index
  %zero = arith.constant 0.0 : f32
  %row = arith.muli %block, %c192 : index
  %init = tile.fill %zero : f32 -> !tile.tile<192x64xf32>
  %q = tile.load %Q[%c0, %row, %c0] : !in -> !tile.tile<192x64xf16>
  %any = arith.cmpi slt, %c0, %n : index
  %o = scf.if %any -> (!tile.tile<192x64xf32>) {
    %k0 = tile.load %K[%c0, %c0, %c0] : !in -> !tile.tile<64x64xf16>
    %o0 = tile.rows 64 ins(%q : !tile.tile<192x64xf16>) outs(%init : !tile.tile<192x64xf32>) {
    ^bb0(%first: index, %mine: !tile.tile<64x64xf16>, %old: !tile.tile<64x64xf32>):
      %s = tile.dot %mine, %k0 acc %old transpose_rhs : !tile.tile<64x64xf16>, !tile.tile<64x64xf16> -> !tile.tile<64x64xf32>
      tile.yield %s : !tile.tile<64x64xf32>
    } -> !tile.tile<192x64xf32>
    %o1 = scf.for %j = %c64 to %n step %c64 iter_args(%acc = %o0) -> (!tile.tile<192x64xf32>) {
      %k = tile.load %K[%c0, %j, %c0] : !in -> !tile.tile<64x64xf16>
      %next = tile.rows 64 ins(%q : !tile.tile<192x64xf16>) outs(%acc : !tile.tile<192x64xf32>) {
      ^bb0(%first: index, %mine: !tile.tile<64x64xf16>, %old: !tile.tile<64x64xf32>):
        %s = tile.dot %mine, %k acc %old transpose_rhs : !tile.tile<64x64xf16>, !tile.tile<64x64xf16> -> !tile.tile<64x64xf32>
        tile.yield %s : !tile.tile<64x64xf32>
      } -> !tile.tile<192x64xf32>
      scf.yield %next : !tile.tile<192x64xf32>
    }
    %o2 = scf.for %j = %n to %m step %c64 iter_args(%acc = %o1) -> (!tile.tile<192x64xf32>) {
      %k = tile.load %K[%c0, %j, %c0] : !in -> !tile.tile<64x64xf16>
      %next = tile.rows 64 ins(%q : !tile.tile<192x64xf16>) outs(%acc : !tile.tile<192x64xf32>) {
      ^bb0(%first: index, %mine: !tile.tile<64x64xf16>, %old: !tile.tile<64x64xf32>):
        %s = tile.dot %mine, %k acc %old transpose_rhs : !tile.tile<64x64xf16>, !tile.tile<64x64xf16> -> !tile.tile<64x64xf32>
        tile.yield %s : !tile.tile<64x64xf32>
      } -> !tile.tile<192x64xf32>
      scf.yield %next : !tile.tile<192x64xf32>
    }
    scf.yield %o2 : !tile.tile<192x64xf32>
  } else {
    scf.yield %init : !tile.tile<192x64xf32>
  }
  tile.store %o, %O[%c0, %row, %c0] : !tile.tile<192x64xf32>, !in
  tile.return
}

// Rows of no warpgroup's product: left for another pass.
// CHECK-LABEL: tile.kernel private @narrow
// CHECK: tile.rows 16
tile.kernel private @narrow(%Q: !in, %K: !in, %O: !in, %block: index) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %init = tile.fill %zero : f32 -> !tile.tile<64x64xf32>
  %q = tile.load %Q[%c0, %block, %c0] : !in -> !tile.tile<64x64xf16>
  %k = tile.load %K[%c0, %c0, %c0] : !in -> !tile.tile<64x64xf16>
  %o = tile.rows 16 ins(%q : !tile.tile<64x64xf16>) outs(%init : !tile.tile<64x64xf32>) {
  ^bb0(%first: index, %mine: !tile.tile<16x64xf16>, %old: !tile.tile<16x64xf32>):
    %s = tile.dot %mine, %k acc %old transpose_rhs : !tile.tile<16x64xf16>, !tile.tile<64x64xf16> -> !tile.tile<16x64xf32>
    tile.yield %s : !tile.tile<16x64xf32>
  } -> !tile.tile<64x64xf32>
  tile.store %o, %O[%c0, %block, %c0] : !tile.tile<64x64xf32>, !in
  tile.return
}

// Order, section and cluster are the schedule's; a kernel whose tiles are not
// those of one domain has the blocks of its grid as tiles.
// CHECK-LABEL: kernel private @ordered
// CHECK-NOT: i32)
// CHECK: tile_gpu.scheduler dynamic longest_first tickets(%{{.*}}) section(%{{.*}}) cluster(2) tiles(%{{.*}}) heads(%{{.*}}) batch(%{{.*}}) splits(%{{.*}}) {
// CHECK: tile_gpu.yield
tile.kernel private @ordered(%Q: !in, %K: !in, %O: !in, %n: index, %s: index, %block: index)
    attributes {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 128>} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %batch, %head, %row, %part = tile.work_tile %block longest_first section(%s) cluster(2)
      batches(%n) heads(%n) tiles(%n) parts(%n)
  %init = tile.fill %zero : f32 -> !tile.tile<64x64xf32>
  %q = tile.load %Q[%head, %row, %c0] : !in -> !tile.tile<64x64xf16>
  %k = tile.load %K[%batch, %part, %c0] : !in -> !tile.tile<64x64xf16>
  %o = tile.rows 64 ins(%q : !tile.tile<64x64xf16>) outs(%init : !tile.tile<64x64xf32>) {
  ^bb0(%first: index, %mine: !tile.tile<64x64xf16>, %old: !tile.tile<64x64xf32>):
    %t = tile.dot %mine, %k acc %old transpose_rhs : !tile.tile<64x64xf16>, !tile.tile<64x64xf16> -> !tile.tile<64x64xf32>
    tile.yield %t : !tile.tile<64x64xf32>
  } -> !tile.tile<64x64xf32>
  tile.store %o, %O[%head, %row, %c0] : !tile.tile<64x64xf32>, !in
  tile.return
}
}

// RUN: attn-opt %s --convert-tile-to-tile-gpu --tile-gpu-verify-async | FileCheck %s
// RUN: attn-opt %s %tidy --convert-tile-to-tile-gpu %tidy %verify_kernels -o /dev/null

!tile = !tile_gpu.smem<64x128xbf16 swizzle 128>
!kvring = !tile_gpu.ring<2, 64x128xbf16 swizzle 128>
!tensor = memref<?x?x128xbf16, strided<[?, ?, 1]>>

// Softmax on warpgroups: both products, states that loops and branches carry.
// CHECK-LABEL: kernel private @softmax_kernel
tile_gpu.kernel private @softmax_kernel(%q: !tile, %O: !tensor, %LSE: memref<?x?xf32>,
    %heads: i32, %rows: i32, %n: i32, %scale: f32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %d0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %ninf = arith.constant 0xFF800000 : f32
  %kv = tile_gpu.ring.create tma consumers(4) : !kvring
  %schedule = tile_gpu.scheduler grid in_order tiles(%heads) heads(%heads) batch(%heads) {
  ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32):
    tile_gpu.yield %c0, %n : i32, i32
  }
  tile_gpu.role "compute" warpgroups(1) {
  ^bb0(%wg: i32):
    tile_gpu.foreach %schedule lead {
    ^bb0(%tile: i32, %head: i32, %b: i32, %split: i32, %lo: i32, %hi: i32):
      %qt = builtin.unrealized_conversion_cast %q : !tile to !tile.tile<64x128xbf16>
      // CHECK: %[[M0:.*]] = tile_gpu.frag.fill %{{.*}} : f32 -> !tile_gpu.vec<64xf32, row>
      %m0 = tile.fill %ninf : f32 -> !tile.tile<64x1xf32>
      %l0 = tile.fill %zero : f32 -> !tile.tile<64x1xf32>
      // CHECK: tile_gpu.frag.fill %{{.*}} : f32 -> !tile_gpu.frag<64x128xf32, acc>
      %o0 = tile.fill %zero : f32 -> !tile.tile<64x128xf32>
      %some = arith.cmpi slt, %lo, %hi : i32
      // CHECK: scf.if %{{.*}} -> (!tile_gpu.vec<64xf32, row>, !tile_gpu.vec<64xf32, row>, !tile_gpu.frag<64x128xf32, acc>)
      %state:3 = scf.if %some -> (!tile.tile<64x1xf32>, !tile.tile<64x1xf32>, !tile.tile<64x128xf32>) {
        // CHECK: scf.for {{.*}} iter_args(%[[M:.*]] = %[[M0]], %{{.*}}, %[[O:.*]] = %{{.*}}) -> (!tile_gpu.vec<64xf32, row>, !tile_gpu.vec<64xf32, row>, !tile_gpu.frag<64x128xf32, acc>)
        %r:3 = scf.for %j = %c0 to %hi step %c1
            iter_args(%m = %m0, %l = %l0, %o = %o0)
            -> (!tile.tile<64x1xf32>, !tile.tile<64x1xf32>, !tile.tile<64x128xf32>) : i32 {
          %ks = tile_gpu.ring.wait %kv[%j] : !kvring
          %kt = builtin.unrealized_conversion_cast %ks : !tile to !tile.tile<64x128xbf16>
          // CHECK: %[[KT:.*]] = tile_gpu.smem.transpose
          // CHECK-NEXT: %[[QK:.*]] = tile_gpu.mma.issue %{{.*}}, %[[KT]] : {{.*}} -> !tile_gpu.token<64x64xf32>
          // CHECK-NEXT: %[[S:.*]] = tile_gpu.mma.wait %[[QK]] pending(0)
          %s = tile.dot %qt, %kt transpose_rhs : !tile.tile<64x128xbf16>, !tile.tile<64x128xbf16> -> !tile.tile<64x64xf32>
          // CHECK: tile_gpu.reduce ins(%[[S]] :
          // CHECK: arith.maxnumf
          // CHECK-NOT: arith.cmpf
          // CHECK: -> !tile_gpu.vec<64xf32, row>
          %mt = tile.reduce ins(%s : !tile.tile<64x64xf32>) identity(%ninf : f32) {
          ^bb0(%a: f32, %c: f32):
            %gt = arith.cmpf ogt, %c, %a : f32
            %x = arith.select %gt, %c, %a : f32
            tile.yield %x : f32
          } -> !tile.tile<64x1xf32>
          // CHECK: %[[ROW:.*]]:2 = tile_gpu.map ins(%[[M]], %{{.*}} : !tile_gpu.vec<64xf32, row>, !tile_gpu.vec<64xf32, row>)
          %mn:2 = tile.map ins(%m, %mt : !tile.tile<64x1xf32>, !tile.tile<64x1xf32>) {
          ^bb0(%i: i32, %k: i32, %old: f32, %new: f32):
            %gt = arith.cmpf ogt, %new, %old : f32
            %max = arith.select %gt, %new, %old : f32
            %d = arith.subf %old, %max : f32
            %f = math.exp2 %d : f32
            tile.yield %max, %f : f32, f32
          } -> !tile.tile<64x1xf32>, !tile.tile<64x1xf32>
          // One result serves the sum and, rounded, the product.
          // CHECK: %[[P:.*]] = tile_gpu.map ins(%[[S]], %[[ROW]]#0 : !tile_gpu.frag<64x64xf32, acc>, !tile_gpu.vec<64xf32, row>)
          // CHECK-NOT: arith.truncf
          // CHECK: } -> !tile_gpu.frag<64x64xf32, acc>
          // CHECK-NEXT: %[[PA:.*]] = tile_gpu.frag.convert %[[P]] : <64x64xf32, acc> -> <64x64xbf16, a>
          %p:2 = tile.map ins(%s, %mn#0 : !tile.tile<64x64xf32>, !tile.tile<64x1xf32>) {
          ^bb0(%i: i32, %k: i32, %x: f32, %max: f32):
            %d = arith.subf %x, %max : f32
            %w = math.exp2 %d : f32
            %w16 = arith.truncf %w : f32 to bf16
            tile.yield %w, %w16 : f32, bf16
          } -> !tile.tile<64x64xf32>, !tile.tile<64x64xbf16>
          %lt = tile.reduce ins(%p#0 : !tile.tile<64x64xf32>) identity(%zero : f32) {
          ^bb0(%a: f32, %c: f32):
            %x = arith.addf %a, %c : f32
            tile.yield %x : f32
          } -> !tile.tile<64x1xf32>
          // CHECK: %[[OS:.*]] = tile_gpu.map ins(%[[O]], %[[ROW]]#1 :
          // CHECK: arith.mulf
          // CHECK: %[[PV:.*]] = tile_gpu.mma.issue %[[PA]], %{{.*}} acc(%[[OS]])
          // CHECK-NEXT: tile_gpu.mma.wait %[[PV]] pending(0)
          %on = tile.dot %p#1, %kt acc %o scale %mn#1 : !tile.tile<64x64xbf16>, !tile.tile<64x128xbf16> -> !tile.tile<64x128xf32>
          // CHECK: tile_gpu.ring.release
          tile_gpu.ring.release %kv[%j] : !kvring
          %ln = tile.map ins(%l, %lt, %mn#1 : !tile.tile<64x1xf32>, !tile.tile<64x1xf32>, !tile.tile<64x1xf32>) {
          ^bb0(%i: i32, %k: i32, %x: f32, %y: f32, %f: f32):
            %z = math.fma %x, %f, %y : f32
            tile.yield %z : f32
          } -> !tile.tile<64x1xf32>
          scf.yield %mn#0, %ln, %on : !tile.tile<64x1xf32>, !tile.tile<64x1xf32>, !tile.tile<64x128xf32>
        }
        scf.yield %r#0, %r#1, %r#2 : !tile.tile<64x1xf32>, !tile.tile<64x1xf32>, !tile.tile<64x128xf32>
      } else {
        scf.yield %m0, %l0, %o0 : !tile.tile<64x1xf32>, !tile.tile<64x1xf32>, !tile.tile<64x128xf32>
      }
      %o = tile.map ins(%state#2, %state#1 : !tile.tile<64x128xf32>, !tile.tile<64x1xf32>) {
      ^bb0(%i: i32, %k: i32, %x: f32, %l: f32):
        %y = arith.divf %x, %l : f32
        tile.yield %y : f32
      } -> !tile.tile<64x128xf32>
      %h = arith.index_cast %head : i32 to index
      %r = arith.index_cast %rows : i32 to index
      // CHECK: %[[O16:.*]] = tile_gpu.frag.convert %{{.*}} : <64x128xf32, acc> -> <64x128xbf16, acc>
      // CHECK: tile_gpu.global.store %[[O16]], %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] rows(%{{.*}}) : !tile_gpu.frag<64x128xbf16, acc>
      tile.store %o, %O[%h, %d0, %d0] rows(%d0 to %r) : !tile.tile<64x128xf32>, !tensor
      // CHECK: tile_gpu.global.store %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] rows(%{{.*}}) : !tile_gpu.vec<64xf32, row>, memref<?x?xf32>
      tile.store vector %state#0, %LSE[%h, %d0] rows(%d0 to %r) : !tile.tile<64x1xf32>, memref<?x?xf32>
      tile_gpu.yield
    }
    tile_gpu.yield
  }
  // CHECK: tile_gpu.return
  // CHECK-NOT: !tile.tile
  tile_gpu.return
}

// Warps: whatever else the portable path asks for.
// CHECK-LABEL: kernel private @forms_kernel
tile_gpu.kernel private @forms_kernel(%S: memref<?x?xf32>, %L: memref<?xf32>, %M: memref<?xi32>,
    %B: memref<?x64xf32>, %q: !tile_gpu.frag<16x64xf16, a, warp>,
    %k: !tile_gpu.smem<64x64xf32>, %row: index, %n: index) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %false = arith.constant false
  tile_gpu.role "compute" warps(4) {
  ^bb0(%warp: i32):
    // CHECK: tile_gpu.global.load %{{.*}} rows(%{{.*}}) : memref<?x?xf32> -> !tile_gpu.frag<16x64xf32, acc, warp>
    %s = tile.load %S[%row, %c0] rows(%row to %n) : memref<?x?xf32> -> !tile.tile<16x64xf32>
    // CHECK: tile_gpu.global.load %{{.*}} rows(%{{.*}}) : memref<?xi32> -> !tile_gpu.vec<16xi32, row, warp>
    %m = tile.load vector %M[%row] rows(%row to %n) : memref<?xi32> -> !tile.tile<16x1xi32>
    // CHECK: %[[END:.*]] = memref.dim
    // CHECK: tile_gpu.global.load %{{.*}} : memref<?x64xf32> -> !tile_gpu.vec<64xf32, col, warp>
    %bias = tile.load %B[%row, %c0] : memref<?x64xf32> -> !tile.tile<1x64xf32>
    // A 16-bit operand enters a map with its own layout.
    // CHECK: tile_gpu.map ins(%{{.*}} : !tile_gpu.frag<16x64xf16, a, warp>)
    // CHECK: tile_gpu.frag.convert %{{.*}} : <16x64xf32, acc, warp> -> <16x64xf16, acc, warp>
    %qt = builtin.unrealized_conversion_cast %q : !tile_gpu.frag<16x64xf16, a, warp> to !tile.tile<16x64xf16>
    %nq = tile.map ins(%qt : !tile.tile<16x64xf16>) {
    ^bb0(%i: i32, %j: i32, %x: f16):
      %w = arith.extf %x : f16 to f32
      %y = arith.negf %w : f32
      %z = arith.truncf %y : f32 to f16
      tile.yield %z : f16
    } -> !tile.tile<16x64xf16>
    // CHECK: tile_gpu.map ins(%{{.*}}, %{{.*}}, %{{.*}} : !tile_gpu.frag<16x64xf32, acc, warp>, !tile_gpu.vec<16xi32, row, warp>, !tile_gpu.vec<64xf32, col, warp>)
    %x:2 = tile.map ins(%s, %m, %bias : !tile.tile<16x64xf32>, !tile.tile<16x1xi32>, !tile.tile<1x64xf32>) {
    ^bb0(%i: i32, %j: i32, %a: f32, %b: i32, %c: f32):
      %y = arith.addf %a, %c : f32
      %alive = arith.cmpi slt, %j, %b : i32
      // A NaN score stays one: only constants make this a maximum.
      // CHECK: arith.cmpf ogt
      %gt = arith.cmpf ogt, %a, %c : f32
      %z = arith.select %gt, %a, %c : f32
      // CHECK: arith.maxnumf
      %gt0 = arith.cmpf ogt, %z, %zero : f32
      %z0 = arith.select %gt0, %z, %zero : f32
      %w = arith.addf %y, %z0 : f32
      tile.yield %w, %alive : f32, i1
    // CHECK: } -> !tile_gpu.frag<16x64xf32, acc, warp>, !tile_gpu.frag<16x64xi1, acc, warp>
    } -> !tile.tile<16x64xf32>, !tile.tile<16x64xi1>
    // CHECK: tile_gpu.reduce ins({{.*}}) identity
    // CHECK: -> !tile_gpu.vec<64xi1, col, warp>
    %live = tile.reduce rows ins(%x#1 : !tile.tile<16x64xi1>) identity(%false : i1) {
    ^bb0(%a: i1, %b: i1):
      %o = arith.ori %a, %b : i1
      tile.yield %o : i1
    } -> !tile.tile<1x64xi1>
    // CHECK: %[[ANY:.*]] = tile_gpu.any %{{.*}} : !tile_gpu.vec<64xi1, col, warp>
    %any = tile.any %live : !tile.tile<1x64xi1>
    // CHECK: scf.if %[[ANY]]
    scf.if %any {
      // CHECK: tile_gpu.reduce ordered
      %last = tile.reduce ordered ins(%x#0 : !tile.tile<16x64xf32>) identity(%zero : f32) {
      ^bb0(%a: f32, %b: f32):
        tile.yield %b : f32
      } -> !tile.tile<16x1xf32>
      // CHECK: tile_gpu.scan reverse
      %after = tile.scan reverse ins(%x#0 : !tile.tile<16x64xf32>) identity(%zero : f32) {
      ^bb0(%a: f32, %b: f32):
        %c = arith.addf %a, %b : f32
        tile.yield %c : f32
      } -> !tile.tile<16x64xf32>
      tile.store %after, %S[%row, %c0] rows(%row to %n) : !tile.tile<16x64xf32>, memref<?x?xf32>
      // f32 operands: multiply-adds.
      // CHECK: tile_gpu.mma.sync %{{.*}} : !tile_gpu.frag<16x64xf32, acc, warp>, !tile_gpu.smem<64x64xf32> ->
      %kt = builtin.unrealized_conversion_cast %k : !tile_gpu.smem<64x64xf32> to !tile.tile<64x64xf32>
      %d = tile.dot %x#0, %kt : !tile.tile<16x64xf32>, !tile.tile<64x64xf32> -> !tile.tile<16x64xf32>
      tile.store %d, %S[%row, %c0] rows(%row to %n) : !tile.tile<16x64xf32>, memref<?x?xf32>
      tile.store vector %last, %L[%row] rows(%row to %n) : !tile.tile<16x1xf32>, memref<?xf32>
    }
    tile_gpu.yield
  }
  tile_gpu.return
}

// Keys one by one: scores and who is alive go through shared memory, one tile
// each for all warps; a state of one value a row sees no channel.
// CHECK-LABEL: kernel private @fold_kernel
// CHECK: %[[SCORES:.*]] = tile_gpu.smem.alloc : <64x64xf32>
// CHECK: %[[LIVE:.*]] = tile_gpu.smem.alloc : <64x64xf32>
tile_gpu.kernel private @fold_kernel(%v: !tile_gpu.smem<64x128xbf16 swizzle 128>,
    %S: memref<?x64xf32>, %O: memref<?x128xf32>, %row: index) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %c7 = arith.constant 7 : i32
  tile_gpu.role "compute" warps(4) {
  ^bb0(%warp: i32):
    %s = tile.load %S[%row, %c0] : memref<?x64xf32> -> !tile.tile<16x64xf32>
    %values = builtin.unrealized_conversion_cast %v : !tile_gpu.smem<64x128xbf16 swizzle 128> to !tile.tile<64x128xf32>
    %alive = tile.map {
    ^bb0(%r: i32, %c: i32):
      %x = arith.cmpi slt, %c, %c7 : i32
      tile.yield %x : i1
    } -> !tile.tile<16x64xi1>
    %n = tile.fill %zero : f32 -> !tile.tile<16x1xf32>
    %o = tile.fill %zero : f32 -> !tile.tile<16x128xf32>
    // CHECK: %[[MINE:.*]] = tile_gpu.smem.slice %[[SCORES]][%{{.*}}, %{{.*}}] : <64x64xf32> -> <16x64xf32>
    // CHECK: tile_gpu.frag.store %{{.*}}, %[[MINE]]
    // CHECK: tile_gpu.frag.store
    // CHECK: scf.for %[[KEY:.*]] = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[N:.*]] = %{{.*}}, %[[O:.*]] = %{{.*}})
    // CHECK: %[[X:.*]] = tile_gpu.vec.load %[[MINE]][%[[KEY]]] : <16x64xf32> -> <16xf32, row, warp>
    // CHECK: %[[L:.*]] = tile_gpu.vec.load
    // CHECK: %[[Y:.*]] = tile_gpu.vec.load %{{.*}}[%[[KEY]]] : <64x128xbf16 swizzle 128> -> <128xf32, col, warp>
    // CHECK: tile_gpu.map ins(%[[X]], %[[L]], %[[N]] :
    // CHECK-NOT: arith.mulf
    // CHECK: tile_gpu.map ins(%[[X]], %[[L]], %[[Y]], %[[N]], %[[O]] :
    // CHECK: arith.mulf
    // CHECK: arith.select
    %r:2 = tile.fold scores(%s : !tile.tile<16x64xf32>) values(%values : !tile.tile<64x128xf32>)
        live(%alive : !tile.tile<16x64xi1>) states(%n, %o : !tile.tile<16x1xf32>, !tile.tile<16x128xf32>) {
    ^bb0(%i: i32, %j: i32, %x: f32, %y: f32, %count: f32, %sum: f32):
      %more = arith.addf %count, %x : f32
      %product = arith.mulf %x, %y : f32
      %next = arith.addf %sum, %product : f32
      tile.yield %more, %next : f32, f32
    } -> !tile.tile<16x1xf32>, !tile.tile<16x128xf32>
    tile.store %r#1, %O[%row, %c0] : !tile.tile<16x128xf32>, memref<?x128xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// Keys above a threshold wait in slots of 16 columns, those of the first ones without
// a question. Where a slot is taken, and at the end, each row folds the next one of its
// own at a time; scores stay in registers, and none is selected from among others.
// CHECK-LABEL: kernel private @selection
// CHECK-NOT: frag.store
// CHECK: %[[FLOOR:.*]] = tile_gpu.map
// CHECK: arith.cmpf ogt
// CHECK: %[[FIRST:.*]] = tile_gpu.frag.cols %{{.*}} first 0 : <16x64xf32, acc, warp> -> <16x16xf32, acc, warp>
// CHECK: %[[WAIT:.*]] = tile_gpu.map ins(%[[FIRST]], %[[FLOOR]] :
// CHECK: arith.cmpf ugt
// CHECK: arith.select
// CHECK: %[[S:.*]] = tile_gpu.frag.cols %{{.*}} first 16
// CHECK: tile_gpu.map ins(%[[S]],
// CHECK: tile_gpu.any %{{.*}} by_rows
// CHECK: scf.if
// CHECK: tile_gpu.map ins(%[[S]], %{{.*}}, %[[WAIT]] :
// CHECK: %[[TAKEN:.*]] = tile_gpu.any %{{.*}} by_rows
// CHECK: scf.if %[[TAKEN]]
// CHECK: %[[START:.*]] = tile_gpu.reduce ins(%[[WAIT]] :
// CHECK: arith.minsi
// CHECK: scf.while (%{{.*}}, %{{.*}}, %[[COLUMNS:.*]] = %[[WAIT]], %[[NEXT:.*]] = %[[START]])
// CHECK: %[[BITS:.*]] = tile_gpu.map ins(%[[FIRST]], %[[COLUMNS]], %[[NEXT]] :
// CHECK: arith.bitcast
// CHECK: tile_gpu.reduce ins(%[[BITS]] :
// CHECK: arith.ori
// CHECK: %[[FOLDED:.*]]:2 = tile_gpu.map
// CHECK: arith.maximumf
// CHECK: arith.select
// CHECK: %[[REST:.*]] = tile_gpu.map ins(%[[COLUMNS]], %[[NEXT]] :
// CHECK: %[[THEN:.*]] = tile_gpu.reduce ins(%[[REST]] :
// CHECK: tile_gpu.any %{{.*}} by_rows
// CHECK: scf.condition(%{{.*}}) %[[FOLDED]]#0, %[[FOLDED]]#1, %[[REST]], %[[THEN]]
// CHECK: tile_gpu.map ins(%[[S]], %{{.*}}, %{{.*}}, %[[FIRST]] :
// CHECK: tile_gpu.frag.cols %{{.*}} first 48
// CHECK: tile_gpu.any %{{.*}} by_rows
// CHECK: scf.while
// CHECK: tile_gpu.global.store
tile_gpu.kernel private @selection(%O: memref<?xf32>) {
  tile_gpu.role "compute" warps(1) {
  ^bb0(%member: i32):
    %c0 = arith.constant 0 : index
    %none = arith.constant 0xFF800000 : f32
    %one = arith.constant 1.0 : f32
    %s = tile.fill %one : f32 -> !tile.tile<16x64xf32>
    %m = tile.fill %none : f32 -> !tile.tile<16x1xf32>
    %n = tile.fill %one : f32 -> !tile.tile<16x1xf32>
    %r:2 = tile.fold scores(%s : !tile.tile<16x64xf32>)
        states(%m, %n : !tile.tile<16x1xf32>, !tile.tile<16x1xf32>)
        attributes {threshold = 0 : i64} {
    ^bb0(%i: i32, %j: i32, %x: f32, %best: f32, %at: f32):
      %next = arith.maximumf %best, %x : f32
      %place = arith.sitofp %j : i32 to f32
      tile.yield %next, %place : f32, f32
    } -> !tile.tile<16x1xf32>, !tile.tile<16x1xf32>
    tile.store vector %r#0, %O[%c0] : !tile.tile<16x1xf32>, memref<?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// Scores that are a number times something are not made but of what is folded, and that
// they are not -inf is not asked.
// CHECK-LABEL: kernel private @products
// CHECK: %[[DOTS:.*]] = tile_gpu.frag.fill
// CHECK: %[[FLOOR:.*]] = tile_gpu.map
// CHECK: arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK: arith.minnumf
// CHECK: tile_gpu.map ins(%[[DOTS]], %{{.*}} : !tile_gpu.frag<16x16xf32, acc, warp>, !tile_gpu.vec<16xf32, row, warp>)
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.cmpf ugt
// CHECK-NOT: arith.cmpf une
// CHECK: scf.while
// CHECK: arith.mulf
// CHECK: arith.maximumf
// CHECK: tile_gpu.global.store
tile_gpu.kernel private @products(%O: memref<?xf32>) {
  tile_gpu.role "compute" warps(1) {
  ^bb0(%member: i32):
    %c0 = arith.constant 0 : index
    %none = arith.constant 0xFF800000 : f32
    %one = arith.constant 1.0 : f32
    %scale = arith.constant 0.125 : f32
    %dots = tile.fill %one : f32 -> !tile.tile<16x16xf32>
    %m = tile.fill %none : f32 -> !tile.tile<16x1xf32>
    %s:2 = tile.map ins(%dots : !tile.tile<16x16xf32>) {
    ^bb0(%i: i32, %j: i32, %x: f32):
      %y = arith.mulf %x, %scale : f32
      %live = arith.cmpf une, %y, %none : f32
      tile.yield %y, %live : f32, i1
    } -> !tile.tile<16x16xf32>, !tile.tile<16x16xi1>
    %r:4 = tile.fold scores(%s#0 : !tile.tile<16x16xf32>) live(%s#1 : !tile.tile<16x16xi1>)
        states(%m, %m, %m, %m : !tile.tile<16x1xf32>, !tile.tile<16x1xf32>, !tile.tile<16x1xf32>, !tile.tile<16x1xf32>)
        attributes {threshold = 0 : i64} {
    ^bb0(%i: i32, %j: i32, %x: f32, %best: f32, %at: f32, %y: f32, %z: f32):
      %next = arith.maximumf %best, %x : f32
      %place = arith.sitofp %j : i32 to f32
      tile.yield %next, %place, %y, %z : f32, f32, f32, f32
    } -> !tile.tile<16x1xf32>, !tile.tile<16x1xf32>, !tile.tile<16x1xf32>, !tile.tile<16x1xf32>
    tile.store vector %r#0, %O[%c0] : !tile.tile<16x1xf32>, memref<?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// Rows of a warpgroup are folded by a lane each, and the state that stays as it is has no
// place of its own there.
// CHECK-LABEL: kernel private @selection_of_group
// CHECK: %[[SCRATCH:.*]] = tile_gpu.smem.alloc : <128x72xf32>
// CHECK: %[[DOTS:.*]] = tile_gpu.frag.fill
// CHECK: %[[MINE:.*]] = tile_gpu.smem.slice %[[SCRATCH]][%{{.*}}, %{{.*}}] : <128x72xf32> -> <64x72xf32>
// CHECK: tile_gpu.fold_above %[[DOTS]], %[[MINE]] threshold(0) factor(1.250000e-01)
// CHECK: ^bb0(%{{.*}}: i32, %[[KEY:.*]]: i32, %[[X:.*]]: f32, %[[BEST:.*]]: f32, %{{.*}}: f32, %[[SAME:.*]]: f32):
// CHECK: %[[NEXT:.*]] = arith.maximumf %[[BEST]], %[[X]]
// CHECK: %[[PLACE:.*]] = arith.sitofp %[[KEY]]
// CHECK: tile_gpu.yield %[[NEXT]], %[[PLACE]], %[[SAME]]
// CHECK: tile_gpu.global.store
tile_gpu.kernel private @selection_of_group(%O: memref<?xf32>) {
  tile_gpu.role "compute" warpgroups(2) {
  ^bb0(%member: i32):
    %c0 = arith.constant 0 : index
    %none = arith.constant 0xFF800000 : f32
    %one = arith.constant 1.0 : f32
    %scale = arith.constant 0.125 : f32
    %dots = tile.fill %one : f32 -> !tile.tile<64x64xf32>
    %m = tile.fill %none : f32 -> !tile.tile<64x1xf32>
    %s = tile.map ins(%dots : !tile.tile<64x64xf32>) {
    ^bb0(%i: i32, %j: i32, %x: f32):
      %y = arith.mulf %x, %scale : f32
      tile.yield %y : f32
    } -> !tile.tile<64x64xf32>
    %r:3 = tile.fold scores(%s : !tile.tile<64x64xf32>)
        states(%m, %m, %m : !tile.tile<64x1xf32>, !tile.tile<64x1xf32>, !tile.tile<64x1xf32>)
        attributes {threshold = 0 : i64} {
    ^bb0(%i: i32, %j: i32, %x: f32, %best: f32, %at: f32, %z: f32):
      %next = arith.maximumf %best, %x : f32
      %place = arith.sitofp %j : i32 to f32
      tile.yield %next, %place, %z : f32, f32, f32
    } -> !tile.tile<64x1xf32>, !tile.tile<64x1xf32>, !tile.tile<64x1xf32>
    tile.store vector %r#0, %O[%c0] : !tile.tile<64x1xf32>, memref<?xf32>
    tile_gpu.yield
  }
  tile_gpu.return
}

// What a later block loads is asked for in the tensor, by no tile.
// CHECK-LABEL: tile_gpu.kernel @ahead
// CHECK: tile_gpu.global.prefetch %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] rows(32) columns(128) : memref<?x128x128xbf16>
tile_gpu.kernel @ahead(%m: memref<?x128x128xbf16>, %n: index, %row: index) {
  %c0 = arith.constant 0 : index
  tile_gpu.role "compute" warps(1) {
  ^bb0(%warp: i32):
    tile.prefetch %m[%n, %row, %c0] rows(32) columns(128) : memref<?x128x128xbf16>
    tile_gpu.yield
  }
  tile_gpu.return
}

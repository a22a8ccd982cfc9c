// RUN: attn-opt %s --split-input-file --tile-expand-stream --canonicalize --cse | FileCheck %s
// RUN: attn-opt %s --split-input-file --canonicalize --cse --tile-expand-stream --canonicalize --cse | FileCheck %s
// RUN: attn-opt %s --split-input-file --tile-expand-stream --tile-expand-stream --canonicalize --cse | FileCheck %s

// Peeled: partial tiles up to the core, its full tiles, partial tiles; bounds
// are rounded to tiles. What the loops know is gone from their bodies.

// CHECK-LABEL: kernel @peeled
// CHECK-SAME: %{{[^ ]*}}: index, %[[LO:[^ ]*]]: index, %[[CLO:[^ ]*]]: index, %[[CHI:[^ ]*]]: index, %[[HI:[^ ]*]]: index
// CHECK-DAG: %[[C64:.*]] = arith.constant 64 : index
// CHECK: %[[T:.*]] = arith.divui %[[LO]], %[[C64]]
// CHECK: %[[START:.*]] = arith.muli %[[T]], %[[C64]]
// CHECK: %[[T:.*]] = arith.ceildivui %[[CLO]], %[[C64]]
// CHECK: %[[LEAST:.*]] = arith.minsi %[[CHI]], %[[HI]]
// CHECK: arith.divui %[[LEAST]], %[[C64]]
// CHECK: %[[SOME:.*]] = arith.cmpi slt
// CHECK: %[[END:.*]] = arith.select %[[SOME]]
// CHECK: %[[FIRST:.*]] = arith.select %[[SOME]]
// CHECK: %[[HEAD:.*]] = scf.for %{{.*}} = %[[START]] to %[[FIRST]] step %[[C64]]
// CHECK-NEXT: math.exp
// CHECK-NEXT: scf.yield
// CHECK: %[[CORE:.*]] = scf.for %{{.*}} = %[[FIRST]] to %[[END]] step %[[C64]] iter_args(%{{.*}} = %[[HEAD]])
// CHECK-NEXT: arith.addf
// CHECK-NEXT: scf.yield
// CHECK: scf.for %{{.*}} = %[[END]] to %[[HI]] step %[[C64]] iter_args(%{{.*}} = %[[CORE]])
// CHECK-NEXT: math.exp
// CHECK-NEXT: scf.yield
// CHECK-NOT: tile.stream
module attributes {attn.target = "cpu-avx2"} {
tile.kernel @peeled(%out: memref<?xf32>, %keys: index, %lo: index, %clo: index, %chi: index, %hi: index, %block: index)
    attributes {schedule = #attn.schedule<block_q = 1, rows = 1, block_k = 64>} {
  %c0 = arith.constant 0 : index
  %x = memref.load %out[%block] : memref<?xf32>
  %y = tile.stream keys(%c0 to %keys) live(%lo to %hi) core(%clo to %chi) step 64 init(%x : f32)
      full {
      ^bb0(%j: index, %s: f32):
        %next = arith.addf %s, %s : f32
        tile.yield %next : f32
      } partial {
      ^bb0(%j: index, %whole: i1, %s: f32):
        %next = scf.if %whole -> f32 {
          %same = math.absf %s : f32
          scf.yield %same : f32
        } else {
          %other = math.exp %s : f32
          scf.yield %other : f32
        }
        tile.yield %next : f32
      }
  memref.store %y, %out[%block] : memref<?xf32>
  tile.return
}
}

// -----

// Where warps have roles the first tile stands alone. Tiles of a part are
// counted from its first key.

// CHECK-LABEL: kernel @apart
// CHECK-SAME: f32>, %[[FIRST:[^ ]*]]: index, %[[LO:[^ ]*]]: index, %[[HI:[^ ]*]]: index, %[[CHI:[^ ]*]]: index,
// CHECK: %[[BEHIND:.*]] = arith.subi %{{.*}}, %[[FIRST]]
// CHECK: arith.divui %[[BEHIND]]
// CHECK: %[[START:.*]] = arith.addi %[[FIRST]]
// CHECK: %[[SOME:.*]] = arith.cmpi slt, %[[START]], %[[HI]]
// CHECK: scf.if %[[SOME]]
// CHECK: %[[SECOND:.*]] = arith.addi %[[START]]
// CHECK: %[[WHOLE:.*]] = arith.cmpi sle, %[[SECOND]]
// CHECK: scf.if %[[WHOLE]]
// CHECK: math.absf
// CHECK: math.exp
// CHECK: scf.for
// CHECK-NEXT: arith.addf
// CHECK: scf.for
// CHECK-NEXT: math.exp
// CHECK: } else {
// CHECK-NEXT: scf.yield
module attributes {attn.target = "sm_90a"} {
tile.kernel @apart(%out: memref<?xf32>, %first: index, %lo: index, %hi: index, %chi: index, %block: index)
    attributes {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 64>} {
  %c0 = arith.constant 0 : index
  %x = memref.load %out[%block] : memref<?xf32>
  %y = tile.stream keys(%first to %hi) live(%lo to %hi) core(%c0 to %chi) step 64 init(%x : f32)
      full {
      ^bb0(%j: index, %s: f32):
        %next = arith.addf %s, %s : f32
        tile.yield %next : f32
      } partial {
      ^bb0(%j: index, %whole: i1, %s: f32):
        %next = scf.if %whole -> f32 {
          %same = math.absf %s : f32
          scf.yield %same : f32
        } else {
          %other = math.exp %s : f32
          scf.yield %other : f32
        }
        tile.yield %next : f32
      }
  memref.store %y, %out[%block] : memref<?xf32>
  tile.return
}
}

// -----

// Tests at run time: one loop, each tile sent to the body of its class. Without
// a core a peeled loop skips dead tiles.

// CHECK-LABEL: kernel @tested
// CHECK: scf.for %[[J:[^ ]*]] =
// CHECK: %[[FULL:.*]] = arith.cmpi slt, %[[J]], %{{.*}}
// CHECK: scf.if %[[FULL]]
// CHECK-NEXT: arith.addf
// CHECK: } else {
// CHECK: %[[ALIVE:.*]] = arith.cmpi sle, %[[J]], %{{.*}}
// CHECK-NEXT: scf.if %[[ALIVE]]
// CHECK-NEXT: math.exp
// CHECK-NOT: scf.for
// CHECK-LABEL: kernel @skips
// CHECK: scf.for %[[J:[^ ]*]] =
// CHECK: %[[ALIVE:.*]] = arith.cmpi sle, %[[J]], %{{.*}}
// CHECK-NEXT: scf.if %[[ALIVE]]
// CHECK-NEXT: math.exp
// CHECK-NOT: scf.for
// CHECK-LABEL: kernel @plain
// CHECK: scf.for %{{.*}} = %c0 to %{{.*}} step
// CHECK-NEXT: math.exp
// CHECK-NEXT: scf.yield
module attributes {attn.target = "cpu-avx2"} {
tile.kernel @tested(%out: memref<?xf32>, %keys: index, %hi: index, %block: index)
    attributes {schedule = #attn.schedule<block_q = 1, rows = 1, block_k = 64, loop = masked>} {
  %c0 = arith.constant 0 : index
  %x = memref.load %out[%block] : memref<?xf32>
  %y = tile.stream keys(%c0 to %keys) live(%c0 to %hi) step 64 init(%x : f32)
      classify {
      ^bb0(%j: index):
        %dead = arith.cmpi sgt, %j, %hi : index
        %full = arith.cmpi slt, %j, %block : index
        tile.yield %dead, %full : i1, i1
      } full {
      ^bb0(%j: index, %s: f32):
        %next = arith.addf %s, %s : f32
        tile.yield %next : f32
      } partial {
      ^bb0(%j: index, %whole: i1, %s: f32):
        %next = math.exp %s : f32
        tile.yield %next : f32
      }
  memref.store %y, %out[%block] : memref<?xf32>
  tile.return
}
tile.kernel @skips(%out: memref<?xf32>, %keys: index, %hi: index, %block: index)
    attributes {schedule = #attn.schedule<block_q = 1, rows = 1, block_k = 64>} {
  %c0 = arith.constant 0 : index
  %x = memref.load %out[%block] : memref<?xf32>
  %y = tile.stream keys(%c0 to %keys) live(%c0 to %hi) step 64 init(%x : f32)
      classify {
      ^bb0(%j: index):
        %dead = arith.cmpi sgt, %j, %hi : index
        %full = arith.cmpi slt, %j, %block : index
        tile.yield %dead, %full : i1, i1
      } full {
      ^bb0(%j: index, %s: f32):
        %next = arith.addf %s, %s : f32
        tile.yield %next : f32
      } partial {
      ^bb0(%j: index, %whole: i1, %s: f32):
        %next = math.exp %s : f32
        tile.yield %next : f32
      }
  memref.store %y, %out[%block] : memref<?xf32>
  tile.return
}
tile.kernel @plain(%out: memref<?xf32>, %keys: index, %hi: index, %block: index)
    attributes {schedule = #attn.schedule<block_q = 1, rows = 1, block_k = 64, loop = plain>} {
  %c0 = arith.constant 0 : index
  %x = memref.load %out[%block] : memref<?xf32>
  %y = tile.stream keys(%c0 to %keys) live(%c0 to %hi) step 64 init(%x : f32)
      classify {
      ^bb0(%j: index):
        %dead = arith.cmpi sgt, %j, %hi : index
        tile.yield %dead, %dead : i1, i1
      } partial {
      ^bb0(%j: index, %whole: i1, %s: f32):
        %next = math.exp %s : f32
        tile.yield %next : f32
      }
  memref.store %y, %out[%block] : memref<?xf32>
  tile.return
}
}

// -----

// Linear tiles on both sides of a key come first; the others of the core, and
// what lies behind it, after them.

// CHECK-LABEL: kernel @linear
// CHECK-SAME: f32>, %{{[^ ]*}}: index, %[[FITS:[^ ]*]]: i1, %[[LEFT:[^ ]*]]: index, %[[RIGHT:[^ ]*]]: index
// CHECK: %[[END:.*]] = arith.select %[[FITS]]
// CHECK: %[[START:.*]] = arith.select %[[FITS]]
// CHECK: scf.for %[[P:[^ ]*]] =
// CHECK: %[[IS_LEFT:.*]] = arith.cmpi slt, %[[P]], %{{.*}}
// CHECK: %[[OFFSET:.*]] = arith.select %[[IS_LEFT]], %c0, %{{.*}}
// CHECK: %[[KEY:.*]] = arith.addi %[[P]], %[[OFFSET]]
// CHECK: memref.store %{{.*}}, %{{.*}}[%[[KEY]]]
// CHECK: arith.select %[[IS_LEFT]]
// CHECK: scf.for %[[P:[^ ]*]] =
// CHECK: arith.select
// CHECK: math.exp
module attributes {attn.target = "cpu-avx2"} {
tile.kernel @linear(%out: memref<?xf32>, %keys: index, %fits: i1, %left: index, %right: index, %block: index)
    attributes {schedule = #attn.schedule<block_q = 1, rows = 1, block_k = 64>} {
  %c0 = arith.constant 0 : index
  %x = memref.load %out[%block] : memref<?xf32>
  %one = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32
  %y = tile.stream keys(%c0 to %keys) live(%c0 to %keys) core(%c0 to %keys)
      linear(%fits outside %left to %right) step 64 init(%x : f32)
      linear {
      ^bb0(%j: index, %is_left: i1, %s: f32):
        memref.store %s, %out[%j] : memref<?xf32>
        %slope = arith.select %is_left, %one, %two : f32
        %next = arith.addf %s, %slope : f32
        tile.yield %next : f32
      } partial {
      ^bb0(%j: index, %whole: i1, %s: f32):
        memref.store %s, %out[%j] : memref<?xf32>
        %next = math.exp %s : f32
        tile.yield %next : f32
      }
  memref.store %y, %out[%block] : memref<?xf32>
  tile.return
}
}

// -----

// A user's lists of blocks: partial ones and then full ones, by number. The
// first partial tile alone may lack keys.

// CHECK-LABEL: kernel @blocks
// CHECK-SAME: %[[NP:[^ ]*]]: memref<?xi32>, %[[IP:[^ ]*]]: memref<?x?xi32>, %[[NF:[^ ]*]]: memref<?xi32>, %[[IF:[^ ]*]]: memref<?x?xi32>
// CHECK: scf.for %[[N:[^ ]*]] = %c0 to
// CHECK: %[[T:.*]] = memref.load %[[IP]][%{{.*}}, %[[N]]]
// CHECK: %[[TI:.*]] = arith.index_cast %[[T]]
// CHECK: %[[J:.*]] = arith.muli %[[TI]], %c64
// CHECK: memref.store %{{.*}}, %{{.*}}[%[[J]]]
// CHECK: math.exp
// CHECK: scf.for %[[N:[^ ]*]] = %c0 to
// CHECK: %[[T:.*]] = memref.load %[[IF]][%{{.*}}, %[[N]]]
// CHECK: arith.addf
// A GPU's first tile stands alone, of either list; numbers are looked up ahead.
// CHECK-LABEL: kernel @blocks_apart
// CHECK: scf.if
// CHECK: math.absf
// CHECK: scf.for %{{.*}} = %c1 to %{{.*}} iter_args(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) -> (f32, i32)
// CHECK: memref.load
// CHECK: math.exp
// CHECK: scf.for
// CHECK: arith.addf
// CHECK: } else {
// CHECK: scf.if
// CHECK: arith.addf
// CHECK: scf.for
module attributes {attn.target = "sm_90a"} {
tile.kernel @blocks(%np: memref<?xi32>, %ip: memref<?x?xi32>, %nf: memref<?xi32>, %if: memref<?x?xi32>, %out: memref<?xf32>, %block: index)
    attributes {schedule = #attn.schedule<block_q = 16, rows = 16, block_k = 64>} {
  %x = memref.load %out[%block] : memref<?xf32>
  %p = memref.load %np[%block] : memref<?xi32>
  %f = memref.load %nf[%block] : memref<?xi32>
  %partials = arith.index_cast %p : i32 to index
  %fulls = arith.index_cast %f : i32 to index
  %y = tile.stream listed(%partials, %fulls) step 64 init(%x : f32) number {
    ^bb0(%n: index, %is_full: i1):
      %t = scf.if %is_full -> i32 {
        %number = memref.load %if[%block, %n] : memref<?x?xi32>
        scf.yield %number : i32
      } else {
        %number = memref.load %ip[%block, %n] : memref<?x?xi32>
        scf.yield %number : i32
      }
      tile.yield %t : i32
    } full {
    ^bb0(%j: index, %s: f32):
      memref.store %s, %out[%j] : memref<?xf32>
      %next = arith.addf %s, %s : f32
      tile.yield %next : f32
    } partial {
    ^bb0(%j: index, %tile: index, %n: index, %ragged: i1, %s: f32):
      memref.store %s, %out[%j] : memref<?xf32>
      %next = math.exp %s : f32
      tile.yield %next : f32
    }
  memref.store %y, %out[%block] : memref<?xf32>
  tile.return
}
tile.kernel @blocks_apart(%partials: index, %fulls: index, %list: memref<?xi32>, %out: memref<?xf32>, %block: index)
    attributes {schedule = #attn.schedule<block_q = 128, rows = 64, block_k = 64>} {
  %x = memref.load %out[%block] : memref<?xf32>
  %y = tile.stream listed(%partials, %fulls) ahead step 64 init(%x : f32) number {
    ^bb0(%n: index, %is_full: i1):
      %number = memref.load %list[%n] : memref<?xi32>
      tile.yield %number : i32
    } full {
    ^bb0(%j: index, %s: f32):
      memref.store %s, %out[%j] : memref<?xf32>
      %next = arith.addf %s, %s : f32
      tile.yield %next : f32
    } partial {
    ^bb0(%j: index, %tile: index, %n: index, %ragged: i1, %s: f32):
      memref.store %s, %out[%j] : memref<?xf32>
      %next = scf.if %ragged -> f32 {
        %same = math.absf %s : f32
        scf.yield %same : f32
      } else {
        %other = math.exp %s : f32
        scf.yield %other : f32
      }
      tile.yield %next : f32
    }
  memref.store %y, %out[%block] : memref<?xf32>
  tile.return
}
}

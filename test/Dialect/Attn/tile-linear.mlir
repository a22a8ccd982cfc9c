// RUN: attn-opt %s --attn-import-prelude --attn-check-laws --attn-to-aggregate --canonicalize --attn-choose-schedule --attn-relax-maximum --attn-fix-anchor --attn-guard-dead-scores --attn-online-form --attn-fold-scale --attn-fold-linear-bias --attn-pack-heads --attn-list-key-tiles --attn-tile --tile-expand-stream --canonicalize --cse --split-input-file | FileCheck %s

// Scores that grow evenly from key to key: the product adds what they grow by,
// the row the rest.

!q = tensor<?x?x?x128xbf16>

module attributes {attn.target = "sm_90a"} {

// ALiBi: tiles left of the diagonal, then those right of it, the signs apart;
// the first tile, and those on the diagonal, in the form that is right for any.
// CHECK-LABEL: kernel private @alibi_kernel0
// CHECK: %[[SLOPE:.*]] = memref.load
// CHECK: %[[DOWN:.*]] = arith.negf %[[SLOPE]]
// CHECK: %[[LEFT:.*]] = arith.divf {{.*}}, %[[K:.*]] : f32
// CHECK: scf.if
// CHECK: tile.dot %{{.*}}, %{{.*}} transpose_rhs
// CHECK: scf.for %[[AT:[a-z0-9]+]] =
// CHECK: %[[IS:.*]] = arith.cmpi slt, %[[AT]]
// CHECK: %[[X:.*]] = arith.select %[[IS]], %{{.*}}, %{{.*}} : f32
// CHECK: %[[S:.*]] = tile.dot %{{.*}}, %{{.*}} ramp %[[X]] transpose_rhs
// CHECK-NEXT: %[[M:.*]] = tile.reduce ins(%[[S]] :
// CHECK: tile.map ins(%{{.*}}, %[[M]] :
// CHECK: math.absi
// CHECK: %[[REST:.*]] = arith.subf %cst
// CHECK: math.exp2
// CHECK: math.fma %[[REST]]
// CHECK: tile.map ins(%[[S]], %{{.*}} :
// CHECK-NEXT: ^bb0
// CHECK-NEXT: math.fma
// CHECK-NEXT: math.exp2
// CHECK: scf.for
// CHECK: tile.dot %{{.*}}, %{{.*}} transpose_rhs
// CHECK: math.absi
//   Rows far from 0 are done again by scores of elements.
// CHECK: tile.any %{{.*}} by_rows
// CHECK: tile.element
// CHECK: math.absi
// CHECK: tile.element
func.func @alibi(%q: !q, %k: !q, %v: !q, %a: tensor<?xf32>) -> !q {
  %o = attn.attention queries(%q : !q) keys(%k : !q) values(%v : !q)
      alibi(%a : tensor<?xf32>) -> !q
  return %o : !q
}

// No side to tell: one ramp, and keys in their order.
// CHECK-LABEL: kernel private @forward_kernel0
// CHECK: scf.for %[[AT:[a-z0-9]+]] =
// CHECK-NEXT: tile.load %{{.*}}[%{{.*}}, %{{.*}}, %[[AT]], %{{.*}}] :
// CHECK: tile.dot %{{.*}}, %{{.*}} ramp %{{.*}} transpose_rhs
func.func @forward(%q: !q, %k: !q, %v: !q, %a: tensor<?xf32>) -> !q {
  %o = attn.attention queries(%q : !q) keys(%k : !q) values(%v : !q)
      captures(%a : tensor<?xf32>) score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?xf32>):
        %hh = arith.index_cast %h : i32 to index
        %m = tensor.extract %t[%hh] : tensor<?xf32>
        %d = arith.subi %j, %i : i32
        %f = arith.sitofp %d : i32 to f32
        %p = arith.mulf %f, %m : f32
        %y = arith.addf %s, %p : f32
        attn.yield %y : f32
      } -> !q
  return %o : !q
}

// What depends on the row alone needs no ramp.
// CHECK-LABEL: kernel private @rows_kernel0
// CHECK: scf.for
// CHECK: %[[S:.*]] = tile.dot %{{.*}}, %{{.*}} transpose_rhs
// CHECK-NEXT: tile.reduce ins(%[[S]] :
func.func @rows(%q: !q, %k: !q, %v: !q, %a: tensor<?xf32>) -> !q {
  %o = attn.attention queries(%q : !q) keys(%k : !q) values(%v : !q)
      captures(%a : tensor<?xf32>) score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?xf32>):
        %ii = arith.index_cast %i : i32 to index
        %m = tensor.extract %t[%ii] : tensor<?xf32>
        %y = arith.addf %s, %m : f32
        attn.yield %y : f32
      } -> !q
  return %o : !q
}

// Elements of a table by a bounded distance: pairs farther behind than 32, and
// farther ahead, have one each, which is loaded once for the block; tiles that
// are near load each.
// CHECK-LABEL: kernel private @table_kernel0
// CHECK: %[[BEHIND:.*]] = memref.load %{{.*}}[%{{.*}}, %c0]
// CHECK: %[[AHEAD:.*]] = memref.load %{{.*}}[%{{.*}}, %c64]
// CHECK: arith.addi %{{.*}}, %c-31 : index
// CHECK: arith.addi %{{.*}}, %c31 : index
// CHECK: scf.if
// CHECK: memref.load
// CHECK: scf.for %[[AT:[a-z0-9]+]] =
// CHECK: %[[IS:.*]] = arith.cmpi slt, %[[AT]]
// CHECK: %[[X:.*]] = arith.select %[[IS]], %[[BEHIND]], %[[AHEAD]] : f32
// CHECK: %[[S:.*]] = tile.dot %{{.*}}, %{{.*}} transpose_rhs
// CHECK-NEXT: tile.reduce ins(%[[S]] :
// CHECK: arith.addf %{{.*}}, %[[X]] : f32
// CHECK-NOT: memref.load
// CHECK: tile.map ins(%[[S]], %{{.*}} :
// CHECK-NEXT: ^bb0
// CHECK-NEXT: math.fma
// CHECK-NEXT: math.exp2
// CHECK: scf.for
// CHECK: memref.load
//   Rows far from 0 are marked for the kernel of those with a NaN.
// CHECK: math.absf
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
// CHECK: tile.store vector
// CHECK-LABEL: kernel private @table_kernel1
func.func @table(%q: !q, %k: !q, %v: !q, %a: tensor<?x65xf32>) -> !q {
  %o = attn.attention queries(%q : !q) keys(%k : !q) values(%v : !q)
      captures(%a : tensor<?x65xf32>) score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?x65xf32>):
        %most = arith.constant 32 : i32
        %least = arith.constant -32 : i32
        %d = arith.subi %j, %i : i32
        %d0 = arith.maxsi %d, %least : i32
        %d1 = arith.minsi %d0, %most : i32
        %d2 = arith.addi %d1, %most : i32
        %n = arith.index_cast %d2 : i32 to index
        %hh = arith.index_cast %h : i32 to index
        %m = tensor.extract %t[%hh, %n] : tensor<?x65xf32>
        %y = arith.addf %s, %m : f32
        attn.yield %y : f32
      } -> !q
  return %o : !q
}

// Only the elements say from where on they are the same: a kernel looks, in runs
// of 32 distances, one for each row of a tile.
// CHECK-LABEL: kernel private @measured_kernel0
// CHECK: tile.work_tile {{.*}} tiles(%c1) parts(%c2)
// CHECK: arith.cmpi ne, %part, %c0
// CHECK: memref.load %{{.*}}[%{{.*}}] : memref<?xf32
// CHECK: scf.for %{{.*}} iter_args(%{{.*}} = %c0_i32)
// CHECK: tile.map {
// CHECK: memref.load
// CHECK: arith.cmpi ne
// CHECK: tile.bits
// CHECK: math.ctlz
// CHECK: memref.store %{{.*}}, %{{.*}}[%batch, %head, %part] : memref<?x?x2xi32>
// CHECK-LABEL: kernel private @measured_kernel1
// CHECK: arith.cmpi sgt, %dim{{.*}}, %c0 : index
// CHECK: scf.if %{{.*}} -> (i32, i32)
// CHECK: memref.load %{{.*}}[%{{.*}}, %{{.*}}, %c0] : memref<?x?x2xi32>
// CHECK: memref.load %{{.*}}[%{{.*}}, %{{.*}}, %c1] : memref<?x?x2xi32>
// CHECK: scf.yield %c1073741824_i32, %c1073741824_i32
func.func @measured(%q: !q, %k: !q, %v: !q, %a: tensor<?xf32>, %n: i32) -> !q {
  %o = attn.attention queries(%q : !q) keys(%k : !q) values(%v : !q)
      captures(%a, %n : tensor<?xf32>, i32) score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?xf32>,
           %c: i32):
        %d = arith.subi %j, %i : i32
        %x = arith.addi %d, %c : i32
        %at = arith.index_cast %x : i32 to index
        %m = tensor.extract %t[%at] : tensor<?xf32>
        %y = arith.addf %s, %m : f32
        attn.yield %y : f32
      } -> !q
  return %o : !q
}

// Of packed sequences no tensor has the sizes: each score.
// CHECK-LABEL: kernel private @lone_kernel0
// CHECK-NOT: memref<?x?x2xi32>
// CHECK: tile.map
func.func @lone(%q: tensor<?x?x128xbf16>, %k: tensor<?x?x128xbf16>,
                %v: tensor<?x?x128xbf16>, %u: tensor<?xi32>, %a: tensor<?xf32>,
                %n: i32) -> tensor<?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x128xbf16>) keys(%k : tensor<?x?x128xbf16>)
      values(%v : tensor<?x?x128xbf16>) cu_seqlens_q(%u : tensor<?xi32>)
      cu_seqlens_k(%u : tensor<?xi32>) captures(%a, %n : tensor<?xf32>, i32) score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %t: tensor<?xf32>,
           %c: i32):
        %d = arith.subi %j, %i : i32
        %x = arith.addi %d, %c : i32
        %at = arith.index_cast %x : i32 to index
        %m = tensor.extract %t[%at] : tensor<?xf32>
        %y = arith.addf %s, %m : f32
        attn.yield %y : f32
      } -> tensor<?x?x128xbf16>
  return %o : tensor<?x?x128xbf16>
}

// A slope that differs by row, and a distance that grows by leaps: each score.
// CHECK-LABEL: kernel private @steep_kernel0
// CHECK-NOT: ramp
func.func @steep(%q: !q, %k: !q, %v: !q, %n: i32) -> !q {
  %o = attn.attention queries(%q : !q) keys(%k : !q) values(%v : !q) score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32):
        %x = arith.sitofp %i : i32 to f32
        %f = arith.sitofp %j : i32 to f32
        %p = arith.mulf %f, %x : f32
        %y = arith.addf %s, %p : f32
        attn.yield %y : f32
      } -> !q
  return %o : !q
}
// CHECK-LABEL: kernel private @leaps_kernel0
// CHECK-NOT: ramp
func.func @leaps(%q: !q, %k: !q, %v: !q, %n: i32) -> !q {
  %o = attn.attention queries(%q : !q) keys(%k : !q) values(%v : !q)
      captures(%n : i32) score {
      ^bb0(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32, %m: i32):
        %d = arith.muli %j, %m : i32
        %f = arith.sitofp %d : i32 to f32
        %y = arith.addf %s, %f : f32
        attn.yield %y : f32
      } -> !q
  return %o : !q
}
}

// -----

// Elsewhere products take no ramp.
// CHECK-LABEL: kernel private @portable_kernel0
// CHECK-NOT: ramp
module attributes {attn.target = "sm_80"} {
func.func @portable(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
    %v: tensor<?x?x?x128xbf16>, %a: tensor<?xf32>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>) keys(%k : tensor<?x?x?x128xbf16>)
      values(%v : tensor<?x?x?x128xbf16>) alibi(%a : tensor<?xf32>) -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
}

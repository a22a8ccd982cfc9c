// RUN: attn-opt %s --verify-roundtrip
// RUN: attn-opt %s --attn-pipeline="until-after=tile target=cpu-avx2" | FileCheck %s
// RUN: attn-run %s --entry delta --sizes b=2,hk=2,hv=4,t=150 --check | FileCheck %s --check-prefix=OK
// RUN: attn-run %s --entry ragged --sizes b=2,hk=1,hv=2,t=77 --check | FileCheck %s --check-prefix=OK
// RUN: attn-run %s --entry gated_keys --sizes b=1,hk=2,hv=2,t=100 --check | FileCheck %s --check-prefix=OK
// RUN: attn-run %s --entry gated_values --sizes b=1,hk=2,hv=2,t=40 --check | FileCheck %s --check-prefix=OK
// RUN: attn-run %s --entry mlstm_parts --sizes b=2,hk=2,hv=2,t=90 --check | FileCheck %s --check-prefix=OK
// RUN: attn-run %s --entry erasing --sizes b=1,hk=2,hv=2,t=50 --check | FileCheck %s --check-prefix=OK
// RUN: attn-run %s --entry sums --sizes b=1,hk=1,hv=1,t=3 --check | FileCheck %s --check-prefix=OK
// RUN: attn-run %s --entry behind --sizes sequences=2,heads=3,parts=6 --check | FileCheck %s --check-prefix=OK
// RUN: attn-run %s --entry product --sizes sequences=2,heads=3,parts=6 --check | FileCheck %s --check-prefix=OK
// RUN: attn-run %s --entry prefixes --sizes sequences=2,heads=3,parts=6 --check | FileCheck %s --check-prefix=OK
// RUN: attn-run %s --entry mlstm_behind --sizes sequences=2,heads=3,parts=6 --check | FileCheck %s --check-prefix=OK
// RUN: attn-run %s --entry combine_rows --sizes b=1,hq=2,sq=3 --check | FileCheck %s --check-prefix=OK
// RUN: not attn-opt %s --attn-pipeline="until-after=tile target=sm_90a" 2>&1 | FileCheck %s --check-prefix=GPU

// GPU: error: 'attn.scan_partial' op expected a CPU, but got a GPU, for which parts of scans have no kernel
// OK: check out0: ok

// Two walks over the tokens of a part: from an empty state, and from an identity
// to which nothing is written.

// CHECK-LABEL: func.func @delta(
// CHECK: %[[GRID:.*]] = arith.muli %{{.*}}, %c5
// CHECK: tile.launch @delta_kernel0 grid(%[[GRID]])
// CHECK-LABEL: tile.kernel private @delta_kernel0(
// CHECK: tile.work_tile {{.*}} parts(%c5)
// CHECK: %[[NONE:.*]] = tile.fill {{.*}} -> <16x32xf32>
// CHECK: %[[B:.*]] = scf.for {{.*}} iter_args({{.*}} = %[[NONE]])
// CHECK: tile.solve
// CHECK: tile.store %[[B]]
// CHECK: %[[A:.*]] = scf.for {{.*}} -> (!tile.tile<16x16xf32>)
// CHECK: tile.solve
// CHECK: tile.store %[[A]]
func.func @delta(%k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>,
                 %g: tensor<?x?x?xf32>, %b: tensor<?x?x?xf32>)
    -> (tensor<5x?x?x16x32xf32>, tensor<5x?x?x16x16xf32>) {
  %s, %a = attn.scan_partial keys(%k : tensor<?x?x?x16xf32>)
      values(%v : tensor<?x?x?x32xf32>) decay(%g : tensor<?x?x?xf32>)
      delta(%b : tensor<?x?x?xf32>) {splits = 5, l2norm}
      -> tensor<5x?x?x16x32xf32>, tensor<5x?x?x16x16xf32>
  return %s, %a : tensor<5x?x?x16x32xf32>, tensor<5x?x?x16x16xf32>
}

// Gates of heads, of which the product is a number; batches of their own lengths.
func.func @ragged(%k: tensor<?x?x?x20xbf16>, %v: tensor<?x?x?x33xbf16>,
                  %g: tensor<?x?x?xf32>, %n: tensor<?xi32>)
    -> (tensor<4x?x?x20x33xf32>, tensor<4x?x?x20xf32>, tensor<4x?x?xf32>) {
  %s, %z, %a = attn.scan_partial keys(%k : tensor<?x?x?x20xbf16>)
      values(%v : tensor<?x?x?x33xbf16>) decay(%g : tensor<?x?x?xf32>)
      lengths(%n : tensor<?xi32>) {splits = 4, normalize} feature {
      ^bb0(%x: f32):
        %e = math.exp %x : f32
        attn.yield %e : f32
      } -> tensor<4x?x?x20x33xf32>, tensor<4x?x?x20xf32>, tensor<4x?x?xf32>
  return %s, %z, %a : tensor<4x?x?x20x33xf32>, tensor<4x?x?x20xf32>, tensor<4x?x?xf32>
}

func.func @gated_keys(%k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>,
                      %g: tensor<?x?x?x16xf32>, %c: tensor<?x16xf32>)
    -> (tensor<3x?x?x16x32xf32>, tensor<3x?x?x16xf32>, tensor<3x?x?x16xf32>) {
  %s, %z, %a = attn.scan_partial keys(%k : tensor<?x?x?x16xf32>)
      values(%v : tensor<?x?x?x32xf32>) decay(%g : tensor<?x?x?x16xf32>)
      {splits = 3, normalize} gate(%c : tensor<?x16xf32>) {
      ^bb0(%x: f32, %y: f32):
        %m = arith.mulf %x, %y : f32
        %a = math.absf %m : f32
        %n = arith.negf %a : f32
        attn.yield %n : f32
      } -> tensor<3x?x?x16x32xf32>, tensor<3x?x?x16xf32>, tensor<3x?x?x16xf32>
  return %s, %z, %a : tensor<3x?x?x16x32xf32>, tensor<3x?x?x16xf32>, tensor<3x?x?x16xf32>
}

func.func @gated_values(%k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>,
                        %g: tensor<?x?x?x32xf32>, %w: tensor<?x?x?xf32>)
    -> (tensor<3x?x?x16x32xf32>, tensor<3x?x?x32xf32>) {
  %s, %a = attn.scan_partial keys(%k : tensor<?x?x?x16xf32>)
      values(%v : tensor<?x?x?x32xf32>) decay(%g : tensor<?x?x?x32xf32>)
      weight(%w : tensor<?x?x?xf32>) {splits = 3, value_gates}
      -> tensor<3x?x?x16x32xf32>, tensor<3x?x?x32xf32>
  return %s, %a : tensor<3x?x?x16x32xf32>, tensor<3x?x?x32xf32>
}

// With logarithms of weights that of the gates' product.
func.func @mlstm_parts(%k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>,
                 %g: tensor<?x?x?xf32>, %w: tensor<?x?x?xf32>)
    -> (tensor<4x?x?x16x32xf32>, tensor<4x?x?x16xf32>, tensor<4x?x?xf32>,
        tensor<4x?x?xf32>) {
  %s, %z, %m, %a = attn.scan_partial keys(%k : tensor<?x?x?x16xf32>)
      values(%v : tensor<?x?x?x32xf32>) decay(%g : tensor<?x?x?xf32>)
      log_weight(%w : tensor<?x?x?xf32>) {splits = 4, normalize}
      -> tensor<4x?x?x16x32xf32>, tensor<4x?x?x16xf32>, tensor<4x?x?xf32>, tensor<4x?x?xf32>
  return %s, %z, %m, %a : tensor<4x?x?x16x32xf32>, tensor<4x?x?x16xf32>, tensor<4x?x?xf32>, tensor<4x?x?xf32>
}

func.func @erasing(%k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>,
                   %g: tensor<?x?x?x16xf32>, %a: tensor<?x?x?x16xf32>,
                   %b: tensor<?x?x?x16xf32>)
    -> (tensor<2x?x?x16x32xf32>, tensor<2x?x?x16x16xf32>) {
  %s, %m = attn.scan_partial keys(%k : tensor<?x?x?x16xf32>)
      values(%v : tensor<?x?x?x32xf32>) decay(%g : tensor<?x?x?x16xf32>)
      erase(%a, %b : tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>)
      {splits = 2, erase_before}
      -> tensor<2x?x?x16x32xf32>, tensor<2x?x?x16x16xf32>
  return %s, %m : tensor<2x?x?x16x32xf32>, tensor<2x?x?x16x16xf32>
}

// Without maps; more parts than tokens.
func.func @sums(%k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>)
    -> tensor<5x?x?x16x32xf32> {
  %s = attn.scan_partial keys(%k : tensor<?x?x?x16xf32>)
      values(%v : tensor<?x?x?x32xf32>) {splits = 5} -> tensor<5x?x?x16x32xf32>
  return %s : tensor<5x?x?x16x32xf32>
}

// CHECK-LABEL: tile.kernel private @behind_kernel0(
// CHECK: %[[FIRST:.*]] = tile.load %arg2
// CHECK: %[[LAST:.*]] = scf.for {{.*}} iter_args(%[[S:.*]] = %[[FIRST]])
// CHECK: %[[A:.*]] = tile.load %arg1
// CHECK: %[[NEXT:.*]] = tile.dot %[[A]], %[[S]] acc
// CHECK: scf.yield %[[NEXT]]
// CHECK: tile.store %[[LAST]]
func.func @behind(%s: tensor<?x?x?x20x33xf32>, %a: tensor<?x?x?x20x20xf32>,
                  %first: tensor<?x?x20x33xf32>) -> tensor<?x?x20x33xf32> {
  %last = attn.scan_combine(%s : tensor<?x?x?x20x33xf32>)
      maps(%a : tensor<?x?x?x20x20xf32>) init(%first : tensor<?x?x20x33xf32>)
      -> tensor<?x?x20x33xf32>
  return %last : tensor<?x?x20x33xf32>
}

func.func @product(%s: tensor<?x?x?x20x33xf32>, %a: tensor<?x?x?x20x20xf32>)
    -> (tensor<?x?x20x33xf32>, tensor<?x?x20x20xf32>) {
  %last, %map = attn.scan_combine(%s : tensor<?x?x?x20x33xf32>)
      maps(%a : tensor<?x?x?x20x20xf32>)
      -> tensor<?x?x20x33xf32>, tensor<?x?x20x20xf32>
  return %last, %map : tensor<?x?x20x33xf32>, tensor<?x?x20x20xf32>
}

func.func @prefixes(%s: tensor<?x?x?x20x33xf32>, %z: tensor<?x?x?x20xf32>,
                    %a: tensor<?x?x?x20xf32>)
    -> (tensor<?x?x?x20x33xf32>, tensor<?x?x?x20xf32>, tensor<?x?x?x20xf32>) {
  %all, %sums, %map = attn.scan_combine(%s, %z : tensor<?x?x?x20x33xf32>, tensor<?x?x?x20xf32>)
      maps(%a : tensor<?x?x?x20xf32>) {normalize, prefixes}
      -> tensor<?x?x?x20x33xf32>, tensor<?x?x?x20xf32>, tensor<?x?x?x20xf32>
  return %all, %sums, %map : tensor<?x?x?x20x33xf32>, tensor<?x?x?x20xf32>, tensor<?x?x?x20xf32>
}

func.func @mlstm_behind(%s: tensor<?x?x?x20x33xf32>, %z: tensor<?x?x?x20xf32>,
                        %m: tensor<?x?x?xf32>, %a: tensor<?x?x?xf32>,
                        %s0: tensor<?x?x20x33xf32>, %z0: tensor<?x?x20xf32>,
                        %m0: tensor<?x?xf32>)
    -> (tensor<?x?x20x33xf32>, tensor<?x?x20xf32>, tensor<?x?xf32>) {
  %r:3 = attn.scan_combine(%s, %z, %m : tensor<?x?x?x20x33xf32>, tensor<?x?x?x20xf32>, tensor<?x?x?xf32>)
      maps(%a : tensor<?x?x?xf32>)
      init(%s0, %z0, %m0 : tensor<?x?x20x33xf32>, tensor<?x?x20xf32>, tensor<?x?xf32>)
      {normalize, log_weight}
      -> tensor<?x?x20x33xf32>, tensor<?x?x20xf32>, tensor<?x?xf32>
  return %r#0, %r#1, %r#2 : tensor<?x?x20x33xf32>, tensor<?x?x20xf32>, tensor<?x?xf32>
}

// Parts of rows of a scan, as states of the monoid that they are.
func.func @combine_rows(%f: tensor<4x?x?x?xf32>, %m: tensor<4x?x?x?xf32>,
                        %acc: tensor<4x?x?x?x16xf32>, %l: tensor<4x?x?x?xf32>)
    -> (tensor<?x?x?xf32>, tensor<?x?x?xf32>, tensor<?x?x?x16xf32>, tensor<?x?x?xf32>) {
  %r:4 = attn.combine @mlstm(%f, %m, %acc, %l : tensor<4x?x?x?xf32>, tensor<4x?x?x?xf32>,
      tensor<4x?x?x?x16xf32>, tensor<4x?x?x?xf32>)
      -> tensor<?x?x?xf32>, tensor<?x?x?xf32>, tensor<?x?x?x16xf32>, tensor<?x?x?xf32>
  return %r#0, %r#1, %r#2, %r#3 : tensor<?x?x?xf32>, tensor<?x?x?xf32>, tensor<?x?x?x16xf32>, tensor<?x?x?xf32>
}

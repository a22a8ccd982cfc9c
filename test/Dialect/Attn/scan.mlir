// RUN: attn-opt %s --verify-roundtrip
// RUN: attn-opt %s --attn-pipeline="until-after=tile target=cpu-avx2" | FileCheck %s
// RUN: attn-opt %s --attn-pipeline="until-after=tile target=sm_90a" | FileCheck %s --check-prefix=GPU

// On GPUs value channels are rows, and a token comes after the other.
// GPU-LABEL: func.func @gated_delta(
// GPU: tile.launch @gated_delta_kernel0
// GPU-LABEL: tile.kernel private @gated_delta_kernel0(
// GPU: %[[S0:.*]] = tile.load transposed {{.*}} -> <32x16xf32>
// GPU: %[[END:.*]] = scf.for {{.*}} iter_args(%[[S:.*]] = %[[S0]]) -> (!tile.tile<32x16xf32>)
// GPU: tile.reduce
// GPU: %[[NEXT:.*]] = tile.map ins(%[[S]],
// GPU: tile.store vector
// GPU: scf.yield %[[NEXT]]
// GPU: tile.store transposed %[[END]]

// A gated delta rule: the state is carried over chunks of 64 tokens; what earlier
// tokens of a chunk leave of its values is a triangular system.

// CHECK-LABEL: func.func @gated_delta(
// CHECK: tile.launch @gated_delta_kernel0
// CHECK: tile.launch @gated_delta_kernel1

// Blocks draw turns: the numbers that they are drawn by are cleared first.

// CHECK-LABEL: tile.kernel private @gated_delta_kernel0(
// CHECK-COUNT-2: memref.store %c0_i32
// CHECK: tile.return

// CHECK-LABEL: tile.kernel private @gated_delta_kernel1(
// CHECK: tile.work_tile {{.*}} section(
// CHECK: %[[TURN:.*]] = memref.atomic_rmw addi %c1_i32, %[[NUMBERS:.*]][%batch, %head, %c0] :
// CHECK: scf.while
// CHECK: memref.atomic_rmw addi %c0_i32, %[[NUMBERS]][%batch, %head, %c16] :
// CHECK: func.call @sched_yield() : () -> i32
// CHECK: tile.load %[[PASSED:.*]][%batch, %head, %c0, %c0] rows(%c0 to %{{.*}}) : memref<?x?x16x32xf32> -> <16x32xf32>
// CHECK: tile.load {{.*}} -> <16x32xf32>
// CHECK: %[[S0:.*]] = tile.map
// CHECK: %[[END:.*]] = scf.for {{.*}} iter_args(%[[S:.*]] = %[[S0]]) -> (!tile.tile<16x32xf32>)
// CHECK: tile.scan reverse
// CHECK: %[[Y:.*]] = tile.solve {{.*}}
// CHECK: scf.for
// CHECK: %[[O:.*]] = tile.dot {{.*}}, %[[Y]] acc
// CHECK: tile.store %[[O]]
// CHECK: %[[NEXT:.*]] = tile.dot {{.*}}, %[[Y]] acc %[[S]] scale {{.*}} transpose_lhs
// CHECK: scf.yield %[[NEXT]]
// CHECK: scf.if
// CHECK-NEXT: tile.store %[[END]]
// CHECK: tile.store %[[END]], %[[PASSED]][
// CHECK: memref.atomic_rmw addi %c1_i32, %[[NUMBERS]][%batch, %head, %c16] :
func.func @gated_delta(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>,
                       %v: tensor<?x?x?x32xf32>, %g: tensor<?x?x?xf32>,
                       %b: tensor<?x?x?xf32>, %s: tensor<?x?x16x32xf32>)
    -> (tensor<?x?x?x32xf32>, tensor<?x?x16x32xf32>) {
  %o, %last = attn.scan queries(%q : tensor<?x?x?x16xf32>)
      keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>)
      decay(%g : tensor<?x?x?xf32>) delta(%b : tensor<?x?x?xf32>)
      init(%s : tensor<?x?x16x32xf32>) {final}
      -> tensor<?x?x?x32xf32>, tensor<?x?x16x32xf32>
  return %o, %last : tensor<?x?x?x32xf32>, tensor<?x?x16x32xf32>
}

// Gates of key channels: exponentials of sums that masks pick, in dyadic halves;
// chunks have 16 tokens.

// CHECK-LABEL: tile.kernel private @features_kernel0(
// CHECK-NOT: tile.solve
// CHECK: tile.load transposed {{.*}} -> <16x16xf32>
func.func @features(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>,
                    %v: tensor<?x?x?x32xf32>, %g: tensor<?x?x?x16xf32>)
    -> tensor<?x?x?x32xf32> {
  %o = attn.scan queries(%q : tensor<?x?x?x16xf32>)
      keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>)
      decay(%g : tensor<?x?x?x16xf32>) {normalize} feature {
      ^bb0(%x: f32):
        %e = math.exp %x : f32
        attn.yield %e : f32
      } -> tensor<?x?x?x32xf32>
  return %o : tensor<?x?x?x32xf32>
}

// Regions of gates and outputs, with what they take; states with value channels
// first are rows of values on a GPU, and transposed on CPUs.

// GPU-LABEL: tile.kernel private @regions_kernel0(
// GPU: tile.load %arg4[{{.*}} -> <16x16xf32>
// GPU: math.log1p
// GPU: tile.store %{{[0-9]+}}, %arg4[
// CHECK-LABEL: tile.kernel private @regions_kernel0(
// CHECK: tile.load transposed {{.*}} -> <16x32xf32>
// CHECK: math.log1p
// CHECK: tile.store transposed
func.func @regions(%q: tensor<?x?x1x16xf32>, %k: tensor<?x?x1x16xf32>,
                   %v: tensor<?x?x1x32xf32>, %g: tensor<?x?x1xf32>,
                   %a: tensor<?xf32>, %z: tensor<?x?x1x32xf32>,
                   %d: tensor<?x32xf32>, %s: tensor<?x?x32x16xf32>)
    -> tensor<?x?x1x32xf32> {
  %o = attn.scan queries(%q : tensor<?x?x1x16xf32>)
      keys(%k : tensor<?x?x1x16xf32>) values(%v : tensor<?x?x1x32xf32>)
      decay(%g : tensor<?x?x1xf32>) slots(%s : tensor<?x?x32x16xf32>)
      {values_first} gate(%a : tensor<?xf32>) {
      ^bb0(%x: f32, %bias: f32):
        %y = arith.addf %x, %bias : f32
        %e = math.log1p %y : f32
        attn.yield %e : f32
      } finalize(%z, %d : tensor<?x?x1x32xf32>, tensor<?x32xf32>) {
      ^bb0(%o: f32, %zt: f32, %f: f32):
        %p = arith.mulf %o, %zt : f32
        %r = arith.addf %p, %f : f32
        attn.yield %r : f32
      } -> tensor<?x?x1x32xf32>
  return %o : tensor<?x?x1x32xf32>
}

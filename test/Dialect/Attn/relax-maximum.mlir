// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --attn-split --attn-relax-maximum | FileCheck %s
// RUN: attn-opt %s --attn-import-prelude --attn-to-aggregate --attn-split --attn-relax-maximum --attn-relax-maximum | FileCheck %s
// RUN: attn-opt %s --attn-pipeline="until-after=tile target=cpu-avx2" | FileCheck %s --check-prefix=KERNEL

// A NaN score reaches the quotient through its weight.
// CHECK-LABEL: func.func @quotient
// CHECK: attn.aggregate @softmax
// CHECK-SAME: relaxed_maximum
// KERNEL-LABEL: kernel private @quotient_kernel0
// KERNEL: tile.reduce
// KERNEL: arith.cmpf ogt
// KERNEL-NEXT: arith.select
// KERNEL-LABEL: kernel private @largest_kernel0
func.func @quotient(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                   %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// The maximum is an output, which may show a NaN alone.
// CHECK-LABEL: func.func @largest
// CHECK-NOT: relaxed_maximum
// KERNEL: arith.maximumf
func.func @largest(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                   %v: tensor<?x?x?x64xf32>)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>) {
  %o:3 = attn.attention monoid(@softmax_max) queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64>}
      -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
  return %o#0, %o#1, %o#2 : tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>
}

// Of parts, what their states are finalized to decides.
// CHECK-LABEL: func.func @parts
// CHECK: attn.partial @softmax
// CHECK-SAME: relaxed_maximum
func.func @parts(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>,
                 %v: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x64xf32>)
      keys(%k : tensor<?x?x?x64xf32>) values(%v : tensor<?x?x?x64xf32>)
      {schedule = #attn.schedule<block_q = 64, rows = 32, block_k = 64, splits = 2>}
      -> tensor<?x?x?x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

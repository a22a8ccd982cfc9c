// RUN: attn-opt %s --split-input-file --attn-pipeline=target=cpu-generic | FileCheck %s
// RUN: attn-opt %s --split-input-file --attn-pipeline=target=cpu-avx2 | FileCheck %s
// RUN: attn-opt %s --split-input-file --attn-pipeline=target=cpu-avx512 | FileCheck %s
// RUN: attn-opt %s --split-input-file --attn-pipeline=target=cpu-avx512-bf16 | FileCheck %s
// RUN: attn-opt %s --split-input-file --attn-pipeline=target=cpu-amx | FileCheck %s

// Values of fewer channels than a vector, or of more by some: their loads and
// stores take masks. A mask that no key passes leaves a kernel in which the mask
// of the store is all that is there to lower.
// CHECK-LABEL: llvm.func @attn_entry_dead8(
func.func @dead8(%q: tensor<?x?x?x4xf32>, %k: tensor<?x?x?x4xf32>,
                 %v: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x4xf32>) keys(%k : tensor<?x?x?x4xf32>)
    values(%v : tensor<?x?x?x8xf32>)
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
      %c19 = arith.constant 19 : i32
      %c1 = arith.constant 1 : i32
      %c5 = arith.constant 5 : i32
      %late = arith.cmpi sge, %i, %h : i32
      %bits = arith.extsi %late : i1 to i32
      %both = arith.andi %bits, %c5 : i32
      %low = arith.andi %both, %c1 : i32
      %m = arith.cmpi eq, %low, %c19 : i32
      attn.yield %m : i1
    } -> tensor<?x?x?x8xf32>
  return %o : tensor<?x?x?x8xf32>
}

// -----

// CHECK-LABEL: llvm.func @attn_entry_dead20(
func.func @dead20(%q: tensor<?x?x?x4xf32>, %k: tensor<?x?x?x4xf32>,
                  %v: tensor<?x?x?x20xf32>) -> tensor<?x?x?x20xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x4xf32>) keys(%k : tensor<?x?x?x4xf32>)
    values(%v : tensor<?x?x?x20xf32>)
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
      %m = arith.constant false
      attn.yield %m : i1
    } -> tensor<?x?x?x20xf32>
  return %o : tensor<?x?x?x20xf32>
}

// -----

// CHECK-LABEL: llvm.func @attn_entry_dead3(
func.func @dead3(%q: tensor<?x?x?x3xbf16>, %k: tensor<?x?x?x3xbf16>,
                 %v: tensor<?x?x?x3xbf16>) -> tensor<?x?x?x3xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x3xbf16>) keys(%k : tensor<?x?x?x3xbf16>)
    values(%v : tensor<?x?x?x3xbf16>)
    mask {
    ^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
      %m = arith.constant false
      attn.yield %m : i1
    } -> tensor<?x?x?x3xbf16>
  return %o : tensor<?x?x?x3xbf16>
}

// -----

// CHECK-LABEL: llvm.func @attn_entry_live20(
func.func @live20(%q: tensor<?x?x?x20xf32>, %k: tensor<?x?x?x20xf32>,
                  %v: tensor<?x?x?x20xf32>) -> tensor<?x?x?x20xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x20xf32>) keys(%k : tensor<?x?x?x20xf32>)
    values(%v : tensor<?x?x?x20xf32>) -> tensor<?x?x?x20xf32>
  return %o : tensor<?x?x?x20xf32>
}

// Keys of a cache that is written round and round turn by their positions, of both
// kinds of pairs, on CPUs with and without wide vectors; the reference evaluates
// attention by its options, and the aggregate by its regions.
// RUN: attn-run %s --sizes b=2,hq=4,hk=2,sq=6,sk=70 --input cos=random:7x8 --input sin=random:7x8 --check | FileCheck %s
// RUN: attn-run %s --sizes b=2,hq=4,hk=2,sq=6,sk=70 --input cos=random:7x8 --input sin=random:7x8 --check --target cpu-generic | FileCheck %s
// RUN: sed 's/halves/interleaved/' %s | attn-opt --attn-import-prelude --attn-to-aggregate --canonicalize -o %t.mlir
// RUN: attn-run %t.mlir --sizes b=2,hq=4,hk=2,sq=6,sk=70 --input arg5=random:7x8 --input arg6=random:7x8 --check | FileCheck %s
// RUN: sed 's/rolling,/rotate_by_slot, schedule = #attn.schedule<block_q = 16, rows = 8, block_k = 32, splits = 3>,/' %s > %t.split.mlir
// RUN: attn-run %t.split.mlir --sizes b=2,hq=4,hk=2,sq=6,sk=70 --input cos=random:7x8 --input sin=random:7x8 --check --target cpu-avx2 | FileCheck %s
// RUN: not attn-run %s --device emulator:sm_90a --sizes b=2,hq=4,hk=2,sq=6,sk=70 2>&1 | FileCheck %s --check-prefix=GPU
// RUN: not attn-run %s --sizes b=2,hq=4,hk=2,sq=6,sk=70 --input cos=random:0x8 --input sin=random:7x8 2>&1 | FileCheck %s --check-prefix=EMPTY

// CHECK: check o: ok
// EMPTY: expected 'cos' to have an element or more in dimension 0, which regions index, but got shape [0, 8]
// GPU: expected rows that are turned once, as they are for a GPU, but got a region 'rotate_keys' that reads the head, of which a key has several; run on a CPU
func.func @f(%q: tensor<?x?x?x40xf32>, %k: tensor<?x?x?x40xf32>,
                  %v: tensor<?x?x?x24xf32>, %start: tensor<?xi32>, %lengths: tensor<?xi32>,
                  %cos: tensor<?x8xf32>, %sin: tensor<?x8xf32>)
    -> tensor<?x?x?x24xf32> {
  %o = attn.attention queries(%q : tensor<?x?x?x40xf32>)
      keys(%k : tensor<?x?x?x40xf32>) values(%v : tensor<?x?x?x24xf32>)
      lengths(%lengths : tensor<?xi32>)
      k_start(%start : tensor<?xi32>)
      tables(%cos, %sin : tensor<?x8xf32>, tensor<?x8xf32>)
      {rotary = #attn.rotary<16, halves>, rolling, causal = #attn.causal<bottom_right>}
    rotate {
    ^bb0(%x: f32, %y: f32, %b: i32, %h: i32, %n: i32, %c: i32,
         %cosines: tensor<?x8xf32>, %sines: tensor<?x8xf32>):
      %seven = arith.constant 7 : i32
      %m = arith.remui %n, %seven : i32
      %row = arith.index_cast %m : i32 to index
      %column = arith.index_cast %c : i32 to index
      %u = tensor.extract %cosines[%row, %column] : tensor<?x8xf32>
      %w = tensor.extract %sines[%row, %column] : tensor<?x8xf32>
      %hf = arith.sitofp %h : i32 to f32
      %xu = arith.mulf %x, %u : f32
      %yw = arith.mulf %y, %w : f32
      %yu = arith.mulf %y, %u : f32
      %xw = arith.mulf %x, %w : f32
      %first = arith.subf %xu, %yw : f32
      %second = arith.addf %yu, %xw : f32
      %third = arith.addf %second, %hf : f32
      attn.yield %first, %third : f32, f32
    } -> tensor<?x?x?x24xf32>
  return %o : tensor<?x?x?x24xf32>
}

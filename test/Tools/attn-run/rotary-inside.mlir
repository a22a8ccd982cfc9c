// Keys that turn where they were copied to, between their copy and their product: in
// whole, in parts, with heads that share a tile, of both kinds of pairs, of some
// channels, by a warpgroup and by warps, beside float64 and beside the same schedule that
// turns them before.
// DEFINE: %{run} = --sizes b=2,hq=4,hk=2,sq=3,sk=150 --input cos=random:7x64 --input sin=random:7x64 --check
// RUN: attn-run %s --device emulator:sm_90a %{run} | FileCheck %s
// RUN: attn-run %s --device emulator:sm_80 %{run} | FileCheck %s
// RUN: sed 's/rotate = inside/rotate = ahead/' %s > %t.ahead.mlir
// RUN: attn-run %t.ahead.mlir --device emulator:sm_90a %{run} | FileCheck %s
// RUN: sed 's/rotate = inside/splits = 3, pack_heads = true, rotate = inside/' %s > %t.parts.mlir
// RUN: attn-run %t.parts.mlir --device emulator:sm_90a %{run} | FileCheck %s
// RUN: sed 's/<128, halves>/<20, interleaved>/' %s > %t.some.mlir
// RUN: attn-run %t.some.mlir --device emulator:sm_90a %{run} | FileCheck %s
// RUN: attn-run %t.some.mlir --device emulator:sm_80 %{run} | FileCheck %s
// RUN: sed 's/<128, halves>/<44, halves>/' %s > %t.odd.mlir
// RUN: attn-run %t.odd.mlir --device emulator:sm_90a %{run} | FileCheck %s
// RUN: sed 's/block_q = 64, rows = 64, block_k = 64/block_q = 32, rows = 16, block_k = 48/' %s > %t.warps.mlir
// RUN: attn-run %t.warps.mlir --device emulator:sm_90a %{run} | FileCheck %s
// RUN: attn-run %t.warps.mlir --device emulator:sm_80 %{run} | FileCheck %s

// CHECK: check o: ok
#schedule = #attn.schedule<block_q = 64, rows = 64, block_k = 64, rotate = inside>
func.func @f(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
             %v: tensor<?x?x?x128xbf16>, %lengths: tensor<?xi32>,
             %cos: tensor<?x64xf32>, %sin: tensor<?x64xf32>) -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?x?x128xbf16>) values(%v : tensor<?x?x?x128xbf16>)
      lengths(%lengths : tensor<?xi32>)
      tables(%cos, %sin : tensor<?x64xf32>, tensor<?x64xf32>)
      {rotary = #attn.rotary<128, halves>, causal = #attn.causal<bottom_right>,
       schedule = #schedule}
    rotate {
    ^bb0(%x: f32, %y: f32, %b: i32, %h: i32, %n: i32, %c: i32,
         %cosines: tensor<?x64xf32>, %sines: tensor<?x64xf32>):
      %seven = arith.constant 7 : i32
      %m = arith.remui %n, %seven : i32
      %row = arith.index_cast %m : i32 to index
      %column = arith.index_cast %c : i32 to index
      %u = tensor.extract %cosines[%row, %column] : tensor<?x64xf32>
      %w = tensor.extract %sines[%row, %column] : tensor<?x64xf32>
      %xu = arith.mulf %x, %u : f32
      %yw = arith.mulf %y, %w : f32
      %yu = arith.mulf %y, %u : f32
      %xw = arith.mulf %x, %w : f32
      %first = arith.subf %xu, %yw : f32
      %second = arith.addf %yu, %xw : f32
      attn.yield %first, %second : f32, f32
    } -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}

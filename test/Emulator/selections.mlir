// The largest score of each row and its key, on warpgroups and on warps: of tiles of
// more keys than are looked at together, with rows and keys that fill none, whatever
// order warps run in.
//
// RUN: env ATTN_EMULATOR=sweep:3 attn-run --device emulator:sm_90a %s --sizes b=1,hq=2,hk=1,sq=200,sk=300 --check --explain 2>&1 | FileCheck %s --check-prefixes=OK,GROUPS
// RUN: env ATTN_EMULATOR=sweep:3 attn-run --device emulator:sm_80 %s --sizes b=1,hq=2,hk=1,sq=70,sk=150 --check --explain 2>&1 | FileCheck %s --check-prefixes=OK,WARPS
//
// REQUIRES: attn-run
//
// GROUPS: threshold in state 0
// GROUPS: schedule chosen: #attn.schedule<block_q = 192, rows = 64, block_k = 128
// WARPS: schedule chosen: #attn.schedule<block_q = 128, rows = {{16|32}}, block_k = 32
// OK: check score: ok
// OK: check where: ok

attn.monoid @argmax general stats(f32, f32) components(unit) outputs("score", "where") {
  identity { %e = arith.constant 0xFF800000 : f32 %no = arith.constant -1.0 : f32
             %z = arith.constant 0.0 : f32 attn.yield %e, %no, %z : f32, f32, f32 }
  combine { ^bb0(%a: f32, %i: f32, %x: f32, %b: f32, %j: f32, %y: f32):
    %wins = arith.cmpf ogt, %b, %a : f32
    %c = arith.select %wins, %b, %a : f32
    %k = arith.select %wins, %j, %i : f32
    attn.yield %c, %k, %x : f32, f32, f32 }
  lift { ^bb0(%s: f32, %j: i32): %z = arith.constant 0.0 : f32
         %at = arith.sitofp %j : i32 to f32 attn.yield %s, %at, %z : f32, f32, f32 }
  finalize { ^bb0(%c: f32, %k: f32, %x: f32): attn.yield %c, %k : f32, f32 }
}
func.func @largest(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>) -> (tensor<?x?x?xf32>, tensor<?x?x?xf32>) {
  %o, %w = attn.aggregate @argmax scores(%q, %k : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>)
      -> tensor<?x?x?xf32>, tensor<?x?x?xf32>
  return %o, %w : tensor<?x?x?xf32>, tensor<?x?x?xf32>
}

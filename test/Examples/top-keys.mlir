// The two largest scores of a row and where they are, the margin between them, and how
// many scores are at least a number that is given with the call. Of equal scores the
// earlier key is the first.
//
// RUN: %python %S/Inputs/top-keys.py %s
// RUN: attn-run --monoid %s --attention b=1,hq=2,sq=70,d=16,outputs=6 --check | FileCheck %s
// RUN: attn-run --monoid %s --attention b=1,hq=2,sq=20,d=64,causal=top_left,outputs=6 --check --device emulator:sm_80 | FileCheck %s
//
// REQUIRES: attn-run, python, libattn.so
// UNSUPPORTED: sanitizer
//
// CHECK: check first: ok
// CHECK: check where: ok
// CHECK: check count: ok

attn.monoid @top_keys general stats(f32, f32, f32, f32) components(unit) params(f32)
    outputs("first", "where", "second", "where2", "margin", "count") {
  identity {
  ^bb0(%least: f32):
    %none = arith.constant 0xFF800000 : f32
    %nowhere = arith.constant -1.0 : f32
    %zero = arith.constant 0.0 : f32
    attn.yield %none, %nowhere, %none, %nowhere, %zero : f32, f32, f32, f32, f32
  }
  combine {
  ^bb0(%a1: f32, %i1: f32, %a2: f32, %i2: f32, %m: f32, %b1: f32, %j1: f32, %b2: f32, %j2: f32, %n: f32, %least: f32):
    // The best of each, and then the better of the loser and the winner's second.
    %b_wins = arith.cmpf ogt, %b1, %a1 : f32
    %c1 = arith.select %b_wins, %b1, %a1 : f32
    %k1 = arith.select %b_wins, %j1, %i1 : f32
    %keep = arith.cmpf oge, %a1, %b2 : f32
    %a_loses = arith.select %keep, %a1, %b2 : f32
    %a_place = arith.select %keep, %i1, %j2 : f32
    %next = arith.cmpf ogt, %b1, %a2 : f32
    %b_loses = arith.select %next, %b1, %a2 : f32
    %b_place = arith.select %next, %j1, %i2 : f32
    %c2 = arith.select %b_wins, %a_loses, %b_loses : f32
    %k2 = arith.select %b_wins, %a_place, %b_place : f32
    %count = arith.addf %m, %n : f32
    attn.yield %c1, %k1, %c2, %k2, %count : f32, f32, f32, f32, f32
  }
  lift {
  ^bb0(%s: f32, %j: i32, %least: f32):
    %none = arith.constant -3.40282347e+38 : f32
    %nowhere = arith.constant -1.0 : f32
    %place = arith.sitofp %j : i32 to f32
    %above = arith.cmpf oge, %s, %least : f32
    %one = arith.uitofp %above : i1 to f32
    attn.yield %s, %place, %none, %nowhere, %one : f32, f32, f32, f32, f32
  }
  finalize {
  ^bb0(%c1: f32, %k1: f32, %c2: f32, %k2: f32, %n: f32, %least: f32):
    %none = arith.constant -3.40282347e+38 : f32
    %inf = arith.constant 0x7F800000 : f32
    %alone = arith.cmpf ole, %c2, %none : f32
    %difference = arith.subf %c1, %c2 : f32
    %margin = arith.select %alone, %inf, %difference : f32
    attn.yield %c1, %k1, %c2, %k2, %margin, %n : f32, f32, f32, f32, f32, f32
  }
}

// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @turn_columns(%a: !tile.tile<8x16xf32>) {
  // expected-error@+1 {{expected an even number of the 16 columns to be pairs, but got 18}}
  %r = tile.turn %a, #attn.rotary<18, halves> {
  ^bb0(%r: i32, %c: i32, %x: f32, %y: f32):
    tile.yield %x, %y : f32, f32
  } : !tile.tile<8x16xf32>
  return
}

// -----

func.func @turn_body(%a: !tile.tile<8x16xf32>) {
  // expected-error@+1 {{expected its body to take (i32, i32, f32, f32), but it takes (f32, f32)}}
  %r = tile.turn %a, #attn.rotary<16, interleaved> {
  ^bb0(%x: f32, %y: f32):
    tile.yield %x, %y : f32, f32
  } : !tile.tile<8x16xf32>
  return
}

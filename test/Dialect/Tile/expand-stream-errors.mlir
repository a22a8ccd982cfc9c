// RUN: attn-opt %s --split-input-file --tile-expand-stream --verify-diagnostics

func.func @no_kernel(%n: index, %x: f32) {
  // expected-error@+1 {{expected to be in a tile.kernel with a schedule, which says what loops it becomes (loop = peeled, masked or plain)}}
  %y = tile.stream keys(%n to %n) live(%n to %n) step 8 init(%x : f32) partial {
  ^bb0(%j: index, %whole: i1, %s: f32):
    tile.yield %s : f32
  }
  return
}

// -----

tile.kernel @no_schedule(%n: index, %x: f32, %block: index) {
  // expected-error@+1 {{expected to be in a tile.kernel with a schedule}}
  %y = tile.stream keys(%n to %n) live(%n to %n) step 8 init(%x : f32) partial {
  ^bb0(%j: index, %whole: i1, %s: f32):
    tile.yield %s : f32
  }
  tile.return
}

// -----

// expected-error@+1 {{expected attn.target to be one of}}
module attributes {attn.target = "toaster"} {}

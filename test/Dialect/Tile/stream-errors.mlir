// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @stream_c1(%n: index, %x: f32) {
  // expected-error@+1 {{expected tiles of one or more keys, but got 0}}
  %y = tile.stream keys(%n to %n) live(%n to %n) step 0 init(%x : f32) partial {
  ^bb0(%j: index, %whole: i1, %s: f32):
    tile.yield %s : f32
  }
  return
}

// -----

func.func @stream_c2(%n: index, %x: f32) {
  // expected-error@+1 {{expected either keys(..) and live(..), or listed(..)}}
  %y = tile.stream keys(%n to %n) step 8 init(%x : f32) partial {
  ^bb0(%j: index, %whole: i1, %s: f32):
    tile.yield %s : f32
  }
  return
}

// -----

func.func @stream_c2_listed(%n: index, %x: f32) {
  // expected-error@+1 {{expected no core(..), linear(..) or 'classify' beside listed(..), which says what tiles are}}
  %y = tile.stream core(%n to %n) listed(%n, %n) step 8 init(%x : f32) partial {
  ^bb0(%j: index, %whole: i1, %s: f32):
    tile.yield %s : f32
  }
  return
}

// -----

func.func @stream_c2_number(%n: index, %x: f32) {
  // expected-error@+1 {{expected 'number' with listed(..), and only there}}
  %y = tile.stream listed(%n, %n) step 8 init(%x : f32) partial {
  ^bb0(%j: index, %tile: index, %place: index, %ragged: i1, %s: f32):
    tile.yield %s : f32
  }
  return
}

// -----

func.func @stream_c2_ahead(%n: index, %x: f32) {
  // expected-error@+1 {{expected listed(..) with ahead}}
  %y = tile.stream keys(%n to %n) live(%n to %n) ahead step 8 init(%x : f32) partial {
  ^bb0(%j: index, %whole: i1, %s: f32):
    tile.yield %s : f32
  }
  return
}

// -----

func.func @stream_c3_linear(%n: index, %p: i1, %x: f32) {
  // expected-error@+1 {{expected 'linear' with linear(..) and core(..), and only there}}
  %y = tile.stream keys(%n to %n) live(%n to %n) linear(%p) step 8 init(%x : f32) partial {
  ^bb0(%j: index, %whole: i1, %s: f32):
    tile.yield %s : f32
  }
  return
}

// -----

func.func @stream_c3_full(%n: index, %x: f32) {
  // expected-error@+1 {{expected 'full' with core(..)}}
  %y = tile.stream keys(%n to %n) live(%n to %n) core(%n to %n) step 8 init(%x : f32) partial {
  ^bb0(%j: index, %whole: i1, %s: f32):
    tile.yield %s : f32
  }
  return
}

// -----

func.func @stream_c3_both(%n: index, %p: i1, %x: f32) {
  // expected-error@+1 {{expected no 'full' beside 'linear'}}
  %y = tile.stream keys(%n to %n) live(%n to %n) core(%n to %n) linear(%p) step 8 init(%x : f32) full {
  ^bb0(%j: index, %s: f32):
    tile.yield %s : f32
  } linear {
  ^bb0(%j: index, %left: i1, %s: f32):
    tile.yield %s : f32
  } partial {
  ^bb0(%j: index, %whole: i1, %s: f32):
    tile.yield %s : f32
  }
  return
}

// -----

func.func @stream_c4_arguments(%n: index, %x: f32) {
  // expected-error@+1 {{expected 'partial' to take (index, i1, f32), but it takes (index, f32)}}
  %y = tile.stream keys(%n to %n) live(%n to %n) step 8 init(%x : f32) partial {
  ^bb0(%j: index, %s: f32):
    tile.yield %s : f32
  }
  return
}

// -----

func.func @stream_c4_yields(%n: index, %x: f32) {
  // expected-error@+1 {{expected 'classify' to yield (i1, i1), but it yields (i1)}}
  %y = tile.stream keys(%n to %n) live(%n to %n) step 8 init(%x : f32) classify {
  ^bb0(%j: index):
    %dead = arith.cmpi sgt, %j, %n : index
    tile.yield %dead : i1
  } partial {
  ^bb0(%j: index, %whole: i1, %s: f32):
    tile.yield %s : f32
  }
  return
}

// -----

func.func @stream_c4_end(%n: index, %x: f32) {
  // expected-error@+1 {{expected 'partial' to end with tile.yield}}
  %y = tile.stream keys(%n to %n) live(%n to %n) step 8 init(%x : f32) partial {
  ^bb0(%j: index, %whole: i1, %s: f32):
    func.return
  }
  return
}

// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @scan_c1(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %n: tensor<?xi32>) {
  // expected-error@+1 {{expected queries, keys and values [h, total, d], as cu_seqlens has them}}
  %o:1 = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) cu_seqlens(%n : tensor<?xi32>)
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c2(%q: tensor<?x?x?x32xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>) {
  // expected-error@+1 {{expected static channels, those of queries and keys equal}}
  %o:1 = attn.scan queries(%q : tensor<?x?x?x32xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>)
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c2_rows(%q: tensor<?x?x3x16xf32>, %k: tensor<?x?x4x16xf32>, %v: tensor<?x?x?x32xf32>) {
  // expected-error@+1 {{expected batches and tokens of queries, keys and values to agree}}
  %o:1 = attn.scan queries(%q : tensor<?x?x3x16xf32>) keys(%k : tensor<?x?x4x16xf32>) values(%v : tensor<?x?x?x32xf32>)
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c3(%q: tensor<?x4x?x16xf32>, %k: tensor<?x2x?x16xf32>, %v: tensor<?x3x?x32xf32>) {
  // expected-error@+1 {{expected heads that divide each other, but got 4 of queries, 2 of keys and 3 of values}}
  %o:1 = attn.scan queries(%q : tensor<?x4x?x16xf32>) keys(%k : tensor<?x2x?x16xf32>) values(%v : tensor<?x3x?x32xf32>)
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c4(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf16>) {
  // expected-error@+1 {{expected queries, keys and values of one type}}
  %o:1 = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf16>)
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c5(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %g: tensor<?x?x?x32xf32>) {
  // expected-error@+1 {{expected decay for each token of a state head, with 16 channels}}
  %o:1 = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) decay(%g : tensor<?x?x?x32xf32>)
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c5_rank(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %g: tensor<?x?x?x16xf32>) {
  // expected-error@+1 {{expected weight for each token of a state head, like}}
  %o:1 = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) weight(%g : tensor<?x?x?x16xf32>)
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c5_values(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %g: tensor<?x?x?xf32>) {
  // expected-error@+1 {{expected decay for each value channel, as value_gates says}}
  %o:1 = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) decay(%g : tensor<?x?x?xf32>) {value_gates}
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c5_none(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>) {
  // expected-error@+1 {{expected decay beside value_gates}}
  %o:1 = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) {value_gates}
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c6(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %g: tensor<?x?x?xf32>) {
  // expected-error@+1 {{expected delta or erase, without weights, value_gates and normalize}}
  %o:1 = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) weight(%g : tensor<?x?x?xf32>) delta(%g : tensor<?x?x?xf32>)
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c6_normalize(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %g: tensor<?x?x?xf32>) {
  // expected-error@+1 {{expected delta or erase, without weights, value_gates and normalize}}
  %o:1 = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) delta(%g : tensor<?x?x?xf32>) {normalize}
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c6_before(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>) {
  // expected-error@+1 {{expected erase beside erase_before}}
  %o:1 = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) {erase_before}
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c7(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %g: tensor<?x?x?xf32>, %d: tensor<?x?x?x16xf32>) {
  // expected-error@+1 {{expected log_weight without weight and without gates for each channel}}
  %o:1 = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) decay(%d : tensor<?x?x?x16xf32>) log_weight(%g : tensor<?x?x?xf32>)
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c8(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %d: tensor<?x?x?x32xf32>) {
  // expected-error@+1 {{expected value_gates without normalize}}
  %o:1 = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) decay(%d : tensor<?x?x?x32xf32>) {value_gates, normalize}
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c9(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %u: tensor<?x16xf32>) {
  // expected-error@+1 {{expected bonus [h, 16] with read_before and without normalize}}
  %o:1 = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) bonus(%u : tensor<?x16xf32>)
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c9_log(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %g: tensor<?x?x?xf32>) {
  // expected-error@+1 {{expected read_before without log_weight}}
  %o:1 = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) log_weight(%g : tensor<?x?x?xf32>) {read_before}
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c10(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %s: tensor<?x?x16x32xf32>) {
  // expected-error@+1 {{expected init of 2 tensors (S, then z with normalize, m with log_weight), but got 1}}
  %o:1 = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) init(%s : tensor<?x?x16x32xf32>) {normalize}
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c10_shape(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %s: tensor<?x?x?x16xf32>) {
  // expected-error@+1 {{expected init of f32 and shapes [n, h, 16, 32], [n, h, 16] and [n, h]}}
  %o:1 = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) init(%s : tensor<?x?x?x16xf32>)
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c10_slots(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %s: tensor<?x?x16x32xf32>, %i: tensor<?xi32>) {
  // expected-error@+1 {{expected slots without init and final}}
  %o:1 = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) slots(%s : tensor<?x?x16x32xf32>) index(%i : tensor<?xi32>) {final}
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c11(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %g: tensor<?x?x?xf32>) {
  // expected-error@+1 {{expected whole without decay, delta, erase, log_weight and read_before}}
  %o:1 = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) decay(%g : tensor<?x?x?xf32>) {whole}
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c12(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>) {
  // expected-error@+1 {{expected chunk to be 1 or a power of two from 16 to 128, but got 48}}
  %o:1 = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) {chunk = 48 : i64}
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c13(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>) {
  // expected-error@+1 {{expected feature to take and yield one f32}}
  %o:1 = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) feature {
  ^bb0(%x: f16):
    attn.yield %x : f16
  }
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c14(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>) {
  // expected-error@+1 {{expected 2 results, but got 1}}
  %o:1 = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) {final}
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c14_shape(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>) {
  // expected-error@+1 {{expected outputs like values}}
  %o:1 = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>)
      -> tensor<?x?x?x16xf32>
  return
}

// -----

func.func @scan_c15(%q: tensor<?x?x16xf32>, %k: tensor<?x?x16xf32>, %v: tensor<?x?x32xf32>, %i: tensor<?xi32>) {
  // expected-error@+1 {{expected lengths without cu_seqlens, which says them}}
  %o:1 = attn.scan queries(%q : tensor<?x?x16xf32>) keys(%k : tensor<?x?x16xf32>) values(%v : tensor<?x?x32xf32>) cu_seqlens(%i : tensor<?xi32>) lengths(%i : tensor<?xi32>)
      -> tensor<?x?x32xf32>
  return
}

// -----

func.func @scan_c16(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>) {
  // expected-error@+1 {{expected segments between 1 and 1024, but got 0}}
  %o:1 = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) {segments = 0 : i64}
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c16_delta(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %g: tensor<?x?x?xf32>) {
  // expected-error@+1 {{expected segments without cu_seqlens, slots, whole, delta, erase and log_weight}}
  %o:1 = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) delta(%g : tensor<?x?x?xf32>) {segments = 2 : i64}
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c10_index(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %i: tensor<?xi32>) {
  // expected-error@+1 {{expected slots beside index}}
  %o = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) index(%i : tensor<?xi32>)
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c10_narrow(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %s: tensor<?x?x16x32xf32>, %z: tensor<?x?x16xbf16>) {
  // expected-error@+1 {{expected slots of f32 and shapes [n, h, 16, 32], [n, h, 16] and [n, h], but got 'tensor<?x?x16xbf16>'}}
  %o = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) slots(%s, %z : tensor<?x?x16x32xf32>, tensor<?x?x16xbf16>) {normalize}
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c13_gate_without_decay(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>) {
  // expected-error@+1 {{expected decay beside gate}}
  %o = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) gate {
  ^bb0(%x: f32):
    attn.yield %x : f32
  }
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c13_gate_capture(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %g: tensor<?x?x?xf32>, %b: tensor<?x16xf32>) {
  // expected-error@+1 {{expected captures of gate [h], but got 'tensor<?x16xf32>'}}
  %o = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) decay(%g : tensor<?x?x?xf32>) gate(%b : tensor<?x16xf32>) {
  ^bb0(%x: f32, %a: f32):
    attn.yield %a : f32
  }
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c13_gate_arguments(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %g: tensor<?x?x?xf32>) {
  // expected-error@+1 {{expected gate to take and yield one f32}}
  %o = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) decay(%g : tensor<?x?x?xf32>) gate {
  ^bb0(%x: f32, %a: f32):
    attn.yield %a : f32
  }
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c13_finalize_capture(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %z: tensor<?x16xf32>) {
  // expected-error@+1 {{expected captures of finalize [h], [h, 32] or like the outputs, but got 'tensor<?x16xf32>'}}
  %o = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) finalize(%z : tensor<?x16xf32>) {
  ^bb0(%x: f32, %a: f32):
    attn.yield %a : f32
  }
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c13_finalize_arguments(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %z: tensor<?x32xf32>) {
  // expected-error@+1 {{expected finalize to take 2 f32, an element and those of its captures, and to yield one}}
  %o = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) finalize(%z : tensor<?x32xf32>) {
  ^bb0(%x: f32):
    attn.yield %x : f32
  }
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c10_values_first(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %s: tensor<?x?x16x32xf32>) {
  // expected-error@+1 {{expected slots of f32 and shapes [n, h, 32, 16], [n, h, 16] and [n, h], but got 'tensor<?x?x16x32xf32>'}}
  %o = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) slots(%s : tensor<?x?x16x32xf32>) {values_first}
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @scan_c10_pool(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x32xf32>, %s: tensor<?x?x16x32xf32>) {
  %pool = arith.negf %s : tensor<?x?x16x32xf32>
  // expected-error@+1 {{expected a pool to be an argument of the function}}
  %o = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%k : tensor<?x?x?x16xf32>) values(%v : tensor<?x?x?x32xf32>) slots(%pool : tensor<?x?x16x32xf32>)
      -> tensor<?x?x?x32xf32>
  return
}

// -----

func.func @attributes(%q: tensor<?x?x?x16xf32>) {
  // expected-error@+1 {{'attn.scan' op expected attributes that it has, or of a dialect, but got 'normalise'}}
  %o:1 = attn.scan queries(%q : tensor<?x?x?x16xf32>) keys(%q : tensor<?x?x?x16xf32>) values(%q : tensor<?x?x?x16xf32>) {normalise}
      -> tensor<?x?x?x16xf32>
  return
}

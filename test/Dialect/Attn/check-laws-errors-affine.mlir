// RUN: attn-opt %s --split-input-file --verify-diagnostics --attn-check-laws

// Of kind affine: factors that are none. The right ones are those of @mlstm.

// Beta without the point that weights are relative to.
// expected-error@+1 {{breaks the law "factors beside the identity: alpha(a, e) = 1 = beta(e, a)"}}
attn.monoid @wrong_beta affine stats(f32, f32) components(value, unit) {
  identity {
    %zero = arith.constant 0.0 : f32
    %none = arith.constant -3.40282347e+38 : f32
    attn.yield %zero, %none : f32, f32
  }
  combine {
  ^bb0(%fa: f32, %ma: f32, %fb: f32, %mb: f32):
    %f = arith.addf %fa, %fb : f32
    %decayed = arith.addf %ma, %fb : f32
    %m = arith.maximumf %decayed, %mb : f32
    attn.yield %f, %m : f32, f32
  }
  factors {
  ^bb0(%fa: f32, %ma: f32, %fb: f32, %mb: f32):
    %decayed = arith.addf %ma, %fb : f32
    %m = arith.maximumf %decayed, %mb : f32
    %da = arith.subf %decayed, %m : f32
    %alpha = math.exp %da : f32
    %beta = math.exp %mb : f32
    attn.yield %alpha, %beta : f32, f32
  }
  lift {
  ^bb0(%s: f32, %log_gate: f32, %log_weight: f32):
    %none = arith.constant -3.40282347e+38 : f32
    %m = arith.maximumf %log_weight, %none : f32
    attn.yield %log_gate, %m, %s, %s : f32, f32, f32, f32
  }
}

// -----

// A second state that the first one's gates scale.
// expected-error@+1 {{breaks the law "factors beside the identity: alpha(a, e) = 1 = beta(e, a)"}}
attn.monoid @beta_of_gates affine stats(f32, f32) components(value, unit) {
  identity {
    %zero = arith.constant 0.0 : f32
    %none = arith.constant -3.40282347e+38 : f32
    attn.yield %zero, %none : f32, f32
  }
  combine {
  ^bb0(%fa: f32, %ma: f32, %fb: f32, %mb: f32):
    %f = arith.addf %fa, %fb : f32
    %decayed = arith.addf %ma, %fb : f32
    %m = arith.maximumf %decayed, %mb : f32
    attn.yield %f, %m : f32, f32
  }
  factors {
  ^bb0(%fa: f32, %ma: f32, %fb: f32, %mb: f32):
    %decayed = arith.addf %ma, %fb : f32
    %m = arith.maximumf %decayed, %mb : f32
    %da = arith.subf %decayed, %m : f32
    %alpha = math.exp %da : f32
    %db = arith.subf %mb, %m : f32
    %one = math.exp %db : f32
    %gate = math.exp %fb : f32
    %beta = arith.mulf %one, %gate : f32
    attn.yield %alpha, %beta : f32, f32
  }
  lift {
  ^bb0(%s: f32, %log_gate: f32, %log_weight: f32):
    %none = arith.constant -3.40282347e+38 : f32
    %m = arith.maximumf %log_weight, %none : f32
    attn.yield %log_gate, %m, %s, %s : f32, f32, f32, f32
  }
}

// -----

// A first state that its own gates scale again.
// expected-error@+1 {{breaks the law "factors beside the identity: alpha(a, e) = 1 = beta(e, a)"}}
attn.monoid @alpha_of_both affine stats(f32, f32) components(value, unit) {
  identity {
    %zero = arith.constant 0.0 : f32
    %none = arith.constant -3.40282347e+38 : f32
    attn.yield %zero, %none : f32, f32
  }
  combine {
  ^bb0(%fa: f32, %ma: f32, %fb: f32, %mb: f32):
    %f = arith.addf %fa, %fb : f32
    %decayed = arith.addf %ma, %fb : f32
    %m = arith.maximumf %decayed, %mb : f32
    attn.yield %f, %m : f32, f32
  }
  factors {
  ^bb0(%fa: f32, %ma: f32, %fb: f32, %mb: f32):
    %decayed = arith.addf %ma, %fb : f32
    %m = arith.maximumf %decayed, %mb : f32
    %da = arith.subf %decayed, %m : f32
    %one = math.exp %da : f32
    %gate = math.exp %fa : f32
    %alpha = arith.mulf %one, %gate : f32
    %db = arith.subf %mb, %m : f32
    %beta = math.exp %db : f32
    attn.yield %alpha, %beta : f32, f32
  }
  lift {
  ^bb0(%s: f32, %log_gate: f32, %log_weight: f32):
    %none = arith.constant -3.40282347e+38 : f32
    %m = arith.maximumf %log_weight, %none : f32
    attn.yield %log_gate, %m, %s, %s : f32, f32, f32, f32
  }
}

// -----

// A first state that the square of its distance scales.
// expected-error@+1 {{breaks the law "factors of three states: alpha(ab, c) * }}
attn.monoid @squared_alpha affine stats(f32, f32) components(value, unit) {
  identity {
    %zero = arith.constant 0.0 : f32
    %none = arith.constant -3.40282347e+38 : f32
    attn.yield %zero, %none : f32, f32
  }
  combine {
  ^bb0(%fa: f32, %ma: f32, %fb: f32, %mb: f32):
    %f = arith.addf %fa, %fb : f32
    %decayed = arith.addf %ma, %fb : f32
    %m = arith.maximumf %decayed, %mb : f32
    attn.yield %f, %m : f32, f32
  }
  factors {
  ^bb0(%fa: f32, %ma: f32, %fb: f32, %mb: f32):
    %decayed = arith.addf %ma, %fb : f32
    %m = arith.maximumf %decayed, %mb : f32
    %d = arith.subf %decayed, %m : f32
    %square = arith.mulf %d, %d : f32
    %da = arith.negf %square : f32
    %alpha = math.exp %da : f32
    %db = arith.subf %mb, %m : f32
    %beta = math.exp %db : f32
    attn.yield %alpha, %beta : f32, f32
  }
  lift {
  ^bb0(%s: f32, %log_gate: f32, %log_weight: f32):
    %none = arith.constant -3.40282347e+38 : f32
    %m = arith.maximumf %log_weight, %none : f32
    attn.yield %log_gate, %m, %s, %s : f32, f32, f32, f32
  }
}

// -----

// Gates that decay the sums, and not the point.
// expected-error@+1 {{breaks the law "}}
attn.monoid @without_gates affine stats(f32, f32) components(value, unit) {
  identity {
    %zero = arith.constant 0.0 : f32
    %none = arith.constant -3.40282347e+38 : f32
    attn.yield %zero, %none : f32, f32
  }
  combine {
  ^bb0(%fa: f32, %ma: f32, %fb: f32, %mb: f32):
    %f = arith.addf %fa, %fb : f32
    %m = arith.maximumf %ma, %mb : f32
    attn.yield %f, %m : f32, f32
  }
  factors {
  ^bb0(%fa: f32, %ma: f32, %fb: f32, %mb: f32):
    %decayed = arith.addf %ma, %fb : f32
    %m = arith.maximumf %decayed, %mb : f32
    %da = arith.subf %decayed, %m : f32
    %alpha = math.exp %da : f32
    %db = arith.subf %mb, %m : f32
    %beta = math.exp %db : f32
    attn.yield %alpha, %beta : f32, f32
  }
  lift {
  ^bb0(%s: f32, %log_gate: f32, %log_weight: f32):
    %none = arith.constant -3.40282347e+38 : f32
    %m = arith.maximumf %log_weight, %none : f32
    attn.yield %log_gate, %m, %s, %s : f32, f32, f32, f32
  }
}

// RUN: attn-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{expected block_q at most once}}
func.func private @schedule() attributes {s = #attn.schedule<block_q = 64, block_q = 32>}

// -----

// expected-error@+1 {{expected loop to be one of peeled, masked, plain, but got 'round'}}
func.func private @schedule() attributes {s = #attn.schedule<loop = round>}

// -----

// expected-error@+1 {{expected overlap to be one of next_step, own_step, none, but got 'maybe'}}
func.func private @schedule() attributes {s = #attn.schedule<overlap = maybe>}

// -----

// expected-error@+1 {{expected pack_heads to be one of true, false, but got 'heads'}}
func.func private @schedule() attributes {s = #attn.schedule<pack_heads = heads>}

// -----

// expected-error@+1 {{expected block_q to be at most 1024 where heads are packed, but got 2048}}
func.func private @schedule() attributes {s = #attn.schedule<block_q = 2048, rows = 64, block_k = 64, pack_heads = true>}

// -----

// expected-error@+1 {{expected cluster to be 1, 2, 4 or 8, but got 3}}
func.func private @schedule() attributes {s = #attn.schedule<block_q = 64, rows = 64, block_k = 64, cluster = 3>}

// -----

// expected-error@+1 {{expected heads of their own where blocks form clusters, but got cluster = 2}}
func.func private @schedule() attributes {s = #attn.schedule<block_q = 64, rows = 64, block_k = 64, pack_heads = true, cluster = 2>}

// -----

// expected-error@+1 {{expected splits = 1, or as many as cluster, where blocks form clusters, but got cluster = 4}}
func.func private @schedule() attributes {s = #attn.schedule<block_q = 64, rows = 64, block_k = 64, splits = 2, cluster = 4>}

// -----

// expected-error@+1 {{expected turns to be one of none, products, softmax, but got 'maxima'}}
func.func private @schedule() attributes {s = #attn.schedule<turns = maxima>}

// -----

// expected-error@+1 {{expected two row blocks or more that take turns, but got rows = block_q = 64}}
func.func private @schedule() attributes {s = #attn.schedule<block_q = 64, rows = 64, block_k = 64, turns = products>}

// -----

// expected-error@+1 {{expected one of block_q, rows, block_k, splits, loop, stages, overlap, turns, pack_heads, cluster, order, section, section_keys, fetch, occupancy, block_v, share, rotate, pairs, but got 'tiles'}}
func.func private @schedule() attributes {s = #attn.schedule<tiles = 3>}

// -----

// expected-error@+1 {{expected block_q to be positive, but got 0}}
func.func private @schedule() attributes {s = #attn.schedule<block_q = 0, rows = 16, block_k = 64>}

// -----

// expected-error@+1 {{expected block_k to be positive, but got -64}}
func.func private @schedule() attributes {s = #attn.schedule<block_q = 64, rows = 16, block_k = -64>}

// -----

// expected-error@+1 {{expected block_k to be at most 1048576, but got 2097152}}
func.func private @schedule() attributes {s = #attn.schedule<block_q = 64, rows = 16, block_k = 2097152>}

// -----

// expected-error@+1 {{expected stages to be between 0 and 16, but got 17}}
func.func private @schedule() attributes {s = #attn.schedule<block_q = 64, rows = 16, block_k = 64, stages = 17>}

// -----

// expected-error@+1 {{expected rows to divide block_q, but got rows = 48 and block_q = 64}}
func.func private @schedule() attributes {s = #attn.schedule<block_q = 64, rows = 48, block_k = 64>}

// -----

// expected-error@+1 {{expected block_v to be between 0 and 2147483647, but got -256}}
func.func private @schedule() attributes {s = #attn.schedule<block_q = 64, rows = 64, block_k = 64, block_v = -256>}

// -----

// expected-error@+1 {{expected occupancy to be between 1 and 32, but got 33}}
func.func private @schedule() attributes {s = #attn.schedule<block_q = 64, rows = 64, block_k = 64, occupancy = 33>}

// -----

// expected-error@+1 {{expected fetch to be one of automatic, producer, ahead, late, but got 'early'}}
func.func private @schedule() attributes {s = #attn.schedule<fetch = early>}

// -----

// expected-error @below {{expected order to be one of in_order, longest_first, but got 'random'}}
func.func private @order() attributes {s = #attn.schedule<block_q = 1, rows = 1, block_k = 1, order = random>}

// -----

// expected-error @below {{expected section to be between 0 and 2147483647, but got -1}}
func.func private @section() attributes {s = #attn.schedule<block_q = 1, rows = 1, block_k = 1, section = -1>}

// RUN: attn-opt %s --verify-diagnostics --split-input-file

tile.kernel @number(%n: index, %block: index) {
  // expected-error @below {{expected the number of the block, the last argument of the kernel}}
  %b, %h, %t, %p = tile.work_tile %n in_order batches(%n) heads(%n) tiles(%n) parts(%n)
  tile.return
}

// -----

tile.kernel @twice(%n: index, %block: index) {
  %b, %h, %t, %p = tile.work_tile %block in_order batches(%n) heads(%n) tiles(%n) parts(%n)
  // expected-error @below {{expected one work tile in a kernel, but got two}}
  %b1, %h1, %t1, %p1 = tile.work_tile %block in_order batches(%n) heads(%n) tiles(%n) parts(%n)
  tile.return
}

// -----

func.func @outside(%n: index) {
  // expected-error @below {{expects parent op 'tile.kernel'}}
  %b, %h, %t, %p = tile.work_tile %n in_order batches(%n) heads(%n) tiles(%n) parts(%n)
  return
}

// -----

tile.kernel @neither(%n: index, %block: index) {
  // expected-error @below {{expected either batches(...) or varlen(...)}}
  %b, %h, %t, %p = tile.work_tile %block in_order heads(%n) tiles(%n) parts(%n)
  tile.return
}

// -----

tile.kernel @both(%n: index, %cu: memref<?xi32>, %block: index) {
  // expected-error @below {{expected either batches(...) or varlen(...)}}
  %b, %h, %t, %p = tile.work_tile %block in_order varlen(%cu : memref<?xi32>, %n) block_q(64) batches(%n) heads(%n) tiles(%n) parts(%n)
  tile.return
}

// -----

tile.kernel @no_rows(%n: index, %cu: memref<?xi32>, %block: index) {
  // expected-error @below {{expected block_q(...) with varlen(...) or counts(...), and not without}}
  %b, %h, %t, %p = tile.work_tile %block in_order varlen(%cu : memref<?xi32>, %n) heads(%n) tiles(%n) parts(%n)
  tile.return
}

// -----

tile.kernel @few_rows(%n: index, %cu: memref<?xi32>, %block: index) {
  // expected-error @below {{expected tiles of 1 row or more, but got 0}}
  %b, %h, %t, %p = tile.work_tile %block in_order varlen(%cu : memref<?xi32>, %n) block_q(0) heads(%n) tiles(%n) parts(%n)
  tile.return
}

// -----

tile.kernel @cluster(%n: index, %block: index) {
  // expected-error @below {{expected clusters of 2 to 8 blocks, but got 1}}
  %b, %h, %t, %p = tile.work_tile %block in_order cluster(1) batches(%n) heads(%n) tiles(%n) parts(%n)
  tile.return
}

// -----

tile.kernel @parts_of_no_cluster(%n: index, %block: index) {
  // expected-error @below {{expected by_parts beside cluster(...) only}}
  %b, %h, %t, %p = tile.work_tile %block in_order by_parts batches(%n) heads(%n) tiles(%n) parts(%n)
  tile.return
}

// -----

tile.kernel @sequences_in_clusters(%n: index, %cu: memref<?xi32>, %block: index) {
  // expected-error @below {{expected no cluster(...) with varlen(...) or counts(...), whose tiles blocks find one by one}}
  %b, %h, %t, %p = tile.work_tile %block in_order cluster(2) varlen(%cu : memref<?xi32>, %n) block_q(64) heads(%n) tiles(%n) parts(%n)
  tile.return
}

// -----

tile.kernel @counted_sequences(%n: index, %cu: memref<?xi32>, %block: index) {
  // expected-error @below {{expected no counts(...) with varlen(...), whose offsets say them}}
  %b, %h, %t, %p = tile.work_tile %block in_order varlen(%cu : memref<?xi32>, %n) counts(%cu : memref<?xi32>) block_q(64) heads(%n) tiles(%n) parts(%n)
  tile.return
}

// -----

func.func @nested(%p: i1) attributes {tile.plan} {
  scf.if %p {
    // expected-error@+1 {{expected to be at the top level of a function}}
    tile.dispatch %p to @other
  }
  return
}
func.func private @other(i1) attributes {tile.plan}

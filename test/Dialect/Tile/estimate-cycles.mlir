// RUN: attn-opt %s --tile-estimate-cycles=target=cpu-avx512 -o /dev/null 2>&1 | FileCheck %s
// RUN: not attn-opt %s --tile-estimate-cycles=target=sm_90a 2>&1 | FileCheck %s --check-prefix=GPU
// GPU: expected target to be one of host, cpu-generic

// Two loads for 16 keys, and there are two in a cycle.
// CHECK: remark: cycles: 0.062 for a key of a row, 0.000 for a key of a block of rows, 0 for a block, by the rates of cpu-avx512 with 64 FLOP a cycle
// CHECK-NEXT: bound by: loads 100%; for a key of a row 1 FLOP and 12 bytes of caches
tile.kernel @stores(%a: memref<?xf32>, %b: memref<?xf32>, %n: index, %rows: index, %block: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  scf.for %j = %c0 to %n step %c32 {
    scf.for %r = %c0 to %rows step %c1 {
      scf.for %i = %c0 to %c32 step %c16 {
        %x = vector.load %a[%i] : memref<?xf32>, vector<16xf32>
        %y = vector.load %b[%i] : memref<?xf32>, vector<16xf32>
        %z = arith.addf %x, %y : vector<16xf32>
        vector.store %z, %a[%i] : memref<?xf32>, vector<16xf32>
      }
    }
  }
  tile.return
}

// A sum of 1024 keys, one after the other, is longer than what waits at once;
// its product with a constant is not part of the chain. What is the same in
// each step, a division, is done once.
// CHECK: remark: cycles: 0.000 for a key of a row, 4.{{[0-9]*}} for a key of a block of rows
// CHECK-NEXT: bound by: steps that wait for another {{100|99}}%; for a key of a row 2 FLOP
tile.kernel @chain(%a: memref<?xf32>, %x: f32, %n: index, %block: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c1024 = arith.constant 1024 : index
  %zero = arith.constant 0.0 : f32
  %two = arith.constant 2.0 : f32
  scf.for %j = %c0 to %n step %c1024 {
    %sum = scf.for %i = %c0 to %c1024 step %c1 iter_args(%s = %zero) -> f32 {
      %same = arith.divf %two, %x : f32
      %value = memref.load %a[%i] : memref<?xf32>
      %product = arith.mulf %value, %same : f32
      %next = arith.addf %s, %product : f32
      scf.yield %next : f32
    }
    memref.store %sum, %a[%j] : memref<?xf32>
  }
  tile.return
}

// No loop over keys: nothing to say.
// CHECK-NOT: remark
tile.kernel @none(%a: memref<?xf32>, %block: index) {
  %zero = arith.constant 0.0 : f32
  memref.store %zero, %a[%block] : memref<?xf32>
  tile.return
}

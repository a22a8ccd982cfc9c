// RUN: attn-opt %s --convert-plan-to-llvm --split-input-file --verify-diagnostics

tile.kernel private @kernel(%o: memref<?xf32>, %block: index) {
  tile.return
}
func.func @arguments(%f: f32) attributes {tile.plan} {
  %c1 = arith.constant 1 : index
  // expected-error @+1 {{expected kernel 'kernel' to take the arguments (f32) and the block index, but it takes (memref<?xf32>, index)}}
  tile.launch @kernel grid(%c1) args(%f : f32)
  return
}

// -----

func.func private @function(%o: memref<?xf32>, %block: index) {
  return
}
func.func @no_kernel(%o: memref<?xf32>) attributes {tile.plan} {
  %c1 = arith.constant 1 : index
  // expected-error @+1 {{expected 'function' to be a tile.kernel in this module}}
  tile.launch @function grid(%c1) args(%o : memref<?xf32>)
  return
}

// -----

func.func @nested_workspace(%o: memref<?xf32>, %p: i1) attributes {tile.plan} {
  %c1 = arith.constant 1 : index
  scf.if %p {
    // expected-error @+1 {{expected to be at the top level of the plan}}
    %w = tile.workspace(%c1) : memref<?xf32>
  }
  return
}

// -----

// expected-error @+1 {{expected a plan to return nothing, but got 1 results; outputs are arguments}}
func.func @results(%f: f32) -> f32 attributes {tile.plan} {
  return %f : f32
}

// -----

// expected-error @+1 {{expected plan arguments to be strided memrefs with offset 0, but got 'memref<4xf32, strided<[1], offset: ?>>'}}
func.func @offset(%o: memref<4xf32, strided<[1], offset: ?>>) attributes {tile.plan} {
  return
}

// -----

// expected-error @+1 {{expected the kernel to be lowered, but got its body; run convert-tile-gpu-to-nvvm first}}
tile_gpu.kernel private @gpu_kernel(%n: index) {
  tile_gpu.return
}

// -----

// expected-error @+1 {{expected the declaration of a kernel to have launch = #tile_gpu.launch<...>}}
tile_gpu.kernel private @gpu_kernel(index)

// -----

tile.kernel private @kernel(%o: memref<?xf32>, %n: index, %block: index) {
  tile.return
}
func.func @few_arguments(%o: memref<?xf32>) attributes {tile.plan} {
  %c1 = arith.constant 1 : index
  // expected-error @+1 {{expected arguments and a block index of types ('memref<?xf32>', 'index', 'index'), but got ('memref<?xf32>', 'index')}}
  tile.launch @kernel grid(%c1) args(%o : memref<?xf32>)
  return
}

// -----

llvm.func @attn_entry_named()
// expected-error @+1 {{expected no symbol '@attn_entry_named' in the module; it is the name of this plan's entry}}
func.func @named(%o: memref<?xf32>) attributes {tile.plan} {
  return
}

// -----

func.func private @other(%n: index) attributes {tile.plan} {
  return
}

func.func @late(%n: index) attributes {tile.plan} {
  %true = arith.constant true
  %w = tile.workspace(%n) : memref<?xf32>
  // expected-error @below {{expected to come before 'tile.workspace'}}
  tile.dispatch %true to @other
  return
}

// -----

// expected-error @+1 {{expected a body; a plan launches kernels of its own module alone}}
tile.kernel private @elsewhere(%o: memref<?xf32>, %block: index)

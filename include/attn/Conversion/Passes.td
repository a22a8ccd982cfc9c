//===- Passes.td - Conversions between dialects ------------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CONVERSION_PASSES_TD
#define ATTN_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvertPlanToLLVM : Pass<"convert-plan-to-llvm", "::mlir::ModuleOp"> {
  let summary = "Lower plans and their kernels to the LLVM dialect";
  let description = [{
    Expects: plans (functions with `tile.plan` whose memref arguments have
    offset 0) that hold `tile.launch` and `tile.workspace`, and kernels
    (`tile.kernel`) in scf, vector, memref, arith, math, func,
    x86vector, amx and llvm. A kernel with `scratch_bytes` takes its
    scratch as last argument, after the block index. Plans of GPUs hold
    `tile_gpu.tensor_map`, `tile_gpu.reset`, `tile_gpu.tickets` and
    `tile_gpu.launch` of kernels that are declared with what a launch needs
    (`launch`).

    Produces: for each plan `@f` a function
    `attn_entry_f(args, runtime) -> i32` (include/attn/Runtime/Abi.h) that
    builds its memref descriptors from the argument records; for each launch a
    call of the runtime's `parallel_for` with a body that reads the kernel's
    arguments from the launching frame. Tensor maps, resets, tickets and
    launches on a GPU become calls of the runtime's `gpu`; the declarations of
    its kernels go, and their attributes are put on the kernels in the module's
    `gpu.module`, which is left as it is. Nothing but the entries is visible.
    Kernels may assume that pointers do not alias: outputs overlap no other
    argument.

    Example:

    ```mlir
    tile.kernel private @fill(%o: memref<?xf32>, %block: index) {
      %f = arith.constant 1.0 : f32
      memref.store %f, %o[%block] : memref<?xf32>
      tile.return
    }
    func.func @f(%o: memref<?xf32>) attributes {tile.plan} {
      %c0 = arith.constant 0 : index
      %n = memref.dim %o, %c0 : memref<?xf32>
      tile.launch @fill grid(%n) args(%o : memref<?xf32>)
      return
    }
    ```

    becomes `llvm.func @attn_entry_f(%args: !llvm.ptr, %runtime: !llvm.ptr) -> i32`.

    Numerics: bit-exact, except that functions of the math dialect become
    LLVM's intrinsics or libm's functions.

    Fails when: an operation has no lowering; a `tile.workspace` or
    `memref.alloc` is inside a region of the plan; a kernel of a GPU has a
    body.
  }];
  let options = [Option<
    "expandBF16", "expand-bf16", "bool", "false",
    "Convert between f32 and bf16 by integer arithmetic; for targets without "
    "AVX512-BF16, where LLVM would call a library function">];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect",
    "::mlir::cf::ControlFlowDialect", "::mlir::func::FuncDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect", "::mlir::affine::AffineDialect"
  ];
}

def ConvertTileToVector : Pass<"convert-tile-to-vector", "::mlir::ModuleOp"> {
  let summary = "Lower tile kernels to vector loops over cache-sized scratch";
  let description = [{
    Expects: kernels (`tile.kernel`) whose tiles have 1 column or a multiple
    of 16, operands of `tile.dot` and `tile.load` as attn-tile makes them.

    Produces: the same kernels on `scf`, `vector`, `memref`, `arith` and
    `math`, with one more argument, the scratch of the work tile
    (`memref<Nxi8>`), and the attribute `scratch_bytes = N`. Tile values
    become slices of the scratch at static offsets; states that loops carry
    are updated in place. A right operand of a dot is packed once per load
    into the panels that the micro kernel streams: f32 panels of a few vector
    registers' width, or pairs of bf16 (VNNI) for AMX tiles and AVX512-BF16.

    Example: `tile.fill %x : f32 -> !tile.tile<32x16xf32>` becomes a loop over
    rows that stores a `vector<16xf32>` splat of `%x`.

    Before:

    ```mlir
    tile.kernel @kernel(%m: memref<?x16xf32, strided<[?, 1]>>, %block: index) {
      %zero = arith.constant 0.0 : f32
      %c0 = arith.constant 0 : index
      %t = tile.fill %zero : f32 -> !tile.tile<32x16xf32>
      tile.store %t, %m[%block, %c0] : !tile.tile<32x16xf32>, memref<?x16xf32, strided<[?, 1]>>
      tile.return
    }
    ```

    Numerics: dots sum in f32 in a fixed order that depends on the target and
    the schedule only; row reductions take columns in a fixed interleaved
    order unless `ordered`. bf16 x bf16 products are exact before the sum;
    AVX512-BF16 and AMX flush denormal inputs.

    Fails when: a tile has a column count other than 1 or a multiple of 16, a
    right operand of a product is not a `tile.load`, tiles are used outside of
    tile ops, `scf.for` and `scf.if`, or a body holds an operation that has no
    vector form.
  }];
  let options = [
    Option<"target", "target", "std::string", "\"\"",
           "Target to generate code for; empty: the module's `attn.target`, "
           "else the host">
  ];
  let dependentDialects = [
    "::mlir::vector::VectorDialect", "::mlir::scf::SCFDialect",
    "::mlir::memref::MemRefDialect", "::mlir::math::MathDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect"
  ];
}

def ConvertTileToTileGPU
    : Pass<"convert-tile-to-tile-gpu", "::mlir::tile_gpu::KernelOp"> {
  let summary = "Lower tile ops inside roles to fragments in registers";
  let description = [{
    Expects: a `tile_gpu.kernel` in which each role computes on
    tiles of its member's rows: multiples of 64 for warpgroups, of 16 for
    warps. A tile in shared memory enters by an `unrealized_conversion_cast`
    from `!tile_gpu.smem`; a fragment or vector that a structural operation
    names (`ring.release ... after`) leaves by a cast to its own type.

    Produces: the same function without tile ops. A tile of several rows and
    columns becomes an accumulator fragment (of 16 bits: the left operand of a
    product), `Rx1` a row vector, `1xC` a column vector; loops and branches
    carry these. A `tile.dot` becomes `mma.issue` and, at once, its `mma.wait`
    on a warpgroup, and `mma.sync` on a warp; its `scale` becomes a map on the
    accumulator before it. A left operand that `transpose_lhs` transposes is a view
    of its tile in shared memory; a warp's fragment goes there first. An
    `accumulate` is a load, a map and a store of the threads that hold the
    elements, with `any_order` (and of vectors) a `global.reduce`. A `ramp` is the issue's own, with one `smem.ramp`
    in front of the roles, and a map behind the `mma.sync`. A 16-bit result of a map leaves the body in f32 and
    is rounded by `frag.convert`, into the operand's layout where a product
    reads it. f32 fragments are rounded before a store to 16-bit memory.

    Example:

    ```mlir
    # tile_gpu.kernel @kernel(%k: !tile_gpu.smem<64x64xbf16 swizzle 128>, %q: !tile_gpu.frag<16x64xbf16, a, warp>, %LSE: memref<?xf32>) {
    #   %c0 = arith.constant 0 : index
    #   %ninf = arith.constant 0xFF800000 : f32
    #   tile_gpu.role "compute" warps(4) {
    #   ^bb0(%warp: i32):
    %keys = builtin.unrealized_conversion_cast %k : !tile_gpu.smem<64x64xbf16 swizzle 128> to !tile.tile<64x64xbf16>
    %queries = builtin.unrealized_conversion_cast %q : !tile_gpu.frag<16x64xbf16, a, warp> to !tile.tile<16x64xbf16>
    %s = tile.dot %queries, %keys transpose_rhs : !tile.tile<16x64xbf16>, !tile.tile<64x64xbf16> -> !tile.tile<16x64xf32>
    %m = tile.reduce ins(%s : !tile.tile<16x64xf32>) identity(%ninf : f32) {
    ^bb0(%a: f32, %b: f32):
      %more = arith.cmpf ogt, %b, %a : f32
      %x = arith.select %more, %b, %a : f32
      tile.yield %x : f32
    } -> !tile.tile<16x1xf32>
    tile.store vector %m, %LSE[%c0] : !tile.tile<16x1xf32>, memref<?xf32>
    #     tile_gpu.yield
    #   }
    #   tile_gpu.return
    # }
    ```

    becomes

    ```mlir
    # tile_gpu.kernel @kernel(%k: !tile_gpu.smem<64x64xbf16 swizzle 128>, %q: !tile_gpu.frag<16x64xbf16, a, warp>, %LSE: memref<?xf32>) {
    #   %c0 = arith.constant 0 : index
    #   %ninf = arith.constant 0xFF800000 : f32
    #   tile_gpu.role "compute" warps(4) {
    #   ^bb0(%warp: i32):
    %kT = tile_gpu.smem.transpose %k : !tile_gpu.smem<64x64xbf16 swizzle 128>
    %f0 = arith.constant 0.0 : f32
    %zero = tile_gpu.frag.fill %f0 : f32 -> !tile_gpu.frag<16x64xf32, acc, warp>
    %s = tile_gpu.mma.sync %q, %kT, %zero : !tile_gpu.frag<16x64xbf16, a, warp>, !tile_gpu.smem<64x64xbf16 swizzle 128 transposed> -> !tile_gpu.frag<16x64xf32, acc, warp>
    %m = tile_gpu.reduce ins(%s : !tile_gpu.frag<16x64xf32, acc, warp>) identity(%ninf : f32) {
    ^bb0(%a: f32, %b: f32):
      %x = arith.maxnumf %b, %a : f32
      tile_gpu.yield %x : f32
    } -> !tile_gpu.vec<16xf32, row, warp>
    %row = arith.constant 0 : i32
    tile_gpu.global.store %m, %LSE[%row] : !tile_gpu.vec<16xf32, row, warp>, memref<?xf32>
    #     tile_gpu.yield
    #   }
    #   tile_gpu.return
    # }
    ```

    Numerics: bit-exact but for the order of sums, which is the matrix unit's
    and the fragment's, and for one choice of NaN: `select(a > b, a, b)`
    becomes `maxnumf` (and the like for minima) where b is a constant, and in
    reductions and maps of row vectors alone. There b is a running statistic,
    which this select keeps free of NaN as the instruction does.

    Fails when: a tile has more or fewer rows than a member can hold, lies in
    shared memory where registers are needed or the reverse, or an operation
    has no form on fragments.
  }];
  let dependentDialects = [
    "::mlir::tile_gpu::TileGPUDialect", "::mlir::arith::ArithDialect",
    "::mlir::memref::MemRefDialect"
  ];
}

def ConvertTileGPUToNVVM : Pass<"convert-tile-gpu-to-nvvm", "::mlir::ModuleOp"> {
  let summary = "Lower tile_gpu kernels to the LLVM dialect for PTX";
  let description = [{
    Expects: kernels (`tile_gpu.kernel` with a body) whose roles
    hold tile_gpu, scf, arith and math operations, memref.load and memref.dim,
    and a module whose `attn.target` is a GPU. `tile-gpu-verify-async` and
    `tile-gpu-verify-budget` have accepted them, and `tile-gpu-allocate-shared`
    has given them their shared memory.

    Produces: `gpu.module @attn_kernels` with one `llvm.func` for each kernel,
    and in place of the kernel its declaration with `launch`, where
    `tile_gpu.launch` finds what it needs.

    A tensor map is passed as 128 bytes by value, a memref as its pointer, its
    sizes and its strides (i64, those that the type knows as well), an index as
    i64, an i1 as i8, other scalars as they are. The grid has one dimension.

    Fragments become scalars of one thread in the layouts of wgmma and
    mma.sync; a product is one piece of assembly. Nothing is scheduled here, but
    for a release that names a reduction and a map, with a wait for a product
    behind it: both stand amid what the map computes, and a sum of that which is
    added to a scaled one is a chain that starts with this. A
    kernel whose schedule has `occupancy = N` gets registers for N blocks side by side on a
    multiprocessor.

    Example:

    ```mlir
    module attributes {attn.target = "sm_90a"} {
      tile_gpu.kernel private @fill(%m: memref<?x?xf32, strided<[?, 1]>>, %x: f32) {
        %c0 = arith.constant 0 : i32
        tile_gpu.role "fill" warpgroups(1) {
        ^bb0(%wg: i32):
          %f = tile_gpu.frag.fill %x : f32 -> !tile_gpu.frag<64x8xf32, acc>
          tile_gpu.global.store %f, %m[%c0, %c0] : !tile_gpu.frag<64x8xf32, acc>, memref<?x?xf32, strided<[?, 1]>>
          tile_gpu.yield
        }
        tile_gpu.return
      }
    }
    ```

    becomes `llvm.func @fill(%pointer: !llvm.ptr<1>, %size0: i64, %size1: i64,
    %stride0: i64, %stride1: i64, %x: f32)` with the attribute `nvvm.kernel`.

    Numerics: products of fragments accumulate in f32 in the order of the
    matrix instructions. A `mulf` whose only user is an `addf` or `subf` becomes
    an fma with it, unless the other operand is a product that shares a factor
    with it or has other users: `x * c - y * c` is zero where `x` is `y`.
    `math.exp2` is `ex2.approx.ftz` (2 ulp; results below 2^-126 are
    zero), `math.log2` is `lg2.approx`; `arith.divf` is exact unless it is
    marked `afn` or `arcp` (2 ulp, then). `math.tanh` marked `afn` is
    `tanh.approx` (2^-11 of its size), `math.exp` is `ex2.approx` of one
    product. An i32 that becomes a float under `tile.approximate` is converted
    in the first column of a thread's row and counted on from there: exact
    below 2^24, within one ulp beyond. Row reductions add four interleaved
    chains in each thread, then the threads of a row.

    Fails when: an operation has no form on the GPU, or is not in a role whose
    members are what holds its registers; a kernel has a name that PTX has not.
  }];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect",
    "::mlir::gpu::GPUDialect"
  ];
}

#endif // ATTN_CONVERSION_PASSES_TD

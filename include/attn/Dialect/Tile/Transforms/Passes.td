//===- Passes.td - Passes over the tile dialect ------------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILE_TRANSFORMS_PASSES_TD
#define ATTN_DIALECT_TILE_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def TileExpandSourcesPass : Pass<"tile-expand-sources", "::mlir::ModuleOp"> {
  let summary = "Find the rows of sequences in their tensors";
  let description = [{
    Expects: kernels whose loads, stores and extents have sources.

    Produces: if the rows of a sequence lie one after the other, loads and
    stores of the tensors themselves, at the offset of the sequence. Numbers of
    rows are computed from offsets, lengths and tables, which are read once for
    a batch. Pages and rings stay, for the loads of a target.

    Example: before

    ```mlir
    tile.kernel @kernel(%k: memref<?x?x64xf32, strided<[?, ?, 1]>>,
                        %cu: memref<?xi32>, %block: index) {
      %zero = arith.constant 0 : index
      %rows = tile.source %k varlen(%cu : memref<?xi32>)
          : memref<?x?x64xf32, strided<[?, ?, 1]>> -> !tile.source<?x?x?x64xf32>
      %n = tile.extent %rows[%block] : !tile.source<?x?x?x64xf32>
      %tile = tile.load %rows[%block, %zero, %zero, %zero] rows(%zero to %n)
          : !tile.source<?x?x?x64xf32> -> !tile.tile<32x64xf32>
      tile.return
    }
    ```

    Numerics: bit for bit.

    Fails when: never.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::scf::SCFDialect"];
}

def TileCountTrafficPass : Pass<"tile-count-traffic", "::mlir::ModuleOp"> {
  let summary = "Let a plan count the bytes that its tiles move";
  let description = [{
    Expects: a plan and its kernels for a CPU.

    Produces: beside each load and store of a tile, and each map that reads
    tensors element by element, an atomic addition of the bytes that it moves to a
    number in memory: of rows between its bounds, and of columns that the tensor
    has. `address` is where the process has those numbers, of 64 bits: bytes that
    tiles load, bytes that they store, and bytes of workspace.

    What is counted goes between memory and the tiles of a kernel, as though no
    cache had anything of the tile before: traffic as the analysis of algorithms
    for two levels of memory has it. The code is for this process alone.

    Example: before

    ```mlir
    tile.kernel @kernel(%k: memref<?x64xf32, strided<[?, 1]>>, %n: index,
                        %block: index) {
      %zero = arith.constant 0 : index
      %tile = tile.load %k[%block, %zero] rows(%zero to %n)
          : memref<?x64xf32, strided<[?, 1]>> -> !tile.tile<16x64xf32>
      tile.return
    }
    ```

    Numerics: bit for bit.

    Fails when: never.
  }];
  let options = [
    Option<"address", "address", "uint64_t", "0",
           "Where the numbers are in this process">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::LLVM::LLVMDialect"];
}

def TileExpandMathPass : Pass<"tile-expand-math", "::mlir::ModuleOp"> {
  let summary = "Expand math functions into vector arithmetic (approximate)";
  let description = [{
    Expects: `math` operations, and `arith.remf`, on f32 scalars and vectors in
    kernels, and on f16 and bf16, which become those of f32.

    Produces: `arith` and fused multiply-adds in their place, and a branch or a
    loop where a sine of more than 2^17 or a remainder needs one. Nothing calls a
    library: what is left (`sqrt`, `absf`, `copysign`, and rounding and `fma` of
    targets that have them) is an instruction. Functions of f64 stay, and are
    calls of libm, a lane at a time.

    Example: before

    ```mlir
    func.func @f(%x: vector<16xf32>) -> vector<16xf32> {
      %y = math.exp2 %x : vector<16xf32>
      return %y : vector<16xf32>
    }
    ```

    Numerics, in units in the last place of f32 and against float64, on any
    target (test/python/math_functions.py): at most 1.5 for `exp`, `exp2`,
    `expm1`, `log`, `log2`, `log1p`, `rsqrt`, `cbrt`, `cosh`, `tanh`, `sin`,
    `cos`, `acos`, `powf` and `fpowi`; 2.5 for `log10`, `sinh`, `asinh`, `acosh`,
    `atanh`, `asin`, `atan`, `atan2`, `tan` and `erf`; 4 for `erfc`; `floor`,
    `ceil`, `trunc`, `round`, `roundeven` and `remf` are exact. That is so for all
    arguments, also denormal and huge ones; NaN gives NaN, and infinities the
    limits. `exp2` marked `afn` has a relative error of 2.8e-6.

    `exp2(x)` is `2^n p(r)` with n the integer nearest x, r = x - n and p of
    degree 6, or 4 where marked `afn`. `tanh` is `1 - 2 / (e^2x + 1)`, below 0.6
    an odd polynomial of degree 11. In kernels whose products take bf16 operands
    it is `x q(|x|)` on AVX-512, with q a quadratic on each of 32 segments of
    [0, 5.3], and with a factor that all lanes share, `c tanh(x)`, in its
    coefficients: a relative error of at most 2.7e-5 (2^-15), beside scores of
    bf16 operands that have 2^-9; elsewhere an odd rational function of degree 13
    over 6 on [-7.9, 7.9], at most 3e-7.

    Fails when: the target is no CPU. An operation without an expansion is left
    alone.
  }];
  let options = [
    Option<"target", "target", "std::string", "\"\"",
           "Target to generate code for; empty: the module's `attn.target`, "
           "else the host">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::math::MathDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect",
    "::mlir::LLVM::LLVMDialect"
  ];
}

def TileExpandStreamPass : Pass<"tile-expand-stream", "::mlir::ModuleOp"> {
  let summary = "Turn streams of key tiles into loops";
  let description = [{
    Expects: `tile.stream` in kernels with a schedule.

    Produces: `scf.for` loops with copies of the bodies, as the schedule's `loop`
    says. `plain` is one loop over all keys, each tile partial. `masked` is one
    loop over the live ones; `classify`, where there is one, sends each tile to a
    body. `peeled` is a loop of partial tiles up to the core, one of the core's
    full or linear tiles, and one of partial tiles; without a core it is one of
    partial tiles, of which those are skipped that `classify` says are dead.
    Lists become a loop for each.

    On a target whose warps have roles, where a row block is that of a product
    of a warpgroup and no tile may turn out dead, the first tile of peeled loops
    and of lists stands ahead of them, in the partial body: its products have
    nothing to run beside (`tile-gpu-assign-stages`), those of later ones do.

    Arguments that tell a body what is known of a tile become constants where
    the loop knows; canonicalization then drops the tests.

    Example:

    ```mlir
    module attributes {attn.target = "cpu-avx2"} {
    tile.kernel @kernel(%sums: memref<?xf32>, %keys: index, %block: index)
        attributes {schedule = #attn.schedule<block_q = 1, rows = 1,
                                              block_k = 64>} {
      %c0 = arith.constant 0 : index
      %x = arith.constant 0.0 : f32
      %y = tile.stream keys(%c0 to %keys) live(%c0 to %keys) core(%c0 to %keys)
          step 64 init(%x : f32)
          full {
          ^bb0(%j: index, %sum: f32):
            %next = arith.addf %sum, %sum : f32
            tile.yield %next : f32
          } partial {
          ^bb0(%j: index, %whole: i1, %sum: f32):
            tile.yield %sum : f32
          }
      memref.store %y, %sums[%block] : memref<?xf32>
      tile.return
    }
    }
    ```

    Numerics: the order of tiles is the stream's, whatever the loops.

    Fails when: a stream is in no kernel with a schedule, or the module's
    `attn.target` is unknown.
  }];
  let statistics = [
    Statistic<"numExpanded", "num-expanded", "Streams that became loops">,
    Statistic<"numApart", "num-apart",
              "Those whose first tile stands ahead of the loops">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::scf::SCFDialect"];
}

def TileEstimateCyclesPass : Pass<"tile-estimate-cycles", "::mlir::ModuleOp"> {
  let summary = "Say how many cycles kernels take, by the target's rates";
  let description = [{
    Expects: kernels of vectors for a CPU, with math expanded.

    Produces: a remark for each kernel with a loop over tiles of keys, and no
    change. It has the cycles of a core for each key of a row, for each key of a
    block of rows (packing) and for each block (its queries and outputs), what
    bounds the first, and the f32 operations and bytes of caches in it. Where
    there are several loops over keys, as with a mask, the cheapest one counts:
    whole tiles.

    Loops of constant bounds are added up. Straight code takes as long as what it
    keeps busiest, of the rates in `TargetInfo`. A loop whose steps need the one
    before takes as long as these, where more of them than fit the window of
    instructions in flight follow each other.

    Example: before

    ```mlir
    tile.kernel @kernel(%scores: memref<1024xf32>, %n: index) {
      %c0 = arith.constant 0 : index
      %c16 = arith.constant 16 : index
      %c32 = arith.constant 32 : index
      scf.for %j = %c0 to %n step %c32 {
        scf.for %i = %c0 to %c32 step %c16 {
          %x = vector.load %scores[%i] : memref<1024xf32>, vector<16xf32>
          %y = arith.addf %x, %x : vector<16xf32>
          vector.store %y, %scores[%i] : memref<1024xf32>, vector<16xf32>
        }
      }
      tile.return
    }
    ```

    Numerics: bit for bit; nothing changes.

    Fails when: the target is no CPU.
  }];
  let options = [
    Option<"target", "target", "std::string", "\"\"",
           "Target whose rates count; empty: the module's `attn.target`, else "
           "the host">
  ];
}

#endif // ATTN_DIALECT_TILE_TRANSFORMS_PASSES_TD

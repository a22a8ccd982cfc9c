//===- VerifyPasses.td - Copies and checks, which end it ---*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILEGPU_TRANSFORMS_VERIFYPASSES_TD
#define ATTN_DIALECT_TILEGPU_TRANSFORMS_VERIFYPASSES_TD

include "mlir/Pass/PassBase.td"

def TileGpuCopyFragmentsPass
    : Pass<"tile-gpu-copy-fragments", "::mlir::tile_gpu::KernelOp"> {
  let summary = "Give products in flight registers of their own";
  let description = [{
    Expects: a `tile_gpu.kernel`. To be run after the last pass that merges
    equal values, and before `tile-gpu-verify-async`.

    Produces: a `tile_gpu.frag.copy` for each fragment that a
    `tile_gpu.mma.issue` takes while others still need it: an accumulator that is
    used later on or comes from outside of the product's loop, an A fragment that
    is used before the product's wait. The copy stands where the fragment is
    made, not between products, where the assembler would serialise them, and the
    product takes it. Fragments of the compiler's own kernels have one user, and
    nothing is copied.

    Example: both products start from one fragment, since an earlier pass has
    merged two that were equal.

    ```mlir
    # tile_gpu.kernel @example(%p: !tile_gpu.frag<64x128xbf16, a>,
    #     %v: !tile_gpu.smem<128x64xbf16 swizzle 128>,
    #     %w: !tile_gpu.smem<128x64xbf16 swizzle 128>, %zero: f32,
    #     %out: memref<?x?xf32>, %c0: i32) {
    #   tile_gpu.role "compute" warpgroups(1) {
    #   ^bb0(%wg: i32):
    %o = tile_gpu.frag.fill %zero : f32 -> !tile_gpu.frag<64x64xf32, acc>
    %t0 = tile_gpu.mma.issue %p, %v acc(%o)
        : !tile_gpu.frag<64x128xbf16, a>, !tile_gpu.smem<128x64xbf16 swizzle 128>
       -> !tile_gpu.token<64x64xf32>
    %o0 = tile_gpu.mma.wait %t0 pending(0) : !tile_gpu.token<64x64xf32>
    %t1 = tile_gpu.mma.issue %p, %w acc(%o)
        : !tile_gpu.frag<64x128xbf16, a>, !tile_gpu.smem<128x64xbf16 swizzle 128>
       -> !tile_gpu.token<64x64xf32>
    %o1 = tile_gpu.mma.wait %t1 pending(0) : !tile_gpu.token<64x64xf32>
    #     tile_gpu.global.store %o0, %out[%c0, %c0]
    #         : !tile_gpu.frag<64x64xf32, acc>, memref<?x?xf32>
    #     tile_gpu.global.store %o1, %out[%c0, %c0]
    #         : !tile_gpu.frag<64x64xf32, acc>, memref<?x?xf32>
    #     tile_gpu.yield
    #   }
    #   tile_gpu.return
    # }
    ```

    The first product takes a copy of `%o` afterwards.

    Numerics: none.

    Fails when: never.
  }];
  let statistics = [
    Statistic<"numCopied", "num-copied", "Fragments that were copied">
  ];
}

def TileGpuVerifyAsyncPass : Pass<"tile-gpu-verify-async", "::mlir::tile_gpu::KernelOp"> {
  let summary = "Check products in flight, ring slots and bulk copies";
  let description = [{
    Expects: a `tile_gpu.kernel`. To be run after every transformation of
    `tile_gpu` kernels.

    Produces: the same IR. A kernel that passes keeps these rules:
    - every token is used once, by a wait or by a loop that carries it, and
      its product's accumulator is read afterwards;
    - from its issue on a product owns its old accumulator, and until its wait
      the A fragment that it reads (`tile-gpu-copy-fragments` sees to it);
    - no A fragment is computed for the next iteration while a product in
      flight reads its predecessor;
    - a product that starts from zero is not in flight across the end of a loop
      body;
    - a wait leaves no more products pending than were issued after the last
      one it waits for;
    - a slot is released after the waits of the products that read it, after
      the bulk copies that read it, and depending on every read into registers;
      nothing reads it later;
    - a slot of copy groups is acquired again only when all warps have met
      after its last reads;
    - members of an exchange arrive only when the slot can have no reader left;
    - a tile that a bulk copy reads is not written, and the role does not end;
    - arrival counts of rings agree with the roles that arrive, and one loop
      leads each schedule;
    - of a ring whose uses the members of a role take in turn, each waits for,
      views and releases its own;
    - every `turn.wait` has its `turn.pass` behind it, and all members of a role
      take as many turns: control flow around them depends on the member only
      where a loop counts its rounds, and one behind it takes the turns of the
      rounds left out.

    Example: the next iteration's A fragment is computed after the wait.

    ```mlir
    # tile_gpu.kernel @example(%w: !tile_gpu.frag<64x128xf32, acc>,
    #     %v: !tile_gpu.smem<128x64xbf16 swizzle 128>, %n: i32,
    #     %out: memref<?x?xf32>) {
    #   %c0 = arith.constant 0 : i32
    #   %c1 = arith.constant 1 : i32
    #   %zero = arith.constant 0.0 : f32
    #   tile_gpu.role "compute" warpgroups(1) {
    #   ^bb0(%wg: i32):
    #     %o0 = tile_gpu.frag.fill %zero : f32 -> !tile_gpu.frag<64x64xf32, acc>
    #     %p0 = tile_gpu.frag.convert %w
    #         : !tile_gpu.frag<64x128xf32, acc> -> !tile_gpu.frag<64x128xbf16, a>
    %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%p = %p0, %o = %o0)
        -> (!tile_gpu.frag<64x128xbf16, a>, !tile_gpu.frag<64x64xf32, acc>) : i32 {
      %t = tile_gpu.mma.issue %p, %v acc(%o)
          : !tile_gpu.frag<64x128xbf16, a>, !tile_gpu.smem<128x64xbf16 swizzle 128>
         -> !tile_gpu.token<64x64xf32>
      // A conversion here would fail: the product still reads %p.
      %o1 = tile_gpu.mma.wait %t pending(0) : !tile_gpu.token<64x64xf32>
      %p1 = tile_gpu.frag.convert %w
          : !tile_gpu.frag<64x128xf32, acc> -> !tile_gpu.frag<64x128xbf16, a>
      scf.yield %p1, %o1
          : !tile_gpu.frag<64x128xbf16, a>, !tile_gpu.frag<64x64xf32, acc>
    }
    #     tile_gpu.global.store %r#1, %out[%c0, %c0]
    #         : !tile_gpu.frag<64x64xf32, acc>, memref<?x?xf32>
    #     tile_gpu.yield
    #   }
    #   tile_gpu.return
    # }
    ```

    Numerics: no effect.

    Fails when: a rule is broken; the diagnostic names the product or slot.
    Products inside loops other than `scf.for` and `tile_gpu.foreach` are
    rejected, as are tokens that leave an `scf.if`.
  }];
}

def TileGpuAllocateSharedPass
    : Pass<"tile-gpu-allocate-shared", "::mlir::ModuleOp"> {
  let summary = "Give rings, tiles and barriers their places";
  let description = [{
    Expects: `attn.target` on the module, naming a GPU, and kernels
    (`tile_gpu.kernel`) in their final form: no later pass may add a ring, a
    tile of shared memory or a barrier, or make a loop over a schedule read more
    values of it.

    Produces: on each operation that owns shared memory, where that lies, in
    bytes from the start of the block's: `at <...>` on `tile_gpu.ring.create`
    and dynamic `tile_gpu.scheduler`, `at(n)` on `tile_gpu.smem.alloc` and
    `tile_gpu.smem.ramp`; the number of hardware barriers, `first(n)` on
    `tile_gpu.barrier.create` and `barrier(n)` on roles that need their own; and
    the sum, `shared_bytes`, on the kernel. `convert-tile-gpu-to-nvvm`,
    `tile-gpu-verify-budget` and the emulator read them. A kernel that has all of
    its places, written by hand or by this pass, keeps them.

    Tiles come first, from the most to the least aligned, then barriers and
    drawn work tiles; a ramp comes before all, with the barriers behind it. No
    two share a place: all of it is in use as long as the block draws work
    tiles.

    Example:

    ```mlir
    # module attributes {attn.target = "sm_90a"} {
    # tile_gpu.kernel @example() {
    %k = tile_gpu.ring.create tma consumers(8)
        : !tile_gpu.ring<2, 128x128xbf16 swizzle 128>
    %staging = tile_gpu.smem.alloc : !tile_gpu.smem<128x64xbf16 swizzle 128>
    %own = tile_gpu.barrier.create warps(4) each(2)
    # tile_gpu.return
    # }
    # }
    ```

    becomes, with `shared_bytes = 81952` on the kernel,

    ```mlir
    # module attributes {attn.target = "sm_90a"} {
    # tile_gpu.kernel @example() attributes {shared_bytes = 81952 : i64} {
    %k = tile_gpu.ring.create tma consumers(8)
        at <tiles = [0] full = 81920 empty = 81936>
        : !tile_gpu.ring<2, 128x128xbf16 swizzle 128>
    %staging = tile_gpu.smem.alloc at(65536)
        : !tile_gpu.smem<128x64xbf16 swizzle 128>
    %own = tile_gpu.barrier.create warps(4) each(2) first(1)
    # tile_gpu.return
    # }
    # }
    ```

    Numerics: no effect.

    Fails when: a kernel wants more shared memory or hardware barriers than the
    target has: the diagnostic says who wants how much, and which ring would fit
    with fewer slots; or when some of a kernel's operations have places and
    others have none.
  }];
  let statistics = [
    Statistic<"numAllocated", "num-allocated", "Kernels that got places">
  ];
}

def TileGpuVerifyBudgetPass
    : Pass<"tile-gpu-verify-budget", "::mlir::ModuleOp"> {
  let summary = "Check kernels against the limits of the target";
  let description = [{
    Expects: `attn.target` on the module, naming a GPU.

    Produces: the same IR. For each `tile_gpu.kernel`: threads, registers of
    all roles, registers of each role's live fragments and of products in
    flight (with a reserve for addresses and row vectors; only where the role
    asks for registers, for others may spill), the places in shared memory that
    `tile-gpu-allocate-shared` or somebody's hand gave (in bounds, aligned, apart),
    hardware barriers, and instructions that the target lacks.

    Example: with `report`, a kernel gets one remark for itself and one for
    each role.

    ```mlir
    # module attributes {attn.target = "sm_90a"} {
    # tile_gpu.kernel @example() {
    tile_gpu.role "compute" warpgroups(2) registers(240) {
    ^bb0(%wg: i32):
      tile_gpu.yield
    }
    # tile_gpu.return
    # }
    # }
    ```

    gives "role 'compute': 0 registers of live fragments, 32 in reserve, of 240".

    Numerics: no effect.

    Fails when: a limit is passed (the diagnostic gives need and limit), or
    shared memory has no places.
  }];
  let options = [
    Option<"report", "report", "bool", "false",
           "Print the arithmetic of kernels that fit, as remarks">
  ];
}

#endif // ATTN_DIALECT_TILEGPU_TRANSFORMS_VERIFYPASSES_TD

//===- TileGPUTypes.td - Types of the tile_gpu dialect -----*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_TILEGPU_IR_TILEGPUTYPES_TD
#define ATTN_DIALECT_TILEGPU_IR_TILEGPUTYPES_TD

include "attn/Dialect/TileGPU/IR/TileGPUDialect.td"

class TileGPU_Type<string name, string typeMnemonic>
    : TypeDef<TileGPU_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def TileGPU_FragType : TileGPU_Type<"Frag", "frag"> {
  let summary = "A matrix in the registers of a warpgroup or warp";
  let description = [{
    `!tile_gpu.frag<64x128xf32, acc>`: the accumulator of a 64x128 product,
    spread over a warpgroup as wgmma leaves it; `a` is the layout of a left
    operand, `b` (warp scope only) of a right one. `, warp` spreads it over one
    warp as mma.sync does: `!tile_gpu.frag<16x8xf32, acc, warp>`.

    Rows and columns are those of the matrix that the operand stands for: `a`
    is MxK, `b` is KxN, `acc` is MxN. An `acc` fragment may also hold i1 or i32,
    one register for each element. A warp's `a` fragment may be of tf32, one
    register for each as well.

    A warpgroup's `acc` or `a` fragment of 32 rows is half of one of 64: row r is
    row r modulo 8 of what warp r / 8 has, and nothing is computed for the other
    eight rows of each warp. Only products have registers for them.
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$cols,
                        "::mlir::Type":$elementType,
                        "::mlir::tile_gpu::Layout":$layout,
                        "::mlir::tile_gpu::Scope":$scope);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// 32-bit registers of each thread that hold this fragment.
    int64_t getRegisters() const;
    /// Whether each warp of a warpgroup has the first eight of its 16 rows.
    bool isHalf() const;
  }];
}

def TileGPU_VecType : TileGPU_Type<"Vec", "vec"> {
  let summary = "One value per row, or per column, of a fragment";
  let description = [{
    `!tile_gpu.vec<64xf32, row>`: held by the threads that hold the row of an
    accumulator of 64 rows (`col`: of 64 columns), each of them with the same
    value. With `, partial` each thread holds its own share and the value is
    their reduction, as for a row sum that is added up over a whole loop and
    completed once. `, warp` as for fragments.
  }];
  let parameters = (ins "int64_t":$size, "::mlir::Type":$elementType,
                        "::mlir::tile_gpu::Axis":$axis,
                        "::mlir::tile_gpu::Scope":$scope, "bool":$partial);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def TileGPU_SmemType : TileGPU_Type<"Smem", "smem"> {
  let summary = "A view of a tile in shared memory";
  let description = [{
    `!tile_gpu.smem<64x128xbf16 swizzle 128>`: 64 rows of 128 elements, stored
    in panels of 128 bytes whose 16-byte chunks are exchanged by row modulo 8,
    the form that tensor copies write and matrix instructions read without
    bank conflicts. Without `swizzle` the rows follow each other.
    `transposed` reads the same bytes the other way: rows and columns in the
    type are those of the view. `boxes 4` says that the stored rows are four
    separate boxes (the pages of a paged cache), each with its own panels.
    `pitch 128` says that this is a slice of a tile or box of 128 stored rows,
    so that its panels lie that many rows apart.

    Elements of `tf32` are f32 in memory, rounded to 10 bits behind the point (to
    nearest, ties away from zero) by those who copy them into a ring.
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$cols,
                        "::mlir::Type":$elementType, "int64_t":$swizzle,
                        "int64_t":$boxes, "int64_t":$pitch,
                        "bool":$transposed);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Rows and columns as stored.
    int64_t getStoredRows() const { return getTransposed() ? getCols() : getRows(); }
    int64_t getStoredCols() const { return getTransposed() ? getRows() : getCols(); }
    /// Stored rows of one box.
    int64_t getBoxRows() const { return getStoredRows() / getBoxes(); }
    /// Bytes of one element.
    int64_t getElementBytes() const {
      return getElementType().isTF32()
                 ? 4 : getElementType().getIntOrFloatBitWidth() / 8;
    }
    /// Bytes of one stored row.
    int64_t getRowBytes() const { return getStoredCols() * getElementBytes(); }
    /// Whether the bytes of the tile follow each other.
    bool isContiguous() const {
      return getPitch() == getBoxRows() || getRowBytes() == getSwizzle();
    }
    int64_t getBytes() const;
    SmemType getTransposedView() const;
  }];
}

def TileGPU_RingType : TileGPU_Type<"Ring", "ring"> {
  let summary = "A circular buffer of tiles in shared memory";
  let description = [{
    `!tile_gpu.ring<2, 128x128xbf16 swizzle 128>`: two slots of one tile each.
    A slot may have several tiles that become full together:
    `!tile_gpu.ring<2, 64x128xbf16 swizzle 128, 1x64xf32>` (queries with their
    statistics). Every slot has a full and an empty barrier; uses are numbered
    by one counter c that only grows: slot c mod n, phase (c / n) mod 2.
  }];
  let parameters = (ins "int64_t":$stages,
    ArrayRefParameter<"::mlir::tile_gpu::SmemType">:$tiles);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getSlotBytes() const;
  }];
}

def TileGPU_TokenType : TileGPU_Type<"Token", "token"> {
  let summary = "A matrix product in flight";
  let description = [{
    `!tile_gpu.token<64x128xf32>` owns the accumulator of that shape and the A
    fragment of the product until `tile_gpu.mma.wait` gives the accumulator
    back. Used exactly once: by a wait, or by a loop that carries it.
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$cols,
                        "::mlir::Type":$elementType);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    FragType getFragType() const;
  }];
}

def TileGPU_TensorMapType : TileGPU_Type<"TensorMap", "tensor_map"> {
  let summary = "A tensor in memory, described for box copies";
  let description = [{
    `!tile_gpu.tensor_map<128x128xbf16 swizzle 128>`: copies move boxes of this
    form. Made by the host plan from a strided tensor of rank 4 or less;
    elements outside the tensor read as zero and are not written.
  }];
  let parameters = (ins "::mlir::tile_gpu::SmemType":$box);
  let hasCustomAssemblyFormat = 1;
}

def TileGPU_BarrierType : TileGPU_Type<"Barrier", "barrier"> {
  let summary = "A hardware barrier of some warps of a block";
}

def TileGPU_ScheduleType : TileGPU_Type<"Schedule", "schedule"> {
  let summary = "A sequence of tiles that all roles of a block see alike";
}

#endif // ATTN_DIALECT_TILEGPU_IR_TILEGPUTYPES_TD

# attn_use_headers(TARGET MLIR | DIALECTS | KERNELS)
#
# Most of the time to compile a file goes into headers. These are compiled ahead,
# once for each level of the compiler: MLIR's alone, for the dialects and what
# lies below them; MLIR's with the dialects attn and tile; and those with LLVM's
# dialect and tile_gpu, for kernels. A change of one of them compiles anew what
# uses its level.
set(attn_headers_MLIR
  <mlir/IR/Builders.h> <mlir/IR/BuiltinOps.h> <mlir/IR/OpImplementation.h>
  <mlir/IR/PatternMatch.h> <mlir/Pass/Pass.h>
  <mlir/Interfaces/FunctionInterfaces.h>
  <mlir/Dialect/Arith/IR/Arith.h> <mlir/Dialect/Func/IR/FuncOps.h>
  <mlir/Dialect/Math/IR/Math.h> <mlir/Dialect/MemRef/IR/MemRef.h>
  <mlir/Dialect/SCF/IR/SCF.h> <mlir/Dialect/Tensor/IR/Tensor.h>
  <mlir/Dialect/Vector/IR/VectorOps.h> <llvm/ADT/TypeSwitch.h>)
set(attn_headers_DIALECTS ${attn_headers_MLIR}
  <attn/Dialect/Attn/IR/Attn.h> <attn/Dialect/Tile/IR/Tile.h>)
set(attn_headers_KERNELS ${attn_headers_DIALECTS}
  <mlir/Dialect/LLVMIR/LLVMDialect.h> <attn/Dialect/TileGPU/IR/TileGPU.h>)
foreach(level MLIR DIALECTS KERNELS)
  add_library(AttnHeaders_${level} OBJECT
    ${CMAKE_CURRENT_SOURCE_DIR}/lib/cmake/Precompiled.cpp)
  target_precompile_headers(AttnHeaders_${level} PRIVATE
    ${attn_headers_${level}})
  add_dependencies(AttnHeaders_${level} attn-headers)
endforeach()

function(attn_use_headers target level)
  target_precompile_headers(${target} REUSE_FROM AttnHeaders_${level})
  add_dependencies(${target} attn-headers)
endfunction()

# attn_add_library(NAME HEADERS MLIR | DIALECTS | KERNELS | NONE sources...)
#
# Every part of the compiler is an object library, compiled once and linked
# three ways: into the tools, into libattn.so (LLVM hidden) and into the
# pass plug-in (no LLVM of its own). NONE is a library without MLIR.
set_property(GLOBAL PROPERTY ATTN_OBJECT_LIBS "")
set_property(GLOBAL PROPERTY ATTN_PLAIN_LIBS "")

function(attn_add_library name)
  cmake_parse_arguments(ARG "" "HEADERS" "" ${ARGN})
  add_library(${name} OBJECT ${ARG_UNPARSED_ARGUMENTS})
  if(ARG_HEADERS STREQUAL NONE)
    set_property(GLOBAL APPEND PROPERTY ATTN_PLAIN_LIBS ${name})
  else()
    attn_use_headers(${name} ${ARG_HEADERS})
    set_property(GLOBAL APPEND PROPERTY ATTN_OBJECT_LIBS ${name})
  endif()
endfunction()

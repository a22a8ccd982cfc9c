# attn_add_library(NAME sources... [DEPENDS targets] [NO_MLIR])
#
# Every part of the compiler is an object library, compiled once and linked
# three ways: into the tools, into libattn.so (LLVM hidden) and into the
# pass plug-in (no LLVM of its own). The MLIR headers are precompiled once.
set_property(GLOBAL PROPERTY ATTN_OBJECT_LIBS "")
set_property(GLOBAL PROPERTY ATTN_PLAIN_LIBS "")

add_library(AttnPrecompiled OBJECT
  ${CMAKE_CURRENT_SOURCE_DIR}/lib/cmake/Precompiled.cpp)
target_precompile_headers(AttnPrecompiled PRIVATE
  <mlir/IR/Builders.h> <mlir/IR/BuiltinOps.h> <mlir/IR/OpImplementation.h>
  <mlir/IR/PatternMatch.h> <mlir/Pass/Pass.h>
  <mlir/Interfaces/FunctionInterfaces.h>
  <mlir/Dialect/Arith/IR/Arith.h> <mlir/Dialect/Func/IR/FuncOps.h>
  <mlir/Dialect/Math/IR/Math.h> <mlir/Dialect/MemRef/IR/MemRef.h>
  <mlir/Dialect/SCF/IR/SCF.h> <mlir/Dialect/Tensor/IR/Tensor.h>
  <mlir/Dialect/Vector/IR/VectorOps.h> <llvm/ADT/TypeSwitch.h>)

function(attn_add_library name)
  cmake_parse_arguments(ARG "NO_MLIR" "" "DEPENDS" ${ARGN})
  add_library(${name} OBJECT ${ARG_UNPARSED_ARGUMENTS})
  if(ARG_NO_MLIR)
    set_property(GLOBAL APPEND PROPERTY ATTN_PLAIN_LIBS ${name})
  else()
    target_precompile_headers(${name} REUSE_FROM AttnPrecompiled)
    add_dependencies(${name} attn-headers)
    set_property(GLOBAL APPEND PROPERTY ATTN_OBJECT_LIBS ${name})
  endif()
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()

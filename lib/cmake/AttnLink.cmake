# How the object libraries are linked; see AttnLibrary.cmake.
include(AttnStaticLLVM)

# attn_link_compiler(TARGET [STATIC])
#
# Links every object library into a target, with LLVM from Debian's shared
# libraries (quick) or, when STATIC or ATTN_STATIC_LLVM says so, from archives.
function(attn_link_compiler target)
  cmake_parse_arguments(ARG "STATIC" "" "" ${ARGN})
  get_property(objects GLOBAL PROPERTY ATTN_OBJECT_LIBS)
  get_property(plain_objects GLOBAL PROPERTY ATTN_PLAIN_LIBS)
  add_dependencies(${target} attn-headers)
  target_link_libraries(${target} PRIVATE ${objects} ${plain_objects})
  if(ARG_STATIC OR ATTN_STATIC_LLVM)
    target_link_libraries(${target} PRIVATE AttnStaticLLVM)
  else()
    target_link_libraries(${target} PRIVATE MLIR LLVM)
  endif()
endfunction()

# attn_add_tool(NAME sources...)
#
# A program that holds the compiler. The tests depend on it.
function(attn_add_tool name)
  add_executable(${name} ${ARGN})
  attn_link_compiler(${name})
  set_property(GLOBAL APPEND PROPERTY ATTN_TEST_DEPENDS ${name})
endfunction()

# attn_add_shared_library(NAME sources...)
#
# The compiler as a shared library with a C ABI. LLVM is inside and hidden:
# what a process holds of LLVM already (PyTorch and Triton carry their own)
# must neither clash with ours nor be used by it.
function(attn_add_shared_library name)
  add_library(${name} SHARED ${ARGN})
  attn_link_compiler(${name} STATIC)
  set(exports ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/exports.map)
  target_link_options(${name} PRIVATE
    -Wl,--version-script=${exports} -Wl,--exclude-libs,ALL -Wl,-Bsymbolic
    $<$<NOT:$<BOOL:${ATTN_SANITIZE}>>:-Wl,-z,defs>)
  set_target_properties(${name} PROPERTIES LINK_DEPENDS ${exports})
  set_property(GLOBAL APPEND PROPERTY ATTN_TEST_DEPENDS ${name})
endfunction()

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

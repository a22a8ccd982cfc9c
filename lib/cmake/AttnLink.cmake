# How the object libraries are linked; see AttnLibrary.cmake.
include(AttnStaticLLVM)

# attn_link_compiler(TARGET [STATIC | SHARED])
#
# Links every object library into a target, and LLVM: from archives or from
# Debian's shared libraries, as ATTN_STATIC_LLVM says where nothing is said.
function(attn_link_compiler target)
  cmake_parse_arguments(ARG "STATIC;SHARED" "" "" ${ARGN})
  get_property(objects GLOBAL PROPERTY ATTN_OBJECT_LIBS)
  get_property(plain_objects GLOBAL PROPERTY ATTN_PLAIN_LIBS)
  add_dependencies(${target} attn-headers)
  target_link_libraries(${target} PRIVATE ${objects} ${plain_objects})
  if(ARG_STATIC OR (ATTN_STATIC_LLVM AND NOT ARG_SHARED))
    target_link_libraries(${target} PRIVATE AttnStaticLLVM)
  else()
    target_link_libraries(${target} PRIVATE MLIR LLVM)
  endif()
endfunction()

# attn_add_tool(NAME sources...)
#
# A program that holds the compiler. It is packaged, and the tests depend on it.
function(attn_add_tool name)
  add_executable(${name} ${ARGN})
  attn_link_compiler(${name})
  install(TARGETS ${name})
  set_property(GLOBAL APPEND PROPERTY ATTN_TEST_DEPENDS ${name})
endfunction()

# attn_add_client(NAME sources... [LIBS libraries])
#
# A program on the C ABI: it finds libattn.so beside it, in ../lib. It is
# packaged, and the tests depend on it.
function(attn_add_client name)
  cmake_parse_arguments(ARG "" "" "LIBS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE attn ${ARG_LIBS})
  target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc)
  set_target_properties(${name} PROPERTIES
    BUILD_RPATH_USE_ORIGIN ON INSTALL_RPATH "$ORIGIN/../lib")
  install(TARGETS ${name})
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
    -Wl,--version-script=${exports} -Wl,--exclude-libs,ALL -Wl,-Bsymbolic)
  # A sanitizer's functions are in the program, not in its libraries.
  if(NOT ATTN_SANITIZE)
    target_link_options(${name} PRIVATE -Wl,-z,defs)
  endif()
  set_target_properties(${name} PROPERTIES LINK_DEPENDS ${exports})
  install(TARGETS ${name})
  set_property(GLOBAL APPEND PROPERTY ATTN_TEST_DEPENDS ${name})
endfunction()

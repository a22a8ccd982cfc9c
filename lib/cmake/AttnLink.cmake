# How the object libraries are linked; see AttnLibrary.cmake.

# attn_link_compiler(TARGET)
#
# Links every object library and LLVM into a target.
function(attn_link_compiler target)
  get_property(objects GLOBAL PROPERTY ATTN_OBJECT_LIBS)
  get_property(plain_objects GLOBAL PROPERTY ATTN_PLAIN_LIBS)
  add_dependencies(${target} attn-headers)
  target_link_libraries(${target} PRIVATE ${objects} ${plain_objects} MLIR LLVM)
endfunction()

# attn_add_tool(NAME sources...)
#
# A program that holds the compiler. The tests depend on it.
function(attn_add_tool name)
  add_executable(${name} ${ARGN})
  attn_link_compiler(${name})
  set_property(GLOBAL APPEND PROPERTY ATTN_TEST_DEPENDS ${name})
endfunction()

# Chosen before project(), and only where the user has chosen nothing: clang 22
# (twice as fast on MLIR's headers as GCC 12), ccache and lld where they exist.
# None of them is required.
if(NOT DEFINED CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX}
   AND NOT DEFINED CMAKE_C_COMPILER AND NOT DEFINED ENV{CC})
  find_program(ATTN_CLANG clang-22 HINTS /usr/lib/llvm-22/bin)
  find_program(ATTN_CLANGXX clang++-22 HINTS /usr/lib/llvm-22/bin)
  if(ATTN_CLANG AND ATTN_CLANGXX)
    set(CMAKE_C_COMPILER ${ATTN_CLANG})
    set(CMAKE_CXX_COMPILER ${ATTN_CLANGXX})
  endif()
endif()

if(NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(ATTN_CCACHE ccache)
  if(ATTN_CCACHE)
    # What ccache must overlook to cache a precompiled header.
    set(CMAKE_CXX_COMPILER_LAUNCHER env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${ATTN_CCACHE})
    set(CMAKE_C_COMPILER_LAUNCHER ${ATTN_CCACHE})
  endif()
endif()

# Added by the root once the compiler is known.
macro(attn_set_up_toolchain)
  find_program(ATTN_LLD NAMES ld.lld-22 ld.lld
               HINTS /usr/lib/llvm-22/bin NO_DEFAULT_PATH)
  if(ATTN_LLD)
    if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
      add_link_options(--ld-path=${ATTN_LLD})
    else()
      # GCC looks for a program named ld.lld.
      add_link_options(-fuse-ld=lld -B/usr/lib/llvm-22/bin)
    endif()
  endif()
  if(ATTN_SANITIZE)
    add_compile_options(-fsanitize=${ATTN_SANITIZE} -fno-omit-frame-pointer)
    # Debian's LLVM has no instrumented vtables to check ours against, and code
    # from the JIT has no signature in front of it.
    add_compile_options(-fno-sanitize=vptr -fno-sanitize-recover=undefined
      $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function>)
    add_link_options(-fsanitize=${ATTN_SANITIZE})
  endif()
endmacro()

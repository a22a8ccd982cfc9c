# AttnStaticLLVM: LLVM and MLIR as archives.
#
# Debian's imported MLIR targets link the shared libLLVM and libMLIR. Mixing
# those with archives registers every option twice and aborts at start, so the
# two shared libraries are taken out of the archives' link interfaces, and the
# LLVM components that they stood for are named here. The linker takes from the
# archives what is used.

get_property(mlir_libs GLOBAL PROPERTY MLIR_ALL_LIBS)
foreach(lib IN LISTS mlir_libs)
  if(TARGET ${lib})
    get_target_property(interface ${lib} INTERFACE_LINK_LIBRARIES)
    if(interface)
      list(REMOVE_ITEM interface LLVM MLIR "$<LINK_ONLY:LLVM>")
      set_target_properties(${lib} PROPERTIES
        INTERFACE_LINK_LIBRARIES "${interface}")
    endif()
  endif()
endforeach()

# Z3 is for the static analyzer. zlib and zstd go in as archives where they
# exist, so that nothing beyond libc and libm is asked of the machine.
get_target_property(interface LLVMSupport INTERFACE_LINK_LIBRARIES)
list(FILTER interface EXCLUDE REGEX libz3)
find_library(ATTN_ZLIB_ARCHIVE libz.a)
if(ATTN_ZLIB_ARCHIVE)
  list(TRANSFORM interface REPLACE "^ZLIB::ZLIB$" "${ATTN_ZLIB_ARCHIVE}")
endif()
find_library(ATTN_ZSTD_ARCHIVE libzstd.a)
if(ATTN_ZSTD_ARCHIVE)
  list(TRANSFORM interface
       REPLACE "^zstd::libzstd_shared$" "${ATTN_ZSTD_ARCHIVE}")
endif()
set_target_properties(LLVMSupport PROPERTIES
  INTERFACE_LINK_LIBRARIES "${interface}")

set(attn_mlir_libs MLIROptLib MLIRLspServerLib MLIRReduceLib MLIRReduce)
foreach(group DIALECT CONVERSION EXTENSION TRANSLATION)
  get_property(libs GLOBAL PROPERTY MLIR_${group}_LIBS)
  list(APPEND attn_mlir_libs ${libs})
endforeach()
# Not ours: other vendors' targets and upstream's tests.
list(FILTER attn_mlir_libs EXCLUDE REGEX
     "Test|SPIRV|AMDGPU|ROCDL|ArmSME|ArmSVE|ArmNeon|Wasm|XeVM|XeGPU")
list(REMOVE_DUPLICATES attn_mlir_libs)
llvm_map_components_to_libnames(attn_llvm_libs
  X86 NVPTX OrcJIT OrcDebugging PerfJITEvents Passes IRReader Linker
  FrontendOpenMP FrontendOffloading FrontendDriver BitWriter AsmParser
  SupportLSP)

add_library(AttnStaticLLVM INTERFACE)
target_link_libraries(AttnStaticLLVM INTERFACE
  ${attn_mlir_libs} ${attn_llvm_libs})
target_link_options(AttnStaticLLVM INTERFACE
  -static-libstdc++ -static-libgcc -Wl,--gc-sections -Wl,--as-needed)

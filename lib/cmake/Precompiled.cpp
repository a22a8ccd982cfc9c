// Compiled once to hold the precompiled MLIR headers; see AttnLibrary.cmake.

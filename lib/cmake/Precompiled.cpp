// Compiled once for each set of precompiled headers; see AttnLibrary.cmake.

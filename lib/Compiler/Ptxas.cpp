//===- Ptxas.cpp - Machine code by NVIDIA's assembler ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Ptxas.h"
#include "CacheFolder.h"
#include "attn/Runtime/Cuda.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <cstdlib>
#include <unistd.h>

using namespace llvm;

static std::string getVariable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

std::string attn::findPtxas() {
  std::string given = getVariable("ATTN_PTXAS");
  if (given == "none")
    return "";
  if (!given.empty()) {
    if (sys::fs::can_execute(given))
      return given;
    warnOnce(
        Warning::Assembler,
        "expected ATTN_PTXAS to be 'none' or the path of a program, but got "
        "'" +
            given + "'; the driver compiles the code when it loads it");
    return "";
  }
  if (ErrorOr<std::string> found = sys::findProgramByName("ptxas"))
    return *found;
  for (std::string folder : {getVariable("CUDA_HOME"), getVariable("CUDA_PATH"),
                             std::string("/usr/local/cuda")}) {
    if (folder.empty())
      continue;
    SmallString<128> path(folder);
    sys::path::append(path, "bin", "ptxas");
    if (sys::fs::can_execute(path))
      return path.str().str();
  }
  return "";
}

namespace {
/// A folder that goes with its owner.
class Scratch {
public:
  Scratch() {
    sys::path::system_temp_directory(/*ErasedOnReboot=*/true, parent);
    path = parent;
    sys::path::append(path, "attn-XXXXXX");
    // For its owner alone, whatever the mask: what lies there becomes code.
    if (!mkdtemp(const_cast<char *>(path.c_str())))
      error = std::error_code(errno, std::generic_category());
  }
  ~Scratch() {
    if (!error)
      sys::fs::remove_directories(path);
  }
  std::string file(StringRef name) const {
    SmallString<128> result(path);
    sys::path::append(result, name);
    return result.str().str();
  }
  std::error_code error;
  SmallString<128> parent, path;
};
} // namespace

static std::string readFile(const std::string &path) {
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/false,
                                      /*RequiresNullTerminator=*/false);
  return buffer ? (*buffer)->getBuffer().str() : "";
}

/// Whether a folder's disk has no room, not even for a page.
static bool isFull(const std::string &folder) {
  ErrorOr<sys::fs::space_info> space = sys::fs::disk_space(folder);
  return space && space->available < 4096;
}

std::string attn::assemble(const std::string &ptxas, const std::string &ptx,
                           const std::string &target, PtxasResult &result) {
  Scratch scratch;
  if (scratch.error) {
    result.unavailable = "cannot make a folder for the assembler in '" +
                         scratch.parent.str().str() +
                         "' (TMPDIR): " + scratch.error.message();
    return "";
  }
  std::string input = scratch.file("kernel.ptx"),
              output = scratch.file("kernel.cubin"), log = scratch.file("log");
  {
    std::error_code code;
    raw_fd_ostream file(input, code);
    if (!code) {
      file << ptx;
      file.close();
      code = file.error();
      file.clear_error();
    }
    if (code) {
      result.unavailable = "cannot write '" + input + "': " + code.message();
      return "";
    }
  }
  // Never -c: code for linking loses setmaxnreg.
  std::string arch = "-arch=" + target;
  StringRef arguments[] = {ptxas, arch, "-v", "-o", output, input};
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(log),
                                          StringRef(log)};
  std::string message;
  bool failed = false;
  // No time limit: it would be an alarm of the whole process.
  int status = sys::ExecuteAndWait(ptxas, arguments, std::nullopt, redirects,
                                   /*SecondsToWait=*/0, /*MemoryLimit=*/0,
                                   &message, &failed);
  if (failed)
    return "cannot start '" + ptxas + "': " + message;
  result.log = readFile(log);
  result.cubin = readFile(output);
  bool isWhole = status == 0 && !result.cubin.empty();
  if (!isWhole && isFull(scratch.path.str().str())) {
    result.unavailable = "no space is left for the assembler in '" +
                         scratch.parent.str().str() + "' (TMPDIR)";
    return "";
  }
  if (status != 0) {
    StringRef reason = StringRef(result.log).trim();
    for (StringRef line : split(result.log, '\n'))
      if (line.contains("error") || line.contains("fatal")) {
        reason = line.trim();
        break;
      }
    reason = reason.take_until([](char c) { return c == '\n'; });
    if (reason.empty())
      reason = message;
    return "'" + ptxas + "' does not assemble the code for " + target + ": " +
           reason.str();
  }
  if (result.cubin.empty())
    return "'" + ptxas + "' left no code";
  std::string complaint = cuda::findAssemblerComplaint(result.log);
  if (!complaint.empty())
    return "expected code that ptxas assembles as it stands, but it says: " +
           complaint;
  return "";
}

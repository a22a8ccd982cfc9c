//===- Ptxas.cpp - Machine code by NVIDIA's assembler ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Ptxas.h"
#include "attn/Runtime/Cuda.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

using namespace llvm;

static std::string getVariable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

std::string attn::findPtxas() {
  std::string given = getVariable("ATTN_PTXAS");
  if (given == "none")
    return "";
  if (!given.empty())
    return sys::fs::can_execute(given) ? given : "";
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
  Scratch() { error = sys::fs::createUniqueDirectory("attn", path); }
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
  SmallString<128> path;
};
} // namespace

static std::string readFile(const std::string &path) {
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/false,
                                      /*RequiresNullTerminator=*/false);
  return buffer ? (*buffer)->getBuffer().str() : "";
}

struct attn::Assembly::Run {
  std::string ptxas, target;
  Scratch scratch;
  sys::ProcessInfo process;
  /// Returns the exit status; `message` says why it is not 0, where that is
  /// known.
  int wait(std::string &message) {
    // No time limit: it would be an alarm of the whole process.
    return sys::Wait(process, std::nullopt, &message).ReturnCode;
  }
};

attn::Assembly::Assembly() = default;

attn::Assembly::~Assembly() {
  std::string message;
  if (run)
    run->wait(message);
}

std::string attn::Assembly::start(const std::string &ptxas,
                                  const std::string &ptx,
                                  const std::string &target) {
  auto next = std::make_unique<Run>();
  next->ptxas = ptxas;
  next->target = target;
  if (next->scratch.error)
    return "cannot make a folder for the assembler: " +
           next->scratch.error.message();
  std::string input = next->scratch.file("kernel.ptx"),
              output = next->scratch.file("kernel.cubin"),
              log = next->scratch.file("log");
  {
    std::error_code code;
    raw_fd_ostream file(input, code);
    if (!code) {
      file << ptx;
      file.close();
      code = file.error();
      file.clear_error();
    }
    if (code)
      return "cannot write '" + input + "': " + code.message();
  }
  // Never -c: code for linking loses setmaxnreg.
  std::string arch = "-arch=" + target;
  StringRef arguments[] = {ptxas, arch, "-v", "-o", output, input};
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(log),
                                          StringRef(log)};
  std::string message;
  bool failed = false;
  next->process = sys::ExecuteNoWait(ptxas, arguments, std::nullopt, redirects,
                                     /*MemoryLimit=*/0, &message, &failed);
  if (failed)
    return "cannot start '" + ptxas + "': " + message;
  run = std::move(next);
  return "";
}

std::string attn::Assembly::finish(PtxasResult &result) {
  std::unique_ptr<Run> done = std::move(run);
  std::string message;
  int status = done->wait(message);
  result.log = readFile(done->scratch.file("log"));
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
    return "'" + done->ptxas + "' does not assemble the code for " +
           done->target + ": " + reason.str();
  }
  result.cubin = readFile(done->scratch.file("kernel.cubin"));
  if (result.cubin.empty())
    return "'" + done->ptxas + "' left no code";
  std::string complaint = cuda::findAssemblerComplaint(result.log);
  if (!complaint.empty())
    return "expected code that ptxas assembles as it stands, but it says: " +
           complaint;
  return "";
}

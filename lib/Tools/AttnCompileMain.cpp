//===- AttnCompileMain.cpp - Compile attention ahead of time --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Run/Compile.h"
#include "Run/Kernel.h"
#include "Run/Options.h"
#include "attn/Tools/CompileMain.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <set>

using namespace ::attn::run;
using namespace ::attn::support;

static const char *const help =
    R"(usage: attn-compile FILE.mlir -o PREFIX [options]
       attn-compile --attention SPEC -o PREFIX [options]
       attn-compile --scan SPEC -o PREFIX [options]

Compiles attention ahead of time. For a CPU it writes PREFIX.o and PREFIX.h; for
a GPU PREFIX.o (the plan, which the host runs), PREFIX.ptx, PREFIX.cubin where
ptxas is found, and PREFIX.h, which declares each public function that FILE.mlir
has of attn. Programs link PREFIX.o and libattn-runtime.a.

  -o PREFIX                 path of what is written, without its ending
  --attention SPEC          as attn-run has it
  --scan SPEC               the same
  --name NAME               what its function is called (default attention):
                            objects of one program have names of their own
  --monoid FILE.mlir        use the monoid that the file defines
  --score-mod FILE.mlir     the score function and a mask for --attention, beside
  --mask-mod FILE.mlir      its options: each the text of a region (docs/Masks.md)
  --schedule TEXT           an #attn.schedule<...> for --attention
  --target NAME             cpu-avx2, sm_90a, ...; default: this machine's CPU
  --explain                 print the schedule, and what ptxas said
  --help                    print this
)";

static Status writeFile(const std::string &path, const void *data,
                        size_t size) {
  std::FILE *file = std::fopen(path.c_str(), "wb");
  bool ok = file && std::fwrite(data, 1, size, file) == size;
  ok &= file && std::fclose(file) == 0;
  if (!ok)
    return Failure{"cannot write '" + path + "'"};
  return success();
}

//===----------------------------------------------------------------------===//
// The header
//===----------------------------------------------------------------------===//

/// Words that name nothing in C or in C++, which both read headers.
static bool isKeyword(const std::string &word) {
  static const std::string words =
      " alignas alignof and and_eq asm auto bitand bitor bool break case "
      "catch char char16_t char32_t char8_t class co_await co_return "
      "co_yield compl concept const const_cast consteval constexpr constinit "
      "continue decltype default delete do double dynamic_cast else enum "
      "explicit export extern false float for friend goto if inline int long "
      "mutable namespace new noexcept not not_eq nullptr operator or or_eq "
      "private protected public register reinterpret_cast requires restrict "
      "return short signed sizeof static static_assert static_cast struct "
      "switch template this thread_local throw true try typedef typeid "
      "typename typeof typeof_unqual union unsigned using virtual void "
      "volatile wchar_t while xor xor_eq ";
  return words.find(" " + word + " ") != std::string::npos;
}

/// Letters, digits and underscores.
static std::string toIdentifier(const std::string &text) {
  std::string name;
  for (char c : text)
    name += std::isalnum((unsigned char)c) ? c : '_';
  if (name.empty() || std::isdigit((unsigned char)name[0]))
    name.insert(0, "_");
  return name;
}

static const char *getScalarType(DType dtype) {
  switch (dtype) {
  case DType::f64:
    return "double";
  case DType::i8:
    return "int8_t";
  case DType::i16:
    return "int16_t";
  case DType::i32:
    return "int32_t";
  case DType::i64:
    return "int64_t";
  case DType::u8:
  case DType::boolean:
    return "uint8_t";
  // 16-bit floats by their bits.
  case DType::f16:
  case DType::bf16:
    return "uint16_t";
  default:
    return "float";
  }
}

/// "q: bf16 [b, hq, sq, 64]"
static std::string describe(const ArgInfo &arg) {
  std::string text = arg.name + ": " + nameOf(arg.dtype);
  if (arg.isScalar)
    return text;
  text += " [";
  for (size_t i = 0; i < arg.shape.size(); ++i) {
    text += i ? ", " : "";
    if (arg.shape[i] >= 0)
      text += std::to_string(arg.shape[i]);
    else
      text += arg.dims[i].empty() ? "?" : arg.dims[i];
  }
  return text + "]";
}

/// Declarations and calls of one entry.
static Result<std::string> printEntry(const Kernel &kernel) {
  bool onDevice = kernel.isOnDevice();
  std::string name = kernel.getEntryName(), parameters, comment, list;
  if (toIdentifier(name) != name || isKeyword(name))
    return Failure{"expected functions with names that C and C++ can call, but "
                   "got '" +
                   name + "'"};
  // Those of the parameters, and of what is beside them.
  std::set<std::string> names = {"args", onDevice ? "module" : "runtime"};
  if (onDevice)
    names.insert("stream");
  auto add = [&](const ArgInfo &arg) {
    std::string what = toIdentifier(arg.name);
    while (isKeyword(what) || !names.insert(what).second)
      what += "_";
    comment += "/// " + describe(arg) + "\n";
    parameters += ", ";
    if (arg.isScalar) {
      parameters += std::string(getScalarType(arg.dtype)) + " " + what;
      list += "&" + what + ", ";
    } else {
      parameters +=
          "AttnTensor" + std::to_string(arg.shape.size()) + " " + what;
      list += "&" + what + ", ";
    }
  };
  for (const ArgInfo &arg : kernel.inputs)
    add(arg);
  comment += "/// Outputs:\n";
  for (const ArgInfo &arg : kernel.outputs)
    add(arg);
  std::string text = "int32_t attn_entry_" + name +
                     "(void **args, const AttnRuntime *runtime);\n\n" + comment;
  if (!onDevice)
    return text +
           "/// Returns an AttnStatus, 0 for success.\nstatic inline "
           "int32_t " +
           name + "(const AttnRuntime *runtime" + parameters +
           ") {\n  void *args[] = {" + list + "0};\n  return attn_entry_" +
           name + "(args, runtime);\n}\n";
  return text +
         "/// All tensors are on the GPU. Returns null, or a message to free.\n"
         "static inline char *" +
         name + "(AttnModule *module, void *stream" + parameters +
         ") {\n  void *args[] = {" + list +
         "0};\n  return attnModuleRun(module, attn_entry_" + name +
         ", args, -1, stream);\n}\n";
}

/// `entries`: those of one kernel.
static Result<std::string> printHeader(const std::vector<Kernel> &entries,
                                       const std::string &stem) {
  const Kernel &kernel = entries.front();
  std::string guard = "ATTN_AOT_" + toIdentifier(stem) + "_H";
  std::string text = "// Made by attn-compile " + std::string(attnVersion()) +
                     " for " + attnKernelTarget(kernel.get()) + ". Link with " +
                     stem + ".o and libattn-runtime.a.\n";
  text += "#ifndef " + guard + "\n#define " + guard + "\n\n";
  text += "#include \"attn-c/Runtime.h\"\n\n";
  text += "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n";
  text += "/// Tensors by rank; strides in elements, 1 in the last dimension "
          "of those that\n/// have columns.\n";
  std::set<std::string> ranks;
  auto declareRank = [&](const ArgInfo &arg) {
    std::string rank = std::to_string(arg.shape.size());
    if (arg.isScalar || !ranks.insert(rank).second)
      return;
    // A tensor of rank 0 has no sizes to speak of.
    std::string count = arg.shape.empty() ? "1" : rank;
    text += "#ifndef ATTN_TENSOR" + rank + "\n#define ATTN_TENSOR" + rank +
            "\ntypedef struct AttnTensor" + rank +
            " {\n  void *data;\n  int64_t sizes[" + count + "], strides[" +
            count + "];\n} AttnTensor" + rank + ";\n#endif\n";
  };
  for (const Kernel &entry : entries) {
    std::for_each(entry.inputs.begin(), entry.inputs.end(), declareRank);
    std::for_each(entry.outputs.begin(), entry.outputs.end(), declareRank);
  }
  text += "\n";
  if (kernel.isOnDevice()) {
    std::string id = toIdentifier(kernel.getEntryName());
    size_t count = attnKernelNumDeviceKernels(kernel.get());
    // The module is that of all entries, and bears the name of the first.
    text += "static const AttnModuleKernel " + id + "_kernels[] = {\n";
    for (size_t i = 0; i < count; ++i) {
      AttnDeviceKernel info;
      if (AttnError *error = attnKernelDeviceKernel(kernel.get(), i, &info)) {
        Failure failure{attnErrorMessage(error)};
        attnErrorDestroy(error);
        return failure;
      }
      text += "    {\"" + std::string(info.name) + "\", " +
              std::to_string(info.threads) + ", " +
              std::to_string(info.persistent) + ", " +
              std::to_string(info.sharedBytes) + "},\n";
    }
    text += "};\n\n/// `image`: what " + stem + ".ptx or " + stem +
            ".cubin holds. Returns null, or a message to free.\n"
            "static inline char *" +
            id +
            "_create(AttnModule **module, const void *image, size_t size) {\n"
            "  return attnModuleCreate(module, \"" +
            attnKernelTarget(kernel.get()) + "\", image, size,\n      " + id +
            "_kernels, " + std::to_string(count) + ");\n}\n\n";
  }
  for (const Kernel &entry : entries) {
    auto declared = printEntry(entry);
    if (!declared)
      return declared.takeFailure();
    text += *declared + "\n";
  }
  text += "#ifdef __cplusplus\n} // extern \"C\"\n#endif\n\n#endif // " +
          guard + "\n";
  return text;
}

//===----------------------------------------------------------------------===//
// The tool
//===----------------------------------------------------------------------===//

static Result<Kernel> compile(const Options &options, const char *name) {
  AttnCompileOptions compileOptions = {};
  compileOptions.structSize = sizeof(compileOptions);
  compileOptions.target =
      options.target.empty() ? nullptr : options.target.c_str();
  // Code for another machine than this one; it is not run here.
  compileOptions.objectOnly = 1;
  compileOptions.name = name;
  auto kernel = compileProgram(options, compileOptions);
  if (kernel && kernel->isEmulated())
    return Failure{"expected a target that programs can link code for, but got "
                   "'" +
                   std::string(attnKernelTarget(kernel->get())) +
                   "', which runs inside libattn.so alone"};
  return kernel;
}

static Status compileToFiles(const Options &options, const char *name,
                             const std::string &prefix) {
  auto kernel = compile(options, name);
  if (!kernel)
    return kernel.takeFailure();
  if (options.explain)
    std::fputs(attnKernelExplain(kernel->get()), stdout);
  std::string stem = prefix.substr(prefix.find_last_of('/') + 1);
  auto entries = kernel->listEntries();
  if (!entries)
    return entries.takeFailure();
  auto header = printHeader(*entries, stem);
  if (!header)
    return header.takeFailure();
  size_t size = 0;
  const void *object = attnKernelObject(kernel->get(), &size);
  if (Status ok = writeFile(prefix + ".o", object, size); !ok)
    return ok;
  if (const char *ptx = attnKernelPtx(kernel->get()))
    if (Status ok = writeFile(prefix + ".ptx", ptx, std::strlen(ptx)); !ok)
      return ok;
  if (const void *cubin = attnKernelCubin(kernel->get(), &size))
    if (Status ok = writeFile(prefix + ".cubin", cubin, size); !ok)
      return ok;
  return writeFile(prefix + ".h", header->data(), header->size());
}

int attn::attnCompileMain(int argc, char **argv) {
  // All but -o and --name is said as attn-run has it.
  std::string prefix, again;
  const char *name = nullptr;
  std::vector<char *> rest = {argv[0]};
  for (int i = 1; i < argc; ++i) {
    bool isPrefix = std::strcmp(argv[i], "-o") == 0;
    if ((!isPrefix && std::strcmp(argv[i], "--name") != 0) || i + 1 == argc) {
      rest.push_back(argv[i]);
      continue;
    }
    if (isPrefix ? !prefix.empty() : name != nullptr)
      again = argv[i];
    ++i;
    if (isPrefix)
      prefix = argv[i];
    else
      name = argv[i];
  }
  rest.push_back(nullptr);
  static const std::set<std::string> known = {
      "--attention", "--scan",   "--monoid",  "--score-mod", "--mask-mod",
      "--schedule",  "--target", "--explain", "--help",      "-h"};
  auto options = parseOptions(int(rest.size()) - 1, rest.data(), &known);
  if (options && options->help) {
    std::fputs(help, stdout);
    return 0;
  }
  std::string error = options ? "" : options.error();
  if (error.empty() && !again.empty())
    error = "expected each option once, but got '" + again + " again'";
  if (error.empty() && (prefix.empty() || prefix.back() == '/'))
    error = "expected -o PREFIX, but got none";
  if (error.empty() && name && !options->attention)
    error = std::string("expected --name together with --attention, but got ") +
            (options->scan ? "--scan" : "a file");
  if (!error.empty()) {
    std::fprintf(stderr, "attn-compile: error: %s\n", error.c_str());
    return 2;
  }
  Status ok = compileToFiles(*options, name, prefix);
  if (!ok) {
    std::fprintf(stderr, "attn-compile: error: %s\n", ok.error().c_str());
    return 1;
  }
  return 0;
}

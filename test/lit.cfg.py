"""The test suite of attn: FileCheck tests, unit tests and Python tests.

Run all of it with `tools/dev test`, or a part of it with
`tools/dev test -- test/Dialect/Attn`. Docs: docs/Testing.md.
"""

import os
import shutil
import subprocess
import sys

import lit.formats
import lit.util
from lit.llvm import llvm_config
from lit.llvm.subst import ToolSubst

config.name = "attn"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "CMakeLists.txt", "__pycache__"]
sys.path.append(os.path.dirname(__file__))
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.attn_obj_root, "test")

# ===-- Tools -------------------------------------------------------------=== #

llvm_config.with_environment("PATH", config.llvm_tools_dir, append_path=True)
llvm_config.with_environment("PATH", config.attn_tools_dir, append_path=True)
llvm_config.with_environment(
    "PYTHONPATH", os.path.join(config.attn_src_root, "python"), append_path=True
)
llvm_config.with_environment(
    "ATTN_LIBRARY", os.path.join(config.attn_lib_dir, "libattn.so")
)
# What a user has set must not change what a test sees.
for name in ("ATTN_TARGET", "ATTN_NUM_THREADS", "ATTN_CACHE_DIR", "ATTN_EMULATOR"):
    config.environment.pop(name, None)

# Nothing is left in the user's cache; tests of it set a folder of their own.
config.environment["ATTN_CACHE_DIR"] = ""

# With the switch set, every attn-opt of the suite also checks that what it
# parsed survives printing and bytecode.
attn_opt_args = []
if os.environ.get("ATTN_OPT_CHECK_IR_ROUNDTRIP"):
    attn_opt_args = ["--verify-roundtrip"]
    config.available_features.add("roundtrip")

tools = [
    ToolSubst("attn-opt", extra_args=attn_opt_args),
    ToolSubst("attn-run", unresolved="ignore"),
    ToolSubst("attn-compile", unresolved="ignore"),
    ToolSubst("attn-fuzz", unresolved="ignore"),
    ToolSubst("attn-reduce", unresolved="ignore"),
    ToolSubst("attn-lsp-server", unresolved="ignore"),
    "FileCheck",
    "count",
    "not",
    "split-file",
    ToolSubst("mlir-opt", unresolved="ignore"),
    ToolSubst("mlir-tblgen", unresolved="ignore"),
    ToolSubst("llvm-tblgen", unresolved="ignore"),
    ToolSubst("llvm-nm", unresolved="ignore"),
]
llvm_config.add_tool_substitutions(
    tools, [config.attn_tools_dir, config.llvm_tools_dir]
)
config.substitutions += [
    ("%python", config.python_executable),
    ("%attn_src", config.attn_src_root),
    ("%attn_obj", config.attn_obj_root),
    ("%attn_tools", config.attn_tools_dir),
    ("%attn_lib", config.attn_lib_dir),
    ("%llvm_include", os.path.join(config.llvm_tools_dir, "..", "include")),
    (
        "%fake_cuda",
        os.path.join(config.test_exec_root, "Runtime", "libcuda.so.1"),
    ),
    ("%cc", config.host_cc),
    # Around a pass over kernels: what is legal at any time must not break them.
    ("%tidy", "--canonicalize --cse"),
    ("%verify_kernels", "--tile-gpu-copy-fragments --tile-gpu-verify-async"),
]

# ===-- Features ----------------------------------------------------------=== #


def succeeds(*command):
    try:
        return (
            subprocess.run(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            ).returncode
            == 0
        )
    except OSError:
        return False


def has_module(name):
    return succeeds(config.python_executable, "-c", "import " + name)


def cpu_flags():
    try:
        with open("/proc/cpuinfo") as cpuinfo:
            for line in cpuinfo:
                if line.startswith("flags"):
                    return set(line.split(":", 1)[1].split())
    except OSError:
        pass
    return set()


# Instruction sets of this machine, each implying those before it; the names
# are those of the targets (attn/Target/TargetInfo.h).
flags = cpu_flags()
for target, needs in [
    ("cpu-avx2", {"avx2", "fma", "f16c"}),
    ("cpu-avx512", {"avx512f", "avx512bw", "avx512dq", "avx512vl"}),
    ("cpu-avx512-bf16", {"avx512_bf16"}),
    ("cpu-amx", {"amx_tile", "amx_bf16"}),
]:
    if not needs <= flags:
        break
    config.available_features.add(target)

# GPUs: `gpu` for any, and one feature for each level the first one reaches.
if os.path.exists("/dev/nvidia0") and shutil.which("nvidia-smi"):
    query = subprocess.run(
        ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"],
        stdout=subprocess.PIPE,
        text=True,
    )
    capabilities = query.stdout.split()
    if query.returncode == 0 and capabilities:
        level = int(capabilities[0].replace(".", ""))
        config.available_features.add("gpu")
        for feature in (80, 86, 89, 90):
            if level >= feature:
                config.available_features.add("sm%d" % feature)
if shutil.which("ptxas") or os.path.exists("/usr/local/cuda/bin/ptxas"):
    config.available_features.add("ptxas")

# Parts of the build and of the machine.
if has_module("numpy"):
    config.available_features.add("python")
if has_module("ml_dtypes"):
    config.available_features.add("ml_dtypes")
for name in ("torch", "jax"):
    if has_module(name):
        config.available_features.add(name)
for tool in ("clang-format-22", "mlir-opt", "llvm-nm"):
    if shutil.which(tool, path=config.environment["PATH"]):
        config.available_features.add(tool)
for library in ("libattn.so", "libattn-plugin.so"):
    if os.path.exists(os.path.join(config.attn_lib_dir, library)):
        config.available_features.add(library)
for tool in ("attn-run", "attn-compile", "attn-fuzz"):
    if os.path.exists(os.path.join(config.attn_tools_dir, tool)):
        config.available_features.add(tool)

if config.attn_sanitize:
    config.available_features.add("sanitizer")
    # Headers of LLVM poison memory in our code, which Debian's LLVM, built
    # without, does not unpoison; and LLVM keeps its registries to the end.
    config.environment["ASAN_OPTIONS"] = (
        "allow_user_poisoning=0:detect_leaks=0:allocator_may_return_null=1"
    )

# Long tests run when asked for: `tools/dev test --expensive`.
if os.environ.get("ATTN_TEST_EXPENSIVE"):
    config.available_features.add("expensive")

# A test that hangs fails alone, not the whole run.
supported, _ = lit.util.killProcessAndChildrenIsSupported()
if supported and not lit_config.maxIndividualTestTime:
    lit_config.maxIndividualTestTime = (
        3600 if "expensive" in config.available_features else 600
    )

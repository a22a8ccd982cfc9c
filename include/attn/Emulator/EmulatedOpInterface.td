//===- EmulatedOpInterface.td - What operations do ---------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_EMULATOR_EMULATEDOPINTERFACE_TD
#define ATTN_EMULATOR_EMULATEDOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def EmulatedOpInterface : OpInterface<"EmulatedOpInterface"> {
  let cppNamespace = "::attn::emulator";
  let description = [{
    An operation of a kernel that the emulator executes. It appends instructions
    for the agents of its role: what is computed, what memory is touched and by
    whom, what it waits for, and what takes effect only later. With these come
    the operation's hazards: an access that nothing orders is reported.

    Operations of `tile_gpu` get theirs as external models in lib/Emulator.
  }];
  let methods = [
    InterfaceMethod<"Appends the operation's instructions.",
                    "::llvm::LogicalResult", "emulate",
                    (ins "::attn::emulator::ProgramBuilder &":$builder)>,
    InterfaceMethod<[{What an execution takes by the rates of a target. Bytes of
      global memory and of copies are counted where `emulate` touches them.}],
                    "::attn::emulator::OpCost", "cost",
                    (ins "const ::attn::TargetInfo &":$target)>
  ];
}

#endif // ATTN_EMULATOR_EMULATEDOPINTERFACE_TD

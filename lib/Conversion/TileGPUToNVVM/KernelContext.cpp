//===- KernelContext.cpp - What lowerings of a kernel share ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelContext.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

int64_t gpu::blockRowsOf(Scope scope) {
  return scope == Scope::Warp ? MmaShape::warp().m : MmaShape::warpgroup().m;
}

bool gpu::isPacked(FragType type) {
  return type.getElementType().isBF16() || type.getElementType().isF16();
}

FragShape::FragShape(FragType type)
    : colBlocks(type.getCols() / 8), blockRows(blockRowsOf(type.getScope())),
      rowsOfThread(2) {
  if (type.isHalf()) {
    blockRows /= 2;
    rowsOfThread = 1;
  }
  blocks = type.getRows() / blockRows;
}

KernelContext::KernelContext(KernelOp kernel, const TargetInfo &target)
    : kernel(kernel), target(target), e(kernel.getContext()) {}

LogicalResult gpu::unsupported(Operation *op, const Twine &expected) {
  return op->emitOpError("expected ") << expected;
}

LogicalResult KernelContext::lowerBlock(Block &block) {
  for (Operation &op : block.without_terminator())
    if (failed(lowerOp(&op)))
      return failure();
  return success();
}

LogicalResult KernelContext::evaluate(Block &body, ArrayRef<Value> arguments,
                                      SmallVectorImpl<Value> &results) {
  for (auto [argument, value] : llvm::zip_equal(body.getArguments(), arguments))
    set(argument, {value});
  if (failed(lowerBlock(body)))
    return failure();
  results.clear();
  for (Value value : body.getTerminator()->getOperands())
    results.push_back(scalar(value));
  return success();
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Values &KernelContext::of(Value value) {
  auto loaded = packedLoads.find(value);
  if (loaded == packedLoads.end())
    return values[value];
  // Made anew for each user, so that nothing waits for the load before; what
  // is the same LLVM finds.
  auto &[words, places, memory] = loaded->second;
  Values elements;
  for (unsigned place : places)
    elements.push_back(e.widen(e.unpack(words[place / 2], place % 2, memory)));
  return values[value] = std::move(elements);
}

Type KernelContext::scalarType(Type type) {
  return type.isIndex() ? e.i64 : type;
}

int64_t KernelContext::registerCount(Type type) {
  if (auto token = dyn_cast<TokenType>(type))
    return token.getFragType().getRegisters();
  if (auto frag = dyn_cast<FragType>(type))
    return frag.getRegisters();
  auto vec = cast<VecType>(type);
  if (vec.getAxis() == Axis::Row)
    return std::max<int64_t>(vec.getSize() * 2 / blockRowsOf(vec.getScope()),
                             1);
  return vec.getSize() / 8 * 2;
}

Type KernelContext::registerType(Type type) {
  if (auto frag = dyn_cast<FragType>(type))
    return isPacked(frag) || frag.getElementType().isTF32()
               ? e.i32
               : frag.getElementType();
  if (auto vec = dyn_cast<VecType>(type))
    return vec.getElementType();
  return e.f32; // Tokens own accumulators.
}

void KernelContext::flatten(Type type, SmallVectorImpl<Type> &types) {
  if (isa<FragType, VecType, TokenType>(type))
    types.append(registerCount(type), registerType(type));
  else if (isa<SmemType>(type))
    types.push_back(e.i32);
  else if (isa<TensorMapType>(type))
    types.push_back(e.generic);
  else if (auto memref = dyn_cast<MemRefType>(type)) {
    types.push_back(e.global);
    types.append(2 * memref.getRank(), e.i64);
  } else
    types.push_back(scalarType(type));
}

Values KernelContext::flat(ValueRange operands) {
  Values result;
  for (Value operand : operands)
    llvm::append_range(result, of(operand));
  return result;
}

void KernelContext::setAll(ValueRange results, ValueRange flat) {
  size_t at = 0;
  for (Value result : results) {
    SmallVector<Type> types;
    flatten(result.getType(), types);
    set(result, Values(flat.slice(at, types.size())));
    at += types.size();
  }
}

int64_t KernelContext::rowOffset(Scope scope, int64_t rowKey) {
  return rowKey / 2 * blockRowsOf(scope) + rowKey % 2 * 8;
}

Value KernelContext::rowIndex(Scope scope, int64_t rowKey) {
  return e.add(role.row, rowOffset(scope, rowKey));
}

Value KernelContext::colIndex(int64_t colKey) {
  return e.add(role.col, offsetOf(colKey));
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value KernelContext::slotAddress(int64_t offset, int64_t bytes, Value slot) {
  return e.add(address(offset), e.mul(slot, bytes));
}

/// Makes `index`, where it is a column of a fragment, the thread's first one,
/// and returns how much further the column is. So all elements of a row have
/// one address, and constants behind it: columns are few, and their sum is the
/// same in 64 bits.
static int64_t splitColumn(KernelContext &k, Value &index) {
  auto wide = index.getDefiningOp<LLVM::SExtOp>();
  Value column = wide ? wide.getArg() : index;
  auto sum = column.getDefiningOp<LLVM::AddOp>();
  if (!sum || sum.getLhs() != k.role.col)
    return 0;
  std::optional<int64_t> further = k.e.constantOf(sum.getRhs());
  if (!further)
    return 0;
  index = k.role.col;
  return *further;
}

Value KernelContext::elementPointer(Value memref, ValueRange indices) {
  auto type = cast<MemRefType>(memref.getType());
  int64_t rank = type.getRank();
  Values parts = of(memref);
  SmallVector<Value> places(indices);
  int64_t further = 0;
  // Of f32 kernels of 128 channels spill more with it.
  bool isNarrow = type.getElementTypeBitWidth() <= 16;
  if (rank && isNarrow && e.constantOf(parts[2 * rank]) == 1)
    further = splitColumn(*this, places.back());
  Value offset = e.c64(0);
  for (int64_t i = 0; i < rank; ++i)
    offset = e.add(offset, e.mul(e.sext64(places[i]), parts[1 + rank + i]));
  // A truth is a byte in memory.
  Type element = type.getElementType();
  if (element == e.i1)
    element = e.i8;
  return e.element(e.element(parts[0], offset, element), e.c64(further),
                   element);
}

//===----------------------------------------------------------------------===//
// Unsigned division
//===----------------------------------------------------------------------===//

/// Division of unsigned 32 bits in the manner of LLVM's AMDGPU back end: an
/// estimate of 2^32 / y from the reciprocal in f32 and one Newton step; then
/// two corrections of the quotient. The first part leaves a loop over work
/// items, where the assembler's division would stay whole.
///
/// The step and the corrections bear an estimate that is too small, none that
/// is too large. The factor, 2^32 (1 - 2^-20), allows for a reciprocal of 6
/// units in the last place too much, as those of y and of the product may be
/// rounded up, too; rcp.approx is off by one. Exact then: the quotients of 900
/// million pairs with reciprocals off by -6 to 6 units.
Value KernelContext::inverseOf(Value y) {
  Value divisor = LLVM::UIToFPOp::create(e.b, e.loc, e.f32, y);
  Value reciprocal = e.call("llvm.nvvm.rcp.approx.ftz.f", e.f32, {divisor});
  Value scaled = e.fmul(reciprocal, e.cf(0x1p32f - 0x1p12f));
  Value inverse = LLVM::FPToUIOp::create(e.b, e.loc, e.i32, scaled);
  Value error = e.mul(e.sub(e.c32(0), y), inverse);
  return e.add(inverse, e.call("llvm.nvvm.mulhi.ui", e.i32, {inverse, error}));
}

/// x / y and the remainder.
std::pair<Value, Value> KernelContext::divideUnsigned(Value x, Value y) {
  Value known = inverses.lookup(y);
  Value quotient =
      e.call("llvm.nvvm.mulhi.ui", e.i32, {x, known ? known : inverseOf(y)});
  Value rest = e.sub(x, e.mul(quotient, y));
  for (int round = 0; round < 2; ++round) {
    Value more = e.icmp(LLVM::ICmpPredicate::uge, rest, y);
    quotient = e.select(more, e.add(quotient, 1), quotient);
    rest = e.select(more, e.sub(rest, y), rest);
  }
  return {quotient, rest};
}

//===----------------------------------------------------------------------===//
// Barriers
//===----------------------------------------------------------------------===//

void KernelContext::waitBarrier(Value barrier, Value phase, bool ofCluster) {
  // From sm_90 on the wait itself suspends the thread for a while.
  if (target.hasTensorCopy) {
    StringRef order = ofCluster ? ".acquire.cluster" : "";
    e.assembly("{\n.reg .pred P1;\nLAB_WAIT:\n"
               "mbarrier.try_wait.parity" +
                   order +
                   ".shared::cta.b64 P1, [$0], $1, "
                   "0x989680;\n@P1 bra.uni DONE;\nbra.uni LAB_WAIT;\nDONE:\n}",
               "r,r,~{memory}", {barrier, phase});
    return;
  }
  e.assembly("{\n.reg .pred P1;\nLAB_WAIT:\n"
             "mbarrier.test_wait.parity.shared::cta.b64 P1, [$0], $1;\n"
             "@P1 bra.uni DONE;\nbra.uni LAB_WAIT;\nDONE:\n}",
             "r,r,~{memory}", {barrier, phase});
}

void KernelContext::arrive(Value barrier, Value predicate) {
  // Before sm_90 the result cannot be dropped.
  std::string text = predicate ? "@$1 " : "";
  text += target.hasTensorCopy ? "mbarrier.arrive.shared::cta.b64 _, [$0];"
                               : "mbarrier.arrive.shared::cta.b64 s, [$0];\n}";
  if (!target.hasTensorCopy)
    text = "{\n.reg .b64 s;\n" + text;
  if (predicate)
    e.assembly(text, "r,b,~{memory}", {barrier, predicate});
  else
    e.assembly(text, "r,~{memory}", {barrier});
}

/// Orders this thread's accesses to shared memory before later copies and
/// products, which reach it by another way.
void KernelContext::fenceProxy() {
  if (target.hasTensorCopy)
    e.assembly("fence.proxy.async.shared::cta;", "~{memory}", {});
}

void KernelContext::syncWarp() {
  e.assembly("bar.warp.sync 0xffffffff;", "~{memory}", {});
}

/// Waits for all threads of this member of the role.
void KernelContext::syncMember() {
  if (role.scope == Scope::Warp)
    return syncWarp();
  e.call("llvm.nvvm.barrier.cta.sync.aligned.count",
         {e.add(role.member, layout.memberBarrier(role.op)),
          e.c32(TargetInfo::warpgroupThreads)});
}

/// Waits for all warps of a role of warps.
void KernelContext::syncRole() {
  if (role.warps == 1)
    return syncWarp();
  e.call("llvm.nvvm.barrier.cta.sync.aligned.count",
         {e.c32(layout.memberBarrier(role.op)),
          e.c32(role.warps * TargetInfo::warpThreads)});
}

std::pair<int64_t, Value> KernelContext::memberThreads() {
  if (role.scope == Scope::Warp)
    return {TargetInfo::warpThreads, lane};
  int64_t members = TargetInfo::warpgroupThreads;
  return {members, e.and_(thread, members - 1)};
}

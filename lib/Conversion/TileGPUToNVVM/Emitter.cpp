//===- Emitter.cpp - Straight-line LLVM dialect for one thread ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"
#include "llvm/ADT/Twine.h"

using namespace mlir;
using namespace ::attn::gpu;

Emitter::Emitter(MLIRContext *context)
    : b(context), loc(UnknownLoc::get(context)) {
  i1 = b.getI1Type();
  i8 = b.getI8Type();
  i16 = b.getI16Type();
  i32 = b.getI32Type();
  i64 = b.getI64Type();
  f16 = b.getF16Type();
  bf16 = b.getBF16Type();
  f32 = b.getF32Type();
  f64 = b.getF64Type();
  global = LLVM::LLVMPointerType::get(context, 1);
  generic = LLVM::LLVMPointerType::get(context);
}

void Emitter::setEntry(Block *block) {
  entry = block;
  constants.clear();
  known.clear();
  b.setInsertionPointToEnd(block);
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

Value Emitter::constant(Type type, int64_t value) {
  unsigned width = type.getIntOrFloatBitWidth();
  if (width < 64)
    value = llvm::SignExtend64(value, width);
  Value &slot = constants[{type, uint64_t(value)}];
  if (!slot) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(entry);
    slot = LLVM::ConstantOp::create(
        b, loc, type, b.getIntegerAttr(type, APInt(width, value, true)));
    known[slot] = value;
  }
  return slot;
}

Value Emitter::floating(Type type, APFloat value) {
  uint64_t bits = value.bitcastToAPInt().getZExtValue();
  Value &slot = constants[{type, bits}];
  if (!slot) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(entry);
    slot = LLVM::ConstantOp::create(b, loc, type, b.getFloatAttr(type, value));
  }
  return slot;
}

Value Emitter::cf(float value) { return floating(f32, APFloat(value)); }

std::optional<int64_t> Emitter::constantOf(Value value) const {
  auto it = known.find(value);
  if (it == known.end())
    return std::nullopt;
  return it->second;
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

Value Emitter::add(Value x, Value y) {
  auto cx = constantOf(x), cy = constantOf(y);
  if (cx && cy)
    return constant(x.getType(), *cx + *cy);
  if (cx && *cx == 0)
    return y;
  if (cy && *cy == 0)
    return x;
  return LLVM::AddOp::create(b, loc, x, y);
}

Value Emitter::sub(Value x, Value y) {
  auto cx = constantOf(x), cy = constantOf(y);
  if (cx && cy)
    return constant(x.getType(), *cx - *cy);
  if (cy && *cy == 0)
    return x;
  return LLVM::SubOp::create(b, loc, x, y);
}

Value Emitter::mul(Value x, Value y) {
  auto cx = constantOf(x), cy = constantOf(y);
  if (cx && cy)
    return constant(x.getType(), int64_t(uint64_t(*cx) * uint64_t(*cy)));
  if (cx)
    std::swap(x, y), std::swap(cx, cy);
  if (cy && *cy == 0)
    return y;
  if (cy && *cy == 1)
    return x;
  return LLVM::MulOp::create(b, loc, x, y);
}

Value Emitter::and_(Value x, int64_t mask) {
  return and_(x, constant(x.getType(), mask));
}

Value Emitter::and_(Value x, Value y) {
  auto cx = constantOf(x), cy = constantOf(y);
  if (cx && cy)
    return constant(x.getType(), *cx & *cy);
  if (cx)
    std::swap(x, y), std::swap(cx, cy);
  if (cy && *cy == 0)
    return y;
  if (cy && *cy == -1)
    return x;
  return LLVM::AndOp::create(b, loc, x, y);
}

Value Emitter::or_(Value x, Value y) {
  auto cx = constantOf(x), cy = constantOf(y);
  if (cx && cy)
    return constant(x.getType(), *cx | *cy);
  if (cx)
    std::swap(x, y), std::swap(cx, cy);
  if (cy && *cy == 0)
    return x;
  return LLVM::OrOp::create(b, loc, x, y);
}

Value Emitter::xor_(Value x, Value y) {
  auto cx = constantOf(x), cy = constantOf(y);
  if (cx && cy)
    return constant(x.getType(), *cx ^ *cy);
  if (cx)
    std::swap(x, y), std::swap(cx, cy);
  if (cy && *cy == 0)
    return x;
  return LLVM::XOrOp::create(b, loc, x, y);
}

Value Emitter::shl(Value x, int64_t bits) {
  if (auto cx = constantOf(x))
    return constant(x.getType(), int64_t(uint64_t(*cx) << bits));
  if (bits == 0)
    return x;
  return LLVM::ShlOp::create(b, loc, x, constant(x.getType(), bits));
}

Value Emitter::lshr(Value x, int64_t bits) {
  if (bits == 0)
    return x;
  if (auto cx = constantOf(x)) {
    unsigned width = x.getType().getIntOrFloatBitWidth();
    return constant(x.getType(),
                    APInt(width, *cx, true).lshr(bits).getSExtValue());
  }
  return LLVM::LShrOp::create(b, loc, x, constant(x.getType(), bits));
}

Value Emitter::udiv(Value x, Value y) {
  auto cx = constantOf(x), cy = constantOf(y);
  if (cy && *cy > 0) {
    if (cx && *cx >= 0)
      return constant(x.getType(), *cx / *cy);
    if (llvm::isPowerOf2_64(*cy))
      return lshr(x, llvm::Log2_64(*cy));
  }
  return LLVM::UDivOp::create(b, loc, x, y);
}

Value Emitter::urem(Value x, Value y) {
  auto cx = constantOf(x), cy = constantOf(y);
  if (cy && *cy > 0) {
    if (cx && *cx >= 0)
      return constant(x.getType(), *cx % *cy);
    if (llvm::isPowerOf2_64(*cy))
      return and_(x, *cy - 1);
  }
  return LLVM::URemOp::create(b, loc, x, y);
}

Value Emitter::icmp(LLVM::ICmpPredicate predicate, Value x, Value y) {
  return LLVM::ICmpOp::create(b, loc, predicate, x, y);
}

Value Emitter::eq(Value x, int64_t y) {
  return icmp(LLVM::ICmpPredicate::eq, x, constant(x.getType(), y));
}

Value Emitter::select(Value condition, Value x, Value y) {
  if (auto known = constantOf(condition))
    return *known ? x : y;
  if (x == y)
    return x;
  return LLVM::SelectOp::create(b, loc, condition, x, y);
}

Value Emitter::sext64(Value x) {
  if (x.getType() == i64)
    return x;
  if (x.getType() == i32)
    if (auto cx = constantOf(x))
      return c64(*cx);
  return LLVM::SExtOp::create(b, loc, i64, x);
}

Value Emitter::trunc32(Value x) {
  if (x.getType() == i32)
    return x;
  if (auto cx = constantOf(x))
    return c32(int32_t(*cx));
  return LLVM::TruncOp::create(b, loc, i32, x);
}

Value Emitter::zext64(Value x) {
  if (x.getType() == i64)
    return x;
  return LLVM::ZExtOp::create(b, loc, i64, x);
}

Value Emitter::bitcast(Value x, Type type) {
  if (x.getType() == type)
    return x;
  return LLVM::BitcastOp::create(b, loc, type, x);
}

//===----------------------------------------------------------------------===//
// Floating point
//===----------------------------------------------------------------------===//

Value Emitter::fmul(Value x, Value y) {
  return LLVM::FMulOp::create(b, loc, x, y);
}
Value Emitter::fadd(Value x, Value y) {
  return LLVM::FAddOp::create(b, loc, x, y);
}
Value Emitter::fsub(Value x, Value y) {
  return LLVM::FSubOp::create(b, loc, x, y);
}
Value Emitter::fma(Value x, Value y, Value z) {
  return LLVM::FMAOp::create(b, loc, x, y, z);
}
Value Emitter::fcmp(LLVM::FCmpPredicate predicate, Value x, Value y) {
  return LLVM::FCmpOp::create(b, loc, predicate, x, y);
}

Value Emitter::pack(Value low, Value high, Type element) {
  StringRef name =
      element.isBF16() ? "llvm.nvvm.ff2bf16x2.rn" : "llvm.nvvm.ff2f16x2.rn";
  // The first operand goes to the upper half.
  Value pair = call(name, VectorType::get(2, element), {high, low});
  return bitcast(pair, i32);
}

Value Emitter::unpack(Value packed, int64_t half, Type element) {
  Value bits = LLVM::TruncOp::create(b, loc, i16, lshr(packed, half * 16));
  return bitcast(bits, element);
}

Value Emitter::roundTf32(Value x) {
  return call("llvm.nvvm.f2tf32.rna", i32, {bitcast(x, f32)});
}

Value Emitter::widen(Value x) {
  if (x.getType() == f32)
    return x;
  if (x.getType() != bf16)
    return LLVM::FPExtOp::create(b, loc, f32, x);
  // bf16 is the upper half of an f32; sm_80 has no instruction for it. Of two
  // that lie in a word one instruction makes either.
  if (auto half = x.getDefiningOp<LLVM::BitcastOp>())
    if (auto low = half.getArg().getDefiningOp<LLVM::TruncOp>();
        low && low.getArg().getType() == i32) {
      auto upper = low.getArg().getDefiningOp<LLVM::LShrOp>();
      if (upper && constantOf(upper.getRhs()) == 16)
        return bitcast(and_(upper.getLhs(), -int64_t(1 << 16)), f32);
      if (!upper)
        return bitcast(shl(low.getArg(), 16), f32);
    }
  Value bits = LLVM::ZExtOp::create(b, loc, i32, bitcast(x, i16));
  return bitcast(shl(bits, 16), f32);
}

//===----------------------------------------------------------------------===//
// Calls and assembly
//===----------------------------------------------------------------------===//

Value Emitter::call(StringRef intrinsic, Type result, ValueRange arguments) {
  return LLVM::CallIntrinsicOp::create(b, loc, result,
                                       b.getStringAttr(intrinsic), arguments)
      .getResult(0);
}

void Emitter::call(StringRef intrinsic, ValueRange arguments) {
  LLVM::CallIntrinsicOp::create(b, loc, b.getStringAttr(intrinsic), arguments);
}

Values Emitter::assembly(const Twine &text, StringRef constraints,
                         ValueRange inputs, TypeRange results,
                         bool isVolatile) {
  SmallVector<Type, 1> type;
  if (results.size() == 1)
    type.push_back(results.front());
  else if (!results.empty())
    type.push_back(LLVM::LLVMStructType::getLiteral(b.getContext(),
                                                    llvm::to_vector(results)));
  auto op = LLVM::InlineAsmOp::create(
      b, loc, TypeRange(type), inputs, b.getStringAttr(text),
      b.getStringAttr(constraints), isVolatile ? b.getUnitAttr() : UnitAttr(),
      UnitAttr(),
      LLVM::TailCallKindAttr::get(b.getContext(),
                                  LLVM::tailcallkind::TailCallKind::None),
      LLVM::AsmDialectAttr(), ArrayAttr());
  if (results.size() < 2)
    return Values(op->getResults());
  Values values;
  for (int64_t i = 0, e = results.size(); i < e; ++i)
    values.push_back(LLVM::ExtractValueOp::create(b, loc, op->getResult(0), i));
  return values;
}

//===----------------------------------------------------------------------===//
// Memory, lanes, control flow
//===----------------------------------------------------------------------===//

Value Emitter::element(Value pointer, Value index, Type type) {
  if (auto constant = constantOf(index); constant && *constant == 0)
    return pointer;
  return LLVM::GEPOp::create(b, loc, pointer.getType(), type, pointer,
                             ValueRange{index});
}

Value Emitter::load(Type type, Value pointer, int64_t alignment) {
  return LLVM::LoadOp::create(b, loc, type, pointer, alignment);
}

void Emitter::store(Value value, Value pointer, int64_t alignment) {
  LLVM::StoreOp::create(b, loc, value, pointer, alignment);
}

/// Calls a shuffle on a value of 32 bits or less.
static Value shuffle(Emitter &e, StringRef name, Value x, Value lane) {
  Type type = x.getType();
  Value bits = x;
  if (type == e.i1)
    bits = LLVM::ZExtOp::create(e.b, e.loc, e.i32, x);
  bool isFloat = type == e.f32;
  bits = e.call(
      ("llvm.nvvm.shfl.sync." + name + (isFloat ? ".f32" : ".i32")).str(),
      isFloat ? e.f32 : e.i32, {e.c32(-1), bits, lane, e.c32(31)});
  if (type == e.i1)
    return e.icmp(LLVM::ICmpPredicate::ne, bits, e.c32(0));
  return bits;
}

Value Emitter::shuffleXor(Value x, int64_t mask) {
  return shuffle(*this, "bfly", x, c32(mask));
}

Value Emitter::shuffleIndex(Value x, int64_t lane) {
  return shuffle(*this, "idx", x, c32(lane));
}

Value Emitter::shuffleTo(Value x, Value lane) {
  return shuffle(*this, "idx", x, lane);
}

Block *Emitter::newBlock(TypeRange types) {
  Block *block = new Block();
  entry->getParent()->push_back(block);
  for (Type type : types)
    block->addArgument(type, loc);
  return block;
}

void Emitter::branch(Block *to, ValueRange arguments) {
  LLVM::BrOp::create(b, loc, arguments, to);
}

void Emitter::branch(Value condition, Block *yes, Block *no,
                     ValueRange yesArguments, ValueRange noArguments) {
  LLVM::CondBrOp::create(b, loc, condition, yes, yesArguments, no, noArguments);
}

void Emitter::repeatRolled(Block *header, ValueRange arguments) {
  MLIRContext *context = b.getContext();
  auto unroll = LLVM::LoopUnrollAttr::get(
      context, /*disable=*/b.getBoolAttr(true), /*count=*/{},
      /*runtimeDisable=*/{}, /*full=*/{}, /*followupUnrolled=*/{},
      /*followupRemainder=*/{}, /*followupAll=*/{});
  auto loop = LLVM::LoopAnnotationAttr::get(
      context, /*disableNonforced=*/{}, /*vectorize=*/{}, /*interleave=*/{},
      unroll, /*unrollAndJam=*/{}, /*licm=*/{}, /*distribute=*/{},
      /*pipeline=*/{}, /*peeled=*/{}, /*unswitch=*/{}, /*mustProgress=*/{},
      /*isVectorized=*/{}, /*startLoc=*/{}, /*endLoc=*/{},
      /*parallelAccesses=*/{});
  LLVM::BrOp::create(b, loc, arguments, loop, header);
}

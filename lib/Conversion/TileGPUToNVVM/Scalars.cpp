//===- Scalars.cpp - arith and memref on scalars --------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowerings.h"
#include "attn/Dialect/TileGPU/IR/FusedSum.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace ::attn;
using namespace ::attn::gpu;

/// The flags that LLVM is to see.
static LLVM::FastmathFlags flagsOf(Operation *op) {
  auto flags = arith::FastMathFlags::none;
  if (auto interface = dyn_cast<arith::ArithFastMathInterface>(op))
    if (auto attribute = interface.getFastMathFlagsAttr())
      flags = attribute.getValue();
  auto result = LLVM::FastmathFlags::none;
  const std::pair<arith::FastMathFlags, LLVM::FastmathFlags> pairs[] = {
      {arith::FastMathFlags::reassoc, LLVM::FastmathFlags::reassoc},
      {arith::FastMathFlags::nnan, LLVM::FastmathFlags::nnan},
      {arith::FastMathFlags::ninf, LLVM::FastmathFlags::ninf},
      {arith::FastMathFlags::nsz, LLVM::FastmathFlags::nsz},
      {arith::FastMathFlags::arcp, LLVM::FastmathFlags::arcp},
      {arith::FastMathFlags::contract, LLVM::FastmathFlags::contract},
      {arith::FastMathFlags::afn, LLVM::FastmathFlags::afn}};
  for (auto [from, to] : pairs)
    if (bitEnumContainsAll(flags, from))
      result = result | to;
  auto product = dyn_cast<arith::MulFOp>(op);
  if (isa<arith::AddFOp, arith::SubFOp>(op) || (product && isFusible(product)))
    result = result | LLVM::FastmathFlags::contract;
  return result;
}

static LLVM::ICmpPredicate convert(arith::CmpIPredicate predicate) {
  return LLVM::ICmpPredicate(uint64_t(predicate));
}
static LLVM::FCmpPredicate convert(arith::CmpFPredicate predicate) {
  return LLVM::FCmpPredicate(uint64_t(predicate));
}

namespace {

/// An operation on scalars, each of its operands a register.
class ScalarLowering {
public:
  ScalarLowering(KernelContext &kernel, Operation *op)
      : k(kernel), e(kernel.e), b(kernel.e.b), loc(kernel.e.loc), op(op),
        type(kernel.scalarType(op->getResult(0).getType())) {
    for (Value operand : op->getOperands())
      x.push_back(k.scalar(operand));
  }
  /// The result; null where the operation has no form here.
  Value lower() {
    if (Value result = lowerIntegers())
      return result;
    if (Value result = lowerBits())
      return result;
    if (Value result = lowerConversion())
      return result;
    return lowerFloats();
  }

private:
  Value lowerIntegers();
  Value lowerBits();
  Value lowerConversion();
  Value lowerFloats();

  bool isDividedHere(Value rhs) { return type == e.i32 && !e.constantOf(rhs); }
  Value divideUnsigned(Value lhs, Value rhs) {
    return isDividedHere(rhs) ? k.divideUnsigned(lhs, rhs).first
                              : e.udiv(lhs, rhs);
  }
  Value divideSigned(Value lhs, Value rhs);
  Value divideRounded(Value lhs, Value rhs, bool up);
  Value divideFloats(LLVM::FastmathFlagsAttr floats);
  /// An integer of another width; `isSigned` says how it is extended.
  Value resize(bool isSigned);

  KernelContext &k;
  Emitter &e;
  OpBuilder &b;
  Location loc;
  Operation *op;
  Type type;
  SmallVector<Value, 3> x;
};

} // namespace

Value ScalarLowering::divideSigned(Value lhs, Value rhs) {
  auto cx = e.constantOf(lhs), cy = e.constantOf(rhs);
  if (cx && cy && *cy > 0)
    return e.constant(type, *cx / *cy);
  if (cy && *cy == 1)
    return lhs;
  return LLVM::SDivOp::create(b, loc, lhs, rhs);
}

/// Quotient rounded down (`up`: up): one more or less where the truncated
/// quotient left a remainder of the other sign.
Value ScalarLowering::divideRounded(Value lhs, Value rhs, bool up) {
  Value quotient = divideSigned(lhs, rhs);
  Value rest = e.sub(lhs, e.mul(quotient, rhs));
  Value zero = e.constant(type, 0);
  Value inexact = e.icmp(LLVM::ICmpPredicate::ne, rest, zero);
  Value differ = e.lt(e.xor_(lhs, rhs), zero);
  if (up)
    differ = e.xor_(differ, e.truth(true));
  Value adjusted = e.add(quotient, up ? 1 : -1);
  return e.select(e.and_(inexact, differ), adjusted, quotient);
}

Value ScalarLowering::lowerIntegers() {
  return TypeSwitch<Operation *, Value>(op)
      .Case([&](arith::AddIOp o) {
        Value position =
            k.positions ? k.positions->add(o, x[0], x[1]) : Value();
        return position ? position : e.add(x[0], x[1]);
      })
      .Case([&](arith::SubIOp o) {
        Value distance =
            k.positions ? k.positions->subtract(o, x[0], x[1]) : Value();
        return distance ? distance : e.sub(x[0], x[1]);
      })
      .Case([&](arith::MulIOp) { return e.mul(x[0], x[1]); })
      .Case([&](arith::DivSIOp) { return divideSigned(x[0], x[1]); })
      .Case([&](arith::DivUIOp) { return divideUnsigned(x[0], x[1]); })
      .Case([&](arith::RemSIOp) -> Value {
        return LLVM::SRemOp::create(b, loc, x[0], x[1]);
      })
      .Case([&](arith::RemUIOp) -> Value {
        return isDividedHere(x[1]) ? k.divideUnsigned(x[0], x[1]).second
                                   : e.urem(x[0], x[1]);
      })
      .Case([&](arith::CeilDivSIOp) {
        return divideRounded(x[0], x[1], /*up=*/true);
      })
      .Case([&](arith::FloorDivSIOp) {
        return divideRounded(x[0], x[1], /*up=*/false);
      })
      .Case([&](arith::CeilDivUIOp) {
        Value quotient = divideUnsigned(x[0], x[1]);
        Value rest = e.sub(x[0], e.mul(quotient, x[1]));
        Value inexact =
            e.icmp(LLVM::ICmpPredicate::ne, rest, e.constant(type, 0));
        return e.select(inexact, e.add(quotient, 1), quotient);
      })
      .Case([&](arith::MinSIOp) -> Value {
        return LLVM::SMinOp::create(b, loc, x[0], x[1]);
      })
      .Case([&](arith::MaxSIOp) -> Value {
        return LLVM::SMaxOp::create(b, loc, x[0], x[1]);
      })
      .Case([&](arith::MinUIOp) -> Value {
        return LLVM::UMinOp::create(b, loc, x[0], x[1]);
      })
      .Case([&](arith::MaxUIOp) -> Value {
        return LLVM::UMaxOp::create(b, loc, x[0], x[1]);
      })
      .Default([](Operation *) { return Value(); });
}

Value ScalarLowering::lowerBits() {
  return TypeSwitch<Operation *, Value>(op)
      .Case([&](arith::AndIOp o) {
        Value both = k.positions ? k.positions->both(o, x[0], x[1]) : Value();
        if (!both && k.positions)
          both = k.positions->masked(o, x[0], x[1]);
        return both ? both : e.and_(x[0], x[1]);
      })
      .Case([&](arith::OrIOp) { return e.or_(x[0], x[1]); })
      .Case([&](arith::XOrIOp) { return e.xor_(x[0], x[1]); })
      .Case([&](arith::ShLIOp) -> Value {
        return LLVM::ShlOp::create(b, loc, x[0], x[1]);
      })
      .Case([&](arith::ShRUIOp) -> Value {
        Value part = k.positions ? k.positions->shifted(x[0], x[1]) : Value();
        return part ? part : LLVM::LShrOp::create(b, loc, x[0], x[1]);
      })
      .Case([&](arith::ShRSIOp) -> Value {
        return LLVM::AShrOp::create(b, loc, x[0], x[1]);
      })
      .Case([&](arith::CmpIOp o) {
        if (Value truth =
                k.positions ? k.positions->compare(o, x[0], x[1]) : Value())
          return truth;
        return e.icmp(convert(o.getPredicate()), x[0], x[1]);
      })
      .Case([&](arith::CmpFOp o) -> Value {
        return LLVM::FCmpOp::create(b, loc, convert(o.getPredicate()), x[0],
                                    x[1]);
      })
      .Case([&](arith::SelectOp) { return e.select(x[0], x[1], x[2]); })
      .Default([](Operation *) { return Value(); });
}

Value ScalarLowering::resize(bool isSigned) {
  unsigned from = x[0].getType().getIntOrFloatBitWidth();
  unsigned to = type.getIntOrFloatBitWidth();
  if (auto known = e.constantOf(x[0]); known && isSigned)
    return e.constant(type, *known);
  if (from == to)
    return x[0];
  if (from > to)
    return LLVM::TruncOp::create(b, loc, type, x[0]);
  if (isSigned)
    return LLVM::SExtOp::create(b, loc, type, x[0]);
  return LLVM::ZExtOp::create(b, loc, type, x[0]);
}

Value ScalarLowering::lowerConversion() {
  return TypeSwitch<Operation *, Value>(op)
      .Case<arith::ExtSIOp, arith::IndexCastOp>(
          [&](auto) { return resize(/*isSigned=*/true); })
      .Case<arith::ExtUIOp, arith::IndexCastUIOp>(
          [&](auto) { return resize(/*isSigned=*/false); })
      .Case([&](arith::TruncIOp) -> Value {
        return LLVM::TruncOp::create(b, loc, type, x[0]);
      })
      .Case([&](arith::SIToFPOp) -> Value {
        return LLVM::SIToFPOp::create(b, loc, type, x[0]);
      })
      .Case([&](arith::UIToFPOp) -> Value {
        return LLVM::UIToFPOp::create(b, loc, type, x[0]);
      })
      .Case([&](arith::FPToSIOp) -> Value {
        return LLVM::FPToSIOp::create(b, loc, type, x[0]);
      })
      .Case([&](arith::FPToUIOp) -> Value {
        return LLVM::FPToUIOp::create(b, loc, type, x[0]);
      })
      .Case([&](arith::BitcastOp) { return e.bitcast(x[0], type); })
      .Case([&](arith::ExtFOp) -> Value {
        Value wide = x[0].getType() == e.f32 ? x[0] : e.widen(x[0]);
        if (type == e.f32)
          return wide;
        return LLVM::FPExtOp::create(b, loc, type, wide);
      })
      .Case([&](arith::TruncFOp) -> Value {
        return LLVM::FPTruncOp::create(b, loc, type, x[0]);
      })
      .Default([](Operation *) { return Value(); });
}

Value ScalarLowering::divideFloats(LLVM::FastmathFlagsAttr floats) {
  bool isFast = bitEnumContainsAny(
      floats.getValue(), LLVM::FastmathFlags::afn | LLVM::FastmathFlags::arcp);
  if (!isFast || type != e.f32)
    return LLVM::FDivOp::create(b, loc, x[0], x[1]);
  Value inverse = e.call("llvm.nvvm.rcp.approx.ftz.f", e.f32, {x[1]});
  auto numerator = x[0].getDefiningOp<LLVM::ConstantOp>();
  auto number =
      numerator ? dyn_cast<FloatAttr>(numerator.getValue()) : FloatAttr();
  if (number && number.getValue().isExactlyValue(1.0))
    return inverse;
  return e.fmul(x[0], inverse);
}

Value ScalarLowering::lowerFloats() {
  auto floats = LLVM::FastmathFlagsAttr::get(b.getContext(), flagsOf(op));
  return TypeSwitch<Operation *, Value>(op)
      .Case([&](arith::AddFOp) -> Value {
        return LLVM::FAddOp::create(b, loc, x[0], x[1], floats);
      })
      .Case([&](arith::SubFOp) -> Value {
        return LLVM::FSubOp::create(b, loc, x[0], x[1], floats);
      })
      .Case([&](arith::MulFOp) -> Value {
        return LLVM::FMulOp::create(b, loc, x[0], x[1], floats);
      })
      .Case([&](arith::DivFOp) { return divideFloats(floats); })
      .Case([&](arith::NegFOp) -> Value {
        return LLVM::FNegOp::create(b, loc, x[0]);
      })
      .Case([&](arith::MaximumFOp) -> Value {
        return LLVM::MaximumOp::create(b, loc, x[0], x[1]);
      })
      .Case([&](arith::MinimumFOp) -> Value {
        return LLVM::MinimumOp::create(b, loc, x[0], x[1]);
      })
      .Case([&](arith::MaxNumFOp) -> Value {
        return LLVM::MaxNumOp::create(b, loc, x[0], x[1]);
      })
      .Case([&](arith::MinNumFOp) -> Value {
        return LLVM::MinNumOp::create(b, loc, x[0], x[1]);
      })
      .Default([](Operation *) { return Value(); });
}

LogicalResult gpu::lowerScalar(KernelContext &k, Operation *op) {
  Emitter &e = k.e;
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    Attribute value = constant.getValue();
    if (auto integer = dyn_cast<IntegerAttr>(value)) {
      Type type = k.scalarType(integer.getType());
      if (type.getIntOrFloatBitWidth() <= 64) {
        APInt bits = integer.getValue();
        int64_t number =
            bits.getBitWidth() == 1 ? bits.getZExtValue() : bits.getSExtValue();
        k.set(constant, {e.constant(type, number)});
        return success();
      }
    }
    if (auto number = dyn_cast<FloatAttr>(value)) {
      k.set(constant, {e.floating(number.getType(), number.getValue())});
      return success();
    }
  }
  auto isScalar = [](Type type) {
    return type.isIndex() || type.isIntOrFloat();
  };
  Value result;
  if (!op->getNumRegions() && op->getNumResults() == 1 &&
      llvm::all_of(op->getOperandTypes(), isScalar) &&
      isScalar(op->getResult(0).getType()))
    result = ScalarLowering(k, op).lower();
  if (!result)
    return unsupported(op, "an operation that has a form on the GPU, but got "
                           "'" +
                               op->getName().getStringRef() + "'");
  k.set(op->getResult(0), {result});
  return success();
}

//===----------------------------------------------------------------------===//
// memref
//===----------------------------------------------------------------------===//

LogicalResult gpu::lowerMemory(KernelContext &k, Operation *op) {
  Emitter &e = k.e;
  if (auto load = dyn_cast<memref::LoadOp>(op)) {
    Type type = load.getType();
    if (!type.isIntOrFloat() && !type.isIndex())
      return unsupported(op, "an element of an integer or float type");
    Value pointer =
        k.elementPointer(load.getMemRef(), k.flat(load.getIndices()));
    if (type == e.i1) {
      k.set(load, {e.icmp(LLVM::ICmpPredicate::ne, e.load(e.i8, pointer),
                          e.constant(e.i8, 0))});
      return success();
    }
    if (type.isBF16() || type.isF16()) {
      k.set(load, {e.bitcast(e.load(e.i16, pointer), type)});
      return success();
    }
    if (load.getNontemporal() && type.isInteger(32)) {
      // Past this multiprocessor's cache, which would keep what it says.
      k.set(load, e.assembly("ld.relaxed.gpu.global.b32 $0, [$1];",
                             "=r,l,~{memory}", {pointer}, e.i32));
      return success();
    }
    k.set(load, {e.load(k.scalarType(type), pointer)});
    return success();
  }
  if (auto dim = dyn_cast<memref::DimOp>(op)) {
    std::optional<int64_t> index = dim.getConstantIndex();
    auto type = dyn_cast<MemRefType>(dim.getSource().getType());
    if (!index || !type || *index < 0 || *index >= type.getRank())
      return unsupported(op, "a constant dimension of a ranked memref");
    k.set(dim, {k.of(dim.getSource())[1 + *index]});
    return success();
  }
  if (auto store = dyn_cast<memref::StoreOp>(op)) {
    // All threads of a member hold the value; one writes it.
    if (!store.getValue().getType().isInteger(32))
      return unsupported(op, "to store an i32");
    Value pointer =
        k.elementPointer(store.getMemRef(), k.flat(store.getIndices()));
    e.assembly("@$2 st.global.b32 [$0], $1;", "l,r,b,~{memory}",
               {pointer, k.scalar(store.getValue()), k.role.elected});
    return success();
  }
  return unsupported(op, "memref.load, memref.store or memref.dim, but got '" +
                             op->getName().getStringRef() + "'");
}

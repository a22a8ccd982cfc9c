//===- Products.cpp - Matrix products -------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One piece of assembly for each product: fence, all steps along K, commit.
// Nothing can come between, and accumulators never take another register.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "MatrixDescriptor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

static std::string registerList(int64_t first, int64_t count) {
  std::string text = "{";
  for (int64_t i = 0; i < count; ++i)
    text += (i ? ",$" : "$") + std::to_string(first + i);
  return text + "}";
}

/// Where `address` is the sum of the shared memory's address, multiples of 16
/// and constants: these, and whether it is.
static bool isSumOf16s(Value address, Value base, int64_t &constant,
                       Values &others) {
  APInt factor;
  if (address == base)
    return true;
  if (matchPattern(address, m_ConstantInt(&factor))) {
    constant += factor.getSExtValue();
    return factor.getSExtValue() % 16 == 0;
  }
  if (auto sum = address.getDefiningOp<LLVM::AddOp>())
    return isSumOf16s(sum.getLhs(), base, constant, others) &&
           isSumOf16s(sum.getRhs(), base, constant, others);
  others.push_back(address);
  auto product = address.getDefiningOp<LLVM::MulOp>();
  return product && matchPattern(product.getRhs(), m_ConstantInt(&factor)) &&
         factor.getSExtValue() % 16 == 0;
}

/// The lower half of a descriptor: an address / 16, and `bits`. Within a
/// cluster the bits above those of a block's shared memory are the block's
/// number, which is for no descriptor. Of the address of a slot, all but the
/// slot is the same in each turn of a loop, so that one instruction makes it.
Value KernelLowering::descriptorLow(Value address, uint64_t bits) {
  int64_t constant = 0;
  Values others;
  bool isSum = isSumOf16s(address, sharedBase, constant, others);
  Value base = isSum ? sharedBase : address;
  if (cluster > 1)
    base = e.and_(base, 0x3ffff);
  Value low = e.lshr(base, 4);
  if (!isSum)
    return e.or_(low, e.c32(int64_t(bits)));
  low = e.add(low, int64_t(bits) + constant / 16);
  for (Value other : others) {
    auto product = other.getDefiningOp<LLVM::MulOp>();
    low = e.add(low,
                e.mul(product.getLhs(), *e.constantOf(product.getRhs()) / 16));
  }
  return low;
}

/// The descriptor of a tile at a run-time address.
Value KernelLowering::descriptorAt(const MatrixDescriptor &descriptor,
                                   Value address) {
  uint64_t bits = descriptor.getBits();
  Value low = descriptorLow(address, bits & 0xffffffff);
  return e.or_(e.zext64(low), e.c64(int64_t(bits >> 32 << 32)));
}

/// Register 0 (and 1, for rows are alike) of the A fragment of a ramp: the
/// parts of x in columns 0 to 2, cut off 8 bits at a time.
Value KernelLowering::rampParts(Value x) {
  Values parts;
  for (int64_t i = 0; i < 3; ++i) {
    Value part = e.and_(e.bitcast(x, e.i32), -0x10000);
    parts.push_back(part);
    x = e.fsub(x, e.bitcast(part, e.f32));
  }
  Value first = e.or_(e.lshr(parts[0], 16), parts[1]);
  Value second = e.lshr(parts[2], 16);
  Value t = e.and_(lane, 3);
  return e.select(e.eq(t, 0), first, e.select(e.eq(t, 1), second, e.c32(0)));
}

LogicalResult KernelLowering::lowerIssue(MmaIssueOp op) {
  TokenType token = op.getToken().getType();
  FragType accType = token.getFragType();
  FragShape shape(accType);
  int64_t perBlock = shape.colBlocks * 4, numAcc = shape.elements();
  SmemType b = op.getB().getType();
  auto aTile = dyn_cast<SmemType>(op.getA().getType());
  for (SmemType tile : {aTile, b})
    if (tile && !tile.getSwizzle())
      return unsupported(op, "operands in swizzled tiles");
  int64_t depth = b.getRows(), steps = depth / MmaShape::warpgroup().k;
  StringRef name = b.getElementType().isBF16() ? "bf16" : "f16";
  MatrixDescriptor right(b, /*kIsRow=*/true);
  std::string text = "{\n.reg .b64 da, db;\n.reg .b32 low, high;\n"
                     ".reg .pred p;\n";
  text += op.getAcc() ? "setp.ne.b32 p, 1, 0;\n" : "setp.ne.b32 p, 0, 0;\n";
  text += "wgmma.fence.sync.aligned;\n";
  // Operands: accumulators, then a (registers or a descriptor), then b, then
  // the values that accumulators start from.
  Values inputs;
  std::string constraints;
  bool startsFromZero = !op.getAcc();
  bool readsRegisters = !aTile || op.getRamp();
  for (int64_t i = 0; i < numAcc; ++i)
    constraints += startsFromZero && readsRegisters ? "=&f," : "=f,";
  std::optional<MatrixDescriptor> left;
  if (aTile) {
    left.emplace(aTile, /*kIsRow=*/false);
    // Where a loop's steps have the same queries, the assembler knows the upper
    // half and would add a carry to it.
    inputs.push_back(
        descriptorLow(scalar(op.getA()), left->getBits() & 0xffffffff));
    constraints += "r,";
  } else {
    inputs = of(op.getA());
    for (size_t i = 0; i < inputs.size(); ++i)
      constraints += "r,";
  }
  int64_t bOperand = numAcc + inputs.size();
  inputs.push_back(descriptorAt(right, scalar(op.getB())));
  constraints += "l";
  int64_t rampOperand = numAcc + inputs.size();
  if (op.getRamp()) {
    inputs.append({rampParts(scalar(op.getRamp())), e.c32(0)});
    // Without a swizzle; 8 rows of 16 bytes lead to the next 8, and to the
    // second half of the step.
    constexpr uint64_t next = 8 * 16 >> 4;
    Value low = descriptorLow(scalar(op.getRampColumns()), next << 16);
    inputs.push_back(e.or_(e.zext64(low), e.c64(next << 32)));
    constraints += ",r,r,l";
  }
  std::string instruction = "wgmma.mma_async.sync.aligned.m64n" +
                            std::to_string(accType.getCols()) + "k16.f32." +
                            name.str() + "." + name.str();
  for (int64_t block = 0; block < shape.blocks; ++block)
    for (int64_t step = 0; step < steps; ++step) {
      text += "add.s64 db, $" + std::to_string(bOperand) + ", " +
              std::to_string(right.stepOffset(step) / 16) + ";\n";
      if (startsFromZero && step == (block ? 0 : 1) && steps > 1)
        text += step ? "setp.ne.b32 p, 1, 0;\n" : "setp.ne.b32 p, 0, 0;\n";
      else if (startsFromZero && block && step == 1)
        text += "setp.ne.b32 p, 1, 0;\n";
      std::string a = "da";
      if (aTile)
        text += "add.s32 low, $" + std::to_string(numAcc) + ", " +
                std::to_string((left->stepOffset(step) +
                                left->blockOffset(block * shape.blockRows)) /
                               16) +
                ";\nmov.b32 high, " + std::to_string(left->getBits() >> 32) +
                ";\nmov.b64 da, {low, high};\n";
      else
        a = registerList(numAcc + (block * steps + step) * 4, 4);
      text += instruction + " " + registerList(block * perBlock, perBlock) +
              ", " + a + ", db, p, 1, 1";
      if (aTile)
        text += left->isTransposed() ? ", 1" : ", 0";
      text += right.isTransposed() ? ", 1;\n" : ", 0;\n";
    }
  // Last, where the sums are rounded to the size of the ramp once.
  for (int64_t block = 0; op.getRamp() && block < shape.blocks; ++block) {
    auto input = [&](int64_t i) {
      return "$" + std::to_string(rampOperand + i);
    };
    text += "setp.ne.b32 p, 1, 0;\nwgmma.mma_async.sync.aligned.m64n" +
            std::to_string(accType.getCols()) + "k16.f32.bf16.bf16 " +
            registerList(block * perBlock, perBlock) + ", {" + input(0) + "," +
            input(0) + "," + input(1) + "," + input(1) + "}, " + input(2) +
            ", p, 1, 1, 0;\n";
  }
  text += "wgmma.commit_group.sync.aligned;\n}";
  if (op.getAcc()) {
    llvm::append_range(inputs, of(op.getAcc()));
    for (int64_t i = 0; i < numAcc; ++i)
      constraints += "," + std::to_string(i);
  }
  SmallVector<Type> types(numAcc, e.f32);
  set(op.getToken(), e.assembly(text, constraints, inputs, types));
  return success();
}

LogicalResult KernelLowering::lowerMmaWait(MmaWaitOp op) {
  // The accumulators go through the wait: no use of them can come before it.
  Values inputs = flat(op.getTokens());
  std::string constraints;
  for (size_t i = 0; i < inputs.size(); ++i)
    constraints += "=f,";
  for (size_t i = 0; i < inputs.size(); ++i)
    constraints += (i ? "," : "") + std::to_string(i);
  SmallVector<Type> types(inputs.size(), e.f32);
  Values results = e.assembly("wgmma.wait_group.sync.aligned " +
                                  Twine(op.getPending()) + ";",
                              constraints, inputs, types);
  setAll(op.getAccs(), results);
  return success();
}

/// How the registers of operands come about: `a` of a block of rows and a step
/// along K, `b` of some blocks of 8 columns and a step.
struct KernelLowering::ProductOperands {
  std::function<Values(int64_t block, int64_t step)> a;
  std::function<Values(int64_t block, int64_t step, int64_t count)> b;
  int64_t steps = 0;
  /// Whether `a` is read from shared memory.
  bool loadsA = false;
  std::string instruction;
};

KernelLowering::ProductOperands KernelLowering::operandsOf(MmaSyncOp op) {
  auto aTile = dyn_cast<SmemType>(op.getA().getType());
  auto bTile = dyn_cast<SmemType>(op.getB().getType());
  Type element = aTile ? aTile.getElementType()
                       : cast<FragType>(op.getA().getType()).getElementType();
  int64_t depth =
      aTile ? aTile.getCols() : cast<FragType>(op.getA().getType()).getCols();
  int64_t steps = depth / MmaShape::warp().k;
  ProductOperands result;
  result.steps = steps;
  result.loadsA = static_cast<bool>(aTile);
  std::string name = element.isBF16() ? "bf16" : "f16";
  result.instruction = "m16n8k16.row.col.f32." + name + "." + name;
  if (aTile) {
    OperandLoader loader(e, role, lane, aTile, scalar(op.getA()), Layout::A,
                         Scope::Warp);
    result.a = [=](int64_t block, int64_t step) {
      return loader.load(block, step, 4);
    };
  } else {
    result.a = [steps, all = of(op.getA())](int64_t block, int64_t step) {
      auto at = all.begin() + (block * steps + step) * 4;
      return Values(at, at + 4);
    };
  }
  if (bTile) {
    OperandLoader loader(e, role, lane, bTile, scalar(op.getB()), Layout::B,
                         Scope::Warp);
    result.b = [=](int64_t block, int64_t step, int64_t count) {
      return loader.load(block, step, count);
    };
  } else {
    result.b = [steps, all = of(op.getB())](int64_t block, int64_t step,
                                            int64_t count) {
      Values registers;
      for (int64_t i = 0; i < count; ++i)
        registers.push_back(all[((block + i / 2) * steps + step) * 2 + i % 2]);
      return registers;
    };
  }
  return result;
}

KernelLowering::ProductOperands KernelLowering::tf32OperandsOf(MmaSyncOp op) {
  auto bTile = cast<SmemType>(op.getB().getType());
  ProductOperands result;
  int64_t steps = bTile.getRows() / MmaShape::warpTf32().k;
  result.steps = steps;
  result.instruction = "m16n8k8.row.col.f32.tf32.tf32";
  bool pairs = false;
  if (auto aTile = dyn_cast<SmemType>(op.getA().getType())) {
    result.loadsA = true;
    Tf32Loader loader(e, role, lane, aTile, scalar(op.getA()), Layout::A,
                      /*pairs=*/false);
    result.a = [=](int64_t block, int64_t step) {
      return loader.load(block, step, 4);
    };
  } else {
    auto frag = cast<FragType>(op.getA().getType());
    // Elements 2 t and 2 t + 1 of an accumulator stand for t and t + 4.
    pairs = frag.getLayout() == Layout::Acc;
    result.a = [this, pairs, steps, all = of(op.getA())](int64_t block,
                                                         int64_t step) {
      auto at = all.begin() + (block * steps + step) * 4;
      if (!pairs)
        return Values(at, at + 4);
      Values rounded;
      for (int64_t i : {0, 2, 1, 3})
        rounded.push_back(e.roundTf32(at[i]));
      return rounded;
    };
  }
  Tf32Loader loader(e, role, lane, bTile, scalar(op.getB()), Layout::B, pairs);
  result.b = [=](int64_t block, int64_t step, int64_t count) {
    return loader.load(block, step, count);
  };
  return result;
}

LogicalResult KernelLowering::lowerMmaSync(MmaSyncOp op) {
  auto elementOf = [](Value operand) {
    auto tile = dyn_cast<SmemType>(operand.getType());
    return tile ? tile.getElementType()
                : cast<FragType>(operand.getType()).getElementType();
  };
  bool tf32 = elementOf(op.getB()).isTF32();
  if (!tf32 && (elementOf(op.getA()).isF32() || elementOf(op.getB()).isF32()))
    return lowerMultiplyAdd(op);
  ProductOperands operands = tf32 ? tf32OperandsOf(op) : operandsOf(op);
  FragShape shape(op.getAcc().getType());
  Values acc = of(op.getAcc());
  std::string text = "mma.sync.aligned." + operands.instruction +
                     ".f32 {$0,$1,$2,$3}, {$4,$5,$6,$7}, {$8,$9}, "
                     "{$10,$11,$12,$13};";
  SmallVector<Type> types(4, e.f32);
  // With several blocks of rows, sums take most registers, and the assembler
  // would load so far ahead that it had to move them about. It does not move
  // loads over a warp's barrier.
  bool fenced = shape.blocks > 1;
  int64_t ahead = fenced && operands.loadsA ? 1 : 0;
  int64_t steps = operands.steps, pairs = (shape.colBlocks + 1) / 2;
  auto widthOf = [&](int64_t pair) {
    return std::min<int64_t>(2, shape.colBlocks - pair * 2);
  };
  SmallVector<SmallVector<Values>> lefts(steps);
  SmallVector<Values> rights(steps * pairs);
  auto load = [&](int64_t n) {
    int64_t step = n / pairs, pair = n % pairs;
    for (int64_t block = 0; block < shape.blocks && pair == 0; ++block)
      lefts[step].push_back(operands.a(block, step));
    rights[n] = operands.b(pair * 2, step, widthOf(pair) * 2);
  };
  int64_t loaded = 0;
  for (int64_t n = 0, end = steps * pairs; n < end; ++n) {
    for (; loaded < std::min(n + ahead + 1, end); ++loaded)
      load(loaded);
    if (fenced)
      syncWarp();
    int64_t step = n / pairs, pair = n % pairs;
    for (int64_t i = 0; i < widthOf(pair); ++i)
      for (int64_t block = 0; block < shape.blocks; ++block) {
        int64_t first = (block * shape.colBlocks + pair * 2 + i) * 4;
        Values inputs = lefts[step][block];
        inputs.append({rights[n][2 * i], rights[n][2 * i + 1]});
        for (int64_t j = 0; j < 4; ++j)
          inputs.push_back(acc[first + j]);
        Values sums =
            e.assembly(text, "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f", inputs, types,
                       /*isVolatile=*/false);
        llvm::copy(sums, acc.begin() + first);
      }
  }
  set(op.getResult(), std::move(acc));
  return success();
}

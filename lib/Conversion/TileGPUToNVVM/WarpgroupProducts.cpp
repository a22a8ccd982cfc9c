//===- WarpgroupProducts.cpp - Products of warpgroups ---------------------===//
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

#include "Lowerings.h"
#include "MatrixDescriptor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::tile_gpu;
using namespace ::attn;
using namespace ::attn::gpu;

/// Registers of the accumulators that nobody has, of half of a product's rows.
static constexpr llvm::StringLiteral otherRowsName = "otherRows";

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
static Value descriptorLow(KernelContext &k, Value address, uint64_t bits) {
  Emitter &e = k.e;
  int64_t constant = 0;
  Values others;
  bool isSum = isSumOf16s(address, k.sharedBase, constant, others);
  Value base = isSum ? k.sharedBase : address;
  if (k.cluster > 1)
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
static Value descriptorAt(KernelContext &k, const MatrixDescriptor &descriptor,
                          Value address) {
  Emitter &e = k.e;
  uint64_t bits = descriptor.getBits();
  Value low = descriptorLow(k, address, bits & 0xffffffff);
  return e.or_(e.zext64(low), e.c64(int64_t(bits >> 32 << 32)));
}

/// Register 0 (and 1, for rows are alike) of the A fragment of a ramp: the
/// parts of x in columns 0 to 2, cut off 8 bits at a time.
static Value rampParts(KernelContext &k, Value x) {
  Emitter &e = k.e;
  Values parts;
  for (int64_t i = 0; i < 3; ++i) {
    Value part = e.and_(e.bitcast(x, e.i32), -0x10000);
    parts.push_back(part);
    x = e.fsub(x, e.bitcast(part, e.f32));
  }
  Value first = e.or_(e.lshr(parts[0], 16), parts[1]);
  Value second = e.lshr(parts[2], 16);
  Value t = e.and_(k.lane, 3);
  return e.select(e.eq(t, 0), first, e.select(e.eq(t, 1), second, e.c32(0)));
}

namespace {
/// The assembly of one product. Its operands are accumulators, then a
/// (registers or a descriptor), then b, then a ramp, then the values that
/// accumulators start from.
class ProductText {
public:
  ProductText(KernelContext &k, MmaIssueOp op)
      : k(k), e(k.e), op(op), accType(op.getToken().getType().getFragType()),
        shape(accType), right(op.getB().getType(), /*kIsRow=*/true),
        width(op.getLiveWidth().value_or(accType.getCols())) {
    if (auto tile = dyn_cast<SmemType>(op.getA().getType()))
      left.emplace(tile, /*kIsRow=*/false, accType.isHalf());
  }
  void build();

private:
  void addOperands();
  void addStep(int64_t block, int64_t step);
  void addRamp();
  std::string operand(int64_t i) const { return "$" + std::to_string(i); }
  std::string leftRegisters(int64_t block, int64_t step);
  std::string accumulators(int64_t block, int64_t columns) const;

  KernelContext &k;
  Emitter &e;
  MmaIssueOp op;
  FragType accType;
  FragShape shape;
  std::optional<MatrixDescriptor> left; // null: a is in registers
  MatrixDescriptor right;
  /// Columns that it adds to.
  int64_t width;
  Values inputs;
  std::string text, constraints;
  int64_t bOperand = 0, rampOperand = 0, zeroOperand = 0;
};
} // namespace

void ProductText::addOperands() {
  bool readsRegisters = !left || op.getRamp();
  for (int64_t i = 0; i < shape.elements(); ++i)
    constraints += !op.getAcc() && readsRegisters ? "=&f," : "=f,";
  if (left) {
    // Where a loop's steps have the same queries, the assembler knows the upper
    // half and would add a carry to it.
    inputs.push_back(
        descriptorLow(k, k.scalar(op.getA()), left->getBits() & 0xffffffff));
    constraints += "r,";
  } else {
    inputs = k.of(op.getA());
    for (size_t i = 0; i < inputs.size(); ++i)
      constraints += "r,";
  }
  bOperand = shape.elements() + int64_t(inputs.size());
  inputs.push_back(descriptorAt(k, right, k.scalar(op.getB())));
  constraints += "l";
  zeroOperand = shape.elements() + int64_t(inputs.size());
  if (!left && accType.isHalf()) {
    inputs.push_back(e.c32(0));
    constraints += ",r";
  }
  rampOperand = shape.elements() + int64_t(inputs.size());
  if (!op.getRamp())
    return;
  inputs.append({rampParts(k, k.scalar(op.getRamp())), e.c32(0)});
  // Without a swizzle; 8 rows of 16 bytes lead to the next 8, and to the second
  // half of the step.
  constexpr uint64_t next = 8 * 16 >> 4;
  Value low = descriptorLow(k, k.scalar(op.getRampColumns()), next << 16);
  inputs.push_back(e.or_(e.zext64(low), e.c64(next << 32)));
  constraints += ",r,r,l";
}

/// Of the first columns of a block of rows. Of half of the rows, the others'
/// stay in one place from one sum to the next (declareOtherRows).
std::string ProductText::accumulators(int64_t block, int64_t columns) const {
  int64_t first = block * shape.colBlocks * shape.each();
  if (!accType.isHalf())
    return registerList(first, columns / 8 * shape.each());
  std::string text = "{", other = left ? "other" : otherRowsName.str();
  for (int64_t i = 0; i < columns / 4; i += 2) {
    for (int64_t at : {i, i + 1})
      text += (at ? "," : "") + operand(first + at);
    for (int64_t at : {i, i + 1})
      text += "," + other + std::to_string(at);
  }
  return text + "}";
}

/// Of a, for a step along K. Rows that nobody has are zeros.
std::string ProductText::leftRegisters(int64_t block, int64_t step) {
  int64_t held = op.getB().getType().getRows() / MmaShape::warpgroup().k;
  int64_t first = shape.elements() + (block * held + step) * shape.each();
  if (!accType.isHalf())
    return registerList(first, shape.each());
  return "{" + operand(first) + "," + operand(zeroOperand) + "," +
         operand(first + 1) + "," + operand(zeroOperand) + "}";
}

void ProductText::addStep(int64_t block, int64_t step) {
  SmemType b = op.getB().getType();
  std::string name = b.getElementType().isBF16() ? "bf16" : "f16";
  std::string a = "da";
  if (left)
    text += "add.s32 low, " + operand(shape.elements()) + ", " +
            std::to_string((left->stepOffset(step) +
                            left->blockOffset(block * shape.blockRows)) /
                           16) +
            ";\nmov.b32 high, " + std::to_string(left->getBits() >> 32) +
            ";\nmov.b64 da, {low, high};\n";
  else
    a = leftRegisters(block, step);
  text += "wgmma.mma_async.sync.aligned.m64n" + std::to_string(width) +
          "k16.f32." + name + "." + name + " " + accumulators(block, width) +
          ", " + a + ", db, p, 1, 1";
  if (left)
    text += left->isTransposed() ? ", 1" : ", 0";
  text += right.isTransposed() ? ", 1;\n" : ", 0;\n";
}

/// Last, where the sums are rounded to the size of the ramp once.
void ProductText::addRamp() {
  std::string parts = operand(rampOperand), zero = operand(rampOperand + 1);
  for (int64_t block = 0; op.getRamp() && block < shape.blocks; ++block)
    text += "setp.ne.b32 p, 1, 0;\nwgmma.mma_async.sync.aligned.m64n" +
            std::to_string(accType.getCols()) + "k16.f32.bf16.bf16 " +
            accumulators(block, accType.getCols()) + ", {" + parts + "," +
            parts + "," + zero + "," + zero + "}, " + operand(rampOperand + 2) +
            ", p, 1, 1, 0;\n";
}

void ProductText::build() {
  bool startsFromZero = !op.getAcc();
  int64_t steps = op.getLiveDepth().value_or(op.getB().getType().getRows()) /
                  MmaShape::warpgroup().k;
  text = "{\n.reg .b64 da, db;\n.reg .b32 low, high;\n.reg .pred p;\n";
  if (left && accType.isHalf())
    text += ".reg .f32 other<" + std::to_string(accType.getCols() / 4) + ">;\n";
  text += startsFromZero ? "setp.ne.b32 p, 0, 0;\n" : "setp.ne.b32 p, 1, 0;\n";
  text += "wgmma.fence.sync.aligned;\n";
  addOperands();
  for (int64_t block = 0; block < shape.blocks; ++block)
    for (int64_t step = 0; step < steps; ++step) {
      text += "add.s64 db, " + operand(bOperand) + ", " +
              std::to_string(right.stepOffset(step) / 16) + ";\n";
      if (startsFromZero && step == (block ? 0 : 1) && steps > 1)
        text += step ? "setp.ne.b32 p, 1, 0;\n" : "setp.ne.b32 p, 0, 0;\n";
      else if (startsFromZero && block && step == 1)
        text += "setp.ne.b32 p, 1, 0;\n";
      addStep(block, step);
    }
  addRamp();
  text += "wgmma.commit_group.sync.aligned;\n}";
  if (op.getAcc()) {
    llvm::append_range(inputs, k.of(op.getAcc()));
    for (int64_t i = 0; i < shape.elements(); ++i)
      constraints += "," + std::to_string(i);
  }
  SmallVector<Type> types(shape.elements(), e.f32);
  k.set(op.getToken(), e.assembly(text, constraints, inputs, types));
}

/// Sums of half of a product's rows would leave the assembler to move what is
/// held to another place, or to spill, if the registers between them were
/// others in each product.
void gpu::declareOtherRows(Emitter &e) {
  e.assembly(".reg .f32 " + otherRowsName + "<" +
                 Twine(MmaShape::warpgroup().nMax / 4) + ">;",
             "", {});
}

LogicalResult gpu::lower(KernelContext &k, MmaIssueOp op) {
  for (Value side : {Value(op.getA()), Value(op.getB())})
    if (auto tile = dyn_cast<SmemType>(side.getType());
        tile && !tile.getSwizzle())
      return unsupported(op, "operands in swizzled tiles");
  ProductText(k, op).build();
  return success();
}

/// Whether nothing but the next product takes the accumulator of the one that
/// is waited for, with nothing between them that others see: the unit adds to
/// it in order, and need not be empty in between.
static bool isGoneOnWith(MmaWaitOp op) {
  if (op.getTokens().size() != 1 || !op.getAccs().front().hasOneUse())
    return false;
  auto next = dyn_cast<MmaIssueOp>(*op.getAccs().front().user_begin());
  if (!next || next.getAcc() != op.getAccs().front() ||
      next->getBlock() != op->getBlock() || next.getRamp())
    return false;
  for (Operation *between = op->getNextNode(); between != next;
       between = between->getNextNode())
    if (!isa<RingWaitOp>(between) && !isMemoryEffectFree(between))
      return false;
  return true;
}

LogicalResult gpu::lower(KernelContext &k, MmaWaitOp op) {
  Emitter &e = k.e;
  if (isGoneOnWith(op)) {
    k.setAll(op.getAccs(), k.flat(op.getTokens()));
    return success();
  }
  // The accumulators go through the wait: no use of them can come before it.
  Values inputs = k.flat(op.getTokens());
  std::string constraints;
  for (size_t i = 0; i < inputs.size(); ++i)
    constraints += "=f,";
  for (size_t i = 0; i < inputs.size(); ++i)
    constraints += (i ? "," : "") + std::to_string(i);
  SmallVector<Type> types(inputs.size(), e.f32);
  Values results = e.assembly("wgmma.wait_group.sync.aligned " +
                                  Twine(op.getPending()) + ";",
                              constraints, inputs, types);
  k.setAll(op.getAccs(), results);
  return success();
}

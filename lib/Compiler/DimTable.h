//===- DimTable.h - Dimensions that have one size ---------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_COMPILER_DIMTABLE_H
#define ATTN_LIB_COMPILER_DIMTABLE_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/StringSet.h"
#include <map>

namespace attn {

/// Which dimensions of a function's values must have equal sizes.
class DimTable {
public:
  /// Says that dimension `dim` of `value` is `name` in the scope of one op.
  void bind(mlir::Value value, int64_t dim, llvm::StringRef name,
            unsigned scope) {
    auto type = value ? llvm::dyn_cast<mlir::RankedTensorType>(value.getType())
                      : mlir::RankedTensorType();
    if (!type || dim < 0 || dim >= type.getRank())
      return;
    unsigned slot = slots.try_emplace({value, dim}, makeNode("")).first->second;
    unsigned &named = scoped[{name.str(), scope}];
    if (named == 0)
      named = makeNode(name);
    classes.unionSets(slot, named);
  }

  /// The name of a dimension, the same for all that are bound together.
  std::string name(mlir::Value value, int64_t dim) {
    auto it = slots.find({value, dim});
    if (it == slots.end())
      return "";
    return nameOfClass(it->second);
  }
  std::string name(llvm::StringRef name, unsigned scope) {
    auto it = scoped.find({name.str(), scope});
    return it == scoped.end() ? "" : nameOfClass(it->second);
  }

private:
  unsigned makeNode(llvm::StringRef name) {
    nodeNames.push_back(name.str());
    classes.insert(nodeNames.size() - 1);
    return nodeNames.size() - 1;
  }
  std::string nameOfClass(unsigned node) {
    unsigned leader = classes.getLeaderValue(node);
    std::string &name = classNames[leader];
    if (!name.empty())
      return name;
    // The oldest name within the class, made unique.
    std::string base;
    for (unsigned i = 1; i < nodeNames.size() && base.empty(); ++i)
      if (!nodeNames[i].empty() && classes.getLeaderValue(i) == leader)
        base = nodeNames[i];
    name = base;
    for (unsigned i = 2; !taken.insert(name).second; ++i)
      name = base + "_" + std::to_string(i);
    return name;
  }

  llvm::DenseMap<std::pair<mlir::Value, int64_t>, unsigned> slots;
  std::map<std::pair<std::string, unsigned>, unsigned> scoped;
  std::vector<std::string> nodeNames = {""};
  llvm::EquivalenceClasses<unsigned> classes;
  std::map<unsigned, std::string> classNames;
  llvm::StringSet<> taken;
};

} // namespace attn

#endif // ATTN_LIB_COMPILER_DIMTABLE_H

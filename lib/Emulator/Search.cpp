//===- Search.cpp - All schedules that are not the same -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Search.h"
#include "llvm/ADT/STLExtras.h"

using namespace ::attn::emulator;

//===----------------------------------------------------------------------===//
// Traces
//===----------------------------------------------------------------------===//

void Trace::note(Effect effect) {
  auto &effects = events.back().effects;
  // Bytes one after the other.
  if (effect.object.kind == Object::Memory && !effects.empty()) {
    Effect &last = effects.back();
    if (last.object.kind == Object::Memory &&
        last.object.of == effect.object.of && last.end == effect.begin) {
      last.end = effect.end;
      return;
    }
  }
  effects.push_back(effect);
}

Relation attn::emulator::relate(const Effect &first, const Effect &second) {
  auto races = [](bool does) {
    return does ? Relation::Races : Relation::None;
  };
  if (first.object < second.object || second.object < first.object)
    return Relation::None;
  if (first.how == Effect::Exclusive)
    return races(first.begin < second.end && second.begin < first.end);
  bool gives = first.how == Effect::Give;
  if (gives && second.how == Effect::Give)
    return races(first.phase != second.phase);
  if (!gives && second.how != Effect::Give)
    return Relation::None;
  const Effect &give = gives ? first : second, &take = gives ? second : first;
  if (take.how == Effect::Check)
    return Relation::Races;
  // To the phase that has not ended others may add: see `addDepartures`.
  if (give.phase >= take.phase)
    return races(give.phase > take.phase);
  return gives ? Relation::Needs : Relation::None;
}

/// Whatever is still to come of a phase.
static bool areIndependent(const std::vector<Effect> &left,
                           const std::vector<Effect> &right) {
  for (const Effect &l : left)
    for (const Effect &r : right)
      if (relate(l, r) != Relation::None || relate(r, l) != Relation::None ||
          (l.how != r.how && l.phase == r.phase && !(l.object < r.object) &&
           !(r.object < l.object)))
        return false;
  return true;
}

//===----------------------------------------------------------------------===//
// One run
//===----------------------------------------------------------------------===//

bool Explorer::mayTake(uint32_t number, const ProcessId &id) {
  bool may =
      number < nodes.size() ? nodes[number].chosen == id : !asleep.count(id);
  refused |= !may;
  return may;
}

void Explorer::took(const Trace &trace) {
  const Event &event = trace.events.back();
  size_t number = trace.events.size() - 1;
  if (number == nodes.size()) {
    nodes.push_back({event.process, {}, {event.process}, asleep});
  }
  Node &node = nodes[number];
  node.effects = event.effects;
  asleep.clear();
  for (auto &[id, effects] : node.asleep)
    if (areIndependent(effects, event.effects))
      asleep.emplace(id, effects);
  refused = false;
}

//===----------------------------------------------------------------------===//
// From one run to the next
//===----------------------------------------------------------------------===//

/// Events i and j race: one who may come first of what does not depend on i, up
/// to j, has to be before i in some run.
void Explorer::depart(const Trace &trace,
                      const std::vector<llvm::BitVector> &before, size_t i,
                      size_t j) {
  llvm::BitVector without(unsigned(trace.events.size()));
  std::vector<ProcessId> initials;
  for (size_t k = i + 1; k <= j; ++k) {
    if (k != j && before[k].test(unsigned(i)))
      continue;
    if (!before[k].anyCommon(without))
      initials.push_back(trace.events[k].process);
    without.set(unsigned(k));
  }
  Node &node = nodes[i];
  bool isKnown = llvm::any_of(initials, [&](const ProcessId &id) {
    return node.firsts.count(id) || node.asleep.count(id);
  });
  if (!isKnown)
    node.firsts.insert(initials.front());
}

void Explorer::addDepartures(const Trace &trace) {
  size_t count = trace.events.size();
  // What comes before each event, whatever the order of the others.
  std::vector<llvm::BitVector> before;
  before.reserve(count);
  std::map<ProcessId, size_t> latest;
  std::map<Object, std::vector<std::pair<size_t, Effect>>> history;
  for (size_t j = 0; j < count; ++j) {
    const Event &event = trace.events[j];
    llvm::BitVector &known = before.emplace_back(unsigned(count));
    auto follow = [&](size_t i) {
      known |= before[i];
      known.set(unsigned(i));
    };
    if (auto it = latest.find(event.process); it != latest.end())
      follow(it->second);
    if (event.creator != Event::noCreator)
      follow(event.creator);
    latest[event.process] = j;
    std::map<size_t, Relation, std::greater<size_t>> related;
    for (const Effect &effect : event.effects)
      for (auto &[i, other] : history[effect.object])
        if (Relation how = relate(other, effect); how != Relation::None)
          related[i] = std::max(related[i], how);
    for (const Effect &effect : event.effects)
      history[effect.object].push_back({j, effect});
    // From the latest one back: what comes before another is no race.
    for (auto [i, how] : related) {
      if (known.test(unsigned(i)))
        continue;
      if (how == Relation::Races && j >= first)
        depart(trace, before, i, j);
      follow(i);
    }
  }
  // A phase that may end before somebody has waited for the one before it: if
  // nothing of it depends on that wait.
  for (auto &[object, effects] : history)
    for (auto &[i, take] : effects) {
      if (take.how != Effect::Take)
        continue;
      bool depends = false;
      size_t last = 0;
      for (auto &[j, give] : effects)
        if (give.how == Effect::Give && give.phase == take.phase) {
          depends |= before[j].test(unsigned(i));
          if (give.isLast && j > i)
            last = j;
        }
      if (!depends && last >= first && last)
        depart(trace, before, i, last);
    }
}

bool Explorer::advance(const Trace &trace) {
  addDepartures(trace);
  while (!nodes.empty()) {
    Node &node = nodes.back();
    node.asleep[node.chosen] = node.effects;
    for (const ProcessId &id : node.firsts)
      if (!node.asleep.count(id)) {
        node.chosen = id;
        first = nodes.size() - 1;
        asleep.clear();
        refused = false;
        return true;
      }
    nodes.pop_back();
  }
  return false;
}

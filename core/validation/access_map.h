// SPDX-License-Identifier: Apache-2.0
// Who last wrote and read each byte of one address space.
#ifndef KEEL_CORE_VALIDATION_ACCESS_MAP_H_
#define KEEL_CORE_VALIDATION_ACCESS_MAP_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/validation/vector_clock.h"

namespace keel::validation {

// Something that reads or writes, as texts name it.
struct Operation {
  const char* name;               // "copy"
  std::string place;              // "stream 3 (cpu:0)"
  const char* part_of = nullptr;  // "all_reduce", of which it is one step
};

// One operation's mark on some bytes: |epoch| of the timeline |slot|.
struct Mark {
  uint32_t slot = 0;
  uint64_t epoch = 0;
  std::shared_ptr<const Operation> operation;

  bool operator==(const Mark& other) const = default;
  bool is_before(const VectorClock& clock) const { return clock.at(slot) >= epoch; }
};

// Earlier work that |mark| is not ordered after.
struct Conflict {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  bool other_writes = false;
  Mark other;
};

// Bytes are kept in cells that are cut where accesses begin and end, and joined again
// where neighbours are alike.
class AccessMap {
 public:
  // Enters an access of [begin, end) whose timeline knows |clock|. True, with the first
  // one, if it conflicts with any before.
  bool access(uintptr_t begin, uintptr_t end, bool writes, const Mark& mark,
              const VectorClock& clock, Conflict* out_conflict);
  // What was done to [begin, end) concerns nobody any more.
  void forget(uintptr_t begin, uintptr_t end);
  // Lets go of what lies before |clock|, which all that is to come will know.
  void drop_before(const VectorClock& clock);
  void clear() { cells_.clear(); }
  size_t size() const { return cells_.size(); }

 private:
  struct Cell {
    uintptr_t end = 0;
    bool written = false;
    Mark write;
    std::vector<Mark> reads;  // since the write, the last of each timeline

    bool is_like(const Cell& other) const {
      return written == other.written && write == other.write && reads == other.reads;
    }
  };
  using Cells = std::map<uintptr_t, Cell>;  // by where they begin

  // The first cell that begins at or behind |at|, after cutting the one across it.
  Cells::iterator cut(uintptr_t at);
  void join_neighbours(uintptr_t begin, uintptr_t end);
  static void add_read(Cell& cell, const Mark& mark);

  Cells cells_;
};

}  // namespace keel::validation

#endif  // KEEL_CORE_VALIDATION_ACCESS_MAP_H_

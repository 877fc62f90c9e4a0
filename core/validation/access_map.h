// SPDX-License-Identifier: Apache-2.0
// The last write and reads of each byte of one address space.
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

// A reading or writing operation, as named in messages.
struct Operation {
  const char* name;               // "copy"
  std::string place;              // "stream 3 (cpu:0)"
  const char* part_of = nullptr;  // "all_reduce", if this is one step of it
};

// The mark of one operation on some bytes: |epoch| of the timeline |slot|.
struct Mark {
  uint32_t slot = 0;
  uint64_t epoch = 0;
  std::shared_ptr<const Operation> operation;

  bool operator==(const Mark& other) const = default;
  bool is_before(const VectorClock& clock) const { return clock.at(slot) >= epoch; }
};

// Earlier work that a new access is not ordered after.
struct Conflict {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  bool other_writes = false;
  Mark other;
};

// Stores bytes in cells. Cells are cut where accesses begin and end, and joined again if neighbours
// are equal.
class AccessMap {
 public:
  // Enters an access of [begin, end) by a timeline that knows |clock|. Returns true, with the first
  // conflict, if the access conflicts with an earlier one.
  bool access(uintptr_t begin, uintptr_t end, bool writes, const Mark& mark,
              const VectorClock& clock, Conflict* out_conflict);
  // Forgets all accesses of [begin, end).
  void forget(uintptr_t begin, uintptr_t end);
  // Drops the marks before |clock|, which every later access will know.
  void drop_before(const VectorClock& clock);
  void clear() { cells_.clear(); }
  size_t size() const { return cells_.size(); }

 private:
  struct Cell {
    uintptr_t end = 0;
    bool written = false;
    Mark write;
    std::vector<Mark> reads;  // since the write, the latest of each timeline

    bool is_like(const Cell& other) const {
      return written == other.written && write == other.write && reads == other.reads;
    }
  };
  using Cells = std::map<uintptr_t, Cell>;  // by start address

  // Cuts the cell across |at|; returns the first cell that begins at or behind |at|.
  Cells::iterator cut(uintptr_t at);
  void join_neighbours(uintptr_t begin, uintptr_t end);
  static void add_read(Cell& cell, const Mark& mark);

  Cells cells_;
};

}  // namespace keel::validation

#endif  // KEEL_CORE_VALIDATION_ACCESS_MAP_H_

// SPDX-License-Identifier: Apache-2.0
#include "core/validation/access_map.h"

#include <algorithm>
#include <iterator>

namespace keel::validation {

AccessMap::Cells::iterator AccessMap::cut(uintptr_t at) {
  auto next = cells_.lower_bound(at);
  if (next == cells_.begin()) return next;
  auto& [begin, cell] = *std::prev(next);
  if (cell.end <= at) return next;
  Cell rest = cell;
  cell.end = at;
  return cells_.emplace_hint(next, at, std::move(rest));
}

void AccessMap::add_read(Cell& cell, const Mark& mark) {
  for (Mark& read : cell.reads) {
    if (read.slot == mark.slot) {
      read = mark;
      return;
    }
  }
  cell.reads.push_back(mark);
}

bool AccessMap::access(uintptr_t begin, uintptr_t end, bool writes, const Mark& mark,
                       const VectorClock& clock, Conflict* out_conflict) {
  bool conflicts = false;
  const auto note = [&](uintptr_t from, uintptr_t to, const Mark& other, bool other_writes) {
    if (conflicts || other.slot == mark.slot || other.is_before(clock)) return;
    conflicts = true;
    *out_conflict = {from, to, other_writes, other};
  };
  cut(begin);
  cut(end);
  auto cell = cells_.lower_bound(begin);
  for (auto each = cell; each != cells_.end() && each->first < end; ++each) {
    if (each->second.written) note(each->first, each->second.end, each->second.write, true);
    if (!writes) continue;
    for (const Mark& read : each->second.reads) {
      note(each->first, each->second.end, read, false);
    }
  }
  if (writes) {
    while (cell != cells_.end() && cell->first < end) cell = cells_.erase(cell);
    cells_.emplace_hint(cell, begin, Cell{end, true, mark, {}});
  } else {
    uintptr_t at = begin;
    while (at < end) {
      if (cell == cells_.end() || cell->first > at) {
        const uintptr_t gap_end = cell == cells_.end() ? end : std::min(end, cell->first);
        cell = cells_.emplace_hint(cell, at, Cell{gap_end, false, {}, {}});
      }
      add_read(cell->second, mark);
      at = cell->second.end;
      ++cell;
    }
  }
  join_neighbours(begin, end);
  return conflicts;
}

void AccessMap::join_neighbours(uintptr_t begin, uintptr_t end) {
  auto cell = cells_.lower_bound(begin);
  if (cell != cells_.begin()) --cell;
  while (cell != cells_.end() && cell->first < end) {
    const auto next = std::next(cell);
    if (next == cells_.end()) return;
    if (next->first == cell->second.end && next->second.is_like(cell->second)) {
      cell->second.end = next->second.end;
      cells_.erase(next);
    } else {
      cell = next;
    }
  }
}

void AccessMap::forget(uintptr_t begin, uintptr_t end) {
  cut(begin);
  cut(end);
  cells_.erase(cells_.lower_bound(begin), cells_.lower_bound(end));
}

void AccessMap::drop_before(const VectorClock& clock) {
  for (auto cell = cells_.begin(); cell != cells_.end();) {
    Cell& marks = cell->second;
    std::erase_if(marks.reads, [&](const Mark& read) { return read.is_before(clock); });
    if (marks.written && marks.write.is_before(clock)) {
      marks.written = false;
      marks.write = {};
    }
    cell = !marks.written && marks.reads.empty() ? cells_.erase(cell) : std::next(cell);
  }
}

}  // namespace keel::validation

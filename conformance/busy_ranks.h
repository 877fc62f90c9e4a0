// SPDX-License-Identifier: Apache-2.0
// Streams of ranks that are busy with earlier work when a collective is called.
#ifndef KEEL_CONFORMANCE_BUSY_RANKS_H_
#define KEEL_CONFORMANCE_BUSY_RANKS_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "conformance/table_ranks.h"

namespace keel::conformance {

// Keeps the streams of all ranks busy: by a native gate each, or else by copies.
class BusyRanks {
 public:
  BusyRanks(const Context& context, const TableRanks& ranks);
  // Lets the streams go and waits for them, since a case may have failed after begin(). Leaks what
  // a stream uses whose work does not end.
  ~BusyRanks();
  BusyRanks(const BusyRanks&) = delete;
  BusyRanks& operator=(const BusyRanks&) = delete;

  // |rounds|: number of copies of 16 MiB on each stream, of a device without gates.
  void begin(uint32_t rounds, Where where = Where::current());
  // Whether the rank's work is not done. Observes nothing.
  bool is_busy(uint32_t rank) const;
  bool has_gates() const { return has_gates_; }
  void let_go();
  // Call it when the streams are idle.
  void end();

 private:
  const keel_stream_table& table() const { return *device_of(context_).plugin().stream; }

  const Context& context_;
  const TableRanks& ranks_;
  const bool has_gates_;
  std::deque<RankMemory> memory_;
  std::vector<keel_plugin_event*> fronts_;  // by rank: behind the work
  std::vector<keel_plugin_gate*> gates_;    // of this begin(), by rank
};

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_BUSY_RANKS_H_

// SPDX-License-Identifier: Apache-2.0
#include "conformance/busy_ranks.h"

namespace keel::conformance {

namespace {

constexpr uint64_t kCopyBytes = 16 << 20;

}  // namespace

BusyRanks::BusyRanks(const Context& context, const TableRanks& ranks)
    : context_(context), ranks_(ranks), has_gates_(context.has(KEEL_CAPABILITY_NATIVE_GATE)) {
  for (uint32_t rank = 0; rank < ranks.world() && !has_gates_; ++rank) {
    memory_.emplace_back(ranks, rank, 2 * kCopyBytes);
  }
}

BusyRanks::~BusyRanks() {
  let_go();
  for (uint32_t rank = 0; rank < ranks_.world(); ++rank) {
    if (ranks_.settle_unobserved(rank) == KEEL_NOT_READY) return;
  }
  end();
  for (keel_plugin_event* const each : fronts_) table().event_destroy(each);
}

void BusyRanks::begin(uint32_t rounds, Where where) {
  for (uint32_t rank = 0; rank < ranks_.world(); ++rank) {
    keel_plugin_stream* const stream = ranks_.stream(rank);
    if (fronts_.size() == rank) {
      keel_plugin_event* front = nullptr;
      need(table().event_create(ranks_.device(rank), /*flags=*/0, &front), "stream.event_create",
           where);
      fronts_.push_back(front);
    }
    if (has_gates_) {
      keel_plugin_gate* gate = nullptr;
      need(table().gate_create(ranks_.device(rank), &gate), "stream.gate_create", where);
      gates_.push_back(gate);
      need(table().stream_wait_gate(stream, gate), "stream.stream_wait_gate", where);
    }
    keel_status status = KEEL_OK;
    for (uint32_t i = 0; !has_gates_ && i < rounds && status == KEEL_OK; ++i) {
      status = table().copy(stream, KEEL_COPY_DEVICE_TO_DEVICE, memory_[rank].at(0),
                            memory_[rank].at(kCopyBytes), kCopyBytes);
    }
    need(status, "stream.copy", where);
    need(table().event_record(fronts_[rank], stream), "stream.event_record", where);
  }
}

bool BusyRanks::is_busy(uint32_t rank) const {
  return table().event_query(fronts_[rank]) == KEEL_NOT_READY;
}

void BusyRanks::let_go() {
  for (keel_plugin_gate* const gate : gates_) (void)table().gate_open(gate);
}

void BusyRanks::end() {
  for (keel_plugin_gate* const gate : gates_) table().gate_destroy(gate);
  gates_.clear();
}

}  // namespace keel::conformance

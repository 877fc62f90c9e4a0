// SPDX-License-Identifier: Apache-2.0
// Level async, on the plugin's own tables: the order of urgency. A device need not show that a more
// urgent stream runs first, but must not put less urgent streams first.
#include <fmt/format.h>

#include <array>
#include <deque>

#include "conformance/table_bench.h"
#include "conformance/table_calls.h"

namespace keel::conformance {

namespace {

// Streams of each priority: of two streams that take turns, each is the only one that waits.
constexpr uint32_t kStreams = 3;
constexpr uint32_t kPieces = 4;
constexpr uint64_t kBytes = 8 << 20;
// Work of a further stream: the others begin when the first pieces are done, and all of them wait
// for the device when the last are.
constexpr uint64_t kLargeBytes = 16 << 20;
constexpr uint32_t kLargePieces = 8;
constexpr uint32_t kFirstPieces = 2;
// On a busy host some trials end the other way. A device that ignores priorities, and puts either
// first at random, fails with a probability of at most 2^-15.
constexpr uint32_t kTrials = 60;
constexpr uint32_t kMostRight = 14;  // of a device that puts less urgent streams first
constexpr uint32_t kLead = 2;        // of trials in the right order, with which a device passes

// A stream with a priority, and its end.
class UrgentStream {
 public:
  UrgentStream(TableBench& bench, int32_t priority) : bench_(bench) {
    need(bench.table().create(bench.device(), priority, &stream_), "stream.create");
    end_ = bench.event(KEEL_EVENT_TIMING);
  }
  ~UrgentStream() {
    // Leak a stream whose work does not end.
    if (stream_ == nullptr || bench_.await(end_) == KEEL_NOT_READY) return;
    bench_.table().destroy(stream_);
  }
  UrgentStream(const UrgentStream&) = delete;
  UrgentStream& operator=(const UrgentStream&) = delete;

  // Enqueues work behind |front|.
  void enqueue(keel_plugin_event* front, std::byte* memory) const {
    need(bench_.table().stream_wait_event(stream_, front), "stream.stream_wait_event");
    Tally enqueued;
    for (uint32_t piece = 0; piece < kPieces; ++piece) {
      enqueued.add(bench_.table().fill(stream_, memory, &piece, sizeof(piece), kBytes));
    }
    need(enqueued.first(), "stream.fill");
    need(bench_.table().event_record(end_, stream_), "stream.event_record");
  }
  // Waits for the end, and returns its time after |front|.
  uint64_t ended(keel_plugin_event* front) const {
    need(bench_.poll(end_), "work of a stream with a priority");
    uint64_t nanoseconds = 0;
    need(bench_.table().event_elapsed(front, end_, &nanoseconds), "stream.event_elapsed");
    return observe(nanoseconds);
  }

 private:
  TableBench& bench_;
  keel_plugin_stream* stream_ = nullptr;
  keel_plugin_event* end_ = nullptr;
};

// Equal work of urgent and less urgent streams begins at once. Every other trial makes and uses the
// streams in reverse.
void not_reversed(const Context& context) {
  TableBench bench(context, 1);
  std::array<std::array<std::byte*, kStreams>, 2> memory = {};
  for (auto& row : memory) {
    for (std::byte*& each : row) each = bench.memory(kBytes);
  }
  std::byte* const large = bench.memory(kLargeBytes);
  keel_plugin_event* const front = bench.event(KEEL_EVENT_TIMING);
  uint32_t right = 0;
  for (uint32_t trial = 0; trial < kTrials; ++trial) {
    std::array<std::deque<UrgentStream>, 2> streams;  // urgent, less urgent
    for (uint32_t i = 0; i < 2 * kStreams; ++i) {
      const uint32_t which = (i + trial) % 2;
      streams[which].emplace_back(bench, which == 0 ? -1 : 1);
    }
    for (uint32_t piece = 0; piece < kLargePieces; ++piece) {
      if (piece == kFirstPieces) bench.record(front, 0);
      bench.fill(0, large, piece, kLargeBytes);
    }
    for (uint32_t i = 0; i < 2 * kStreams; ++i) {
      const uint32_t which = (i + trial) % 2;
      streams[which][i / 2].enqueue(front, memory[which][i / 2]);
    }
    std::array<uint64_t, 2> ends = {};  // sums
    for (uint32_t which = 0; which < 2; ++which) {
      for (const UrgentStream& stream : streams[which]) {
        ends[which] += stream.ended(front);
      }
    }
    bench.settle();
    if (ends[0] <= ends[1]) ++right;
    const uint32_t wrong = trial + 1 - right;
    if (right > kMostRight || right >= wrong + kLead) return;
  }
  fail_case(
      fmt::format("of streams with equal work, those of priority 1 were done before those of "
                  "priority -1 in {} of {} trials",
                  kTrials - right, kTrials));
}

}  // namespace

void add_priority_table_cases(const Environment&, std::vector<Case>* cases) {
  cases->push_back({"async/tables/priority/not_reversed",
                    KEEL_CAPABILITY_ASYNC | KEEL_CAPABILITY_PRIORITY | KEEL_CAPABILITY_TIMING |
                        KEEL_CAPABILITY_FILL,
                    /*full=*/false, not_reversed});
}

}  // namespace keel::conformance

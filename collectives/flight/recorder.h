// SPDX-License-Identifier: Apache-2.0
// The flight recorder: the last 1,024 operations of a rank, in shared memory, so that another
// process can say what a job that hangs, or was killed, was doing.
#ifndef KEEL_COLLECTIVES_FLIGHT_RECORDER_H_
#define KEEL_COLLECTIVES_FLIGHT_RECORDER_H_

#include <keel/abi.h>

#include <cstdint>
#include <memory>
#include <string>

#include "collectives/fingerprint.h"
#include "collectives/flight/flight_folder.h"
#include "collectives/flight/flight_format.h"
#include "core/status.h"

namespace keel {

struct FlightInfo {
  std::string communicator;
  uint32_t rank = 0;
  uint32_t world = 0;
  std::string device;
};

// begin, start and finish of one recorder come from one thread at a time. The three together
// are 29 instructions on x86-64 (callgrind, g++ 12 -O2, inlined), three of which read
// the time stamp counter.
class FlightRecorder {
 public:
  using Entry = FlightEntry;

  // Never fails: where there is no place for the file ($KEEL_FLIGHT_DIR, else
  // /dev/shm/keel-<uid>) it records into private memory, and the first one of the process to
  // do so logs why. Also removes old files of the dead there.
  static std::unique_ptr<FlightRecorder> create(const FlightInfo& info);
  // Removes the file. After a fork, the child's copy leaves it alone.
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // Empty when in private memory.
  const std::string& path() const { return path_; }

  // Enqueued. The entry is good for start and finish, once each. When 1,024 operations are in
  // flight, further ones are counted, not recorded: the oldest are what a hang is about.
  Entry* begin(uint64_t sequence, const Fingerprint& print, uint64_t count) {
    constexpr auto kRelease = std::memory_order_release;
    Entry* const entry = next_;
    const uint64_t before = entry->outcome.load(std::memory_order_relaxed);
    if (Entry::state_of(before) > static_cast<uint32_t>(FlightState::kDone)) [[unlikely]] {
      return no_room();
    }
    next_ = entry + 1 == end_ ? entries_ : entry + 1;
    entry->sequence.store(Entry::kWriting, std::memory_order_relaxed);
    entry->count.store(count, kRelease);
    entry->kind.store(print.kind(), kRelease);
    entry->queued.store(flight_ticks(), kRelease);
    entry->outcome.store(Entry::outcome_of(FlightState::kQueued), kRelease);
    entry->sequence.store(sequence, kRelease);
    return entry;
  }
  // Posted to the other ranks.
  static void start(Entry* entry) {
    entry->started.store(flight_ticks(), std::memory_order_release);
  }
  // The same of one that was enqueued just now: without a look at the clock.
  static void start_at_once(Entry* entry) {
    entry->started.store(entry->queued.load(std::memory_order_relaxed), std::memory_order_release);
  }
  // Over, well or not; also of an operation that never started.
  static void finish(Entry* entry, keel_status status) {
    entry->done.store(flight_ticks(), std::memory_order_release);
    entry->outcome.store(Entry::outcome_of(FlightState::kDone, status), std::memory_order_release);
  }

 private:
  FlightRecorder() = default;

  Status map_file();
  void write_header(const FlightInfo& info);
  [[gnu::cold]] Entry* no_room();

  Entry* entries_ = nullptr;
  Entry* end_ = nullptr;
  Entry* next_ = nullptr;
  FlightHeader* header_ = nullptr;  // before the entries
  Entry spare_ = {};
  FileDescriptor folder_;
  FileDescriptor file_;  // keeps the lock
  std::string name_;
  std::string path_;
  int32_t pid_ = 0;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_FLIGHT_RECORDER_H_

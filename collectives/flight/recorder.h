// SPDX-License-Identifier: Apache-2.0
// The flight recorder: the last 1,024 operations of a rank in shared memory, so that another
// process can inspect a job that hangs or was killed.
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

// begin(), start() and finish() of one recorder are called by one thread at a time. The three calls
// take 29 instructions together on x86-64 (callgrind, g++ 12 -O2, inlined), three of them reads of
// the time stamp counter.
class FlightRecorder {
 public:
  using Entry = FlightEntry;

  // Never fails. If the file cannot be created in $KEEL_FLIGHT_DIR, by default /dev/shm/keel-<uid>,
  // the recorder uses private memory, and the first such recorder of the process logs the reason.
  // Also removes old files of dead processes from the folder.
  static std::unique_ptr<FlightRecorder> create(const FlightInfo& info);
  // Removes the file. In a forked child the destructor keeps the file.
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // Empty if the recorder uses private memory.
  const std::string& path() const { return path_; }

  // Records an enqueued operation. The returned entry is valid for one start() and one finish().
  // While 1,024 operations are in flight, further operations are counted but not recorded, since
  // the oldest ones explain a hang.
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
  // Records that the rank published the operation to the other ranks.
  static void start(Entry* entry) {
    entry->started.store(flight_ticks(), std::memory_order_release);
  }
  // start() for an operation enqueued just now: reuses the time of begin() instead of reading the
  // clock.
  static void start_at_once(Entry* entry) {
    entry->started.store(entry->queued.load(std::memory_order_relaxed), std::memory_order_release);
  }
  // Records the end of an operation, successful or not, started or not.
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
  FlightHeader* header_ = nullptr;  // directly before the entries
  Entry spare_ = {};
  FileDescriptor folder_;
  FileDescriptor file_;  // holds the lock
  std::string name_;
  std::string path_;
  int32_t pid_ = 0;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_FLIGHT_RECORDER_H_

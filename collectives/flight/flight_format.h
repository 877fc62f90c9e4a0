// SPDX-License-Identifier: Apache-2.0
// File format of a flight recorder: a header of 4,096 bytes and a ring of 1,024 entries. One
// process writes the file; readers may be other processes, at any time, also after the writer was
// killed.
#ifndef KEEL_COLLECTIVES_FLIGHT_FLIGHT_FORMAT_H_
#define KEEL_COLLECTIVES_FLIGHT_FLIGHT_FORMAT_H_

#include <keel/abi.h>
#include <time.h>

#include <atomic>
#include <cstdint>

namespace keel {

// State of an entry. States of operations in flight compare greater than kDone, so begin() needs
// one comparison. A file never contains kRunning: a started operation stays kQueued, with |started|
// not before |queued|.
enum class FlightState : uint32_t { kEmpty = 0, kDone = 1, kQueued = 2, kRunning = 3 };

// One operation in one cache line. Every store is a release, on x86-64 a plain move. A reader loads
// |sequence| and |outcome| first, then the rest, then |sequence| again: if both values of
// |sequence| agree, the entry is consistent, and at least as new as the loaded |outcome|.
struct alignas(64) FlightEntry {
  static constexpr uint64_t kWriting = ~0ull;  // |sequence| during a rewrite

  std::atomic<uint64_t> sequence;
  std::atomic<uint64_t> count;
  std::atomic<uint64_t> queued;   // ticks
  std::atomic<uint64_t> started;  // ticks; less than |queued|: stale, not started yet
  std::atomic<uint64_t> done;     // ticks; valid from kDone on
  std::atomic<uint64_t> kind;     // Fingerprint::kind()
  // Low half: FlightState. High half, valid from kDone on: keel_status. One word, so that one store
  // publishes both.
  std::atomic<uint64_t> outcome;

  static constexpr uint64_t outcome_of(FlightState state, keel_status status = KEEL_OK) {
    return uint64_t{static_cast<uint32_t>(status)} << 32 | static_cast<uint32_t>(state);
  }
  static constexpr uint32_t state_of(uint64_t outcome) { return static_cast<uint32_t>(outcome); }
  static constexpr int32_t status_of(uint64_t outcome) {
    return static_cast<int32_t>(outcome >> 32);
  }
};
static_assert(sizeof(FlightEntry) == 64);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

enum class FlightClock : uint32_t { kTsc = 1, kMonotonic = 2 };

struct FlightHeader {
  static constexpr uint64_t kMagic = 0x33'54'4c'46'4c'45'45'4b;  // "KEELFLT3"
  static constexpr uint64_t kBytes = 4096;
  static constexpr uint32_t kEntries = 1024;
  static constexpr uint64_t kFileBytes = kBytes + kEntries * sizeof(FlightEntry);

  std::atomic<uint64_t> magic;  // written last
  uint32_t header_bytes;
  uint32_t entry_bytes;
  uint32_t entry_count;
  FlightClock clock;
  int32_t pid;
  uint32_t rank;
  uint32_t world;
  uint32_t reserved;
  // One instant, read from three clocks.
  uint64_t ticks;
  int64_t realtime_ns;
  int64_t monotonic_ns;
  double ticks_per_us;  // measured over 200 us, to about 0.1%; same-boot readers measure better
  char boot_id[40];
  char communicator[128];
  char device[80];
  std::atomic<uint64_t> unrecorded;  // operations begun with 1,024 in flight
  // st_dev and st_ino of this file: a copy has others, and its missing lock proves nothing.
  uint64_t file_device;
  uint64_t file_inode;
  char host[80];  // host_name()
};
static_assert(sizeof(FlightHeader) <= FlightHeader::kBytes);

#if defined(__x86_64__)
inline constexpr FlightClock kFlightClock = FlightClock::kTsc;
inline uint64_t flight_ticks() {
  return __builtin_ia32_rdtsc();
}
#else
inline constexpr FlightClock kFlightClock = FlightClock::kMonotonic;
inline uint64_t flight_ticks() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}
#endif

}  // namespace keel

#endif  // KEEL_COLLECTIVES_FLIGHT_FLIGHT_FORMAT_H_

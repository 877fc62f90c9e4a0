// SPDX-License-Identifier: Apache-2.0
// Parses the files of flight recorders.
#ifndef KEEL_COLLECTIVES_FLIGHT_FLIGHT_REPORT_H_
#define KEEL_COLLECTIVES_FLIGHT_FLIGHT_REPORT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/flight/flight_clock.h"
#include "collectives/flight/flight_format.h"
#include "core/status.h"

namespace keel {

struct FlightOperation {
  uint64_t sequence = 0;
  uint64_t count = 0;
  uint32_t collective = 0;
  uint32_t dtype = 0;
  uint32_t reduction = 0;
  uint32_t root = 0;
  FlightState state = FlightState::kQueued;  // never kEmpty
  keel_status status = KEEL_OK;              // valid if |state| is kDone
  int64_t queued_ns = 0;                     // since 1970
  int64_t age_ns = 0;                        // since it was queued
  std::optional<int64_t> wait_ns;            // from queued to started
  std::optional<int64_t> run_ns;             // from started to done
};

struct FlightLog {
  int32_t pid = 0;
  // Whether the process is alive. Unknown for a file of another machine or boot, and for a copy:
  // only the file that the recorder created has its lock.
  std::optional<bool> alive;
  std::string host;
  std::string communicator;
  std::string device;
  uint32_t rank = 0;
  uint32_t world = 0;
  int64_t created_ns = 0;                   // since 1970
  uint64_t unrecorded = 0;                  // operations begun with 1,024 in flight
  uint32_t torn = 0;                        // entries skipped because a write was in progress
  std::vector<FlightOperation> operations;  // in queueing order
};

// Parses a recorder's file that was read three times in a row. An entry of the second read is
// consistent if |sequence| in the first and third reads agree; the first read gives the state.
// |now|, |boot|: of the reader. Returns KEEL_DATA_LOSS for bytes that no recorder writes.
Status parse_flight(const std::array<std::span<const std::byte>, 3>& reads,
                    const FlightTimestamp& now, const std::string& boot, FlightLog* out);
// Returns KEEL_NOT_FOUND, KEEL_PERMISSION_DENIED or KEEL_DATA_LOSS; each message names |path|.
// Reads no more bytes than a recorder's file has.
Status read_flight(const std::string& path, FlightLog* out);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_FLIGHT_FLIGHT_REPORT_H_

// SPDX-License-Identifier: Apache-2.0
// What Keel's flight recorders say of the other ranks when an operation has missed its deadline.
#ifndef FRAMEWORKS_TORCH_SRC_FLIGHT_H_
#define FRAMEWORKS_TORCH_SRC_FLIGHT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace keel_torch {

// Returns "rank 0: all_reduce #4 failed; rank 1: broadcast #3 done; rank 2: no operation": each
// rank's first operation that has not ended, else its last, in the communicator in which operation
// |sequence| of this process, rank |rank|, ended by KEEL_TIMED_OUT. Reads the flight recorders of
// this host: a rank of another host has no record here. Empty where no such communicator is
// recorded. Never throws.
std::string last_operations(int rank, uint64_t sequence);

// The same, from the text of keel_flight_read, for the process |process|.
std::string last_operations_in(std::string_view json, int64_t process, int rank, uint64_t sequence);

}  // namespace keel_torch

#endif  // FRAMEWORKS_TORCH_SRC_FLIGHT_H_

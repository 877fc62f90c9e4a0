// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_CCL_OPERATION_H_
#define KEEL_EMULATOR_CCL_OPERATION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "emulator/ccl/call.h"
#include "emulator/completion.h"
#include "emulator/status.h"

namespace keel::emulator::ccl {

// The progress of an operation. A collective has a part per rank; a message has two parts, first
// the sender's. Guarded by the clique's mutex, except data ordered by |met| and |read|.
struct Operation {
  // A rank's part.
  struct Part {
    Call call;
    std::shared_ptr<Completion> met = std::make_shared<Completion>();   // all ranks have arrived
    std::shared_ptr<Completion> read = std::make_shared<Completion>();  // all ranks have read
    // Awaited by a rank that hangs: only an abort completes it.
    std::shared_ptr<Completion> hung = std::make_shared<Completion>();
    std::vector<std::byte> result;  // this rank's, between reading and writing

    // In the clique, for a remote rank: the bytes sent by the rank, or why the bytes are missing.
    // At a remote endpoint, |trouble| is the status of the rank's result.
    std::vector<std::byte> sent;
    Status trouble;
  };
  explicit Operation(uint32_t ranks) : parts(ranks) {}

  std::vector<Part> parts;
  uint32_t arrived = 0;
  uint32_t have_read = 0;
  uint32_t taken = 0;                                      // ranks that have called
  std::map<int32_t, std::array<std::byte, 128>> part_ids;  // of a split: by color
};

// A rank's part of an operation.
struct Membership {
  std::shared_ptr<Operation> operation;
  uint32_t index = 0;
  uint64_t number = 0;  // identifies the operation to a remote rank

  Operation::Part& part() const { return operation->parts[index]; }
};

}  // namespace keel::emulator::ccl

#endif  // KEEL_EMULATOR_CCL_OPERATION_H_

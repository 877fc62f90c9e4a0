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

// One operation, as far as its ranks have come: a part a rank of a collective; a message has two,
// first its sender's. Guarded by the clique's mutex, but for what |met| and |read| order.
struct Operation {
  // One rank's part.
  struct Part {
    Call call;
    std::shared_ptr<Completion> met = std::make_shared<Completion>();   // all have arrived
    std::shared_ptr<Completion> read = std::make_shared<Completion>();  // all have read
    // For a rank that hangs: only an abort ends it.
    std::shared_ptr<Completion> hung = std::make_shared<Completion>();
    std::vector<std::byte> result;  // the rank's own, between reading and writing

    // Of a rank of another process: what it sends, or why it does not; of one that is such a rank
    // here, what its result came to.
    std::vector<std::byte> sent;
    Status trouble;
  };
  explicit Operation(uint32_t ranks) : parts(ranks) {}

  std::vector<Part> parts;
  uint32_t arrived = 0;
  uint32_t have_read = 0;
  uint32_t taken = 0;                                      // ranks that know of it
  std::map<int32_t, std::array<std::byte, 128>> part_ids;  // of a split: by color
};

// A rank's part of an operation.
struct Membership {
  std::shared_ptr<Operation> operation;
  uint32_t index = 0;
  uint64_t number = 0;  // by which a rank of another process knows it

  Operation::Part& part() const { return operation->parts[index]; }
};

}  // namespace keel::emulator::ccl

#endif  // KEEL_EMULATOR_CCL_OPERATION_H_

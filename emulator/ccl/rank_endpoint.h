// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_CCL_RANK_ENDPOINT_H_
#define KEEL_EMULATOR_CCL_RANK_ENDPOINT_H_

#include <cstdint>

#include "emulator/ccl/call.h"
#include "emulator/ccl/operation.h"
#include "emulator/status.h"

namespace keel::emulator::ccl {

// A rank's endpoint in a clique of this or another process. Thread-safe; next() is called in the
// order of the rank's calls.
class RankEndpoint {
 public:
  virtual ~RankEndpoint() = default;

  virtual uint32_t world() const = 0;
  // Returns the rank's next operation, with |call| recorded.
  virtual Membership next(const Call& call) = 0;
  // Marks the rank's buffers as ready.
  virtual void arrive(const Membership& self) = 0;
  // Computes the rank's result after all ranks have arrived, from all ranks' buffers, which no rank
  // writes meanwhile. Fails if the calls do not match.
  virtual Status compute(const Membership& self) = 0;
  // Marks the rank as done reading its peers' buffers.
  virtual void finish_reading(const Membership& self) = 0;

  // Aborts the rank: ends its waits, and sets the error of its peers.
  virtual void abort() = 0;
  virtual bool is_aborted() const = 0;
  // Records an error of the rank; the first error is kept.
  virtual void report(const Status& status) = 0;
  virtual Status error() const = 0;
};

}  // namespace keel::emulator::ccl

#endif  // KEEL_EMULATOR_CCL_RANK_ENDPOINT_H_

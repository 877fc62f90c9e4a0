// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_CCL_SEAT_H_
#define KEEL_EMULATOR_CCL_SEAT_H_

#include <cstdint>

#include "emulator/ccl/call.h"
#include "emulator/ccl/operation.h"
#include "emulator/status.h"

namespace keel::emulator::ccl {

// A rank's place among those that have met, whichever process they meet in. Thread-safe; next()
// is called in the order of the rank's calls.
class Seat {
 public:
  virtual ~Seat() = default;

  virtual uint32_t world() const = 0;
  // The rank's next operation, with its call noted.
  virtual Membership next(const Call& call) = 0;
  // The rank's buffers are ready.
  virtual void arrive(const Membership& self) = 0;
  // All have: the rank's result, from all ranks' buffers, which nobody writes meanwhile, if the
  // calls fit together.
  virtual Status compute(const Membership& self) = 0;
  // It has read what it needs of the others'.
  virtual void finish_reading(const Membership& self) = 0;

  // The rank gives up: what it waits for ends, the others hear of it when they ask.
  virtual void abort() = 0;
  virtual bool is_aborted() const = 0;
  // An error of the rank, for whoever asks; the first one stays.
  virtual void report(const Status& status) = 0;
  virtual Status error() const = 0;
};

}  // namespace keel::emulator::ccl

#endif  // KEEL_EMULATOR_CCL_SEAT_H_

// SPDX-License-Identifier: Apache-2.0
// The status of one rank, as the rank posts it to all others in an exchange.
#ifndef KEEL_COLLECTIVES_OUTCOME_H_
#define KEEL_COLLECTIVES_OUTCOME_H_

#include <array>
#include <cstdint>
#include <string>

#include "core/status.h"

namespace keel {

// A code and its text, cut to 251 bytes. Crosses through shared memory as it lies here, where the
// process of another rank may write over it: text() stays within the array.
class Outcome {
 public:
  Outcome() = default;
  explicit Outcome(const Status& status);

  bool ok() const { return code_ == KEEL_OK; }
  int32_t code() const { return code_; }
  std::string text() const;

 private:
  int32_t code_ = KEEL_OK;
  std::array<char, 252> text_ = {};
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_OUTCOME_H_

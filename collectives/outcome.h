// SPDX-License-Identifier: Apache-2.0
// Status of one rank, as all-gathered with exchange().
#ifndef KEEL_COLLECTIVES_OUTCOME_H_
#define KEEL_COLLECTIVES_OUTCOME_H_

#include <array>
#include <cstdint>
#include <string>

#include "core/status.h"

namespace keel {

// A status code and its text, cut to 251 bytes. Copied as is through shared memory, where remote
// processes may overwrite the text: text() stays within the array.
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

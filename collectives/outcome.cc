// SPDX-License-Identifier: Apache-2.0
#include "collectives/outcome.h"

#include <algorithm>
#include <cstring>

namespace keel {

Outcome::Outcome(const Status& status) : code_(static_cast<int32_t>(status.code())) {
  std::memcpy(text_.data(), status.text(), std::min(std::strlen(status.text()), text_.size() - 1));
}

std::string Outcome::text() const {
  return {text_.data(), strnlen(text_.data(), text_.size())};
}

}  // namespace keel

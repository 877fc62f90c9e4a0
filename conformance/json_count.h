// SPDX-License-Identifier: Apache-2.0
// Numbers of JSON texts that others may have written.
#ifndef KEEL_CONFORMANCE_JSON_COUNT_H_
#define KEEL_CONFORMANCE_JSON_COUNT_H_

#include <limits>
#include <nlohmann/json.hpp>

namespace keel::conformance {

// |json| as a whole number of 0 or more. get<Number>() cuts what does not fit, and a fraction
// or 1e300 is undefined behaviour; here nlohmann's exceptions tell of them.
template <typename Number>
Number get_count(const nlohmann::json& json) {
  const auto& value = json.get_ref<const nlohmann::json::number_unsigned_t&>();
  if (value > std::numeric_limits<Number>::max()) {
    throw nlohmann::json::out_of_range::create(406, "number is too large", &json);
  }
  return static_cast<Number>(value);
}

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_JSON_COUNT_H_

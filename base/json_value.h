// SPDX-License-Identifier: Apache-2.0
// Typed access to members of parsed JSON, with errors in plain words.
#ifndef KEEL_BASE_JSON_VALUE_H_
#define KEEL_BASE_JSON_VALUE_H_

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace keel {

// Example: "target.device_count is a string, not a whole number from 0 to 4294967295"
class JsonError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A value of a JSON text, and the value's place in the text. All functions throw JsonError, which
// names the place: the texts of nlohmann's own exceptions are not for users, and nlohmann's
// conversions take true for 1 and 2.7 for 2. Borrows |json|.
class JsonValue {
 public:
  explicit JsonValue(const nlohmann::json& json) : json_(&json) {}

  // The member |key| of an object.
  JsonValue at(const char* key) const;
  bool has(const char* key) const;
  // The elements of an array.
  std::vector<JsonValue> elements() const;

  std::string text() const;
  bool boolean() const;
  double number() const;
  int64_t integer() const;
  // A whole number >= 0.
  template <typename Number>
  Number count() const {
    return static_cast<Number>(
        count_up_to(static_cast<uint64_t>(std::numeric_limits<Number>::max())));
  }

 private:
  JsonValue(const nlohmann::json& json, std::string place)
      : json_(&json), place_(std::move(place)) {}
  uint64_t count_up_to(uint64_t most) const;
  [[noreturn]] void refuse(const std::string& wanted) const;

  const nlohmann::json* json_;
  std::string place_;  // "results[3].id"; empty for the whole text
};

}  // namespace keel

#endif  // KEEL_BASE_JSON_VALUE_H_

// SPDX-License-Identifier: Apache-2.0
// Numbers in JSON that are what they are taken for: the library's own conversions round 2.7, and
// take true for 1.
#ifndef KEEL_SAMPLES_TRAIN_GPT_JSON_H_
#define KEEL_SAMPLES_TRAIN_GPT_JSON_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace train_gpt {

// Both throw std::exception, naming |key|.
inline int64_t integer(const nlohmann::ordered_json& json, const std::string& key) {
  const nlohmann::ordered_json& value = json.at(key);
  const bool is_integer =
      value.is_number_unsigned() ? value.get<uint64_t>() <= INT64_MAX : value.is_number_integer();
  if (!is_integer) throw std::invalid_argument(key + " " + value.dump() + " is not an integer");
  return value;
}

inline double number(const nlohmann::ordered_json& json, const std::string& key) {
  const nlohmann::ordered_json& value = json.at(key);
  if (!value.is_number())
    throw std::invalid_argument(key + " " + value.dump() + " is not a number");
  return value;
}

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_JSON_H_

// SPDX-License-Identifier: Apache-2.0
#include "base/json_value.h"

#include <nlohmann/json.hpp>

namespace keel {
namespace {

using nlohmann::json;

std::string kind_of(const json& value) {
  switch (value.type()) {
    case json::value_t::null:
      return "null";
    case json::value_t::object:
      return "an object";
    case json::value_t::array:
      return "an array";
    case json::value_t::string:
      return "a string";
    default:
      return value.dump();  // a number, true or false
  }
}

}  // namespace

JsonValue JsonValue::at(const char* key) const {
  if (!json_->is_object()) refuse("an object");
  std::string place = place_.empty() ? key : place_ + "." + key;
  const auto found = json_->find(key);
  if (found == json_->end()) throw JsonError(place + " is missing");
  return {*found, std::move(place)};
}

bool JsonValue::has(const char* key) const {
  if (!json_->is_object()) refuse("an object");
  return json_->contains(key);
}

std::vector<JsonValue> JsonValue::elements() const {
  if (!json_->is_array()) refuse("an array");
  std::vector<JsonValue> elements;
  elements.reserve(json_->size());
  for (const json& each : *json_) {
    elements.push_back({each, place_ + "[" + std::to_string(elements.size()) + "]"});
  }
  return elements;
}

std::string JsonValue::text() const {
  if (!json_->is_string()) refuse("a string");
  return json_->get<std::string>();
}

bool JsonValue::boolean() const {
  if (!json_->is_boolean()) refuse("true or false");
  return json_->get<bool>();
}

double JsonValue::number() const {
  if (!json_->is_number()) refuse("a number");
  return json_->get<double>();
}

int64_t JsonValue::integer() const {
  const bool fits = json_->is_number_unsigned() ? json_->get<uint64_t>() <= INT64_MAX
                                                : json_->is_number_integer();
  if (!fits) refuse("a whole number of 64 bits");
  return json_->get<int64_t>();
}

uint64_t JsonValue::count_up_to(uint64_t most) const {
  if (!json_->is_number_unsigned() || json_->get<uint64_t>() > most) {
    refuse("a whole number from 0 to " + std::to_string(most));
  }
  return json_->get<uint64_t>();
}

void JsonValue::refuse(const std::string& wanted) const {
  throw JsonError((place_.empty() ? "it" : place_) + " is " + kind_of(*json_) + ", not " + wanted);
}

}  // namespace keel

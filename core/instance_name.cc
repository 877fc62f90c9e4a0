// SPDX-License-Identifier: Apache-2.0
#include "core/instance_name.h"

#include <algorithm>
#include <string_view>

namespace keel {
namespace {

// "NAME:0" must fit its fields.
constexpr size_t kLongest = 31;

bool is_name(std::string_view name) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  return !name.empty() && name.size() <= kLongest && is_letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) {
           return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-';
         });
}

}  // namespace

Status NamedSettings::read(const keel_instance_settings* settings, NamedSettings* out_settings) {
  *out_settings = NamedSettings();
  if (settings == nullptr) return {};
  for (uint32_t i = 0; i < settings->count; ++i) {
    if (std::string_view(settings->keys[i]) != "instance_name") {
      out_settings->keys_.push_back(settings->keys[i]);
      out_settings->values_.push_back(settings->values[i]);
      continue;
    }
    if (!is_name(settings->values[i]) || !out_settings->name_.empty()) {
      return failure(KEEL_INVALID_ARGUMENT,
                     "instance_name '{:.40}' is no name: one [a-z][a-z0-9_-]*, at most {} "
                     "characters, such as kunlun-cuda",
                     settings->values[i], kLongest);
    }
    out_settings->name_ = settings->values[i];
  }
  out_settings->given_ = settings;
  out_settings->rest_ = *settings;
  out_settings->rest_.count = static_cast<uint32_t>(out_settings->keys_.size());
  out_settings->rest_.keys = out_settings->keys_.data();
  out_settings->rest_.values = out_settings->values_.data();
  return {};
}

}  // namespace keel

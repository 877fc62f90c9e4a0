// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_CORE_INSTANCE_NAME_H_
#define KEEL_CORE_INSTANCE_NAME_H_

#include <keel/abi.h>

#include <string>
#include <vector>

#include "core/status.h"

namespace keel {

// The settings of an instance without core's own one, "instance_name": the name of the instance in
// place of the plugin's, such as "kunlun-cuda" for an instance of the plugin "cuda". Refers to the
// strings that it was made from.
class NamedSettings {
 public:
  // |settings| may be NULL. Returns KEEL_INVALID_ARGUMENT for a name that is no [a-z][a-z0-9_-]*
  // of at most 31 characters, or given twice.
  static Status read(const keel_instance_settings* settings, NamedSettings* out_settings);

  // Empty: the plugin's name.
  const std::string& name() const { return name_; }
  // Returns the settings for the plugin; NULL if there were none.
  const keel_instance_settings* rest() const { return given_ == nullptr ? nullptr : &rest_; }

 private:
  const keel_instance_settings* given_ = nullptr;
  std::string name_;
  std::vector<const char*> keys_;
  std::vector<const char*> values_;
  keel_instance_settings rest_ = {};
};

}  // namespace keel

#endif  // KEEL_CORE_INSTANCE_NAME_H_

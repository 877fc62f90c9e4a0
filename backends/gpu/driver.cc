// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/driver.h"

#include <map>
#include <memory>
#include <mutex>

#include "backends/gpu/result_codes.h"

namespace keel::gpu {
Driver& Driver::of(const std::string& folder, const std::string& file) {
  // Never destroyed, like the libraries.
  static std::mutex& mutex = *new std::mutex;
  static auto& drivers = *new std::map<std::string, std::unique_ptr<Driver>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Driver>& driver = drivers[folder + "/" + file];
  if (driver == nullptr) driver.reset(new Driver(folder, file));
  return *driver;
}

Driver::Driver(const std::string& folder, const std::string& file) : monitor_(folder) {
  if (!open(folder, file) || !start()) device_count_ = 0;
}

bool Driver::start() {
  Result result = functions_.Init(/*Flags=*/0);
  if (result != kSuccess) {
    reason_ = description_ + ": " + text_of(Names::Init, result);
    return false;
  }
  result = functions_.DeviceGetCount(&device_count_);
  if (result != kSuccess) {
    reason_ = description_ + ": " + text_of(Names::DeviceGetCount, result);
    return false;
  }
  reason_ = description_ + ": the driver shows no device";
  return true;
}

void Driver::warn_once(const std::string& text) {
  {
    const std::lock_guard lock(mutex_);
    if (!warnings_.insert(text).second) return;
  }
  kit::log(KEEL_LOG_WARNING, "%s", text.c_str());
}

std::string Driver::text_of(const char* call, Result result) const {
  const char* const name = result_name(functions_, result);
  const char* const text = result_text(functions_, result);
  if (name == nullptr) return std::string(call) + ": error " + std::to_string(result);
  return std::string(call) + ": " + name + ": " + (text == nullptr ? "" : text);
}

}  // namespace keel::gpu

// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/level_zero/driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace keel::emulator::level_zero {

Status read_settings(std::string_view text, Settings* out_settings) {
  SettingValues values;
  Settings settings;
  settings.chips.devices = 2;
  Status status = split_settings(text, &values);
  if (status.ok()) status = take_chip_settings(&values, &settings.chips);
  if (status.ok()) status = take_number(&values, "init", 0, UINT32_MAX, &settings.init);
  if (status.ok()) status = take_number(&values, "major", 0, 99, &settings.major);
  if (status.ok()) status = take_number(&values, "minor", 0, 99, &settings.minor);
  if (status.ok()) status = take_number(&values, "copy_engine", 0, 1, &settings.copy_engine);
  if (status.ok()) status = take_number(&values, "subgroup", 8, 64, &settings.subgroup);
  if (status.ok()) status = take_number(&values, "local_kib", 1, 1024, &settings.local_kib);
  if (status.ok()) status = take_number(&values, "doubles", 0, 1, &settings.doubles);
  if (status.ok()) status = take_number(&values, "ipc", 0, 1, &settings.ipc);
  if (status.ok()) status = take_number(&values, "import", 0, 1, &settings.import);
  if (!status.ok()) return status;
  if (!values.empty()) {
    return {Code::kInvalidArgument, fmt::format("'{:.64}' is not known", values.begin()->first)};
  }
  *out_settings = std::move(settings);
  return {};
}

Status Chip::device(std::shared_ptr<Device>* out_device) {
  const std::lock_guard lock(mutex_);
  if (device_ == nullptr) {
    Status status = Device::create(options_, &device_);
    if (!status.ok()) return status;
    host_memory_.introduce(device_);
  }
  *out_device = device_;
  return device_->alive();
}

Driver& Driver::get() {
  static Driver& driver = *new Driver;
  return driver;
}

Driver::Driver() {
  const char* const text = secure_getenv("KEEL_EMULATED_LEVEL_ZERO");
  const Status status = read_settings(text == nullptr ? "" : text, &settings_);
  if (!status.ok()) {
    // stderr, because the interface returns no text.
    std::fprintf(stderr, "KEEL_EMULATED_LEVEL_ZERO: %s\n", status.text().c_str());
    unusable_ = true;
  }
  const uint32_t count = settings_.chips.devices;
  std::string ignored;  // the chips report it when they are opened
  const DeviceRange* const range = DeviceRange::get(&ignored);
  const uint64_t addresses = range == nullptr ? DeviceRange::kLeastBytes : range->size();
  for (uint32_t i = 0; i < count; ++i) {
    DeviceOptions options = settings_.chips.device;
    options.index = i;
    // Pointers name their device, so no two devices share an address.
    options.address_offset = addresses / count * i;
    options.memory_bytes = std::min(options.memory_bytes, addresses / count / 2);
    // A fault ends the context, and a hang the device.
    options.failure_is_loss = true;
    // Host memory of the caller is accessed when the copy runs.
    options.pageable_async = true;
    options.shareable = settings_.ipc != 0;
    chips_.push_back(std::make_unique<Chip>(options, host_memory_));
  }
}

ze::Result Driver::init() {
  const char* const sysman = secure_getenv("ZES_ENABLE_SYSMAN");
  if (sysman != nullptr && std::string_view(sysman) == "1") has_sysman_ = true;
  const auto result = unusable_ ? ze::kUnknown : static_cast<ze::Result>(settings_.init);
  state_.store(result);
  return result;
}

ze::Result Driver::ready(const char* function) const {
  const ze::Result state = state_.load(std::memory_order_acquire);
  if (state == ze::kSuccess || state == ze::kUninitialized) return state;
  end_process(function, "called after zeInit has failed");
}

Chip& Driver::chip(const char* function, ze::Device handle) const {
  for (const auto& chip : chips_) {
    if (chip->handle() == handle) return *chip;
  }
  end_process(function, fmt::format("{} is no device", static_cast<void*>(handle)));
}

Chip* Driver::owner(Address address) const {
  std::string error;
  const DeviceRange* const range = DeviceRange::get(&error);
  if (range == nullptr || !range->touches(address, 1) || chips_.empty()) return nullptr;
  const uint64_t each = range->size() / chips_.size();
  return chips_[std::min<uint64_t>((address - range->begin()) / each, chips_.size() - 1)].get();
}

void end_process(const char* function, const std::string& why) {
  std::fprintf(stderr, "emulated Level Zero: %s: %s\n", function, why.c_str());
  std::abort();
}

ze::Result result_of(const Status& status) {
  switch (status.code()) {
    case Code::kOk:
      return ze::kSuccess;
    case Code::kNotReady:
    case Code::kTimedOut:
      return ze::kNotReady;
    case Code::kOutOfMemory:
      return ze::kOutOfDeviceMemory;
    case Code::kInvalidArgument:
      return ze::kInvalidArgument;
    case Code::kUnavailable:
      return ze::kNotAvailable;
    case Code::kUnsupported:
      return ze::kUnsupportedFeature;
    default:
      return ze::kDeviceLost;
  }
}

}  // namespace keel::emulator::level_zero

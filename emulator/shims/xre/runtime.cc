// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/xre/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>

namespace keel::emulator::xre {
namespace {

thread_local int t_device = -1;

// Parses "FUNCTION:ERROR,...".
Status read_failures(std::string_view text, std::map<std::string, int, std::less<>>* out_failures) {
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    const size_t colon = one.find(':');
    int error = 0;
    const std::string_view number = colon == std::string_view::npos ? "" : one.substr(colon + 1);
    const auto parsed = std::from_chars(number.data(), number.data() + number.size(), error);
    if (number.empty() || parsed.ec != std::errc() || parsed.ptr != number.data() + number.size() ||
        error <= 0) {
      return {Code::kInvalidArgument, fmt::format("fail: '{:.64}' is not FUNCTION:ERROR", one)};
    }
    (*out_failures)[std::string(one.substr(0, colon))] = error;
  }
  return {};
}

// Returns the numbers below |count| that the comma-separated |text| lists.
std::vector<int> read_visible(const char* text, uint32_t count) {
  std::vector<int> visible;
  if (text == nullptr) {
    for (uint32_t i = 0; i < count; ++i) visible.push_back(static_cast<int>(i));
    return visible;
  }
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
    uint32_t number = 0;
    const auto parsed = std::from_chars(one.data(), one.data() + one.size(), number);
    if (parsed.ec != std::errc() || number >= count) break;
    visible.push_back(static_cast<int>(number));
  }
  return visible;
}

}  // namespace

Status read_settings(std::string_view text, Settings* out_settings) {
  SettingValues values;
  Settings settings;
  settings.chips.devices = 2;
  uint64_t positive = 0;
  Status status = split_settings(text, &values);
  if (status.ok()) status = take_chip_settings(&values, &settings.chips);
  if (status.ok()) status = take_number(&values, "version", 100, 9999, &settings.version);
  if (status.ok()) status = take_number(&values, "model", 0, 599, &settings.model);
  if (status.ok()) status = take_number(&values, "positive", 0, 1, &positive);
  if (status.ok()) {
    status = take_number(&values, "devices_later", 0, 64, &settings.devices_later);
  }
  if (status.ok()) {
    if (const auto failures = values.extract("fail"); !failures.empty()) {
      status = read_failures(failures.mapped(), &settings.fail);
    }
  }
  if (!status.ok()) return status;
  if (!values.empty()) {
    return {Code::kInvalidArgument, fmt::format("'{:.64}' is not known", values.begin()->first)};
  }
  settings.positive = positive != 0;
  *out_settings = std::move(settings);
  return {};
}

Chip::Chip(const DeviceOptions& options, uint32_t ordinal) : options_(options) {
  options_.index = ordinal;
  // The state of a chip after failed work is not documented: the worst case is emulated.
  options_.failure_is_loss = true;
}

Status Chip::device(std::shared_ptr<Device>* out_device) {
  const std::lock_guard lock(mutex_);
  if (device_ == nullptr) {
    Status status = Device::create(options_, &device_);
    if (!status.ok()) return status;
  }
  *out_device = device_;
  return device_->alive();
}

Status Chip::default_stream(std::shared_ptr<Stream>* out_stream) {
  const std::lock_guard lock(mutex_);
  if (default_stream_ == nullptr) {
    std::unique_ptr<Stream> stream;
    Status status = Stream::create(device_, /*priority=*/0, &stream);
    if (!status.ok()) return status;
    default_stream_ = std::move(stream);
  }
  *out_stream = default_stream_;
  return {};
}

Runtime& Runtime::get() {
  static Runtime& runtime = *new Runtime;
  return runtime;
}

Runtime::Runtime() {
  const char* const text = secure_getenv("KEEL_EMULATED_XRE");
  const Status status = read_settings(text == nullptr ? "" : text, &settings_);
  if (!status.ok()) {
    // stderr, because the interface returns no text.
    std::fprintf(stderr, "KEEL_EMULATED_XRE: %s\n", status.text().c_str());
    unusable_ = true;
  }
  for (uint32_t i = 0; i < settings_.chips.devices; ++i) {
    chips_.push_back(std::make_unique<Chip>(settings_.chips.device, i));
  }
  visible_ = read_visible(secure_getenv("XPU_VISIBLE_DEVICES"), settings_.chips.devices);
}

Chip* Runtime::chip(int device) const {
  const bool is_visible = std::find(visible_.begin(), visible_.end(), device) != visible_.end();
  return is_visible ? chips_[static_cast<size_t>(device)].get() : nullptr;
}

uint64_t Runtime::count_devices() {
  const bool is_first = counted_.fetch_add(1) == 0;
  return is_first ? visible_.size() : std::min<uint64_t>(settings_.devices_later, visible_.size());
}

int current_device() {
  const std::vector<int>& visible = Runtime::get().visible();
  return t_device >= 0 || visible.empty() ? t_device : visible.front();
}

void set_current_device(int device) {
  t_device = device;
}

void end_process(const char* function, const std::string& why) {
  std::fprintf(stderr, "emulated XRE: %s: %s\n", function, why.c_str());
  std::abort();
}

int fail(keel::xre::Error error) {
  return Runtime::get().settings().positive ? error : -error;
}

int result_of(const Status& status, const Device* device) {
  switch (status.code()) {
    case Code::kOk:
      return keel::xre::kSuccess;
    case Code::kOutOfMemory:
      return fail(keel::xre::kNoMemory);
    case Code::kInvalidArgument:
    case Code::kIllegalAddress:
      return fail(keel::xre::kInvalidParameter);
    case Code::kUnavailable:
      return fail(keel::xre::kBusy);
    case Code::kUnsupported:
      return fail(keel::xre::kNoSupport);
    case Code::kDeviceLost:
      if (device == nullptr || device->loss_cause() == Code::kDeviceLost) {
        return fail(keel::xre::kUncorrectableEcc);
      }
      return fail(device->loss_cause() == Code::kIllegalAddress ? keel::xre::kHardwareException
                                                                : keel::xre::kKernelException);
    default:
      return fail(keel::xre::kKernelException);
  }
}

}  // namespace keel::emulator::xre

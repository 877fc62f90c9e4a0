// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/cuda/driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace keel::emulator::cuda {

Status read_settings(std::string_view text, Settings* out_settings) {
  SettingValues values;
  Settings settings;
  settings.chips.devices = 2;
  uint64_t version = static_cast<uint64_t>(settings.version);
  uint64_t init = 0;
  uint64_t image = 0;
  Status status = split_settings(text, &values);
  if (status.ok()) status = take_chip_settings(&values, &settings.chips);
  if (status.ok()) status = take_number(&values, "version", 1000, kVendor.most_version, &version);
  if (status.ok()) status = take_number(&values, "init", 0, 999, &init);
  if (status.ok()) status = take_number(&values, "image", 0, 999, &image);
  if (status.ok()) status = take_number(&values, "warp", 32, 64, &settings.warp);
  if (std::string_view(kVendor.name) == "HIP") {
    if (status.ok()) status = take_number(&values, "hiprtc", 0, 99, &settings.hiprtc);
    if (auto told = values.extract("architecture")) settings.architecture = told.mapped();
  }
  if (!status.ok()) return status;
  settings.version = static_cast<int>(version);
  settings.init = static_cast<CUresult>(init);
  settings.image = static_cast<CUresult>(image);
  if (const auto missing = values.extract("missing"); !missing.empty()) {
    std::string_view names = missing.mapped();
    while (!names.empty()) {
      const size_t comma = std::min(names.find(','), names.size());
      settings.missing.emplace(names.substr(0, comma));
      names.remove_prefix(std::min(comma + 1, names.size()));
    }
  }
  if (!values.empty()) {
    return {Code::kInvalidArgument, fmt::format("'{:.64}' is not known", values.begin()->first)};
  }
  *out_settings = std::move(settings);
  return {};
}

std::string pci_address(uint32_t index) {
  return fmt::format("{:04x}:{:02x}:00.0", kVendor.pci_domain, index);
}

Driver& Driver::get() {
  static Driver& driver = *new Driver;
  return driver;
}

Driver::Driver() {
  const char* const text = secure_getenv(kVendor.variable);
  const Status status = read_settings(text == nullptr ? "" : text, &settings_);
  if (!status.ok()) {
    // stderr, because the interface returns no text.
    std::fprintf(stderr, "%s: %s\n", kVendor.variable, status.text().c_str());
    settings_.init = CUDA_ERROR_INVALID_VALUE;
  }
  for (uint32_t i = 0; i < settings_.chips.devices; ++i) {
    contexts_.push_back(std::make_unique<Context>(settings_.chips.device, i, host_memory_));
  }
}

CUresult Driver::init() {
  if (settings_.init != CUDA_SUCCESS) return settings_.init;
  if (contexts_.empty()) return CUDA_ERROR_NO_DEVICE;
  ready_.store(true, std::memory_order_release);
  return CUDA_SUCCESS;
}

}  // namespace keel::emulator::cuda

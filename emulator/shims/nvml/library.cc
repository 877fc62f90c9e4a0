// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/nvml/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace keel::emulator::nvml {
namespace {

// Returns the Xid that the kernel module logs, and NVML reports, for a chip lost by |cause|; 0 for
// a failure of another chip.
unsigned int xid_of(Code cause) {
  switch (cause) {
    case Code::kIllegalAddress:
      return 31;  // MMU fault
    case Code::kDeviceLost:
      return 48;  // double-bit ECC error
    case Code::kUnavailable:
      return 0;
    default:
      return 13;  // graphics engine exception
  }
}

}  // namespace

Status read_settings(std::string_view text, Settings* out_settings) {
  SettingValues values;
  Settings settings;
  uint64_t init = 0;
  uint64_t device = 0;
  uint64_t remap_failed = 0;
  Status status = split_settings(text, &values);
  if (status.ok()) status = take_number(&values, "init", 0, 999, &init);
  if (status.ok()) status = take_number(&values, "device", 0, 999, &device);
  if (status.ok()) status = take_number(&values, "corrected", 0, 1'000'000, &settings.corrected);
  if (status.ok()) status = take_number(&values, "remap_failed", 0, 1, &remap_failed);
  if (!status.ok()) return status;
  if (!values.empty()) {
    return {Code::kInvalidArgument, fmt::format("'{:.64}' is not known", values.begin()->first)};
  }
  settings.init = static_cast<nvmlReturn_t>(init);
  settings.device = static_cast<nvmlReturn_t>(device);
  settings.remap_failed = remap_failed != 0;
  *out_settings = settings;
  return {};
}

Library& Library::get() {
  static Library& library = *new Library;
  return library;
}

Library::Library() {
  const char* const text = secure_getenv("KEEL_EMULATED_NVML");
  const Status status = read_settings(text == nullptr ? "" : text, &settings_);
  if (status.ok()) return;
  std::fprintf(stderr, "KEEL_EMULATED_NVML: %s\n", status.text().c_str());
  settings_.init = NVML_ERROR_INVALID_ARGUMENT;
}

// Requires |mutex_|. Opens the driver in this library's folder, the copy that other libraries of
// the process use.
bool Library::open_driver() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<void*>(&nvmlInit_v2), &info) == 0 || info.dli_fname == nullptr) {
    return false;
  }
  const std::string self = info.dli_fname;
  const size_t slash = self.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : self.substr(0, slash);
  void* const driver = dlopen((folder + "/libcuda.so.1").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return false;
  ask_ = reinterpret_cast<HealthFunction>(dlsym(driver, "keel_emulated_cuda_health"));
  if (ask_ == nullptr) return false;
  cuda::ChipHealth ignored;
  for (uint32_t index = 0; ask_(index, &ignored); ++index) {
    chips_.push_back(std::make_unique<Chip>(Chip{index}));
  }
  return true;
}

nvmlReturn_t Library::init() {
  if (settings_.init != NVML_SUCCESS) return settings_.init;
  const std::lock_guard lock(mutex_);
  if (ask_ == nullptr && !open_driver()) return NVML_ERROR_DRIVER_NOT_LOADED;
  ++users_;
  return NVML_SUCCESS;
}

nvmlReturn_t Library::shutdown() {
  const std::lock_guard lock(mutex_);
  if (users_ == 0) return NVML_ERROR_UNINITIALIZED;
  --users_;
  return NVML_SUCCESS;
}

nvmlReturn_t Library::ready() {
  const std::lock_guard lock(mutex_);
  return users_ == 0 ? NVML_ERROR_UNINITIALIZED : NVML_SUCCESS;
}

Chip* Library::find(std::string_view pci_address) {
  for (const auto& chip : chips_) {
    if (pci_address == health(*chip).pci_address) return chip.get();
  }
  return nullptr;
}

cuda::ChipHealth Library::health(const Chip& chip) const {
  cuda::ChipHealth health;
  ask_(chip.index, &health);
  return health;
}

EventSet* Library::add_set() {
  const std::lock_guard lock(mutex_);
  sets_.push_back(std::make_unique<EventSet>());
  return sets_.back().get();
}

nvmlReturn_t Library::remove_set(const EventSet* set) {
  const std::lock_guard lock(mutex_);
  const size_t removed =
      std::erase_if(sets_, [set](const auto& each) { return each.get() == set; });
  return removed == 0 ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

nvmlReturn_t Library::listen(EventSet* set, Chip* chip) {
  const uint64_t before = health(*chip).failures;
  const std::lock_guard lock(mutex_);
  set->entries.push_back({chip, before});
  return NVML_SUCCESS;
}

nvmlReturn_t Library::next(EventSet* set, nvmlEventData_t* out_data) {
  const std::lock_guard lock(mutex_);
  for (EventSet::Entry& entry : set->entries) {
    const cuda::ChipHealth now = health(*entry.chip);
    while (entry.seen < now.failures) {
      ++entry.seen;
      const unsigned int xid = xid_of(now.last_cause);
      if (xid == 0) continue;
      *out_data = {reinterpret_cast<nvmlDevice_t>(entry.chip), nvmlEventTypeXidCriticalError, xid,
                   /*gpuInstanceId=*/~0U, /*computeInstanceId=*/~0U};
      return NVML_SUCCESS;
    }
  }
  return NVML_ERROR_TIMEOUT;
}

}  // namespace keel::emulator::nvml

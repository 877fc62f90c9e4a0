// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/rocm_smi/library.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "emulator/settings.h"
#include "emulator/shims/beside.h"

namespace keel::emulator::rocm_smi {

Status read_settings(std::string_view text, Settings* out_settings) {
  SettingValues values;
  Settings settings;
  uint64_t init = 0;
  uint64_t device = 0;
  Status status = split_settings(text, &values);
  if (status.ok()) status = take_number(&values, "init", 0, 99, &init);
  if (status.ok()) status = take_number(&values, "device", 0, 99, &device);
  if (status.ok()) status = take_number(&values, "corrected", 0, 1'000'000, &settings.corrected);
  if (status.ok()) status = take_number(&values, "pages", 0, 1'000'000, &settings.pages);
  if (status.ok()) status = take_number(&values, "page_status", 0, 2, &settings.page_status);
  if (!status.ok()) return status;
  if (!values.empty()) {
    return {Code::kInvalidArgument, fmt::format("'{:.64}' is not known", values.begin()->first)};
  }
  settings.init = static_cast<rsmi_status_t>(init);
  settings.device = static_cast<rsmi_status_t>(device);
  *out_settings = settings;
  return {};
}

Library& Library::get() {
  static Library& library = *new Library;
  return library;
}

Library::Library() {
  const char* const text = secure_getenv("KEEL_EMULATED_ROCM_SMI");
  const Status status = read_settings(text == nullptr ? "" : text, &settings_);
  if (status.ok()) return;
  std::fprintf(stderr, "KEEL_EMULATED_ROCM_SMI: %s\n", status.text().c_str());
  settings_.init = RSMI_STATUS_INVALID_ARGS;
}

rsmi_status_t Library::init() {
  if (settings_.init != RSMI_STATUS_SUCCESS) return settings_.init;
  const std::lock_guard lock(mutex_);
  if (ask_ == nullptr) {
    void* const runtime = open_beside(reinterpret_cast<void*>(&rsmi_init), "libamdhip64.so.5");
    if (!find_beside(runtime, "keel_emulated_cuda_health", &ask_)) return RSMI_STATUS_INIT_ERROR;
  }
  ++users_;
  return RSMI_STATUS_SUCCESS;
}

rsmi_status_t Library::shut_down() {
  const std::lock_guard lock(mutex_);
  if (users_ == 0) return RSMI_STATUS_INIT_ERROR;
  --users_;
  return RSMI_STATUS_SUCCESS;
}

rsmi_status_t Library::ready() {
  const std::lock_guard lock(mutex_);
  return users_ == 0 ? RSMI_STATUS_INIT_ERROR : RSMI_STATUS_SUCCESS;
}

}  // namespace keel::emulator::rocm_smi

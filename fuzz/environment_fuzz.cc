// SPDX-License-Identifier: Apache-2.0
// Fuzzes the environment that keel_init and its plugins read: one variable per line, in this order.
// Variables that name files are omitted.
#include <keel/keel.h>

#include <cstdlib>
#include <string>

namespace {

constexpr const char* kVariables[] = {"KEEL_TIMEOUT",     "KEEL_VALIDATE",     "KEEL_BACKENDS",
                                      "KEEL_CPU_DEVICES", "KEEL_CPU_CORES",    "KEEL_CPU_GUARD",
                                      "KEEL_SIM_DEVICES", "KEEL_SIM_SETTINGS", "KEEL_ALLOC"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  if (text.find('\0') != std::string::npos || text.find("profile") != std::string::npos) return 0;
  keel_set_log(KEEL_LOG_OFF, nullptr, nullptr);
  for (const char* variable : kVariables) {
    const size_t end = text.find('\n');
    const std::string value = text.substr(0, end);
    text.erase(0, end == std::string::npos ? end : end + 1);
    if (value.empty()) {
      unsetenv(variable);
    } else {
      setenv(variable, value.c_str(), /*overwrite=*/1);
    }
  }
  const keel_status status = keel_init(nullptr);
  if (status == KEEL_INTERNAL) __builtin_trap();
  if (status != KEEL_OK) {
    // A refused keel_init leaves no state behind, and reports the reason.
    uint32_t count = 0;
    if (*keel_last_error() == '\0' || keel_backend_count(&count) == KEEL_OK) __builtin_trap();
    return 0;
  }
  uint32_t count = 0;
  if (keel_device_count(&count) != KEEL_OK) __builtin_trap();
  if (keel_shutdown() != KEEL_OK) __builtin_trap();
  return 0;
}

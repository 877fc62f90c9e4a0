// SPDX-License-Identifier: Apache-2.0
// Fuzzes the settings of the emulated chip: KEEL_SIM_SETTINGS, and the same values passed one by
// one.
#include <cstdlib>
#include <string>
#include <vector>

#include "backends/sim/settings.h"

namespace {

// Splits |text| into the pairs that an instance receives; |storage| owns the strings.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (end != at) words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  // An environment variable has no NUL; a profile could be any file of this machine.
  if (text.find('\0') != std::string::npos || text.find("profile") != std::string::npos) return 0;
  setenv("KEEL_SIM_SETTINGS", text.c_str(), /*overwrite=*/1);
  keel::sim::Settings read;
  const keel_status status = keel::sim::read_settings(nullptr, &read);
  unsetenv("KEEL_SIM_SETTINGS");

  std::vector<std::string> keys = split(text);
  std::vector<std::string> values;
  for (std::string& word : keys) {
    const size_t equals = std::min(word.find('='), word.size());
    values.push_back(word.substr(std::min(equals + 1, word.size())));
    word.resize(equals);
  }
  std::vector<const char*> key_texts;
  std::vector<const char*> value_texts;
  for (size_t i = 0; i < keys.size(); ++i) {
    key_texts.push_back(keys[i].c_str());
    value_texts.push_back(values[i].c_str());
  }
  keel_instance_settings given = {};
  given.header = {sizeof(given), KEEL_STRUCT_INSTANCE_SETTINGS, nullptr};
  given.count = static_cast<uint32_t>(keys.size());
  given.keys = key_texts.data();
  given.values = value_texts.data();
  keel::sim::Settings again;
  if (keel::sim::read_settings(&given, &again) != status) __builtin_trap();
  if (status != KEEL_OK) return 0;

  if (read.devices != again.devices || read.device.memory_bytes != again.device.memory_bytes ||
      read.device.seed != again.device.seed ||
      read.device.faults.size() != again.device.faults.size()) {
    __builtin_trap();
  }
  if (read.devices > 64 || read.device.memory_bytes == 0) __builtin_trap();
  // Every accepted fault can be injected.
  keel::emulator::FaultPlan plan(read.device.faults, /*device=*/0);
  for (size_t kind = 0; kind < keel::emulator::kCallKinds; ++kind) {
    const auto injection = plan.next(static_cast<keel::emulator::CallKind>(kind));
    if (!(injection.slow >= 1 && injection.slow <= 1e6)) __builtin_trap();
    if (injection.stall_for.count() < 0) __builtin_trap();
  }
  return 0;
}

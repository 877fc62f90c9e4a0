// SPDX-License-Identifier: Apache-2.0
#include "conformance/slot_probe.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include "base/ipc/process.h"
#include "conformance/plugin_device.h"

namespace keel::conformance {

namespace {

constexpr int kPresent = 0;
constexpr int kAbsent = 3;

}  // namespace

std::optional<bool> has_event_wait(const std::string& path) {
  ProcessOptions options;
  options.program = "/proc/self/exe";
  options.command = {"keel", kSlotProbeCommand, path};
  options.input = ProcessOptions::Stream::kNull;
  options.output = ProcessOptions::Stream::kNull;
  options.errors = ProcessOptions::Stream::kNull;
  Process process;
  if (process.start(options) != 0) return std::nullopt;
  const std::optional<ProcessEnd> end = process.wait_for(std::chrono::seconds(10));
  if (!end.has_value() || end->signal != 0) return std::nullopt;
  if (end->exit_code == kPresent) return true;
  if (end->exit_code == kAbsent) return false;
  return std::nullopt;
}

int slot_probe_main(const std::string& path) {
  std::string error;
  const keel_plugin* const plugin = PluginDevice::query(path, &error);
  if (plugin == nullptr) {
    fmt::print(stderr, "{}\n", error);
    return 1;
  }
  return KEEL_HAS(keel_stream_table, plugin->stream, event_wait) ? kPresent : kAbsent;
}

}  // namespace keel::conformance

// SPDX-License-Identifier: Apache-2.0
#include "tools/keel/devices.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/command.h"

namespace keel::cli {
namespace {

struct DeviceRow {
  std::string name;
  std::string backend;
  std::optional<keel_device_info> info;      // nothing if the device cannot be opened
  std::optional<keel_device_health> health;  // nothing if the plugin does not report health
  uint32_t chip = 0;                         // with |info|
  std::string error;                         // why the device cannot be opened
};

std::optional<keel_device_health> health_of(const Device& device) {
  try {
    return device.health();
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Lists devices in the order of their backends.
std::vector<DeviceRow> list_devices(const std::vector<keel_backend_info>& all_backends) {
  std::vector<DeviceRow> rows;
  for (const keel_backend_info& backend : all_backends) {
    for (uint32_t ordinal = 0; ordinal < backend.device_count; ++ordinal) {
      DeviceRow row;
      row.name = fmt::format("{}:{}", backend.name, ordinal);
      row.backend = backend.name;
      try {
        const Device device = Device::find(row.name);
        row.chip = device.chip();
        row.health = health_of(device);
        row.info = device.info();
      } catch (const Error& error) {
        row.error = error.what();
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

const char* type_name(keel_device_type type) {
  switch (type) {
    case KEEL_DEVICE_CPU:
      return "cpu";
    case KEEL_DEVICE_GPU:
      return "gpu";
    case KEEL_DEVICE_NPU:
      return "npu";
    default:
      return "other";
  }
}

// Returns abi.h's capability names, in the order of their bits.
std::vector<std::string> capability_names(uint64_t capabilities) {
  static constexpr const char* kNames[] = {
      "pinned",  "managed", "host_register", "host_alias",  "export",      "peer_copy",
      "async",   "timing",  "notify",        "priority",    "native_gate", "stream_alloc",
      "kernels", "ops",     "ccl",           "memory_info", "fill",        "pageable_async"};
  std::vector<std::string> names;
  for (uint32_t bit = 0; bit < 64; ++bit) {
    if ((capabilities >> bit & 1u) == 0) continue;
    names.push_back(bit < std::size(kNames) ? kNames[bit] : fmt::format("bit_{}", bit));
  }
  return names;
}

std::string memory_text(uint64_t bytes) {
  if (bytes == 0) return "unknown";
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

// Returns "ok", or the problem.
std::string health_text(const keel_device_health& health) {
  std::string text = health.ok == 0 ? "not to be used" : health.throttled != 0 ? "throttled" : "ok";
  if (health.corrected_ecc != 0) {
    text += fmt::format(", {} corrected ECC errors", health.corrected_ecc);
  }
  if (health.text[0] != '\0') text += fmt::format(" ({})", health.text);
  return text;
}

// Returns a backend's status in one sentence.
std::string status_text(const keel_backend_info& backend) {
  if (backend.status != KEEL_OK) {
    return fmt::format("{}: {}", keel_status_name(backend.status), backend.reason);
  }
  if (backend.device_count == 0) return fmt::format("no device: {}", backend.reason);
  return "ready";
}

// 32 hexadecimal digits; empty if the backend knows none.
std::string uuid_text(const keel_device_info& info) {
  const std::string digits = fmt::format("{:02x}", fmt::join(info.uuid, ""));
  return digits.find_first_not_of('0') == std::string::npos ? "" : digits;
}

Json to_json(const DeviceRow& row) {
  Json json = {{"name", row.name}, {"backend", row.backend}};
  if (!row.info) {
    json["error"] = row.error;
    return json;
  }
  const keel_device_info& info = *row.info;
  json["chip"] = row.chip;
  json["description"] = info.name;
  json["type"] = type_name(info.type);
  json["architecture"] = info.architecture;
  json["driver"] = info.driver;
  json["pci_address"] = info.pci_address;
  json["uuid"] = uuid_text(info);
  json["numa_node"] = info.numa_node;
  json["memory_bytes"] = info.memory_bytes;
  json["max_alloc_bytes"] = info.max_alloc_bytes;
  json["alignment"] = info.alignment;
  json["compute_units"] = info.compute_units;
  json["hardware_queues"] = info.hardware_queues;
  json["capabilities"] = capability_names(info.capabilities);
  if (row.health) {
    json["health"] = {{"ok", row.health->ok != 0},
                      {"throttled", row.health->throttled != 0},
                      {"corrected_ecc", row.health->corrected_ecc},
                      {"uncorrected_ecc", row.health->uncorrected_ecc},
                      {"text", row.health->text}};
  }
  return json;
}

Json to_json(const keel_backend_info& backend) {
  return {{"name", backend.name},
          {"vendor", backend.vendor},
          {"version", backend.version},
          {"path", backend.path},
          {"device_count", backend.device_count},
          {"status", keel_status_name(backend.status)},
          {"reason", backend.reason}};
}

// Returns a chip's line with its first device's data, or the lines of a further device of the chip.
std::string device_text(const DeviceRow& row, bool is_first_way) {
  if (!row.info) return fmt::format("{:<14} cannot be opened: {}\n", row.name, row.error);
  const keel_device_info& info = *row.info;
  std::string text =
      is_first_way ? fmt::format("{:<14} {:<6} {:<14} {:>10}  {}\n", row.name, type_name(info.type),
                                 info.architecture, memory_text(info.memory_bytes), info.name)
                   : fmt::format("  also    {}, which calls it {}\n", row.name, info.name);
  text += fmt::format("  driver  {}\n", info.driver[0] == '\0' ? "unknown" : info.driver);
  text += fmt::format("  capabilities  {}\n", join(capability_names(info.capabilities)));
  if (row.health) text += fmt::format("  health  {}\n", health_text(*row.health));
  return text;
}

void print_tables(const std::vector<DeviceRow>& rows,
                  const std::vector<keel_backend_info>& all_backends) {
  std::string text = fmt::format("{:<14} {:<6} {:<14} {:>10}  {}\n", "device", "type",
                                 "architecture", "memory", "name");
  std::vector<bool> is_listed(rows.size(), false);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (is_listed[i]) continue;
    text += device_text(rows[i], /*is_first_way=*/true);
    // Other devices of the same chip.
    for (size_t j = i + 1; j < rows.size() && rows[i].info; ++j) {
      if (!rows[j].info || rows[j].chip != rows[i].chip) continue;
      is_listed[j] = true;
      text += device_text(rows[j], /*is_first_way=*/false);
    }
  }
  if (rows.empty()) text += "none\n";
  text += fmt::format("\n{:<14} {:>7}  {}\n", "backend", "devices", "status");
  for (const keel_backend_info& backend : all_backends) {
    text +=
        fmt::format("{:<14} {:>7}  {}\n", backend.name, backend.device_count, status_text(backend));
  }
  if (all_backends.empty()) text += "none\n";
  print(text);
}

}  // namespace

void add_devices_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("devices", "List the devices, and every backend's state");
  command->footer(
      "Examples:\n"
      "  keel devices\n"
      "  keel devices --json | jq '.devices[].name'\n"
      "  keel devices --plugin build/libkeel_mychip.so");
  auto plugins = std::make_shared<std::vector<std::string>>();
  auto json = std::make_shared<bool>(false);
  add_plugin_option(*command, plugins.get());
  command->add_flag("--json", *json, "Print JSON");
  command->callback([plugins, json] {
    const Session session(*plugins);
    const std::vector<keel_backend_info> all_backends = backends();
    const std::vector<DeviceRow> rows = list_devices(all_backends);
    if (!*json) return print_tables(rows, all_backends);
    Json out = {{"devices", Json::array()}, {"backends", Json::array()}};
    for (const DeviceRow& row : rows) out["devices"].push_back(to_json(row));
    for (const keel_backend_info& backend : all_backends) {
      out["backends"].push_back(to_json(backend));
    }
    print_json(out);
  });
}

}  // namespace keel::cli

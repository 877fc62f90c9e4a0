// SPDX-License-Identifier: Apache-2.0
#include "conformance/plugin_device.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <keel/keel.h>

#include <cstdio>
#include <cstring>
#include <keel/plugin_kit.hpp>

#include "conformance/log_level.h"
#include "conformance/noted_plugin.h"
#include "conformance/silent_plugin.h"
#include "core/validation/call_notes.h"

namespace keel::conformance {

namespace {

thread_local std::string t_text;

constexpr keel_host kHost = {
    {sizeof(keel_host), KEEL_STRUCT_HOST, nullptr},
    nullptr,
    [](void*, keel_log_level level, const char* text) {
      static const keel_log_level asked = asked_log_level();
      if (level >= asked && level < KEEL_LOG_OFF) fmt::print(stderr, "plugin: {}\n", text);
    },
    [](void*, const char* text) { t_text = text; },
};

}  // namespace

const keel_plugin* PluginDevice::query(const std::string& path, std::string* error) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // never unloaded, as in core
  void* const symbol = library == nullptr ? nullptr : dlsym(library, KEEL_PLUGIN_QUERY_SYMBOL);
  if (symbol == nullptr) {
    *error = dlerror();
    return nullptr;
  }
  keel_plugin_query_fn function = nullptr;
  std::memcpy(&function, &symbol, sizeof(function));
  const keel_plugin* plugin = nullptr;
  validation::open_call_notes();
  keel_status status = KEEL_OK;
  {
    const validation::CallNote note(KEEL_PLUGIN_QUERY_SYMBOL);
    status = function(&kHost, &plugin);
  }
  if (status == KEEL_OK) return validation::notes_calls() ? &noted_plugin(*plugin) : plugin;
  *error = fmt::format("{}: query: {}: {}", path, keel_status_name(status), t_text);
  return nullptr;
}

std::unique_ptr<PluginDevice> PluginDevice::open(const std::string& path, uint32_t ordinal,
                                                 std::string* error) {
  const keel_plugin* const plugin = query(path, error);
  if (plugin == nullptr) return nullptr;
  const auto settings = KEEL_STRUCT_INIT(keel_instance_settings, KEEL_STRUCT_INSTANCE_SETTINGS);
  auto made = open(*plugin, ordinal, settings, error);
  if (made == nullptr) *error = path + ": " + *error;
  return made;
}

std::unique_ptr<PluginDevice> PluginDevice::open(const keel_plugin& plugin, uint32_t ordinal,
                                                 const keel_instance_settings& settings,
                                                 std::string* error) {
  std::unique_ptr<PluginDevice> made(new PluginDevice(plugin, ordinal));
  const auto failed = [&](keel_status status, const char* call) {
    if (status == KEEL_OK) return false;
    *error = fmt::format("{}: {}: {}", call, keel_status_name(status), t_text);
    return true;
  };
  made->info_.header = kit::header<keel_device_info>(KEEL_STRUCT_DEVICE_INFO);
  const keel_device_table& table = *plugin.device;
  uint32_t count = 0;  // called first, as some plugins enumerate devices then
  if (failed(plugin.create_instance(&settings, &made->instance_), "create_instance") ||
      failed(table.count(made->instance_, &count), "device.count") ||
      failed(table.info(made->instance_, ordinal, &made->info_), "device.info") ||
      failed(table.open(made->instance_, ordinal, &made->device_), "device.open")) {
    return nullptr;
  }
  return made;
}

std::unique_ptr<PluginDevice> PluginDevice::open_for_tests(std::string* error) const {
  const char* const key = "conformance";
  const char* const value = "1";
  auto settings = KEEL_STRUCT_INIT(keel_instance_settings, KEEL_STRUCT_INSTANCE_SETTINGS);
  settings.count = 1;
  settings.keys = &key;
  settings.values = &value;
  return open(plugin_, ordinal_, settings, error);
}

const keel_test_table* PluginDevice::test_table() const {
  for (auto* link = static_cast<const keel_header*>(plugin_.header.next); link != nullptr;
       link = static_cast<const keel_header*>(link->next)) {
    if (link->type == KEEL_STRUCT_TEST_TABLE) return reinterpret_cast<const keel_test_table*>(link);
  }
  return nullptr;
}

std::unique_ptr<PluginDevice> PluginDevice::stand_in(const keel_device_info& info) {
  std::unique_ptr<PluginDevice> made(new PluginDevice(silent_plugin()));
  made->info_ = info;
  return made;
}

PluginDevice::~PluginDevice() {
  if (device_ != nullptr) plugin_.device->close(device_);
  if (instance_ != nullptr) plugin_.destroy_instance(instance_);
}

const std::string& PluginDevice::last_text() {
  return t_text;
}

}  // namespace keel::conformance

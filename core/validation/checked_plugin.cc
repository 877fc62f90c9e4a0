// SPDX-License-Identifier: Apache-2.0
// The facade of a plugin: its tables with checked functions in place of the plugin's own.
#include <array>
#include <map>
#include <mutex>
#include <utility>

#include "core/log.h"
#include "core/validation/tables.h"
#include "core/validation/validation.h"

namespace keel::validation {

namespace {

// create_instance gets no handle to tell plugins apart, so each checked plugin has a
// create_instance of its own. Backends are few: if a process loads more, the rest stay unchecked.
constexpr size_t kMostPlugins = 128;
std::array<CheckedPlugin, kMostPlugins>& plugins() {
  static auto& instance = *new std::array<CheckedPlugin, kMostPlugins>;
  return instance;
}

template <size_t kIndex>
keel_status create_instance(const keel_instance_settings* settings,
                            keel_plugin_instance** out_instance) {
  return create_checked_instance(plugins()[kIndex], settings, out_instance);
}

using CreateInstance = decltype(keel_plugin::create_instance);
template <size_t... kIndices>
constexpr std::array<CreateInstance, kMostPlugins> create_functions(
    std::index_sequence<kIndices...>) {
  return {create_instance<kIndices>...};
}
constexpr auto kCreateInstance = create_functions(std::make_index_sequence<kMostPlugins>());

void fill_facade(CheckedPlugin& checked, CreateInstance create) {
  const keel_plugin& real = *checked.real;
  checked.facade = {
      .header = {sizeof(keel_plugin), KEEL_STRUCT_PLUGIN, nullptr},
      .abi_major = real.abi_major,
      .reserved = 0,
      .name = real.name,
      .vendor = real.vendor,
      .version = real.version,
      .create_instance = create,
      .destroy_instance = destroy_checked_instance,
      .device = &checked.device,
      .memory = real.memory == nullptr ? nullptr : &checked.memory,
      .stream = real.stream == nullptr ? nullptr : &checked.stream,
      .kernel = real.kernel == nullptr ? nullptr : &checked.kernel,
      .op = real.op == nullptr ? nullptr : &checked.op,
      .ccl = real.ccl == nullptr ? nullptr : &checked.ccl,
  };
  checked.device = checked_device_table(real.device);
  checked.memory = checked_memory_table(real.memory);
  checked.stream = checked_stream_table(real.stream);
  checked.kernel = checked_kernel_table(real.kernel);
  checked.op = checked_op_table(real.op);
  checked.ccl = checked_ccl_table(real.ccl);
}

}  // namespace

const keel_plugin* checked_plugin(const keel_plugin* plugin, const std::string& name) {
  static std::mutex mutex;
  static size_t used = 0;
  std::lock_guard lock(mutex);
  for (size_t i = 0; i < used; ++i) {
    const CheckedPlugin& known = plugins()[i];
    if (known.real == plugin && known.name == name) return &known.facade;
  }
  if (used == kMostPlugins) {
    log(KEEL_LOG_WARNING, "validation: {} is not checked: this process loaded {} backends before",
        name, kMostPlugins);
    return plugin;
  }
  CheckedPlugin& checked = plugins()[used];
  checked.real = plugin;
  checked.name = name;
  fill_facade(checked, kCreateInstance[used]);
  ++used;
  return &checked.facade;
}

}  // namespace keel::validation

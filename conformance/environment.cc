// SPDX-License-Identifier: Apache-2.0
#include "conformance/environment.h"

#include <fmt/format.h>

#include "conformance/emulated_libraries.h"

namespace keel::conformance {

namespace {

constexpr const char* kCpu = "cpu";

keel_status initialize(const std::string& backends, int64_t timeout_ns) {
  keel_init_options options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  options.backends = backends.c_str();
  options.default_timeout_ns = timeout_ns;
  return keel_init(&options);
}

bool get_backend(uint32_t index, keel_backend_info* out_info) {
  *out_info = KEEL_STRUCT_INIT(keel_backend_info, KEEL_STRUCT_BACKEND_INFO);
  return keel_backend_get(index, out_info) == KEEL_OK;
}

// Lists the plugins in Keel's folder, for the error message about an unknown backend.
std::string known_backends() {
  uint32_t count = 0;
  if (keel_init(nullptr) != KEEL_OK || keel_backend_count(&count) != KEEL_OK) {
    return keel_last_error();
  }
  std::string names;
  for (uint32_t i = 0; i < count; ++i) {
    keel_backend_info info;
    if (get_backend(i, &info)) names += (names.empty() ? "" : ", ") + std::string(info.name);
  }
  return names.empty() ? "none" : names;
}

// Loads the plugin under test as the first counted backend, together with the CPU's.
bool load(const PluginChoice& choice, int64_t timeout_ns, uint32_t* out_index, std::string* error,
          bool* usage) {
  *usage = false;
  if (!choice.plugin.empty()) {
    if (initialize(kCpu, timeout_ns) != KEEL_OK && initialize("", timeout_ns) != KEEL_OK) {
      *error = keel_last_error();
      return false;
    }
    if (keel_plugin_load(choice.plugin.c_str(), nullptr, nullptr, out_index) == KEEL_OK) {
      return true;
    }
    *error = keel_last_error();
    return false;
  }
  const bool is_cpu = choice.backend == kCpu;
  const std::string with_cpu = is_cpu ? choice.backend : choice.backend + "," + kCpu;
  if (initialize(with_cpu, timeout_ns) != KEEL_OK &&
      (is_cpu || initialize(choice.backend, timeout_ns) != KEEL_OK)) {
    *error = keel_last_error();
    *error = fmt::format("{}; there are: {}", *error, known_backends());
    *usage = true;
    return false;
  }
  uint32_t count = 0;
  if (keel_backend_count(&count) != KEEL_OK) return false;
  for (uint32_t i = 0; i < count; ++i) {
    keel_backend_info info;
    if (!get_backend(i, &info)) continue;
    // A plugin that failed to load is identified by its file name.
    const std::string path = info.path;
    if (info.name != choice.backend && !path.ends_with("/libkeel_" + choice.backend + ".so")) {
      continue;
    }
    *out_index = i;
    if (info.status == KEEL_OK) return true;
    *error = info.reason;
    return false;
  }
  *error = fmt::format("backend '{}' is not there after loading", choice.backend);
  return false;
}

void describe_device(Environment* environment) {
  keel_device_info& info = environment->info;
  info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
  if (keel_device_info_get(environment->device, &info) != KEEL_OK) return;
  Target& target = environment->target;
  target.device_name = info.name;
  target.architecture = info.architecture;
  target.driver = info.driver;
  target.memory_bytes = info.memory_bytes;
  target.capabilities = info.capabilities;
}

// Sorts the open devices into the backend's other devices and foreign devices.
void collect_devices(Environment* environment) {
  uint32_t count = 0;
  if (keel_device_count(&count) != KEEL_OK) return;
  const std::string own = environment->target.backend + ":";
  for (uint32_t i = 0; i < count; ++i) {
    NamedDevice device;
    char name[80];
    if (keel_device_get(i, &device.handle) != KEEL_OK ||
        keel_device_name(device.handle, name, sizeof(name)) != KEEL_OK) {
      continue;
    }
    device.name = name;
    if (device.name == environment->target.device) continue;
    (device.name.starts_with(own) ? environment->backend_devices : environment->foreign_devices)
        .push_back(device);
  }
}

// A quarter of the case's deadline.
int64_t wait_ns(uint32_t timeout_seconds) {
  return int64_t{timeout_seconds} * 1'000'000'000 / 4;
}

}  // namespace

Environment judges_environment(const Found& found, const PluginChoice& choice, uint64_t seed,
                               uint32_t timeout_seconds) {
  Environment environment;
  environment.target = found.target;
  environment.info = found.info;
  environment.emulated = choice.emulated;
  environment.seed = seed;
  environment.wait_ns = wait_ns(timeout_seconds);
  for (const std::string& name : found.backend_devices) {
    environment.backend_devices.push_back({name, {}});
  }
  for (const std::string& name : found.foreign_devices) {
    environment.foreign_devices.push_back({name, {}});
  }
  environment.tables = PluginDevice::stand_in(found.info);
  return environment;
}

Found found_by(const Environment& environment) {
  Found found = {environment.target, environment.info, {}, {}, computes_on_host(environment)};
  for (const NamedDevice& device : environment.backend_devices) {
    found.backend_devices.push_back(device.name);
  }
  for (const NamedDevice& device : environment.foreign_devices) {
    found.foreign_devices.push_back(device.name);
  }
  return found;
}

bool computes_on_host(const Environment& environment) {
  const std::string& backend = environment.target.backend;
  return environment.info.type == KEEL_DEVICE_CPU || environment.emulated ||
         uses_emulated_libraries(backend) || backend == "sim";
}

bool start_on_tables(const PluginChoice& choice, const std::string& path, uint32_t timeout_seconds,
                     Environment* out_environment, std::string* error) {
  out_environment->emulated = choice.emulated;
  out_environment->wait_ns = wait_ns(timeout_seconds);
  out_environment->tables = PluginDevice::open(path, choice.ordinal, error);
  if (out_environment->tables == nullptr) return false;
  out_environment->info = out_environment->tables->info();
  Target& target = out_environment->target;
  target.backend = out_environment->tables->plugin().name;
  target.device = fmt::format("{}:{}", target.backend, choice.ordinal);
  target.path = path;
  target.capabilities = out_environment->info.capabilities;
  return true;
}

bool start_environment(const PluginChoice& choice, uint32_t timeout_seconds,
                       Environment* out_environment, std::string* error, bool* usage) {
  Environment& environment = *out_environment;
  environment.emulated = choice.emulated;
  environment.wait_ns = wait_ns(timeout_seconds);
  uint32_t index = 0;
  if (!load(choice, environment.wait_ns, &index, error, usage)) return false;

  keel_backend_info backend;
  if (!get_backend(index, &backend)) {
    *error = keel_last_error();
    return false;
  }
  Target& target = environment.target;
  target.backend = backend.name;
  target.vendor = backend.vendor;
  target.version = backend.version;
  target.path = backend.path;
  target.device_count = backend.device_count;
  target.no_device = backend.reason;
  const uint32_t version = keel_version();
  target.keel_version = fmt::format("{}.{}.{}", version >> 16, version >> 8 & 0xff, version & 0xff);
  if (target.device_count == 0) return true;

  if (target.backend == kCpu) {  // a second instance for the CPU's own cross-device cases
    uint32_t second = 0;
    if (keel_plugin_load(backend.path, nullptr, nullptr, &second) != KEEL_OK) {
      *error = fmt::format("a second instance does not load: {}", keel_last_error());
      return false;
    }
  }
  const std::string name = fmt::format("{}:{}", target.backend, choice.ordinal);
  if (keel_device_find(name.c_str(), &environment.device) != KEEL_OK) {
    *error = keel_last_error();
    *usage = choice.ordinal >= target.device_count;
    return false;
  }
  target.device = name;
  describe_device(&environment);
  collect_devices(&environment);
  return true;
}

}  // namespace keel::conformance

// SPDX-License-Identifier: Apache-2.0
// The C functions of the process: version, logs, start and end, plugins.
#include <keel/keel.h>

#include <cstddef>
#include <keel/plugin_kit.hpp>

#include "core/api.h"
#include "core/log.h"
#include "core/validation/validation.h"

using keel::api_call;
using keel::api_call_outside;
using keel::failure;
using keel::Runtime;
using keel::Status;

const char* keel_status_name(keel_status status) {
  return keel::status_name(status);
}

const char* keel_last_error(void) {
  return keel::last_error();
}

uint32_t keel_version(void) {
  return KEEL_VERSION_MAJOR << 16 | KEEL_VERSION_MINOR << 8 | KEEL_VERSION_PATCH;
}

keel_status keel_set_log(keel_log_level level, keel_log_fn fn, void* user) {
  return api_call_outside([&]() -> Status {
    if (level > KEEL_LOG_OFF) return failure(KEEL_INVALID_ARGUMENT, "level is {}", level);
    keel::set_log(level, fn, user);
    return {};
  });
}

keel_status keel_init(const keel_init_options* options) {
  return api_call_outside([&]() -> Status {
    if (options != nullptr) {
      // Callers compiled before |validate| was added pass a shorter struct.
      KEEL_RETURN_IF_ERROR(keel::check_struct(options, KEEL_STRUCT_INIT_OPTIONS,
                                              offsetof(keel_init_options, validate), "options"));
    }
    return Runtime::get().initialize(options);
  });
}

keel_status keel_shutdown(void) {
  return api_call_outside([]() -> Status { return Runtime::get().shutdown(); });
}

keel_status keel_plugin_load(const char* path, const keel_instance_settings* settings,
                             const char* sha256, uint32_t* out_backend) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(path)
    KEEL_REQUIRE(out_backend)
    if (settings != nullptr) {
      KEEL_RETURN_IF_ERROR(keel::check_struct(settings, KEEL_STRUCT_INSTANCE_SETTINGS,
                                              sizeof(keel_instance_settings), "settings"));
      if (settings->count != 0) {
        KEEL_REQUIRE(settings->keys)
        KEEL_REQUIRE(settings->values)
      }
      for (uint32_t i = 0; i < settings->count; ++i) {
        KEEL_REQUIRE(settings->keys[i])
        KEEL_REQUIRE(settings->values[i])
      }
    }
    uint32_t index = 0;
    KEEL_RETURN_IF_ERROR(Runtime::get().load_plugin(path, settings, sha256, &index));
    *out_backend = index;
    return {};
  });
}

keel_status keel_validation_count(uint64_t* out_count) {
  return api_call_outside([&]() -> Status {
    KEEL_REQUIRE(out_count)
    *out_count = keel::validation::problem_count();
    return {};
  });
}

keel_status keel_backend_count(uint32_t* out_count) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(out_count)
    *out_count = Runtime::get().backend_count();
    return {};
  });
}

keel_status keel_backend_get(uint32_t index, keel_backend_info* out_info) {
  return api_call([&]() -> Status {
    KEEL_RETURN_IF_ERROR(keel::check_struct(out_info, KEEL_STRUCT_BACKEND_INFO,
                                            sizeof(keel_backend_info), "out_info"));
    const keel::Backend* backend = Runtime::get().backend(index);
    if (backend == nullptr) {
      return failure(KEEL_OUT_OF_RANGE, "index is {}, there are {} backends", index,
                     Runtime::get().backend_count());
    }
    keel_backend_info info = {};
    info.header = out_info->header;
    keel::kit::copy_text(info.name, backend->name().c_str());
    keel::kit::copy_text(info.path, backend->path().c_str());
    if (backend->plugin() != nullptr) {
      keel::kit::copy_text(info.vendor, backend->plugin()->vendor);
      keel::kit::copy_text(info.version, backend->plugin()->version);
    }
    info.device_count = static_cast<uint32_t>(backend->devices().size());
    info.status = backend->status().code();
    keel::kit::copy_text(
        info.reason, backend->status().ok() ? backend->reason().c_str() : backend->status().text());
    *out_info = info;
    return {};
  });
}

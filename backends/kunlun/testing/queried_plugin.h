// SPDX-License-Identifier: Apache-2.0
// The plugin as core loads it: by its query symbol.
#ifndef KEEL_BACKENDS_KUNLUN_TESTING_QUERIED_PLUGIN_H_
#define KEEL_BACKENDS_KUNLUN_TESTING_QUERIED_PLUGIN_H_

#include <dlfcn.h>
#include <keel/abi.h>

#include <string>

namespace keel::testing {

// The plugin's last error text on this thread.
inline thread_local std::string t_error;

// Returns NULL if the plugin |path| cannot be loaded.
inline const keel_plugin* query_plugin(const std::string& path) {
  static const keel_host host = {
      {sizeof(keel_host), KEEL_STRUCT_HOST, nullptr},
      nullptr,
      [](void*, keel_log_level, const char*) {},
      [](void*, const char* text) { t_error = text; },
  };
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  const auto query =
      reinterpret_cast<keel_plugin_query_fn>(dlsym(library, KEEL_PLUGIN_QUERY_SYMBOL));
  const keel_plugin* plugin = nullptr;
  return query != nullptr && query(&host, &plugin) == KEEL_OK ? plugin : nullptr;
}

}  // namespace keel::testing

#endif  // KEEL_BACKENDS_KUNLUN_TESTING_QUERIED_PLUGIN_H_

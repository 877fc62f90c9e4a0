// SPDX-License-Identifier: Apache-2.0
// The plugin as core loads it: by its query symbol.
#ifndef KEEL_BACKENDS_CUDA_TESTING_QUERIED_PLUGIN_H_
#define KEEL_BACKENDS_CUDA_TESTING_QUERIED_PLUGIN_H_

#include <dlfcn.h>
#include <keel/abi.h>

#include <cstdlib>
#include <string>

namespace keel::testing {

// The plugin's last error text on this thread.
inline thread_local std::string t_error;

// Returns NULL if the plugin cannot be loaded.
inline const keel_plugin* query_plugin() {
  static const keel_host host = {
      {sizeof(keel_host), KEEL_STRUCT_HOST, nullptr},
      nullptr,
      [](void*, keel_log_level, const char*) {},
      [](void*, const char* text) { t_error = text; },
  };
  const char* const folder = std::getenv("KEEL_PLUGIN_PATH");
  const std::string path = std::string(folder == nullptr ? "." : folder) + "/libkeel_cuda.so";
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  const auto query =
      reinterpret_cast<keel_plugin_query_fn>(dlsym(library, KEEL_PLUGIN_QUERY_SYMBOL));
  const keel_plugin* plugin = nullptr;
  return query != nullptr && query(&host, &plugin) == KEEL_OK ? plugin : nullptr;
}

}  // namespace keel::testing

#endif  // KEEL_BACKENDS_CUDA_TESTING_QUERIED_PLUGIN_H_

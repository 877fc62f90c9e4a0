// SPDX-License-Identifier: Apache-2.0
// The emulated chip's plugin, for test plugins that replace some of its slots.
#ifndef KEEL_CORE_TESTING_SIM_PLUGIN_H_
#define KEEL_CORE_TESTING_SIM_PLUGIN_H_

#include <dlfcn.h>
#include <keel/abi.h>

#include <cstdlib>
#include <keel/plugin_kit.hpp>
#include <string>

namespace keel::testing {

// Loads libkeel_sim.so of KEEL_PLUGIN_PATH, for good. |*out_sim| is its answer to |host|.
// KEEL_NOT_FOUND, with |name| of the asking plugin, if the library cannot be loaded.
inline keel_status query_sim(const char* name, const keel_host* host, const keel_plugin** out_sim) {
  kit::g_host = host;
  const char* const folder = std::getenv("KEEL_PLUGIN_PATH");
  void* const library =
      folder == nullptr
          ? nullptr
          : dlopen((std::string(folder) + "/libkeel_sim.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto query =
      library == nullptr
          ? nullptr
          : reinterpret_cast<keel_plugin_query_fn>(dlsym(library, KEEL_PLUGIN_QUERY_SYMBOL));
  if (query == nullptr) return kit::fail(KEEL_NOT_FOUND, "%s: no libkeel_sim.so", name);
  return query(host, out_sim);
}

}  // namespace keel::testing

#endif  // KEEL_CORE_TESTING_SIM_PLUGIN_H_

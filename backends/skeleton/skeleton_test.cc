// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <keel/abi.h>

#include <cstdlib>
#include <string>

namespace {

std::string g_error;

const keel_plugin* query_plugin() {
  static const keel_host host = {
      {sizeof(keel_host), KEEL_STRUCT_HOST, nullptr},
      nullptr,
      [](void*, keel_log_level, const char*) {},
      [](void*, const char* text) { g_error = text; },
  };
  const char* const folder = std::getenv("KEEL_PLUGIN_PATH");
  const std::string path = std::string(folder == nullptr ? "." : folder) + "/libkeel_skeleton.so";
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  const auto query =
      reinterpret_cast<keel_plugin_query_fn>(dlsym(library, KEEL_PLUGIN_QUERY_SYMBOL));
  const keel_plugin* plugin = nullptr;
  return query != nullptr && query(&host, &plugin) == KEEL_OK ? plugin : nullptr;
}

TEST(Skeleton, LoadsAndSaysWhyItHasNoDevices) {
  const keel_plugin* const plugin = query_plugin();
  ASSERT_NE(plugin, nullptr);
  EXPECT_EQ(plugin->abi_major, uint32_t{KEEL_ABI_MAJOR});
  EXPECT_STREQ(plugin->name, "skeleton");
  for (int round = 0; round < 3; ++round) {
    keel_plugin_instance* instances[2] = {};
    for (auto& instance : instances) {
      ASSERT_EQ(plugin->create_instance(nullptr, &instance), KEEL_OK);
    }
    for (auto* instance : instances) {
      uint32_t count = 1;
      g_error.clear();
      EXPECT_EQ(plugin->device->count(instance, &count), KEEL_OK);
      EXPECT_EQ(count, 0u);
      EXPECT_FALSE(g_error.empty());
      keel_plugin_device* device = nullptr;
      EXPECT_EQ(plugin->device->open(instance, 0, &device), KEEL_NOT_FOUND);
      plugin->destroy_instance(instance);
    }
  }
}

TEST(Skeleton, RefusesUnknownSettingsByName) {
  const keel_plugin* const plugin = query_plugin();
  ASSERT_NE(plugin, nullptr);
  const auto create = [&](const char* key, keel_plugin_instance** out_instance) {
    const char* const value = "/opt/sdk/lib";
    const keel_instance_settings settings = {
        {sizeof(settings), KEEL_STRUCT_INSTANCE_SETTINGS, nullptr}, 1, 0, &key, &value};
    return plugin->create_instance(&settings, out_instance);
  };
  keel_plugin_instance* instance = nullptr;
  EXPECT_EQ(create("colour", &instance), KEEL_INVALID_ARGUMENT);
  EXPECT_NE(g_error.find("colour"), std::string::npos);
  ASSERT_EQ(create("library_folder", &instance), KEEL_OK);
  plugin->destroy_instance(instance);
}

}  // namespace

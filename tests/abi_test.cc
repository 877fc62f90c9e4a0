// SPDX-License-Identifier: Apache-2.0
// What crosses the plugin boundary: layouts that may only grow, and exported symbols.
#include <gtest/gtest.h>
#include <keel/keel.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

extern "C" int keel_headers_compile_as_c11(void);

// 64-bit layouts of version 0.
static_assert(sizeof(keel_header) == 16 && offsetof(keel_header, next) == 8);
static_assert(sizeof(keel_tensor) == 160 && offsetof(keel_tensor, data) == 16);
static_assert(offsetof(keel_tensor, byte_offset) == 24 && offsetof(keel_tensor, shape) == 32);
static_assert(offsetof(keel_tensor, strides) == 96);
static_assert(sizeof(keel_attribute) == 8);
static_assert(sizeof(keel_host) == 16 + 3 * 8);
static_assert(sizeof(keel_instance_settings) == 16 + 8 + 2 * 8);
static_assert(sizeof(keel_device_table) == 16 + 7 * 8);
static_assert(sizeof(keel_memory_table) == 16 + 11 * 8);
static_assert(sizeof(keel_stream_table) == 16 + 21 * 8);
static_assert(offsetof(keel_stream_table, event_create) == 16 + 13 * 8);
static_assert(offsetof(keel_stream_table, event_elapsed) == 16 + 20 * 8);
static_assert(sizeof(keel_kernel_table) == 16 + 4 * 8);
static_assert(sizeof(keel_op_table) == 16 + 2 * 8);
static_assert(sizeof(keel_ccl_table) == 16 + 11 * 8);
static_assert(sizeof(keel_ccl_info) == 88);
static_assert(sizeof(keel_test_table) == 16 + 4 * 8);
static_assert(sizeof(keel_plugin) == 16 + 8 + 11 * 8);
static_assert(offsetof(keel_plugin, device) == 16 + 8 + 5 * 8);
static_assert(sizeof(keel_stream) == 8);

namespace {

std::vector<std::string> exported(const std::string& library) {
  std::unique_ptr<FILE, decltype(&pclose)> nm(
      popen(("nm -D --defined-only '" + library + "'").c_str(), "r"), pclose);
  std::vector<std::string> names;
  char line[4096];
  while (nm && std::fgets(line, sizeof(line), nm.get()) != nullptr) {
    std::istringstream words(line);
    std::string address;
    std::string type;
    std::string name;
    words >> address >> type >> name;
    if (type != "A") names.push_back(name.substr(0, name.find('@')));  // A: a version's name
  }
  return names;
}

TEST(AbiTest, HeadersCompileAsC11) {
  EXPECT_TRUE(keel_headers_compile_as_c11());
}

TEST(AbiTest, PluginsExportOneSymbol) {
  int plugins = 0;
  for (const auto& entry : std::filesystem::directory_iterator(KEEL_PLUGINS)) {
    if (entry.path().extension() != ".so") continue;
    ++plugins;
    EXPECT_EQ(exported(entry.path()), std::vector<std::string>{KEEL_PLUGIN_QUERY_SYMBOL})
        << entry.path();
  }
  EXPECT_GE(plugins, 1);
}

TEST(AbiTest, LibraryExportsKeelOnly) {
  const auto names = exported(KEEL_LIBRARY);
  EXPECT_GE(names.size(), 40u);
  for (const std::string& name : names) EXPECT_EQ(name.rfind("keel_", 0), 0u) << name;
}

}  // namespace

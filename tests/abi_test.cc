// SPDX-License-Identifier: Apache-2.0
// The plugin boundary: headers in C11, and exported symbols. abi_layout.py compares the layouts and
// the functions of libkeel.
#include <gtest/gtest.h>
#include <keel/keel.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

extern "C" int keel_headers_compile_as_c11(void);

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

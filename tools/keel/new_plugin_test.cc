// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tools/testing/keel_command.h"

namespace {

namespace fs = std::filesystem;
using keel::cli::testing::contains;
using keel::cli::testing::keel;
using keel::cli::testing::Result;

class NewPluginTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string made = fs::temp_directory_path() / "keel_new_plugin_XXXXXX";
    ASSERT_NE(mkdtemp(made.data()), nullptr);
    folder_ = made;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string in(const std::string& name) const { return folder_ / name; }
  // Returns whether a shell command succeeds; prints its output if it fails.
  bool runs(const std::string& command) const {
    const std::string printed = in("printed");
    const bool succeeded = std::system((command + " >" + printed + " 2>&1").c_str()) == 0;
    if (!succeeded) {
      std::ifstream stream(printed);
      ADD_FAILURE() << command << "\n" << std::string{std::istreambuf_iterator<char>(stream), {}};
    }
    return succeeded;
  }

  fs::path folder_;
};

TEST_F(NewPluginTest, ProjectBuildsAndIsCertifiedForTheNullLevel) {
  const Result made = keel({"new-plugin", "my_chip2", "--folder", in("project")});
  ASSERT_EQ(made.exit_code, 0) << made.error;
  EXPECT_TRUE(contains(made.out, "conform run --plugin build/libkeel_my_chip2.so")) << made.out;
  for (const char* file : {".github/workflows/conform.yml", ".gitignore", "CMakeLists.txt",
                           "README.md", "my_chip2.cc", "waivers.json"}) {
    std::ifstream stream(folder_ / "project" / file);
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    EXPECT_FALSE(text.empty()) << file;
    EXPECT_FALSE(contains(text, "skeleton")) << file << "\n" << text;
  }
  std::ifstream readme(in("project/README.md"));
  const std::string steps{std::istreambuf_iterator<char>(readme), {}};
  for (const char* named : {"porting.md", "keel_test_table", "--level core,async,memory",
                            "--kernels", "--certificate my_chip2.json", "keel conform perf"}) {
    EXPECT_TRUE(contains(steps, named)) << named;
  }
  const std::string build = in("project/build");
  const std::string prefix = fs::path(std::getenv("KEEL_TEST_BIN")).parent_path();
  for (const char* named : {"out_of_tree_plugin/tables.cc", "conformance_kernels/kernels.json"}) {
    EXPECT_TRUE(fs::exists(fs::path(prefix) / "share/keel" / named)) << named;
  }
  ASSERT_TRUE(runs(std::string(KEEL_CMAKE_COMMAND) + " -G Ninja -S " + in("project") + " -B " +
                   build + " -DCMAKE_PREFIX_PATH=" + prefix +
                   " -DCMAKE_CXX_COMPILER=" + KEEL_CXX_COMPILER + " -DCMAKE_CXX_FLAGS=-Werror"));
  ASSERT_TRUE(runs(std::string(KEEL_CMAKE_COMMAND) + " --build " + build));
  const Result conformed =
      keel({"conform", "run", "--plugin", build + "/libkeel_my_chip2.so", "--level", "null",
            "--waivers", in("project/waivers.json"), "--certificate", in("null.json")});
  EXPECT_EQ(conformed.exit_code, 0) << conformed.out << conformed.error;
  std::ifstream certificate(in("null.json"));
  EXPECT_TRUE(contains(std::string{std::istreambuf_iterator<char>(certificate), {}}, "my_chip2"));
}

TEST_F(NewPluginTest, NamesThatNoPluginMayHaveAreRefused) {
  for (const char* name : {"", "Chip", "2chip", "_chip", "my-chip", "my.chip", "../chip",
                           "a_name_of_thirty_two_characters_"}) {
    const Result refused = keel({"new-plugin", name, "--folder", in("project")});
    EXPECT_EQ(refused.exit_code, 2) << name;
    EXPECT_TRUE(contains(refused.error, "[a-z][a-z0-9_]*")) << refused.error;
  }
  EXPECT_FALSE(fs::exists(in("project")));
}

TEST_F(NewPluginTest, NamesOfKeelsOwnBackendsAreRefused) {
  for (const auto& entry : fs::directory_iterator(fs::path(KEEL_SOURCE_DIR) / "backends")) {
    if (!entry.is_directory()) continue;
    const std::string name = entry.path().filename();
    const Result refused = keel({"new-plugin", name, "--folder", in("project")});
    EXPECT_EQ(refused.exit_code, 2) << name;
    EXPECT_TRUE(contains(refused.error, "'" + name + "'")) << refused.error;
  }
  EXPECT_FALSE(fs::exists(in("project")));
}

TEST_F(NewPluginTest, HelpStatesTheLongestName) {
  const Result help = keel({"new-plugin", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_TRUE(contains(help.out, "at most 31 characters")) << help.out;
}

TEST_F(NewPluginTest, AFolderThatExistsStaysAsItIs) {
  fs::create_directory(in("project"));
  const Result refused = keel({"new-plugin", "mychip", "--folder", in("project")});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(contains(refused.error, "exists")) << refused.error;
  EXPECT_TRUE(fs::is_empty(in("project")));
}

}  // namespace

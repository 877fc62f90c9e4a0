// SPDX-License-Identifier: Apache-2.0
#include "conformance/kernel_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace keel::conformance {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

class KernelFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              ("keel_kernels_" +
               std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
    fs::create_directory(folder_);
    write("all.bin", "many kernels");
    write("twin.bin", "one kernel");
    for (const char* kernel : {"axpy", "number", "values", "places", "shared"}) {
      set_["kernels"][kernel] = {{"file", "all.bin"}, {"name", kernel}};
    }
    set_["kernels"]["twin"] = {{"file", "twin.bin"}, {"name", "number"}};
    set_["format"] = "SPIRV";
    set_["flavour"] = "OpenCL";
    set_["knows_arguments"] = true;
    set_["value_bytes"] = {1, 2, 4};
    set_["shared_bytes"] = 4096;
    set_["grid_blocks"] = 65535;
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  // Returns why the folder with |set| cannot be read; empty if it can.
  std::string refusal(const Json& set) {
    write("kernels.json", Json{{"sets", {set}}}.dump());
    std::string error;
    const bool read = read_kernel_folder(folder_.string(), &sets_, &error);
    EXPECT_EQ(read, error.empty());
    return error;
  }

  fs::path folder_;
  Json set_;
  std::vector<KernelSet> sets_;
};

TEST_F(KernelFolderTest, SetIsReadAsItIsWritten) {
  EXPECT_EQ(refusal(set_), "");
  ASSERT_EQ(sets_.size(), 1U);
  const KernelSet& set = sets_[0];
  EXPECT_EQ(set.format, static_cast<keel_binary_format>(KEEL_BINARY_SPIRV));
  EXPECT_EQ(set.format_name, "SPIRV for OpenCL");
  EXPECT_TRUE(set.knows_arguments);
  EXPECT_TRUE(set.knows_argument_count());
  EXPECT_EQ(set.axpy.module.size(), std::string("many kernels").size());
  EXPECT_EQ(set.axpy.module.data(), set.shared.module.data());
  EXPECT_NE(set.twin.module.data(), set.number.module.data());
  EXPECT_EQ(set.twin.name, "number");
  EXPECT_EQ(set.value_bytes, (std::vector<uint32_t>{1, 2, 4}));
  EXPECT_EQ(set.shared_bytes, 4096U);
  EXPECT_EQ(set.grid_blocks, 65535U);
  EXPECT_EQ(set.block_threads, 0U);
}

TEST_F(KernelFolderTest, FormatWithoutSharedMemoryLeavesItsKernelOut) {
  set_["kernels"].erase("shared");
  set_.erase("shared_bytes");
  EXPECT_EQ(refusal(set_), "");
  EXPECT_FALSE(sets_.at(0).shared.exists());
}

TEST_F(KernelFolderTest, FormatMayStateTheNumberOfArgumentsAlone) {
  set_["knows_arguments"] = false;
  EXPECT_EQ(refusal(set_), "");
  EXPECT_FALSE(sets_.at(0).knows_argument_count());
  set_["knows_argument_count"] = true;
  EXPECT_EQ(refusal(set_), "");
  EXPECT_TRUE(sets_.at(0).knows_argument_count());
  EXPECT_FALSE(sets_.at(0).knows_arguments);
}

TEST_F(KernelFolderTest, MistakesAreNamed) {
  const auto expect_refused = [&](const char* place, const Json& value, const std::string& named) {
    Json set = set_;
    set[Json::json_pointer(place)] = value;
    EXPECT_NE(refusal(set).find(named), std::string::npos) << refusal(set);
  };
  expect_refused("/format", "ELF", "format 'ELF' is none of");
  expect_refused("/kernels/axpy/file", "none.bin", "none.bin cannot be read");
  expect_refused("/kernels/axpy/file", "/etc/hostname", "is no name of a file in the folder");
  expect_refused("/kernels/values", Json::object(), "file");
  expect_refused("/value_bytes", Json::array(), "value_bytes has 0 arguments");
  expect_refused("/value_bytes", Json::array({4, 0}), "value_bytes has a 0");
  expect_refused("/value_bytes", Json::array({4096}), "4104 bytes");
  expect_refused("/shared_bytes", 6, "shared_bytes is 6");
  expect_refused("/knows_arguments", "yes", "knows_arguments");
  set_["knows_arguments"] = false;
  expect_refused("/knows_argument_count", "yes", "knows_argument_count");
  std::string error;
  EXPECT_FALSE(read_kernel_folder((folder_ / "nowhere").string(), &sets_, &error));
  EXPECT_NE(error.find("kernels.json cannot be read"), std::string::npos) << error;
}

}  // namespace
}  // namespace keel::conformance

// SPDX-License-Identifier: Apache-2.0
// Two ways into one chip: an emulated GPU of each make says that it is the machine's Vulkan device.
// `keel devices` then lists one chip, and a job over both devices is told.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/testing/keel_command.h"

namespace {

using keel::cli::testing::contains;
using keel::cli::testing::keel;
using keel::cli::testing::Result;
using nlohmann::json;

struct Make {
  const char* plugin;
  const char* settings;  // the variable that configures its chips
};

json device(const Result& result, const std::string& name) {
  const json out = json::parse(result.out);
  for (const json& each : out.at("devices")) {
    if (each.at("name") == name) return each;
  }
  return nullptr;
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

class SharedChipCliTest : public ::testing::TestWithParam<Make> {
 protected:
  void SetUp() override {
    const std::string plugin = GetParam().plugin;
    const Result vulkan = keel({"devices", "--json"}, {"KEEL_BACKENDS=vulkan"});
    const json found = vulkan.exit_code == 0 ? device(vulkan, "vulkan:0") : json();
    if (found.is_null() || found.at("uuid") == "") {
      GTEST_SKIP() << "there is no Vulkan device with a UUID";
    }
    const auto folder =
        std::filesystem::path(std::getenv("KEEL_PLUGIN_PATH")) / ".." / "emulated" / plugin;
    if (!std::filesystem::exists(folder)) {
      GTEST_SKIP() << "this build has no emulated " << plugin;
    }
    environment_ = {"KEEL_BACKENDS=cpu,vulkan," + plugin,
                    std::string(GetParam().settings) +
                        "=devices=2 memory_mib=64 uuid=" + found.at("uuid").get<std::string>()};
  }
  std::string name(int ordinal) const {
    return GetParam().plugin + (":" + std::to_string(ordinal));
  }
  // `keel perf` over |devices|, in one process or in one for each.
  Result perf(const std::string& devices, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"perf", "all_reduce", "--emulated", "--devices", devices,
                                          "-b",   "4K",         "-e",         "4K",        "-n",
                                          "1",    "-w",         "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return keel(arguments, environment_);
  }

  std::vector<std::string> environment_;
};

TEST_P(SharedChipCliTest, DevicesListsOneChip) {
  const Result result = keel({"devices", "--json", "--emulated"}, environment_);
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const json vulkan = device(result, "vulkan:0");
  ASSERT_FALSE(device(result, name(0)).is_null()) << result.out;
  EXPECT_EQ(device(result, name(0)).at("uuid"), vulkan.at("uuid"));
  EXPECT_EQ(device(result, name(0)).at("chip"), vulkan.at("chip"));
  EXPECT_NE(device(result, name(1)).at("chip"), vulkan.at("chip"));
  const std::string text = keel({"devices", "--emulated"}, environment_).out;
  const bool is_first = text.find(name(0)) < text.find("vulkan:0");
  EXPECT_TRUE(contains(text, "\n  also    " + (is_first ? "vulkan:0" : name(0)) + ", ")) << text;
}

TEST_P(SharedChipCliTest, AJobOverBothIsTold) {
  const std::string warning = "drive one chip: they share its memory and time";
  const Result one = perf("vulkan:0," + name(0));
  ASSERT_EQ(one.exit_code, 0) << one.error;
  EXPECT_TRUE(contains(one.error, "rank 0 (vulkan:0) and rank 1 (" + name(0) + ") " + warning))
      << one.error;
  EXPECT_EQ(count(one.error, warning), 1u) << one.error;
  const Result processes = perf("vulkan:0," + name(0), {"--procs", "2"});
  ASSERT_EQ(processes.exit_code, 0) << processes.error;
  EXPECT_EQ(count(processes.out + processes.error, warning), 1u) << processes.error;
  const Result other = perf("vulkan:0," + name(1));
  ASSERT_EQ(other.exit_code, 0) << other.error;
  EXPECT_EQ(count(other.error, warning), 0u) << other.error;
}

INSTANTIATE_TEST_SUITE_P(Makes, SharedChipCliTest,
                         ::testing::Values(Make{"cuda", "KEEL_EMULATED_CUDA"},
                                           Make{"hip", "KEEL_EMULATED_HIP"},
                                           Make{"level_zero", "KEEL_EMULATED_LEVEL_ZERO"}),
                         [](const auto& info) { return std::string(info.param.plugin); });

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// Tests `keel conform perf` as a user sees it. No test judges speed.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/testing/keel_command.h"

namespace {

using keel::cli::testing::contains;
using keel::cli::testing::keel;
using keel::cli::testing::Result;
using nlohmann::json;

TEST(ConformPerfTest, JsonHasEachFigureWithItsRoof) {
  std::string file = std::filesystem::temp_directory_path() / "keel_conform_perf_XXXXXX";
  const int descriptor = mkstemp(file.data());
  ASSERT_GE(descriptor, 0);
  const Result result = keel(
      {"conform", "perf", "--backend", "cpu", "--mib", "1", "--seconds", "0.1", "--json", file});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const json report = json::parse(std::ifstream(file));
  std::filesystem::remove(file);
  EXPECT_EQ(report.at("format"), 1);
  EXPECT_EQ(report.at("device"), "cpu:0");
  EXPECT_TRUE(report.at("capabilities").is_array());
  EXPECT_EQ(report.at("most_bytes"), 1 << 20);
  std::vector<std::string> names;
  for (const json& figure : report.at("figures")) {
    names.push_back(figure.at("name"));
    EXPECT_GT(figure.at("value"), 0.0) << figure;
    const std::string unit = figure.at("unit");
    EXPECT_TRUE(unit == "us" || unit == "GB/s" || unit == "GFLOP/s") << figure;
    EXPECT_TRUE(figure.at("hint").is_string()) << figure;
    EXPECT_TRUE(contains(result.out, names.back())) << result.out;
    const json& roof = figure.at("roof");
    if (roof.is_null()) continue;
    EXPECT_FALSE(roof.at("name").get<std::string>().empty()) << figure;
    EXPECT_GT(roof.at("value"), 0.0) << figure;
    EXPECT_GT(roof.at("ratio"), 0.0) << figure;
  }
  // The CPU supports everything that is measured.
  EXPECT_EQ(report.at("left_out"), json::array());
  for (const char* wanted :
       {"latency/enqueue/fill", "latency/enqueue/operator", "latency/enqueue/launch",
        "latency/fill_and_wait", "latency/event_record_query", "latency/round_trip/copies",
        "latency/round_trip/alias", "copy/host_to_device/pageable", "copy/device_to_host/pageable",
        "copy/host_to_device/pinned", "copy/device_to_host/pinned", "copy/within_device", "fill",
        "operator/add/float32", "operator/matmul/float32", "all_reduce/1KiB", "all_reduce/1MiB"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), wanted), names.end()) << wanted;
  }
}

// The advice on waits depends on the slot event_wait, which a second process looks for.
TEST(ConformPerfTest, SlotIsLookedForInThePluginFile) {
  const char* const plugins = std::getenv("KEEL_PLUGIN_PATH");
  ASSERT_NE(plugins, nullptr);
  const std::string folder = plugins;
  EXPECT_EQ(keel({"conform-slots", folder + "/libkeel_cpu.so"}).exit_code, 0);
  EXPECT_EQ(keel({"conform-slots", folder + "/libkeel_skeleton.so"}).exit_code, 3);
  const Result no_file = keel({"conform-slots", "/nowhere/libkeel_x.so"});
  EXPECT_EQ(no_file.exit_code, 1);
  EXPECT_TRUE(contains(no_file.error, "/nowhere/libkeel_x.so")) << no_file.error;
}

TEST(ConformPerfTest, MistakesAndMissingDevicesAreNamed) {
  EXPECT_EQ(keel({"conform", "perf"}).exit_code, 2);
  const Result no_file = keel({"conform", "perf", "--plugin", "/nowhere/libkeel_x.so"});
  EXPECT_EQ(no_file.exit_code, 2);
  EXPECT_TRUE(contains(no_file.error, "/nowhere/libkeel_x.so")) << no_file.error;
  const Result no_device = keel({"conform", "perf", "--backend", "skeleton"});
  EXPECT_EQ(no_device.exit_code, 1);
  EXPECT_TRUE(contains(no_device.error, "no device")) << no_device.error;
}

}  // namespace

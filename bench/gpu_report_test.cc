// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu_report.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace keel::bench {
namespace {

using Json = nlohmann::ordered_json;

// A folder as written by packaging/gpu.sh.
class GpuReportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / "keel_gpu_report_test";
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    write("facts.tsv", "name\tGPU 9\ndriver_version\t580.1\n");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  static bool holds(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  std::filesystem::path folder_;
};

constexpr char kConformance[] = R"({"emulated": false, "target": {"device_name": "GPU 9"},
  "levels": [{"level": "core", "certified": false,
              "counts": {"pass": 2, "fail": 1, "crash": 0, "timeout": 0, "unsupported": 1}}],
  "results": [{"id": "core/a", "outcome": "pass"}, {"id": "core/b", "outcome": "fail"},
              {"id": "core/c", "outcome": "unsupported"}]})";

constexpr char kFigures[] = R"({"machine": {"cores": 4, "cuda_pytorch": "PyTorch 9"}, "figures": [
  {"name": "cuda_op/add", "unit": "GB/s",
   "contenders": [{"name": "Keel", "median": 900.0}, {"name": "copy", "median": 1000.0}],
   "result": {"measure": "ratio of rates", "subject": "Keel", "peer": "copy", "median": 0.9,
              "interval_95": [0.89, 0.91]},
   "target": {"measure": "ratio of rates", "comparison": "at least", "bound": 0.85}, "met": true,
   "physical_limit": {"contender": "copy", "value": 1000.0}},
  {"name": "cuda_op/add/eager", "unit": "GB/s",
   "contenders": [{"name": "Keel", "median": 900.0}, {"name": "copy", "median": 1000.0},
                  {"name": "PyTorch, eager", "median": 800.0}],
   "result": {"measure": "ratio of rates", "subject": "Keel", "peer": "PyTorch, eager",
              "median": 1.125, "interval_95": [1.12, 1.13]},
   "target": {"measure": "ratio of rates", "comparison": "at least", "bound": 1.5}, "met": false,
   "physical_limit": {"contender": "copy", "value": 1000.0}},
  {"name": "cuda_calls/copy", "unit": "ns",
   "contenders": [{"name": "Keel", "median": 900.0}, {"name": "driver", "median": 910.0}],
   "result": {"measure": "difference", "subject": "Keel", "peer": "driver", "median": -10.5,
              "interval_95": [-20.0, 5.0]},
   "target": {"measure": "difference", "comparison": "at most", "bound": 100}, "met": true,
   "physical_limit": {"contender": "driver", "value": 910.0}},
  {"name": "cuda_matmul/x", "skipped": "no | such library", "unit": "GFLOP/s",
   "target": {"measure": "ratio of rates", "comparison": "at least", "bound": 0.98}, "met": null,
   "physical_limit": {"contender": "cuBLASLt", "value": null}},
  {"name": "cuda_op/y", "skipped": "failed: no memory", "failed": true}]})";

// A rate without a time is not finite; JSON has null instead.
TEST_F(GpuReportTest, AFigureThatIsNoNumber) {
  write("steps.tsv", "figures\tpassed\t30\t\n");
  write("figures.json", R"({"figures": [
    {"name": "cuda_op/add", "unit": "GB/s",
     "contenders": [{"name": "Keel", "median": null}, {"name": "copy", "median": 1000.0}],
     "result": {"measure": "ratio of rates", "subject": "Keel", "peer": "copy", "median": null,
                "interval_95": [null, null]},
     "target": {"measure": "ratio of rates", "comparison": "at least", "bound": 0.85},
     "met": null, "physical_limit": {"contender": "copy", "value": 1000.0}}]})");
  const std::string text = to_markdown(read_gpu_run(folder_));
  EXPECT_TRUE(holds(text,
                    "| cuda_op/add | - | copy: 1000 GB/s | not a number | at least 0.85x | "
                    "not measured | copy: 1000 GB/s |\n"))
      << text;
}

TEST_F(GpuReportTest, TellsOfEachStepWhatItGave) {
  write("steps.tsv",
        "conform-cuda\tfailed\t12\tcore/b failed\nsanitizer\tskipped\t0\tno compute-sanitizer\n"
        "figures\tpassed\t30\t\n");
  write("conform-cuda.json", kConformance);
  write("figures.json", kFigures);
  const GpuRun run = read_gpu_run(folder_);
  EXPECT_FALSE(run.emulated);

  const Json json = Json::parse(to_json(run));
  EXPECT_EQ(json.at("facts").at("driver_version"), "580.1");
  ASSERT_EQ(json.at("steps").size(), 3u);
  EXPECT_EQ(json.at("steps")[0].at("seconds"), 12);
  EXPECT_EQ(json.at("steps")[1].at("reason"), "no compute-sanitizer");
  // Only the failed case is kept; the figures appear once, in their own member.
  const Json& results = json.at("steps")[0].at("result").at("results");
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].at("id"), "core/b");
  EXPECT_TRUE(json.at("steps")[2].at("result").is_null());
  EXPECT_EQ(json.at("machine").at("cores"), 4);
  EXPECT_EQ(json.at("figures")[3].at("skipped"), "not measured: no | such library");

  const std::string text = to_markdown(run);
  EXPECT_TRUE(holds(text, "- driver_version: 580.1\n")) << text;
  EXPECT_TRUE(holds(text, "- pytorch: PyTorch 9\n")) << text;
  EXPECT_TRUE(holds(text, "| sanitizer | skipped | 0 | no compute-sanitizer |\n")) << text;
  EXPECT_TRUE(holds(text, "- **cuda** (GPU 9): core 2 of 3\n")) << text;
  EXPECT_TRUE(holds(text,
                    "| cuda_op/add | 900 GB/s | copy: 1000 GB/s | 0.900x [0.890, 0.910] | "
                    "at least 0.85x | met | copy: 1000 GB/s |\n"))
      << text;
  // The row shows that a target above the limit cannot be met.
  EXPECT_TRUE(holds(text,
                    "| cuda_op/add/eager | 900 GB/s | PyTorch, eager: 800 GB/s | "
                    "1.125x [1.120, 1.130] | at least 1.5x | missed | "
                    "copy: 1000 GB/s, 1.250x PyTorch, eager |\n"))
      << text;
  EXPECT_TRUE(holds(text,
                    "| cuda_calls/copy | 900 ns | driver: 910 ns | -10.5 ns [-20, 5] | "
                    "at most 100 ns more | met | driver: 910 ns |\n"))
      << text;
  // A figure that was not measured still has a target.
  EXPECT_TRUE(holds(text,
                    "| cuda_matmul/x | not measured: no / such library |  |  | at least 0.98x | "
                    "not measured | cuBLASLt |\n"))
      << text;
  EXPECT_TRUE(holds(text, "| cuda_op/y | not measured: failed: no memory |  |  | - | - | - |\n"))
      << text;
  EXPECT_FALSE(holds(text, "mulated")) << text;
}

// A step that timed out or was killed reports the cases it finished.
TEST_F(GpuReportTest, TellsHowManyCasesThereWasTimeFor) {
  write("steps.tsv", "conform-cuda\tfailed\t95\tout of time\nsanitizer\tfailed\t110\tkilled\n");
  std::string conformance = kConformance;
  conformance.insert(1, R"("cases": 10, "not_run": 6, "stopped": "out of time after 95 s", )");
  write("conform-cuda.json", conformance);
  conformance.replace(conformance.find("out of time after 95 s"), 22, "the run was ended before");
  write("sanitizer.json", conformance);
  const GpuRun run = read_gpu_run(folder_);
  const std::string text = to_markdown(run);
  EXPECT_TRUE(
      holds(text, "- **cuda** (GPU 9): core 2 of 3; 4 of 10 cases, out of time after 95 s\n"))
      << text;
  EXPECT_TRUE(holds(
      text, "- **sanitizer** (GPU 9): core 2 of 3; 4 of 10 cases, the run was ended before\n"))
      << text;
  const Json json = Json::parse(to_json(run));
  for (const Json& step : json.at("steps")) {
    EXPECT_EQ(step.at("result").at("not_run"), 6);
    EXPECT_EQ(step.at("result").at("results").size(), 1u) << step;
  }
}

TEST_F(GpuReportTest, SaysEmulatedIfOneReportDoes) {
  write("steps.tsv", "conform-cuda\tpassed\t1\t\n");
  std::string conformance = kConformance;
  conformance.replace(conformance.find("false"), 5, "true");
  write("conform-cuda.json", conformance);
  const GpuRun run = read_gpu_run(folder_);
  EXPECT_TRUE(run.emulated);
  EXPECT_TRUE(Json::parse(to_json(run)).at("emulated").get<bool>());
  EXPECT_TRUE(holds(to_markdown(run), "**Emulated**"));
}

// Times of an emulated chip describe no real chip and are removed, whatever program wrote them.
TEST_F(GpuReportTest, HasNoTimesOfAnEmulatedChip) {
  write("steps.tsv", "figures\tpassed\t30\t\n");
  write("figures.json", kFigures);
  GpuRun run = read_gpu_run(folder_);
  run.emulated = true;
  const std::string text = to_markdown(run);
  EXPECT_TRUE(holds(text,
                    "| cuda_op/add | taken, on an emulated chip |  |  | at least 0.85x | "
                    "not measured | copy |\n"))
      << text;
  const Json json = Json::parse(to_json(run));
  EXPECT_TRUE(json.at("figures")[0].at("result").is_null());
  EXPECT_TRUE(json.at("figures")[0].at("met").is_null());
  EXPECT_EQ(json.at("figures")[0].at("target").at("bound"), 0.85);
  for (const char* number : {"900", "910", "1000", "-10.5", "0.89"}) {
    EXPECT_FALSE(holds(text, number)) << text;
    EXPECT_FALSE(holds(to_json(run), number)) << to_json(run);
  }
}

TEST_F(GpuReportTest, AFileThatWasCutShortIsNone) {
  write("steps.tsv", "figures\tfailed\t150\tout of time after 150 s\n");
  write("figures.json", std::string(kFigures).substr(0, 200));
  const GpuRun run = read_gpu_run(folder_);
  EXPECT_TRUE(Json::parse(to_json(run)).at("figures").empty());
  EXPECT_TRUE(holds(to_markdown(run), "not measured: the benchmarks wrote nothing."));
}

TEST_F(GpuReportTest, AFolderWithoutStepsIsAMistake) {
  EXPECT_THROW(read_gpu_run(folder_), std::runtime_error);
}

}  // namespace
}  // namespace keel::bench

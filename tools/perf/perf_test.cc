// SPDX-License-Identifier: Apache-2.0
// Tests `keel perf` as a user sees it: columns, sizes, bandwidths, JSON, processes, mistakes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tools/perf/perf_options.h"
#include "tools/perf/perf_report.h"
#include "tools/perf/perf_team.h"
#include "tools/testing/keel_command.h"

namespace {

using keel::cli::testing::contains;
using keel::cli::testing::keel;
using keel::cli::testing::lines;
using keel::cli::testing::Result;
using nlohmann::json;

std::vector<std::string> words(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> all;
  for (std::string word; stream >> word;) all.push_back(word);
  return all;
}

// Returns the lines of the tables, split into words.
std::vector<std::vector<std::string>> rows(const Result& result) {
  std::vector<std::vector<std::string>> all;
  for (const std::string& line : lines(result.out)) {
    if (!line.empty() && line[0] != '#') all.push_back(words(line));
  }
  return all;
}

// Returns the first line that starts with "# " and |begin|, as JSON; null if there is none.
json explained(const Result& result, std::string_view begin) {
  for (const std::string& line : lines(result.out)) {
    if (!line.starts_with("# ") || !std::string_view(line).substr(2).starts_with(begin)) continue;
    return json::parse(line.substr(2), nullptr, /*allow_exceptions=*/false);
  }
  return nullptr;
}

Result perf(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "perf");
  arguments.insert(arguments.end(), {"-n", "2", "-w", "1", "--timeout", "60"});
  return keel(std::move(arguments));
}

TEST(Perf, SizesColumnsAndBandwidths) {
  const Result result = perf(
      {"all_reduce", "-b", "1K", "-e", "1M", "-f", "32", "-g", "3", "-d", "half", "-o", "max"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const auto table = rows(result);
  ASSERT_EQ(table.size(), 3u) << result.out;
  uint64_t size = 1024;
  for (const auto& row : table) {
    ASSERT_EQ(row.size(), 13u);
    EXPECT_EQ(row[0], std::to_string(size));
    EXPECT_EQ(row[1], std::to_string(size / 2));
    EXPECT_EQ(row[2], "half");
    EXPECT_EQ(row[3], "max");
    EXPECT_EQ(row[4], "-1");
    for (const size_t at : {5, 9}) {
      const double us = std::stod(row[at]);
      const double algorithm = std::stod(row[at + 1]);
      EXPECT_GT(us, 0);
      // Compares within the precision of the printed digits.
      EXPECT_NEAR(algorithm, static_cast<double>(size) / us / 1e3, 0.006 + algorithm * 0.01);
      EXPECT_NEAR(std::stod(row[at + 2]), algorithm * 4 / 3, 0.013);
      EXPECT_EQ(row[at + 3], "0");
    }
    size *= 32;
  }
  EXPECT_TRUE(contains(result.out, "\n# Out of bounds values : 0 OK\n")) << result.out;
  EXPECT_TRUE(contains(result.out, "\n# Avg bus bandwidth    : ")) << result.out;
  for (const char* part : {"out-of-place", "in-place", "redop", "algbw", "busbw", "#wrong",
                           "(GB/s)", "#  Rank  2 Group  0 Pid"}) {
    EXPECT_TRUE(contains(result.out, part)) << part << " in:\n" << result.out;
  }
}

TEST(Perf, StepsInBytesAndNoCheck) {
  const Result result =
      perf({"all_gather", "-b", "4K", "-e", "8K", "-i", "2K", "-g", "2", "-c", "0"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const auto table = rows(result);
  ASSERT_EQ(table.size(), 3u) << result.out;
  EXPECT_EQ(table[1][0], "6144");
  EXPECT_EQ(table[1][1], "768") << "elements of each rank";
  EXPECT_EQ(table[1][3], "none");
  EXPECT_EQ(table[1][8], "N/A");
  EXPECT_EQ(table[1][12], "N/A");
}

// The machine-independent columns, for odd sizes with three ranks.
TEST(Perf, SizeAndCountAreThoseOfNcclTests) {
  using Rows = std::vector<std::vector<std::string>>;
  const Rows whole = {{"4", "1"}, {"48", "12"}, {"340", "85"}, {"2400", "600"}};
  const Rows parts = {{"0", "0"}, {"48", "4"}, {"336", "28"}, {"2400", "200"}};
  const auto expect = [](const char* operation, const Rows& expected) {
    const Result result = perf({operation, "-b", "7", "-e", "3000", "-f", "7", "-g", "3"});
    ASSERT_EQ(result.exit_code, 0) << operation << ": " << result.error << result.out;
    Rows seen;
    for (const auto& row : rows(result)) seen.push_back({row[0], row[1]});
    EXPECT_EQ(seen, expected) << operation;
  };
  for (const char* operation : {"all_reduce", "reduce", "broadcast", "send_recv"}) {
    expect(operation, whole);
  }
  for (const char* operation :
       {"all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"}) {
    expect(operation, parts);
  }
}

TEST(Perf, EveryOperationIsRightInEveryType) {
  const Result result =
      perf({"all", "-b", "6000", "-e", "6000", "-g", "3", "-d", "all", "-r", "-1"});
  ASSERT_EQ(result.exit_code, 0) << result.error << result.out;
  const auto table = rows(result);
  // 14 types: five operations without a root, four with each of three roots, and a barrier.
  EXPECT_EQ(table.size(), 14u * (5 + 4 * 3) + 1) << result.out;
  for (const auto& row : table) {
    ASSERT_EQ(row.size(), 13u);
    if (row[1] == "0") continue;
    EXPECT_EQ(row[8], "0") << row[2];
  }
}

TEST(Perf, EveryReductionIsRight) {
  for (const char* operation : {"all_reduce", "reduce", "reduce_scatter"}) {
    const Result result =
        perf({operation, "-b", "6000", "-e", "6000", "-g", "3", "-d", "all", "-o", "all"});
    EXPECT_EQ(result.exit_code, 0) << result.error << result.out;
    EXPECT_EQ(rows(result).size(), 14u * 6) << result.out;
  }
}

TEST(Perf, ProcessesThreadsAndRanksOfAThread) {
  const std::string path = ::testing::TempDir() + "keel-perf-" + std::to_string(getpid()) + ".json";
  for (const std::vector<std::string>& parts : std::vector<std::vector<std::string>>{
           {"--procs", "2"}, {"-t", "2"}, {"--procs", "2", "-t", "2", "-g", "2", "--sync-each"}}) {
    std::vector<std::string> arguments = {"all_reduce", "-b", "64K", "-e", "64K", "-J", path};
    arguments.insert(arguments.end(), parts.begin(), parts.end());
    const Result result = perf(arguments);
    ASSERT_EQ(result.exit_code, 0) << result.error << result.out;
    EXPECT_EQ(rows(result).size(), 1u) << "rank 0 alone prints: " << result.out;
    std::ifstream file(path);
    const json out = json::parse(file, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(out.is_object());
    const json& devices = out["config"]["devices"];
    EXPECT_EQ(devices.size(), parts.size() > 2 ? 8u : 2u);
    for (size_t i = 0; i < devices.size(); ++i) EXPECT_EQ(devices[i]["rank"], i);
    ASSERT_EQ(out["results"].size(), 1u);
    const json& row = out["results"][0];
    EXPECT_EQ(row["operation"], "all_reduce");
    EXPECT_EQ(row["size"], 65536);
    EXPECT_EQ(row["count"], 16384);
    EXPECT_EQ(row["type"], "float");
    EXPECT_EQ(row["out_of_place"]["nwrong"], 0);
    EXPECT_GT(row["in_place"]["time"], 0.0);
    EXPECT_EQ(out["out_of_bounds"]["okay"], true);
    EXPECT_EQ(out["config"]["blocking_collectives"], parts.size() > 2);
  }
  std::remove(path.c_str());
}

TEST(Perf, UnderALauncherItsProcessesAreTheRanks) {
  const std::string program = std::string(std::getenv("KEEL_TEST_BIN")) + "/keel";
  const Result result = keel({"run", "-n", "2", "--", program, "perf", "broadcast", "-b", "4K",
                              "-e", "4K", "-n", "2", "--timeout", "60"});
  ASSERT_EQ(result.exit_code, 0) << result.error << result.out;
  EXPECT_EQ(rows(result).size(), 1u) << result.out;
  EXPECT_TRUE(contains(result.out, "#  Rank  1 ")) << result.out;
  const Result odd = keel({"run", "-n", "2", "--", program, "perf", "broadcast", "--procs", "3"});
  EXPECT_EQ(odd.exit_code, 2);
  EXPECT_TRUE(contains(odd.error, "--procs")) << odd.error;
}

TEST(Perf, ExplainAndDevices) {
  const std::string picture = ::testing::TempDir() + "ring" + std::to_string(getpid()) + ".svg";
  const Result result = perf({"all_reduce", "-b", "64K", "-e", "64K", "-g", "2", "--explain",
                              "--svg", picture, "--devices", "cpu:0,cpu"});
  ASSERT_EQ(result.exit_code, 0) << result.error << result.out;
  std::stringstream drawn;
  drawn << std::ifstream(picture).rdbuf();
  unlink(picture.c_str());
  EXPECT_TRUE(contains(drawn.str(), "all_reduce of 65536 bytes")) << drawn.str();
  EXPECT_TRUE(contains(result.out, "\n#   reach alias: rank 0 cpu:0, rank 1 cpu:0")) << result.out;
  EXPECT_EQ(rows(result).size(), 1u);
  const json told = explained(result, "{");
  ASSERT_TRUE(told.is_object()) << result.out;
  EXPECT_EQ(told["ranks"].size(), 2u);
  EXPECT_EQ(told["islands"].size(), 1u);
}

TEST(Perf, ExplainsEachSize) {
  const Result result =
      perf({"reduce_scatter", "-b", "1M", "-e", "2M", "-f", "2", "-g", "2", "--explain"});
  ASSERT_EQ(result.exit_code, 0) << result.error << result.out;
  std::vector<uint64_t> sizes;
  for (const std::string& line : lines(result.out)) {
    if (!line.starts_with("# {")) continue;
    const json told = json::parse(line.substr(2), nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(told.is_object()) << line;
    if (!told.contains("operation")) continue;
    EXPECT_EQ(told["operation"], "reduce_scatter");
    EXPECT_GT(told["measured_ms"], 0);
    sizes.push_back(told["bytes"]);
  }
  EXPECT_EQ(sizes, (std::vector<uint64_t>{1 << 20, 2 << 20}));
}

// Explains the operation for any algorithm.
TEST(Perf, ExplainsWhatWentByWhichAlgorithm) {
  for (const std::string algorithm : {"ring", "halving", "direct"}) {
    ASSERT_EQ(setenv("KEEL_ALGORITHM", algorithm.c_str(), 1), 0);
    const Result result = perf({"all_reduce", "-b", "96K", "-e", "96K", "-g", "2", "--explain"});
    unsetenv("KEEL_ALGORITHM");
    ASSERT_EQ(result.exit_code, 0) << result.error << result.out;
    const json told = explained(result, "{\"operation\"");
    ASSERT_TRUE(told.is_object()) << algorithm << ": " << result.out;
    EXPECT_EQ(told["algorithm"], algorithm);
    EXPECT_EQ(told["bytes"], 96 << 10);
    EXPECT_EQ(told["path"], "direct");
    EXPECT_EQ(told["reduced_by"], "host");
    EXPECT_GT(told["steps"], 0);
    EXPECT_GT(told["measured_ms"], 0);
  }
}

// Two chips with a native library, and one without: a bridge between the two islands.
TEST(Perf, ExplainsTheBridgeBetweenIslands) {
  ASSERT_EQ(setenv("KEEL_SIM_DEVICES", "2", 1), 0);
  const Result result = perf({"all_reduce", "-b", "4M", "-e", "4M", "-g", "3", "--explain",
                              "--devices", "sim:0,cpu:0,sim:1"});
  unsetenv("KEEL_SIM_DEVICES");
  ASSERT_EQ(result.exit_code, 0) << result.error << result.out;
  EXPECT_EQ(rows(result).size(), 1u);
  const json told = explained(result, "{\"operation\"");
  ASSERT_TRUE(told.is_object()) << result.out;
  EXPECT_EQ(told["path"], "native");
  ASSERT_TRUE(told["lane"].is_object()) << told;
  const json& lane = told["lane"];
  EXPECT_EQ(lane["path"], "bridge");
  EXPECT_EQ(lane["link_bytes"]["out"], 4 << 20);
  EXPECT_EQ(lane["link_bytes"]["in"], 4 << 20);
  EXPECT_GE(lane["chunks_in_flight"], 2);
  EXPECT_GT(lane["step_bytes"], 0);
  ASSERT_EQ(lane["links_gb_per_s"].size(), 2u);
  EXPECT_TRUE(lane["links_gb_per_s"][1].is_null());
  ASSERT_EQ(lane["shares"].size(), 2u);
  EXPECT_NEAR(lane["shares"][0].get<double>() + lane["shares"][1].get<double>(), 1, 1e-3);
  EXPECT_TRUE(lane.contains("bound_ms"));
  EXPECT_TRUE(lane.contains("predicted_ms"));
  EXPECT_GT(lane["measured_ms"], 0);
}

// Memory that the host can access but the other process cannot is exchanged over a bridge.
TEST(Perf, ExplainsWhatOtherProcessesDoNotReach) {
  for (const bool is_local : {true, false}) {
    const Result result = perf({"all_reduce", "-b", "1M", "-e", "1M", is_local ? "-g" : "--procs",
                                "2", "--explain", "--devices", "vulkan:0"});
    if (contains(result.error, "vulkan")) GTEST_SKIP() << "no Vulkan device";
    ASSERT_EQ(result.exit_code, 0) << result.error << result.out;
    const json told = explained(result, "{\"world\"");
    ASSERT_TRUE(told.is_object()) << result.out;
    // On a GPU with its own memory, data is staged even within one process.
    if (is_local && told["path"] == "bridge") return;
    EXPECT_EQ(told["path"], is_local ? "direct" : "bridge");
    for (const json& rank : told["ranks"]) EXPECT_EQ(rank["reach"], is_local ? "alias" : "staged");
    EXPECT_EQ(told["islands"].size(), is_local ? 1u : 2u);
  }
}

TEST(Perf, ForeignMemory) {
  const Result result = perf({"all", "-b", "6000", "-e", "6000", "-g", "2", "--foreign"});
  if (contains(result.error, "is not memory of")) {
    GTEST_SKIP() << "communicators do not take registered memory";
  }
  EXPECT_EQ(result.exit_code, 0) << result.error << result.out;
}

// Memory that other processes cannot map: several chunks, the last one partly filled.
TEST(Perf, ForeignMemoryOfProcesses) {
  for (const char* bytes : {"6000", "700004"}) {
    const Result result = perf({"all", "-b", bytes, "-e", bytes, "--procs", "3", "--foreign"});
    EXPECT_EQ(result.exit_code, 0) << result.error << result.out;
    EXPECT_FALSE(rows(result).empty()) << result.out;
  }
}

TEST(Perf, MistakesAreNamed) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{"all_reduced"}, "all_reduced"},
      {{}, "operation"},
      {{"all_reduce", "-b", "8X"}, "--minbytes"},
      {{"all_reduce", "-e", "-5"}, "--maxbytes"},
      {{"all_reduce", "-b", "2M", "-e", "1M"}, "--minbytes"},
      {{"all_reduce", "-i", "x"}, "--stepbytes"},
      {{"all_reduce", "-f", "0"}, "--stepfactor"},
      {{"all_reduce", "-b", "0", "-f", "2"}, "--stepfactor"},
      {{"all_reduce", "-n", "0"}, "--iters"},
      {{"all_reduce", "-d", "float33"}, "--datatype"},
      {{"all_reduce", "-o", "xor"}, "--op"},
      {{"broadcast", "-r", "1"}, "--root"},
      {{"all_reduce", "-g", "0"}, "--ngpus"},
      {{"all_reduce", "-t", "x"}, "--nthreads"},
      {{"all_reduce", "-z", "2"}, "--blocking"},
      {{"all_reduce", "--devices", "cpu:0,tpu:7"}, "--devices"},
      {{"all_reduce", "--procs", "0"}, "--procs"},
      {{"all_reduce", "--nonsense"}, "--nonsense"},
  };
  for (const auto& [arguments, named] : mistakes) {
    std::vector<std::string> all = {"perf"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Result result = keel(all);
    EXPECT_EQ(result.exit_code, 2) << named << ": " << result.error;
    EXPECT_EQ(rows(result).size(), 0u) << result.out;
    EXPECT_TRUE(contains(result.error, named)) << named << " in: " << result.error;
  }
}

TEST(Perf, OutputThatCannotBeWrittenIsAMistakeBeforeTheRun) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"--procs", "2"}, {"-g", "2", "--peers", "gloo"}}) {
    std::vector<std::string> arguments = {"all_reduce",     "-b", "8", "-e", "8", "-J",
                                          "/nowhere/x.json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = perf(arguments);
    if (contains(result.error, "KEEL_BUILD_BENCH") || contains(result.error, "keel_peer is")) {
      continue;  // no peers in this build
    }
    EXPECT_EQ(result.exit_code, 2) << result.error;
    EXPECT_TRUE(contains(result.error, "--output_file /nowhere/x.json: ")) << result.error;
    EXPECT_TRUE(contains(result.error, "No such file or directory")) << result.error;
    EXPECT_EQ(result.out, "");
  }
  const Result tuned = perf({"all_reduce", "-g", "2", "--tune", "-J", "/tmp/x.json"});
  EXPECT_EQ(tuned.exit_code, 2);
  EXPECT_TRUE(contains(tuned.error, "--output_file")) << tuned.error;
}

TEST(Perf, TableThatCannotBeWrittenFailsBeforeTheRun) {
  const Result result = keel({"perf", "all_reduce", "-g", "2", "-n", "2", "--tune"},
                             {"XDG_CACHE_HOME=/dev/null/cache"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.error, "/dev/null/cache")) << result.error;
  EXPECT_FALSE(contains(result.out, "us by algorithm")) << result.out;
}

// One rank per named device, unless options say otherwise.
TEST(Perf, EveryDeviceThatIsNamedTakesPart) {
  const std::vector<std::pair<std::vector<std::string>, size_t>> cases = {
      {{"--devices", "cpu:0,cpu"}, 2},
      {{"--devices", "cpu:0,cpu,cpu:0,cpu", "-t", "2"}, 4},
      {{"--devices", "cpu:0,cpu,cpu:0,cpu", "--procs", "2"}, 4},
      {{"--devices", "cpu:0,cpu", "--procs", "2"}, 2},
      {{"--devices", "cpu:0,cpu", "-g", "3"}, 3},
      {{"--devices", "cpu:0"}, 1}};
  for (const auto& [more, ranks] : cases) {
    std::vector<std::string> arguments = {"broadcast", "-b", "4K", "-e", "4K"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = perf(arguments);
    ASSERT_EQ(result.exit_code, 0) << result.error << result.out;
    size_t seen = 0;
    for (const std::string& line : lines(result.out)) seen += line.starts_with("#  Rank ") ? 1 : 0;
    EXPECT_EQ(seen, ranks) << result.out;
  }
}

TEST(Perf, DevicesWithoutARankAreAMistake) {
  const Result fewer = perf({"all_reduce", "--devices", "cpu:0,cpu,cpu:0", "-g", "2"});
  EXPECT_EQ(fewer.exit_code, 2);
  EXPECT_TRUE(contains(fewer.error, "--devices names 3 and -g 2 makes 2 ranks")) << fewer.error;
  const Result odd = perf({"all_reduce", "--devices", "cpu:0,cpu,cpu:0", "--procs", "2"});
  EXPECT_EQ(odd.exit_code, 2);
  EXPECT_TRUE(contains(odd.error, "--devices names 3, which 2 processes")) << odd.error;
  EXPECT_EQ(odd.out, "");
}

TEST(Perf, DeviceThatIsNotThereIsNamedWithWhatWouldBringIt) {
  const auto refusal = [](const char* device, std::vector<std::string> changes = {}) {
    const Result result = keel({"perf", "all_reduce", "--devices", device}, std::move(changes));
    EXPECT_EQ(result.exit_code, 2) << result.error;
    EXPECT_TRUE(contains(result.error, std::string("--devices: name '") + device)) << result.error;
    return result.error;
  };
  EXPECT_TRUE(contains(refusal("mychip:0"), "'mychip' is not loaded: --plugin FILE"));
  const std::string left_out = refusal("sim:0", {"KEEL_BACKENDS=cpu"});
  EXPECT_TRUE(contains(left_out, "KEEL_BACKENDS=cpu leaves out")) << left_out;
  const std::string none = refusal("skeleton:0", {"KEEL_BACKENDS=skeleton"});
  EXPECT_TRUE(contains(none, "'skeleton' has no device: ")) << none;
  EXPECT_FALSE(contains(refusal("cpu:9"), "backend 'cpu'")) << "there are others of it";
}

// Stray launcher variables, for example those of a Kubernetes pod.
TEST(Perf, StrayVariablesOfALauncherAreNoLauncher) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"-g", "2"}, std::vector<std::string>{"--procs", "2"}}) {
    std::vector<std::string> arguments = {"perf", "broadcast", "-b", "4K",        "-e",
                                          "4K",   "-n",        "2",  "--timeout", "60"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = keel(arguments, {"RANK=0", "WORLD_SIZE=8"});
    ASSERT_EQ(result.exit_code, 0) << result.error << result.out;
    EXPECT_EQ(rows(result).size(), 1u) << result.out;
    const std::string warning =
        "RANK, WORLD_SIZE are set and LOCAL_RANK, LOCAL_WORLD_SIZE, "
        "MASTER_PORT are not";
    const size_t at = result.error.find(warning);
    ASSERT_NE(at, std::string::npos) << result.error;
    EXPECT_EQ(result.error.find(warning, at + 1), std::string::npos) << result.error;
  }
}

TEST(Perf, RanksThatDoNotComeAreToldWithTheirLauncher) {
  const Result result =
      keel({"perf", "broadcast", "-b", "4K", "-e", "4K", "--timeout", "0.2"},
           {"SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_LOCALID=0", "SLURM_STEP_TASKS_PER_NODE=4",
            "SLURM_JOB_ID=7", "SLURM_STEP_ID=" + std::to_string(getpid())});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.error, "rank 0 of 4 by the environment variables of Slurm"))
      << result.error;
  EXPECT_TRUE(contains(result.error, "unset SLURM_PROCID")) << result.error;
  // Printed at once.
  EXPECT_TRUE(contains(result.out, "rank 0 of 4 processes by the environment variables of Slurm"))
      << result.out;
}

TEST(Perf, ShellOfSlurmIsOneProcess) {
  const Result result = keel(
      {"perf", "broadcast", "-b", "4K", "-e", "4K", "-n", "2", "--procs", "2", "--timeout", "60"},
      {"SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_LOCALID=0", "SLURM_STEP_TASKS_PER_NODE=4",
       "SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "SLURM_PTY_PORT=40123"});
  ASSERT_EQ(result.exit_code, 0) << result.error << result.out;
  EXPECT_EQ(rows(result).size(), 1u) << result.out;
  EXPECT_TRUE(contains(result.error, "the shell of srun --pty")) << result.error;
}

}  // namespace

namespace keel::cli {
namespace {

TEST(PerfOptions, SizesWithSuffixes) {
  uint64_t size = 0;
  for (const auto& [text, wanted] : std::vector<std::pair<std::string, uint64_t>>{
           {"8", 8}, {"0", 0}, {"1.5K", 1536}, {"32m", 32 << 20}, {"2G", 2ull << 30}}) {
    EXPECT_TRUE(parse_size(text, &size)) << text;
    EXPECT_EQ(size, wanted);
  }
  for (const char* bad : {"", "K", "-1", "8KB", "1e9", "nan", "inf", "8 K", "0x10", "99999999G"}) {
    EXPECT_FALSE(parse_size(bad, &size)) << bad;
  }
  PerfOptions options;
  options.min_bytes = 1ull << 40;
  options.max_bytes = ~0ull;
  options.step_factor = 1 << 20;
  EXPECT_EQ(options.sizes().size(), 2u) << "no overflow";
}

TEST(PerfReport, NumbersFitTheirColumns) {
  EXPECT_EQ(perf_number(0.004, 6), "0.00");
  EXPECT_EQ(perf_number(12.345, 6), "12.35");
  EXPECT_EQ(perf_number(1234.56, 7), "1234.56");
  EXPECT_EQ(perf_number(12345.6, 7), "12345.6");
  EXPECT_EQ(perf_number(1234567.8, 7), "1234568");
  EXPECT_EQ(perf_number(123456789, 7), "1.2e+08");
  EXPECT_EQ(perf_number(1234567, 6), "1e+06");
}

TEST(PerfReport, WrongElementsMakeTheRunAFailure) {
  PerfOptions options;
  PerfReport report(options, {});
  ::testing::internal::CaptureStdout();
  report.begin(*find_perf_operation("reduce"));
  PerfRow row;
  row.bytes = 8;
  row.count = 2;
  row.reduction = KEEL_AVG;
  row.root = 1;
  row.out_of_place = {1e-6, 0.008, 0.008, 0};
  row.in_place = {2e-6, 0.004, 0.002, 3};
  report.add(row);
  report.end();
  const std::string out = ::testing::internal::GetCapturedStdout();
  EXPECT_NE(out.find("           8             2     float     avg       1     1.00    0.01    0.01"
                     "       0     2.00    0.00    0.00       3\n"),
            std::string::npos)
      << out;
  EXPECT_NE(out.find("# Out of bounds values : 1 FAILED\n"), std::string::npos) << out;
  EXPECT_NE(out.find("# Avg bus bandwidth    : 0.005 \n"), std::string::npos) << out;
  EXPECT_EQ(report.wrong_rows(), 1u);
  EXPECT_EQ(report.json()["out_of_bounds"]["okay"], false);
  EXPECT_EQ(report.json()["results"][0]["in_place"]["nwrong"], 3);
}

TEST(PerfTeam, CombinesAndAborts) {
  constexpr uint32_t kThreads = 4;
  PerfTeam team(kThreads);
  std::atomic<int> stopped{0};
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (uint64_t round = 1; round <= 200; ++round) {
        EXPECT_EQ(team.max(static_cast<double>(round * (i + 1)), [](double v) { return v + 1; }),
                  static_cast<double>(round * kThreads + 1));
        EXPECT_EQ(team.sum(round, [](uint64_t v) { return v; }), round * kThreads);
      }
      try {
        if (i == 0) team.abort();
        team.meet();
      } catch (const PerfAborted&) {
        ++stopped;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(stopped, static_cast<int>(kThreads));
}

}  // namespace
}  // namespace keel::cli

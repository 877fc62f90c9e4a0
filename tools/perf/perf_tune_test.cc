// SPDX-License-Identifier: Apache-2.0
// Tests `keel perf --tune`: the rules derived from measurements, and their file.
#include "tools/perf/perf_tune.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tools/testing/keel_command.h"

namespace {

using keel::cli::PerfTuning;
using keel::cli::testing::contains;
using keel::cli::testing::keel;
using keel::cli::testing::Result;

constexpr const char* kExplained = R"({"measured_table": "/nowhere/table",
  "selection_key": {"ranks": 4, "reach": "alias", "cores": "dedicated"},
  "foreign_buffers": {"all_gather": [{"way": "attach"}]},
  "candidates": {"all_reduce": ["eager", "ring"], "broadcast": ["eager"]},
  "algorithms": {"all_reduce": [{"to": 4096, "algorithm": "eager"}, {"algorithm": "direct"}],
                 "broadcast": [{"algorithm": "ring"}]}})";

TEST(PerfTuning, KnowsWhatThereIsToMeasure) {
  const PerfTuning tuning(kExplained);
  EXPECT_EQ(tuning.algorithms("all_reduce"),
            (std::vector<std::string>{"built-in", "eager", "ring"}));
  EXPECT_TRUE(tuning.algorithms("barrier").empty());
}

TEST(PerfTuning, RangesMeetInTheMiddleOfTwoSizes) {
  PerfTuning tuning(kExplained);
  for (const uint64_t bytes : {1024, 4096, 16384, 65536}) {
    tuning.add("all_reduce", bytes, "built-in", 10e-6);
    tuning.add("all_reduce", bytes, "ring", bytes == 4096 || bytes == 16384 ? 5e-6 : 20e-6);
  }
  EXPECT_EQ(tuning.rules(),
            std::vector<std::string>{"all_reduce 2049-32768 4 alias dedicated ring"});
  tuning.add("all_reduce", 65536, "ring", 1e-6);
  EXPECT_EQ(tuning.rules(), std::vector<std::string>{"all_reduce 2049- 4 alias dedicated ring"});
  EXPECT_TRUE(contains(tuning.report(), "[ring 5.00]")) << tuning.report();
}

TEST(PerfTuning, ALittleFasterIsNotWorthARule) {
  PerfTuning tuning(kExplained);
  tuning.add("all_reduce", 1024, "built-in", 10e-6);
  tuning.add("all_reduce", 1024, "ring", 9.6e-6);
  EXPECT_TRUE(tuning.rules().empty());
  tuning.add("all_reduce", 1024, "eager", 9.4e-6);
  EXPECT_EQ(tuning.rules(), std::vector<std::string>{"all_reduce 0- 4 alias dedicated eager"});
}

TEST(PerfTuning, ReplacesWhatItMeasuredAndLeavesTheRest) {
  PerfTuning tuning(kExplained);
  tuning.add("all_reduce", 1024, "built-in", 10e-6);
  tuning.add("all_reduce", 1024, "ring", 1e-6);
  const std::string mine = "all_reduce 0- 4 alias dedicated ring\n";
  EXPECT_EQ(tuning.merged(""), "keel-collectives 1\n" + mine);
  EXPECT_EQ(tuning.merged("keel-collectives 0\nwhatever\n"), "keel-collectives 1\n" + mine);
  EXPECT_EQ(tuning.merged("keel-collectives 1\n# of mine\n"
                          "all_reduce 1- 4 alias dedicated halving\n"
                          "all_reduce 1- 8 alias oversubscribed halving\n"
                          "broadcast * 4 alias dedicated knomial\n"),
            "keel-collectives 1\n# of mine\nall_reduce 1- 8 alias oversubscribed halving\n"
            "broadcast * 4 alias dedicated knomial\n" +
                mine);
}

TEST(PerfTuning, ForeignBuffersHaveRulesOfTheirOwn) {
  PerfTuning tuning(kExplained, /*foreign=*/true);
  EXPECT_EQ(tuning.algorithms("all_gather"), (std::vector<std::string>{"built-in", "staging"}));
  EXPECT_TRUE(tuning.algorithms("all_reduce").empty());
  tuning.add("all_gather", 16384, "built-in", 10e-6);
  tuning.add("all_gather", 16384, "staging", 5e-6);
  tuning.add("all_gather", 65536, "built-in", 10e-6);
  tuning.add("all_gather", 65536, "staging", 20e-6);
  const std::string mine = "all_gather 0-32768 4 foreign dedicated staging\n";
  EXPECT_EQ(tuning.merged("keel-collectives 1\nall_gather 1- 4 alias dedicated ring\n"
                          "all_gather 1- 4 foreign dedicated staging\n"),
            "keel-collectives 1\nall_gather 1- 4 alias dedicated ring\n" + mine);
}

// Valid whether or not processes may read each other's memory.
TEST(PerfTuning, ForeignBuffersAreMeasuredBetweenProcesses) {
  const std::string folder = testing::TempDir() + "keel-tune-foreign-" + std::to_string(getpid());
  const Result tuned = keel({"perf", "all_gather", "-b", "256K", "-e", "256K", "--procs", "2", "-n",
                             "2", "--foreign", "--tune", "--timeout", "60"},
                            {"XDG_CACHE_HOME=" + folder, "KEEL_ALGORITHM=", "KEEL_ATTACH=1"});
  EXPECT_EQ(tuned.exit_code, 0) << tuned.error << tuned.out;
  EXPECT_TRUE(contains(tuned.out, "Nothing was read by cross-memory attach") ||
              contains(tuned.out, "staging "))
      << tuned.out;
  std::filesystem::remove_all(folder);
}

TEST(PerfTuning, SaysWhatIsChosen) {
  const keel::cli::Json explained = keel::cli::Json::parse(kExplained);
  EXPECT_EQ(keel::cli::perf_algorithms_text(explained, "all_reduce"),
            "# Algorithms by bytes sent: eager to 4096, then direct\n");
  EXPECT_EQ(keel::cli::perf_algorithms_text(explained, "broadcast"),
            "# Algorithms by bytes sent: ring\n");
  EXPECT_EQ(keel::cli::perf_algorithms_text(explained, "barrier"), "");
  EXPECT_EQ(keel::cli::perf_algorithm_at(explained, "all_reduce", 4096), "eager");
  EXPECT_EQ(keel::cli::perf_algorithm_at(explained, "all_reduce", 4097), "direct");
  EXPECT_EQ(keel::cli::perf_algorithm_at(explained, "barrier", 0), "");
}

// Like a user: measures, writes, and reads the table with the next communicator.
TEST(PerfTuning, TheTableIsWrittenAndRead) {
  const std::string folder = testing::TempDir() + "keel-tune-" + std::to_string(getpid());
  const std::vector<std::string> environment = {"XDG_CACHE_HOME=" + folder,
                                                "KEEL_ALGORITHM=", "KEEL_COLLECTIVE_TABLE="};
  const Result tuned = keel({"perf", "all", "-b", "1K", "-e", "16K", "-f", "16", "-g", "3", "-n",
                             "2", "--tune", "--timeout", "60"},
                            environment);
  ASSERT_EQ(tuned.exit_code, 0) << tuned.error << tuned.out;
  for (const char* part : {"# all_to_all: us by algorithm", "bruck ", "pairwise ", "knomial ",
                           "halving ", "doubling ", "ring ", "one_shot ", "direct "}) {
    EXPECT_TRUE(contains(tuned.out, part)) << part << " in:\n" << tuned.out;
  }
  std::string path;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/keel")) {
    EXPECT_TRUE(path.empty()) << "more than one file";
    path = entry.path();
  }
  EXPECT_TRUE(contains(path, "/collectives-") && path.ends_with(".table")) << path;
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_TRUE(text.starts_with("keel-collectives 1\n")) << text;
  // Independently of the measurements, a rule added by a user is kept, read and shown.
  std::ofstream(path, std::ios::app) << "all_reduce * 3 * * ring 1000\n";
  const Result timed =
      keel({"perf", "all_reduce", "-b", "1K", "-e", "1K", "-g", "3", "-n", "2", "--explain"},
           environment);
  EXPECT_EQ(timed.exit_code, 0) << timed.error;
  EXPECT_TRUE(contains(timed.out, "\n# Algorithms by bytes sent: ring\n")) << timed.out;
  EXPECT_TRUE(contains(timed.out, "\"table\": \"" + path + "\"")) << timed.out;
  std::filesystem::remove_all(folder);
}

TEST(PerfTuning, WhatCannotBeTunedIsSaid) {
  const Result barrier = keel({"perf", "barrier", "-g", "2", "--tune"});
  EXPECT_EQ(barrier.exit_code, 2);
  EXPECT_TRUE(contains(barrier.error, "--tune: there is one way only for barrier"))
      << barrier.error;
  const Result threads = keel({"perf", "all_gather", "-g", "2", "--foreign", "--tune"});
  EXPECT_EQ(threads.exit_code, 2);
  EXPECT_TRUE(contains(threads.error, "between processes alone: --procs")) << threads.error;
  const Result nowhere =
      keel({"perf", "all_gather", "-b", "1K", "-e", "1K", "-g", "2", "-n", "1", "--tune"},
           {"XDG_CACHE_HOME=/proc/none"});
  EXPECT_EQ(nowhere.exit_code, 1);
  EXPECT_TRUE(contains(nowhere.error, "/proc/none/keel/collectives-")) << nowhere.error;
}

TEST(PerfTuning, AnAlgorithmThatIsNoneFailsWithTheNames) {
  const Result result =
      keel({"perf", "all_reduce", "-b", "1K", "-e", "1K", "-g", "2"}, {"KEEL_ALGORITHM=rong"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.error,
                       "KEEL_ALGORITHM is 'rong': one of direct, eager, one_shot, "
                       "ring, doubling, halving"))
      << result.error;
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// Tests `keel perf --peers`: the launches, the evaluation of their output, and the messages about
// absent libraries. Programs that print known times replace the libraries.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/testing/keel_command.h"

namespace {

namespace fs = std::filesystem;
using keel::cli::testing::contains;
using keel::cli::testing::keel;
using keel::cli::testing::lines;
using keel::cli::testing::Result;
using nlohmann::json;

std::string measured(uint64_t bytes, double microseconds, bool right = true,
                     const std::string& form = "blocking") {
  const json line = {{"op", "all_reduce"}, {"ranks", 2},         {"bytes", bytes},
                     {"moved", bytes},     {"way", "ring"},      {"form", form},
                     {"times", 5},         {"us", microseconds}, {"right", right}};
  return line.dump();
}

class PerfPeersTest : public testing::Test {
 protected:
  PerfPeersTest() {
    char name[] = "/tmp/keel-peers-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~PerfPeersTest() override { fs::remove_all(folder_); }

  // Writes a program that records its arguments, prints |text| and exits with |code|.
  void stand_in(const std::string& name, const std::string& text, int code = 0,
                const std::string& error = "") {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << "#!/bin/sh\necho \"$@\" >>" << path << ".arguments\ncat <<'END'\n"
                        << text << "\nEND\necho '" << error << "' >&2\nexit " << code << "\n";
    EXPECT_EQ(chmod(path.c_str(), 0700), 0);
  }
  std::vector<std::string> arguments_of(const std::string& name) const {
    std::ifstream file(folder_ + "/" + name + ".arguments");
    return lines(std::string((std::istreambuf_iterator<char>(file)), {}));
  }

  Result perf(std::vector<std::string> more) const {
    std::vector<std::string> arguments = {"perf", "all_reduce",      "-b",   "4K", "-e", "8K", "-f",
                                          "2",    "--peer-programs", folder_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return keel(std::move(arguments));
  }

  std::string folder_;
};

std::string two_sizes(double first, double second) {
  return measured(4096, first) + "\n" + measured(8192, second);
}

bool has_line(const Result& result, const std::string& line) {
  for (const std::string& each : lines(result.out)) {
    if (each == line) return true;
  }
  return false;
}

TEST_F(PerfPeersTest, TimesStandSideBySide) {
  stand_in("keel_peer", two_sizes(10, 20) + "\n" + measured(4096, 1, true, "stream"));
  stand_in("gloo_peer", two_sizes(25, 30));
  const std::string path = folder_ + "/out.json";
  const Result result =
      perf({"--procs", "2", "--peers", "gloo", "--rounds", "2", "-n", "7", "-w", "3", "-J", path});
  ASSERT_EQ(result.exit_code, 0) << result.error << result.out;
  EXPECT_TRUE(has_line(result, "#       size       keel       gloo     ratio")) << result.out;
  EXPECT_TRUE(has_line(result, "        4096      10.00      25.00      2.50")) << result.out;
  EXPECT_TRUE(has_line(result, "        8192      20.00      30.00      1.50")) << result.out;
  const auto keel_words = arguments_of("keel_peer");
  ASSERT_EQ(keel_words.size(), 2u) << "a launch a round";
  for (const char* part : {"--ranks 2", "--mode processes", "--ops all_reduce", "--bytes 4096,8192",
                           "--times 7", "--warmup 3"}) {
    EXPECT_TRUE(contains(keel_words[0], part)) << part << " in " << keel_words[0];
  }
  EXPECT_EQ(arguments_of("gloo_peer").size(), 2u);
  std::ifstream file(path);
  const json out = json::parse(file, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(out.is_object());
  ASSERT_EQ(out["results"].size(), 2u);
  EXPECT_EQ(out["results"][0]["ratio"]["median"], 2.5);
  EXPECT_EQ(out["results"][1]["peers"][0]["library"], "gloo");
  EXPECT_EQ(out["results"][1]["peers"][0]["way"], "Gloo: ring");
  EXPECT_EQ(out["config"]["kind"], "processes");
}

TEST_F(PerfPeersTest, RanksAreThreadsWithoutProcs) {
  stand_in("keel_peer", two_sizes(10, 20));
  stand_in("gloo_peer", two_sizes(25, 30));
  const Result result = perf({"-g", "2", "--peers", "gloo", "--rounds", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.error << result.out;
  for (const char* program : {"keel_peer", "gloo_peer"}) {
    const auto words = arguments_of(program);
    ASSERT_EQ(words.size(), 1u);
    EXPECT_TRUE(contains(words[0], "--mode threads")) << words[0];
    EXPECT_FALSE(contains(words[0], "--times")) << "nobody asked for a number of operations";
  }
}

TEST_F(PerfPeersTest, WhatIsNotHereIsLeftOutWithThePackage) {
  stand_in("keel_peer", two_sizes(10, 20));
  const Result result = perf({"--procs", "2", "--peers", "openmpi,mpich,gloo", "--rounds", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.error << result.out;
  for (const char* package : {"libopenmpi-dev", "libmpich-dev", "libgloo-dev"}) {
    EXPECT_TRUE(contains(result.out, package)) << package << " in " << result.out;
  }
  EXPECT_TRUE(
      has_line(result, "        4096      10.00        N/A        N/A        N/A       N/A"))
      << result.out;
}

TEST_F(PerfPeersTest, APeerThatFailsIsAGapAndKeelIsAFailure) {
  stand_in("keel_peer", two_sizes(10, 20));
  stand_in("gloo_peer", measured(4096, 25), 3, "no interface to listen at");
  const Result gap = perf({"--procs", "2", "--peers", "gloo", "--rounds", "1"});
  EXPECT_EQ(gap.exit_code, 0) << gap.error;
  EXPECT_TRUE(contains(gap.error, "Gloo, all_reduce, round 1: exit code 3")) << gap.error;
  EXPECT_TRUE(contains(gap.error, "no interface to listen at")) << gap.error;
  EXPECT_TRUE(has_line(gap, "        4096      10.00      25.00      2.50")) << gap.out;
  EXPECT_TRUE(has_line(gap, "        8192      20.00        N/A       N/A")) << gap.out;

  stand_in("gloo_peer", two_sizes(25, 30));
  stand_in("keel_peer", measured(4096, 10) + "\n" + measured(8192, 20, /*right=*/false));
  const Result wrong = perf({"--procs", "2", "--peers", "gloo", "--rounds", "1"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_TRUE(contains(wrong.error, "wrong result: Keel, all_reduce")) << wrong.error;
  EXPECT_TRUE(has_line(wrong, "        8192        N/A      30.00       N/A")) << wrong.out;

  stand_in("keel_peer", "", 1, "keel_init: no plugin");
  const Result failed = perf({"--procs", "2", "--peers", "gloo", "--rounds", "1"});
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_TRUE(contains(failed.error, "keel_init: no plugin")) << failed.error;
}

TEST_F(PerfPeersTest, MistakesAreNamed) {
  stand_in("keel_peer", two_sizes(10, 20));
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{"--procs", "2", "--peers", "gloo,nccl"}, "'nccl' is none of openmpi, mpich, gloo"},
      {{"--procs", "2", "--peers", ""}, "none of openmpi, mpich, gloo"},
      {{"--peers", "gloo"}, "at least two ranks"},
      {{"--procs", "2", "-g", "2", "--peers", "gloo"}, "--procs"},
      {{"--procs", "2", "--peers", "gloo", "-d", "half"}, "--datatype"},
      {{"--procs", "2", "--peers", "gloo", "-o", "max"}, "--op"},
      {{"--procs", "2", "--peers", "gloo", "--explain"}, "--explain"},
      {{"--procs", "2", "--peers", "gloo", "--svg", "ring.svg"}, "--svg"},
      {{"--procs", "2", "--peers", "gloo", "--devices", "cpu:0"}, "--devices"},
      {{"-g", "2", "--peers", "gloo", "--foreign"}, "--foreign"},
      {{"--procs", "2", "--peers", "gloo", "--rounds", "0"}, "--rounds"},
  };
  for (const auto& [arguments, named] : mistakes) {
    const Result result = perf(arguments);
    EXPECT_EQ(result.exit_code, 2) << named << ": " << result.error;
    EXPECT_TRUE(contains(result.error, named)) << named << " in: " << result.error;
  }
  EXPECT_EQ(arguments_of("keel_peer").size(), 0u) << "nothing was launched";
  const Result reduce = keel({"perf", "reduce", "--procs", "2", "--peers", "gloo"});
  EXPECT_EQ(reduce.exit_code, 2);
  EXPECT_TRUE(contains(reduce.error, "reduce is not compared; all_reduce, broadcast"))
      << reduce.error;
  fs::remove(folder_ + "/keel_peer");
  const Result nothing = perf({"--procs", "2", "--peers", "gloo"});
  EXPECT_EQ(nothing.exit_code, 1);
  EXPECT_TRUE(contains(nothing.error, folder_ + "/keel_peer is not there")) << nothing.error;
  const Result launched =
      keel({"run", "-n", "2", "--", std::string(getenv("KEEL_TEST_BIN")) + "/keel", "perf",
            "all_reduce", "--procs", "2", "--peers", "gloo"});
  EXPECT_EQ(launched.exit_code, 2);
  EXPECT_TRUE(contains(launched.error, "--peers starts its ranks itself")) << launched.error;
}

// Uses the real libraries, if present.
TEST(PerfPeers, RealOnes) {
  const char* folder = std::getenv("KEEL_TEST_BIN");
  if (folder == nullptr || !fs::exists(std::string(folder) + "/peers/keel_peer")) {
    GTEST_SKIP() << "the programs of bench/peers are not beside this keel";
  }
  const Result result =
      keel({"perf", "all_gather", "--procs", "2", "-b", "4K", "-e", "4K", "-n", "2", "-w", "1",
            "--rounds", "1", "--timeout", "100", "--peers", "openmpi,mpich,gloo"});
  ASSERT_EQ(result.exit_code, 0) << result.error << result.out;
  std::string last;
  for (const std::string& line : lines(result.out)) last = line;
  EXPECT_TRUE(last.starts_with("        4096 ")) << result.out;
  EXPECT_FALSE(last.starts_with("        4096        N/A")) << result.out << result.error;
  if (contains(last, "N/A")) GTEST_SKIP() << "without some peers: " << result.out << result.error;
}

}  // namespace

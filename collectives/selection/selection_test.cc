// SPDX-License-Identifier: Apache-2.0
// Algorithm tables: syntax, invalid input, and the algorithms chosen.
#include "collectives/selection/selection.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "collectives/operation.h"
#include "collectives/selection/table.h"
#include "collectives/selection/table_source.h"
#include "collectives/testing/test_segment.h"
#include "core/json_writer.h"
#include "core/log.h"

namespace {

using keel::Algorithm;
using keel::Request;
using keel::Rule;
using keel::Selection;
using keel::SelectionKey;
using keel::Status;

Request request_of(keel_collective collective, uint64_t count, keel_dtype dtype = KEEL_UINT8,
                   keel_reduction reduction = KEEL_SUM) {
  Request request;
  request.collective = collective;
  request.count = count;
  request.dtype = dtype;
  request.reduction = reduction;
  return request;
}

Selection make(const std::string& lines, const SelectionKey& selection_key) {
  std::vector<Rule> rules;
  const Status read = keel::read_table("keel-collectives 1\n" + lines, &rules);
  EXPECT_TRUE(read.ok()) << read.text();
  Selection selection;
  const Status made = Selection::make(rules, selection_key, &selection);
  EXPECT_TRUE(made.ok()) << made.text();
  const Status checked = selection.check(selection_key);
  EXPECT_TRUE(checked.ok()) << checked.text();
  return selection;
}

const char* chosen(const Selection& selection, uint32_t world, const Request& request) {
  return keel::algorithm_name(selection.choose(request, world));
}

// ---- what is built in -----------------------------------------------------------

TEST(BuiltIn, EagerThenOneShotThenDirect) {
  const Selection selection = make("", {4, false, false});
  const auto at = [&](uint64_t bytes) {
    return std::string(chosen(selection, 4, request_of(KEEL_ALL_REDUCE, bytes)));
  };
  EXPECT_EQ(at(0), "eager");
  EXPECT_EQ(at(4096), "eager");
  EXPECT_EQ(at(4097), "one_shot");
  EXPECT_EQ(at(100 << 10), "one_shot");
  EXPECT_EQ(at(110 << 10), "direct") << "more than half of a cache of 1 MiB holds five times";
  EXPECT_EQ(at(1ull << 40), "direct");
  const Request request = request_of(KEEL_ALL_REDUCE, 200 << 10);
  EXPECT_STREQ(chosen(make("", {4, false, false, {2 << 20, 32 << 20}}), 4, request), "one_shot");
}

TEST(BuiltIn, DividedSumsStayInTheCacheOrGoPastIt) {
  using keel::ReduceScatterChunks;
  constexpr uint64_t kMiB = 1 << 20;
  const keel::HostCaches large = {2 * kMiB, 480 * kMiB};
  EXPECT_EQ(make("", {2, false, false, large}).reduce_scatter_chunks(),
            (ReduceScatterChunks{40 * kMiB, 40 * kMiB}));
  EXPECT_EQ(make("", {7, false, true, large}).reduce_scatter_chunks(),
            (ReduceScatterChunks{15 * kMiB, 480 * kMiB / 3 / 14}));
  EXPECT_EQ(make("", {8, false, true, large}).reduce_scatter_chunks().round_bytes, 13 * kMiB);
  const keel::HostCaches small = {kMiB / 2, 4 * kMiB};
  EXPECT_EQ(make("", {2, false, false, small}).reduce_scatter_chunks(),
            (ReduceScatterChunks{2 * kMiB, 8 * kMiB}));
  EXPECT_EQ(make("", {8, false, true, small}).reduce_scatter_chunks(),
            (ReduceScatterChunks{8 * kMiB, 8 * kMiB}));
}

// A rank sends world times the count.
TEST(BuiltIn, CountsWhatARankSends) {
  const Selection selection = make("", {4, false, false});
  EXPECT_STREQ(chosen(selection, 4, request_of(KEEL_ALL_TO_ALL, 1024)), "eager");
  EXPECT_STREQ(chosen(selection, 4, request_of(KEEL_ALL_TO_ALL, 1025)), "direct");
  EXPECT_STREQ(chosen(selection, 4, request_of(KEEL_ALL_GATHER, 4096)), "eager");
  EXPECT_STREQ(chosen(selection, 4, request_of(KEEL_ALL_GATHER, 1024, KEEL_FLOAT32)), "eager");
  EXPECT_STREQ(chosen(selection, 4, request_of(KEEL_ALL_GATHER, 1025, KEEL_FLOAT32)), "direct");
}

TEST(BuiltIn, DependsOnReachAndCores) {
  EXPECT_EQ(make("", {4, true, true}).eager_bytes(KEEL_BROADCAST), 4096u);
  EXPECT_EQ(make("", {4, false, false}).eager_bytes(KEEL_BROADCAST), 4096u);
  const Selection oversubscribed = make("", {4, false, true});
  EXPECT_EQ(oversubscribed.eager_bytes(KEEL_REDUCE), 65536u);
  EXPECT_EQ(make("", {64, false, true}).eager_bytes(KEEL_REDUCE), 8192u);
  EXPECT_EQ(oversubscribed.eager_bytes(KEEL_SCATTER), 32768u);
  EXPECT_EQ(oversubscribed.eager_bytes(KEEL_BROADCAST), 16384u);
  EXPECT_EQ(oversubscribed.eager_bytes(KEEL_ALL_GATHER), 4096u);
  EXPECT_EQ(oversubscribed.eager_bytes(KEEL_GATHER), 16384u);
  EXPECT_EQ(oversubscribed.eager_bytes(KEEL_ALL_REDUCE), 16384u);
  EXPECT_EQ(make("", {64, false, true}).eager_bytes(KEEL_ALL_REDUCE), 2048u);
}

TEST(BuiltIn, BarriersAreEagerAndArraysDirect) {
  const Selection selection = make("", {3, true, false});
  EXPECT_STREQ(chosen(selection, 3, request_of(KEEL_BARRIER, 0)), "eager");
  EXPECT_STREQ(chosen(selection, 3, request_of(KEEL_ALL_GATHER_V, 0)), "direct");
  EXPECT_STREQ(chosen(selection, 3, request_of(KEEL_ALL_TO_ALL_V, 0)), "direct");
}

// ---- tables ---------------------------------------------------------------------

TEST(Table, ItsRangesAreHeld) {
  const Selection selection =
      make("all_reduce 1K-64K 2-4 alias dedicated ring # why not\n\n", {3, false, false});
  const auto at = [&](uint64_t bytes) {
    return std::string(chosen(selection, 3, request_of(KEEL_ALL_REDUCE, bytes)));
  };
  EXPECT_EQ(at(1023), "eager");
  EXPECT_EQ(at(1024), "ring");
  EXPECT_EQ(at(65536), "ring");
  EXPECT_EQ(at(65537), "one_shot");
  EXPECT_EQ(at(1 << 20), "direct");
}

TEST(Table, OnlyWhereItFits) {
  const std::string line = "all_reduce * 2-4 alias dedicated ring\n";
  const Request request = request_of(KEEL_ALL_REDUCE, 1 << 20);
  EXPECT_STREQ(chosen(make(line, {4, false, false}), 4, request), "ring");
  EXPECT_STREQ(chosen(make(line, {5, false, false}), 5, request), "direct");
  EXPECT_STREQ(chosen(make(line, {4, true, false}), 4, request), "direct");
  EXPECT_STREQ(chosen(make(line, {4, false, true}), 4, request), "direct");
  EXPECT_STREQ(chosen(make("all_reduce * * * * ring\n", {1, false, false}), 1, request), "direct")
      << "a single rank has no ring";
}

TEST(Table, TheHighestScoreWinsThenTheLast) {
  const Request request = request_of(KEEL_ALL_REDUCE, 1 << 20);
  EXPECT_STREQ(
      chosen(make("all_reduce * * * * ring 7\nall_reduce * * * * halving 6\n", {4, false, false}),
             4, request),
      "ring");
  EXPECT_STREQ(
      chosen(make("all_reduce * * * * ring\nall_reduce * * * * halving\n", {4, false, false}), 4,
             request),
      "halving");
}

// Sums that are accumulated in float32 and rounded once are not reduced in parts.
TEST(Table, LowPrecisionSumsKeepTheirNumerics) {
  const Selection selection = make("all_reduce * * * * ring\n", {4, false, false});
  const auto of = [&](keel_dtype dtype, keel_reduction reduction) {
    return std::string(
        chosen(selection, 4, request_of(KEEL_ALL_REDUCE, 1 << 20, dtype, reduction)));
  };
  EXPECT_EQ(of(KEEL_FLOAT32, KEEL_SUM), "ring");
  EXPECT_EQ(of(KEEL_INT8, KEEL_AVG), "ring");
  EXPECT_EQ(of(KEEL_BFLOAT16, KEEL_SUM), "direct");
  EXPECT_EQ(of(KEEL_FLOAT8_E5M2, KEEL_PREMUL_SUM), "direct");
  EXPECT_EQ(of(KEEL_FLOAT16, KEEL_MAX), "ring") << "nothing is rounded";
}

// Larger data does not fit into the operation descriptors.
TEST(Table, EagerEndsWhereItMust) {
  const std::string line = "all_gather * * * * eager\n";
  EXPECT_EQ(make(line, {4, false, false}).eager_bytes(KEEL_ALL_GATHER), 65536u);
  EXPECT_EQ(make(line, {4, true, false}).eager_bytes(KEEL_ALL_GATHER), 4096u);
}

std::string foreign_text(const Selection& selection) {
  std::string text;
  keel::JsonWriter json(&text, keel::JsonLayout::kOneLine);
  selection.write_foreign(json);
  return text;
}

std::string algorithms_text(const Selection& selection) {
  std::string text;
  keel::JsonWriter json(&text);
  selection.write(json, /*narrow=*/false);
  return text;
}

std::string foreign_way(const Selection& selection, keel_collective collective, uint64_t count) {
  return keel::foreign_way_name(selection.choose_foreign(request_of(collective, count), 4));
}

TEST(Foreign, IsAttachedWhereItIsCopiedUnlessATableSaysOtherwise) {
  const Selection selection = make("", {4, false, false});
  for (const keel_collective each : {KEEL_BROADCAST, KEEL_ALL_GATHER, KEEL_ALL_TO_ALL, KEEL_GATHER,
                                     KEEL_SCATTER, KEEL_ALL_GATHER_V, KEEL_ALL_TO_ALL_V}) {
    EXPECT_EQ(foreign_way(selection, each, 0), "attach");
  }
  for (const keel_collective each : {KEEL_ALL_REDUCE, KEEL_REDUCE, KEEL_REDUCE_SCATTER}) {
    EXPECT_EQ(foreign_way(selection, each, 1 << 20), "staging");
  }
  EXPECT_NE(foreign_text(selection).find("\"all_reduce\": [{\"way\": \"staging\"}], "
                                         "\"broadcast\": [{\"to\": 8388607, \"way\": \"attach\"}, "
                                         "{\"way\": \"staging\"}], "
                                         "\"all_gather\": [{\"way\": \"attach\"}]"),
            std::string::npos)
      << foreign_text(selection);
  const Selection of_two = make("", {2, false, false});
  EXPECT_EQ(foreign_way(of_two, KEEL_ALL_REDUCE, 256 << 10), "attach");
  EXPECT_EQ(foreign_way(of_two, KEEL_ALL_REDUCE, (256 << 10) + 1), "staging");
}

// Short pieces read from many ranks on shared cores, and data that all ranks read and no cache
// holds.
TEST(Foreign, IsStagedWhereTheKernelWouldTakeLonger) {
  const Selection oversubscribed = make("", {4, false, true});
  EXPECT_EQ(foreign_way(oversubscribed, KEEL_ALL_GATHER, 16 << 10), "staging");
  EXPECT_EQ(foreign_way(oversubscribed, KEEL_ALL_GATHER, (16 << 10) + 1), "attach");
  EXPECT_EQ(foreign_way(oversubscribed, KEEL_ALL_GATHER, 2 << 20), "staging");
  EXPECT_EQ(foreign_way(oversubscribed, KEEL_ALL_TO_ALL, 8 << 10), "staging");
  EXPECT_EQ(foreign_way(oversubscribed, KEEL_ALL_TO_ALL, (8 << 10) + 1), "attach");
  EXPECT_EQ(foreign_way(oversubscribed, KEEL_ALL_TO_ALL, 64 << 20), "attach");
  EXPECT_EQ(foreign_way(oversubscribed, KEEL_SCATTER, 0), "attach");
  for (const bool is_oversubscribed : {false, true}) {
    const Selection selection = make("", {4, false, is_oversubscribed});
    EXPECT_EQ(foreign_way(selection, KEEL_BROADCAST, (8 << 20) - 1), "attach");
    EXPECT_EQ(foreign_way(selection, KEEL_BROADCAST, 8 << 20), "staging");
  }
}

TEST(Foreign, RangesRanksCoresAndScoresAreHeld) {
  const std::string lines =
      "all_gather 0-1M * foreign * staging\n"
      "all_gather 64K-128K 4 foreign dedicated attach 101\n"
      "broadcast * 5- foreign * staging\n"
      "gather * * foreign oversubscribed staging\n";
  const Selection selection = make(lines, {4, false, false});
  EXPECT_EQ(foreign_way(selection, KEEL_ALL_GATHER, (64 << 10) - 1), "staging");
  EXPECT_EQ(foreign_way(selection, KEEL_ALL_GATHER, 64 << 10), "attach");
  EXPECT_EQ(foreign_way(selection, KEEL_ALL_GATHER, 128 << 10), "attach");
  EXPECT_EQ(foreign_way(selection, KEEL_ALL_GATHER, 1 << 20), "staging");
  EXPECT_EQ(foreign_way(selection, KEEL_ALL_GATHER, (1 << 20) + 1), "attach");
  EXPECT_EQ(foreign_way(selection, KEEL_BROADCAST, 1 << 20), "attach");
  EXPECT_EQ(foreign_way(selection, KEEL_GATHER, 1 << 20), "attach");
  EXPECT_EQ(foreign_way(make(lines, {4, false, true}), KEEL_GATHER, 1 << 20), "staging");
  EXPECT_NE(foreign_text(selection).find(
                "\"all_gather\": [{\"to\": 65535, \"way\": \"staging\"}, {\"to\": 131072, \"way\": "
                "\"attach\"}, {\"to\": 1048576, \"way\": \"staging\"}, {\"way\": \"attach\"}]"),
            std::string::npos)
      << foreign_text(selection);
}

// Rules for algorithms and for foreign buffers are independent; tables that differ in either
// differ.
TEST(Foreign, RulesAreNoneOfAlgorithms) {
  const Selection built_in = make("", {4, false, false});
  const Selection foreign = make("all_gather * * foreign * staging 1000\n", {4, false, false});
  EXPECT_EQ(algorithms_text(foreign), algorithms_text(built_in));
  EXPECT_FALSE(foreign == built_in);
  const Selection ring = make("all_gather * * * * ring\n", {4, false, false});
  EXPECT_EQ(foreign_text(ring), foreign_text(built_in));
}

TEST(Table, MoreRangesThanThereIsRoomForAreRefused) {
  std::string lines;
  for (int i = 0; i < 20; ++i) {
    lines += "all_gather " + std::to_string(100000 + 2 * i) + " * * * ring\n";
  }
  std::vector<Rule> rules;
  ASSERT_TRUE(keel::read_table("keel-collectives 1\n" + lines, &rules).ok());
  Selection selection;
  const Status status = Selection::make(rules, {4, false, false}, &selection);
  EXPECT_EQ(status.code(), KEEL_INVALID_ARGUMENT);
  EXPECT_STREQ(status.text(), "more than 16 ranges of bytes for all_gather among 4 ranks");
}

TEST(Table, WhatIsWrongIsNamedWithItsLine) {
  const struct {
    const char* text;
    const char* error;
  } kCases[] = {
      {"", "line 1 is '': a table begins with 'keel-collectives 1'"},
      {"keel-collectives 2\n",
       "line 1 is 'keel-collectives 2': a table begins with "
       "'keel-collectives 1'"},
      {"keel-collectives 1\n# none\nall_reduce *\n",
       "line 3: 2 words, where a rule has six or seven: COLLECTIVE BYTES RANKS REACH CORES "
       "ALGORITHM [SCORE]"},
      {"keel-collectives 1\nall_reduces * * * * ring\n",
       "line 2: COLLECTIVE is 'all_reduces': all_reduce, reduce, broadcast, all_gather, "
       "reduce_scatter, all_to_all, gather, scatter or, where REACH is hosts, all_to_all_v"},
      {"keel-collectives 1\nbarrier * * * * eager\n",
       "line 2: COLLECTIVE is 'barrier': all_reduce, reduce, broadcast, all_gather, "
       "reduce_scatter, all_to_all, gather, scatter or, where REACH is hosts, all_to_all_v"},
      {"keel-collectives 1\nall_to_all_v * * * * direct\n",
       "line 2: COLLECTIVE is 'all_to_all_v': all_reduce, reduce, broadcast, all_gather, "
       "reduce_scatter, all_to_all, gather, scatter or, where REACH is hosts, all_to_all_v"},
      {"keel-collectives 1\nall_to_all_v * * hosts * bruck\n",
       "line 2: ALGORITHM bruck does not do all_to_all_v"},
      {"keel-collectives 1\nall_reduce 9-8 * * * ring\n",
       "line 2: BYTES is '9-8': a number, FIRST-LAST, FIRST- or *, such as 4K-1M"},
      {"keel-collectives 1\nall_reduce 99999999999G * * * ring\n",
       "line 2: BYTES is '99999999999G': a number, FIRST-LAST, FIRST- or *, such as 4K-1M"},
      {"keel-collectives 1\nall_reduce -4 * * * ring\n",
       "line 2: BYTES is '-4': a number, FIRST-LAST, FIRST- or *, such as 4K-1M"},
      {"keel-collectives 1\nall_reduce * 0 * * ring\n",
       "line 2: RANKS is '0': a number from 1 on, FIRST-LAST, FIRST- or *, such as 2-8"},
      {"keel-collectives 1\nall_reduce * 2K * * ring\n",
       "line 2: RANKS is '2K': a number from 1 on, FIRST-LAST, FIRST- or *, such as 2-8"},
      {"keel-collectives 1\nall_reduce * * near * ring\n",
       "line 2: REACH is 'near': alias, staged, foreign, hosts, hosts:FIRST-LAST or *"},
      {"keel-collectives 1\nall_to_all * * hosts:1 * direct\n",
       "line 2: REACH is 'hosts:1': alias, staged, foreign, hosts, hosts:FIRST-LAST or *"},
      {"keel-collectives 1\nall_to_all * * hosts dedicated direct\n",
       "line 2: CORES is 'dedicated': *, where REACH is hosts"},
      {"keel-collectives 1\nall_gather * * hosts * aggregated\n",
       "line 2: ALGORITHM aggregated does not do all_gather"},
      {"keel-collectives 1\nall_to_all * * * * aggregated\n",
       "line 2: ALGORITHM aggregated does not do all_to_all"},
      {"keel-collectives 1\nall_gather * * foreign * ring\n",
       "line 2: ALGORITHM is 'ring': attach or staging, where REACH is foreign"},
      {"keel-collectives 1\n\nreduce * * foreign * attach\n",
       "line 3: ALGORITHM attach does not do reduce"},
      {"keel-collectives 1\nall_gather * * * * attach\n",
       "line 2: ALGORITHM is 'attach': direct, eager, one_shot, ring, doubling, halving, binomial, "
       "knomial, bruck, pairwise, aggregated"},
      {"keel-collectives 1\nall_reduce * * * 8 ring\n",
       "line 2: CORES is '8': dedicated, oversubscribed or *"},
      {"keel-collectives 1\nall_reduce * * * * rings\n",
       "line 2: ALGORITHM is 'rings': direct, eager, one_shot, ring, doubling, halving, binomial, "
       "knomial, bruck, pairwise, aggregated"},
      {"keel-collectives 1\nall_reduce * * * * bruck\n",
       "line 2: ALGORITHM bruck does not do all_reduce"},
      {"keel-collectives 1\nall_reduce * * * * ring 0\n", "line 2: SCORE is '0': 1 to 1000"},
      {"keel-collectives 1\nall_reduce * * * * ring 1001\n", "line 2: SCORE is '1001': 1 to 1000"},
      {"keel-collectives 1\nall_reduce * * * * \x01\n",
       "line 2: ALGORITHM is '?': direct, eager, one_shot, ring, doubling, halving, binomial, "
       "knomial, bruck, pairwise, aggregated"},
  };
  for (const auto& each : kCases) {
    std::vector<Rule> rules;
    const Status status = keel::read_table(each.text, &rules);
    EXPECT_EQ(status.code(), KEEL_INVALID_ARGUMENT) << each.text;
    EXPECT_STREQ(status.text(), each.error);
  }
}

// ---- where it is from -----------------------------------------------------------

class Environment : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "keel-table-" + std::to_string(getpid());
    ASSERT_EQ(mkdir(folder_.c_str(), 0700), 0);
    unset();
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  void TearDown() override {
    std::remove(keel::measured_table_path().c_str());
    std::remove(file().c_str());
    std::remove((folder_ + "/keel").c_str());
    std::remove(folder_.c_str());
    unset();
  }
  static void unset() {
    unsetenv("KEEL_COLLECTIVE_TABLE");
    unsetenv("KEEL_ALGORITHM");
    unsetenv("KEEL_LANE_SHARES");
    unsetenv("XDG_CACHE_HOME");
  }
  std::string file() const { return folder_ + "/table"; }
  static void write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  void write_measured(const std::string& text) {
    mkdir((folder_ + "/keel").c_str(), 0700);
    write(keel::measured_table_path(), text);
  }

  std::string folder_;
};

TEST_F(Environment, NothingIsBuiltIn) {
  keel::TableSource source;
  ASSERT_TRUE(keel::load_table(&source).ok());
  EXPECT_TRUE(source.rules.empty());
  EXPECT_EQ(source.name, "built-in");
}

TEST_F(Environment, TheMeasuredTableIsUsedUnlessAnotherIsNamed) {
  write_measured("keel-collectives 1\nall_reduce * * * * ring\n");
  keel::TableSource source;
  ASSERT_TRUE(keel::load_table(&source).ok());
  EXPECT_EQ(source.rules.size(), 1u);
  EXPECT_EQ(source.name, keel::measured_table_path());
  EXPECT_TRUE(source.name.starts_with(folder_ + "/keel/collectives-")) << source.name;
  setenv("KEEL_COLLECTIVE_TABLE", "builtin", 1);
  ASSERT_TRUE(keel::load_table(&source).ok());
  EXPECT_TRUE(source.rules.empty());
  write(file(), "keel-collectives 1\n");
  setenv("KEEL_COLLECTIVE_TABLE", file().c_str(), 1);
  ASSERT_TRUE(keel::load_table(&source).ok());
  EXPECT_TRUE(source.rules.empty());
  EXPECT_EQ(source.name, file());
}

// The measured table is only a cache.
TEST_F(Environment, AMeasuredTableThatIsNoneIsNotUsed) {
  write_measured("keel-collectives 1\nall_reduce * * * * ring\nwhat\n");
  keel::TableSource source;
  ASSERT_TRUE(keel::load_table(&source).ok());
  EXPECT_TRUE(source.rules.empty());
  EXPECT_EQ(source.name, "built-in");
}

TEST_F(Environment, AMeasuredTableThatIsNoneIsToldOnce) {
  std::vector<std::string> told;
  keel::set_log(
      KEEL_LOG_WARNING,
      [](void* user, keel_log_level, const char* text) {
        static_cast<std::vector<std::string>*>(user)->emplace_back(text);
      },
      &told);
  keel::TableSource source;
  for (const char* text : {"keel-collectives 1\nwrong\n", "no table\n"}) {
    write_measured(text);
    for (int communicators = 0; communicators < 3; ++communicators) {
      EXPECT_TRUE(keel::load_table(&source).ok());
    }
  }
  keel::set_log(KEEL_LOG_WARNING, nullptr, nullptr);
  ASSERT_EQ(told.size(), 2u) << "one for each fault, not for each communicator";
  for (const std::string& text : told) {
    EXPECT_NE(text.find(keel::measured_table_path()), std::string::npos) << text;
  }
  EXPECT_NE(told[0].find("line 2"), std::string::npos) << told[0];
  EXPECT_NE(told[1].find("line 1"), std::string::npos) << told[1];
}

TEST_F(Environment, ANamedTableThatIsNoneIsAnError) {
  keel::TableSource source;
  setenv("KEEL_COLLECTIVE_TABLE", file().c_str(), 1);
  Status status = keel::load_table(&source);
  EXPECT_EQ(status.code(), KEEL_NOT_FOUND);
  EXPECT_EQ(status.text(), "KEEL_COLLECTIVE_TABLE: " + file() + ": No such file or directory");
  write(file(), "keel-collectives 1\nall_reduce * * * * ring\nwhat\n");
  status = keel::load_table(&source);
  EXPECT_EQ(status.code(), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(std::string(status.text())
                  .starts_with("KEEL_COLLECTIVE_TABLE: " + file() + ": line 3: 1 words"))
      << status.text();
  setenv("KEEL_COLLECTIVE_TABLE", folder_.c_str(), 1);
  EXPECT_EQ(keel::load_table(&source).text(), "KEEL_COLLECTIVE_TABLE: " + folder_ + ": is no file");
}

TEST_F(Environment, OneAlgorithmIsForcedWhereItApplies) {
  setenv("KEEL_ALGORITHM", "ring", 1);
  keel::TableSource source;
  ASSERT_TRUE(keel::load_table(&source).ok());
  EXPECT_EQ(source.name, "built-in, KEEL_ALGORITHM=ring");
  EXPECT_EQ(source.forced, Algorithm::kRing);
  const SelectionKey selection_key = {4, false, false};
  Selection selection;
  ASSERT_TRUE(Selection::make(source.rules, selection_key, &selection).ok());
  ASSERT_TRUE(selection.check(selection_key).ok());
  EXPECT_STREQ(chosen(selection, 4, request_of(KEEL_ALL_REDUCE, 1)), "ring");
  EXPECT_STREQ(chosen(selection, 4, request_of(KEEL_ALL_REDUCE, 1 << 20)), "ring");
  EXPECT_STREQ(chosen(selection, 4, request_of(KEEL_ALL_REDUCE, 1, KEEL_FLOAT16)), "eager");
  EXPECT_STREQ(chosen(selection, 4, request_of(KEEL_BROADCAST, 1)), "eager");
  EXPECT_STREQ(chosen(selection, 4, request_of(KEEL_BROADCAST, 1 << 20)), "direct");
  EXPECT_STREQ(chosen(selection, 4, request_of(KEEL_BARRIER, 0)), "eager");
}

TEST_F(Environment, AnAlgorithmThatIsNoneIsAnError) {
  setenv("KEEL_ALGORITHM", "tree", 1);
  keel::TableSource source;
  const Status status = keel::load_table(&source);
  EXPECT_EQ(status.code(), KEEL_INVALID_ARGUMENT);
  EXPECT_STREQ(status.text(),
               "KEEL_ALGORITHM is 'tree': one of direct, eager, one_shot, ring, doubling, halving, "
               "binomial, knomial, bruck, pairwise, aggregated");
}

TEST_F(Environment, LaneSharesAreWeights) {
  keel::TableSource source;
  setenv("KEEL_LANE_SHARES", "2,1", 1);
  ASSERT_TRUE(keel::load_table(&source).ok());
  EXPECT_EQ(source.lane_shares, (keel::LaneShares{2, 1}));
  setenv("KEEL_LANE_SHARES", "2,0", 1);
  const Status status = keel::load_table(&source);
  unsetenv("KEEL_LANE_SHARES");
  EXPECT_EQ(status.code(), KEEL_INVALID_ARGUMENT);
  EXPECT_STREQ(
      status.text(),
      "KEEL_LANE_SHARES is '2,0': a weight from 1 to 1000 for each local rank, such as 2,1");
}

// ---- agreement ------------------------------------------------------------------

// Rank 0's table passes through memory that other processes write too.
TEST(Agreement, WhatIsNoTableIsFound) {
  const auto segment = keel::testing::make_segment(2);
  ASSERT_NE(segment, nullptr);
  const SelectionKey selection_key = {2, false, false};
  EXPECT_EQ(segment->selection().check(selection_key).code(), KEEL_RANK_FAILED)
      << "nobody wrote it";
  const Selection selection = make("all_reduce * * * * ring\n", selection_key);
  segment->set_selection(selection);
  EXPECT_TRUE(segment->selection() == selection);
  EXPECT_TRUE(segment->selection().check(selection_key).ok());
  // Eager messages larger than a descriptor's data area, and rings of one rank.
  segment->set_selection(make("all_gather * * * * eager\n", selection_key));
  EXPECT_EQ(segment->selection().check({2, true, false}).code(), KEEL_RANK_FAILED);
  segment->set_selection(selection);
  EXPECT_EQ(segment->selection().check({1, false, false}).code(), KEEL_RANK_FAILED);
}

// Equal tables exclude this unless the memory between the ranks was corrupted.
TEST(Agreement, RanksThatGoDifferentWaysAreNamed) {
  Request request = request_of(KEEL_ALL_REDUCE, 100);
  std::vector<keel::Fingerprint> prints(3, request.fingerprint());
  request.algorithm = Algorithm::kRing;
  prints[1] = request.fingerprint();
  EXPECT_STREQ(keel::check_fingerprints(prints).text(),
               "mismatch: rank 1 called all_reduce(100 uint8, sum) by ring, all others "
               "all_reduce(100 uint8, sum) by direct");
  prints[1].count = 7;
  EXPECT_STREQ(keel::check_fingerprints(prints).text(),
               "mismatch: rank 1 called all_reduce(7 uint8, sum), all others "
               "all_reduce(100 uint8, sum)");
}

}  // namespace

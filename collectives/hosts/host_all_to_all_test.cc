// SPDX-License-Identifier: Apache-2.0
// all_to_all among ranks of several hosts, which KEEL_HOST_ID tells apart, against the serial
// reference.
#include <gtest/gtest.h>
#include <keel/keel.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "collectives/testing/reference.h"
#include "collectives/testing/test_rank.h"
#include "collectives/testing/wire_job.h"

namespace keel::testing {
namespace {

// ---- what the ranks run ---------------------------------------------------------

// The number behind |object|: {"sent": in |explained|.
long sent_of(const std::string& explained, const std::string& object) {
  const std::string key = "\"" + object + "\": {\"sent\": ";
  const size_t found = explained.find(key);
  return found == std::string::npos ? -1 : std::stol(explained.substr(found + key.size()));
}

long messages_sent(const std::string& explained) {
  return sent_of(explained, "wire_messages");
}

Case make_case(const WireRank& self, Operation operation, uint64_t count, bool in_place) {
  Case scenario;
  scenario.operation = operation;
  scenario.dtype = count % 2 == 0 ? KEEL_FLOAT32 : KEEL_UINT8;
  scenario.world = self.world;
  scenario.count = count;
  scenario.in_place = in_place;
  scenario.staged = self.staged;
  scenario.seed = static_cast<uint32_t>(count);
  return scenario;
}

std::string run(const WireRank& self, keel_comm comm, const Case& scenario) {
  const Reference reference(scenario, self.rank);
  return run_case(reference, self.rank, self.device, comm, self.stream);
}

// Below a chunk of 4 KiB and above, where a block moves in several rounds.
std::string run_sizes(const WireRank& self, keel_comm comm) {
  for (const Operation operation : {Operation::kAllToAll, Operation::kAllToAllV}) {
    for (const uint64_t count : {0, 1, 2, 33, 128, 1500, 4001}) {
      for (const bool in_place : {false, true}) {
        std::string problem = run(self, comm, make_case(self, operation, count, in_place));
        if (!problem.empty()) return problem;
      }
    }
  }
  return "";
}

std::string each_way(const WireRank& self) {
  for (const std::string algorithm : {"aggregated", "direct", "bruck"}) {
    setenv("KEEL_ALGORITHM", algorithm.c_str(), 1);
    const keel_comm_options options = make_options(self.staged);
    keel_comm part = {};
    if (keel_comm_duplicate(self.comm, &options, &part) != KEEL_OK) return keel_last_error();
    std::string problem = run_sizes(self, part);
    if (keel_comm_destroy(part) != KEEL_OK && problem.empty()) problem = keel_last_error();
    if (!problem.empty()) return algorithm + ": " + problem;
  }
  return "";
}

// The remote ranks whose blocks this rank sends, if each host has a rank for them in turn.
std::vector<uint32_t> carried(const WireRank& self) {
  const char own = self.hosts[self.rank];
  std::map<char, uint32_t> seen;
  uint32_t local = 0;
  uint32_t size = 0;
  for (uint32_t rank = 0; rank < self.world; ++rank) {
    if (self.hosts[rank] != own) continue;
    if (rank == self.rank) local = size;
    ++size;
  }
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < self.world; ++rank) {
    const uint32_t index = seen[self.hosts[rank]]++;
    if (self.hosts[rank] != own && index % size == local) ranks.push_back(rank);
  }
  return ranks;
}

// Rank 0's table: aggregated up to 1 KiB, direct above. Every operation is checked by the number of
// messages.
std::string by_table(const WireRank& self) {
  long remote = 0;
  for (const char host : self.hosts) remote += host != self.hosts[self.rank] ? 1 : 0;
  for (const uint64_t bytes_of_block : {16, 2048}) {
    const long before = messages_sent(explain(self.comm));
    std::string problem =
        run(self, self.comm, make_case(self, Operation::kAllToAll, bytes_of_block / 4, false));
    if (!problem.empty()) return problem;
    const std::string explained = explain(self.comm);
    const bool is_aggregated = bytes_of_block == 16;
    const std::string used =
        std::string("\"algorithm\": \"") + (is_aggregated ? "aggregated" : "direct") + "\"";
    if (explained.find(used) == std::string::npos) return explained;
    // A block above a chunk takes several messages.
    const long sent = messages_sent(explained) - before;
    const long least = is_aggregated ? static_cast<long>(carried(self).size()) : remote;
    if (sent < least || (is_aggregated && sent != least)) {
      return std::to_string(sent) + " messages, not " + std::to_string(least);
    }
  }
  return "";
}

// Elements from one rank to another, the same both ways, so that they may lie in place: none, few
// to make several blocks short, and more than a block of a rank's chunk.
uint64_t ragged_count(uint32_t from, uint32_t to, uint32_t turn) {
  constexpr uint64_t kCounts[] = {0, 3, 40, 700, 1, 150, 0, 2500};
  return kCounts[(from * to + from + to + turn) % std::size(kCounts)];
}

int32_t ragged_value(uint32_t from, uint32_t to, uint64_t index) {
  return static_cast<int32_t>(from * 1'000'000 + to * 10'000 + index);
}

// One all_to_all_v; short blocks lie next to long and empty ones.
std::string run_ragged(const WireRank& self, uint32_t turn, bool in_place) {
  std::vector<uint64_t> counts;
  std::vector<int32_t> sent;
  std::vector<int32_t> expected;
  for (uint32_t peer = 0; peer < self.world; ++peer) {
    counts.push_back(ragged_count(self.rank, peer, turn));
    for (uint64_t i = 0; i < counts.back(); ++i) {
      sent.push_back(ragged_value(self.rank, peer, i));
      expected.push_back(ragged_value(peer, self.rank, i));
    }
  }
  const uint64_t bytes = sent.size() * sizeof(int32_t);
  std::vector<int32_t> received(sent.size());
  void* data = nullptr;
  if (keel_alloc(self.device, KEEL_MEMORY_DEVICE, 2 * bytes + 8, &data) != KEEL_OK ||
      keel_copy(self.stream, self.device, data, KEEL_HOST, sent.data(), bytes) != KEEL_OK) {
    return keel_last_error();
  }
  char* const receive = static_cast<char*>(data) + (in_place ? 0 : bytes);
  if (keel_all_to_all_v(self.comm, data, counts.data(), nullptr, receive, counts.data(), nullptr,
                        KEEL_INT32, self.stream) != KEEL_OK ||
      keel_copy(self.stream, KEEL_HOST, received.data(), self.device, receive, bytes) != KEEL_OK ||
      keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT) != KEEL_OK ||
      keel_free(self.device, data) != KEEL_OK) {
    return keel_last_error();
  }
  return received == expected ? "" : "turn " + std::to_string(turn) + ": wrong data";
}

// What rank |self| sends to other hosts: the short blocks that it carries, which are those of up to
// a block of a chunk, with all sizes of its host, and its own long blocks.
std::string ragged(const WireRank& self) {
  const uint64_t longest = make_options(false).chunk_bytes / self.world;
  for (uint32_t turn = 0; turn < 16; ++turn) {
    const std::string before = explain(self.comm);
    std::string problem = run_ragged(self, turn / 2, /*in_place=*/turn % 2 != 0);
    if (!problem.empty()) return problem;
    const std::string after = explain(self.comm);
    if (after.find("\"algorithm\": \"aggregated\"") == std::string::npos) return after;
    uint64_t bytes = 0;
    long messages = 0;
    bool has_long = false;
    const char own = self.hosts[self.rank];
    const auto bytes_of = [&](uint32_t from, uint32_t to) {
      return ragged_count(from, to, turn / 2) * sizeof(int32_t);
    };
    for (const uint32_t to : carried(self)) {
      uint64_t block = 0;
      for (uint32_t from = 0; from < self.world; ++from) {
        if (self.hosts[from] != own) continue;
        bytes += sizeof(uint64_t);
        if (bytes_of(from, to) <= longest) block += bytes_of(from, to);
      }
      bytes += block;
      messages += block == 0 ? 1 : 2;
    }
    for (uint32_t to = 0; to < self.world; ++to) {
      if (self.hosts[to] == own || bytes_of(self.rank, to) <= longest) continue;
      bytes += bytes_of(self.rank, to);
      has_long = true;
    }
    const auto sent =
        static_cast<uint64_t>(sent_of(after, "wire_bytes") - sent_of(before, "wire_bytes"));
    if (sent != bytes) return std::to_string(sent) + " bytes, not " + std::to_string(bytes);
    const long sent_messages = messages_sent(after) - messages_sent(before);
    // A long block takes several messages.
    if (has_long ? sent_messages <= messages : sent_messages != messages) {
      return std::to_string(sent_messages) + " messages, not " + std::to_string(messages);
    }
  }
  return "";
}

// Rank 0's table: short blocks of an all_to_all_v are those of up to 1 KiB for all ranks together.
std::string ragged_by_table(const WireRank& self) {
  for (const uint64_t count : {1024 / self.world / 4, 1024 / self.world / 4 + 1}) {
    const std::vector<uint64_t> counts(self.world, count);
    void* data = nullptr;
    if (keel_alloc(self.device, KEEL_MEMORY_DEVICE, 4096, &data) != KEEL_OK) {
      return keel_last_error();
    }
    const long before = messages_sent(explain(self.comm));
    if (keel_all_to_all_v(self.comm, data, counts.data(), nullptr, data, counts.data(), nullptr,
                          KEEL_INT32, self.stream) != KEEL_OK ||
        keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT) != KEEL_OK ||
        keel_free(self.device, data) != KEEL_OK) {
      return keel_last_error();
    }
    const bool is_short = count * 4 * self.world <= 1024;
    auto wanted = static_cast<long>(carried(self).size());
    if (is_short) {
      wanted *= 2;
    } else {
      for (const char host : self.hosts) wanted += host != self.hosts[self.rank] ? 1 : 0;
    }
    const long sent = messages_sent(explain(self.comm)) - before;
    if (sent != wanted) {
      return std::to_string(sent) + " messages, not " + std::to_string(wanted);
    }
  }
  return "";
}

// Of ranks "aabbb" all blocks have 4 elements, but one rank's arrays differ as |change| says.
template <typename Change>
std::string differ(const WireRank& self, keel_dtype dtype, const Change& change) {
  std::vector<uint64_t> send_counts(self.world, 4);
  std::vector<uint64_t> receive_counts(self.world, 4);
  change(send_counts, receive_counts);
  void* data = nullptr;
  if (keel_alloc(self.device, KEEL_MEMORY_DEVICE, 1 << 20, &data) != KEEL_OK) {
    return keel_last_error();
  }
  keel_status status = keel_all_to_all_v(self.comm, data, send_counts.data(), nullptr,
                                         static_cast<char*>(data) + (1 << 19),
                                         receive_counts.data(), nullptr, dtype, self.stream);
  if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
  // A rank whose own arrays agree with those of all others may have succeeded.
  if (status == KEEL_OK) status = keel_barrier(self.comm, self.stream);
  if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
  say(std::string(keel_status_name(status)) + " " + keel_last_error());
  return "";
}

std::string differ_inside(const WireRank& self) {
  return differ(self, KEEL_INT32, [&](auto&, auto& receive_counts) {
    if (self.rank == 2) receive_counts[3] = 7;
  });
}

// The carrier's message is as long as expected.
std::string differ_between(const WireRank& self) {
  return differ(self, KEEL_INT32, [&](auto& send_counts, auto&) {
    if (self.rank == 0) send_counts[3] = 3;
    if (self.rank == 1) send_counts[3] = 5;
  });
}

std::string differ_by_nothing(const WireRank& self) {
  return differ(self, KEEL_INT32, [&](auto& send_counts, auto&) {
    if (self.rank == 1) send_counts[2] = 0;
  });
}

// Carried at one end alone.
std::string differ_by_way(const WireRank& self) {
  return differ(self, KEEL_INT32, [&](auto& send_counts, auto&) {
    if (self.rank == 1) send_counts[2] = 20'000;
  });
}

std::string differ_by_dtype(const WireRank& self) {
  return differ(self, self.rank < 2 ? KEEL_INT32 : KEEL_INT64, [](auto&, auto&) {});
}

// The last rank of the first host calls with one element more than the others.
std::string mismatch(const WireRank& self) {
  const uint64_t count = self.rank == 1 ? 2 : 1;
  void* data = nullptr;
  if (keel_alloc(self.device, KEEL_MEMORY_DEVICE, 4096, &data) != KEEL_OK) return keel_last_error();
  keel_status status = keel_all_to_all(self.comm, data, data, count, KEEL_INT32, self.stream);
  if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
  say(std::string(keel_status_name(status)) + " " + keel_last_error());
  return "";
}

// ---- the jobs -------------------------------------------------------------------

TEST(HostAllToAllTest, TwoUnequalHostsMatchReference) {
  WireJob("aabbb", "each_way").expect_success();
}

TEST(HostAllToAllTest, HostWithOneRankMatchesReference) {
  WireJob("abbb", "each_way").expect_success();
}

TEST(HostAllToAllTest, ScatteredRanksOfThreeHostsMatchReference) {
  WireJob("abcaba", "each_way").expect_success();
}

TEST(HostAllToAllTest, FourHostsMatchReference) {
  WireJob("aabbcdd", "each_way").expect_success();
}

TEST(HostAllToAllTest, StagedMemoryMatchesReference) {
  WireJob("aabab", "each_way", "cpu", /*staged=*/true).expect_success();
}

TEST(HostAllToAllTest, MixedDevicesMatchReference) {
  WireJob("aabab", "each_way", "cpu,sim").expect_success();
}

void run_with_table(const std::string& program, const std::string& rules) {
  std::string folder = ::testing::TempDir() + "keel-table-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string table = folder + "/table";
  std::ofstream(table) << "keel-collectives 1\n" << rules;
  WireJob("aabbb", program, "cpu", /*staged=*/false, /*seconds=*/0,
          {{0, "KEEL_COLLECTIVE_TABLE", table}})
      .expect_success();
  std::filesystem::remove_all(folder);
}

TEST(HostAllToAllTest, TableOfRankZeroDecidesForAllRanks) {
  run_with_table("by_table",
                 "all_to_all * * hosts * direct 10\n"
                 "all_to_all 0-1K * hosts:2-3 * aggregated\n"
                 "all_to_all 0-1K * hosts:5- * direct 1000\n");
}

TEST(HostAllToAllTest, TableOfRankZeroDividesBlocksOfAllToAllV) {
  run_with_table("ragged_by_table",
                 "all_to_all_v * * hosts * direct 10\n"
                 "all_to_all_v 0-1K * hosts * aggregated\n");
}

TEST(HostAllToAllTest, BytesOfAllToAllVCrossOnce) {
  for (const std::string hosts : {"aabbb", "abbbb", "abcaba", "aabbaabb"}) {
    WireJob(hosts, "ragged").expect_success();
  }
}

TEST(HostAllToAllTest, BytesOfMixedDevicesCrossOnce) {
  WireJob("aabab", "ragged", "cpu", /*staged=*/true).expect_success();
  WireJob("aabab", "ragged", "cpu,sim").expect_success();
}

// All ranks of "aabbb" fail with |text|, before any deadline.
void expect_difference(const std::string& program, const std::string& text) {
  WireJob job("aabbb", program);
  for (size_t rank = 0; rank < 5; ++rank) {
    const std::string line = job[rank].read_line();
    EXPECT_NE(line.find("KEEL_INVALID_ARGUMENT"), std::string::npos) << line;
    EXPECT_NE(line.find(text), std::string::npos) << line;
  }
  job.expect_success();
}

TEST(HostAllToAllTest, RanksThatDifferInTheSizeOfABlockAreNamed) {
  expect_difference("differ_inside",
                    "mismatch: rank 3 sends 4 elements to rank 2, which receives 7");
  expect_difference("differ_between",
                    "mismatch: rank 0 sends 3 elements to rank 3, which receives 4");
  expect_difference("differ_by_nothing",
                    "mismatch: rank 1 sends 0 elements to rank 2, which receives 4");
  expect_difference("differ_by_way",
                    "mismatch: rank 1 sends 20000 elements to rank 2, which receives 4");
}

TEST(HostAllToAllTest, HostsThatDifferInDtypeAreNamed) {
  expect_difference("differ_by_dtype",
                    "mismatch: rank 0 called all_to_all_v(int32), rank 1 called "
                    "all_to_all_v(int32), rank 2 called all_to_all_v(int64), rank 3 called "
                    "all_to_all_v(int64), rank 4 called all_to_all_v(int64)");
}

TEST(HostAllToAllTest, OddRankOfOwnHostFailsAllRanks) {
  WireJob job("aab", "mismatch");
  for (size_t rank = 0; rank < 3; ++rank) {
    const std::string line = job[rank].read_line();
    EXPECT_NE(line.find("mismatch"), std::string::npos) << line;
    EXPECT_NE(line.find("all_to_all(2 int32)"), std::string::npos) << line;
  }
  job.expect_success();
}

}  // namespace

const std::map<std::string, WireProgram>& wire_programs() {
  static const std::map<std::string, WireProgram> programs = {
      {"each_way", each_way},
      {"by_table", by_table},
      {"mismatch", mismatch},
      {"ragged", ragged},
      {"ragged_by_table", ragged_by_table},
      {"differ_inside", differ_inside},
      {"differ_between", differ_between},
      {"differ_by_nothing", differ_by_nothing},
      {"differ_by_way", differ_by_way},
      {"differ_by_dtype", differ_by_dtype}};
  return programs;
}

}  // namespace keel::testing

// SPDX-License-Identifier: Apache-2.0
// all_to_all among ranks of several hosts, which KEEL_HOST_ID tells apart, against the serial
// reference.
#include <gtest/gtest.h>
#include <keel/keel.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <keel/keel.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "collectives/bootstrap/testing/child_process.h"
#include "collectives/testing/reference.h"
#include "collectives/testing/test_rank.h"

namespace {

using keel::testing::Case;
using keel::testing::ChildProcess;
using keel::testing::hear;
using keel::testing::Operation;
using keel::testing::Reference;
using keel::testing::say;

// ---- the workers ----------------------------------------------------------------

struct Rank {
  uint32_t rank = 0;
  uint32_t world = 0;
  std::string hosts;  // of the ranks, a letter each
  bool staged = false;
  keel_device device = {};
  keel_comm comm = {};
  keel_stream stream = {};
};

keel_comm_options make_options(bool staged) {
  auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
  options.forbid_alias = staged ? 1 : 0;
  options.chunk_bytes = 4096;
  return options;
}

std::string explain(keel_comm comm) {
  return keel::api_detail::read_text(
      [&](char* out, uint64_t* size) { return keel_comm_explain(comm, out, size); });
}

// The number behind "messages": {"sent": in |explained|.
long messages_sent(const std::string& explained) {
  const std::string key = "\"wire_messages\": {\"sent\": ";
  const size_t found = explained.find(key);
  return found == std::string::npos ? -1 : std::stol(explained.substr(found + key.size()));
}

Case make_case(const Rank& self, Operation operation, uint64_t count, bool in_place) {
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

std::string run(const Rank& self, keel_comm comm, const Case& scenario) {
  const Reference reference(scenario, self.rank);
  return keel::testing::run_case(reference, self.rank, self.device, comm, self.stream);
}

// Below a chunk of 4 KiB and above, where a block moves in several rounds.
std::string run_sizes(const Rank& self, keel_comm comm) {
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

std::string each_way(const Rank& self) {
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
long carried(const Rank& self) {
  const char own = self.hosts[self.rank];
  std::map<char, uint32_t> seen;
  uint32_t local = 0;
  uint32_t size = 0;
  for (uint32_t rank = 0; rank < self.world; ++rank) {
    if (self.hosts[rank] != own) continue;
    if (rank == self.rank) local = size;
    ++size;
  }
  long count = 0;
  for (const char host : self.hosts) {
    const uint32_t index = seen[host]++;
    if (host != own && index % size == local) ++count;
  }
  return count;
}

// Rank 0's table: aggregated up to 1 KiB, direct above. Every operation is checked by the number of
// messages.
std::string by_table(const Rank& self) {
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
    const long least = is_aggregated ? carried(self) : remote;
    if (sent < least || (is_aggregated && sent != least)) {
      return std::to_string(sent) + " messages, not " + std::to_string(least);
    }
  }
  return "";
}

// The last rank of the first host calls with one element more than the others.
std::string mismatch(const Rank& self) {
  const uint64_t count = self.rank == 1 ? 2 : 1;
  void* data = nullptr;
  if (keel_alloc(self.device, KEEL_MEMORY_DEVICE, 4096, &data) != KEEL_OK) return keel_last_error();
  keel_status status = keel_all_to_all(self.comm, data, data, count, KEEL_INT32, self.stream);
  if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
  say(std::string(keel_status_name(status)) + " " + keel_last_error());
  return "";
}

// Arguments: rank, hosts, "staged" or "alias", program, table of rank 0.
int run_worker(const std::vector<std::string>& arguments) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(200);
  Rank self;
  self.rank = static_cast<uint32_t>(std::stoul(arguments[0]));
  self.hosts = arguments[1];
  self.world = static_cast<uint32_t>(self.hosts.size());
  self.staged = arguments[2] == "staged";
  setenv("KEEL_HOST_ID", self.hosts.substr(self.rank, 1).c_str(), 1);
  setenv("KEEL_INTERFACE", "127.0.0.1", 1);
  const bool has_table = self.rank == 0 && !arguments[4].empty();
  setenv("KEEL_COLLECTIVE_TABLE", has_table ? arguments[4].c_str() : "builtin", 1);
  auto init = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  init.default_timeout_ns = 100'000'000'000;
  init.backends = "cpu";
  if (keel_init(&init) != KEEL_OK) return 2;
  const std::map<std::string, std::string (*)(const Rank&)> programs = {
      {"each_way", each_way}, {"by_table", by_table}, {"mismatch", mismatch}};
  keel_unique_id id = {};
  if (self.rank == 0) {
    if (keel_unique_id_create(&id) != KEEL_OK) {
      say(keel_last_error());
      return 3;
    }
    say(id.text);
  } else {
    hear().copy(id.text, sizeof(id.text) - 1);
  }
  self.device = keel::testing::all_devices()[0];
  const keel_comm_options options = make_options(self.staged);
  std::string problem;
  if (keel_stream_create(self.device, 0, &self.stream) != KEEL_OK ||
      keel_comm_init_rank(self.device, &id, self.rank, self.world, &options, &self.comm) !=
          KEEL_OK) {
    problem = keel_last_error();
  } else {
    problem = programs.at(arguments[3])(self);
    if (!problem.empty()) keel_comm_abort(self.comm);
    keel_comm_destroy(self.comm);
  }
  if (!problem.empty()) std::fprintf(stderr, "rank %u: %s\n", self.rank, problem.c_str());
  keel_shutdown();
  return problem.empty() ? 0 : 1;
}

// ---- the jobs -------------------------------------------------------------------

std::vector<ChildProcess> start(const std::string& hosts, const std::string& program,
                                bool staged = false, const std::string& table = "") {
  std::vector<ChildProcess> ranks;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    ranks.emplace_back(
        "rank", std::vector<std::string>{std::to_string(rank), hosts, staged ? "staged" : "alias",
                                         program, table});
  }
  const std::string id = ranks[0].read_line();
  for (size_t rank = 1; rank < hosts.size(); ++rank) ranks[rank].write_line(id);
  return ranks;
}

void expect_success(std::vector<ChildProcess>& ranks) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    EXPECT_EQ(ranks[rank].wait(), 0) << "rank " << rank;
  }
}

TEST(HostAllToAllTest, TwoUnequalHostsMatchReference) {
  auto ranks = start("aabbb", "each_way");
  expect_success(ranks);
}

TEST(HostAllToAllTest, HostWithOneRankMatchesReference) {
  auto ranks = start("abbb", "each_way");
  expect_success(ranks);
}

TEST(HostAllToAllTest, ScatteredRanksOfThreeHostsMatchReference) {
  auto ranks = start("abcaba", "each_way");
  expect_success(ranks);
}

TEST(HostAllToAllTest, FourHostsMatchReference) {
  auto ranks = start("aabbcdd", "each_way");
  expect_success(ranks);
}

TEST(HostAllToAllTest, StagedMemoryMatchesReference) {
  auto ranks = start("aabab", "each_way", /*staged=*/true);
  expect_success(ranks);
}

TEST(HostAllToAllTest, TableOfRankZeroDecidesForAllRanks) {
  std::string folder = ::testing::TempDir() + "keel-table-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string table = folder + "/table";
  std::ofstream(table) << "keel-collectives 1\n"
                          "all_to_all * * hosts * direct 10\n"
                          "all_to_all 0-1K * hosts:2-3 * aggregated\n"
                          "all_to_all 0-1K * hosts:5- * direct 1000\n";
  auto ranks = start("aabbb", "by_table", /*staged=*/false, table);
  expect_success(ranks);
  std::filesystem::remove_all(folder);
}

TEST(HostAllToAllTest, OddRankOfOwnHostFailsAllRanks) {
  auto ranks = start("aab", "mismatch");
  for (ChildProcess& rank : ranks) {
    const std::string line = rank.read_line();
    EXPECT_NE(line.find("mismatch"), std::string::npos) << line;
    EXPECT_NE(line.find("all_to_all(2 int32)"), std::string::npos) << line;
  }
  expect_success(ranks);
}

}  // namespace

const std::map<std::string, keel::testing::Worker>& keel::testing::workers() {
  static const std::map<std::string, Worker> workers = {{"rank", run_worker}};
  return workers;
}

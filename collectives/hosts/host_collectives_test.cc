// SPDX-License-Identifier: Apache-2.0
// Ranks of several hosts against the serial reference, and the bytes that they send.
#include <gtest/gtest.h>
#include <keel/keel.h>
#include <stdlib.h>

#include <algorithm>
#include <keel/keel.hpp>
#include <keel/plugin_kit.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "collectives/testing/interleaving.h"
#include "collectives/testing/product.h"
#include "collectives/testing/reference.h"
#include "collectives/testing/rounding.h"
#include "collectives/testing/test_rank.h"
#include "collectives/testing/wire_cases.h"
#include "collectives/testing/wire_job.h"

namespace keel::testing {
namespace {

// ---- what the ranks run ---------------------------------------------------------

// A communicator for each algorithm, which rank 0 chooses.
template <typename Run>
std::string by_algorithms(const WireRank& self, const Run& run) {
  for (const AlgorithmCase& each : algorithm_cases()) {
    setenv("KEEL_ALGORITHM", each.algorithm, 1);
    const keel_comm_options options = make_options(self.staged);
    keel_comm part = {};
    if (keel_comm_duplicate(self.comm, &options, &part) != KEEL_OK) return keel_last_error();
    std::string problem = run(each, part);
    if (keel_comm_destroy(part) != KEEL_OK && problem.empty()) problem = keel_last_error();
    if (!problem.empty()) return std::string(each.algorithm) + ": " + problem;
  }
  return "";
}

std::string algorithms(const WireRank& self) {
  uint64_t first = self.job;
  return by_algorithms(self, [&](const AlgorithmCase& each, keel_comm part) {
    const std::string used = std::string("\"algorithm\": \"") + each.algorithm + "\"";
    const std::string explained = explain(part);
    if (explained.find(used) == std::string::npos) return explained;
    // Sums that differ if partial sums are rounded to the element type.
    Case narrow;
    narrow.world = self.world;
    narrow.staged = self.staged;
    narrow.dtype = KEEL_FLOAT8_E4M3FN;
    narrow.reduction = KEEL_PREMUL_SUM;
    narrow.count = 4096;
    std::string problem =
        run_case(Reference(narrow, self.rank), self.rank, self.device, part, self.stream);
    if (!problem.empty()) return problem;
    const size_t most = kIsSlow ? 6 : 25;
    first += most;
    return run_cases(self, part, first, most);
  });
}

std::string product(const WireRank& self) {
  const AlgorithmCase& direct = algorithm_cases().back();
  setenv("KEEL_ALGORITHM", direct.algorithm, 1);
  const keel_comm_options options = make_options(self.staged);
  keel_comm part = {};
  if (keel_comm_duplicate(self.comm, &options, &part) != KEEL_OK) return keel_last_error();
  std::string problem = run_product(direct, self.device, part);
  if (keel_comm_destroy(part) != KEEL_OK && problem.empty()) problem = keel_last_error();
  return problem;
}

std::string rounding(const WireRank& self) {
  return by_algorithms(self, [&](const AlgorithmCase& each, keel_comm part) {
    const auto& operations = each.operations;
    // The sums of all others are those of "direct".
    const bool reduces =
        std::find(operations.begin(), operations.end(), Operation::kAllReduce) != operations.end();
    if (!reduces) return std::string();
    return compare_rounded(self.rank, self.device, part, self.stream);
  });
}

std::string interleaving(const WireRank& self) {
  return run_interleaving(self.device, self.comm, /*seed=*/self.world, kIsSlow ? 10 : 40);
}

// Of |object|, "wire_messages" or "wire_bytes": what went to other hosts so far.
uint64_t wire_sent(keel_comm comm, const std::string& object) {
  const std::string before = "\"" + object + "\": {\"sent\": ";
  const std::string explained = explain(comm);
  const size_t found = explained.find(before);
  return found == std::string::npos ? UINT64_MAX
                                    : std::stoul(explained.substr(found + before.size()));
}

uint64_t messages_sent(keel_comm comm) {
  return wire_sent(comm, "wire_messages");
}

// Odd and even ranks in reverse order, and a part that is on one host. Of two hosts with two ranks
// each, a rank sends one message for a split.
std::string split(const WireRank& self) {
  const bool by_lanes = explain(self.comm).find("\"lanes\": 2") != std::string::npos;
  for (const bool by_parity : {true, false}) {
    const uint64_t before = messages_sent(self.comm);
    const auto color = static_cast<int32_t>(by_parity ? self.rank % 2 : self.rank / 2);
    const keel_comm_options options = make_options(self.staged);
    keel_comm part = {};
    if (keel_comm_split(self.comm, color, -static_cast<int32_t>(self.rank), &options, &part) !=
        KEEL_OK) {
      return keel_last_error();
    }
    const uint64_t sent = messages_sent(self.comm) - before;
    if (by_lanes && sent != 1) return "a split sent " + std::to_string(sent) + " messages";
    WireRank inner = self;
    if (keel_comm_rank(part, &inner.rank, &inner.world) != KEEL_OK) return keel_last_error();
    if (inner.world != self.world / 2) return "the part has " + std::to_string(inner.world);
    std::string problem = run_cases(inner, part, self.job, 20);
    if (keel_comm_destroy(part) != KEEL_OK && problem.empty()) problem = keel_last_error();
    if (!problem.empty()) return problem;
  }
  keel_comm none = {};
  if (keel_comm_split(self.comm, KEEL_NO_COLOR, 0, nullptr, &none) != KEEL_OK) {
    return keel_last_error();
  }
  return "";
}

std::string places(const WireRank& self) {
  std::string problem = cases(self);
  if (!problem.empty()) return problem;
  const std::string explained = explain(self.comm);
  const char* const wire = getenv("KEEL_WIRE");
  const std::string named = std::string("\"wire\": \"") + (wire == nullptr ? "tcp" : wire) + "\"";
  for (const std::string& part : {std::string("\"path\": \"hosts\""), std::string("\"lanes\": 2"),
                                  named, std::string("{\"name\": \"a\", \"ranks\": [0, 2]}"),
                                  std::string("\"interface\": {\"name\": \"lo\", \"address\": "
                                              "\"127.0.0.1\", \"chosen\": \"named\""),
                                  std::string("\"addresses\": [\"127.0.0.1\", ")}) {
    if (explained.find(part) == std::string::npos) return explained;
  }
  return "";
}

// An all_reduce of floats. |hosts|: the ranks of each: the sums are made in the order of ranks,
// then of hosts, whatever the lanes carry.
std::string compare_bits(const WireRank& self, uint64_t count,
                         const std::vector<std::vector<uint32_t>>& hosts) {
  const auto value = [](uint32_t rank, uint64_t i) {
    return 1.0f / static_cast<float>(1 + i % 977 + rank * 131);
  };
  std::vector<float> own(count);
  std::vector<float> sums(count);
  for (uint64_t i = 0; i < count; ++i) own[i] = value(self.rank, i);
  const uint64_t bytes = count * sizeof(float);
  const keel::Buffer buffer(keel::Device(self.device), KEEL_MEMORY_DEVICE, bytes);
  void* const data = buffer.data();
  if (keel_copy(self.stream, self.device, data, KEEL_HOST, own.data(), bytes) != KEEL_OK ||
      keel_all_reduce(self.comm, data, data, count, KEEL_FLOAT32, KEEL_SUM, self.stream) !=
          KEEL_OK ||
      keel_copy(self.stream, KEEL_HOST, sums.data(), self.device, data, bytes) != KEEL_OK ||
      keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT) != KEEL_OK) {
    return keel_last_error();
  }
  for (uint64_t i = 0; i < count; ++i) {
    float sum = 0;
    for (const std::vector<uint32_t>& host : hosts) {
      float part = 0;
      for (const uint32_t rank : host) part += value(rank, i);
      sum += part;
    }
    if (sums[i] != sum) return "element " + std::to_string(i) + " has other bits";
  }
  return "";
}

// Rank 0 gives the first lane three quarters. Of hosts "abab", a rank sends the data of its lane
// once.
std::string lane_shares(const WireRank& self) {
  constexpr uint64_t kCount = 1 << 16;
  constexpr uint64_t kBytes = kCount * sizeof(float);
  std::string problem = cases(self);
  if (!problem.empty()) return problem;
  const uint64_t before = wire_sent(self.comm, "wire_bytes");
  problem = compare_bits(self, kCount, {{0, 2}, {1, 3}});
  if (!problem.empty()) return problem;
  const uint64_t sent = wire_sent(self.comm, "wire_bytes") - before;
  const uint64_t wanted = self.rank < 2 ? kBytes / 4 * 3 : kBytes / 4;
  if (sent != wanted) return std::to_string(sent) + " bytes, not " + std::to_string(wanted);
  if (explain(self.comm).find("\"lane_shares\": [0.75, 0.25]") == std::string::npos) {
    return explain(self.comm);
  }
  // A duplicate has the same lanes, half of the ranks have others.
  keel_comm part = {};
  if (keel_comm_duplicate(self.comm, nullptr, &part) != KEEL_OK) return keel_last_error();
  const std::string duplicate = explain(part);
  if (keel_comm_destroy(part) != KEEL_OK) return keel_last_error();
  if (duplicate.find("\"lane_shares\": [0.75, 0.25]") == std::string::npos) return duplicate;
  const auto key = -static_cast<int32_t>(self.rank);
  if (keel_comm_split(self.comm, 0, key, nullptr, &part) != KEEL_OK) return keel_last_error();
  const std::string reversed = explain(part);
  if (keel_comm_destroy(part) != KEEL_OK) return keel_last_error();
  const char* const equal = "\"lane_shares\": [0.5, 0.5], \"lane_shares_from\": \"set\"";
  return reversed.find(equal) == std::string::npos ? reversed : "";
}

// Two ranks of each host of "aabba" (ranks 0, 1, 4 and ranks 2, 3) send half of the data, and rank
// 4 sends none.
std::string unequal_lanes(const WireRank& self) {
  constexpr uint64_t kCount = 1 << 16;
  const uint64_t before = wire_sent(self.comm, "wire_bytes");
  std::string problem = compare_bits(self, kCount, {{0, 1, 4}, {2, 3}});
  if (!problem.empty()) return problem;
  const uint64_t sent = wire_sent(self.comm, "wire_bytes") - before;
  if (sent != (self.rank == 4 ? 0 : kCount * 2)) return std::to_string(sent) + " bytes";
  const std::string explained = explain(self.comm);
  return explained.find("\"lanes\": 2") == std::string::npos ? explained : "";
}

// Where a rank stands among the hosts of a communicator.
struct HostPlace {
  std::vector<std::vector<uint32_t>> hosts;
  size_t host = 0;
  size_t local = 0;
  size_t lanes = SIZE_MAX;

  HostPlace(keel_comm comm, uint32_t rank) {
    const nlohmann::json explained = nlohmann::json::parse(explain(comm));
    for (const nlohmann::json& each : explained.at("hosts")) {
      hosts.push_back(each.at("ranks").get<std::vector<uint32_t>>());
      const std::vector<uint32_t>& ranks = hosts.back();
      lanes = std::min(lanes, ranks.size());
      const auto found = std::find(ranks.begin(), ranks.end(), rank);
      if (found == ranks.end()) continue;
      host = hosts.size() - 1;
      local = static_cast<size_t>(found - ranks.begin());
    }
  }
  // The ranks of host |index| whose blocks go by the rank's lane.
  std::vector<uint32_t> carried(size_t index) const {
    std::vector<uint32_t> ranks;
    const std::vector<uint32_t>& all = hosts[index];
    for (size_t i = local; local < lanes && i < all.size(); i += lanes) ranks.push_back(all[i]);
    return ranks;
  }
};

// Each byte of a rank's block crosses once from each other host, but for 8-bit floats, and all
// types and reductions have the bits of the serial reference. Blocks of reduce_scatter_v have no
// elements, half as many, or all; in place, those of different ranks differ.
std::string reduce_scatter_lanes(const WireRank& self) {
  Case scenario;
  scenario.world = self.world;
  scenario.staged = self.staged;
  const HostPlace place(self.comm, self.rank);
  std::vector<uint32_t> summed;  // for other hosts
  for (size_t host = 0; host < place.hosts.size(); ++host) {
    if (host == place.host) continue;
    for (const uint32_t rank : place.carried(host)) summed.push_back(rank);
  }
  for (keel_dtype dtype = KEEL_DTYPE_INVALID + 1; dtype < KEEL_DTYPE_COUNT; ++dtype) {
    scenario.dtype = dtype;
    const uint64_t element = keel::kit::dtype_size(dtype);
    for (const keel_reduction reduction : {KEEL_SUM, KEEL_MAX, KEEL_AVG, KEEL_PREMUL_SUM}) {
      for (const bool is_v : {false, true}) {
        scenario.operation = is_v ? Operation::kReduceScatterV : Operation::kReduceScatter;
        scenario.reduction = reduction;
        scenario.count = is_v ? 2 * 9001 : 9001;
        if (!is_v) scenario.in_place = !scenario.in_place;
        ++scenario.seed;
        const Reference reference(scenario, self.rank);
        const uint64_t before = wire_sent(self.comm, "wire_bytes");
        std::string problem = run_case(reference, self.rank, self.device, self.comm, self.stream);
        const uint64_t sent = wire_sent(self.comm, "wire_bytes") - before;
        uint64_t wanted = 0;
        for (const uint32_t rank : summed) {
          wanted += is_v ? reference.send_arrays(self.rank).counts[rank] : scenario.count;
        }
        wanted *= element;
        const bool is_flat = dtype >= KEEL_FLOAT8_E4M3FN && reduction != KEEL_MAX;
        if (problem.empty() && !is_flat && sent != wanted) {
          problem = scenario.describe() + ": sent " + std::to_string(sent) + " bytes, not " +
                    std::to_string(wanted);
        }
        if (!problem.empty()) return problem;
      }
    }
  }
  return "";
}

// Each rank's block crosses once to each other host.
std::string all_gather_lanes(const WireRank& self) {
  Case scenario;
  scenario.operation = Operation::kAllGather;
  scenario.world = self.world;
  scenario.staged = self.staged;
  scenario.count = 9001;
  const HostPlace place(self.comm, self.rank);
  for (const keel_dtype dtype : {KEEL_UINT8, KEEL_FLOAT32}) {
    for (const bool in_place : {false, true}) {
      scenario.dtype = dtype;
      scenario.in_place = in_place;
      ++scenario.seed;
      const Reference reference(scenario, self.rank);
      const uint64_t before = wire_sent(self.comm, "wire_bytes");
      std::string problem = run_case(reference, self.rank, self.device, self.comm, self.stream);
      if (!problem.empty()) return problem;
      const uint64_t sent = wire_sent(self.comm, "wire_bytes") - before;
      const uint64_t wanted = place.carried(place.host).size() * (place.hosts.size() - 1) *
                              scenario.count * keel::kit::dtype_size(dtype);
      if (sent != wanted) {
        return scenario.describe() + ": sent " + std::to_string(sent) + " bytes, not " +
               std::to_string(wanted);
      }
    }
  }
  return "";
}

// Enough large all_reduces for an exchange of rates: whatever the ranks have measured, the
// bits stay.
std::string measured_shares(const WireRank& self) {
  for (uint32_t each = 0; each < 10; ++each) {
    std::string problem = compare_bits(self, 1 << 18, {{0, 2}, {1, 3}});
    if (!problem.empty()) return problem;
  }
  const std::string explained = explain(self.comm);
  const bool is_measured =
      explained.find("\"lane_shares_from\": \"measured\"") != std::string::npos;
  return is_measured ? "" : explained;
}

// Ranks 0 and 1 are on one host, rank 2 on another. Rank 0 sends to rank 2 and receives from rank 1
// in one group; rank 1 sends to it once rank 2 has the other message.
std::string group_over_hosts(const WireRank& self) {
  constexpr uint64_t kCount = 100'000;
  const keel::Buffer buffer(keel::Device(self.device), KEEL_MEMORY_DEVICE, 2 * kCount * 4);
  int32_t* const out = static_cast<int32_t*>(buffer.data());
  int32_t* const in = out + kCount;
  const std::vector<int32_t> sent(kCount, static_cast<int32_t>(self.rank));
  std::vector<int32_t> received(kCount);
  const uint32_t from = (self.rank + 1) % 3;
  const uint32_t to = (self.rank + 2) % 3;
  const auto send = [&] {
    return keel_send(self.comm, out, kCount, KEEL_INT32, to, self.stream) == KEEL_OK;
  };
  const auto receive = [&] {
    return keel_recv(self.comm, in, kCount, KEEL_INT32, from, self.stream) == KEEL_OK;
  };
  if (keel_comm_timeout_set(self.comm, self.timeout_ns) != KEEL_OK ||
      keel_copy(self.stream, self.device, out, KEEL_HOST, sent.data(), kCount * 4) != KEEL_OK) {
    return keel_last_error();
  }
  const bool has_called = self.rank == 0 ? keel_group_start() == KEEL_OK && send() && receive() &&
                                               keel_group_end() == KEEL_OK
                                         : receive() && send();
  if (!has_called ||
      keel_copy(self.stream, KEEL_HOST, received.data(), self.device, in, kCount * 4) != KEEL_OK ||
      keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT) != KEEL_OK) {
    return keel_last_error();
  }
  const bool is_right = received == std::vector<int32_t>(kCount, static_cast<int32_t>(from));
  return is_right ? "" : "other data";
}

// ---- the jobs -------------------------------------------------------------------

class HostsTest : public WireTest {};
INSTANTIATE_TEST_SUITE_P(Wires, HostsTest, kWires, name_of_wire);

TEST_P(HostsTest, TwoHostsMatchReference) {
  WireJob("ab", "product").expect_success();
}

TEST_P(HostsTest, MixedDevicesMatchReference) {
  WireJob("abc", "cases", "cpu,sim").expect_success();
}

TEST_P(HostsTest, MixedDevicesOfLanesMatchReference) {
  WireJob("abab", "cases", "cpu,sim").expect_success();
}

TEST_P(HostsTest, StagedMemoryMatchesReference) {
  WireJob("abab", "cases", "cpu", /*staged=*/true).expect_success();
}

TEST_P(HostsTest, LanesCarryTheSharesOfRankZero) {
  WireJob("abab", "lane_shares", "cpu", /*staged=*/false, /*seconds=*/0,
          {{0, "KEEL_LANE_SHARES", "3,1"}})
      .expect_success();
}

TEST_P(HostsTest, MeasuredSharesKeepTheBits) {
  WireJob("abab", "measured_shares").expect_success();
}

TEST_P(HostsTest, SmallestHostDecidesTheNumberOfLanes) {
  WireJob("aabba", "unequal_lanes").expect_success();
}

TEST_P(HostsTest, ReduceScatterSendsEachBlockOnceFromEachHost) {
  WireJob("abab", "reduce_scatter_lanes").expect_success();
  WireJob("aabb", "reduce_scatter_lanes", "cpu", /*staged=*/true).expect_success();
  WireJob("abcbca", "reduce_scatter_lanes").expect_success();
  WireJob("aabbccdd", "reduce_scatter_lanes").expect_success();
}

TEST_P(HostsTest, UnequalHostsSendEachBlockOnceFromEachHost) {
  WireJob("aaab", "reduce_scatter_lanes").expect_success();
  WireJob("aabba", "reduce_scatter_lanes", "cpu", /*staged=*/true).expect_success();
  WireJob("abcaacaa", "reduce_scatter_lanes").expect_success();
}

TEST_P(HostsTest, AllGatherSendsEachBlockOnceToEachHost) {
  WireJob("abab", "all_gather_lanes").expect_success();
  WireJob("aaab", "all_gather_lanes").expect_success();
  WireJob("aabba", "all_gather_lanes", "cpu", /*staged=*/true).expect_success();
  WireJob("abcaacaa", "all_gather_lanes").expect_success();
}

TEST_P(HostsTest, UnequalHostsMatchReference) {
  WireJob("abcaa", "cases").expect_success();
  WireJob("baaba", "cases").expect_success();
  WireJob("aab", "cases", "cpu", /*staged=*/true).expect_success();
}

TEST_P(HostsTest, FourHostsMatchReferenceByEachAlgorithm) {
  WireJob("abcd", "algorithms").expect_success();
}

TEST_P(HostsTest, AllRanksHoldTheSameBits) {
  WireJob("abab", "rounding").expect_success();
  WireJob("abc", "rounding").expect_success();
  WireJob("aabab", "rounding").expect_success();
}

TEST_P(HostsTest, InterleavedCallsMatch) {
  WireJob("baab", "interleaving").expect_success();
}

TEST_P(HostsTest, GroupMovesMessagesWithinAndBetweenHostsTogether) {
  WireJob("aab", "group_over_hosts", "cpu", /*staged=*/false, /*seconds=*/20).expect_success();
  WireJob("aab", "group_over_hosts", "cpu", /*staged=*/true, /*seconds=*/20).expect_success();
}

TEST_P(HostsTest, ExplainShowsHostsAndLanes) {
  WireJob("abab", "places").expect_success();
}

TEST_P(HostsTest, PartsMatchReference) {
  WireJob("aabb", "split").expect_success();
  WireJob("aaab", "split").expect_success();
}

}  // namespace

const std::map<std::string, WireProgram>& wire_programs() {
  static const std::map<std::string, WireProgram> programs = {
      {"cases", cases},
      {"algorithms", algorithms},
      {"rounding", rounding},
      {"split", split},
      {"places", places},
      {"lane_shares", lane_shares},
      {"measured_shares", measured_shares},
      {"unequal_lanes", unequal_lanes},
      {"reduce_scatter_lanes", reduce_scatter_lanes},
      {"all_gather_lanes", all_gather_lanes},
      {"interleaving", interleaving},
      {"product", product},
      {"group_over_hosts", group_over_hosts}};
  return programs;
}

}  // namespace keel::testing

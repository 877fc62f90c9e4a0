// SPDX-License-Identifier: Apache-2.0
// Ranks of several hosts, which KEEL_HOST_ID tells apart, over the loopback interface.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <keel/keel.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <keel/keel.hpp>
#include <keel/plugin_kit.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/bootstrap/testing/child_process.h"
#include "collectives/testing/interleaving.h"
#include "collectives/testing/product.h"
#include "collectives/testing/reference.h"
#include "collectives/testing/rounding.h"
#include "collectives/testing/test_rank.h"

namespace {

using keel::testing::Case;
using keel::testing::ChildProcess;
using keel::testing::hear;
using keel::testing::Reference;
using keel::testing::say;

constexpr int64_t kSecond = 1'000'000'000;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr size_t kCases = 20;
constexpr bool kIsSlow = true;
#else
constexpr size_t kCases = 70;
constexpr bool kIsSlow = false;
#endif

// ---- the workers ----------------------------------------------------------------

struct Rank {
  uint32_t rank = 0;
  uint32_t world = 0;
  bool staged = false;
  keel_device device = {};
  keel_comm comm = {};
  keel_stream stream = {};
  int64_t timeout_ns = 0;  // of the operations; 0: the default
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

std::string run_cases(const Rank& self, keel_comm comm, size_t most) {
  for (Case scenario : keel::testing::pairwise_cases({self.world}, /*seed=*/self.world)) {
    if (most-- == 0) break;
    scenario.staged = self.staged;
    const Reference reference(scenario, self.rank);
    std::string problem =
        keel::testing::run_case(reference, self.rank, self.device, comm, self.stream);
    if (!problem.empty()) return problem;
  }
  return "";
}

std::string cases(const Rank& self) {
  return run_cases(self, self.comm, kCases);
}

// A communicator for each algorithm, which rank 0 chooses.
template <typename Run>
std::string by_algorithms(const Rank& self, const Run& run) {
  for (const keel::testing::AlgorithmCase& each : keel::testing::algorithm_cases()) {
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

std::string algorithms(const Rank& self) {
  return by_algorithms(self, [&](const keel::testing::AlgorithmCase& each, keel_comm part) {
    const std::string used = std::string("\"algorithm\": \"") + each.algorithm + "\"";
    const std::string explained = explain(part);
    if (explained.find(used) == std::string::npos) return explained;
    return run_cases(self, part, kIsSlow ? 6 : 25);
  });
}

std::string product(const Rank& self) {
  const keel::testing::AlgorithmCase& direct = keel::testing::algorithm_cases().back();
  setenv("KEEL_ALGORITHM", direct.algorithm, 1);
  const keel_comm_options options = make_options(self.staged);
  keel_comm part = {};
  if (keel_comm_duplicate(self.comm, &options, &part) != KEEL_OK) return keel_last_error();
  std::string problem = keel::testing::run_product(direct, self.device, part);
  if (keel_comm_destroy(part) != KEEL_OK && problem.empty()) problem = keel_last_error();
  return problem;
}

std::string rounding(const Rank& self) {
  return by_algorithms(self, [&](const keel::testing::AlgorithmCase& each, keel_comm part) {
    const auto& operations = each.operations;
    // The sums of all others are those of "direct".
    const bool reduces = std::find(operations.begin(), operations.end(),
                                   keel::testing::Operation::kAllReduce) != operations.end();
    if (!reduces) return std::string();
    return keel::testing::compare_rounded(self.rank, self.device, part, self.stream);
  });
}

std::string interleaving(const Rank& self) {
  return keel::testing::run_interleaving(self.device, self.comm, /*seed=*/self.world,
                                         kIsSlow ? 10 : 40);
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
std::string split(const Rank& self) {
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
    Rank inner = self;
    if (keel_comm_rank(part, &inner.rank, &inner.world) != KEEL_OK) return keel_last_error();
    if (inner.world != self.world / 2) return "the part has " + std::to_string(inner.world);
    std::string problem = run_cases(inner, part, 20);
    if (keel_comm_destroy(part) != KEEL_OK && problem.empty()) problem = keel_last_error();
    if (!problem.empty()) return problem;
  }
  keel_comm none = {};
  if (keel_comm_split(self.comm, KEEL_NO_COLOR, 0, nullptr, &none) != KEEL_OK) {
    return keel_last_error();
  }
  return "";
}

std::string places(const Rank& self) {
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
std::string compare_bits(const Rank& self, uint64_t count,
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
std::string lane_shares(const Rank& self) {
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
std::string unequal_lanes(const Rank& self) {
  constexpr uint64_t kCount = 1 << 16;
  const uint64_t before = wire_sent(self.comm, "wire_bytes");
  std::string problem = compare_bits(self, kCount, {{0, 1, 4}, {2, 3}});
  if (!problem.empty()) return problem;
  const uint64_t sent = wire_sent(self.comm, "wire_bytes") - before;
  if (sent != (self.rank == 4 ? 0 : kCount * 2)) return std::to_string(sent) + " bytes";
  const std::string explained = explain(self.comm);
  return explained.find("\"lanes\": 2") == std::string::npos ? explained : "";
}

// The ranks of |rank|'s lane on other hosts.
std::vector<uint32_t> lane_elsewhere(keel_comm comm, uint32_t rank) {
  std::vector<std::vector<uint32_t>> hosts;
  size_t place = 0;
  const nlohmann::json explained = nlohmann::json::parse(explain(comm));
  for (const nlohmann::json& host : explained.at("hosts")) {
    hosts.push_back(host.at("ranks").get<std::vector<uint32_t>>());
    const auto found = std::find(hosts.back().begin(), hosts.back().end(), rank);
    if (found != hosts.back().end()) place = static_cast<size_t>(found - hosts.back().begin());
  }
  std::vector<uint32_t> lane;
  for (const std::vector<uint32_t>& host : hosts) {
    if (host[place] != rank) lane.push_back(host[place]);
  }
  return lane;
}

// Each byte of a rank's block crosses once from each other host, but for 8-bit floats, and all
// types and reductions have the bits of the serial reference. Blocks of reduce_scatter_v have no
// elements, half as many, or all; in place, those of different ranks differ.
std::string reduce_scatter_lanes(const Rank& self) {
  Case scenario;
  scenario.world = self.world;
  scenario.staged = self.staged;
  const std::vector<uint32_t> lane = lane_elsewhere(self.comm, self.rank);
  for (keel_dtype dtype = KEEL_DTYPE_INVALID + 1; dtype < KEEL_DTYPE_COUNT; ++dtype) {
    scenario.dtype = dtype;
    const uint64_t element = keel::kit::dtype_size(dtype);
    for (const keel_reduction reduction : {KEEL_SUM, KEEL_MAX, KEEL_AVG, KEEL_PREMUL_SUM}) {
      for (const bool is_v : {false, true}) {
        scenario.operation = is_v ? keel::testing::Operation::kReduceScatterV
                                  : keel::testing::Operation::kReduceScatter;
        scenario.reduction = reduction;
        scenario.count = is_v ? 2 * 9001 : 9001;
        if (!is_v) scenario.in_place = !scenario.in_place;
        ++scenario.seed;
        const Reference reference(scenario, self.rank);
        const uint64_t before = wire_sent(self.comm, "wire_bytes");
        std::string problem =
            keel::testing::run_case(reference, self.rank, self.device, self.comm, self.stream);
        const uint64_t sent = wire_sent(self.comm, "wire_bytes") - before;
        uint64_t wanted = 0;
        for (const uint32_t rank : lane) {
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

// Enough large all_reduces for an exchange of rates: whatever the ranks have measured, the
// bits stay.
std::string measured_shares(const Rank& self) {
  for (uint32_t each = 0; each < 10; ++each) {
    std::string problem = compare_bits(self, 1 << 18, {{0, 2}, {1, 3}});
    if (!problem.empty()) return problem;
  }
  const std::string explained = explain(self.comm);
  const bool is_measured =
      explained.find("\"lane_shares_from\": \"measured\"") != std::string::npos;
  return is_measured ? "" : explained;
}

// Runs all_reduces until one fails; prints "running" after the first, and then the failure.
std::string until_failure(const Rank& self) {
  void* data = nullptr;
  constexpr uint64_t kCount = 100'000;
  if (keel_comm_timeout_set(self.comm, self.timeout_ns) != KEEL_OK) return keel_last_error();
  if (keel_alloc(self.device, KEEL_MEMORY_DEVICE, kCount * 4, &data) != KEEL_OK) {
    return keel_last_error();
  }
  for (uint64_t i = 0;; ++i) {
    const uint64_t count = i % 2 == 0 ? kCount : 100;
    keel_status status =
        keel_all_reduce(self.comm, data, data, count, KEEL_INT32, KEEL_MAX, self.stream);
    if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
    if (status != KEEL_OK) {
      say(std::string(keel_status_name(status)) + " " + keel_last_error());
      break;
    }
    if (i == 0) say("running");
  }
  return "";
}

// All but rank 1 call, at the same time, what rank 1 never does.
std::string without_rank_one(const Rank& self) {
  constexpr uint64_t kCount = 100'000;
  void* data = nullptr;
  if (keel_alloc(self.device, KEEL_MEMORY_DEVICE, kCount * 4, &data) != KEEL_OK ||
      keel_all_reduce(self.comm, data, data, 100, KEEL_INT32, KEEL_MAX, self.stream) != KEEL_OK ||
      keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT) != KEEL_OK) {
    return keel_last_error();
  }
  if (self.rank == 1) {
    say("called");
    hear();
    return "killed too late";
  }
  keel_status status =
      keel_all_reduce(self.comm, data, data, kCount, KEEL_INT32, KEEL_MAX, self.stream);
  say("called");
  if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
  say(std::string(keel_status_name(status)) + " " + keel_last_error());
  hear();  // the end of this process would be another failure
  return "";
}

// The last rank reduces one element more than the others.
std::string mismatch(const Rank& self) {
  void* data = nullptr;
  const uint64_t count = self.rank + 1 == self.world ? 101 : 100;
  if (keel_alloc(self.device, KEEL_MEMORY_DEVICE, 4096, &data) != KEEL_OK) return keel_last_error();
  keel_status status =
      keel_all_reduce(self.comm, data, data, count, KEEL_FLOAT32, KEEL_SUM, self.stream);
  if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
  say(std::string(keel_status_name(status)) + " " + keel_last_error());
  return "";
}

// Ranks 0 and 1 are on one host, rank 2 on another. Rank 0 sends to rank 2 and receives from rank 1
// in one group; rank 1 sends to it once rank 2 has the other message.
std::string group_over_hosts(const Rank& self) {
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

// Rank 0 waits for a message of its own host, and of rank 2, in one group; neither comes.
std::string group_in_vain(const Rank& self) {
  if (self.rank != 0) {
    say("called");
    hear();  // the end of this process would be another failure
    return "";
  }
  void* data = nullptr;
  keel_status status = keel_alloc(self.device, KEEL_MEMORY_DEVICE, 64, &data);
  if (status == KEEL_OK) status = keel_group_start();
  for (const uint32_t from : {1, 2}) {
    void* const place = static_cast<int32_t*>(data) + from;
    if (status == KEEL_OK) status = keel_recv(self.comm, place, 1, KEEL_INT32, from, self.stream);
  }
  if (status == KEEL_OK) status = keel_group_end();
  say("called");
  if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
  say(std::string(keel_status_name(status)) + " " + keel_last_error());
  return "";
}

// Rank 1 makes the first contact with rank 0, which is stopped.
std::string first_contact(const Rank& self) {
  say("here");
  hear();
  if (self.rank == 0) return "";
  // Four fifths of the limit of a handshake.
  const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(4);
  keel_status status = keel_comm_timeout_set(self.comm, self.timeout_ns);
  if (status == KEEL_OK) status = keel_barrier(self.comm, self.stream);
  if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
  const bool is_late = std::chrono::steady_clock::now() > late;
  say(std::string(keel_status_name(status)) + (is_late ? ", late: " : " ") + keel_last_error());
  hear();  // the end of this process would be another failure
  return "";
}

// Rank 1 reduces few elements, flat; the others meet in a barrier, inside their hosts first.
std::string unlike_calls(const Rank& self) {
  void* data = nullptr;
  keel_status status = keel_alloc(self.device, KEEL_MEMORY_DEVICE, 4096, &data);
  if (status == KEEL_OK) status = keel_comm_timeout_set(self.comm, self.timeout_ns);
  if (status == KEEL_OK && self.rank == 1) {
    status = keel_all_reduce(self.comm, data, data, 100, KEEL_FLOAT32, KEEL_SUM, self.stream);
  } else if (status == KEEL_OK) {
    status = keel_barrier(self.comm, self.stream);
  }
  if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
  say(std::string(keel_status_name(status)) + " " + keel_last_error());
  return "";
}

// Rank 1 waits for a message of another host, rank 0 for rank 1 in a barrier. Rank 1 gives up
// first.
std::string unlike_messages(const Rank& self) {
  void* data = nullptr;
  keel_status status = keel_alloc(self.device, KEEL_MEMORY_DEVICE, 4096, &data);
  if (status == KEEL_OK) {
    status = keel_comm_timeout_set(self.comm, (self.rank == 1 ? 1 : 3) * self.timeout_ns);
  }
  if (status == KEEL_OK) {
    status = self.rank == 1 ? keel_recv(self.comm, data, 7, KEEL_INT32, 2, self.stream)
                            : keel_barrier(self.comm, self.stream);
  }
  if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
  say(std::string(keel_status_name(status)) + " " + keel_last_error());
  return "";
}

// All but the last rank split.
std::string split_without_one(const Rank& self) {
  if (self.rank + 1 == self.world) {
    hear();  // the end of this process would be another failure
    return "";
  }
  keel_comm part = {};
  keel_status status = keel_comm_timeout_set(self.comm, self.timeout_ns);
  if (status == KEEL_OK) status = keel_comm_split(self.comm, 0, 0, nullptr, &part);
  say(std::string(keel_status_name(status)) + " " + keel_last_error());
  return "";
}

// Rank 1 aborts while the others wait for it.
std::string abort_it(const Rank& self) {
  if (self.rank == 1) {
    hear();
    keel_comm_abort(self.comm);
    say("aborted");
    hear();  // the end of this process would be another failure
    return "";
  }
  keel_status status = keel_barrier(self.comm, self.stream);
  say("running");
  if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
  say(std::string(keel_status_name(status)) + " " + keel_last_error());
  return "";
}

// Rank 0 leaves right after a broadcast, whose data connect the other ranks with rank 0 alone. Rank
// 2 then waits for rank 3, and rank 1 for rank 2.
std::string without_rank_zero(const Rank& self) {
  void* data = nullptr;
  constexpr uint64_t kCount = 16;
  if (keel_alloc(self.device, KEEL_MEMORY_DEVICE, kCount * 4, &data) != KEEL_OK ||
      keel_broadcast(self.comm, data, data, kCount, KEEL_INT32, 0, self.stream) != KEEL_OK ||
      keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT) != KEEL_OK) {
    return keel_last_error();
  }
  if (self.rank == 0) return "";
  say("alone");
  hear();
  if (self.rank == 3) {
    keel_comm_abort(self.comm);
    hear();  // the end of this process would be another failure
    return "";
  }
  keel_status status = keel_recv(self.comm, data, kCount, KEEL_INT32, self.rank + 1, self.stream);
  if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
  say(std::string(keel_status_name(status)) + " " + keel_last_error());
  return "";
}

// Arguments: rank, world, host, backends, "staged" or "alias", program, seconds to the deadline of
// an operation.
int run_worker(const std::vector<std::string>& arguments) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(200);
  setenv("KEEL_HOST_ID", arguments[2].c_str(), 1);
  setenv("KEEL_INTERFACE", "127.0.0.1", 1);
  setenv("KEEL_SIM_DEVICES", "1", 1);
  Rank self;
  self.rank = static_cast<uint32_t>(std::stoul(arguments[0]));
  self.world = static_cast<uint32_t>(std::stoul(arguments[1]));
  self.staged = arguments[4] == "staged";
  auto init = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  init.default_timeout_ns = 100 * kSecond;
  self.timeout_ns = std::stol(arguments[6]) * kSecond;
  if (self.rank == 0 && arguments[5] == "lane_shares") setenv("KEEL_LANE_SHARES", "3,1", 1);
  init.backends = arguments[3].c_str();
  if (keel_init(&init) != KEEL_OK) return 2;
  const std::map<std::string, std::function<std::string(const Rank&)>> programs = {
      {"cases", cases},
      {"algorithms", algorithms},
      {"rounding", rounding},
      {"split", split},
      {"places", places},
      {"lane_shares", lane_shares},
      {"measured_shares", measured_shares},
      {"unequal_lanes", unequal_lanes},
      {"reduce_scatter_lanes", reduce_scatter_lanes},
      {"until_failure", until_failure},
      {"abort", abort_it},
      {"mismatch", mismatch},
      {"interleaving", interleaving},
      {"product", product},
      {"without_rank_zero", without_rank_zero},
      {"without_rank_one", without_rank_one},
      {"split_without_one", split_without_one},
      {"unlike_calls", unlike_calls},
      {"unlike_messages", unlike_messages},
      {"group_over_hosts", group_over_hosts},
      {"group_in_vain", group_in_vain},
      {"first_contact", first_contact}};
  keel_unique_id id = {};
  if (self.rank == 0) {
    if (keel_unique_id_create(&id) != KEEL_OK) {
      say(keel_last_error());
      return 3;
    }
    say(id.text);
  } else {
    const std::string text = hear();
    text.copy(id.text, sizeof(id.text) - 1);
  }
  self.device = keel::testing::device_of(keel::testing::all_devices(), self.rank, self.world);
  const keel_comm_options options = make_options(self.staged);
  std::string problem;
  if (keel_stream_create(self.device, 0, &self.stream) != KEEL_OK ||
      keel_comm_init_rank(self.device, &id, self.rank, self.world, &options, &self.comm) !=
          KEEL_OK) {
    problem = keel_last_error();
    say(problem);
  } else {
    problem = programs.at(arguments[5])(self);
    if (!problem.empty()) keel_comm_abort(self.comm);
    keel_comm_destroy(self.comm);
  }
  if (!problem.empty()) std::fprintf(stderr, "rank %u: %s\n", self.rank, problem.c_str());
  keel_shutdown();
  return problem.empty() ? 0 : 1;
}

int has_ucx(const std::vector<std::string>& /*arguments*/) {
  return dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL) == nullptr ? 1 : 0;
}

// ---- the jobs -------------------------------------------------------------------

// |hosts|: the host of each rank, one letter each. |last_wire|: KEEL_WIRE of the last rank, and
// from then on of this process.
class Job {
 public:
  Job(const std::string& hosts, const std::string& program, const std::string& backends = "cpu",
      bool staged = false, int seconds = 0, const char* last_wire = nullptr) {
    for (size_t rank = 0; rank < hosts.size(); ++rank) {
      if (last_wire != nullptr && rank + 1 == hosts.size()) setenv("KEEL_WIRE", last_wire, 1);
      ranks_.emplace_back(
          "rank", std::vector<std::string>{
                      std::to_string(rank), std::to_string(hosts.size()), hosts.substr(rank, 1),
                      backends, staged ? "staged" : "alias", program, std::to_string(seconds)});
    }
    const std::string id = ranks_[0].read_line();
    for (size_t rank = 1; rank < hosts.size(); ++rank) ranks_[rank].write_line(id);
  }
  ChildProcess& operator[](size_t rank) { return ranks_[rank]; }
  void expect_success() {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      EXPECT_EQ(ranks_[rank].wait(), 0) << "rank " << rank;
    }
  }

 private:
  std::vector<ChildProcess> ranks_;
};

// Jobs whose messages the wire of the parameter, a value of KEEL_WIRE, carries.
class WireTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (is_ucx() && !is_ucx_there()) {
      GTEST_SKIP() << "libucp.so.0 cannot be opened (package libucx0)";
    }
    setenv("KEEL_WIRE", GetParam(), 1);
    setenv("UCX_TLS", "tcp", 0);
  }
  void TearDown() override { unsetenv("KEEL_WIRE"); }
  static bool is_ucx() { return std::string(GetParam()) == "ucx"; }
  // In a child: a library that UCX loads may leak.
  static bool is_ucx_there() {
    static const bool is_there = ChildProcess("has_ucx", {}).wait() == 0;
    return is_there;
  }
};
class HostsTest : public WireTest {};
class HostFailureTest : public WireTest {};
const auto kWires = ::testing::Values("tcp", "ucx");
std::string name_of(const ::testing::TestParamInfo<const char*>& each) {
  return each.param;
}
INSTANTIATE_TEST_SUITE_P(Wires, HostsTest, kWires, name_of);
INSTANTIATE_TEST_SUITE_P(Wires, HostFailureTest, kWires, name_of);

#define EXPECT_SAYS(text, line) \
  EXPECT_NE((line).find(text), std::string::npos) << "'" << (line) << "'"

TEST_P(HostsTest, TwoHostsMatchReference) {
  Job("ab", "product").expect_success();
}

TEST_P(HostsTest, MixedDevicesMatchReference) {
  Job("abc", "cases", "cpu,sim").expect_success();
}

TEST_P(HostsTest, StagedMemoryMatchesReference) {
  Job("abab", "cases", "cpu", /*staged=*/true).expect_success();
}

TEST_P(HostsTest, LanesCarryTheSharesOfRankZero) {
  Job("abab", "lane_shares").expect_success();
}

TEST_P(HostsTest, MeasuredSharesKeepTheBits) {
  Job("abab", "measured_shares").expect_success();
}

TEST_P(HostsTest, SmallestHostDecidesTheNumberOfLanes) {
  Job("aabba", "unequal_lanes").expect_success();
}

TEST_P(HostsTest, ReduceScatterSendsEachBlockOnceFromEachHost) {
  Job("abab", "reduce_scatter_lanes").expect_success();
  Job("aabb", "reduce_scatter_lanes", "cpu", /*staged=*/true).expect_success();
  Job("abcbca", "reduce_scatter_lanes").expect_success();
  Job("aabbccdd", "reduce_scatter_lanes").expect_success();
}

TEST_P(HostsTest, UnequalHostsMatchReference) {
  Job("abcaa", "cases").expect_success();
  Job("baaba", "cases").expect_success();
  Job("aab", "cases", "cpu", /*staged=*/true).expect_success();
}

TEST_P(HostsTest, FourHostsMatchReferenceByEachAlgorithm) {
  Job("abcd", "algorithms").expect_success();
}

TEST_P(HostsTest, AllRanksHoldTheSameBits) {
  Job("abab", "rounding").expect_success();
  Job("abc", "rounding").expect_success();
  Job("aabab", "rounding").expect_success();
}

TEST_P(HostsTest, InterleavedCallsMatch) {
  Job("baab", "interleaving").expect_success();
}

TEST_P(HostsTest, GroupMovesMessagesWithinAndBetweenHostsTogether) {
  Job("aab", "group_over_hosts", "cpu", /*staged=*/false, /*seconds=*/20).expect_success();
  Job("aab", "group_over_hosts", "cpu", /*staged=*/true, /*seconds=*/20).expect_success();
}

TEST_P(HostsTest, ExplainShowsHostsAndLanes) {
  Job("abab", "places").expect_success();
}

TEST_P(HostsTest, PartsMatchReference) {
  Job("aabb", "split").expect_success();
  Job("aaab", "split").expect_success();
}

// The last rank alone has another wire than the parameter's.
TEST_P(HostsTest, RankWithAnotherWireIsNamed) {
  if (!is_ucx_there()) GTEST_SKIP() << "libucp.so.0 cannot be opened (package libucx0)";
  Job job("abc", "cases", "cpu", /*staged=*/false, /*seconds=*/0, is_ucx() ? "tcp" : "ucx");
  for (size_t rank = 0; rank < 3; ++rank) {
    const std::string line = job[rank].read_line();
    EXPECT_SAYS("rank 2 (cpu:", line);
    EXPECT_SAYS("'ucx 1.", line);
    EXPECT_SAYS("'tcp'", line);
    EXPECT_EQ(job[rank].wait(), 1);
  }
}

// A file that is no library stands in for a machine without UCX.
TEST(HostsWithoutUcxTest, MissingLibraryIsNamed) {
  std::string folder = ::testing::TempDir() + "keel-no-ucx-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string file = folder + "/libucp.so.0";
  std::ofstream(file) << "not a library";
  const char* const known = getenv("LD_LIBRARY_PATH");
  const std::string before = known == nullptr ? "" : known;
  setenv("LD_LIBRARY_PATH", (folder + ":" + before).c_str(), 1);
  setenv("KEEL_WIRE", "ucx", 1);
  Job job("ab", "cases");
  for (size_t rank = 0; rank < 2; ++rank) {
    const std::string line = job[rank].read_line();
    EXPECT_SAYS("KEEL_WIRE=ucx: UCX cannot be opened: ", line);
    EXPECT_SAYS(file, line);
    EXPECT_EQ(job[rank].wait(), 1);
  }
  unsetenv("KEEL_WIRE");
  if (known == nullptr) {
    unsetenv("LD_LIBRARY_PATH");
  } else {
    setenv("LD_LIBRARY_PATH", before.c_str(), 1);
  }
  std::filesystem::remove_all(folder);
}

// ---- failures -------------------------------------------------------------------

TEST_P(HostFailureTest, OddRankIsNamed) {
  Job job("abc", "mismatch");
  for (size_t rank = 0; rank < 3; ++rank) {
    const std::string line = job[rank].read_line();
    EXPECT_SAYS("rank 2 called all_reduce(101 float32, sum)", line);
    EXPECT_SAYS("INVALID_ARGUMENT", line);
  }
  job.expect_success();
}

// Nobody reads the messages of rank 1: those that wait for it do so inside its host.
TEST_P(HostFailureTest, UnlikeCallOfOneHostIsNamedThere) {
  Job job("aabb", "unlike_calls", "cpu", /*staged=*/false, /*seconds=*/20);
  for (size_t rank = 0; rank < 4; ++rank) {
    const std::string line = job[rank].read_line();
    EXPECT_SAYS("INVALID_ARGUMENT", line);
    EXPECT_SAYS("rank 0 called barrier(), rank 1 called all_reduce(100 float32, sum)", line);
  }
  job.expect_success();
}

TEST_P(HostFailureTest, DeadlineSaysWhereTheRanksOfTheHostAre) {
  Job job("aabb", "unlike_messages", "cpu", /*staged=*/false, /*seconds=*/2);
  for (size_t rank = 0; rank < 4; ++rank) {
    const std::string line = job[rank].read_line();
    EXPECT_SAYS("TIMED_OUT", line);
    EXPECT_SAYS("rank 2 (cpu:", line);
    EXPECT_SAYS("did not answer in time: rank 0 is at barrier(), rank 1 at recv(7 int32", line);
  }
  job.expect_success();
}

TEST_P(HostFailureTest, KilledRankIsNamedToAll) {
  for (uint32_t turn = 0; turn < (kIsSlow ? 1 : 4); ++turn) {
    Job job(turn % 2 == 0 ? "abab" : "abc", "until_failure");
    const size_t world = turn % 2 == 0 ? 4 : 3;
    for (size_t rank = 0; rank < world; ++rank) ASSERT_EQ(job[rank].read_line(), "running");
    // At a different place of the operations each time.
    usleep(turn * 7919);
    job[1].kill();
    for (size_t rank = 0; rank < world; ++rank) {
      if (rank == 1) continue;
      const std::string line = job[rank].read_line();
      EXPECT_SAYS("RANK_FAILED", line);
      EXPECT_SAYS("rank 1 (cpu:", line);
      EXPECT_EQ(job[rank].wait(), 0);
    }
  }
}

TEST_P(HostFailureTest, KilledRankOfAnotherHostEndsAGroup) {
  Job job("aab", "group_in_vain");
  for (size_t rank = 0; rank < 3; ++rank) ASSERT_EQ(job[rank].read_line(), "called");
  job[2].kill();
  const std::string line = job[0].read_line();
  EXPECT_SAYS("RANK_FAILED send_recv, operation 0, ", line);
  EXPECT_SAYS("rank 2 (cpu:0", line);
  job[1].write_line("end");
  for (const size_t rank : {0, 1}) EXPECT_EQ(job[rank].wait(), 0);
}

// Each survivor tells rank, host and operation, and where it has waited, if it had begun.
TEST_P(HostFailureTest, EverySurvivorNamesTheOperation) {
  const std::regex wanted(
      "RANK_FAILED.* all_reduce, operation 1(, over (tcp|ucx)( with ranks? [0-9, -]+)?|, inside "
      "host "
      "'[abc]')?: rank 1 \\(cpu:0, process [0-9]+ on host '[ab]'\\) ");
  for (const std::string hosts : {"aabb", "abab", "abc"}) {
    Job job(hosts, "without_rank_one");
    for (size_t rank = 0; rank < hosts.size(); ++rank) ASSERT_EQ(job[rank].read_line(), "called");
    job[1].kill();
    for (size_t rank = 0; rank < hosts.size(); ++rank) {
      if (rank == 1) continue;
      const std::string line = job[rank].read_line();
      EXPECT_TRUE(std::regex_search(line, wanted)) << hosts << ", rank " << rank << ": " << line;
      EXPECT_EQ(line.find("operation", line.find("operation") + 1), std::string::npos) << line;
    }
    for (size_t rank = 0; rank < hosts.size(); ++rank) {
      if (rank != 1) job[rank].write_line("end");
    }
  }
}

TEST_P(HostFailureTest, StoppedRankIsNamedAtTheDeadline) {
  Job job("abc", "until_failure", "cpu", /*staged=*/false, /*seconds=*/kIsSlow ? 8 : 5);
  for (size_t rank = 0; rank < 3; ++rank) ASSERT_EQ(job[rank].read_line(), "running");
  ASSERT_EQ(::kill(job[2].pid(), SIGSTOP), 0);
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_SAYS("rank 2 (cpu:", job[rank].read_line());
    EXPECT_EQ(job[rank].wait(), 0);
  }
}

// The kernel of its host accepts the connection.
TEST_P(HostFailureTest, StoppedRankIsNamedAtTheDeadlineOfTheFirstContact) {
  Job job("ab", "first_contact", "cpu", /*staged=*/false, /*seconds=*/1);
  for (size_t rank = 0; rank < 2; ++rank) ASSERT_EQ(job[rank].read_line(), "here");
  ASSERT_EQ(::kill(job[0].pid(), SIGSTOP), 0);
  job[1].write_line("go");
  const std::string line = job[1].read_line();
  EXPECT_SAYS("TIMED_OUT barrier, operation 0, over", line);
  EXPECT_SAYS("rank 0 (cpu:", line);
  job[0].kill();
  job[1].write_line("end");
  EXPECT_EQ(job[1].wait(), 0);
}

// Missed by a rank of its own host, and by ranks of other hosts alone.
TEST_P(HostFailureTest, RankThatDoesNotSplitIsNamedToAll) {
  for (const std::string hosts : {"aabb", "abc"}) {
    Job job(hosts, "split_without_one", "cpu", /*staged=*/false, /*seconds=*/1);
    const size_t last = hosts.size() - 1;
    for (size_t rank = 0; rank < last; ++rank) {
      const std::string line = job[rank].read_line();
      EXPECT_SAYS("TIMED_OUT", line);
      EXPECT_SAYS("rank " + std::to_string(last) + " (cpu:", line);
      if (hosts == "aabb") {
        EXPECT_SAYS("rank 2 is at split(), rank 3 at nothing", line);
      }
    }
    job[last].write_line("end");
    job.expect_success();
  }
}

TEST_P(HostFailureTest, AbortReachesAllHosts) {
  Job job("abc", "abort");
  EXPECT_EQ(job[0].read_line(), "running");
  EXPECT_EQ(job[2].read_line(), "running");
  job[1].write_line("now");
  EXPECT_EQ(job[1].read_line(), "aborted");
  for (const size_t rank : {0, 2}) {
    const std::string line = job[rank].read_line();
    EXPECT_SAYS("ABORTED", line);
    EXPECT_SAYS("rank 1 aborted", line);
  }
  job[1].write_line("end");
  job.expect_success();
}

// The process of rank 0 serves the job: the others tell each other who fails.
TEST_P(HostFailureTest, FailureIsToldAtOnceAfterRankZeroHasLeft) {
  for (const bool aborts : {false, true}) {
    Job job("abcd", "without_rank_zero");
    EXPECT_EQ(job[0].wait(), 0);
    for (const size_t rank : {1, 2, 3}) ASSERT_EQ(job[rank].read_line(), "alone");
    for (const size_t rank : {1, 2}) job[rank].write_line("go");
    if (aborts) {
      job[3].write_line("go");
    } else {
      job[3].kill();
    }
    for (const size_t rank : {1, 2}) {
      const std::string line = job[rank].read_line();
      EXPECT_SAYS(aborts ? "ABORTED" : "RANK_FAILED", line);
      EXPECT_SAYS(aborts ? "rank 3 aborted" : "rank 3 (cpu:", line);
    }
    if (aborts) job[3].write_line("end");
    for (const size_t rank : {1, 2}) EXPECT_EQ(job[rank].wait(), 0);
  }
}

}  // namespace

const std::map<std::string, keel::testing::Worker>& keel::testing::workers() {
  static const std::map<std::string, Worker> workers = {{"rank", run_worker}, {"has_ucx", has_ucx}};
  return workers;
}

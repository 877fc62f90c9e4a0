// SPDX-License-Identifier: Apache-2.0
// Staging between devices with host links of unequal rates: results, the reported statistics, and
// the state of all ranks when one fails half-way. keel_bench measures times.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

using Json = nlohmann::json;

// A profile file that the destructor removes: an emulated chip with a link of |rate| GB/s each way.
class ProfileFile {
 public:
  explicit ProfileFile(double rate) {
    const int descriptor = mkstemp(path_);
    EXPECT_GE(descriptor, 0);
    if (descriptor >= 0) close(descriptor);
    const Json profile = {
        {"name", "link"},
        {"memory_gb_per_s", 50},
        {"launch_latency_us", 5},
        {"copy_gb_per_s", {{"host_to_device", rate}, {"device_to_host", rate}, {"peer", rate}}},
        {"tflops", {{"float32", 1}}}};
    std::ofstream(path_) << profile.dump();
  }
  ~ProfileFile() { unlink(path_); }
  ProfileFile(const ProfileFile&) = delete;
  ProfileFile& operator=(const ProfileFile&) = delete;
  const char* path() const { return path_; }

 private:
  char path_[32] = "/tmp/keel-profile-XXXXXX";
};

keel_device paced_chip(double rate, Settings settings = {}) {
  const ProfileFile profile(rate);
  settings["profile"] = profile.path();
  const auto devices = load("sim", settings);
  EXPECT_EQ(devices.size(), 1u);
  return devices.empty() ? keel_device{} : devices[0];
}

// Small whole numbers, whose sums are exact in every order.
float value_of(uint32_t rank, uint64_t index, uint32_t seed) {
  return static_cast<float>((index * 7 + rank * 13 + seed * 5) % 23) - 11;
}

// A communicator over |devices|, with a stream and two buffers per rank.
class BridgeTest : public KeelTest {
 protected:
  struct Rank {
    keel_device device{};
    keel_comm comm{};
    keel_stream stream{};
    void* send = nullptr;
    void* receive = nullptr;
  };

  void connect(const std::vector<keel_device>& devices, uint64_t most, uint64_t chunk_bytes = 0,
               int64_t timeout_ns = kTestTimeout) {
    auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
    options.timeout_ns = timeout_ns;
    options.chunk_bytes = chunk_bytes;
    std::vector<keel_comm> comms(devices.size());
    ASSERT_KEEL_OK(keel_comm_init_all(devices.data(), static_cast<uint32_t>(devices.size()),
                                      &options, comms.data()));
    ranks_.clear();
    for (size_t i = 0; i < devices.size(); ++i) {
      Rank rank;
      rank.device = devices[i];
      rank.comm = comms[i];
      ASSERT_KEEL_OK(keel_stream_create(devices[i], 0, &rank.stream));
      rank.send = alloc(devices[i], most * sizeof(float));
      rank.receive = alloc(devices[i], most * sizeof(float));
      ranks_.push_back(rank);
    }
  }
  void disconnect() {
    for (const Rank& rank : ranks_) {
      keel_comm_destroy(rank.comm);
      EXPECT_KEEL_OK(keel_stream_destroy(rank.stream));
      EXPECT_KEEL_OK(keel_free(rank.device, rank.send));
      EXPECT_KEEL_OK(keel_free(rank.device, rank.receive));
    }
    ranks_.clear();
  }
  void TearDown() override {
    disconnect();
    KeelTest::TearDown();
  }
  uint32_t world() const { return static_cast<uint32_t>(ranks_.size()); }

  void fill(uint64_t count, uint32_t seed) {
    std::vector<float> values(count);
    for (uint32_t rank = 0; rank < world(); ++rank) {
      for (uint64_t i = 0; i < count; ++i) values[i] = value_of(rank, i, seed);
      ASSERT_KEEL_OK(keel_copy(ranks_[rank].stream, ranks_[rank].device, ranks_[rank].send,
                               KEEL_HOST, values.data(), count * sizeof(float)));
      ASSERT_KEEL_OK(keel_stream_synchronize(ranks_[rank].stream, kTestTimeout));
    }
  }
  keel_status all_reduce(uint32_t rank, uint64_t count, bool in_place = false) {
    const Rank& of = ranks_[rank];
    return keel_all_reduce(of.comm, of.send, in_place ? of.send : of.receive, count, KEEL_FLOAT32,
                           KEEL_SUM, of.stream);
  }
  std::vector<float> download(uint32_t rank, const void* from, uint64_t count) {
    std::vector<float> values(count);
    const Rank& of = ranks_[rank];
    EXPECT_KEEL_OK(
        keel_copy(of.stream, KEEL_HOST, values.data(), of.device, from, count * sizeof(float)));
    EXPECT_KEEL_OK(keel_stream_synchronize(of.stream, kTestTimeout));
    return values;
  }
  // All ranks reduce |count| elements; compares every element of every rank.
  void check_sums(uint64_t count, uint32_t seed, bool in_place) {
    fill(count, seed);
    for (uint32_t rank = 0; rank < world(); ++rank) {
      ASSERT_KEEL_OK(all_reduce(rank, count, in_place));
    }
    for (uint32_t rank = 0; rank < world(); ++rank) {
      const Rank& of = ranks_[rank];
      const std::vector<float> sums = download(rank, in_place ? of.send : of.receive, count);
      uint64_t wrong = 0;
      for (uint64_t i = 0; i < count; ++i) {
        float sum = 0;
        for (uint32_t other = 0; other < world(); ++other) sum += value_of(other, i, seed);
        wrong += sums[i] == sum ? 0 : 1;
      }
      EXPECT_EQ(wrong, 0u) << "rank " << rank << ", " << count << " elements"
                           << (in_place ? ", in place" : "");
    }
  }
  Json explain(uint32_t rank) {
    std::string text(1 << 16, '\0');
    uint64_t size = text.size();
    EXPECT_KEEL_OK(keel_comm_explain(ranks_[rank].comm, text.data(), &size));
    return Json::parse(text.c_str(), nullptr, /*allow_exceptions=*/false);
  }

  std::vector<Rank> ranks_;
};

// Edges of a window, of a share and of all windows in flight, and odd counts.
const std::vector<uint64_t> kCounts = {1,     1025,   4096,   16384,   16385,
                                       65536, 100003, 131072, 1048577, 1048576};

TEST_F(BridgeTest, UnequalPacesGiveTheSameSums) {
  std::vector<keel_device> devices;
  for (double rate : {1.0, 4.0, 2.0, 9.0}) devices.push_back(paced_chip(rate));
  for (size_t count = 2; count <= devices.size(); ++count) {
    connect({devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(count)}, 1 << 21);
    uint32_t seed = 0;
    // Twice: the first run has no rates; the second has rates, which change windows and shares.
    for (int turn = 0; turn < 2; ++turn) {
      for (uint64_t elements : kCounts) {
        ++seed;
        check_sums(elements, seed, seed % 2 == 0);
      }
    }
    disconnect();
  }
}

TEST_F(BridgeTest, ChipsAndProcessorsTogether) {
  std::vector<keel_device> devices = load("cpu", {{"devices", "2"}});
  ASSERT_EQ(devices.size(), 2u);
  devices.insert(devices.begin() + 1, paced_chip(0.5));
  devices.push_back(paced_chip(2));
  auto vulkan = load("vulkan");
  if (!vulkan.empty()) devices.push_back(vulkan[0]);
  // The default, and small chunks, which give windows of the smallest size.
  for (uint64_t chunk_bytes : {0, 4096, 4160}) {
    connect(devices, 1 << 21, chunk_bytes);
    uint32_t seed = 0;
    for (uint64_t elements : kCounts) {
      if (chunk_bytes != 0 && elements > 131072) continue;
      ++seed;
      check_sums(elements, seed, seed % 2 == 0);
    }
    disconnect();
  }
}

TEST_F(BridgeTest, OtherOperationsGoByTheSameWindows) {
  std::vector<keel_device> devices = {paced_chip(1), paced_chip(5)};
  devices.push_back(load("cpu", {{"devices", "1"}})[0]);
  constexpr uint64_t kCount = 300'007;
  connect(devices, kCount * devices.size());
  for (uint32_t turn = 0; turn < 3; ++turn) {
    fill(kCount * world(), turn);
    for (const Rank& of : ranks_) {
      ASSERT_KEEL_OK(keel_reduce_scatter(of.comm, of.send, of.receive, kCount, KEEL_FLOAT32,
                                         KEEL_SUM, of.stream));
    }
    for (uint32_t rank = 0; rank < world(); ++rank) {
      const std::vector<float> sums = download(rank, ranks_[rank].receive, kCount);
      uint64_t wrong = 0;
      for (uint64_t i = 0; i < kCount; ++i) {
        float sum = 0;
        for (uint32_t other = 0; other < world(); ++other) {
          sum += value_of(other, rank * kCount + i, turn);
        }
        wrong += sums[i] == sum ? 0 : 1;
      }
      EXPECT_EQ(wrong, 0u) << "reduce_scatter, rank " << rank;
    }
    for (const Rank& of : ranks_) {
      ASSERT_KEEL_OK(
          keel_all_gather(of.comm, of.send, of.receive, kCount, KEEL_FLOAT32, of.stream));
    }
    for (uint32_t rank = 0; rank < world(); ++rank) {
      const std::vector<float> all = download(rank, ranks_[rank].receive, kCount * world());
      uint64_t wrong = 0;
      for (uint64_t i = 0; i < all.size(); ++i) {
        wrong += all[i] == value_of(static_cast<uint32_t>(i / kCount), i % kCount, turn) ? 0 : 1;
      }
      EXPECT_EQ(wrong, 0u) << "all_gather, rank " << rank;
    }
    for (const Rank& of : ranks_) {
      ASSERT_KEEL_OK(keel_reduce(of.comm, of.send, of.receive, kCount, KEEL_FLOAT32, KEEL_SUM,
                                 /*root=*/turn, of.stream));
    }
    const std::vector<float> sums = download(turn, ranks_[turn].receive, kCount);
    for (const Rank& of : ranks_) ASSERT_KEEL_OK(keel_stream_synchronize(of.stream, kTestTimeout));
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < kCount; ++i) {
      float sum = 0;
      for (uint32_t other = 0; other < world(); ++other) sum += value_of(other, i, turn);
      wrong += sums[i] == sum ? 0 : 1;
    }
    EXPECT_EQ(wrong, 0u) << "reduce to rank " << turn;
  }
}

// Later operations do not reset the counters.
TEST_F(BridgeTest, WhatMessagesMovedStaysCounted) {
  constexpr uint64_t kCount = 1 << 16;
  connect({paced_chip(4), paced_chip(4)}, kCount);
  fill(kCount, 1);
  const Rank& from = ranks_[0];
  const Rank& to = ranks_[1];
  ASSERT_KEEL_OK(keel_send(from.comm, from.send, kCount, KEEL_FLOAT32, 1, from.stream));
  ASSERT_KEEL_OK(keel_recv(to.comm, to.receive, kCount, KEEL_FLOAT32, 0, to.stream));
  for (uint32_t rank = 0; rank < world(); ++rank) ASSERT_KEEL_OK(all_reduce(rank, kCount));
  for (uint32_t rank = 0; rank < world(); ++rank) {
    ASSERT_KEEL_OK(keel_stream_synchronize(ranks_[rank].stream, kTestTimeout));
    auto stats = KEEL_STRUCT_INIT(keel_comm_stats, KEEL_STRUCT_COMM_STATS);
    ASSERT_KEEL_OK(keel_comm_stats_get(ranks_[rank].comm, &stats));
    constexpr uint64_t kBytes = kCount * sizeof(float);
    EXPECT_EQ(stats.bytes_to_host, kBytes + (rank == 0 ? kBytes : 0));
    EXPECT_EQ(stats.bytes_to_device, kBytes + (rank == 1 ? kBytes : 0));
  }
}

TEST_F(BridgeTest, AllRanksTellOfTheSamePlan) {
  connect({paced_chip(0.5), paced_chip(0.5), paced_chip(4)}, 1 << 21);
  EXPECT_TRUE(explain(0)["last"].is_null());
  // The first operation measures the rates, the second distributes them, the third uses them.
  for (uint32_t seed = 0; seed < 3; ++seed) check_sums(1 << 21, seed, false);
  std::vector<Json> all;
  for (uint32_t rank = 0; rank < world(); ++rank) all.push_back(explain(rank));
  for (uint32_t rank = 0; rank < world(); ++rank) {
    const Json& told = all[rank];
    ASSERT_TRUE(told.is_object());
    EXPECT_EQ(told["path"], "bridge");
    EXPECT_EQ(told["islands"].size(), 3u);
    EXPECT_EQ(told["islands"][rank]["ranks"], Json({rank}));
    const Json& last = told["last"];
    EXPECT_EQ(last["operation"], "all_reduce");
    EXPECT_EQ(last["bytes"], 8 << 20);
    EXPECT_EQ(last["link_bytes"]["out"], 8 << 20);
    EXPECT_EQ(last["link_bytes"]["in"], 8 << 20);
    EXPECT_GT(last["chunks_in_flight"], 2);
    EXPECT_GT(last["measured_ms"], 0);
    for (const char* key : {"steps", "step_bytes", "chunks_in_flight", "links_gb_per_s", "shares",
                            "bound_ms", "predicted_ms"}) {
      EXPECT_EQ(last[key], all[0]["last"][key]) << key;
    }
    // 8 MiB at 0.5 GB/s. The chip's own clock measures the rate, so that a loaded machine measures
    // a correct rate as well, and never a faster one.
    EXPECT_GE(last["bound_ms"], 16.7);
    EXPECT_GE(last["predicted_ms"], last["bound_ms"]);
    for (const Json& link : last["links_gb_per_s"]) {
      EXPECT_GT(link["out"], 0);
      EXPECT_GT(link["in"], 0);
      EXPECT_LE(link["out"], 4.1);
    }
    // The machine determines the rates, so the test only requires that the slowest rank reduces at
    // most as much as the fastest.
    double sum = 0;
    for (const Json& share : last["shares"]) sum += share.get<double>();
    EXPECT_NEAR(sum, 1, 1e-3);
  }
}

// ---- failures --------------------------------------------------------------------

TEST_F(BridgeTest, ADeviceThatIsLostHalfWayIsNamedByAllRanks) {
  // The first copy belongs to fill(); the next four prefetch.
  std::vector<keel_device> devices = {paced_chip(1), paced_chip(1, {{"faults", "lose:copy@12"}}),
                                      paced_chip(1)};
  connect(devices, 1 << 22);
  fill(1 << 22, 1);
  for (uint32_t rank = 0; rank < world(); ++rank) {
    ASSERT_KEEL_OK(all_reduce(rank, 1 << 22));
  }
  for (uint32_t rank = 0; rank < world(); ++rank) {
    EXPECT_NE(keel_stream_synchronize(ranks_[rank].stream, kTestTimeout), KEEL_OK);
    const std::string text = keel_last_error();
    // The stream of the lost device reports only the loss of the device.
    EXPECT_NE(text.find(rank == 1 ? "is lost" : "rank 1"), std::string::npos) << text;
    EXPECT_NE(keel_comm_async_error(ranks_[rank].comm), KEEL_OK);
    const std::string error = keel_last_error();
    EXPECT_NE(error.find("rank 1"), std::string::npos) << error;
  }
}

// The call has returned the failure: the memory is the caller's again.
TEST_F(BridgeTest, AMessageWhoseStreamTakesNoEventMovesNoData) {
  constexpr uint64_t kCount = 20'000;  // too large to be buffered
  constexpr float kBefore = 5;
  for (const bool sends : {false, true}) {
    // Rank 1's call finds work that has not ended, and records an event behind it.
    connect({paced_chip(1), paced_chip(1, {{"faults", "stall:fill@1=200,refuse:record@1"}})},
            kCount);
    const Rank& one = ranks_[0];
    const Rank& other = ranks_[1];
    const Rank& receiver = sends ? one : other;
    for (const Rank& rank : ranks_) {
      ASSERT_KEEL_OK(keel_fill(rank.stream, rank.receive, &kBefore, 4, kCount * 4));
    }
    const auto call = [&](const Rank& rank, bool is_send, uint32_t peer) {
      return is_send ? keel_send(rank.comm, rank.send, kCount, KEEL_FLOAT32, peer, rank.stream)
                     : keel_recv(rank.comm, rank.receive, kCount, KEEL_FLOAT32, peer, rank.stream);
    };
    EXPECT_NE(call(other, sends, 0), KEEL_OK);
    const std::string text = keel_last_error();
    EXPECT_NE(text.find("injected refusal of record 1"), std::string::npos) << text;
    ASSERT_KEEL_OK(call(one, !sends, 1));
    EXPECT_FAILS(KEEL_RANK_FAILED, "was refused there",
                 keel_stream_synchronize(one.stream, kTestTimeout));
    EXPECT_KEEL_OK(keel_stream_recover(one.stream, kTestTimeout));
    const auto rank = static_cast<uint32_t>(&receiver - ranks_.data());
    EXPECT_EQ(download(rank, receiver.receive, kCount), std::vector<float>(kCount, kBefore));
    disconnect();
  }
}

TEST_F(BridgeTest, ADeviceThatHangsHalfWayIsNamedAtTheDeadline) {
  constexpr int64_t kShort = kSecond;
  std::vector<keel_device> devices = {paced_chip(2), paced_chip(2),
                                      paced_chip(2, {{"faults", "stall:copy@12=3000"}})};
  connect(devices, 1 << 22, /*chunk_bytes=*/0, kShort);
  fill(1 << 22, 1);
  for (uint32_t rank = 0; rank < world(); ++rank) {
    ASSERT_KEEL_OK(all_reduce(rank, 1 << 22));
  }
  for (uint32_t rank = 0; rank < world(); ++rank) {
    EXPECT_EQ(keel_stream_synchronize(ranks_[rank].stream, kTestTimeout), KEEL_TIMED_OUT);
    const std::string text = keel_last_error();
    // The rank with the stalled device reports its own deadline; the rest name rank 2.
    EXPECT_NE(text.find(rank == 2 ? "the deadline" : "rank 2"), std::string::npos) << text;
    EXPECT_EQ(keel_comm_async_error(ranks_[rank].comm), KEEL_TIMED_OUT);
    const std::string error = keel_last_error();
    EXPECT_NE(error.find("rank 2"), std::string::npos) << error;
  }
}

TEST_F(BridgeTest, AMismatchLeavesTheWindowsToTheNext) {
  connect({paced_chip(1), paced_chip(3)}, 1 << 20);
  fill(1 << 20, 1);
  ASSERT_KEEL_OK(all_reduce(0, 1 << 20));
  ASSERT_KEEL_OK(all_reduce(1, (1 << 20) - 1));
  for (uint32_t rank = 0; rank < world(); ++rank) {
    EXPECT_EQ(keel_stream_synchronize(ranks_[rank].stream, kTestTimeout), KEEL_INVALID_ARGUMENT);
    EXPECT_KEEL_OK(keel_stream_recover(ranks_[rank].stream, kTestTimeout));
  }
  check_sums(100'001, 2, false);
}

}  // namespace
}  // namespace keel::testing

// SPDX-License-Identifier: Apache-2.0
// Urgent communicators: they overtake; normal communicators yield and still progress.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

constexpr uint64_t kLarge = 2 << 20;  // float32: 8 MiB, several rounds of every kind
constexpr uint64_t kSmall = 2048;     // 8 KiB

keel_comm_options with_priority(keel_comm_priority priority) {
  keel_comm_options options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
  options.priority = priority;
  return options;
}

class PriorityTest : public KeelTest {
 protected:
  // The ranks of a communicator, each with a stream and a buffer of ones.
  struct Lane {
    std::vector<keel_device> devices;
    std::vector<keel_comm> comms;
    std::vector<keel_stream> streams;
    std::vector<void*> data;
    uint64_t count = 0;
  };

  Lane make_lane(const std::vector<keel_device>& devices, keel_comm_priority priority,
                 uint64_t count) {
    std::vector<keel_comm> comms(devices.size());
    const keel_comm_options options = with_priority(priority);
    EXPECT_KEEL_OK(keel_comm_init_all(devices.data(), static_cast<uint32_t>(devices.size()),
                                      &options, comms.data()));
    return make_lane(devices, comms, count);
  }
  Lane make_lane(const std::vector<keel_device>& devices, const std::vector<keel_comm>& comms,
                 uint64_t count) {
    Lane lane = {devices, comms, {}, {}, count};
    const float one = 1;
    for (keel_device device : devices) {
      lane.streams.push_back(new_stream(device));
      lane.data.push_back(alloc(device, count * sizeof(float)));
      EXPECT_KEEL_OK(
          keel_fill(lane.streams.back(), lane.data.back(), &one, sizeof(one), count * sizeof(one)));
      EXPECT_KEEL_OK(keel_stream_synchronize(lane.streams.back(), kTestTimeout));
    }
    return lane;
  }
  static void reduce(const Lane& lane, uint32_t rank) {
    EXPECT_KEEL_OK(keel_all_reduce(lane.comms[rank], lane.data[rank], lane.data[rank], lane.count,
                                   KEEL_FLOAT32, KEEL_SUM, lane.streams[rank]));
  }
  static void reduce(const Lane& lane) {
    for (uint32_t rank = 0; rank < lane.comms.size(); ++rank) reduce(lane, rank);
  }
  static void synchronize(const Lane& lane) {
    for (keel_stream stream : lane.streams) {
      EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
    }
  }
  // Checks every rank's elements against |value|.
  void expect(const Lane& lane, float value) {
    uint32_t word = 0;
    std::memcpy(&word, &value, sizeof(word));
    for (uint32_t rank = 0; rank < lane.comms.size(); ++rank) {
      const std::vector<uint32_t> words = read(lane.devices[rank], lane.data[rank], lane.count);
      EXPECT_EQ(std::count(words.begin(), words.end(), word),
                static_cast<std::ptrdiff_t>(lane.count))
          << "rank " << rank;
    }
  }
  static uint64_t preempted(const Lane& lane) {
    uint64_t times = 0;
    for (keel_comm comm : lane.comms) {
      auto stats = KEEL_STRUCT_INIT(keel_comm_stats, KEEL_STRUCT_COMM_STATS);
      EXPECT_KEEL_OK(keel_comm_stats_get(comm, &stats));
      times += stats.preempted;
    }
    return times;
  }
  // Runs |call| for each rank on a separate thread, since it blocks until all ranks have called.
  static void on_all_ranks(uint32_t world, const std::function<void(uint32_t)>& call) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < world; ++rank) threads.emplace_back(call, rank);
    for (std::thread& thread : threads) thread.join();
  }
};

class OvertakingTest : public PriorityTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(OvertakingTest, ASmallOperationPassesTheLargeOnesCalledBefore) {
  const std::vector<keel_device> devices = load(GetParam(), {{"devices", "2"}});
  const Lane large = make_lane(devices, KEEL_COMM_NORMAL, kLarge);
  std::vector<keel_comm> comms(2);
  on_all_ranks(2, [&](uint32_t rank) {
    const keel_comm_options urgent = with_priority(KEEL_COMM_URGENT);
    EXPECT_KEEL_OK(keel_comm_duplicate(large.comms[rank], &urgent, &comms[rank]));
  });
  const Lane small = make_lane(devices, comms, kSmall);
  // Three operations under way, and a fourth that rank 1 joins only after the urgent operation.
  for (int i = 0; i < 3; ++i) reduce(large);
  reduce(large, 0);
  reduce(small);
  synchronize(small);
  EXPECT_EQ(KEEL_NOT_READY, keel_stream_query(large.streams[0]));
  reduce(large, 1);
  synchronize(large);
  expect(small, 2);
  expect(large, 16);
}

TEST_P(OvertakingTest, EveryKindOfTrafficGoesOnBesideUrgentOperations) {
  const std::vector<keel_device> devices = load(GetParam(), {{"devices", "2"}});
  const Lane large = make_lane(devices, KEEL_COMM_NORMAL, kLarge);
  const Lane small = make_lane(devices, KEEL_COMM_URGENT, kSmall);
  const Lane results = make_lane(devices, large.comms, kLarge);
  const auto call = [&](uint32_t kind, uint32_t rank) {
    const keel_comm comm = large.comms[rank];
    const keel_stream stream = large.streams[rank];
    const char* const send = static_cast<const char*>(large.data[rank]);
    void* const receive = results.data[rank];
    switch (kind) {
      case 0:
        return keel_all_gather(comm, send, receive, kLarge / 2, KEEL_FLOAT32, stream);
      case 1:
        return keel_reduce_scatter(comm, send, receive, kLarge / 2, KEEL_FLOAT32, KEEL_MAX, stream);
      case 2:
        return keel_broadcast(comm, send, receive, kLarge, KEEL_FLOAT32, 1, stream);
      case 3:
        return keel_all_to_all(comm, send, receive, kLarge / 2, KEEL_FLOAT32, stream);
      default:
        return keel_send_recv(comm, send, kLarge, 1 - rank, receive, kLarge, 1 - rank, KEEL_FLOAT32,
                              stream);
    }
  };
  for (uint32_t kind = 0; kind < 5; ++kind) {
    for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_KEEL_OK(call(kind, rank));
    for (int i = 0; i < 20; ++i) {
      reduce(small);
      synchronize(small);
    }
    synchronize(large);
    expect(results, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(, OvertakingTest, ::testing::Values("cpu", "sim"),
                         [](const auto& info) { return std::string(info.param); });

// An urgent operation that stops for as long as the test needs: its device is paused. A large
// operation, since eager data is complete before the match.
class GivingWayTest : public PriorityTest {
 protected:
  void SetUp() override {
    PriorityTest::SetUp();
    large_ = make_lane(load("cpu", {{"devices", "2"}}), KEEL_COMM_NORMAL, kLarge);
    held_ =
        make_lane(load("fake", {{"devices", "2"}, {"no_alias", "1"}}), KEEL_COMM_URGENT, kLarge);
    reduce(held_);
    synchronize(held_);
  }
  // Runs large operations until one yields to an urgent operation called by all ranks.
  void run_until_given_way() {
    const uint64_t before = preempted(large_);
    while (preempted(large_) == before) {
      reduce(large_);
      synchronize(large_);
      if (HasFailure()) return;
    }
  }

  Lane large_;
  Lane held_;
};

TEST_F(GivingWayTest, NobodyIsKeptFromGoingOnForGood) {
  {
    const FakePause pause;
    reduce(held_);
    // Returns: each large operation ends before the urgent operation to which it yields.
    run_until_given_way();
    for (keel_stream stream : held_.streams) EXPECT_EQ(KEEL_NOT_READY, keel_stream_query(stream));
  }
  synchronize(held_);
  expect(held_, 4);
  // The urgent operation is forgotten once all ranks have completed it.
  const uint64_t before = preempted(large_);
  reduce(large_);
  synchronize(large_);
  EXPECT_EQ(preempted(large_), before);
}

TEST_F(GivingWayTest, NobodyGivesWayToWhatNotAllRanksHaveCalled) {
  {
    const FakePause pause;
    reduce(held_, 0);
    for (int i = 0; i < 5; ++i) {
      reduce(large_);
      synchronize(large_);
    }
    EXPECT_EQ(preempted(large_), 0u);
    reduce(held_, 1);
    run_until_given_way();
  }
  synchronize(held_);
}

TEST_F(GivingWayTest, AnAbortFreesThoseThatGaveWay) {
  {
    const FakePause pause;
    reduce(held_);
    run_until_given_way();
    EXPECT_KEEL_OK(keel_comm_abort(held_.comms[1]));
    const uint64_t before = preempted(large_);
    reduce(large_);
    synchronize(large_);
    EXPECT_EQ(preempted(large_), before);
  }
  // The work on the device at the time of the pause may have completed.
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const keel_status status = keel_stream_synchronize(held_.streams[rank], kTestTimeout);
    EXPECT_TRUE(status == KEEL_OK || status == KEEL_ABORTED) << keel_last_error();
    EXPECT_EQ(KEEL_ABORTED, keel_comm_async_error(held_.comms[rank]));
  }
}

TEST_F(GivingWayTest, UrgentOnesGiveWayToNobody) {
  const Lane other = make_lane(large_.devices, KEEL_COMM_URGENT, kLarge);
  {
    const FakePause pause;
    reduce(held_);
    run_until_given_way();
    reduce(other);
    synchronize(other);
    EXPECT_EQ(preempted(other), 0u);
  }
  synchronize(held_);
}

// ---- the option -----------------------------------------------------------------

TEST_F(PriorityTest, AnUnknownOneIsRefused) {
  const std::vector<keel_device> devices = load("cpu", {{"devices", "1"}});
  keel_comm comm;
  const keel_comm_options options = with_priority(2);
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "options.priority is 2",
               keel_comm_init_all(devices.data(), 1, &options, &comm));
}

TEST_F(PriorityTest, ExplainTellsIt) {
  const std::vector<keel_device> devices = load("cpu", {{"devices", "1"}});
  for (const auto& [priority, text] : {std::pair{KEEL_COMM_NORMAL, "\"priority\": \"normal\""},
                                       std::pair{KEEL_COMM_URGENT, "\"priority\": \"urgent\""}}) {
    const Lane lane = make_lane(devices, priority, 1);
    std::string found(4096, '\0');
    uint64_t size = found.size();
    EXPECT_KEEL_OK(keel_comm_explain(lane.comms[0], found.data(), &size));
    EXPECT_NE(found.find(text), std::string::npos) << found;
  }
}

TEST_F(PriorityTest, RanksThatDifferAreNamed) {
  const std::vector<keel_device> devices = load("cpu", {{"devices", "3"}});
  keel_unique_id id;
  ASSERT_KEEL_OK(keel_unique_id_create(&id));
  on_all_ranks(3, [&](uint32_t rank) {
    const keel_comm_options options =
        with_priority(rank == 1 ? KEEL_COMM_URGENT : KEEL_COMM_NORMAL);
    keel_comm comm;
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT,
                 "options.priority differs: urgent at rank 1, normal at ranks 0, 2",
                 keel_comm_init_rank(devices[rank], &id, rank, 3, &options, &comm));
  });
}

TEST_F(PriorityTest, APartOfRanksThatDifferIsRefusedAndTheOtherIsMade) {
  const std::vector<keel_device> devices = load("cpu", {{"devices", "4"}});
  const Lane whole = make_lane(devices, KEEL_COMM_NORMAL, 1);
  on_all_ranks(4, [&](uint32_t rank) {
    // Ranks 0 and 2 agree; ranks 1 and 3, in their part 0 and 1, do not.
    const keel_comm_options options =
        with_priority(rank == 3 ? KEEL_COMM_NORMAL : KEEL_COMM_URGENT);
    keel_comm part = {};
    const auto split = [&] {
      return keel_comm_split(whole.comms[rank], static_cast<int32_t>(rank % 2), 0, &options, &part);
    };
    if (rank % 2 == 0) {
      EXPECT_KEEL_OK(split());
      EXPECT_KEEL_OK(keel_comm_destroy(part));
    } else {
      EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "urgent at rank 0, normal at rank 1", split());
    }
  });
  reduce(whole);
  synchronize(whole);
  expect(whole, 4);
}

}  // namespace
}  // namespace keel::testing

// SPDX-License-Identifier: Apache-2.0
#include "emulator/ccl/communicator.h"

#include <atomic>
#include <functional>
#include <thread>

#include "emulator/testing/emulator_test.h"

namespace keel::emulator::ccl {
namespace {

class CclTest : public EmulatorTest {
 protected:
  // Creates ranks, each on its own device, the last with |faults|.
  void meet(uint32_t world, const std::string& faults = "", TypeSet types = kUsualTypes) {
    const UniqueId id = Clique::make_id();
    ranks_.resize(world);
    for (uint32_t rank = 0; rank < world; ++rank) {
      if (computes_) {
        devices_.push_back(make_faulty(rank + 1 == world ? faults : "", rank));
      } else {
        DeviceOptions options;
        options.index = rank;
        options.computes = false;
        devices_.push_back(make_device(options));
      }
      streams_.push_back(make_stream(devices_[rank]));
    }
    each_rank([&](uint32_t rank) {
      expect_ok(Communicator::create(id, devices_[rank], rank, world, test_timeout(), types,
                                     &ranks_[rank]));
    });
  }
  void TearDown() override {
    ranks_.clear();
    streams_.clear();
  }
  uint32_t world() const { return static_cast<uint32_t>(ranks_.size()); }
  void each_rank(const std::function<void(uint32_t)>& work) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      threads.emplace_back([&work, rank] { work(rank); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  Address filled(uint32_t rank, const std::vector<uint32_t>& words) {
    const Address address = alloc(*devices_[rank], words.size() * 4);
    write(*streams_[rank], address, words);
    return address;
  }
  Status run(uint32_t rank, const Call& call) {
    return ranks_[rank]->run(*streams_[rank], {&call, 1});
  }
  std::vector<uint32_t> result(uint32_t rank, Address address, size_t words) {
    return read(*streams_[rank], address, words);
  }
  static Call call(Collective collective, Address send, Address receive, uint64_t count) {
    Call made;
    made.collective = collective;
    made.type = Type::kUint32;
    made.send = send;
    made.receive = receive;
    made.count = count;
    return made;
  }

  bool computes_ = true;
  std::vector<std::shared_ptr<Device>> devices_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Communicator>> ranks_;
};

TEST_F(CclTest, WithoutArithmeticASumIsPoisonAndAGatherIsMoved) {
  computes_ = false;
  meet(2);
  for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather}) {
    Address received[2] = {};
    for (uint32_t rank = 0; rank < 2; ++rank) {
      const Address sent = filled(rank, {rank + 1});
      received[rank] = filled(rank, {0, 0});
      expect_ok(run(rank, call(collective, sent, received[rank], 1)));
    }
    const bool sums = collective == Collective::kAllReduce;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(result(rank, received[rank], 2),
                (sums ? std::vector<uint32_t>{0xffffffff, 0} : std::vector<uint32_t>{1, 2}));
    }
  }
}

TEST_F(CclTest, MovesAndReducesWhatIsOnTheDevices) {
  meet(3);
  using Words = std::vector<uint32_t>;
  struct Expected {
    Collective collective;
    uint64_t send;  // elements
    uint64_t count;
    Words results[3];
  };
  // Rank r sends r * 10, r * 10 + 1, ...
  const Expected all[] = {
      {Collective::kAllReduce, 2, 2, {{30, 33}, {30, 33}, {30, 33}}},
      {Collective::kReduce, 2, 2, {{7, 7}, {30, 33}, {7, 7}}},
      {Collective::kBroadcast, 2, 2, {{10, 11}, {10, 11}, {10, 11}}},
      {Collective::kAllGather, 1, 1, {{0, 10, 20}, {0, 10, 20}, {0, 10, 20}}},
      {Collective::kReduceScatter, 3, 1, {{30}, {33}, {36}}},
      {Collective::kAllToAll, 3, 1, {{0, 10, 20}, {1, 11, 21}, {2, 12, 22}}},
  };
  for (const Expected& expected : all) {
    Address receive[3];
    for (uint32_t rank = 0; rank < 3; ++rank) {
      Words words;
      for (uint32_t i = 0; i < expected.send; ++i) words.push_back(rank * 10 + i);
      receive[rank] = filled(rank, Words(expected.results[rank].size(), 7));
      Call made = call(expected.collective, filled(rank, words), receive[rank], expected.count);
      made.root = 1;
      expect_ok(run(rank, made));
    }
    for (uint32_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(result(rank, receive[rank], expected.results[rank].size()), expected.results[rank])
          << static_cast<int>(expected.collective) << ", rank " << rank;
    }
  }
}

TEST_F(CclTest, InPlaceAndOneAfterTheOther) {
  meet(2);
  const Address data[2] = {filled(0, {1, 2, 3}), filled(1, {10, 20, 30})};
  for (uint32_t round = 0; round < 20; ++round) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      expect_ok(run(rank, call(Collective::kAllReduce, data[rank], data[rank], 3)));
    }
  }
  for (uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(result(rank, data[rank], 3),
              (std::vector<uint32_t>{11u << 19, 22u << 19, 33u << 19}));
  }
}

TEST_F(CclTest, PartsOfTheRanksAreCommunicators) {
  meet(4);
  // Ranks 3 and 1 together, in this order; rank 2 alone; rank 0 in no part.
  const int32_t colors[] = {-1, 5, 0, 5};
  const int32_t keys[] = {0, 2, 0, 1};
  std::unique_ptr<Communicator> parts[4];
  each_rank([&](uint32_t rank) {
    expect_ok(ranks_[rank]->split(colors[rank], keys[rank], test_timeout(), &parts[rank]));
  });
  EXPECT_EQ(parts[0], nullptr);
  ASSERT_NE(parts[2], nullptr);
  EXPECT_EQ(parts[2]->world(), 1u);
  ASSERT_NE(parts[1], nullptr);
  ASSERT_NE(parts[3], nullptr);
  ranks_.clear();  // the parts outlive the original communicator
  Address data[4] = {};
  for (const uint32_t rank : {1u, 3u}) {
    EXPECT_EQ(parts[rank]->world(), 2u);
    data[rank] = filled(rank, {rank, 7});
    const Call made = call(Collective::kAllGather, data[rank], data[rank], 1);
    expect_ok(parts[rank]->run(*streams_[rank], {&made, 1}));
  }
  for (const uint32_t rank : {1u, 3u}) {
    EXPECT_EQ(result(rank, data[rank], 2), (std::vector<uint32_t>{3, 1})) << rank;
  }
  ranks_.resize(4);
}

TEST_F(CclTest, ASplitThatNotAllCallEnds) {
  meet(2);
  std::unique_ptr<Communicator> part;
  const Status late = ranks_[0]->split(0, 0, Clock::now() + std::chrono::milliseconds(20), &part);
  EXPECT_EQ(late.code(), Code::kTimedOut) << late.text();
  EXPECT_EQ(part, nullptr);
  std::thread aborting([&] { ranks_[1]->abort(); });
  const Status given_up = ranks_[1]->split(0, 0, test_timeout(), &part);
  EXPECT_FALSE(given_up.ok());
  aborting.join();
}

TEST_F(CclTest, ASplitAgainstAnotherCallFails) {
  meet(2);
  const Address data = filled(1, {1});
  expect_ok(run(1, call(Collective::kAllReduce, data, data, 1)));
  std::unique_ptr<Communicator> part;
  const Status status = ranks_[0]->split(0, 0, test_timeout(), &part);
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.text();
  EXPECT_EQ(part, nullptr);
}

// Each rank sends to all ranks, itself included, in one group whose order would deadlock sequential
// messages.
TEST_F(CclTest, MessagesOfAGroupGoOnTogether) {
  meet(3);
  Address receive[3];
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const Address send = filled(rank, {rank * 10, rank * 10 + 1, rank * 10 + 2});
    receive[rank] = filled(rank, {7, 7, 7});
    std::vector<Call> calls;
    for (const Collective collective : {Collective::kReceive, Collective::kSend}) {
      for (uint32_t peer = 0; peer < 3; ++peer) {
        Call one = call(collective, send + peer * 4, receive[rank] + peer * 4, 1);
        one.root = peer;
        calls.push_back(one);
      }
    }
    expect_ok(ranks_[rank]->run(*streams_[rank], calls));
  }
  for (uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(result(rank, receive[rank], 3), (std::vector<uint32_t>{rank, 10 + rank, 20 + rank}));
  }
}

// Two ranks of three exchange several messages; the third rank does not take part.
TEST_F(CclTest, AMessageIsOfTwoRanksAlone) {
  meet(3);
  const Address send = filled(0, {1, 2, 3, 4});
  const Address receive = filled(2, {7, 7, 7, 7});
  for (uint32_t i = 0; i < 4; ++i) {
    Call sent = call(Collective::kSend, send + i * 4, 0, 1);
    sent.root = 2;
    expect_ok(run(0, sent));
  }
  for (uint32_t i = 0; i < 4; ++i) {
    expect_ok(run(2, call(Collective::kReceive, 0, receive + (3 - i) * 4, 1)));
  }
  EXPECT_EQ(result(2, receive, 4), (std::vector<uint32_t>{4, 3, 2, 1}));
  const Address all[3] = {filled(0, {1}), filled(1, {2}), filled(2, {3})};
  for (uint32_t rank = 0; rank < 3; ++rank) {
    expect_ok(run(rank, call(Collective::kAllReduce, all[rank], all[rank], 1)));
  }
  for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_EQ(result(rank, all[rank], 1)[0], 6u);
}

TEST_F(CclTest, AMessageThatDoesNotFitFailsAtBothEnds) {
  meet(2);
  Call sent = call(Collective::kSend, filled(0, {1, 2}), 0, 2);
  sent.root = 1;
  expect_ok(run(0, sent));
  const Address receive = filled(1, {7, 7});
  expect_ok(run(1, call(Collective::kReceive, 0, receive, 1)));
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const char* const text = "rank 1 receives something else than rank 0 sends";
    expect_fails(Code::kInvalidArgument, text, streams_[rank]->synchronize(test_timeout()));
    expect_fails(Code::kInvalidArgument, text, ranks_[rank]->async_error());
  }
}

TEST_F(CclTest, EnqueueingReturnsBeforeTheOthersHaveCalled) {
  meet(2);
  const Address data[2] = {filled(0, {1}), filled(1, {2})};
  expect_ok(run(0, call(Collective::kAllReduce, data[0], data[0], 1)));
  EXPECT_EQ(streams_[0]->query().code(), Code::kNotReady);
  expect_ok(run(1, call(Collective::kAllReduce, data[1], data[1], 1)));
  EXPECT_EQ(result(0, data[0], 1), std::vector<uint32_t>{3});
  EXPECT_EQ(result(1, data[1], 1), std::vector<uint32_t>{3});
}

TEST_F(CclTest, WhatTheChipHasNotIsRefused) {
  meet(2);
  Call made = call(Collective::kAllReduce, 0, 0, 1);
  made.type = Type::kFloat64;
  expect_fails(Code::kUnsupported, "no float64", run(0, made));
  made = call(Collective::kBroadcast, 0, 0, 1);
  made.root = 2;
  expect_fails(Code::kInvalidArgument, "root 2 of 2", run(0, made));
  expect_fails(Code::kInvalidArgument, "the rank is on", ranks_[0]->run(*streams_[1], {&made, 1}));
}

TEST_F(CclTest, CallsThatDoNotFitFailEverywhere) {
  meet(2);
  const Address data[2] = {filled(0, {1, 1}), filled(1, {2, 2})};
  expect_ok(run(0, call(Collective::kAllReduce, data[0], data[0], 1)));
  expect_ok(run(1, call(Collective::kAllReduce, data[1], data[1], 2)));
  for (uint32_t rank = 0; rank < 2; ++rank) {
    expect_fails(Code::kInvalidArgument, "do not fit", streams_[rank]->synchronize(test_timeout()));
    expect_fails(Code::kInvalidArgument, "do not fit", ranks_[rank]->async_error());
  }
}

// ---- rendezvous -----------------------------------------------------------------

TEST_F(CclTest, ThoseWhoDoNotComeAreNamed) {
  const UniqueId id = Clique::make_id();
  const auto device = make_device();
  std::unique_ptr<Communicator> rank;
  expect_fails(Code::kTimedOut, "ranks 0, 2 did not come",
               Communicator::create(id, device, 1, 3, Clock::now(), kAllTypes, &rank));
  expect_fails(Code::kInvalidArgument, "used already",
               Communicator::create(id, device, 1, 3, Clock::now(), kAllTypes, &rank));
}

TEST_F(CclTest, BadMeetingsAreRefused) {
  const UniqueId id = Clique::make_id();
  const auto first = make_device();
  const auto second = make_device();
  std::unique_ptr<Communicator> rank;
  std::unique_ptr<Communicator> other;
  expect_fails(Code::kInvalidArgument, "rank 2 of 2",
               Communicator::create(id, first, 2, 2, test_timeout(), kAllTypes, &rank));
  // Two threads join as rank 0: one of them is refused.
  std::atomic<const Device*> waits{nullptr};
  std::unique_ptr<Communicator> zero[2];
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      const Status status = Communicator::create(id, i == 0 ? first : second, 0, 2, test_timeout(),
                                                 kAllTypes, &zero[i]);
      if (status.ok()) return;
      expect_fails(Code::kInvalidArgument, "rank 0 is there already", status);
      waits.store(i == 0 ? second.get() : first.get());
    });
  }
  while (waits.load() == nullptr) std::this_thread::yield();
  const auto there = waits.load() == first.get() ? first : second;
  const auto free = waits.load() == first.get() ? second : first;
  expect_fails(Code::kInvalidArgument, "a world of 3",
               Communicator::create(id, free, 1, 3, test_timeout(), kAllTypes, &other));
  expect_fails(Code::kInvalidArgument, "as rank 0",
               Communicator::create(id, there, 1, 2, test_timeout(), kAllTypes, &other));
  expect_ok(Communicator::create(id, free, 1, 2, test_timeout(), kAllTypes, &other));
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(zero[0] == nullptr, zero[1] == nullptr);
  UniqueId foreign = {};
  expect_fails(Code::kInvalidArgument, "none of this process",
               Communicator::create(foreign, first, 0, 1, test_timeout(), kAllTypes, &other));
}

// ---- failures ----------------------------------------------------------------

TEST_F(CclTest, AnAbortEndsWhatHangs) {
  meet(3);
  const Address data[3] = {filled(0, {1}), filled(1, {2}), filled(2, {3})};
  for (uint32_t rank = 0; rank < 2; ++rank) {  // the last rank never calls
    expect_ok(run(rank, call(Collective::kAllReduce, data[rank], data[rank], 1)));
  }
  ranks_[0]->abort();
  expect_fails(Code::kCancelled, "aborted", streams_[0]->synchronize(test_timeout()));
  expect_fails(Code::kUnavailable, "aborted",
               run(0, call(Collective::kAllReduce, data[0], data[0], 1)));
  // The other ranks keep hanging, and async_error() returns the reason.
  EXPECT_EQ(streams_[1]->query().code(), Code::kNotReady);
  expect_fails(Code::kUnavailable, "rank 0 has aborted", ranks_[1]->async_error());
  ranks_[1]->abort();
  expect_fails(Code::kCancelled, "aborted", streams_[1]->synchronize(test_timeout()));
}

TEST_F(CclTest, AnInjectedFailureHangsAndIsSaid) {
  meet(2, "fail:ccl@2");
  const Address data[2] = {filled(0, {1}), filled(1, {2})};
  for (uint32_t round = 0; round < 2; ++round) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      expect_ok(run(rank, call(Collective::kAllReduce, data[rank], data[rank], 1)));
    }
  }
  const Time until = test_timeout();
  while (ranks_[1]->async_error().ok() && Clock::now() < until) std::this_thread::yield();
  expect_fails(Code::kFailed, "emulated device 1: injected failure of ccl 2",
               ranks_[1]->async_error());
  EXPECT_EQ(streams_[1]->query().code(), Code::kNotReady);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ranks_[rank]->abort();
    expect_fails(Code::kCancelled, "aborted", streams_[rank]->synchronize(test_timeout()));
  }
}

TEST_F(CclTest, OtherFaultsAreTheChips) {
  meet(2, "refuse:ccl@1,corrupt:ccl@2,stall:ccl@3");
  const Address data[2] = {filled(0, {1}), filled(1, {2})};
  const auto both = [&] {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      expect_ok(run(rank, call(Collective::kAllReduce, data[rank], data[rank], 1)));
    }
  };
  expect_fails(Code::kUnavailable, "injected refusal of ccl 1",
               run(1, call(Collective::kAllReduce, data[1], data[1], 1)));
  both();
  EXPECT_EQ(result(0, data[0], 1), std::vector<uint32_t>{3});
  EXPECT_NE(result(1, data[1], 1), std::vector<uint32_t>{3});
  both();
  EXPECT_EQ(streams_[1]->query().code(), Code::kNotReady);
  for (const auto& rank : ranks_) rank->abort();
  for (const auto& stream : streams_) {
    expect_fails(Code::kCancelled, "aborted", stream->synchronize(test_timeout()));
  }
}

TEST_F(CclTest, ALostDeviceFailsItsOwnRankAndTheOthersOnceTheyAbort) {
  meet(2, "lose:ccl@1");
  const Address data[2] = {filled(0, {1}), filled(1, {2})};
  for (uint32_t rank = 0; rank < 2; ++rank) {
    (void)run(rank, call(Collective::kAllReduce, data[rank], data[rank], 1));
  }
  EXPECT_EQ(streams_[1]->synchronize(test_timeout()).code(), Code::kDeviceLost);
  ranks_[0]->abort();
  EXPECT_EQ(streams_[0]->synchronize(test_timeout()).code(), Code::kCancelled);
}

}  // namespace
}  // namespace keel::emulator::ccl

// SPDX-License-Identifier: Apache-2.0
// The C++ ways to a communicator: keel/communicators.hpp.
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <condition_variable>
#include <keel/communicators.hpp>
#include <keel/keel.hpp>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "collectives/testing/sum_of_ranks.h"
#include "core/testing/test_backend.h"

namespace keel::testing {
namespace {

using std::chrono::nanoseconds;

// A dictionary of the ranks of this process; throws where the test says so.
class Dictionary final : public Store {
 public:
  void set(const std::string& key, std::span<const std::byte> value, nanoseconds) override {
    const std::lock_guard lock(mutex_);
    if (throws_) throw std::runtime_error("the store is closed");
    values_[key].assign(value.begin(), value.end());
    changed_.notify_all();
  }
  std::optional<std::vector<std::byte>> get(const std::string& key, nanoseconds timeout) override {
    std::unique_lock lock(mutex_);
    const auto is_there = [&] { return values_.contains(key); };
    if (!changed_.wait_for(lock, timeout, is_there)) return std::nullopt;
    return values_[key];
  }
  void close() {
    const std::lock_guard lock(mutex_);
    throws_ = true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::vector<std::byte>> values_;
  bool throws_ = false;
};

class CommunicatorsHppTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kWorld = 2;

  void SetUp() override {
    ASSERT_EQ(init_test_devices(kWorld), KEEL_OK) << keel_last_error();
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      devices_.push_back(Device::find(test_device(rank)));
    }
  }
  void TearDown() override { EXPECT_EQ(keel_shutdown(), KEEL_OK) << keel_last_error(); }

  // Runs |act| once a rank, each on a thread.
  template <typename Act>
  void on_all(const Act& act) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kWorld; ++rank)
      threads.emplace_back([&act, rank] { act(rank); });
    for (std::thread& thread : threads) thread.join();
  }

  std::vector<Device> devices_;
};

TEST_F(CommunicatorsHppTest, FormWhileTheCallerGoesOn) {
  const keel_unique_id id = make_unique_id();
  const Communicator first = start(devices_[0], id, 0, kWorld);
  EXPECT_FALSE(is_ready(first));
  const Communicator second = start(devices_[1], id, 1, kWorld);
  wait_ready(first);
  wait_ready(second);
  EXPECT_TRUE(is_ready(first));
  EXPECT_EQ(second.rank(), 1u);
  EXPECT_EQ(second.world(), kWorld);
  EXPECT_NO_THROW(check_rank(first, 1));
}

TEST_F(CommunicatorsHppTest, WaitThatRunsOutThrowsAndTheFormationGoesOn) {
  const keel_unique_id id = make_unique_id();
  const Communicator first = start(devices_[0], id, 0, kWorld);
  try {
    wait_ready(first, nanoseconds(1));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), KEEL_TIMED_OUT);
  }
  const Communicator second = Communicator::join(devices_[1], id, 1, kWorld);
  wait_ready(first);
}

TEST_F(CommunicatorsHppTest, RanksMeetThroughAStoreAndShrink) {
  Dictionary store;
  std::barrier summed(kWorld);
  on_all([&](uint32_t rank) {
    Communicator comm = join(devices_[rank], store, "job", rank, kWorld);
    expect_sum_of_ranks(devices_[rank].get(), comm.get(), rank, 1000, 3);
    summed.arrive_and_wait();  // a shrink fails operations that other ranks have in flight
    EXPECT_EQ(survivors(comm).epoch, 1u);
    const Communicator left = shrink(comm);
    EXPECT_EQ(left.world(), kWorld);
    const Survivors of_left = survivors(left);
    EXPECT_EQ(of_left.ranks, (std::vector<uint32_t>{0, 1}));
    EXPECT_GT(of_left.epoch, 1u);
  });
}

TEST_F(CommunicatorsHppTest, ExceptionOfTheStoreReachesItsCaller) {
  Dictionary closed;
  closed.close();
  try {
    (void)join(devices_[0], closed, "job", 0, kWorld);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()), "the store is closed");
  }
}

}  // namespace
}  // namespace keel::testing

// SPDX-License-Identifier: Apache-2.0
// Handles used by one thread while another destroys them, through keel.h.
#include <array>
#include <atomic>
#include <random>
#include <thread>

#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

class HandleRaceTest : public KeelTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    KeelTest::SetUp();
    device_ = load(GetParam(), {{"devices", "1"}}).at(0);
  }
  keel_device device_ = {};
};

// Returns whether a call on a handle that may be destroyed meanwhile can return |status|.
bool is_expected(keel_status status) {
  return status == KEEL_OK || status == KEEL_NOT_READY || status == KEEL_INVALID_HANDLE ||
         status == KEEL_CANCELLED || status == KEEL_STREAM_FAILED ||
         status == KEEL_FAILED_PRECONDITION || status == KEEL_TIMED_OUT;
}

TEST_P(HandleRaceTest, UseAndDestructionAtOnce) {
  constexpr uint32_t kUsers = 3;
  constexpr uint32_t kCalls = 4000;  // per thread: more would only deepen the queues
  constexpr int kRounds = 40;
  std::array<std::atomic<uint64_t>, 3> streams;
  std::array<std::atomic<uint64_t>, 4> events;
  std::array<std::atomic<uint64_t>, 2> gates;
  const auto new_event = [] {
    keel_event event = {};
    EXPECT_KEEL_OK(keel_event_create(0, &event));
    return event.id;
  };
  const auto new_gate = [] {
    keel_gate gate = {};
    EXPECT_KEEL_OK(keel_gate_create(&gate));
    return gate.id;
  };
  for (auto& stream : streams) stream = new_stream(device_).id;
  for (auto& event : events) event = new_event();
  for (auto& gate : gates) gate = new_gate();
  // One word per fill, since the fills have no order.
  auto* memory = static_cast<uint32_t*>(alloc(device_, kUsers * kCalls * sizeof(uint32_t)));

  std::vector<std::thread> users;
  for (uint32_t seed = 1; seed <= kUsers; ++seed) {
    users.emplace_back([&, seed] {
      std::mt19937 random(seed);
      for (uint32_t call = 0; call < kCalls; ++call) {
        const keel_stream stream{streams[random() % streams.size()]};
        const keel_event event{events[random() % events.size()]};
        const keel_gate gate{gates[random() % gates.size()]};
        keel_status status = KEEL_OK;
        switch (random() % 9) {
          case 0:
          case 1:
            status = keel_event_record(event, stream);
            break;
          case 2:
            status = keel_event_query(event);
            break;
          case 3:
            status = keel_stream_wait_event(stream, event);
            break;
          case 4:
            status = keel_stream_query(stream);
            break;
          case 5:
            status = keel_stream_wait_gate(stream, gate);
            break;
          case 6:
            status = keel_gate_open(gate, KEEL_OK, nullptr);
            break;
          case 7:
            status = keel_stream_recover(stream, /*timeout_ns=*/0);
            break;
          default:
            status = fill(stream, memory + (seed - 1) * kCalls + call, seed, 1);
        }
        EXPECT_TRUE(is_expected(status)) << keel_status_name(status) << ": " << keel_last_error();
      }
    });
  }
  std::vector<std::thread> destroyers;
  destroyers.emplace_back([&] {
    for (int round = 0; round < kRounds; ++round) {
      for (auto& stream : streams) {
        const keel_stream old{stream.exchange(new_stream(device_).id)};
        const keel_status status = keel_stream_destroy(old);
        EXPECT_TRUE(is_expected(status)) << keel_status_name(status) << ": " << keel_last_error();
        EXPECT_EQ(keel_stream_query(old), KEEL_INVALID_HANDLE);
      }
    }
  });
  destroyers.emplace_back([&] {
    for (int round = 0; round < 4 * kRounds; ++round) {
      for (auto& event : events) {
        const keel_event old{event.exchange(new_event())};
        EXPECT_KEEL_OK(keel_event_destroy(old));
        EXPECT_EQ(keel_event_query(old), KEEL_INVALID_HANDLE);
      }
      for (auto& gate : gates) {
        const keel_gate old{gate.exchange(new_gate())};
        EXPECT_KEEL_OK(keel_gate_destroy(old));
        EXPECT_EQ(keel_gate_destroy(old), KEEL_INVALID_HANDLE);
      }
    }
  });
  for (auto& destroyer : destroyers) destroyer.join();
  for (auto& user : users) user.join();
  // A wait behind a destroyed gate fails its stream; the last gates and streams still end.
  for (auto& gate : gates) EXPECT_KEEL_OK(keel_gate_destroy({gate}));
  for (auto& stream : streams) {
    const keel_status status = keel_stream_synchronize({stream}, kTestTimeout);
    EXPECT_TRUE(is_expected(status)) << keel_status_name(status);
    EXPECT_KEEL_OK(keel_stream_destroy({stream}));
  }
  for (auto& event : events) EXPECT_KEEL_OK(keel_event_destroy({event}));
}

// Only destroyed objects are held or fail here, so calls take the fast path.
TEST_P(HandleRaceTest, ShortCallsAndDestructionAtOnce) {
  constexpr uint32_t kUsers = 3;
  constexpr uint32_t kCalls = 6000;
  constexpr int kRounds = 100;
  std::array<std::atomic<uint64_t>, 2> streams;
  std::array<std::atomic<uint64_t>, 2> events;
  const auto new_event = [] {
    keel_event event = {};
    EXPECT_KEEL_OK(keel_event_create(0, &event));
    return event.id;
  };
  for (auto& stream : streams) stream = new_stream(device_).id;
  for (auto& event : events) event = new_event();
  auto* memory = static_cast<uint32_t*>(alloc(device_, kUsers * kCalls * sizeof(uint32_t)));
  const uint32_t written = 7;

  std::vector<std::thread> threads;
  for (uint32_t seed = 1; seed <= kUsers; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      for (uint32_t call = 0; call < kCalls; ++call) {
        const keel_stream stream{streams[random() % streams.size()]};
        const keel_event event{events[random() % events.size()]};
        uint32_t* word = memory + (seed - 1) * kCalls + call;
        keel_status status = KEEL_OK;
        switch (random() % 4) {
          case 0:
            status = keel_event_query(event);
            break;
          case 1:
            status = keel_copy(stream, device_, word, KEEL_HOST, &written, sizeof(written));
            break;
          default:
            status = keel_event_record(event, stream);
        }
        EXPECT_TRUE(is_expected(status)) << keel_status_name(status) << ": " << keel_last_error();
      }
    });
  }
  threads.emplace_back([&] {
    for (int round = 0; round < kRounds; ++round) {
      auto& stream = streams[static_cast<size_t>(round) % streams.size()];
      EXPECT_KEEL_OK(keel_stream_destroy({stream.exchange(new_stream(device_).id)}));
      for (auto& event : events) EXPECT_KEEL_OK(keel_event_destroy({event.exchange(new_event())}));
    }
  });
  for (std::thread& thread : threads) thread.join();
  for (auto& stream : streams) EXPECT_KEEL_OK(keel_stream_destroy({stream}));
  for (auto& event : events) EXPECT_KEEL_OK(keel_event_destroy({event}));
  EXPECT_KEEL_OK(keel_free(device_, memory));
}

// One thread blocks inside Keel; objects destroyed by others meanwhile are gone on return.
TEST_P(HandleRaceTest, ABlockedWaiterDelaysNoDestruction) {
  keel_gate gate = {};
  ASSERT_KEEL_OK(keel_gate_create(&gate));
  const keel_stream blocked = new_stream(device_);
  ASSERT_KEEL_OK(keel_stream_wait_gate(blocked, gate));
  std::atomic<bool> started{false};
  std::thread waiter([&] {
    started = true;
    started.notify_all();
    EXPECT_KEEL_OK(keel_stream_synchronize(blocked, kTestTimeout));
  });
  started.wait(false);
  for (int i = 0; i < 100; ++i) {
    const keel_stream stream = new_stream(device_);
    const keel_event event = record(stream);
    EXPECT_KEEL_OK(keel_event_wait(event, kTestTimeout));
    EXPECT_KEEL_OK(keel_event_destroy(event));
    EXPECT_KEEL_OK(keel_stream_destroy(stream));
  }
  ASSERT_KEEL_OK(keel_gate_open(gate, KEEL_OK, nullptr));
  waiter.join();
}

INSTANTIATE_TEST_SUITE_P(Backends, HandleRaceTest,
                         ::testing::Values("cpu", "sim", "fake", "fake_polled"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace keel::testing

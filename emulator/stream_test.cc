// SPDX-License-Identifier: Apache-2.0
#include "emulator/stream.h"

#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

#include "emulator/testing/emulator_test.h"

namespace keel::emulator {
namespace {

// Runs on devices with a queue per stream, and with one queue for all streams.
class StreamTest : public EmulatorTest, public ::testing::WithParamInterface<bool> {
 protected:
  static DeviceOptions options() {
    DeviceOptions options;
    options.single_queue = GetParam();
    return options;
  }
  const std::shared_ptr<Device> device_ = make_device(options());
  std::unique_ptr<Stream> stream_ = make_stream(device_);
};

TEST_P(StreamTest, MovesBytesEachWay) {
  std::vector<uint32_t> words(5000);
  std::iota(words.begin(), words.end(), 7);
  const Address a = alloc(*device_, words.size() * 4);
  const Address b = alloc(*device_, words.size() * 4);
  write(*stream_, a, words);
  expect_ok(stream_->copy_within(b, a, words.size() * 4));
  EXPECT_EQ(read(*stream_, b, words.size()), words);

  DeviceOptions second = options();
  second.index = 1;
  const auto peer = make_device(second);
  const Address there = alloc(*peer, words.size() * 4);
  EXPECT_EQ(there, a);
  expect_ok(stream_->copy_peer(*peer, there, *device_, b, words.size() * 4));
  expect_ok(stream_->synchronize(test_timeout()));
  EXPECT_EQ(read(*make_stream(peer), there, words.size()), words);
}

TEST_P(StreamTest, FillsWithEveryPatternSize) {
  const Address memory = alloc(*device_, 4096);
  const unsigned char pattern[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  for (const uint32_t size : {1u, 2u, 4u, 8u}) {
    std::vector<unsigned char> got(4096);
    expect_ok(stream_->fill(memory, "\0", 1, 4096));
    expect_ok(stream_->fill(memory + 8, pattern, size, 4000));
    expect_ok(stream_->copy_to_host(got.data(), memory, got.size()));
    expect_ok(stream_->synchronize(test_timeout()));
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i], i < 8 || i >= 4008 ? 0 : pattern[i % size]) << size << " " << i;
    }
  }
}

TEST_P(StreamTest, AnIllegalAccessFailsItsStreamAndNoOther) {
  const auto other = make_stream(device_);
  const Address memory = alloc(*device_, 64);
  Event before(device_);
  Event behind(device_);
  write(*stream_, memory, {1});
  expect_ok(before.record(*stream_));
  expect_ok(fill(*stream_, memory + 60, 2, 2));  // 4 bytes too far
  write(*stream_, memory, {3});
  expect_ok(behind.record(*stream_));
  expect_fails(Code::kIllegalAddress, "8 bytes at 0x", stream_->synchronize(test_timeout()));
  for (int again = 0; again < 2; ++again) {
    expect_fails(Code::kIllegalAddress, "reach past the allocation of 64", stream_->query());
    expect_fails(Code::kIllegalAddress, "reach past", behind.query());
  }
  expect_ok(before.wait(test_timeout()));
  EXPECT_EQ(read(*other, memory, 1), std::vector<uint32_t>{1}) << "what was behind it ran";
}

TEST_P(StreamTest, HostPointersOfCopiesMustBeTheHosts) {
  const Address memory = alloc(*device_, 64);
  void* const on_device = reinterpret_cast<void*>(memory);
  expect_fails(Code::kInvalidArgument, "no host address",
               stream_->copy_from_host(memory, on_device, 8));
  expect_fails(Code::kInvalidArgument, "no host address",
               stream_->copy_to_host(on_device, memory, 8));
  expect_ok(stream_->query());
}

TEST_P(StreamTest, APageableSourceIsReadBeforeTheCallReturns) {
  const Address memory = alloc(*device_, 4);
  void* pinned = nullptr;
  expect_ok(device_->allocate_pinned(4, &pinned));
  uint32_t word = 1;
  std::memcpy(pinned, &word, 4);
  auto gate = close_gate(*stream_);
  expect_ok(stream_->copy_from_host(memory, &word, 4));
  word = 2;
  open(*gate);
  EXPECT_EQ(read(*stream_, memory, 1), std::vector<uint32_t>{1});

  gate = close_gate(*stream_);
  expect_ok(stream_->copy_from_host(memory, pinned, 4));
  std::memcpy(pinned, &word, 4);  // too early in a real program
  open(*gate);
  EXPECT_EQ(read(*stream_, memory, 1), std::vector<uint32_t>{2}) << "pinned memory is read late";
}

TEST_P(StreamTest, EventsOrderStreams) {
  const auto other = make_stream(device_);
  const Address memory = alloc(*device_, 4);
  Event event(device_);
  for (uint32_t i = 0; i < 200; ++i) {
    Stream& writer = i % 2 == 0 ? *stream_ : *other;
    Stream& follower = i % 2 == 0 ? *other : *stream_;
    expect_ok(fill(writer, memory, i, 1));
    expect_ok(event.record(writer));
    expect_ok(event.hold_back(follower));
  }
  EXPECT_EQ(read(*stream_, memory, 1), std::vector<uint32_t>{199});
}

TEST_P(StreamTest, AWaitKeepsTheRecordItWasMadeFor) {
  const auto gated = make_stream(device_);
  Event event(device_);
  expect_ok(event.query());
  expect_ok(event.wait(Clock::now()));
  expect_ok(event.record(*stream_));
  const auto waiter = make_stream(device_);
  expect_ok(event.hold_back(*waiter));
  expect_ok(waiter->synchronize(test_timeout()));
  const auto gate = close_gate(*gated);
  expect_ok(event.record(*gated));
  EXPECT_EQ(event.query().code(), Code::kNotReady);
  EXPECT_EQ(event.wait(Clock::now()).code(), Code::kTimedOut);
  open(*gate);
  expect_ok(event.wait(test_timeout()));
}

TEST_P(StreamTest, NotifiesOnceWhetherDoneFailedOrDoneAlready) {
  std::atomic<int> calls{0};
  std::atomic<int> failures{0};
  const auto count = [&](const Status& status) {
    ++calls;
    if (!status.ok()) ++failures;
  };
  Event event(device_);
  const auto gate = close_gate(*stream_);
  expect_ok(event.record(*stream_));
  event.notify(count);
  EXPECT_EQ(calls, 0);
  open(*gate);
  expect_ok(stream_->synchronize(test_timeout()));
  expect_ok(event.wait(test_timeout()));
  event.notify(count);
  expect_ok(fill(*stream_, 0, 1, 1));
  expect_ok(event.record(*stream_));
  event.notify(count);
  EXPECT_EQ(stream_->synchronize(test_timeout()).code(), Code::kIllegalAddress);
  device_->close();  // joins the calling threads
  stream_.reset();
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(failures, 1);
}

// The owner can destroy a stream in which work hangs.
TEST_P(StreamTest, DestroyingAStreamThatHangs) {
  auto hanging = make_stream(device_);
  Event event(device_);
  const auto gate = close_gate(*hanging);
  expect_ok(event.record(*hanging));
  hanging.reset();
  expect_fails(Code::kCancelled, "destroyed", event.wait(test_timeout()));
  expect_ok(fill(*stream_, alloc(*device_, 4), 1, 1));
  expect_ok(stream_->synchronize(test_timeout()));
}

TEST_P(StreamTest, ThreadsOnStreamsOfTheirOwn) {
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      const auto stream = make_stream(device_);
      for (uint32_t i = 0; i < 50; ++i) {
        const Address memory = alloc(*device_, 400);
        Event event(device_);
        expect_ok(fill(*stream, memory, t * 1000 + i, 100));
        expect_ok(event.record(*stream));
        expect_ok(event.wait(test_timeout()));
        EXPECT_EQ(read(*stream, memory, 100), std::vector<uint32_t>(100, t * 1000 + i));
        expect_ok(device_->memory().free(memory));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Queues, StreamTest, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "single" : "many"; });

class SingleQueueTest : public EmulatorTest {
 protected:
  std::shared_ptr<Device> make(bool single) {
    DeviceOptions options;
    options.single_queue = single;
    return make_device(options);
  }
};

// The behaviour of real chips with few hardware queues, which programs must tolerate.
TEST_F(SingleQueueTest, ABlockedWaitHoldsUpTheOtherStreams) {
  const auto device = make(true);
  const auto blocked = make_stream(device);
  const auto other = make_stream(device);
  const auto gate = close_gate(*blocked);
  expect_ok(fill(*other, alloc(*device, 4), 1, 1));
  EXPECT_EQ(other->synchronize(Clock::now() + std::chrono::milliseconds(20)).code(),
            Code::kTimedOut);
  open(*gate);
  expect_ok(other->synchronize(test_timeout()));
}

TEST_F(SingleQueueTest, WithQueuesOfTheirOwnTheyGoOn) {
  const auto device = make(false);
  const auto blocked = make_stream(device);
  const auto other = make_stream(device);
  const auto gate = close_gate(*blocked);
  expect_ok(fill(*other, alloc(*device, 4), 1, 1));
  expect_ok(other->synchronize(test_timeout()));
  open(*gate);
}

TEST_F(SingleQueueTest, ClosingADeviceWhoseQueueHangs) {
  const auto device = make(true);
  auto stream = make_stream(device);
  const auto gate = close_gate(*stream);
  Event event(device);
  expect_ok(event.record(*stream));
  device->close();
  EXPECT_EQ(event.query().code(), Code::kCancelled);
}

using DelayTest = EmulatorTest;

TEST_F(DelayTest, DelaysChangeNoResult) {
  DeviceOptions options;
  options.delay_us = 200;
  options.seed = 3;
  const auto device = make_device(options);
  const auto a = make_stream(device);
  const auto b = make_stream(device);
  const Address memory = alloc(*device, 4);
  Event event(device);
  for (uint32_t i = 0; i < 40; ++i) {
    Stream& writer = i % 2 == 0 ? *a : *b;
    expect_ok(fill(writer, memory, i, 1));
    expect_ok(event.record(writer));
    expect_ok(event.hold_back(i % 2 == 0 ? *b : *a));
  }
  EXPECT_EQ(read(*a, memory, 1), std::vector<uint32_t>{39});
}

}  // namespace
}  // namespace keel::emulator

// SPDX-License-Identifier: Apache-2.0
#include "emulator/faults.h"

#include <atomic>
#include <bit>
#include <thread>

#include "emulator/testing/emulator_test.h"

namespace keel::emulator {
namespace {

class FaultsTest : public EmulatorTest {};

TEST_F(FaultsTest, NonsenseIsRefusedAndNamed) {
  for (const char* text : {"lose",
                           "lose@0",
                           "lose@x",
                           "lose@-1",
                           "lose@1=5",
                           "refuse@1",
                           "refuse:copies@1",
                           "fail:alloc@1",
                           "fail:copy",
                           "corrupt:record@1",
                           "corrupt:stream@1",
                           "stall:copy@1=0",
                           "stall:copy@1=-5",
                           "stall:copy@1=1e9",
                           "stall:copy@1=nan",
                           "slow",
                           "slow=0.5",
                           "slow=inf",
                           "slow=1001",
                           "slow:copy@2=3",
                           "melt:copy@1",
                           "x/lose@1",
                           "/lose@1",
                           ":copy@1",
                           "@1",
                           "fail:copy@99999999999999999999",
                           "lose@1+2",
                           " lose@1"}) {
    std::vector<Fault> faults;
    expect_fails(Code::kInvalidArgument, std::string("fault '") + text,
                 parse_faults(text, &faults));
    expect_fails(Code::kInvalidArgument, text,
                 parse_faults(std::string("lose@3,") + text, &faults));
  }
  std::vector<Fault> faults;
  EXPECT_FALSE(parse_faults("lose@1,,lose@2", &faults).ok());
  expect_ok(parse_faults("", &faults));
  EXPECT_TRUE(faults.empty());
  expect_ok(parse_faults("2/lose@3,fail:copy@4+,stall:op@1=2.5,slow:fill=2", &faults));
  ASSERT_EQ(faults.size(), 4u);
  EXPECT_EQ(faults[0].device, 2u);
  EXPECT_EQ(faults[0].nth, 3u);
  EXPECT_TRUE(faults[1].onward);
  EXPECT_EQ(faults[2].argument, 2.5);
  EXPECT_EQ(faults[3].kind, CallKind::kFill);
}

// 200 such factors multiply to more than a double holds.
TEST_F(FaultsTest, SlownessHasAnEnd) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "slow=1000,";
  std::vector<Fault> faults;
  expect_ok(parse_faults(text, &faults));
  FaultPlan plan(faults, /*device=*/0);
  EXPECT_EQ(plan.next(CallKind::kCopy).slow, 1e6);
}

TEST_F(FaultsTest, TheNthAllocationIsRefused) {
  const auto device = make_faulty("refuse:alloc@2");
  Address address = alloc(*device, 8);
  void* pinned = nullptr;
  expect_fails(Code::kOutOfMemory, "injected refusal of alloc 2",
               device->allocate_pinned(8, &pinned));
  address = alloc(*device, 8);
  EXPECT_NE(address, 0u);
  const auto onward = make_faulty("refuse:alloc@2+");
  alloc(*onward, 8);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(onward->allocate(8, &address).code(), Code::kOutOfMemory);
  }
}

TEST_F(FaultsTest, TheNthCallOfAKindFailsAtOnceOrOnItsStream) {
  const auto device = make_faulty("refuse:copy@2,fail:fill@2,refuse:stream@3,fail:record@3");
  const auto stream = make_stream(device);
  const auto other = make_stream(device);
  std::unique_ptr<Stream> third;
  expect_fails(Code::kUnavailable, "refusal of stream 3", Stream::create(device, 0, &third));
  const Address memory = alloc(*device, 8);
  write(*stream, memory, {1, 2});
  uint32_t word = 9;
  expect_fails(Code::kUnavailable, "emulated device 0: injected refusal of copy 2",
               stream->copy_from_host(memory, &word, 4));
  EXPECT_EQ(read(*stream, memory, 2), (std::vector<uint32_t>{1, 2})) << "it had no effect";
  expect_ok(fill(*stream, memory, 3, 1));
  expect_ok(fill(*stream, memory, 4, 2));
  expect_fails(Code::kFailed, "injected failure of fill 2", stream->synchronize(test_timeout()));
  EXPECT_EQ(read(*other, memory, 2), (std::vector<uint32_t>{3, 2}));
  Event event(device);
  expect_ok(event.record(*other));
  expect_ok(event.record(*other));
  expect_ok(event.wait(test_timeout()));
  expect_ok(event.record(*other));
  expect_fails(Code::kFailed, "record 3", event.wait(test_timeout()));
  expect_fails(Code::kFailed, "record 3", other->query());
}

TEST_F(FaultsTest, TheNthResultIsWrongInOneBit) {
  const auto device = make_faulty("corrupt:fill@2,corrupt:copy@1,corrupt:copy@3");
  const auto stream = make_stream(device);
  const Address memory = alloc(*device, 400);
  const auto wrong_bits = [&](const std::vector<uint32_t>& words, uint32_t want) {
    int bits = 0;
    for (const uint32_t word : words) bits += std::popcount(word ^ want);
    return bits;
  };
  expect_ok(fill(*stream, memory, 5, 100));
  EXPECT_EQ(wrong_bits(read(*stream, memory, 100), 5), 1) << "copy 1, to the host";
  EXPECT_EQ(wrong_bits(read(*stream, memory, 100), 5), 0);
  expect_ok(fill(*stream, memory, 5, 100));
  EXPECT_EQ(wrong_bits(read(*stream, memory, 100), 5), 2) << "fill 2 and copy 3";
  EXPECT_EQ(wrong_bits(read(*stream, memory, 100), 5), 1) << "it stays in memory";
}

TEST_F(FaultsTest, ALostDeviceEndsEverythingOnIt) {
  const auto device = make_faulty("0/lose:fill@2", 0);
  const auto healthy = make_faulty("0/lose:fill@2", 1);
  const auto stream = make_stream(device);
  auto waiting = make_stream(device);
  const Address memory = alloc(*device, 8);
  Event behind_gate(device);
  const auto gate = close_gate(*waiting);
  expect_ok(behind_gate.record(*waiting));
  std::atomic<int> told{0};
  behind_gate.notify([&](const Status& status) {
    EXPECT_EQ(status.code(), Code::kDeviceLost);
    ++told;
  });
  std::thread waiter([&] {
    expect_fails(Code::kDeviceLost, "is lost: injected at fill 2",
                 behind_gate.wait(test_timeout()));
  });
  expect_ok(fill(*stream, memory, 1, 1));
  expect_ok(stream->synchronize(test_timeout()));
  EXPECT_FALSE(device->is_lost());
  expect_ok(fill(*stream, memory, 2, 1));
  expect_fails(Code::kDeviceLost, "emulated device 0 is lost", stream->synchronize(test_timeout()));
  waiter.join();
  expect_fails(Code::kDeviceLost, "", waiting->synchronize(test_timeout()));
  waiting.reset();  // joins the notifying thread
  EXPECT_EQ(told, 1);
  Address address = 0;
  std::unique_ptr<Stream> another;
  EXPECT_EQ(device->allocate(8, &address).code(), Code::kDeviceLost);
  EXPECT_EQ(Stream::create(device, 0, &another).code(), Code::kDeviceLost);
  EXPECT_EQ(fill(*stream, memory, 3, 1).code(), Code::kDeviceLost);
  EXPECT_EQ(stream->query().code(), Code::kDeviceLost);
  EXPECT_EQ(behind_gate.query().code(), Code::kDeviceLost);
  expect_ok(device->memory().free(memory));

  const auto there = make_stream(healthy);
  const Address healthy_memory = alloc(*healthy, 8);
  for (uint32_t i = 0; i < 3; ++i) expect_ok(fill(*there, healthy_memory, i, 2));
  EXPECT_EQ(read(*there, healthy_memory, 2), (std::vector<uint32_t>{2, 2}));
  // A peer copy that needs the lost device fails its stream, not the healthy device.
  expect_ok(there->copy_peer(*healthy, healthy_memory, *device, memory, 8));
  expect_fails(Code::kUnavailable, "emulated device 0 is lost", there->synchronize(test_timeout()));
  EXPECT_FALSE(healthy->is_lost());
}

TEST_F(FaultsTest, AFailureMayTakeTheDeviceAlong) {
  DeviceOptions options;
  options.failure_is_loss = true;
  expect_ok(parse_faults("fail:fill@2", &options.faults));
  const auto device = make_device(options);
  const auto stream = make_stream(device);
  const auto other = make_stream(device);
  const Address memory = alloc(*device, 64);
  expect_ok(fill(*stream, memory, 1, 4));
  expect_ok(stream->synchronize(test_timeout()));
  EXPECT_EQ(device->loss_cause(), Code::kOk);
  const auto gate = close_gate(*other);
  expect_ok(fill(*stream, memory, 2, 4));
  expect_fails(Code::kDeviceLost, "injected failure of fill 2",
               stream->synchronize(test_timeout()));
  EXPECT_EQ(device->loss_cause(), Code::kFailed);
  expect_fails(Code::kDeviceLost, "injected failure of fill 2", other->synchronize(test_timeout()));
  expect_fails(Code::kDeviceLost, "injected failure of fill 2", fill(*other, memory, 3, 4));
}

TEST_F(FaultsTest, AStreamThatIsDestroyedTakesNothingAlong) {
  DeviceOptions options;
  options.failure_is_loss = true;
  const auto device = make_device(options);
  const Address memory = alloc(*device, 64);
  {
    const auto stream = make_stream(device);
    const auto gate = close_gate(*stream);
    expect_ok(fill(*stream, memory, 1, 4));
  }
  expect_ok(device->alive());
}

TEST_F(FaultsTest, LostAtTheNthCallOfAnyKind) {
  const auto device = make_faulty("lose@3");
  const auto stream = make_stream(device);
  const Address memory = alloc(*device, 8);
  expect_ok(fill(*stream, memory, 1, 1));
  expect_fails(Code::kDeviceLost, "injected at fill 1", stream->synchronize(test_timeout()));
  const auto at_once = make_faulty("lose:alloc@1");
  Address address = 0;
  expect_fails(Code::kDeviceLost, "injected at alloc 1", at_once->allocate(8, &address));
}

TEST_F(FaultsTest, AStallEndsAfterItsTimeOrWhenReleased) {
  const auto device = make_faulty("stall:fill@1=5,stall:copy@1");
  const auto timed = make_stream(device);
  const Address memory = alloc(*device, 8);
  const Time before = Clock::now();
  expect_ok(fill(*timed, memory, 1, 2));
  expect_ok(timed->synchronize(test_timeout()));
  EXPECT_GE(Clock::now() - before, std::chrono::milliseconds(5));

  const auto stuck = make_stream(device);
  uint32_t word = 0;
  expect_ok(stuck->copy_to_host(&word, memory, 4));
  EXPECT_EQ(stuck->synchronize(Clock::now() + std::chrono::milliseconds(20)).code(),
            Code::kTimedOut);
  expect_ok(fill(*timed, memory, 3, 2));
  expect_ok(timed->synchronize(test_timeout()));
  // Releases repeatedly: the copy may not have reached its stall yet.
  while (stuck->query().code() == Code::kNotReady) {
    device->release_stalls();
    std::this_thread::yield();
  }
  expect_ok(stuck->query());
  EXPECT_EQ(word, 3u);
}

TEST_F(FaultsTest, AStreamThatStallsForEverCanBeDestroyed) {
  for (const bool single : {false, true}) {
    DeviceOptions options;
    options.single_queue = single;
    expect_ok(parse_faults("stall:fill@1", &options.faults));
    const auto device = make_device(options);
    auto stalled = make_stream(device);
    const Address memory = alloc(*device, 8);
    Event event(device);
    expect_ok(fill(*stalled, memory, 1, 2));
    expect_ok(event.record(*stalled));
    stalled.reset();
    EXPECT_EQ(event.wait(test_timeout()).code(), Code::kCancelled);
    EXPECT_EQ(read(*make_stream(device), memory, 2), std::vector<uint32_t>(2, 0xa5a5a5a5));
  }
}

TEST_F(FaultsTest, AStallOfALostDeviceEnds) {
  const auto device = make_faulty("stall:fill@1");
  const auto stream = make_stream(device);
  expect_ok(fill(*stream, alloc(*device, 8), 1, 2));
  device->lose("pulled out");
  expect_fails(Code::kDeviceLost, "pulled out", stream->synchronize(test_timeout()));
}

}  // namespace
}  // namespace keel::emulator

// SPDX-License-Identifier: Apache-2.0
// A paced device against its profile. Assertions are exact by the chip's clock, or lower bounds of
// the host's; the tests print how close the host comes.
#include <sys/resource.h>

#include <cstdio>

#include "emulator/testing/emulator_test.h"

namespace keel::emulator {
namespace {

class PacingTest : public EmulatorTest {
 protected:
  static DeviceOptions paced() {
    DeviceOptions options;
    Profile& profile = options.profile.emplace();
    profile.memory_gb_per_s = 8;
    profile.host_to_device_gb_per_s = 2;
    profile.device_to_host_gb_per_s = 1;
    profile.peer_gb_per_s = 0.5;
    profile.launch_latency_us = 10;
    profile.tflops = {{"float32", 0.001}, {"float16", 0.004}};
    return options;
  }
  // Returns the time of |enqueue|'s work by the chip's clock when all of the work is enqueued in
  // advance.
  template <typename Enqueue>
  static uint64_t chip_ns(const std::shared_ptr<Device>& device, Stream& stream, Enqueue enqueue) {
    Event start(device);
    Event end(device);
    const auto gate = close_gate(stream);
    expect_ok(start.record(stream));
    enqueue();
    expect_ok(end.record(stream));
    // Opens the gate, by the chip's clock, after the launch of all work.
    gate->complete_and_notify({}, Clock::now() + device->launch_latency());
    expect_ok(end.wait(test_timeout()));
    return Event::elapsed_ns(start, end);
  }
  static constexpr uint64_t kMiB = 1 << 20;
};

TEST_F(PacingTest, EachKindOfWorkTakesWhatTheProfileSays) {
  const auto device = make_device(paced());
  const auto peer = make_device(paced());
  const auto stream = make_stream(device);
  const Address memory = alloc(*device, 2 * kMiB);
  const Address there = alloc(*peer, kMiB);
  void* pinned = nullptr;
  expect_ok(device->allocate_pinned(kMiB, &pinned));
  const auto ns = [&](auto enqueue) { return chip_ns(device, *stream, enqueue); };
  EXPECT_EQ(ns([&] { expect_ok(stream->copy_from_host(memory, pinned, kMiB)); }), kMiB / 2);
  EXPECT_EQ(ns([&] { expect_ok(stream->copy_to_host(pinned, memory, kMiB)); }), kMiB);
  EXPECT_EQ(ns([&] { expect_ok(stream->copy_peer(*peer, there, *device, memory, kMiB)); }),
            2 * kMiB);
  EXPECT_EQ(ns([&] { expect_ok(stream->copy_within(memory + kMiB, memory, kMiB)); }), kMiB / 4);
  EXPECT_EQ(ns([&] { expect_ok(fill(*stream, memory, 1, kMiB / 4)); }), kMiB / 8);
  const Kernel nothing = [](Access&) { return Status(); };
  const auto launch = [&](Work work) {
    return ns([&] { expect_ok(stream->launch(work, {}, nothing)); });
  };
  EXPECT_EQ(launch({EngineKind::kCompute, 800, 1e6, "float32"}), 1'000'000u) << "by the flops";
  EXPECT_EQ(launch({EngineKind::kCompute, 800, 1e6, "float16"}), 250'000u);
  EXPECT_EQ(launch({EngineKind::kCompute, 8e6, 1e3, "float32"}), 1'000'000u) << "by the bytes";
  expect_ok(device->memory().free_pinned(pinned));
}

TEST_F(PacingTest, AKernelWithoutKnownWorkTakesTheHostsTime) {
  const auto device = make_device(paced());
  const auto stream = make_stream(device);
  uint64_t host_ns = 0;
  const Kernel spins = [&](Access&) {
    const Time begin = Clock::now();
    while (Clock::now() < begin + std::chrono::microseconds(500)) continue;
    host_ns += static_cast<uint64_t>(Duration(Clock::now() - begin).count());
    return Status();
  };
  const uint64_t elapsed = chip_ns(device, *stream, [&] {
    for (int i = 0; i < 3; ++i) expect_ok(stream->launch({.takes_host_time = true}, {}, spins));
  });
  EXPECT_GE(elapsed, host_ns);
  EXPECT_GE(host_ns, 1'500'000u);
}

TEST_F(PacingTest, LaunchesArePipelined) {
  const auto device = make_device(paced());
  const auto stream = make_stream(device);
  const Address memory = alloc(*device, 8000);
  const uint64_t elapsed = chip_ns(device, *stream, [&] {
    for (int i = 0; i < 50; ++i) expect_ok(fill(*stream, memory, 1, 2000));
  });
  EXPECT_EQ(elapsed, 50'000u) << "50 times 8000 bytes at 8 GB/s, and no latency between";
}

TEST_F(PacingTest, StreamsShareALink) {
  const auto device = make_device(paced());
  const auto a = make_stream(device);
  const auto b = make_stream(device);
  const Address memory = alloc(*device, kMiB);
  void* pinned = nullptr;
  expect_ok(device->allocate_pinned(kMiB, &pinned));
  Event start(device);
  Event end_a(device);
  Event end_b(device);
  const auto gate = close_gate(*a);
  expect_ok(start.record(*a));
  expect_ok(start.hold_back(*b));
  for (Stream* stream : {a.get(), b.get()}) {
    for (int i = 0; i < 4; ++i) expect_ok(stream->copy_from_host(memory, pinned, kMiB));
  }
  expect_ok(end_a.record(*a));
  expect_ok(end_b.record(*b));
  open(*gate);
  expect_ok(end_a.wait(test_timeout()));
  expect_ok(end_b.wait(test_timeout()));
  const uint64_t both = 8 * kMiB / 2;
  EXPECT_GE(std::max(Event::elapsed_ns(start, end_a), Event::elapsed_ns(start, end_b)), both);
  expect_ok(device->memory().free_pinned(pinned));
}

TEST_F(PacingTest, SlowWorkTakesItsFactor) {
  DeviceOptions options = paced();
  expect_ok(parse_faults("slow:fill=2.5,slow=2", &options.faults));
  const auto device = make_device(options);
  const auto stream = make_stream(device);
  const Address memory = alloc(*device, kMiB);
  EXPECT_EQ(chip_ns(device, *stream, [&] { expect_ok(fill(*stream, memory, 1, 2000)); }), 5000u);
  EXPECT_EQ(chip_ns(device, *stream,
                    [&] { expect_ok(stream->copy_within(memory, memory + 4000, 4000)); }),
            2000u);
}

TEST_F(PacingTest, NothingIsDoneBeforeItsTimeAndSleepsDoNotAddUp) {
  const auto device = make_device(paced());
  const auto stream = make_stream(device);
  const Address memory = alloc(*device, kMiB);
  void* pinned = nullptr;
  expect_ok(device->allocate_pinned(kMiB, &pinned));
  constexpr int kChunks = 400;
  const auto gate = close_gate(*stream);
  Event end(device);
  for (int i = 0; i < kChunks; ++i) {
    expect_ok(stream->copy_from_host(memory, pinned, kMiB));
  }
  expect_ok(end.record(*stream));
  const auto cpu_ns = [] {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    const auto ns = [](const timeval& time) { return time.tv_sec * 1e9 + time.tv_usec * 1e3; };
    return ns(usage.ru_utime) + ns(usage.ru_stime);
  };
  const double cpu_before = cpu_ns();
  const Time before = Clock::now();
  open(*gate);
  expect_ok(end.wait(test_timeout()));
  const auto taken = static_cast<double>(Duration(Clock::now() - before).count());
  const double nominal = kChunks * static_cast<double>(kMiB) / 2;
  EXPECT_GE(taken, nominal);
  std::printf("%d chunks of 1 MiB: %.1f%% of the nominal 2 GB/s, %.0f%% of a core\n", kChunks,
              100 * nominal / taken, 100 * (cpu_ns() - cpu_before) / taken);
  expect_ok(device->memory().free_pinned(pinned));
}

}  // namespace
}  // namespace keel::emulator

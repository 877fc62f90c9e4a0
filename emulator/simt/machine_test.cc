// SPDX-License-Identifier: Apache-2.0
// Kernels with and without a flaw: the machine must detect exactly the flaws.
#include "emulator/simt/machine.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/gpu/simt.h"

namespace {

using keel::emulator::simt::Extent;
using keel::emulator::simt::Grid;
using keel::emulator::simt::Kernel;
using keel::emulator::simt::Machine;
using keel::emulator::simt::Outcome;
using keel::emulator::simt::Registration;
using keel::simt::kThreads;

struct TestArguments {
  uint64_t in, out, count;
};

}  // namespace

// One element per thread, without barriers.
KEEL_SIMT_KERNEL(test_double, TestArguments) {
  using namespace keel::simt;
  const Global<const float> in(args.in);
  const Global<float> out(args.out);
  for_each<4>(args.count, true, [&](auto width, uint64_t i) {
    constexpr int n = decltype(width)::value;
    Lanes<float, n> lanes = in.template load<n>(i);
    for (int lane = 0; lane < n; ++lane) lanes.at[lane] *= 2;
    out.template store<n>(i, lanes);
  });
}

// Writes one element too many.
KEEL_SIMT_KERNEL(test_overrun, TestArguments) {
  using namespace keel::simt;
  const Global<float> out(args.out);
  const uint64_t i = uint64_t{block_index().x} * kThreads + thread_index().x;
  if (i <= args.count) out[i] = 1;
}

// Reads four elements at an odd index.
KEEL_SIMT_KERNEL(test_unaligned, TestArguments) {
  using namespace keel::simt;
  const Global<const float> in(args.in);
  const Global<float> out(args.out);
  out[thread_index().x] = in.template load<4>(1).at[0];
}

// Reverses the block's elements through shared memory.
KEEL_SIMT_KERNEL(test_reverse, TestArguments) {
  using namespace keel::simt;
  KEEL_SIMT_SHARED(float, values, kThreads);
  const Global<const float> in(args.in);
  const Global<float> out(args.out);
  const uint32_t own = thread_index().x;
  const uint64_t first = uint64_t{block_index().x} * kThreads;
  values[own] = in[first + own];
  barrier();
  out[first + own] = values[kThreads - 1 - own];
}

// Lacks a barrier: each thread reads its predecessor's value, which is already written when threads
// run in order, so only race detection reveals the flaw.
KEEL_SIMT_KERNEL(test_racy_read, TestArguments) {
  using namespace keel::simt;
  KEEL_SIMT_SHARED(float, values, kThreads);
  const Global<const float> in(args.in);
  const Global<float> out(args.out);
  const uint32_t own = thread_index().x;
  values[own] = in[own];
  if (own != 0) out[own] = values[own - 1];
}

// Lacks the barrier between the reads by all threads and a write.
KEEL_SIMT_KERNEL(test_racy_write, TestArguments) {
  using namespace keel::simt;
  KEEL_SIMT_SHARED(float, value, 1);
  const Global<float> out(args.out);
  if (thread_index().x == 0) value[0] = 1;
  barrier();
  out[thread_index().x] = value[0];
  if (thread_index().x == 0) value[0] = 2;
}

KEEL_SIMT_KERNEL(test_never_written, TestArguments) {
  using namespace keel::simt;
  KEEL_SIMT_SHARED(float, value, 1);
  const Global<float> out(args.out);
  if (block_index().x == 0 && thread_index().x == 0) value[0] = 1;
  barrier();
  out[thread_index().x] = value[0];
}

KEEL_SIMT_KERNEL(test_shared_overrun, TestArguments) {
  using namespace keel::simt;
  KEEL_SIMT_SHARED(float, values, kThreads);
  values[thread_index().x + 1] = 1;
  (void)args;
}

// Half of the block exits before the barrier.
KEEL_SIMT_KERNEL(test_torn_barrier, TestArguments) {
  using namespace keel::simt;
  if (thread_index().x < kThreads / 2) barrier();
  (void)args;
}

// Sums over warps and blocks: alternates shuffles and barriers, twice.
KEEL_SIMT_KERNEL(test_sums, TestArguments) {
  using namespace keel::simt;
  const Global<const float> in(args.in);
  const Global<float> out(args.out);
  const uint32_t own = thread_index().x;
  const float value = in[own];
  const float warp = WarpTeam::reduce<Sum>(value);
  const float block = BlockTeam::reduce<Sum>(value);
  const float largest = BlockTeam::reduce<Largest>(value);
  const Votes odd = vote(own % 2 == 1);
  out[4 * own] = warp;
  out[4 * own + 1] = block;
  out[4 * own + 2] = largest;
  out[4 * own + 3] = odd == static_cast<Votes>(0xaaaaaaaaaaaaaaaa) ? 1 : 0;
}

namespace {

// Two buffers at addresses that differ from the host's.
class TwoBuffers : public keel::emulator::simt::AddressSpace {
 public:
  static constexpr uint64_t kIn = 0x10000;
  static constexpr uint64_t kOut = 0x900000;

  explicit TwoBuffers(size_t in, size_t out) : in_(in), out_(out) {
    std::iota(in_.begin(), in_.end(), 0.0F);
  }
  bool find(uint64_t address, Extent* out_extent, std::string* out_why) override {
    for (auto& [begin, floats] : {std::pair{kIn, &in_}, std::pair{kOut, &out_}}) {
      const uint64_t bytes = floats->size() * sizeof(float);
      if (address - begin >= bytes) continue;
      *out_extent = {begin, bytes, reinterpret_cast<std::byte*>(floats->data())};
      return true;
    }
    *out_why = "nothing is there";
    return false;
  }
  const std::vector<float>& out() const { return out_; }

 private:
  alignas(16) std::vector<float> in_;
  std::vector<float> out_;
};

class MachineTest : public ::testing::Test {
 protected:
  Outcome run(const char* name, TwoBuffers& memory, uint64_t count, uint32_t blocks = 1) {
    const Kernel* const kernel = Registration::find("test", name);
    EXPECT_NE(kernel, nullptr) << name;
    EXPECT_EQ(kernel->argument_bytes, sizeof(TestArguments));
    const TestArguments arguments = {TwoBuffers::kIn, TwoBuffers::kOut, count};
    error_.clear();
    return Machine(*kernel, Grid{blocks, 1, 1}, &arguments, memory).run(&error_);
  }
  // Expects the launch to fail with |outcome| and a text that contains |text|.
  void expect_failure(const char* name, Outcome outcome, const std::string& text,
                      uint32_t blocks = 1) {
    TwoBuffers memory(kThreads, kThreads);
    EXPECT_EQ(run(name, memory, kThreads, blocks), outcome) << error_;
    EXPECT_NE(error_.find(name), std::string::npos) << error_;
    EXPECT_NE(error_.find(text), std::string::npos) << error_;
  }
  std::string error_;
};

TEST_F(MachineTest, KernelsAreFoundByFamilyAndName) {
  EXPECT_NE(Registration::find("test", "keel_test_double"), nullptr);
  EXPECT_EQ(Registration::find("test", "keel_test_treble"), nullptr);
  EXPECT_EQ(Registration::find("test", "test_double"), nullptr);
  EXPECT_EQ(Registration::find("other", "keel_test_double"), nullptr);
}

TEST_F(MachineTest, ThreadsTakeTheirElements) {
  constexpr uint64_t kCount = 10 * kThreads + 7;
  TwoBuffers memory(kCount, kCount);
  ASSERT_EQ(run("keel_test_double", memory, kCount, 2), Outcome::kDone) << error_;
  for (uint64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(memory.out()[i], 2 * static_cast<float>(i)) << i;
  }
}

TEST_F(MachineTest, BarriersOrderSharedMemory) {
  TwoBuffers memory(3 * kThreads, 3 * kThreads);
  ASSERT_EQ(run("keel_test_reverse", memory, 3 * kThreads, 3), Outcome::kDone) << error_;
  for (uint32_t i = 0; i < 3 * kThreads; ++i) {
    const uint32_t wanted = i / kThreads * kThreads + kThreads - 1 - i % kThreads;
    ASSERT_EQ(memory.out()[i], static_cast<float>(wanted)) << i;
  }
}

TEST_F(MachineTest, WarpsAndBlocksReduce) {
  TwoBuffers memory(kThreads, 4 * kThreads);
  ASSERT_EQ(run("keel_test_sums", memory, kThreads), Outcome::kDone) << error_;
  for (uint32_t i = 0; i < kThreads; ++i) {
    const uint32_t first = i / keel::simt::kWarp * keel::simt::kWarp;
    ASSERT_EQ(memory.out()[4 * i],
              static_cast<float>(keel::simt::kWarp * first +
                                 (keel::simt::kWarp - 1) * keel::simt::kWarp / 2))
        << i;
    ASSERT_EQ(memory.out()[4 * i + 1], static_cast<float>(kThreads * (kThreads - 1) / 2)) << i;
    ASSERT_EQ(memory.out()[4 * i + 2], static_cast<float>(kThreads - 1)) << i;
    ASSERT_EQ(memory.out()[4 * i + 3], 1) << i;
  }
}

TEST_F(MachineTest, AccessesBehindABufferAreCaught) {
  // The thread after the last element, in the second block.
  expect_failure("keel_test_overrun", Outcome::kIllegalAddress, "block (1,0,0), thread 0", 2);
  EXPECT_NE(error_.find("0x900400"), std::string::npos) << error_;
  EXPECT_NE(error_.find("nothing is there"), std::string::npos) << error_;
  // With a large enough buffer nothing fails.
  TwoBuffers memory(kThreads, kThreads + 1);
  EXPECT_EQ(run("keel_test_overrun", memory, kThreads, 2), Outcome::kDone) << error_;
}

TEST_F(MachineTest, UnalignedVectorsAreCaught) {
  expect_failure("keel_test_unaligned", Outcome::kIllegalAddress, "not aligned");
}

TEST_F(MachineTest, RacesAreReported) {
  expect_failure("keel_test_racy_read", Outcome::kFailed, "a race: ");
  expect_failure("keel_test_racy_write", Outcome::kFailed, "more than one has read");
  EXPECT_NE(error_.find("shared value[0]"), std::string::npos) << error_;
}

TEST_F(MachineTest, SharedMemoryOfAnotherBlockIsNoValue) {
  TwoBuffers memory(kThreads, kThreads);
  EXPECT_EQ(run("keel_test_never_written", memory, kThreads, 1), Outcome::kDone) << error_;
  expect_failure("keel_test_never_written", Outcome::kFailed, "nobody has written", 2);
  expect_failure("keel_test_shared_overrun", Outcome::kIllegalAddress, "which ends at 256");
}

TEST_F(MachineTest, ABarrierThatNotAllReachIsNoHang) {
  expect_failure("keel_test_torn_barrier", Outcome::kFailed, "128 of them at a barrier");
}

// Fibers of a failed launch are abandoned, and the next launch reuses their stacks.
TEST_F(MachineTest, LaunchesGoOnAfterAFailure) {
  for (int i = 0; i < 3; ++i) {
    expect_failure("keel_test_racy_write", Outcome::kFailed, "a race");
    TwoBuffers memory(kThreads, kThreads);
    ASSERT_EQ(run("keel_test_reverse", memory, kThreads), Outcome::kDone) << error_;
    ASSERT_EQ(memory.out()[0], static_cast<float>(kThreads - 1));
  }
}

}  // namespace

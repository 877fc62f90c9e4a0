// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

// Records the calls.
class Recorder {
 public:
  struct Call {
    std::string name;
    uint64_t device;
    uint64_t stream;
    bool ended;
    keel_status status;
  };

  keel_profiler profiler() {
    auto filled = KEEL_STRUCT_INIT(keel_profiler, KEEL_STRUCT_PROFILER);
    filled.user = this;
    filled.begin = [](void* user, const char* name, keel_device device, keel_stream stream) {
      auto& self = *static_cast<Recorder*>(user);
      std::lock_guard lock(self.mutex_);
      self.calls_.push_back({name, device.id, stream.id, false, KEEL_OK});
      return static_cast<uint64_t>(self.calls_.size());
    };
    filled.end = [](void* user, uint64_t token, keel_status status) {
      auto& self = *static_cast<Recorder*>(user);
      std::lock_guard lock(self.mutex_);
      Call& call = self.calls_.at(token - 1);
      EXPECT_FALSE(call.ended) << call.name;
      call.ended = true;
      call.status = status;
    };
    filled.memory = [](void* user, keel_device device, uint64_t bytes) {
      auto& self = *static_cast<Recorder*>(user);
      std::lock_guard lock(self.mutex_);
      self.memory_.emplace_back(device.id, bytes);
    };
    return filled;
  }

  std::vector<Call> calls() {
    std::lock_guard lock(mutex_);
    return calls_;
  }
  std::vector<std::pair<uint64_t, uint64_t>> memory() {
    std::lock_guard lock(mutex_);
    return memory_;
  }

 private:
  std::mutex mutex_;
  std::vector<Call> calls_;
  std::vector<std::pair<uint64_t, uint64_t>> memory_;
};

class ProfilerTest : public KeelTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    KeelTest::SetUp();
    device_ = load(GetParam(), {{"devices", "1"}}).at(0);
    stream_ = new_stream(device_);
    memory_ = alloc(device_, 4096);
  }
  keel_device device_ = {};
  keel_stream stream_ = {};
  void* memory_ = nullptr;
};

keel_tensor tensor(void* data, int64_t count) {
  keel_tensor made = {};
  made.size = sizeof(made);
  made.data = data;
  made.dtype = KEEL_FLOAT32;
  made.rank = 1;
  made.shape[0] = count;
  made.strides[0] = 1;
  return made;
}

TEST_P(ProfilerTest, SurroundsEnqueueingCalls) {
  Recorder recorder;
  const keel_profiler profiler = recorder.profiler();
  ASSERT_KEEL_OK(keel_profiler_set(&profiler));
  uint32_t words[16] = {};
  ASSERT_KEEL_OK(fill(stream_, memory_, 1, 64));
  ASSERT_KEEL_OK(keel_copy(stream_, KEEL_HOST, words, device_, memory_, sizeof(words)));
  keel_op_id add = {};
  ASSERT_KEEL_OK(keel_op_find("add", &add));
  const keel_tensor a = tensor(memory_, 16);
  const keel_tensor out = tensor(static_cast<char*>(memory_) + 1024, 16);
  const keel_tensor* inputs[] = {&a, &a};
  const keel_tensor* outputs[] = {&out};
  auto call = KEEL_STRUCT_INIT(keel_op_call, KEEL_STRUCT_OP_CALL);
  call.op = add;
  call.inputs = inputs;
  call.input_count = 2;
  call.outputs = outputs;
  call.output_count = 1;
  ASSERT_KEEL_OK(keel_op_run(stream_, &call));
  // A call that fails has an end too.
  call.input_count = 1;
  EXPECT_EQ(keel_op_run(stream_, &call), KEEL_INVALID_ARGUMENT);
  ASSERT_KEEL_OK(keel_stream_synchronize(stream_, kTestTimeout));
  ASSERT_KEEL_OK(keel_profiler_set(nullptr));
  ASSERT_KEEL_OK(fill(stream_, memory_, 1, 64));

  const std::vector<Recorder::Call> calls = recorder.calls();
  ASSERT_EQ(calls.size(), 4u);
  const char* const names[] = {"fill", "copy", "add", "add"};
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i].name, names[i]);
    EXPECT_EQ(calls[i].device, device_.id);
    EXPECT_EQ(calls[i].stream, stream_.id);
    EXPECT_TRUE(calls[i].ended);
    EXPECT_EQ(calls[i].status, i == 3 ? KEEL_INVALID_ARGUMENT : KEEL_OK);
  }
}

using KernelProfilerTest = KeelTest;

// Like a copy, a refused launch enqueues nothing and is not reported. On the fake device only: the
// emulated chip runs no kernels of the caller.
TEST_F(KernelProfilerTest, SurroundsKernelLaunches) {
  const keel_device device = load("fake").at(0);
  const keel_stream stream = new_stream(device);
  keel_module module = {};
  ASSERT_KEEL_OK(keel_module_load(device, KEEL_BINARY_VENDOR, "kernels", 7, &module));
  keel_kernel store = {};
  ASSERT_KEEL_OK(keel_kernel_find(module, "store", &store));
  void* const to = alloc(device, 64);
  const uint32_t value = 7;
  const void* const arguments[] = {&to, &value};
  const uint32_t sizes[] = {sizeof(to), sizeof(value)};
  auto launch = KEEL_STRUCT_INIT(keel_launch, KEEL_STRUCT_LAUNCH);
  std::fill_n(launch.grid, 3, 1);
  std::fill_n(launch.block, 3, 1);
  launch.argument_count = 2;
  launch.arguments = arguments;
  launch.argument_sizes = sizes;

  Recorder recorder;
  const keel_profiler profiler = recorder.profiler();
  ASSERT_KEEL_OK(keel_profiler_set(&profiler));
  ASSERT_KEEL_OK(keel_kernel_launch(stream, store, &launch));
  launch.grid[0] = 0;
  EXPECT_EQ(keel_kernel_launch(stream, store, &launch), KEEL_INVALID_ARGUMENT);
  launch.grid[0] = 1;
  launch.argument_count = 1;  // refused by the plugin
  EXPECT_NE(keel_kernel_launch(stream, store, &launch), KEEL_OK);
  ASSERT_KEEL_OK(keel_profiler_set(nullptr));

  const std::vector<Recorder::Call> calls = recorder.calls();
  ASSERT_EQ(calls.size(), 2u);
  for (const Recorder::Call& call : calls) {
    EXPECT_EQ(call.name, "kernel");
    EXPECT_EQ(call.device, device.id);
    EXPECT_EQ(call.stream, stream.id);
    EXPECT_TRUE(call.ended);
  }
  EXPECT_EQ(calls[0].status, KEEL_OK);
  EXPECT_NE(calls[1].status, KEEL_OK);
  EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  EXPECT_KEEL_OK(keel_module_unload(module));
}

TEST_P(ProfilerTest, SeesMemory) {
  Recorder recorder;
  const keel_profiler profiler = recorder.profiler();
  ASSERT_KEEL_OK(keel_profiler_set(&profiler));
  void* const memory = alloc(device_, 1 << 20);
  ASSERT_KEEL_OK(keel_free(device_, memory));
  ASSERT_KEEL_OK(keel_profiler_set(nullptr));
  const auto told = recorder.memory();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].first, device_.id);
  EXPECT_GE(told[0].second, told[1].second + (1 << 20));
}

TEST_P(ProfilerTest, CallbacksAreOptional) {
  const auto empty = KEEL_STRUCT_INIT(keel_profiler, KEEL_STRUCT_PROFILER);
  ASSERT_KEEL_OK(keel_profiler_set(&empty));
  ASSERT_KEEL_OK(fill(stream_, memory_, 1, 64));
  ASSERT_KEEL_OK(keel_free(device_, alloc(device_, 64)));
  ASSERT_KEEL_OK(keel_profiler_set(nullptr));
}

TEST_P(ProfilerTest, RefusesAStructThatIsNone) {
  const keel_profiler none = {};
  EXPECT_EQ(keel_profiler_set(&none), KEEL_INVALID_ARGUMENT);
}

TEST_P(ProfilerTest, MayNotBeReplacedFromWithin) {
  static std::atomic<keel_status> answer{KEEL_OK};
  auto profiler = KEEL_STRUCT_INIT(keel_profiler, KEEL_STRUCT_PROFILER);
  profiler.begin = [](void*, const char*, keel_device, keel_stream) -> uint64_t {
    answer = keel_profiler_set(nullptr);
    return 0;
  };
  ASSERT_KEEL_OK(keel_profiler_set(&profiler));
  ASSERT_KEEL_OK(fill(stream_, memory_, 1, 64));
  EXPECT_EQ(answer.load(), KEEL_FAILED_PRECONDITION);
  ASSERT_KEEL_OK(keel_profiler_set(nullptr));
}

// The awaited call ends on another thread, which must wake keel_profiler_set.
TEST_P(ProfilerTest, IsReplacedOnceACallThatRunsHasEnded) {
  struct Blocker {
    std::atomic<bool> inside{false};
    std::atomic<bool> release{false};
  } blocker;
  auto profiler = KEEL_STRUCT_INIT(keel_profiler, KEEL_STRUCT_PROFILER);
  profiler.user = &blocker;
  profiler.begin = [](void* user, const char*, keel_device, keel_stream) -> uint64_t {
    auto& self = *static_cast<Blocker*>(user);
    self.inside.store(true);
    while (!self.release.load()) std::this_thread::yield();
    return 0;
  };
  ASSERT_KEEL_OK(keel_profiler_set(&profiler));
  std::thread caller([&] { EXPECT_KEEL_OK(fill(stream_, memory_, 1, 64)); });
  while (!blocker.inside.load()) std::this_thread::yield();
  std::atomic<bool> replaced{false};
  std::thread replacer([&] {
    EXPECT_KEEL_OK(keel_profiler_set(nullptr));
    replaced.store(true);
  });
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(replaced.load()) << "the call still runs";
    std::this_thread::yield();
  }
  blocker.release.store(true);
  caller.join();
  replacer.join();
}

// Once keel_profiler_set has returned, the former profiler is not called any more, and all calls it
// saw begin have ended.
TEST_P(ProfilerTest, IsReplacedWhileThreadsEnqueue) {
  std::atomic<bool> stopping{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      void* const mine = static_cast<char*>(memory_) + 64 * t;
      const keel_stream own = new_stream(device_);
      while (!stopping.load()) EXPECT_KEEL_OK(fill(own, mine, 1, 4));
      EXPECT_KEEL_OK(keel_stream_destroy(own));
    });
  }
  for (int round = 0; round < 50; ++round) {
    Recorder recorder;
    const keel_profiler profiler = recorder.profiler();
    ASSERT_KEEL_OK(keel_profiler_set(&profiler));
    while (recorder.calls().empty()) std::this_thread::yield();
    ASSERT_KEEL_OK(keel_profiler_set(nullptr));
    const std::vector<Recorder::Call> calls = recorder.calls();
    EXPECT_TRUE(std::all_of(calls.begin(), calls.end(),
                            [](const Recorder::Call& call) { return call.ended; }));
  }
  stopping.store(true);
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Backends, ProfilerTest, ::testing::Values("cpu", "sim"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace keel::testing

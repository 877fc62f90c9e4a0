// SPDX-License-Identifier: Apache-2.0
// The caller's kernels on the fake plugin, which detects a module unloaded too early.
#include <array>
#include <thread>

#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

constexpr std::string_view kBinary = "kernels";

// A launch of store(to, value) over |count| words.
struct StoreLaunch {
  StoreLaunch(void* pointer, uint32_t word, uint32_t count) : to(pointer), value(word) {
    launch.grid[0] = count;
    launch.grid[1] = launch.grid[2] = 1;
    std::fill_n(launch.block, 3, 1);
    launch.argument_count = 2;
    launch.arguments = arguments.data();
    launch.argument_sizes = sizes.data();
  }
  StoreLaunch(const StoreLaunch&) = delete;

  void* to;
  uint32_t value;
  std::array<const void*, 2> arguments = {&to, &value};
  std::array<uint32_t, 2> sizes = {sizeof(to), sizeof(value)};
  keel_launch launch = KEEL_STRUCT_INIT(keel_launch, KEEL_STRUCT_LAUNCH);
};

class KernelTest : public KeelTest {
 protected:
  void SetUp() override {
    KeelTest::SetUp();
    devices_ = load("fake");
    ASSERT_EQ(devices_.size(), 2u);
    stream_ = new_stream(devices_[0]);
    module_ = load_module(devices_[0]);
    ASSERT_KEEL_OK(keel_kernel_find(module_, "store", &kernel_));
  }

  static keel_module load_module(keel_device device) {
    keel_module module = {};
    EXPECT_KEEL_OK(
        keel_module_load(device, KEEL_BINARY_VENDOR, kBinary.data(), kBinary.size(), &module));
    return module;
  }

  void expect_refused(keel_status status, keel_status wanted, const char* named) {
    EXPECT_EQ(status, wanted) << keel_last_error();
    EXPECT_NE(std::string(keel_last_error()).find(named), std::string::npos) << keel_last_error();
  }

  std::vector<keel_device> devices_;
  keel_stream stream_ = {};
  keel_module module_ = {};
  keel_kernel kernel_ = {};
};

TEST_F(KernelTest, RefusesBinariesByName) {
  keel_module module = {};
  const auto load_with = [&](keel_binary_format format, const void* data, uint64_t size) {
    return keel_module_load(devices_[0], format, data, size, &module);
  };
  expect_refused(load_with(KEEL_BINARY_VENDOR, nullptr, 7), KEEL_INVALID_ARGUMENT, "data");
  expect_refused(load_with(KEEL_BINARY_VENDOR, "kernels", 0), KEEL_INVALID_ARGUMENT, "size");
  expect_refused(load_with(9, "kernels", 7), KEEL_INVALID_ARGUMENT, "format 9");
  expect_refused(load_with(0, "kernels", 7), KEEL_INVALID_ARGUMENT, "format 0");
  expect_refused(load_with(KEEL_BINARY_SPIRV, "kernels", 7), KEEL_UNSUPPORTED, "fake");
  expect_refused(load_with(KEEL_BINARY_VENDOR, "garbage", 7), KEEL_INVALID_ARGUMENT, "fake:0");
  expect_refused(keel_module_load(devices_[0], KEEL_BINARY_VENDOR, "kernels", 7, nullptr),
                 KEEL_INVALID_ARGUMENT, "out_module");
  expect_refused(keel_module_load({77}, KEEL_BINARY_VENDOR, "kernels", 7, &module),
                 KEEL_INVALID_HANDLE, "device");
  const keel_device plain = load("fake", {{"no_kernels", "1"}}).at(0);
  expect_refused(keel_module_load(plain, KEEL_BINARY_VENDOR, "kernels", 7, &module),
                 KEEL_UNSUPPORTED, "fake#2:0");
  EXPECT_EQ(module.id, 0u);
}

TEST_F(KernelTest, FindsOneKernelOnce) {
  keel_kernel again = {};
  ASSERT_KEEL_OK(keel_kernel_find(module_, "store", &again));
  EXPECT_EQ(again.id, kernel_.id);
  expect_refused(keel_kernel_find(module_, "load", &again), KEEL_NOT_FOUND, "load");
  expect_refused(keel_kernel_find(module_, nullptr, &again), KEEL_INVALID_ARGUMENT, "name");
  expect_refused(keel_kernel_find({5}, "store", &again), KEEL_INVALID_HANDLE, "module");
  EXPECT_EQ(again.id, kernel_.id);
}

TEST_F(KernelTest, RefusesLaunchesByName) {
  void* memory = alloc_filled(devices_[0], {1, 1});
  const auto expect = [&](keel_status wanted, const char* named, auto change) {
    StoreLaunch store(memory, 2, 2);
    change(store);
    expect_refused(keel_kernel_launch(stream_, kernel_, &store.launch), wanted, named);
  };
  expect_refused(keel_kernel_launch(stream_, kernel_, nullptr), KEEL_INVALID_ARGUMENT, "launch");
  expect(KEEL_INVALID_ARGUMENT, "header", [](StoreLaunch& s) { s.launch.header.size = 8; });
  expect(KEEL_INVALID_ARGUMENT, "grid[1]", [](StoreLaunch& s) { s.launch.grid[1] = 0; });
  expect(KEEL_INVALID_ARGUMENT, "block[2]", [](StoreLaunch& s) { s.launch.block[2] = 0; });
  expect(KEEL_OUT_OF_RANGE, "launch.block",
         [](StoreLaunch& s) { std::fill_n(s.launch.block, 3, UINT32_MAX); });
  expect(KEEL_OUT_OF_RANGE, "launch.grid",
         [](StoreLaunch& s) { std::fill_n(s.launch.grid, 3, 1u << 31); });
  expect(KEEL_OUT_OF_RANGE, "in all", [](StoreLaunch& s) {
    std::fill_n(s.launch.grid, 2, 1u << 31);
    s.launch.block[0] = 1024;
  });
  expect(KEEL_OUT_OF_RANGE, "argument_count",
         [](StoreLaunch& s) { s.launch.argument_count = 257; });
  expect(KEEL_INVALID_ARGUMENT, "launch.arguments is NULL",
         [](StoreLaunch& s) { s.launch.arguments = nullptr; });
  expect(KEEL_INVALID_ARGUMENT, "launch.argument_sizes is NULL",
         [](StoreLaunch& s) { s.launch.argument_sizes = nullptr; });
  expect(KEEL_INVALID_ARGUMENT, "arguments[1]", [](StoreLaunch& s) { s.arguments[1] = nullptr; });
  expect(KEEL_INVALID_ARGUMENT, "argument_sizes[0]", [](StoreLaunch& s) { s.sizes[0] = 0; });
  expect(KEEL_OUT_OF_RANGE, "bytes", [](StoreLaunch& s) { s.sizes[1] = 4096; });
  expect(KEEL_INVALID_ARGUMENT, "fake: 2 arguments",
         [](StoreLaunch& s) { s.launch.argument_count = 1; });
  StoreLaunch store(memory, 2, 2);
  expect_refused(keel_kernel_launch({3}, kernel_, &store.launch), KEEL_INVALID_HANDLE, "stream");
  expect_refused(keel_kernel_launch(stream_, {3}, &store.launch), KEEL_INVALID_HANDLE, "kernel");
  const keel_stream other = new_stream(devices_[1]);
  expect_refused(keel_kernel_launch(other, kernel_, &store.launch), KEEL_INVALID_ARGUMENT,
                 "fake:0");
  EXPECT_NE(std::string(keel_last_error()).find("fake:1"), std::string::npos);
  // The stream is unharmed.
  ASSERT_KEEL_OK(keel_kernel_launch(stream_, kernel_, &store.launch));
  ASSERT_KEEL_OK(keel_stream_synchronize(stream_, kTestTimeout));
  EXPECT_EQ(read(devices_[0], memory, 2), std::vector<uint32_t>(2, 2));
}

TEST_F(KernelTest, RunsInItsPlace) {
  void* memory = alloc_filled(devices_[0], {0, 0, 0, 0});
  StoreLaunch store(memory, 5, 3);
  ASSERT_KEEL_OK(fill(stream_, memory, 4, 4));
  ASSERT_KEEL_OK(keel_kernel_launch(stream_, kernel_, &store.launch));
  ASSERT_KEEL_OK(fill(stream_, memory, 6, 1));
  ASSERT_KEEL_OK(keel_stream_synchronize(stream_, kTestTimeout));
  EXPECT_EQ(read(devices_[0], memory, 4), (std::vector<uint32_t>{6, 5, 5, 4}));
}

TEST_F(KernelTest, HeldLaunchesKeepArgumentsAndModule) {
  void* memory = alloc_filled(devices_[0], {1, 1});
  keel_gate gate = {};
  ASSERT_KEEL_OK(keel_gate_create(&gate));
  ASSERT_KEEL_OK(keel_stream_wait_gate(stream_, gate));
  {
    StoreLaunch store(memory, 9, 2);
    ASSERT_KEEL_OK(keel_kernel_launch(stream_, kernel_, &store.launch));
    store.value = 8;
    store.to = nullptr;
  }
  ASSERT_KEEL_OK(keel_module_unload(module_));
  StoreLaunch late(memory, 3, 2);
  expect_refused(keel_kernel_launch(stream_, kernel_, &late.launch), KEEL_INVALID_HANDLE, "kernel");
  EXPECT_EQ(read(devices_[0], memory, 2), std::vector<uint32_t>(2, 1));
  ASSERT_KEEL_OK(keel_gate_open(gate, KEEL_OK, nullptr));
  ASSERT_KEEL_OK(keel_stream_synchronize(stream_, kTestTimeout));
  EXPECT_EQ(read(devices_[0], memory, 2), std::vector<uint32_t>(2, 9));
  ASSERT_KEEL_OK(keel_gate_destroy(gate));
}

TEST_F(KernelTest, AGateThatFailsLetsGoOfTheModule) {
  void* memory = alloc_filled(devices_[0], {1});
  keel_gate gate = {};
  ASSERT_KEEL_OK(keel_gate_create(&gate));
  ASSERT_KEEL_OK(keel_stream_wait_gate(stream_, gate));
  StoreLaunch store(memory, 9, 1);
  ASSERT_KEEL_OK(keel_kernel_launch(stream_, kernel_, &store.launch));
  ASSERT_KEEL_OK(keel_module_unload(module_));
  ASSERT_KEEL_OK(keel_gate_open(gate, KEEL_ABORTED, "given up"));
  EXPECT_EQ(keel_stream_synchronize(stream_, kTestTimeout), KEEL_ABORTED);
  EXPECT_EQ(keel_kernel_launch(stream_, kernel_, &store.launch), KEEL_INVALID_HANDLE);
  EXPECT_EQ(read(devices_[0], memory, 1), std::vector<uint32_t>{1});
  ASSERT_KEEL_OK(keel_gate_destroy(gate));
}

TEST_F(KernelTest, UnloadsOnlyWhatIsDone) {
  void* memory = alloc_filled(devices_[0], {1});
  StoreLaunch store(memory, 7, 1);
  {
    const FakePause pause;
    ASSERT_KEEL_OK(keel_kernel_launch(stream_, kernel_, &store.launch));
    ASSERT_KEEL_OK(keel_module_unload(module_));
    load_module(devices_[0]);  // collects retired modules, and must not unload this one
    expect_refused(keel_module_unload(module_), KEEL_INVALID_HANDLE, "module");
  }
  ASSERT_KEEL_OK(keel_stream_synchronize(stream_, kTestTimeout));
  load_module(devices_[0]);
  EXPECT_EQ(read(devices_[0], memory, 1), std::vector<uint32_t>{7});
}  // the end of the test unloads the remaining two modules

TEST_F(KernelTest, ManyThreadsLoadLaunchAndUnload) {
  std::vector<std::thread> threads;
  for (uint32_t index = 0; index < 4; ++index) {
    threads.emplace_back([&, index] {
      const keel_stream stream = new_stream(devices_[0]);
      void* memory = alloc_filled(devices_[0], {0});
      for (uint32_t round = 0; round < 50; ++round) {
        const keel_module module = load_module(devices_[0]);
        keel_kernel kernel = {};
        ASSERT_KEEL_OK(keel_kernel_find(module, "store", &kernel));
        StoreLaunch store(memory, index * 100 + round, 1);
        ASSERT_KEEL_OK(keel_kernel_launch(stream, kernel, &store.launch));
        ASSERT_KEEL_OK(keel_kernel_launch(stream, kernel_, &store.launch));  // of all threads
        ASSERT_KEEL_OK(keel_module_unload(module));
      }
      ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
      EXPECT_EQ(read(devices_[0], memory, 1), std::vector<uint32_t>{index * 100 + 49});
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace keel::testing

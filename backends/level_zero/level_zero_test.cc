// SPDX-License-Identifier: Apache-2.0
// The Level Zero backend through keel.h, on the emulated chip: order between the command lists of a
// stream, and failures as a framework sees them.
#include <keel/op_calls.h>

#include <keel/plugin_kit.hpp>
#include <string>
#include <vector>

#include "backends/level_zero/testing/own_loader.h"
#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

#define EXPECT_HAS(text, part)                               \
  EXPECT_NE(std::string(text).find(part), std::string::npos) \
      << "no '" << (part) << "' in: " << (text)

class LevelZeroTest : public KeelTest {
 protected:
  static std::vector<keel_device> load_from(const OwnLoader& loader) {
    return load("level_zero", {{"library_folder", loader.folder()}});
  }
  static uint64_t capabilities(keel_device device) {
    auto info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
    EXPECT_KEEL_OK(keel_device_info_get(device, &info));
    return info.capabilities;
  }
  void expect_works(keel_device device) {
    const std::vector<uint32_t> words = pattern(1000, 7);
    void* const memory = alloc_filled(device, words);
    EXPECT_EQ(read(device, memory, words.size()), words);
    EXPECT_KEEL_OK(keel_free(device, memory));
  }
};

// The large copies go to a copy engine's list, the fills to the list of kernels.
TEST_F(LevelZeroTest, ListsOfOneStreamKeepItsOrder) {
  for (const char* const settings :
       {"devices=1 memory_mib=64 delay_us=200", "devices=1 memory_mib=64 copy_engine=0"}) {
    SCOPED_TRACE(settings);
    const OwnLoader loader(settings, /*with_kernels=*/false);
    const std::vector<keel_device> devices = load_from(loader);
    ASSERT_EQ(devices.size(), 1u);
    const keel_stream stream = new_stream(devices[0]);
    constexpr size_t kCount = 200'000;
    void* const memory = alloc(devices[0], kCount * 4);
    std::vector<uint32_t> last(kCount);
    for (uint32_t round = 0; round < 100; ++round) {
      const std::vector<uint32_t> words = pattern(kCount, round);
      EXPECT_KEEL_OK(keel_copy(stream, devices[0], memory, KEEL_HOST, words.data(), kCount * 4));
      EXPECT_KEEL_OK(fill(stream, memory, round, 10));
      EXPECT_KEEL_OK(keel_copy(stream, KEEL_HOST, last.data(), devices[0], memory, kCount * 4));
      EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
      ASSERT_EQ(last[9], round);
      ASSERT_EQ(last[10], words[10]);
      ASSERT_EQ(last.back(), words.back());
    }
    EXPECT_KEEL_OK(keel_free(devices[0], memory));
    EXPECT_KEEL_OK(keel_stream_destroy(stream));
  }
}

TEST_F(LevelZeroTest, PointersNameTheirDevice) {
  const OwnLoader loader("devices=2 memory_mib=64", /*with_kernels=*/false);
  const std::vector<keel_device> devices = load_from(loader);
  ASSERT_EQ(devices.size(), 2u);
  void* const first = alloc(devices[0], 4096);
  void* const second = alloc(devices[1], 4096);
  EXPECT_NE(first, second);
  EXPECT_KEEL_OK(keel_free(devices[0], first));
  EXPECT_KEEL_OK(keel_free(devices[1], second));
}

TEST_F(LevelZeroTest, LossInMidStreamIsSeenAndTheOtherDeviceGoesOn) {
  const OwnLoader loader("devices=2 memory_mib=64 faults=0/lose:copy@3", /*with_kernels=*/false);
  const std::vector<keel_device> devices = load_from(loader);
  ASSERT_EQ(devices.size(), 2u);
  const keel_stream stream = new_stream(devices[0]);
  void* const memory = alloc(devices[0], 64 * 4);
  const std::vector<uint32_t> words = pattern(64, 1);
  for (int i = 0; i < 4; ++i) {
    // A call that comes after the loss returns it.
    const keel_status status =
        keel_copy(stream, devices[0], memory, KEEL_HOST, words.data(), 64 * 4);
    EXPECT_TRUE(status == KEEL_OK || status == KEEL_DEVICE_LOST) << status;
  }
  EXPECT_EQ(keel_stream_synchronize(stream, kTestTimeout), KEEL_DEVICE_LOST);
  EXPECT_HAS(keel_last_error(), "ZE_RESULT_ERROR_DEVICE_LOST");
  void* more = nullptr;
  EXPECT_EQ(keel_alloc(devices[0], KEEL_MEMORY_DEVICE, 8 << 20, &more), KEEL_DEVICE_LOST);
  expect_works(devices[1]);
  (void)keel_free(devices[0], memory);
  (void)keel_stream_destroy(stream);
}

TEST_F(LevelZeroTest, OutOfMemoryIsSaidAndLeavesTheDeviceUsable) {
  const OwnLoader loader("devices=1 memory_mib=16", /*with_kernels=*/false);
  const std::vector<keel_device> devices = load_from(loader);
  ASSERT_EQ(devices.size(), 1u);
  void* const most = alloc(devices[0], 12 << 20);
  void* memory = nullptr;
  EXPECT_EQ(keel_alloc(devices[0], KEEL_MEMORY_DEVICE, 12 << 20, &memory), KEEL_OUT_OF_MEMORY);
  EXPECT_HAS(keel_last_error(), "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY");
  expect_works(devices[0]);
  EXPECT_KEEL_OK(keel_free(devices[0], most));
}

TEST_F(LevelZeroTest, CapabilitiesOfMemoryFollowTheDriver) {
  constexpr uint64_t kAll = KEEL_CAPABILITY_HOST_REGISTER | KEEL_CAPABILITY_EXPORT;
  {
    const OwnLoader loader("devices=1 memory_mib=16", /*with_kernels=*/false);
    EXPECT_EQ(capabilities(load_from(loader).at(0)) & kAll, kAll);
  }
  {
    const OwnLoader loader("devices=1 memory_mib=16 ipc=0 import=0", /*with_kernels=*/false);
    const keel_device device = load_from(loader).at(0);
    EXPECT_EQ(capabilities(device) & kAll, 0u);
    expect_works(device);
  }
  for (const char* const name : {"zeDriverGetExtensionFunctionAddress", "zeMemOpenIpcHandle"}) {
    const OwnLoader loader("devices=1 memory_mib=16", /*with_kernels=*/false);
    loader.remove_symbol(name);
    const uint64_t lost = std::string(name) == "zeMemOpenIpcHandle" ? KEEL_CAPABILITY_EXPORT
                                                                    : KEEL_CAPABILITY_HOST_REGISTER;
    const keel_device device = load_from(loader).at(0);
    EXPECT_EQ(capabilities(device) & kAll, kAll & ~lost) << name;
    expect_works(device);
  }
}

TEST_F(LevelZeroTest, RegistrationIsOncePerDriverAndCountedPerDevice) {
  const OwnLoader loader("devices=2 memory_mib=16", /*with_kernels=*/false);
  const std::vector<keel_device> devices = load_from(loader);
  ASSERT_EQ(devices.size(), 2u);
  std::vector<uint32_t> words = pattern(1000, 3);
  const uint64_t size = words.size() * 4;
  for (const keel_device device : devices) {
    EXPECT_KEEL_OK(keel_host_register(device, words.data(), size));
  }
  EXPECT_KEEL_OK(keel_host_unregister(devices[0], words.data()));
  void* const memory = alloc(devices[1], size);
  const keel_stream stream = new_stream(devices[1]);
  EXPECT_KEEL_OK(keel_copy(stream, devices[1], memory, KEEL_HOST, words.data(), size));
  EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  EXPECT_EQ(read(devices[1], memory, words.size()), words);
  EXPECT_KEEL_OK(keel_host_unregister(devices[1], words.data()));
  EXPECT_KEEL_OK(keel_free(devices[1], memory));
  EXPECT_KEEL_OK(keel_stream_destroy(stream));
}

TEST_F(LevelZeroTest, FreeMemoryIsKnownIfSystemManagementIsEnabled) {
  uint64_t free = 0;
  uint64_t total = 0;
  {
    const OwnLoader loader("devices=1 memory_mib=16", /*with_kernels=*/false);
    const keel_device device = load_from(loader).at(0);
    EXPECT_EQ(capabilities(device) & KEEL_CAPABILITY_MEMORY_INFO, 0u);
    EXPECT_EQ(keel_device_memory_info(device, &free, &total), KEEL_UNSUPPORTED);
  }
  setenv("ZES_ENABLE_SYSMAN", "1", 1);
  {
    const OwnLoader loader("devices=1 memory_mib=16", /*with_kernels=*/false);
    const keel_device device = load_from(loader).at(0);
    EXPECT_NE(capabilities(device) & KEEL_CAPABILITY_MEMORY_INFO, 0u);
    void* const memory = alloc(device, 4 << 20);
    EXPECT_KEEL_OK(keel_device_memory_info(device, &free, &total));
    EXPECT_EQ(total, uint64_t{16} << 20);
    EXPECT_LE(free, uint64_t{12} << 20);
    EXPECT_KEEL_OK(keel_free(device, memory));
  }
  {
    const OwnLoader loader("devices=1 memory_mib=16", /*with_kernels=*/false);
    loader.remove_symbol("zesMemoryGetState");
    EXPECT_EQ(capabilities(load_from(loader).at(0)) & KEEL_CAPABILITY_MEMORY_INFO, 0u);
  }
  unsetenv("ZES_ENABLE_SYSMAN");
}

TEST_F(LevelZeroTest, WithoutTheWarpsSubgroupNoOperatorsAreClaimed) {
  const OwnLoader loader("devices=1 memory_mib=16 subgroup=64");
  const std::vector<keel_device> devices = load_from(loader);
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(capabilities(devices[0]) & KEEL_CAPABILITY_OPS, 0u);
  expect_works(devices[0]);
}

// The attention kernels take 43 KiB of it.
TEST_F(LevelZeroTest, WithoutTheGroupMemoryNoOperatorsAreClaimed) {
  const OwnLoader loader("devices=1 memory_mib=16 local_kib=32");
  const std::vector<keel_device> devices = load_from(loader);
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(capabilities(devices[0]) & KEEL_CAPABILITY_OPS, 0u);
  expect_works(devices[0]);
}

// Two elements of |dtype| and their sum by elementwise; the operator's candidates in |*out_text|.
template <typename T>
class Sum {
 public:
  Sum(keel_device device, void* memory, keel_dtype dtype)
      : device_(device), memory_(memory), values_(kit::make_tensor(memory, dtype, {2})) {}

  // Returns the sum of {1, 2} and itself.
  std::vector<T> run(keel_stream stream, keel_status* out_status) {
    std::vector<T> values = {1, 2};
    const uint64_t size = values.size() * sizeof(T);
    EXPECT_KEEL_OK(keel_copy(stream, device_, memory_, KEEL_HOST, values.data(), size));
    *out_status = keel_op_elementwise(stream, &values_, &values_, nullptr, &values_, &kAdd);
    EXPECT_KEEL_OK(keel_copy(stream, KEEL_HOST, values.data(), device_, memory_, size));
    EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
    return values;
  }

 private:
  static constexpr keel_op_elementwise_attributes kAdd = {
      KEEL_ELEMENTWISE_FUNCTION_ADD, 1.0, 0, 0, 0, 0, 0};
  const keel_device device_;
  void* const memory_;
  const keel_tensor values_;
};

// The emulated driver refuses a module that declares 64-bit floats: no other family does.
TEST_F(LevelZeroTest, WithoutDoublesOnlyOperatorsOfDoublesFallBack) {
  for (const bool has_doubles : {true, false}) {
    SCOPED_TRACE(has_doubles);
    const OwnLoader loader(std::string("devices=1 memory_mib=64 doubles=") +
                           (has_doubles ? "1" : "0"));
    const std::vector<keel_device> devices = load_from(loader);
    ASSERT_EQ(devices.size(), 1u);
    if ((capabilities(devices[0]) & KEEL_CAPABILITY_OPS) == 0) {
      GTEST_SKIP() << "this build has no SPIR-V of the operators";
    }
    (void)load("cpu");  // for the fallback
    const keel_stream stream = new_stream(devices[0]);
    void* const memory = alloc(devices[0], 256);
    keel_status status = KEEL_OK;
    EXPECT_KEEL_OK(keel_op_forbid_fallback(1));
    Sum<float> floats(devices[0], memory, KEEL_FLOAT32);
    EXPECT_EQ(floats.run(stream, &status), (std::vector<float>{2, 4}));
    EXPECT_KEEL_OK(status);
    Sum<int64_t> integers(devices[0], memory, KEEL_INT64);
    EXPECT_EQ(integers.run(stream, &status), (std::vector<int64_t>{2, 4}));
    EXPECT_KEEL_OK(status);
    Sum<double> doubles(devices[0], memory, KEEL_FLOAT64);
    (void)doubles.run(stream, &status);
    EXPECT_EQ(status, has_doubles ? KEEL_OK : KEEL_UNSUPPORTED);
    const keel_tensor x = kit::make_tensor(memory, KEEL_FLOAT32, {2});
    for (const keel_dtype to : {KEEL_FLOAT64, KEEL_INT64, KEEL_INT8}) {
      const keel_tensor y = kit::make_tensor(static_cast<char*>(memory) + 64, to, {2});
      EXPECT_EQ(keel_op_cast(stream, &x, &y),
                to == KEEL_FLOAT64 && !has_doubles ? KEEL_UNSUPPORTED : KEEL_OK);
    }
    EXPECT_KEEL_OK(keel_op_forbid_fallback(0));
    EXPECT_EQ(doubles.run(stream, &status), (std::vector<double>{2, 4}));
    EXPECT_KEEL_OK(status);
    EXPECT_KEEL_OK(keel_free(devices[0], memory));
    EXPECT_KEEL_OK(keel_stream_destroy(stream));
  }
}

TEST_F(LevelZeroTest, KernelsThatDoNotBuildLeaveTheDeviceUsable) {
  const OwnLoader loader("devices=1 memory_mib=64", /*with_kernels=*/false);
  const std::vector<keel_device> devices = load_from(loader);
  ASSERT_EQ(devices.size(), 1u);
  expect_works(devices[0]);
}

}  // namespace
}  // namespace keel::testing

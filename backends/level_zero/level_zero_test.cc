// SPDX-License-Identifier: Apache-2.0
// The Level Zero backend through keel.h, on the emulated chip: order between the command lists of a
// stream, and failures as a framework sees them.
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

TEST_F(LevelZeroTest, WithoutTheWarpsSubgroupNoOperatorsAreClaimed) {
  const OwnLoader loader("devices=1 memory_mib=16 subgroup=64");
  const std::vector<keel_device> devices = load_from(loader);
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(capabilities(devices[0]) & KEEL_CAPABILITY_OPS, 0u);
  expect_works(devices[0]);
}

TEST_F(LevelZeroTest, KernelsThatDoNotBuildLeaveTheDeviceUsable) {
  const OwnLoader loader("devices=1 memory_mib=64", /*with_kernels=*/false);
  const std::vector<keel_device> devices = load_from(loader);
  ASSERT_EQ(devices.size(), 1u);
  expect_works(devices[0]);
}

}  // namespace
}  // namespace keel::testing

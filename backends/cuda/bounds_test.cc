// SPDX-License-Identifier: Apache-2.0
// Kernels that write beyond their memory: detection depends on the contents of the driver's
// allocation.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "backends/cuda/testing/cuda_test.h"

namespace keel::testing {
namespace {

constexpr uint64_t kBytes = 1000;
constexpr uint32_t kWords = kBytes / sizeof(uint32_t);

class CudaBoundsTest : public CudaFixture {
 protected:
  // Starts Keel with |alloc| as KEEL_ALLOC, and with a user kernel that increments as many words as
  // it has threads.
  void start(const char* alloc) {
    setenv("KEEL_ALLOC", alloc, 1);
    CudaFixture::SetUp();
    unsetenv("KEEL_ALLOC");
    device_ = load_cuda(driver_).at(0);
    stream_ = new_stream(device_);
    std::ifstream file(KEEL_TEST_KERNELS, std::ios::binary);
    const std::string image{std::istreambuf_iterator<char>(file), {}};
    ASSERT_KEEL_OK(
        keel_module_load(device_, KEEL_BINARY_CUBIN, image.data(), image.size(), &module_));
    ASSERT_KEEL_OK(keel_kernel_find(module_, "number", &kernel_));
  }
  void SetUp() override {}
  void TearDown() override {
    EXPECT_KEEL_OK(keel_module_unload(module_));
    CudaFixture::TearDown();
  }
  keel_status run(const void* memory, uint32_t words) {
    const uint32_t first = 3;
    const void* const arguments[] = {&memory, &first};
    const uint32_t sizes[] = {sizeof(memory), sizeof(first)};
    auto launch = KEEL_STRUCT_INIT(keel_launch, KEEL_STRUCT_LAUNCH);
    launch.grid[0] = launch.grid[1] = launch.grid[2] = 1;
    launch.block[0] = words;
    launch.block[1] = launch.block[2] = 1;
    launch.argument_count = 2;
    launch.arguments = arguments;
    launch.argument_sizes = sizes;
    EXPECT_KEEL_OK(keel_kernel_launch(stream_, kernel_, &launch));
    return keel_stream_synchronize(stream_, kTestTimeout);
  }

  const OwnDriver driver_;
  keel_device device_ = {};
  keel_stream stream_ = {};
  keel_module module_ = {};
  keel_kernel kernel_ = {};
};

TEST_F(CudaBoundsTest, OneElementPastTheEndIsNoticedWhereNothingElseIsThere) {
  start("exact");
  void* const memory = alloc(device_, kBytes);
  ASSERT_KEEL_OK(run(memory, kWords));
  EXPECT_FAILS(KEEL_DEVICE_LOST, "CUDA_ERROR_ILLEGAL_ADDRESS", run(memory, kWords + 1));
}

TEST_F(CudaBoundsTest, AlsoOfMemoryOfAStream) {
  start("exact");
  void* memory = nullptr;
  ASSERT_KEEL_OK(keel_alloc_on_stream(stream_, kBytes, &memory));
  ASSERT_KEEL_OK(run(memory, kWords));
  EXPECT_FAILS(KEEL_DEVICE_LOST, "CUDA_ERROR_ILLEGAL_ADDRESS", run(memory, kWords + 1));
}

TEST_F(CudaBoundsTest, InASegmentWithOthersNobodyNotices) {
  start("cached");
  EXPECT_KEEL_OK(run(alloc(device_, kBytes), kWords + 1));
}

}  // namespace
}  // namespace keel::testing

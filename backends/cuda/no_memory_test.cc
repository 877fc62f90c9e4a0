// SPDX-License-Identifier: Apache-2.0
// Calls that must work when host memory is exhausted.
#include "backends/cuda/testing/cuda_test.h"
#include "core/testing/host_memory.h"

namespace keel::testing {
namespace {

class CudaNoMemoryTest : public CudaFixture {};

TEST_F(CudaNoMemoryTest, FreeingBesideNativeWork) {
  const OwnDriver driver;
  const keel_device device = load_cuda(driver).at(0);
  void* native = nullptr;
  ASSERT_KEEL_OK(keel_stream_unwrap(new_stream(device), &native));  // a framework may use it now
  // The first call may need more memory than later calls.
  ASSERT_KEEL_OK(keel_free(device, alloc(device, 4096)));
  void* const memory = alloc(device, 4096);
  t_until_failure = 0;
  const keel_status freed = keel_free(device, memory);
  t_until_failure = -1;
  EXPECT_EQ(freed, KEEL_OK) << keel_last_error();
}

}  // namespace
}  // namespace keel::testing

// SPDX-License-Identifier: Apache-2.0
// The fixture of tests that use the CUDA backend through keel.h.
#ifndef KEEL_BACKENDS_CUDA_TESTING_CUDA_TEST_H_
#define KEEL_BACKENDS_CUDA_TESTING_CUDA_TEST_H_

#include <string>
#include <vector>

#include "backends/cuda/testing/own_driver.h"
#include "core/testing/keel_test.h"

namespace keel::testing {

class CudaFixture : public KeelTest {
 protected:
  // The devices of a new instance.
  static std::vector<keel_device> load_cuda(const OwnDriver& driver) {
    return load("cuda", {{"library_folder", driver.folder()}});
  }
  // Why an instance with the driver folder |folder| has no device.
  static std::string reason(const std::string& folder) {
    uint32_t backend = 0;
    EXPECT_KEEL_OK(keel_backend_count(&backend));
    EXPECT_TRUE(load("cuda", {{"library_folder", folder}}).empty());
    auto info = KEEL_STRUCT_INIT(keel_backend_info, KEEL_STRUCT_BACKEND_INFO);
    EXPECT_KEEL_OK(keel_backend_get(backend, &info));
    return info.reason;
  }
};

#define EXPECT_HAS(text, part)                               \
  EXPECT_NE(std::string(text).find(part), std::string::npos) \
      << "no '" << (part) << "' in: " << (text)

}  // namespace keel::testing

#endif  // KEEL_BACKENDS_CUDA_TESTING_CUDA_TEST_H_

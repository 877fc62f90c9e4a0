// SPDX-License-Identifier: Apache-2.0
// The fixture of tests that use the HIP backend through keel.h.
#ifndef KEEL_BACKENDS_HIP_TESTING_HIP_TEST_H_
#define KEEL_BACKENDS_HIP_TESTING_HIP_TEST_H_

#include <string>
#include <vector>

#include "backends/hip/testing/own_runtime.h"
#include "core/testing/keel_test.h"

namespace keel::testing {

class HipFixture : public KeelTest {
 protected:
  // The devices of a new instance.
  static std::vector<keel_device> load_hip(const OwnRuntime& runtime) {
    return load("hip", {{"library_folder", runtime.folder()}});
  }
  // Why an instance with the runtime's folder |folder| has no device.
  static std::string reason(const std::string& folder) {
    uint32_t backend = 0;
    EXPECT_KEEL_OK(keel_backend_count(&backend));
    EXPECT_TRUE(load("hip", {{"library_folder", folder}}).empty());
    auto info = KEEL_STRUCT_INIT(keel_backend_info, KEEL_STRUCT_BACKEND_INFO);
    EXPECT_KEEL_OK(keel_backend_get(backend, &info));
    return info.reason;
  }
  static keel_device_info info(keel_device device) {
    auto info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
    EXPECT_KEEL_OK(keel_device_info_get(device, &info));
    return info;
  }
  // Runs |body|; returns the log.
  template <typename Body>
  static std::string log_of(Body&& body) {
    std::string log;
    const struct Restored {
      ~Restored() { keel_set_log(KEEL_LOG_WARNING, nullptr, nullptr); }
    } restored;
    keel_set_log(
        KEEL_LOG_INFO,
        [](void* user, keel_log_level, const char* text) {
          static_cast<std::string*>(user)->append(text).append("\n");
        },
        &log);
    body();
    return log;
  }
  void expect_works(keel_device device) {
    const std::vector<uint32_t> words = pattern(1000, 7);
    EXPECT_EQ(read(device, alloc_filled(device, words), words.size()), words);
  }
};

#define EXPECT_HAS(text, part)                               \
  EXPECT_NE(std::string(text).find(part), std::string::npos) \
      << "no '" << (part) << "' in: " << (text)

}  // namespace keel::testing

#endif  // KEEL_BACKENDS_HIP_TESTING_HIP_TEST_H_

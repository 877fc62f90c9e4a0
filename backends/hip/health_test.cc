// SPDX-License-Identifier: Apache-2.0
// Device health reported by the HIP backend, on the emulated chip and its ROCm SMI.
#include <filesystem>
#include <string>

#include "backends/hip/testing/hip_test.h"

namespace keel::testing {
namespace {

class HipHealthTest : public HipFixture {
 protected:
  static keel_device_health health(keel_device device) {
    auto health = KEEL_STRUCT_INIT(keel_device_health, KEEL_STRUCT_DEVICE_HEALTH);
    EXPECT_KEEL_OK(keel_device_health_get(device, &health));
    return health;
  }
};

TEST_F(HipHealthTest, ADeviceThatIsWell) {
  const OwnRuntime runtime("devices=2");
  runtime.add_rocm_smi("corrected=3 pages=2");
  const keel_device_health well = health(load_hip(runtime).at(1));
  EXPECT_EQ(well.ok, 1u);
  EXPECT_EQ(well.throttled, 0u);
  EXPECT_EQ(well.corrected_ecc, 3u);
  EXPECT_EQ(well.uncorrected_ecc, 0u);
  EXPECT_STREQ(well.text, "");
}

TEST_F(HipHealthTest, WithoutTheLibrary) {
  const OwnRuntime runtime;
  const keel_device_health well = health(load_hip(runtime).at(0));
  EXPECT_EQ(well.ok, 1u);
  EXPECT_HAS(well.text, "no ROCm SMI: ");
  EXPECT_HAS(well.text, runtime.folder() + "/librocm_smi64.so.1");
}

TEST_F(HipHealthTest, AnErrorOfItsMemory) {
  const OwnRuntime runtime("devices=2 faults=0/lose:fill@3");
  runtime.add_rocm_smi();
  const auto devices = load_hip(runtime);
  EXPECT_EQ(health(devices.at(0)).ok, 1u);
  const keel_stream stream = new_stream(devices[0]);
  void* const memory = alloc(devices[0], 4);
  for (uint32_t i = 0; i < 3; ++i) ASSERT_KEEL_OK(fill(stream, memory, i, 1));
  EXPECT_EQ(keel_stream_synchronize(stream, kTestTimeout), KEEL_DEVICE_LOST);
  const keel_device_health unwell = health(devices[0]);
  EXPECT_EQ(unwell.ok, 0u);
  EXPECT_EQ(unwell.uncorrected_ecc, 1u);
  EXPECT_HAS(unwell.text, "the device is lost: hipErrorECCNotCorrectable");
  EXPECT_HAS(unwell.text, "uncorrected ECC errors: 1");
  const keel_device_health other = health(devices.at(1));
  EXPECT_EQ(other.ok, 1u);
  EXPECT_EQ(other.uncorrected_ecc, 0u);
  EXPECT_STREQ(other.text, "");
}

TEST_F(HipHealthTest, ADeviceThatIsHot) {
  const OwnRuntime runtime("devices=2 faults=1/slow=2");
  runtime.add_rocm_smi();
  const auto devices = load_hip(runtime);
  EXPECT_EQ(health(devices.at(0)).throttled, 0u);
  const keel_device_health hot = health(devices.at(1));
  EXPECT_EQ(hot.throttled, 1u);
  EXPECT_EQ(hot.ok, 1u);
  EXPECT_STREQ(hot.text, "its hottest spot has 111 degrees Celsius of 110 allowed");
}

TEST_F(HipHealthTest, PagesThatCannotBeRetired) {
  const OwnRuntime first;
  first.add_rocm_smi("pages=3 page_status=2");
  const keel_device_health bad = health(load_hip(first).at(0));
  EXPECT_EQ(bad.ok, 0u);
  EXPECT_STREQ(bad.text, "bad pages of its memory could not be retired");
  const OwnRuntime second;
  second.add_rocm_smi("pages=1 page_status=1");
  const keel_device_health waiting = health(load_hip(second).at(0));
  EXPECT_EQ(waiting.ok, 1u);
  EXPECT_STREQ(waiting.text, "pages of its memory are still to be retired");
}

// Consumer chips have no ECC, and some queries need privileges.
TEST_F(HipHealthTest, ValuesThatADeviceLacksAreLeftOut) {
  const OwnRuntime runtime;
  runtime.add_rocm_smi("device=2");
  const keel_device_health well = health(load_hip(runtime).at(0));
  EXPECT_EQ(well.ok, 1u);
  EXPECT_STREQ(well.text, "");
}

TEST_F(HipHealthTest, AFailedQueryIsNamed) {
  const OwnRuntime runtime;
  runtime.add_rocm_smi("device=6");
  const keel_device_health well = health(load_hip(runtime).at(0));
  EXPECT_EQ(well.ok, 1u);
  EXPECT_HAS(well.text, "rsmi_dev_ecc_enabled_get: an internal exception");
}

TEST_F(HipHealthTest, ALibraryThatDoesNotStart) {
  const OwnRuntime runtime;
  runtime.add_rocm_smi("init=8");
  const keel_device device = load_hip(runtime).at(0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(health(device).ok, 1u);
    EXPECT_STREQ(health(device).text, "no ROCm SMI: rsmi_init: an error during initialisation");
  }
}

}  // namespace
}  // namespace keel::testing

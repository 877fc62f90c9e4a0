// SPDX-License-Identifier: Apache-2.0
// The plugin twice in one process: Nvidia's driver, and the driver of another vendor's chips that
// has the same functions under another file name, as Kunlun's P800 has.
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "backends/cuda/testing/cuda_test.h"

namespace keel::testing {
namespace {

class SecondInstanceTest : public CudaFixture {
 protected:
  static std::string name_of(keel_device device) {
    auto info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
    EXPECT_KEEL_OK(keel_device_info_get(device, &info));
    return info.driver;
  }
  // The status of loading the plugin with |settings|.
  static keel_status try_load(const Settings& settings) {
    std::vector<const char*> keys;
    std::vector<const char*> values;
    for (const auto& [key, value] : settings) {
      keys.push_back(key.c_str());
      values.push_back(value.c_str());
    }
    auto with = KEEL_STRUCT_INIT(keel_instance_settings, KEEL_STRUCT_INSTANCE_SETTINGS);
    with.count = static_cast<uint32_t>(keys.size());
    with.keys = keys.data();
    with.values = values.data();
    uint32_t backend = 0;
    return keel_plugin_load(plugin_path("cuda").c_str(), &with, nullptr, &backend);
  }
};

TEST_F(SecondInstanceTest, DevicesCarryTheNameOfTheirInstance) {
  const OwnDriver nvidia("devices=1 memory_mib=64");
  const std::vector<keel_device> first = load_cuda(nvidia);
  ASSERT_EQ(first.size(), 1u);
  const OwnDriver kunlun("devices=2 memory_mib=64");
  std::filesystem::rename(kunlun.folder() + "/libcuda.so.1", kunlun.folder() + "/libxpucuda.so.1");
  const std::vector<keel_device> second = load("cuda", {{"instance_name", "kunlun-cuda"},
                                                        {"library_folder", kunlun.folder()},
                                                        {"driver_file", "libxpucuda.so.1"}});
  ASSERT_EQ(second.size(), 2u);
  EXPECT_HAS(name_of(first[0]), nvidia.folder() + "/libcuda.so.1");
  EXPECT_HAS(name_of(second[0]), kunlun.folder() + "/libxpucuda.so.1");
  keel_device found = {};
  ASSERT_KEEL_OK(keel_device_find("kunlun-cuda:1", &found));
  EXPECT_EQ(std::memcmp(&found, &second[1], sizeof(found)), 0);
  ASSERT_KEEL_OK(keel_device_find("cuda:0", &found));
  EXPECT_EQ(std::memcmp(&found, &first[0], sizeof(found)), 0);
  EXPECT_NE(keel_device_find("cuda#2:0", &found), KEEL_OK);

  // Equal addresses of two devices hold different data.
  const std::vector<uint32_t> one = pattern(5000, 1);
  const std::vector<uint32_t> two = pattern(5000, 2);
  void* const here = alloc_filled(first[0], one);
  void* const there = alloc_filled(found = second[0], two);
  EXPECT_EQ(read(first[0], here, one.size()), one);
  EXPECT_EQ(read(second[0], there, two.size()), two);
  keel_stream stream = new_stream(second[1]);
  void* const copy = alloc(second[1], two.size() * 4);
  EXPECT_KEEL_OK(fill(stream, copy, 9, two.size()));
  EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  EXPECT_EQ(read(second[1], copy, two.size()), std::vector<uint32_t>(two.size(), 9));
  EXPECT_KEEL_OK(keel_stream_destroy(stream));
  EXPECT_KEEL_OK(keel_free(first[0], here));
  EXPECT_KEEL_OK(keel_free(second[0], there));
  EXPECT_KEEL_OK(keel_free(second[1], copy));
}

TEST_F(SecondInstanceTest, NamesThatAreTakenOrNoneAreRefused) {
  const OwnDriver driver("devices=1 memory_mib=64");
  const std::string folder = driver.folder();
  EXPECT_KEEL_OK(try_load({{"library_folder", folder}, {"instance_name", "mine"}}));
  EXPECT_EQ(try_load({{"library_folder", folder}, {"instance_name", "mine"}}), KEEL_ALREADY_EXISTS);
  for (const char* const name :
       {"", "Mine", "0mine", "my:ne", "a-name-of-more-than-31-characters"}) {
    EXPECT_EQ(try_load({{"library_folder", folder}, {"instance_name", name}}),
              KEEL_INVALID_ARGUMENT)
        << name;
    EXPECT_HAS(keel_last_error(), "instance_name");
  }
  EXPECT_EQ(try_load({{"library_folder", folder}, {"driver_file", "../libcuda.so.1"}}),
            KEEL_INVALID_ARGUMENT);
  EXPECT_HAS(reason("/nowhere"), "/nowhere/libcuda.so.1");
}

}  // namespace
}  // namespace keel::testing

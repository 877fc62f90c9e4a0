// SPDX-License-Identifier: Apache-2.0
// The configuration of NCCL communicators: instance settings, the environment, and the values that
// reach the library.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <keel/abi.h>
#include <nccl.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/testing/own_driver.h"
#include "backends/cuda/testing/queried_plugin.h"

namespace keel::testing {
namespace {

using Settings = std::vector<std::pair<const char*, const char*>>;

class CudaNcclSettingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    plugin_ = query_plugin();
    ASSERT_NE(plugin_, nullptr);
    ASSERT_NE(plugin_->ccl, nullptr);
  }
  void TearDown() override { close(); }

  keel_status create(const Settings& settings) {
    close();
    std::vector<const char*> keys = {"library_folder"};
    std::vector<const char*> values = {driver_.folder().c_str()};
    for (const auto& [key, value] : settings) {
      keys.push_back(key);
      values.push_back(value);
    }
    const keel_instance_settings given = {{sizeof(given), KEEL_STRUCT_INSTANCE_SETTINGS, nullptr},
                                          static_cast<uint32_t>(keys.size()),
                                          0,
                                          keys.data(),
                                          values.data()};
    return plugin_->create_instance(&given, &instance_);
  }
  void close() {
    if (comm_ != nullptr) plugin_->ccl->destroy(comm_);
    if (device_ != nullptr) plugin_->device->close(device_);
    if (instance_ != nullptr) plugin_->destroy_instance(instance_);
    comm_ = nullptr;
    device_ = nullptr;
    instance_ = nullptr;
  }
  // Creates a communicator of one rank.
  keel_status meet(const Settings& settings) {
    keel_status status = create(settings);
    if (status == KEEL_OK) status = plugin_->device->open(instance_, 0, &device_);
    char id[128];
    uint64_t size = sizeof(id);
    if (status == KEEL_OK) status = plugin_->ccl->unique_id(device_, id, &size);
    if (status != KEEL_OK) return status;
    return plugin_->ccl->init_rank(device_, id, size, 0, 1, int64_t{60'000'000'000}, &comm_);
  }
  // The configuration that the library received last.
  ncclConfig_t arrived() {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    const std::string file = driver_.folder() + "/libnccl.so.2";
    void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD);
    EXPECT_NE(library, nullptr);
    if (library == nullptr) return config;
    const auto ask =
        reinterpret_cast<void (*)(ncclConfig_t*)>(dlsym(library, "keel_emulated_nccl_last_config"));
    EXPECT_NE(ask, nullptr);
    if (ask != nullptr) ask(&config);
    dlclose(library);
    return config;
  }
  void expect_refused(const Settings& settings, const std::string& text) {
    EXPECT_EQ(create(settings), KEEL_INVALID_ARGUMENT);
    EXPECT_NE(t_error.find(text), std::string::npos) << "no '" << text << "' in " << t_error;
  }

  const OwnDriver driver_{"devices=1 memory_mib=64"};
  const keel_plugin* plugin_ = nullptr;
  keel_plugin_instance* instance_ = nullptr;
  keel_plugin_device* device_ = nullptr;
  keel_plugin_comm* comm_ = nullptr;
};

TEST_F(CudaNcclSettingsTest, WhatIsNotSetIsTheLibrarysToChoose) {
  driver_.add_nccl(KEEL_EMULATED_NCCL_FILE);
  ASSERT_EQ(meet({}), KEEL_OK) << t_error;
  const ncclConfig_t config = arrived();
  EXPECT_EQ(config.blocking, 0);
  EXPECT_EQ(config.cgaClusterSize, NCCL_CONFIG_UNDEF_INT);
  EXPECT_EQ(config.minCTAs, NCCL_CONFIG_UNDEF_INT);
  EXPECT_EQ(config.maxCTAs, NCCL_CONFIG_UNDEF_INT);
  EXPECT_EQ(config.netName, nullptr);
  EXPECT_EQ(config.splitShare, NCCL_CONFIG_UNDEF_INT);
}

TEST_F(CudaNcclSettingsTest, SettingsArrive) {
  driver_.add_nccl(KEEL_EMULATED_NCCL_FILE);
  ASSERT_EQ(meet({{"nccl_cga_cluster_size", "2"},
                  {"nccl_min_ctas", "4"},
                  {"nccl_max_ctas", "16"},
                  {"nccl_net_name", "Socket"}}),
            KEEL_OK)
      << t_error;
  const ncclConfig_t config = arrived();
  EXPECT_EQ(config.blocking, 0);
  EXPECT_EQ(config.cgaClusterSize, 2);
  EXPECT_EQ(config.minCTAs, 4);
  EXPECT_EQ(config.maxCTAs, 16);
  EXPECT_STREQ(config.netName, "Socket");
}

TEST_F(CudaNcclSettingsTest, TheEnvironmentSetsThemToo) {
  driver_.add_nccl(KEEL_EMULATED_NCCL_FILE);
  setenv("KEEL_NCCL_MAX_CTAS", "8", 1);
  setenv("KEEL_NCCL_CGA_CLUSTER_SIZE", "0", 1);
  ASSERT_EQ(meet({}), KEEL_OK) << t_error;
  EXPECT_EQ(arrived().maxCTAs, 8);
  EXPECT_EQ(arrived().cgaClusterSize, 0);
  EXPECT_EQ(arrived().minCTAs, NCCL_CONFIG_UNDEF_INT);
  // A setting overrides the environment; an empty setting leaves the choice to the library.
  ASSERT_EQ(meet({{"nccl_max_ctas", "2"}, {"nccl_cga_cluster_size", ""}}), KEEL_OK) << t_error;
  EXPECT_EQ(arrived().maxCTAs, 2);
  EXPECT_EQ(arrived().cgaClusterSize, NCCL_CONFIG_UNDEF_INT);
  setenv("KEEL_NCCL_MAX_CTAS", "many", 1);
  expect_refused({}, "KEEL_NCCL_MAX_CTAS=many is no number from 1 to 64");
  unsetenv("KEEL_NCCL_MAX_CTAS");
  unsetenv("KEEL_NCCL_CGA_CLUSTER_SIZE");
}

TEST_F(CudaNcclSettingsTest, ValuesThatAreNoneAreNamed) {
  driver_.add_nccl(KEEL_EMULATED_NCCL_FILE);
  expect_refused({{"nccl_cga_cluster_size", "9"}}, "nccl_cga_cluster_size=9");
  expect_refused({{"nccl_cga_cluster_size", "-1"}}, "no number from 0 to 8");
  expect_refused({{"nccl_min_ctas", "0"}}, "nccl_min_ctas=0 is no number from 1 to 64");
  expect_refused({{"nccl_max_ctas", "4x"}}, "nccl_max_ctas=4x");
  expect_refused({{"nccl_max_ctas", "4"}, {"nccl_min_ctas", "5"}},
                 "nccl_min_ctas=5 is above nccl_max_ctas=4");
  expect_refused({{"nccl_min_ctas", "5"}}, "nccl_min_ctas=5 without nccl_max_ctas");
  expect_refused({{"nccl_split_share", "1"}}, "setting 'nccl_split_share' is not known");
}

// Only the library can check the network name.
TEST_F(CudaNcclSettingsTest, ANetworkThatIsNotThere) {
  driver_.add_nccl(KEEL_EMULATED_NCCL_FILE);
  EXPECT_EQ(meet({{"nccl_net_name", "Pigeon"}}), KEEL_INVALID_ARGUMENT);
  EXPECT_NE(t_error.find("network Pigeon not found"), std::string::npos) << t_error;
}

TEST_F(CudaNcclSettingsTest, ALibraryThatKnowsNoneOfThem) {
  driver_.add_nccl(KEEL_EMULATED_NCCL_FILE, "version=21602");
  ASSERT_EQ(meet({}), KEEL_OK) << t_error;
  EXPECT_EQ(meet({{"nccl_max_ctas", "4"}}), KEEL_UNSUPPORTED);
  EXPECT_NE(t_error.find("NCCL 2.16.2 takes no"), std::string::npos) << t_error;
  EXPECT_NE(t_error.find("2.17.0 is the first"), std::string::npos) << t_error;
}

}  // namespace
}  // namespace keel::testing

// SPDX-License-Identifier: Apache-2.0
// The emulated chip as a backend, through keel.h: settings, and faults as a framework sees them.
#include <cstdlib>
#include <fstream>
#include <thread>

#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

class SimTest : public KeelTest {
 protected:
  // Returns the status of loading with |settings|.
  static keel_status load_status(const Settings& settings) {
    std::vector<const char*> keys;
    std::vector<const char*> values;
    for (const auto& [key, value] : settings) {
      keys.push_back(key.c_str());
      values.push_back(value.c_str());
    }
    auto chosen = KEEL_STRUCT_INIT(keel_instance_settings, KEEL_STRUCT_INSTANCE_SETTINGS);
    chosen.count = static_cast<uint32_t>(keys.size());
    chosen.keys = keys.data();
    chosen.values = values.data();
    uint32_t backend = 0;
    return keel_plugin_load(plugin_path("sim").c_str(), &chosen, nullptr, &backend);
  }
  static void expect_refused(const Settings& settings, const std::string& text) {
    EXPECT_EQ(load_status(settings), KEEL_INVALID_ARGUMENT);
    EXPECT_NE(std::string(keel_last_error()).find(text), std::string::npos)
        << "no '" << text << "' in " << keel_last_error();
  }
  static void expect_text(const std::string& text) {
    EXPECT_NE(std::string(keel_last_error()).find(text), std::string::npos)
        << "no '" << text << "' in " << keel_last_error();
  }
  void lose_a_device_in_mid_stream();
  static keel_device_info info(keel_device device) {
    auto info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
    EXPECT_KEEL_OK(keel_device_info_get(device, &info));
    return info;
  }
};

// ---- settings ----------------------------------------------------------------

TEST_F(SimTest, BadSettingsAreNamed) {
  expect_refused({{"device", "1"}}, "'device' is not known");
  expect_refused({{"", "1"}}, "'' is not known");
  expect_refused({{"devices", "65"}}, "devices is '65', not a number from 0 to 64");
  for (const char* value : {"", "-1", "1.5", "one", "1 ", "99999999999999999999"}) {
    expect_refused({{"devices", value}}, "devices");
  }
  expect_refused({{"single_queue", "yes"}}, "single_queue");
  expect_refused({{"pageable_async", "2"}}, "pageable_async");
  expect_refused({{"memory_mib", "0"}}, "memory_mib");
  expect_refused({{"delay_us", "1000001"}}, "delay_us");
  expect_refused({{"seed", "x"}}, "seed");
  expect_refused({{"faults", "lose@1,explode@2"}}, "faults: fault 'explode@2'");
  expect_refused({{"ccl", "float32,float128"}}, "ccl: 'float128' is no type");
  expect_refused({{"ccl", ""}}, "ccl: ''");
  expect_refused({{"profile", "/nowhere/at/all.json"}}, "profile: ");
}

TEST_F(SimTest, NoDeviceUnlessAskedFor) {
  EXPECT_TRUE(load("sim").empty());
  auto backend = KEEL_STRUCT_INIT(keel_backend_info, KEEL_STRUCT_BACKEND_INFO);
  ASSERT_KEEL_OK(keel_backend_get(0, &backend));
  EXPECT_NE(std::string(backend.reason).find("KEEL_SIM_DEVICES=1"), std::string::npos)
      << backend.reason;
  EXPECT_EQ(load("sim", {{"devices", "3"}}).size(), 3u);
}

TEST_F(SimTest, SettingsFromTheEnvironment) {
  ASSERT_EQ(setenv("KEEL_SIM_DEVICES", "2", 1), 0);
  ASSERT_EQ(setenv("KEEL_SIM_SETTINGS", " memory_mib=16  single_queue=1", 1), 0);
  const auto devices = load("sim");
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(info(devices[0]).memory_bytes, uint64_t{16} << 20);
  EXPECT_EQ(info(devices[0]).hardware_queues, 1u);
  const auto overridden = load("sim", {{"devices", "1"}, {"memory_mib", "32"}});
  ASSERT_EQ(overridden.size(), 1u);
  EXPECT_EQ(info(overridden[0]).memory_bytes, uint64_t{32} << 20);
  setenv("KEEL_SIM_SETTINGS", "memory_mib=16 colour", 1);
  expect_refused({}, "'colour' is not known");
  unsetenv("KEEL_SIM_SETTINGS");
  setenv("KEEL_SIM_DEVICES", "many", 1);
  expect_refused({}, "devices is 'many'");
  unsetenv("KEEL_SIM_DEVICES");
}

TEST_F(SimTest, AProfileMakesADeviceLikeIt) {
  const std::string file = ::testing::TempDir() + "keel_sim_test_profile.json";
  const auto write = [&](const std::string& latency) {
    std::ofstream(file) << R"({"name": "little chip", "architecture": "lc1", "memory_gib": 0.5,
      "memory_gb_per_s": 50, "launch_latency_us": )"
                        << latency << R"(, "tflops": {"float32": 1},
      "copy_gb_per_s": {"host_to_device": 5, "device_to_host": 5, "peer": 5}})";
  };
  write("3");
  const auto devices = load("sim", {{"profile", file}});
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_STREQ(info(devices[0]).name, "emulated chip (little chip)");
  EXPECT_STREQ(info(devices[0]).architecture, "lc1");
  EXPECT_EQ(info(devices[0]).memory_bytes, uint64_t{512} << 20);
  void* memory = alloc_filled(devices[0], {1, 2});
  EXPECT_EQ(read(devices[0], memory, 2), (std::vector<uint32_t>{1, 2}));
  write("-3");
  expect_refused({{"profile", file}}, "'launch_latency_us' is not above 0");
  std::remove(file.c_str());
}

TEST_F(SimTest, ClaimsPageableCopiesOnlyWhenSet) {
  const auto claims = [&](const char* set) {
    return info(load("sim", {{"devices", "1"}, {"pageable_async", set}}).at(0)).capabilities;
  };
  EXPECT_EQ(claims("0") & KEEL_CAPABILITY_PAGEABLE_ASYNC, 0u);
  EXPECT_NE(claims("1") & KEEL_CAPABILITY_PAGEABLE_ASYNC, 0u);
  EXPECT_EQ(claims("1") & KEEL_CAPABILITY_HOST_ALIAS, 0u);
}

TEST_F(SimTest, ClaimsCollectivesUnlessSetOtherwise) {
  const auto claims = [&](const Settings& settings) {
    Settings all = {{"devices", "1"}};
    all.insert(settings.begin(), settings.end());
    return info(load("sim", all).at(0)).capabilities & KEEL_CAPABILITY_CCL;
  };
  EXPECT_NE(claims({}), 0u);
  EXPECT_NE(claims({{"ccl", "int8"}}), 0u);
  EXPECT_EQ(claims({{"ccl", "none"}}), 0u);
  EXPECT_EQ(claims({{"single_queue", "1"}}), 0u);
}

// ---- faults ------------------------------------------------------------------

void SimTest::lose_a_device_in_mid_stream() {
  const auto devices = load("sim", {{"devices", "2"}, {"faults", "0/lose:fill@20"}});
  const keel_device lost = devices.at(0);
  const keel_device healthy = devices.at(1);
  const keel_stream stream = new_stream(lost);
  const keel_stream follower = new_stream(lost);
  const keel_stream foreign = new_stream(healthy);
  const keel_stream unharmed = new_stream(healthy);
  void* memory = alloc(lost, 64);
  void* there = alloc_filled(healthy, {1, 2});

  keel_gate gate = {};
  ASSERT_KEEL_OK(keel_gate_create(&gate));
  ASSERT_KEEL_OK(keel_stream_wait_gate(stream, gate));
  for (uint32_t i = 0; i < 30; ++i) ASSERT_KEEL_OK(fill(stream, memory, i, 16));
  const keel_event event = record(stream);
  ASSERT_KEEL_OK(keel_stream_wait_event(follower, event));
  ASSERT_KEEL_OK(fill(follower, memory, 99, 1));
  ASSERT_KEEL_OK(keel_stream_wait_event(foreign, event));
  ASSERT_KEEL_OK(fill(foreign, there, 99, 1));
  // All possible waiters wait when the loss happens.
  std::vector<std::thread> waiters;
  waiters.emplace_back([&] { EXPECT_EQ(keel_event_wait(event, kTestTimeout), KEEL_DEVICE_LOST); });
  for (keel_stream each : {stream, follower, foreign}) {
    waiters.emplace_back([each] {
      EXPECT_EQ(keel_stream_synchronize(each, kTestTimeout), KEEL_DEVICE_LOST);
      expect_text("lost");
    });
  }
  waiters.emplace_back(
      [&] { EXPECT_EQ(keel_device_synchronize(lost, kTestTimeout), KEEL_DEVICE_LOST); });
  ASSERT_KEEL_OK(keel_gate_open(gate, KEEL_OK, nullptr));
  for (std::thread& waiter : waiters) waiter.join();

  // The loss is sticky, on every path.
  void* more = nullptr;
  keel_stream another = {};
  EXPECT_EQ(keel_alloc(lost, KEEL_MEMORY_DEVICE, 8, &more), KEEL_DEVICE_LOST);
  EXPECT_EQ(keel_stream_create(lost, 0, &another), KEEL_DEVICE_LOST);
  EXPECT_EQ(fill(stream, memory, 1, 1), KEEL_DEVICE_LOST);
  EXPECT_EQ(keel_stream_recover(stream, kTestTimeout), KEEL_DEVICE_LOST);
  EXPECT_EQ(keel_event_query(event), KEEL_DEVICE_LOST);
  auto health = KEEL_STRUCT_INIT(keel_device_health, KEEL_STRUCT_DEVICE_HEALTH);
  ASSERT_KEEL_OK(keel_device_health_get(lost, &health));
  EXPECT_EQ(health.ok, 0u);
  // The other device continues; the stream that waited for the lost device continues after a
  // recovery.
  ASSERT_KEEL_OK(fill(unharmed, there, 5, 2));
  ASSERT_KEEL_OK(keel_stream_synchronize(unharmed, kTestTimeout));
  ASSERT_KEEL_OK(keel_stream_recover(foreign, kTestTimeout));
  ASSERT_KEEL_OK(fill(foreign, there, 6, 1));
  ASSERT_KEEL_OK(keel_stream_synchronize(foreign, kTestTimeout));
  EXPECT_EQ(read(healthy, there, 2), (std::vector<uint32_t>{6, 5}));
  EXPECT_KEEL_OK(keel_free(lost, memory));
}

TEST_F(SimTest, ADeviceLostInMidStream) {
  lose_a_device_in_mid_stream();
}

TEST_F(SimTest, AFailureStaysWithItsStreamUntilRecovered) {
  const keel_device device = load("sim", {{"devices", "1"}, {"faults", "fail:fill@2"}}).at(0);
  const keel_stream stream = new_stream(device);
  void* memory = alloc_filled(device, {1, 1});
  ASSERT_KEEL_OK(fill(stream, memory, 2, 2));
  ASSERT_KEEL_OK(fill(stream, memory, 3, 2));
  EXPECT_EQ(keel_stream_synchronize(stream, kTestTimeout), KEEL_INTERNAL);
  expect_text("injected failure of fill 2");
  EXPECT_EQ(keel_stream_synchronize(stream, kTestTimeout), KEEL_INTERNAL);
  EXPECT_EQ(read(device, memory, 2), (std::vector<uint32_t>{2, 2}));
  ASSERT_KEEL_OK(keel_stream_recover(stream, kTestTimeout));
  ASSERT_KEEL_OK(fill(stream, memory, 4, 2));
  ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  EXPECT_EQ(read(device, memory, 2), (std::vector<uint32_t>{4, 4}));
}

TEST_F(SimTest, ARefusedCallHasNoEffect) {
  const keel_device device =
      load("sim", {{"devices", "1"}, {"faults", "refuse:copy@2,refuse:alloc@3+"}}).at(0);
  void* memory = alloc_filled(device, {7});  // copy 1
  const keel_stream stream = new_stream(device);
  uint32_t word = 8;
  EXPECT_EQ(keel_copy(stream, device, memory, KEEL_HOST, &word, 4), KEEL_UNAVAILABLE);
  expect_text("injected refusal of copy 2");
  EXPECT_EQ(read(device, memory, 1), std::vector<uint32_t>{7});
  void* more = nullptr;
  keel_status status = KEEL_OK;
  // A request may take several blocks.
  for (int i = 0; i < 8 && status == KEEL_OK; ++i) {
    status = keel_alloc(device, KEEL_MEMORY_DEVICE, 128 << 20, &more);
  }
  EXPECT_EQ(status, KEEL_OUT_OF_MEMORY);
  expect_text("injected refusal of alloc");
}

TEST_F(SimTest, OneFailedAllocationIsTriedAgain) {
  const keel_device device = load("sim", {{"devices", "1"}, {"faults", "refuse:alloc@1"}}).at(0);
  EXPECT_NE(alloc(device, 64), nullptr);
}

TEST_F(SimTest, ACorruptedResultIsThere) {
  const keel_device device =
      load("sim", {{"devices", "1"}, {"seed", "7"}, {"faults", "corrupt:fill@1"}}).at(0);
  const keel_stream stream = new_stream(device);
  void* memory = alloc(device, 64);
  ASSERT_KEEL_OK(fill(stream, memory, 5, 16));
  ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  EXPECT_NE(read(device, memory, 16), std::vector<uint32_t>(16, 5));
}

// Deadlines hold while the chip hangs, and a hung chip does not keep the process from exiting.
TEST_F(SimTest, AChipThatHangsForEver) {
  for (const char* single : {"0", "1"}) {
    ASSERT_KEEL_OK(keel_shutdown());
    auto options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
    options.backends = "";
    options.default_timeout_ns = kSecond / 20;
    ASSERT_KEEL_OK(keel_init(&options));
    const keel_device device =
        load("sim", {{"devices", "1"}, {"single_queue", single}, {"faults", "stall:fill@1"}}).at(0);
    const keel_stream stream = new_stream(device);
    void* memory = alloc(device, 64);
    ASSERT_KEEL_OK(fill(stream, memory, 5, 16));
    const keel_event event = record(stream);
    EXPECT_EQ(keel_event_query(event), KEEL_NOT_READY);
    EXPECT_EQ(keel_event_wait(event, kSecond / 100), KEEL_TIMED_OUT);
    EXPECT_EQ(keel_stream_synchronize(stream, kSecond / 100), KEEL_TIMED_OUT);
    EXPECT_EQ(keel_device_synchronize(device, kSecond / 100), KEEL_TIMED_OUT);
  }
  // Hung work ends with its device: the next session sees none of its streams.
  ASSERT_KEEL_OK(keel_shutdown());
  SetUp();
  lose_a_device_in_mid_stream();
}

TEST_F(SimTest, AStallThatEnds) {
  const keel_device device = load("sim", {{"devices", "1"}, {"faults", "stall:fill@1=20"}}).at(0);
  const keel_stream stream = new_stream(device);
  void* memory = alloc(device, 64);
  ASSERT_KEEL_OK(fill(stream, memory, 5, 16));
  ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  EXPECT_EQ(read(device, memory, 16), std::vector<uint32_t>(16, 5));
}

}  // namespace
}  // namespace keel::testing

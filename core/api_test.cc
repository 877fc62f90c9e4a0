// SPDX-License-Identifier: Apache-2.0
// Calls every C function of core with dead handles; tests the life cycle of the process.
#include <cstddef>
#include <functional>
#include <random>

#include "core/testing/keel_test.h"
#include "core/testing/test_backend.h"

namespace keel::testing {
namespace {

// A callback of calls that are refused.
void never(void*, keel_status) {
  ADD_FAILURE() << "a refused callback was called";
}

class ApiTest : public KeelTest {
 protected:
  void SetUp() override {
    KeelTest::SetUp();
    device_ = load(test_backend(), {{"devices", "1"}}).at(0);
    stream_ = new_stream(device_);
    event_ = record(stream_);
    ASSERT_KEEL_OK(keel_gate_create(&gate_));
  }
  keel_device device_ = {};
  keel_stream stream_ = {};
  keel_event event_ = {};
  keel_gate gate_ = {};
};

TEST_F(ApiTest, WrongHandlesAreNamedAndHarmNothing) {
  void* memory = alloc(device_, 64);
  char host[64] = {};
  uint64_t number = 0;
  void* pointer = nullptr;
  keel_stream new_stream_handle = {};
  auto info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
  auto health = KEEL_STRUCT_INIT(keel_device_health, KEEL_STRUCT_DEVICE_HEALTH);
  auto found = KEEL_STRUCT_INIT(keel_memory_info, KEEL_STRUCT_MEMORY_INFO);
  auto path = KEEL_STRUCT_INIT(keel_copy_path, KEEL_STRUCT_COPY_PATH);
  struct Call {
    const char* argument;
    std::function<keel_status(uint64_t)> run;
  };
  const std::vector<Call> calls = {
      {"device", [&](uint64_t h) { return keel_device_name({h}, host, sizeof(host)); }},
      {"device", [&](uint64_t h) { return keel_device_info_get({h}, &info); }},
      {"device", [&](uint64_t h) { return keel_device_memory_info({h}, &number, &number); }},
      {"device", [&](uint64_t h) { return keel_device_health_get({h}, &health); }},
      {"device", [&](uint64_t h) { return keel_device_native_handle({h}, 0, &pointer); }},
      {"device", [&](uint64_t h) { return keel_device_synchronize({h}, kTestTimeout); }},
      {"device", [&](uint64_t h) { return keel_alloc({h}, KEEL_MEMORY_DEVICE, 8, &pointer); }},
      {"device", [&](uint64_t h) { return keel_free({h}, memory); }},
      {"device", [&](uint64_t h) { return keel_memory_trim({h}); }},
      {"device", [&](uint64_t h) { return keel_host_register({h}, host, 64); }},
      {"device", [&](uint64_t h) { return keel_host_unregister({h}, host); }},
      {"device", [&](uint64_t h) { return keel_memory_find({h}, memory, &found); }},
      {"device", [&](uint64_t h) { return keel_stream_create({h}, 0, &new_stream_handle); }},
      {"device", [&](uint64_t h) { return keel_stream_wrap({h}, host, &new_stream_handle); }},
      {"stream", [&](uint64_t h) { return keel_stream_unwrap({h}, &pointer); }},
      {"stream", [&](uint64_t h) { return keel_stream_destroy({h}); }},
      {"stream", [&](uint64_t h) { return keel_stream_query({h}); }},
      {"stream", [&](uint64_t h) { return keel_stream_synchronize({h}, 0); }},
      {"stream", [&](uint64_t h) { return keel_stream_recover({h}, 0); }},
      {"stream", [&](uint64_t h) { return keel_stream_on_done({h}, &never, nullptr); }},
      {"event", [&](uint64_t h) { return keel_event_on_done({h}, &never, nullptr); }},
      {"event", [&](uint64_t h) { return keel_event_destroy({h}); }},
      {"event", [&](uint64_t h) { return keel_event_record({h}, stream_); }},
      {"stream", [&](uint64_t h) { return keel_event_record(event_, {h}); }},
      {"event", [&](uint64_t h) { return keel_event_query({h}); }},
      {"event", [&](uint64_t h) { return keel_event_wait({h}, 0); }},
      {"stream", [&](uint64_t h) { return keel_stream_wait_event({h}, event_); }},
      {"event", [&](uint64_t h) { return keel_stream_wait_event(stream_, {h}); }},
      {"start", [&](uint64_t h) { return keel_event_elapsed({h}, event_, &number); }},
      {"end", [&](uint64_t h) { return keel_event_elapsed(event_, {h}, &number); }},
      {"gate", [&](uint64_t h) { return keel_gate_destroy({h}); }},
      {"gate", [&](uint64_t h) { return keel_gate_open({h}, KEEL_OK, nullptr); }},
      {"stream", [&](uint64_t h) { return keel_stream_wait_gate({h}, gate_); }},
      {"gate", [&](uint64_t h) { return keel_stream_wait_gate(stream_, {h}); }},
      {"stream", [&](uint64_t h) { return keel_copy({h}, device_, memory, KEEL_HOST, host, 8); }},
      {"stream", [&](uint64_t h) { return keel_fill({h}, memory, host, 4, 8); }},
  };
  const keel_stream destroyed = new_stream(device_);
  ASSERT_KEEL_OK(keel_stream_destroy(destroyed));
  std::vector<uint64_t> wrong = {0, 1, UINT64_MAX, destroyed.id};
  std::mt19937_64 random(20261120);
  for (int i = 0; i < 50; ++i) wrong.push_back(random());
  const std::map<std::string, uint64_t> live = {
      {"device", device_.id}, {"stream", stream_.id}, {"event", event_.id}, {"gate", gate_.id}};
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string argument = calls[i].argument;
    std::vector<uint64_t> handles = wrong;
    for (const auto& [kind, handle] : live) {
      const bool is_event = argument == "start" || argument == "end";
      if (kind != (is_event ? "event" : argument)) handles.push_back(handle);
    }
    for (uint64_t handle : handles) {
      EXPECT_EQ(calls[i].run(handle), KEEL_INVALID_HANDLE) << "call " << i;
      EXPECT_EQ(std::string(keel_last_error()).rfind(argument, 0), 0u)
          << "call " << i << ": " << keel_last_error();
    }
  }
  EXPECT_EQ(keel_copy(stream_, {77}, memory, KEEL_HOST, host, 8), KEEL_INVALID_HANDLE);
  EXPECT_EQ(keel_copy_path_get({77}, device_, &path), KEEL_INVALID_HANDLE);
  ASSERT_KEEL_OK(keel_fill(stream_, memory, host, 4, 64));
  EXPECT_KEEL_OK(keel_stream_synchronize(stream_, kTestTimeout));
  EXPECT_KEEL_OK(keel_free(device_, memory));
}

TEST_F(ApiTest, NullPointersAreNamed) {
  const auto refused = [](keel_status status, const char* argument) {
    EXPECT_EQ(status, KEEL_INVALID_ARGUMENT) << argument;
    EXPECT_NE(std::string(keel_last_error()).find(argument), std::string::npos)
        << keel_last_error();
  };
  refused(keel_device_count(nullptr), "out_count");
  refused(keel_backend_count(nullptr), "out_count");
  refused(keel_backend_get(0, nullptr), "out_info");
  refused(keel_device_get(0, nullptr), "out_device");
  refused(keel_device_find(nullptr, &device_), "name");
  refused(keel_device_find("cpu", nullptr), "out_device");
  refused(keel_device_name(device_, nullptr, 80), "out_name");
  refused(keel_device_info_get(device_, nullptr), "out_info");
  refused(keel_alloc(device_, KEEL_MEMORY_DEVICE, 8, nullptr), "out_pointer");
  refused(keel_host_register(device_, nullptr, 8), "pointer");
  refused(keel_memory_find(device_, nullptr, nullptr), "pointer");
  refused(keel_stream_create(device_, 0, nullptr), "out_stream");
  refused(keel_event_create(0, nullptr), "out_event");
  refused(keel_stream_on_done(stream_, nullptr, nullptr), "fn");
  refused(keel_event_on_done(event_, nullptr, nullptr), "fn");
  refused(keel_event_elapsed(event_, event_, nullptr), "out_nanoseconds");
  refused(keel_gate_create(nullptr), "out_gate");
  refused(keel_fill(stream_, nullptr, nullptr, 1, 1), "pattern");
  refused(keel_plugin_load(nullptr, nullptr, nullptr, nullptr), "path");
  refused(keel_copy_path_get(device_, device_, nullptr), "out_path");
  refused(keel_event_create(0x80, &event_), "flags");
  refused(keel_stream_synchronize(stream_, -3), "timeout_ns");
  refused(keel_gate_open(gate_, KEEL_NOT_READY, nullptr), "KEEL_NOT_READY");
  refused(keel_gate_open(gate_, 38, nullptr), "38");
}

TEST_F(ApiTest, InitTwiceShutdownAndInitAgain) {
  EXPECT_EQ(keel_init(nullptr), KEEL_ALREADY_EXISTS);
  const keel_stream stale = stream_;
  ASSERT_KEEL_OK(keel_shutdown());
  take_problems();  // SetUp's objects are still alive
  uint32_t count = 0;
  EXPECT_EQ(keel_device_count(&count), KEEL_FAILED_PRECONDITION);
  EXPECT_EQ(keel_stream_query(stale), KEEL_FAILED_PRECONDITION);
  EXPECT_EQ(keel_shutdown(), KEEL_FAILED_PRECONDITION);
  EXPECT_NE(std::string(keel_last_error()).find("keel_init"), std::string::npos);
  auto options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  options.plugin_folder = "relative";
  EXPECT_EQ(keel_init(&options), KEEL_INVALID_ARGUMENT);
  options.plugin_folder = nullptr;
  options.backends = "nonesuch";
  EXPECT_EQ(keel_init(&options), KEEL_NOT_FOUND);
  options.backends = "cpu";
  ASSERT_KEEL_OK(keel_init(&options));
  EXPECT_EQ(keel_stream_query(stale), KEEL_INVALID_HANDLE);
  EXPECT_KEEL_OK(keel_device_find("cpu", &device_));
  EXPECT_EQ(keel_device_find("cuda:7", &device_), KEEL_NOT_FOUND);
  EXPECT_NE(std::string(keel_last_error()).find("cpu:0"), std::string::npos);
}

TEST_F(ApiTest, OptionsOfBeforeValidationAreAccepted) {
  ASSERT_KEEL_OK(keel_shutdown());
  take_problems();  // SetUp's objects are still alive
  auto options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  options.backends = "";
  options.validate = 2;
  EXPECT_EQ(keel_init(&options), KEEL_INVALID_ARGUMENT);
  EXPECT_NE(std::string(keel_last_error()).find("options.validate"), std::string::npos);
  options.header.size = offsetof(keel_init_options, validate);
  EXPECT_KEEL_OK(keel_init(&options)) << "what lies behind it is not looked at";
  EXPECT_EQ(keel_validation_count(nullptr), KEEL_INVALID_ARGUMENT);
  uint64_t count = 0;
  EXPECT_KEEL_OK(keel_validation_count(&count));
}

}  // namespace
}  // namespace keel::testing

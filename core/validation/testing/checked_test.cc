// SPDX-License-Identifier: Apache-2.0
#include "core/validation/testing/checked_test.h"

#include <mutex>

#include "core/log.h"
#include "core/validation/validation.h"

namespace keel::validation::testing {

namespace {

std::mutex g_mutex;
std::vector<std::string> g_problems;

void keep_problem(void*, keel_log_level, const char* text) {
  std::lock_guard lock(g_mutex);
  g_problems.emplace_back(text);
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += "\n  " + text;
  return all.empty() ? "\n  nothing" : all;
}

}  // namespace

void CheckedTest::SetUp() {
  reset_stub();
  set_log(KEEL_LOG_ERROR, keep_problem, nullptr);
  take_problems();
  plugin_ = checked_plugin(&stub_plugin(), "stub");
  auto settings = KEEL_STRUCT_INIT(keel_instance_settings, KEEL_STRUCT_INSTANCE_SETTINGS);
  ASSERT_EQ(plugin_->create_instance(&settings, &instance_), KEEL_OK);
  uint32_t count = 0;
  ASSERT_EQ(device().count(instance_, &count), KEEL_OK);
  ASSERT_EQ(device().open(instance_, 0, &device_), KEEL_OK);
  ASSERT_EQ(device().open(instance_, 1, &other_device_), KEEL_OK);
  ASSERT_EQ(stream().create(device_, 0, &stream_), KEEL_OK);
  ASSERT_EQ(stream().create(other_device_, 0, &other_stream_), KEEL_OK);
  streams_ = {stream_, other_stream_};
  ASSERT_TRUE(clean());
}

void CheckedTest::TearDown() {
  EXPECT_TRUE(clean()) << "before the end";
  stub().work = KEEL_OK;
  stub().answers.clear();
  for (keel_plugin_stream* each : streams_) stream().synchronize(each, 0);
  take_problems();  // a failed stub need not recover
  for (keel_plugin_event* event : events_) stream().event_destroy(event);
  for (keel_plugin_stream* each : streams_) stream().destroy(each);
  for (const Memory& each : memory_) memory().free(device_, each.kind, each.pointer);
  device().close(device_);
  device().close(other_device_);
  plugin_->destroy_instance(instance_);
  EXPECT_TRUE(clean()) << "at the end";
  EXPECT_EQ(stub().calls["destroy_instance"], 1);
  set_log(KEEL_LOG_WARNING, nullptr, nullptr);
}

std::vector<std::string> CheckedTest::take_problems() {
  std::lock_guard lock(g_mutex);
  std::vector<std::string> problems;
  problems.swap(g_problems);
  return problems;
}

::testing::AssertionResult CheckedTest::found(const std::string& text) {
  const std::vector<std::string> problems = take_problems();
  if (problems.size() == 1 && problems[0].find(text) != std::string::npos) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure()
         << "\"" << text << "\" was to be found, not:" << joined(problems);
}

::testing::AssertionResult CheckedTest::clean() {
  const std::vector<std::string> problems = take_problems();
  if (problems.empty()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "found:" << joined(problems);
}

char* CheckedTest::alloc(uint64_t size, keel_memory_kind kind) {
  void* pointer = nullptr;
  EXPECT_EQ(memory().alloc(device_, kind, size, 0, &pointer), KEEL_OK);
  memory_.push_back({kind, pointer});
  return static_cast<char*>(pointer);
}

keel_plugin_stream* CheckedTest::new_stream() {
  keel_plugin_stream* created = nullptr;
  EXPECT_EQ(stream().create(device_, 0, &created), KEEL_OK);
  streams_.push_back(created);
  return created;
}

keel_plugin_event* CheckedTest::new_event(uint32_t flags) {
  keel_plugin_event* created = nullptr;
  EXPECT_EQ(stream().event_create(device_, flags, &created), KEEL_OK);
  events_.push_back(created);
  return created;
}

keel_plugin_event* CheckedTest::recorded(keel_plugin_stream* on, uint32_t flags) {
  keel_plugin_event* event = new_event(flags);
  EXPECT_EQ(stream().event_record(event, on), KEEL_OK);
  return event;
}

keel_status CheckedTest::copy(void* destination, const void* source, uint64_t size) {
  return stream().copy(stream_, KEEL_COPY_DEVICE_TO_DEVICE, destination, source, size);
}

}  // namespace keel::validation::testing

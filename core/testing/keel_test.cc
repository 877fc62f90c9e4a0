// SPDX-License-Identifier: Apache-2.0
#include "core/testing/keel_test.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "core/testing/fake_plugin.h"

namespace keel::testing {

namespace {

constexpr const char* kTestPlugins[] = {"fake", "fake_polled", "sim_paused"};

// Returns a function of a test plugin's library; NULL if the library was never loaded, or has no
// such function.
template <typename Function>
Function fake_symbol(const char* plugin, const char* name) {
  void* library = dlopen(plugin_path(plugin).c_str(), RTLD_NOW | RTLD_NOLOAD);
  return library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
}

void pause_fakes(int paused) {
  for (const char* plugin : kTestPlugins) {
    if (auto pause = fake_symbol<keel_fake_pause_fn>(plugin, "keel_fake_pause")) pause(paused);
  }
}

int count_violations(std::string* out_text) {
  int total = 0;
  for (const char* plugin : kTestPlugins) {
    auto violations = fake_symbol<keel_fake_violations_fn>(plugin, "keel_fake_violations");
    const char* text = "";
    if (violations == nullptr) continue;
    total += violations(&text);
    *out_text += text;
  }
  return total;
}

}  // namespace

std::string plugin_path(const std::string& name) {
  namespace fs = std::filesystem;
  const std::string file = "libkeel_" + name + ".so";
  const fs::path for_tests = fs::read_symlink("/proc/self/exe").parent_path() / "plugins" / file;
  if (fs::exists(for_tests)) return for_tests;
  const char* folder = std::getenv("KEEL_PLUGIN_PATH");
  return fs::path(folder == nullptr ? "/" : folder) / file;
}

std::vector<keel_device> load(const std::string& plugin, const Settings& settings) {
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
  uint32_t before = 0;
  uint32_t backend = 0;
  EXPECT_KEEL_OK(keel_device_count(&before));
  EXPECT_KEEL_OK(keel_plugin_load(plugin_path(plugin).c_str(), &chosen, nullptr, &backend));
  uint32_t after = 0;
  EXPECT_KEEL_OK(keel_device_count(&after));
  std::vector<keel_device> devices(after - before);
  for (uint32_t i = before; i < after; ++i) {
    EXPECT_KEEL_OK(keel_device_get(i, &devices[i - before]));
  }
  return devices;
}

FakePause::FakePause() {
  pause_fakes(1);
}
FakePause::~FakePause() {
  pause_fakes(0);
}

void KeelTest::SetUp() {
  auto options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  options.backends = "";
  options.default_timeout_ns = kTestTimeout;
  options.validate = validate_ ? 1 : 0;
  ASSERT_KEEL_OK(keel_init(&options));
  std::string text;
  violations_before_ = count_violations(&text);
  EXPECT_KEEL_OK(keel_validation_count(&problems_before_));
}

void KeelTest::TearDown() {
  EXPECT_EQ(take_problems(), 0u) << "found by the validation layer: in the log";
  EXPECT_KEEL_OK(keel_shutdown());
  std::string text;
  EXPECT_EQ(count_violations(&text), violations_before_) << text;
}

uint64_t KeelTest::take_problems() {
  uint64_t problems = 0;
  EXPECT_KEEL_OK(keel_validation_count(&problems));
  return problems - std::exchange(problems_before_, problems);
}

keel_stream KeelTest::new_stream(keel_device device) {
  keel_stream stream = {};
  EXPECT_KEEL_OK(keel_stream_create(device, 0, &stream));
  return stream;
}

keel_event KeelTest::record(keel_stream stream) {
  keel_event event = {};
  EXPECT_KEEL_OK(keel_event_create(0, &event));
  EXPECT_KEEL_OK(keel_event_record(event, stream));
  return event;
}

void* KeelTest::alloc(keel_device device, uint64_t bytes) {
  void* pointer = nullptr;
  EXPECT_KEEL_OK(keel_alloc(device, KEEL_MEMORY_DEVICE, bytes, &pointer));
  return pointer;
}

void* KeelTest::alloc_filled(keel_device device, const std::vector<uint32_t>& values) {
  void* pointer = alloc(device, values.size() * sizeof(uint32_t));
  const keel_stream stream = new_stream(device);
  EXPECT_KEEL_OK(keel_copy(stream, device, pointer, KEEL_HOST, values.data(),
                           values.size() * sizeof(uint32_t)));
  EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  EXPECT_KEEL_OK(keel_stream_destroy(stream));
  return pointer;
}

std::vector<uint32_t> KeelTest::read(keel_device device, const void* pointer, size_t count) {
  std::vector<uint32_t> values(count);
  const keel_stream stream = new_stream(device);
  EXPECT_KEEL_OK(
      keel_copy(stream, KEEL_HOST, values.data(), device, pointer, count * sizeof(uint32_t)));
  EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  EXPECT_KEEL_OK(keel_stream_destroy(stream));
  return values;
}

keel_status KeelTest::fill(keel_stream stream, void* pointer, uint32_t value, size_t count) {
  return keel_fill(stream, pointer, &value, sizeof(value), count * sizeof(value));
}

std::vector<uint32_t> pattern(size_t count, uint32_t seed) {
  std::vector<uint32_t> words(count);
  for (size_t i = 0; i < count; ++i) words[i] = static_cast<uint32_t>(i) * 2654435761u + seed;
  return words;
}

}  // namespace keel::testing

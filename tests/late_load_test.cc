// SPDX-License-Identifier: Apache-2.0
// libkeel.so comes into a process at any time, as a framework's extension brings it: also once
// there is no room left for thread-local memory that has a fixed place in every thread.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <keel/keel.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

namespace {

namespace fs = std::filesystem;

constexpr int64_t kTestTimeout = 60'000'000'000;

// Loads copies of a library that needs 8 bytes of that room until there are none. Returns what
// the loader says then.
std::string use_up_static_room() {
  const fs::path folder =
      fs::temp_directory_path() / ("keel_late_load." + std::to_string(getpid()));
  fs::create_directory(folder);
  std::string said;
  for (int i = 0; i < 10'000 && said.empty(); ++i) {
    const fs::path copy = folder / ("lib" + std::to_string(i) + ".so");
    fs::copy_file(KEEL_STATIC_TLS_LIBRARY, copy);
    if (dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) said = dlerror();
  }
  fs::remove_all(folder);
  return said;
}

class LateLoadTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string said = use_up_static_room();
    ASSERT_NE(said.find("static TLS"), std::string::npos) << said;
    library_ = dlopen(KEEL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
  }
  template <typename Function>
  Function* find(const char* name) const {
    void* found = dlsym(library_, name);
    EXPECT_NE(found, nullptr) << name;
    return reinterpret_cast<Function*>(found);
  }
  void* library_ = nullptr;
};

TEST_F(LateLoadTest, WhereThereIsNoStaticRoomLeft) {
  // Not the CPU's: oneDNN brings OpenMP's library, which needs static room of its own.
  setenv("KEEL_BACKENDS", "", /*overwrite=*/1);
  const auto last_error = find<decltype(keel_last_error)>("keel_last_error");
  ASSERT_EQ(find<decltype(keel_init)>("keel_init")(nullptr), KEEL_OK) << last_error();
  uint32_t backend = 0;
  ASSERT_EQ(find<decltype(keel_plugin_load)>("keel_plugin_load")(KEEL_FAKE_PLUGIN, nullptr, nullptr,
                                                                 &backend),
            KEEL_OK)
      << last_error();
  keel_device device = {};
  ASSERT_EQ(find<decltype(keel_device_get)>("keel_device_get")(0, &device), KEEL_OK);

  // What a thread keeps for itself: its error, where it is in its calls, what it remembers of
  // memory.
  const auto work = [&] {
    EXPECT_STREQ(last_error(), "");
    keel_stream stream = {};
    ASSERT_EQ(find<decltype(keel_stream_create)>("keel_stream_create")(device, 0, &stream),
              KEEL_OK);
    keel_event event = {};
    ASSERT_EQ(find<decltype(keel_event_create)>("keel_event_create")(0, &event), KEEL_OK);
    void* memory = nullptr;
    ASSERT_EQ(find<decltype(keel_alloc)>("keel_alloc")(device, KEEL_MEMORY_DEVICE, 8, &memory),
              KEEL_OK);
    const uint64_t written = 42;
    uint64_t read = 0;
    const auto copy = find<decltype(keel_copy)>("keel_copy");
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(copy(stream, device, memory, KEEL_HOST, &written, sizeof(written)), KEEL_OK);
      EXPECT_EQ(copy(stream, KEEL_HOST, &read, device, memory, sizeof(read)), KEEL_OK);
      EXPECT_EQ(find<decltype(keel_event_record)>("keel_event_record")(event, stream), KEEL_OK);
    }
    EXPECT_EQ(find<decltype(keel_event_wait)>("keel_event_wait")(event, kTestTimeout), KEEL_OK);
    EXPECT_EQ(find<decltype(keel_event_query)>("keel_event_query")(event), KEEL_OK);
    EXPECT_EQ(read, written);
    EXPECT_EQ(find<decltype(keel_event_query)>("keel_event_query")({7}), KEEL_INVALID_HANDLE);
    EXPECT_STRNE(last_error(), "");
    EXPECT_EQ(find<decltype(keel_free)>("keel_free")(device, memory), KEEL_OK);
    EXPECT_EQ(find<decltype(keel_event_destroy)>("keel_event_destroy")(event), KEEL_OK);
    EXPECT_EQ(find<decltype(keel_stream_destroy)>("keel_stream_destroy")(stream), KEEL_OK);
  };
  work();
  std::thread(work).join();
  EXPECT_EQ(find<decltype(keel_shutdown)>("keel_shutdown")(), KEEL_OK);
}

}  // namespace

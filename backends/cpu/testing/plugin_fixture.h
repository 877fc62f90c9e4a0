// SPDX-License-Identifier: Apache-2.0
// The built CPU plugin, used through the ABI alone.
#ifndef KEEL_BACKENDS_CPU_TESTING_PLUGIN_FIXTURE_H_
#define KEEL_BACKENDS_CPU_TESTING_PLUGIN_FIXTURE_H_

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <keel/abi.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace keel::cpu::testing {

inline thread_local std::string g_error;  // the plugin's last error text on this thread

// The plugin from the folder KEEL_PLUGIN_PATH.
inline const keel_plugin& plugin() {
  static const keel_plugin* const loaded = [] {
    static const keel_host host = {
        {sizeof(keel_host), KEEL_STRUCT_HOST, nullptr},
        nullptr,
        [](void*, keel_log_level, const char*) {},
        [](void*, const char* text) { g_error = text; },
    };
    const char* const folder = std::getenv("KEEL_PLUGIN_PATH");
    const std::string path = std::string(folder == nullptr ? "." : folder) + "/libkeel_cpu.so";
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::abort();
    }
    const auto query =
        reinterpret_cast<keel_plugin_query_fn>(dlsym(library, KEEL_PLUGIN_QUERY_SYMBOL));
    const keel_plugin* table = nullptr;
    if (query == nullptr || query(&host, &table) != KEEL_OK) std::abort();
    return table;
  }();
  return *loaded;
}

inline bool guarded() {
  const char* const guard = std::getenv("KEEL_CPU_GUARD");
  return guard != nullptr && std::string(guard) == "1";
}

using Settings = std::vector<std::pair<const char*, const char*>>;

inline keel_status create_instance(const Settings& settings, keel_plugin_instance** out_instance) {
  std::vector<const char*> keys, values;
  for (const auto& [key, value] : settings) {
    keys.push_back(key);
    values.push_back(value);
  }
  const keel_instance_settings given = {
      {sizeof(keel_instance_settings), KEEL_STRUCT_INSTANCE_SETTINGS, nullptr},
      static_cast<uint32_t>(settings.size()),
      0,
      keys.data(),
      values.data()};
  return plugin().create_instance(&given, out_instance);
}

// An instance with all of its devices open.
class Machine {
 public:
  explicit Machine(const Settings& settings = {{"devices", "1"}, {"cores", "2"}}) {
    EXPECT_EQ(create_instance(settings, &instance_), KEEL_OK) << g_error;
    uint32_t count = 0;
    EXPECT_EQ(plugin().device->count(instance_, &count), KEEL_OK);
    for (uint32_t i = 0; i < count; ++i) {
      devices_.emplace_back();
      EXPECT_EQ(plugin().device->open(instance_, i, &devices_.back()), KEEL_OK);
    }
  }
  ~Machine() {
    for (keel_plugin_device* device : devices_) plugin().device->close(device);
    plugin().destroy_instance(instance_);
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  keel_plugin_instance* instance() const { return instance_; }
  keel_plugin_device* device(size_t ordinal = 0) const { return devices_[ordinal]; }

 private:
  keel_plugin_instance* instance_ = nullptr;
  std::vector<keel_plugin_device*> devices_;
};

class StreamHandle {
 public:
  explicit StreamHandle(keel_plugin_device* device) {
    EXPECT_EQ(plugin().stream->create(device, 0, &stream_), KEEL_OK);
  }
  ~StreamHandle() { plugin().stream->destroy(stream_); }
  StreamHandle(const StreamHandle&) = delete;
  StreamHandle& operator=(const StreamHandle&) = delete;
  operator keel_plugin_stream*() const { return stream_; }
  keel_status synchronize() const { return plugin().stream->synchronize(stream_, INT64_MAX); }

 private:
  keel_plugin_stream* stream_ = nullptr;
};

class EventHandle {
 public:
  explicit EventHandle(keel_plugin_device* device, uint32_t flags = 0) {
    EXPECT_EQ(plugin().stream->event_create(device, flags, &event_), KEEL_OK);
  }
  ~EventHandle() { plugin().stream->event_destroy(event_); }
  EventHandle(const EventHandle&) = delete;
  EventHandle& operator=(const EventHandle&) = delete;
  operator keel_plugin_event*() const { return event_; }

 private:
  keel_plugin_event* event_ = nullptr;
};

// Memory of a device.
class Buffer {
 public:
  Buffer(keel_plugin_device* device, uint64_t size, keel_memory_kind kind = KEEL_MEMORY_DEVICE)
      : device_(device), kind_(kind) {
    EXPECT_EQ(plugin().memory->alloc(device, kind, size, 0, &pointer_), KEEL_OK) << g_error;
  }
  ~Buffer() {
    if (pointer_ != nullptr) {
      EXPECT_EQ(plugin().memory->free(device_, kind_, pointer_), KEEL_OK);
    }
  }
  Buffer(Buffer&& other) noexcept
      : device_(other.device_),
        kind_(other.kind_),
        pointer_(std::exchange(other.pointer_, nullptr)) {}
  Buffer& operator=(Buffer&&) = delete;
  void* get() const { return pointer_; }
  char* bytes() const { return static_cast<char*>(pointer_); }

 private:
  keel_plugin_device* device_;
  keel_memory_kind kind_;
  void* pointer_ = nullptr;
};

template <typename Element>
void upload(keel_plugin_stream* stream, void* to, const std::vector<Element>& from) {
  if (from.empty()) return;
  ASSERT_EQ(plugin().stream->copy(stream, KEEL_COPY_HOST_TO_DEVICE, to, from.data(),
                                  from.size() * sizeof(Element)),
            KEEL_OK);
  ASSERT_EQ(plugin().stream->synchronize(stream, INT64_MAX), KEEL_OK);
}

template <typename Element>
std::vector<Element> download(keel_plugin_stream* stream, const void* from, size_t count) {
  std::vector<Element> to(count);
  if (count == 0) return to;
  EXPECT_EQ(plugin().stream->copy(stream, KEEL_COPY_DEVICE_TO_HOST, to.data(), from,
                                  count * sizeof(Element)),
            KEEL_OK);
  EXPECT_EQ(plugin().stream->synchronize(stream, INT64_MAX), KEEL_OK);
  return to;
}

}  // namespace keel::cpu::testing

#endif  // KEEL_BACKENDS_CPU_TESTING_PLUGIN_FIXTURE_H_

// SPDX-License-Identifier: Apache-2.0
#include "devices.h"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <sstream>
#include <vector>

#include "../runtime.h"

namespace keel_torch::device {

namespace {

constexpr int kMostDevices = 16;
constexpr int kMostStreams = 1024;  // of a device
constexpr int kPooled = 32;

std::atomic<pid_t> initialized_in{0};

// Streams that new torch.Stream objects share, round-robin; 0: not made yet.
struct Pool {
  std::array<int, kPooled> ids{};
  unsigned next = 0;
};

struct Streams {
  std::mutex mutex;
  std::atomic<int> count{0};
  std::array<std::atomic<uint64_t>, kMostStreams> handles{};
  std::array<Pool, 2> pools;  // normal, urgent
};

thread_local c10::DeviceIndex current_device = 0;
thread_local std::array<c10::StreamId, kMostDevices> current_streams{};

std::vector<std::string> names_of(const std::string& list) {
  std::vector<std::string> names;
  std::stringstream text(list);
  for (std::string name; std::getline(text, name, ',');) {
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

// Loads every plugin beside that of the CPU which Runtime did not load. A plugin without a device,
// or without the SDK that it opens, is no failure.
void load_other_plugins(const std::vector<std::string>& chosen) {
  keel_backend_info info = KEEL_STRUCT_INIT(keel_backend_info, KEEL_STRUCT_BACKEND_INFO);
  uint32_t count = 0;
  check(keel_backend_count(&count), "counting plugins");
  std::vector<std::string> loaded;
  for (uint32_t i = 0; i < count; ++i) {
    check(keel_backend_get(i, &info), "listing plugins");
    loaded.push_back(info.path);
  }
  if (loaded.empty()) return;
  std::vector<std::filesystem::path> files;
  std::error_code error;
  const auto folder = std::filesystem::path(loaded.front()).parent_path();
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string file = entry.path().filename().string();
    if (!file.starts_with("libkeel_") || !file.ends_with(".so")) continue;
    const std::string backend = file.substr(8, file.size() - 11);
    const bool is_chosen =
        chosen.empty() || std::any_of(chosen.begin(), chosen.end(), [&](const std::string& name) {
          return name == backend || name.starts_with(backend + ":");
        });
    if (is_chosen) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    if (std::find(loaded.begin(), loaded.end(), file.string()) != loaded.end()) continue;
    uint32_t backend = 0;
    (void)keel_plugin_load(file.c_str(), nullptr, nullptr, &backend);
  }
}

struct Devices {
  std::vector<keel_device> handles;
  std::vector<std::string> names;
  std::array<Streams, kMostDevices> streams;
  std::string failure;

  Devices() {
    try {
      make();
    } catch (const c10::Error& error) {
      fail(error.what_without_backtrace());  // the caller's error has a trace of its own
    } catch (const std::exception& exception) {
      fail(exception.what());
    }
  }

 private:
  void fail(std::string reason) {
    handles.clear();
    names.clear();
    failure = std::move(reason);
  }

  void make() {
    const char* const list = std::getenv("KEEL_DEVICES");
    const std::vector<std::string> chosen = names_of(list == nullptr ? "" : list);
    TORCH_CHECK(chosen.size() <= kMostDevices, "KEEL_DEVICES names ", chosen.size(),
                " devices, of which PyTorch can have ", kMostDevices);
    (void)Runtime::get();
    initialized_in = getpid();
    if (std::getenv("KEEL_BACKENDS") == nullptr) load_other_plugins(chosen);
    if (chosen.empty()) {
      add_all();
    } else {
      for (const std::string& name : chosen) {
        keel_device device;
        check(keel_device_find(name.c_str(), &device), "looking for a device of KEEL_DEVICES");
        add(device);
      }
    }
  }

  // The CPU's devices first, then the others in Keel's order.
  void add_all() {
    uint32_t count = 0;
    check(keel_device_count(&count), "counting devices");
    for (const bool is_cpu : {true, false}) {
      for (uint32_t i = 0; i < count && handles.size() < kMostDevices; ++i) {
        keel_device device;
        // A device that does not open is left out.
        if (keel_device_get(i, &device) != KEEL_OK) continue;
        char name[80] = "";
        check(keel_device_name(device, name, sizeof name), "naming a device");
        if (std::string(name).starts_with("cpu:") == is_cpu) add(device);
      }
    }
  }

  void add(keel_device device) {
    char name[80] = "";
    check(keel_device_name(device, name, sizeof name), "naming a device");
    keel_stream stream;
    check(keel_stream_create(device, 0, &stream), "creating a device's default stream");
    Streams& of_device = streams[handles.size()];
    of_device.handles[0] = stream.id;
    of_device.count = 1;
    handles.push_back(device);
    names.emplace_back(name);
  }
};

// Never destroyed: tensors may outlive the destructors of static objects.
Devices& devices() {
  static Devices* const list = new Devices;
  return *list;
}

std::string list_of(const Devices& list) {
  if (list.handles.empty()) return "there is none: " + list.failure;
  std::string text = "there are";
  for (size_t i = 0; i < list.names.size(); ++i) {
    text += (i == 0 ? " keel:" : ", keel:") + std::to_string(i) + " (" + list.names[i] + ")";
  }
  return text;
}

}  // namespace

c10::DeviceIndex count() noexcept {
  if (is_forked()) return 0;
  return static_cast<c10::DeviceIndex>(devices().handles.size());
}

bool is_initialized() noexcept {
  return initialized_in != 0;
}

bool is_forked() noexcept {
  // A static object, as getpid is a system call: the child's handler sets it.
  static std::atomic<bool> forked{false};
  static const int registered = pthread_atfork(nullptr, nullptr, [] {
    if (initialized_in != 0) forked = true;
  });
  (void)registered;
  return forked;
}

keel_device handle(c10::DeviceIndex index) {
  const Devices& list = devices();
  TORCH_CHECK(index >= 0 && static_cast<size_t>(index) < list.handles.size(),
              "keel: no device keel:", static_cast<int>(index), "; ", list_of(list));
  return list.handles[index];
}

std::string name(c10::DeviceIndex index) {
  (void)handle(index);
  return devices().names[index];
}

c10::DeviceIndex find(const std::string& name) {
  const Devices& list = devices();
  for (size_t i = 0; i < list.names.size(); ++i) {
    if (list.names[i] == name || list.names[i].starts_with(name + ":")) {
      return static_cast<c10::DeviceIndex>(i);
    }
  }
  TORCH_CHECK(false, "keel: no device '", name, "'; ", list_of(list));
}

c10::DeviceIndex current() noexcept {
  return current_device;
}

void set_current(c10::DeviceIndex index) noexcept {
  current_device = index;
}

c10::DeviceIndex resolve(c10::DeviceIndex index) noexcept {
  return index < 0 ? current_device : index;
}

c10::Stream current_stream(c10::DeviceIndex index) noexcept {
  const c10::DeviceIndex resolved = resolve(index);
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kType, resolved),
                     current_streams[resolved % kMostDevices]);
}

c10::Stream exchange_stream(c10::Stream stream) noexcept {
  const c10::Stream former = current_stream(stream.device_index());
  current_streams[former.device_index() % kMostDevices] = stream.id();
  return former;
}

namespace {

// The caller holds the mutex of |streams|.
int create_stream(Streams& streams, c10::DeviceIndex index, int priority) {
  TORCH_CHECK(streams.count < kMostStreams, "keel: ", kMostStreams,
              " streams of keel:", static_cast<int>(index), " are in use");
  keel_stream stream;
  check(keel_stream_create(handle(index), priority, &stream), "creating a stream");
  const int id = streams.count;
  streams.handles[id] = stream.id;
  streams.count = id + 1;
  return id;
}

}  // namespace

c10::Stream new_stream(c10::DeviceIndex index, int priority) {
  const c10::DeviceIndex resolved = resolve(index);
  (void)handle(resolved);
  Streams& streams = devices().streams[resolved];
  const std::lock_guard lock(streams.mutex);
  const int id = create_stream(streams, resolved, priority);
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kType, resolved), id);
}

c10::Stream pooled_stream(c10::DeviceIndex index, int priority) {
  const c10::DeviceIndex resolved = resolve(index);
  (void)handle(resolved);
  Streams& streams = devices().streams[resolved];
  const std::lock_guard lock(streams.mutex);
  Pool& pool = streams.pools[priority < 0 ? 1 : 0];
  int& id = pool.ids[pool.next++ % kPooled];
  if (id == 0) id = create_stream(streams, resolved, priority < 0 ? -1 : 0);
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kType, resolved), id);
}

keel_stream handle(c10::Stream stream) {
  const c10::DeviceIndex index = resolve(stream.device_index());
  (void)handle(index);
  const Streams& streams = devices().streams[index];
  TORCH_CHECK(stream.id() >= 0 && stream.id() < streams.count, "keel: no stream ", stream.id());
  return keel_stream{streams.handles[stream.id()].load(std::memory_order_relaxed)};
}

keel_stream stream_of(c10::DeviceIndex index) {
  return handle(current_stream(index));
}

void check(keel_status status, const char* what) {
  if (status == KEEL_OK) return;
  const std::string text = std::string("keel: ") + what + ": " + failure_text(status);
  TORCH_CHECK_WITH(OutOfMemoryError, status != KEEL_OUT_OF_MEMORY, text);
  TORCH_CHECK(status != KEEL_FORKED, text,
              "; tensors of a keel device cannot be used in a forked process: start it by "
              "'spawn', or make the tensors there on the CPU");
  TORCH_CHECK(false, text);
}

}  // namespace keel_torch::device

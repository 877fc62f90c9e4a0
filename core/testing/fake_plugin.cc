// SPDX-License-Identifier: Apache-2.0
// A complete plugin in host memory for tests: one thread per stream, device addresses that the host
// cannot follow, and the rules of abi.h checked instead of trusted. Settings remove optional parts
// or cause failures:
//   devices=N                     number of devices (2)
//   no_notify no_alias no_fill no_pinned no_pageable no_peer no_kernels =1
//   memory=BYTES                  of each device; beyond it, KEEL_OUT_OF_MEMORY
//   max_alloc=BYTES               the largest allocation that device_info allows
//   fail_copy_at=N lose_at=N      the Nth copy of the instance fails asynchronously with
//                                 KEEL_DATA_LOSS, or with KEEL_DEVICE_LOST
//   refuse_copy_at=N              the Nth copy is refused when it is enqueued
//   lose_notify=1                 event_notify accepts every callback and makes none
//   refuse_events=1               no event is created while the plugin is paused:
//                                 KEEL_OUT_OF_MEMORY
//   unbacked=1                    addresses without memory: for look-ups only
//   fail_open=1                   no device can be opened
//   long_texts=1                  texts of device_info and its health have no end
//   pci_bus=N pci_style=1         device 0 is at bus N, the next one a bus further; as
//                                 "3B:00.0" instead of "0000:3b:00.0"
//   uuid=N numa=N                 device 0 has UUID N, the next one N + 1; all are on NUMA
//                                 node N - 1
#include "core/testing/fake_plugin.h"

#include <keel/abi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <keel/plugin_kit.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace keel::fake {
namespace {

// Not canonical on any 64-bit host: an access through a device pointer crashes.
constexpr uintptr_t kDeviceTag = uintptr_t{1} << 60;

std::mutex g_pause_mutex;
std::condition_variable g_pause_changed;
bool g_paused = false;

std::mutex g_violation_mutex;
int g_violations = 0;
const char* g_violation_text = "";

void violation(const char* text) {
  std::lock_guard lock(g_violation_mutex);
  ++g_violations;
  g_violation_text = text;
}

struct Instance {
  std::map<std::string, uint64_t, std::less<>> settings;
  std::atomic<uint64_t> copies{0};
  uint64_t setting(const char* key) const {
    const auto found = settings.find(key);
    return found == settings.end() ? 0 : found->second;
  }
};

struct Device {
  explicit Device(Instance& of) : instance(of) {}
  Instance& instance;
  std::atomic<int> objects{0};
  std::mutex mutex;
  uint64_t used = 0;
  std::map<void*, uint64_t> blocks;
  uintptr_t next_unbacked = uintptr_t{1} << 32;
};

// One record of an event.
struct Point {
  std::mutex mutex;
  std::condition_variable changed;
  keel_status status = KEEL_NOT_READY;
  int waits_queued = 0;
  bool queried = false;  // read only with the setting "late_queries"
  std::vector<std::pair<keel_notify_fn, void*>> callbacks;

  void complete(keel_status with) {
    std::vector<std::pair<keel_notify_fn, void*>> called;
    {
      std::lock_guard lock(mutex);
      status = with;
      called.swap(callbacks);
      changed.notify_all();
    }
    for (const auto& [fn, user] : called) fn(user, with);
  }
};

struct Stream;
struct Event {
  Device& device;
  bool timing;
  std::shared_ptr<Point> point;
  Stream* recorder = nullptr;
  std::chrono::steady_clock::time_point at;

  bool in_use() const {
    if (!point) return false;
    std::lock_guard lock(point->mutex);
    return point->status == KEEL_NOT_READY || point->waits_queued != 0;
  }
};

struct Stream {
  explicit Stream(Device& owner) : device(owner), thread([this] { run(); }) { ++device.objects; }
  ~Stream() {
    {
      std::lock_guard lock(mutex);
      if (!queue.empty()) violation("a stream was destroyed with work in its queue");
      stopping = true;
    }
    changed.notify_all();
    thread.join();
    --device.objects;
  }

  // KEEL_OUT_OF_MEMORY: nothing was enqueued.
  template <typename Work>
  keel_status push(Work&& work) {
    return kit::guard([&] {
      std::lock_guard lock(mutex);
      queue.emplace_back(std::forward<Work>(work));
      changed.notify_all();
      return keel_status{KEEL_OK};
    });
  }

  void run() {
    std::unique_lock lock(mutex);
    keel_status status = KEEL_OK;
    while (true) {
      changed.wait(lock, [&] { return stopping || !queue.empty(); });
      if (queue.empty()) return;
      const auto work = std::move(queue.front());
      lock.unlock();
      {
        std::unique_lock pause(g_pause_mutex);
        g_pause_changed.wait(pause, [] { return !g_paused; });
      }
      lock.lock();
      queue.pop_front();  // when waiters see the work done, it must not be queued any more
      lock.unlock();
      status = work(status);
      lock.lock();
    }
  }

  Device& device;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<keel_status(keel_status)>> queue;
  bool stopping = false;
  std::thread thread;
};

template <typename Object, typename Handle>
Object& object(Handle* handle) {
  return *reinterpret_cast<Object*>(handle);
}

void* to_host(const void* pointer) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(pointer) & ~kDeviceTag);
}

// ---- device ------------------------------------------------------------------

keel_status device_count(keel_plugin_instance* instance, uint32_t* out_count) {
  *out_count = static_cast<uint32_t>(object<Instance>(instance).setting("devices"));
  return *out_count == 0 ? kit::fail(KEEL_OK, "fake: configured without devices") : KEEL_OK;
}

keel_status device_info(keel_plugin_instance* handle, uint32_t ordinal,
                        keel_device_info* out_info) {
  const Instance& instance = object<Instance>(handle);
  kit::copy_text(out_info->name, "fake");
  out_info->type = KEEL_DEVICE_OTHER;
  out_info->alignment = 64;
  out_info->memory_bytes = instance.setting("memory");
  out_info->max_alloc_bytes = instance.setting("max_alloc");
  out_info->capabilities = KEEL_CAPABILITY_ASYNC | KEEL_CAPABILITY_TIMING;
  if (const auto bus = static_cast<unsigned>(instance.setting("pci_bus")); bus != 0) {
    std::snprintf(out_info->pci_address, sizeof(out_info->pci_address),
                  instance.setting("pci_style") == 0 ? "0000:%02x:00.0" : "%02X:00.0",
                  (bus + ordinal) & 0xffu);
  }
  if (const uint64_t uuid = instance.setting("uuid"); uuid != 0) {
    out_info->uuid[15] = static_cast<uint8_t>(uuid + ordinal);
  }
  out_info->numa_node = static_cast<int32_t>(instance.setting("numa")) - 1;
  if (instance.setting("long_texts") != 0) {
    std::memset(out_info->name, 'n', sizeof(out_info->name));
    std::memset(out_info->architecture, 'a', sizeof(out_info->architecture));
    std::memset(out_info->pci_address, 'p', sizeof(out_info->pci_address));
    std::memset(out_info->driver, 'd', sizeof(out_info->driver));
  }
  const auto claim = [&](const char* without, uint64_t bits) {
    if (instance.setting(without) == 0) out_info->capabilities |= bits;
  };
  claim("no_notify", KEEL_CAPABILITY_NOTIFY);
  claim("no_alias", KEEL_CAPABILITY_HOST_ALIAS);
  claim("no_fill", KEEL_CAPABILITY_FILL);
  claim("no_pinned", KEEL_CAPABILITY_PINNED);
  claim("no_pageable", KEEL_CAPABILITY_PAGEABLE_ASYNC);
  claim("no_peer", KEEL_CAPABILITY_PEER_COPY);
  claim("no_kernels", KEEL_CAPABILITY_KERNELS);
  return KEEL_OK;
}

keel_status device_open(keel_plugin_instance* handle, uint32_t, keel_plugin_device** out_device) {
  Instance& instance = object<Instance>(handle);
  if (instance.setting("fail_open") != 0) {
    return kit::fail(KEEL_UNAVAILABLE, "fake: somebody else has the device");
  }
  return kit::guard([&] {
    *out_device = reinterpret_cast<keel_plugin_device*>(new Device(instance));
    return keel_status{KEEL_OK};
  });
}

keel_status device_health(keel_plugin_device* handle, keel_device_health* out_health) {
  out_health->ok = 1;
  if (object<Device>(handle).instance.setting("long_texts") != 0) {
    std::memset(out_health->text, 't', sizeof(out_health->text));
  }
  return KEEL_OK;
}

void device_close(keel_plugin_device* handle) {
  Device* device = &object<Device>(handle);
  if (device->objects != 0) violation("streams or events outlive their device");
  if (!device->blocks.empty()) violation("memory outlives its device");
  if (device->objects == 0) delete device;
}

constexpr keel_device_table kDeviceTable = {
    .header = kit::header<keel_device_table>(KEEL_STRUCT_DEVICE_TABLE),
    .count = device_count,
    .info = device_info,
    .open = device_open,
    .close = device_close,
    .memory_info = nullptr,
    .health = device_health,
    .native_handle = nullptr,
};

// ---- memory ------------------------------------------------------------------

keel_status memory_alloc(keel_plugin_device* handle, keel_memory_kind kind, uint64_t size, uint32_t,
                         void** out_pointer) {
  Device& device = object<Device>(handle);
  const uint64_t limit = device.instance.setting("memory");
  std::lock_guard lock(device.mutex);
  const bool unbacked = device.instance.setting("unbacked") != 0;
  // No host has a tebibyte to give, and sanitizers abort at such a request.
  if (size >> 40 != 0 || (limit != 0 && device.used + size > limit)) {
    return kit::fail(KEEL_OUT_OF_MEMORY, "fake: the limit of this device is reached");
  }
  const uint64_t rounded = (size + 63) / 64 * 64;
  void* block = nullptr;
  if (unbacked) {
    block = reinterpret_cast<void*>(device.next_unbacked);
    device.next_unbacked += rounded + 64;
  } else {
    block = std::aligned_alloc(64, rounded);
  }
  if (block == nullptr) return kit::fail(KEEL_OUT_OF_MEMORY, "fake: no host memory");
  const uintptr_t tag = kind == KEEL_MEMORY_DEVICE ? kDeviceTag : 0;
  *out_pointer = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(block) | tag);
  try {
    device.blocks[*out_pointer] = size;
  } catch (const std::bad_alloc&) {
    if (!unbacked) std::free(block);
    return kit::fail(KEEL_OUT_OF_MEMORY, "fake: no host memory");
  }
  device.used += size;
  return KEEL_OK;
}

keel_status memory_free(keel_plugin_device* handle, keel_memory_kind, void* pointer) {
  Device& device = object<Device>(handle);
  std::lock_guard lock(device.mutex);
  const auto block = device.blocks.find(pointer);
  if (block == device.blocks.end()) {
    violation("memory was freed that is not allocated");
    return KEEL_INVALID_ARGUMENT;
  }
  device.used -= block->second;
  device.blocks.erase(block);
  if (device.instance.setting("unbacked") == 0) std::free(to_host(pointer));
  return KEEL_OK;
}

keel_status host_alias(keel_plugin_device*, void* pointer, uint64_t, void** out_alias) {
  *out_alias = to_host(pointer);
  return KEEL_OK;
}

constexpr keel_memory_table kMemoryTable = {
    .header = kit::header<keel_memory_table>(KEEL_STRUCT_MEMORY_TABLE),
    .alloc = memory_alloc,
    .free = memory_free,
    .alloc_on_stream = nullptr,
    .free_on_stream = nullptr,
    .host_register = nullptr,
    .host_unregister = nullptr,
    .host_alias = host_alias,
    .export_memory = nullptr,
    .import_memory = nullptr,
    .close_import = nullptr,
    .peer_enable = nullptr,
};

// ---- streams and events ------------------------------------------------------

keel_status stream_create(keel_plugin_device* device, int32_t, keel_plugin_stream** out_stream) {
  return kit::guard([&] {
    *out_stream = reinterpret_cast<keel_plugin_stream*>(new Stream(object<Device>(device)));
    return keel_status{KEEL_OK};
  });
}

void stream_destroy(keel_plugin_stream* stream) {
  delete &object<Stream>(stream);
}

keel_status enqueue_copy(Stream& stream, void* destination, const void* source, uint64_t size) {
  Instance& instance = stream.device.instance;
  const uint64_t number = ++instance.copies;
  if (number == instance.setting("refuse_copy_at")) {
    return kit::fail(KEEL_UNAVAILABLE, "fake: copy %d is refused", static_cast<int>(number));
  }
  keel_status outcome = KEEL_OK;
  if (number == instance.setting("fail_copy_at")) outcome = KEEL_DATA_LOSS;
  if (number == instance.setting("lose_at")) outcome = KEEL_DEVICE_LOST;
  return stream.push([=](keel_status status) {
    if (status != KEEL_OK || outcome != KEEL_OK) return status == KEEL_OK ? outcome : status;
    std::memcpy(to_host(destination), to_host(source), size);
    return status;
  });
}

keel_status stream_copy(keel_plugin_stream* stream, keel_copy_kind, void* destination,
                        const void* source, uint64_t size) {
  return enqueue_copy(object<Stream>(stream), destination, source, size);
}

keel_status stream_copy_peer(keel_plugin_stream* stream, keel_plugin_device*, void* destination,
                             keel_plugin_device*, const void* source, uint64_t size) {
  return enqueue_copy(object<Stream>(stream), destination, source, size);
}

keel_status stream_fill(keel_plugin_stream* handle, void* destination, const void* pattern,
                        uint32_t pattern_size, uint64_t size) {
  Stream& stream = object<Stream>(handle);
  if (pattern_size != 1 && stream.device.instance.setting("no_fill") != 0) {
    violation("fill was called with a pattern that is not claimed");
  }
  uint64_t value = 0;
  std::memcpy(&value, pattern, pattern_size);
  return stream.push([=](keel_status status) {
    char* bytes = static_cast<char*>(to_host(destination));
    for (uint64_t i = 0; status == KEEL_OK && i < size; i += pattern_size) {
      std::memcpy(bytes + i, &value, pattern_size);
    }
    return status;
  });
}

keel_status event_create(keel_plugin_device* handle, uint32_t flags,
                         keel_plugin_event** out_event) {
  Device& device = object<Device>(handle);
  if (device.instance.setting("refuse_events") != 0) {
    const std::lock_guard lock(g_pause_mutex);
    if (g_paused) return kit::fail(KEEL_OUT_OF_MEMORY, "fake: no memory for an event");
  }
  return kit::guard([&] {
    *out_event = reinterpret_cast<keel_plugin_event*>(
        new Event{device, (flags & KEEL_EVENT_TIMING) != 0, nullptr, nullptr, {}});
    ++device.objects;
    return keel_status{KEEL_OK};
  });
}

void event_destroy(keel_plugin_event* handle) {
  Event* event = &object<Event>(handle);
  if (event->in_use()) violation("an event was destroyed while in use");
  --event->device.objects;
  delete event;
}

keel_status event_record(keel_plugin_event* handle, keel_plugin_stream* stream) {
  Event& event = object<Event>(handle);
  if (event.in_use()) violation("an event was recorded again while its last record is in use");
  return kit::guard([&] {
    auto point = std::make_shared<Point>();
    const keel_status pushed = object<Stream>(stream).push([point, &event](keel_status status) {
      if (event.timing) event.at = std::chrono::steady_clock::now();
      point->complete(status);
      return status;
    });
    if (pushed != KEEL_OK) return pushed;
    event.point = std::move(point);
    event.recorder = &object<Stream>(stream);
    return keel_status{KEEL_OK};
  });
}

keel_status event_query(keel_plugin_event* handle) {
  const Event& event = object<Event>(handle);
  std::lock_guard lock(event.point->mutex);
  // A device whose work ends between two queries.
  const bool is_late = event.device.instance.setting("late_queries") != 0 && !event.point->queried;
  event.point->queried = true;
  return is_late ? KEEL_NOT_READY : event.point->status;
}

keel_status event_wait(keel_plugin_event* handle, int64_t timeout_ns) {
  const std::shared_ptr<Point> point = object<Event>(handle).point;
  std::unique_lock lock(point->mutex);
  const bool done = point->changed.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                                            [&] { return point->status != KEEL_NOT_READY; });
  return done ? point->status : KEEL_TIMED_OUT;
}

keel_status event_notify(keel_plugin_event* handle, keel_notify_fn fn, void* user) {
  if (object<Event>(handle).device.instance.setting("lose_notify") != 0) return KEEL_OK;
  const std::shared_ptr<Point> point = object<Event>(handle).point;
  keel_status status = KEEL_OK;
  const keel_status kept = kit::guard([&] {
    std::lock_guard lock(point->mutex);
    status = point->status;
    if (status == KEEL_NOT_READY) point->callbacks.emplace_back(fn, user);
    return keel_status{KEEL_OK};
  });
  if (kept != KEEL_OK) return kept;
  if (status != KEEL_NOT_READY) fn(user, status);
  return KEEL_OK;
}

keel_status stream_wait_event(keel_plugin_stream* handle, keel_plugin_event* event) {
  Stream& stream = object<Stream>(handle);
  if (object<Event>(event).recorder == &stream) violation("a stream waits for its own event");
  const std::shared_ptr<Point> point = object<Event>(event).point;
  {
    std::lock_guard lock(point->mutex);
    ++point->waits_queued;
  }
  const keel_status pushed = stream.push([point](keel_status status) {
    std::unique_lock lock(point->mutex);
    point->changed.wait(lock, [&] { return point->status != KEEL_NOT_READY; });
    --point->waits_queued;
    return status;
  });
  if (pushed != KEEL_OK) {
    std::lock_guard lock(point->mutex);
    --point->waits_queued;
  }
  return pushed;
}

keel_status event_elapsed(keel_plugin_event* start, keel_plugin_event* end,
                          uint64_t* out_nanoseconds) {
  const auto elapsed = object<Event>(end).at - object<Event>(start).at;
  *out_nanoseconds =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count());
  return KEEL_OK;
}

constexpr keel_stream_table make_stream_table(bool waits) {
  keel_stream_table table = {};
  table.header = kit::header<keel_stream_table>(KEEL_STRUCT_STREAM_TABLE);
  table.create = stream_create;
  table.destroy = stream_destroy;
  table.copy = stream_copy;
  table.copy_peer = stream_copy_peer;
  table.fill = stream_fill;
  table.event_create = event_create;
  table.event_destroy = event_destroy;
  table.event_record = event_record;
  table.event_query = event_query;
  table.event_wait = waits ? event_wait : nullptr;
  table.event_notify = event_notify;
  table.stream_wait_event = stream_wait_event;
  table.event_elapsed = event_elapsed;
  return table;
}

// KEEL_FAKE_POLLED: a second build, as a chip without a blocking wait.
#ifdef KEEL_FAKE_POLLED
constexpr keel_stream_table kStreamTable = make_stream_table(/*waits=*/false);
#else
constexpr keel_stream_table kStreamTable = make_stream_table(/*waits=*/true);
#endif

// ---- kernels -------------------------------------------------------------------

// A module is the text "kernels". Its one kernel, store, writes the second argument, a word, once
// per thread to the address in the first argument.
struct Module {
  Device& device;
  std::atomic<int> launches{0};  // queued launches
};

keel_status kernel_load(keel_plugin_device* handle, keel_binary_format format, const void* data,
                        uint64_t size, keel_plugin_module** out_module) {
  if (format != KEEL_BINARY_VENDOR) return kit::fail(KEEL_UNSUPPORTED, "fake: VENDOR alone");
  if (std::string_view(static_cast<const char*>(data), size) != "kernels") {
    return kit::fail(KEEL_INVALID_ARGUMENT, "fake: no module of mine");
  }
  Device& device = object<Device>(handle);
  return kit::guard([&] {
    *out_module = reinterpret_cast<keel_plugin_module*>(new Module{device, {}});
    ++device.objects;
    return keel_status{KEEL_OK};
  });
}

void kernel_unload(keel_plugin_module* handle) {
  Module* module = &object<Module>(handle);
  --module->device.objects;
  if (module->launches != 0) {
    violation("a module was unloaded with launches in a queue");
    return;  // queued launches use it
  }
  delete module;
}

keel_status kernel_find(keel_plugin_module* module, const char* name,
                        keel_plugin_kernel** out_kernel) {
  if (std::string_view(name) != "store")
    return kit::fail(KEEL_NOT_FOUND, "fake: no kernel '%s'", name);
  *out_kernel = reinterpret_cast<keel_plugin_kernel*>(module);
  return KEEL_OK;
}

keel_status kernel_launch(keel_plugin_stream* stream, keel_plugin_kernel* kernel,
                          const keel_launch* launch) {
  if (launch->argument_count != 2) return kit::fail(KEEL_INVALID_ARGUMENT, "fake: 2 arguments");
  uint32_t* to = nullptr;
  uint32_t value = 0;
  std::memcpy(&to, launch->arguments[0], sizeof(to));
  std::memcpy(&value, launch->arguments[1], sizeof(value));
  Module& module = object<Module>(kernel);
  ++module.launches;
  const keel_status pushed = object<Stream>(stream).push(
      [&module, to, value, count = launch->grid[0] * launch->block[0]](keel_status status) {
        auto* words = static_cast<uint32_t*>(to_host(to));
        for (uint32_t i = 0; status == KEEL_OK && i < count; ++i) words[i] = value;
        --module.launches;
        return status;
      });
  if (pushed != KEEL_OK) --module.launches;
  return pushed;
}

constexpr keel_kernel_table kKernelTable = {
    .header = kit::header<keel_kernel_table>(KEEL_STRUCT_KERNEL_TABLE),
    .load = kernel_load,
    .unload = kernel_unload,
    .find = kernel_find,
    .launch = kernel_launch,
};

// ---- the plugin --------------------------------------------------------------

keel_status create_instance(const keel_instance_settings* settings,
                            keel_plugin_instance** out_instance) {
  constexpr std::array kKeys = {
      "devices",        "no_notify",  "no_alias",     "no_fill",       "no_pinned",  "no_pageable",
      "no_peer",        "no_kernels", "memory",       "lose_at",       "fail_open",  "fail_copy_at",
      "refuse_copy_at", "unbacked",   "late_queries", "max_alloc",     "pci_bus",    "pci_style",
      "uuid",           "numa",       "long_texts",   "refuse_events", "lose_notify"};
  return kit::guard([&] {
    auto instance = std::make_unique<Instance>();
    instance->settings["devices"] = 2;
    for (uint32_t i = 0; i < settings->count; ++i) {
      const std::string key = settings->keys[i];
      if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) {
        return kit::fail(KEEL_INVALID_ARGUMENT, "fake: setting '%s' is not known", key.c_str());
      }
      instance->settings[key] = std::strtoull(settings->values[i], nullptr, 10);
    }
    *out_instance = reinterpret_cast<keel_plugin_instance*>(instance.release());
    return keel_status{KEEL_OK};
  });
}

void destroy_instance(keel_plugin_instance* instance) {
  delete &object<Instance>(instance);
}

constexpr keel_plugin kPlugin = {
    .header = kit::header<keel_plugin>(KEEL_STRUCT_PLUGIN),
    .abi_major = KEEL_ABI_MAJOR,
    .reserved = 0,
    .name = "fake",
    .vendor = "Keel tests",
    .version = "1",
    .create_instance = create_instance,
    .destroy_instance = destroy_instance,
    .device = &kDeviceTable,
    .memory = &kMemoryTable,
    .stream = &kStreamTable,
    .kernel = &kKernelTable,
    .op = nullptr,
    .ccl = nullptr,
};

}  // namespace
}  // namespace keel::fake

extern "C" {

KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                             const keel_plugin** out_plugin) {
  keel::kit::g_host = host;
  *out_plugin = &keel::fake::kPlugin;
  return KEEL_OK;
}

KEEL_EXPORT void keel_fake_pause(int paused) {
  std::lock_guard lock(keel::fake::g_pause_mutex);
  keel::fake::g_paused = paused != 0;
  keel::fake::g_pause_changed.notify_all();
}

KEEL_EXPORT int keel_fake_violations(const char** out_text) {
  std::lock_guard lock(keel::fake::g_violation_mutex);
  *out_text = keel::fake::g_violation_text;
  return keel::fake::g_violations;
}

}  // extern "C"

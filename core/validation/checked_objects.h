// SPDX-License-Identifier: Apache-2.0
// The objects behind the handles that the layer gives to core: the plugin's own handle, and the
// known state of the object.
#ifndef KEEL_CORE_VALIDATION_CHECKED_OBJECTS_H_
#define KEEL_CORE_VALIDATION_CHECKED_OBJECTS_H_

#include <keel/keel.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/validation/allocations.h"
#include "core/validation/origin.h"
#include "core/validation/registry.h"
#include "core/validation/timeline.h"

namespace keel::validation {

// A plugin as one backend uses it: the real tables, and the tables given to core.
struct CheckedPlugin {
  const keel_plugin* real = nullptr;
  std::string name;  // the backend's: "vulkan", "cuda#2"
  keel_plugin facade = {};
  keel_device_table device = {};
  keel_memory_table memory = {};
  keel_stream_table stream = {};
  keel_kernel_table kernel = {};
  keel_op_table op = {};
  keel_ccl_table ccl = {};
};

struct CheckedInstance {
  const CheckedPlugin* plugin = nullptr;
  keel_plugin_instance* native = nullptr;
  Origin origin;
  std::mutex mutex;  // guards the members below
  uint32_t device_count = UINT32_MAX;
  std::map<uint32_t, keel_device_info> infos;
  std::set<uint32_t> open;

  const std::string& owner() const { return plugin->name; }
};

struct CheckedDevice {
  std::shared_ptr<CheckedInstance> instance;
  keel_plugin_device* native = nullptr;
  Origin origin;
  std::string name;  // "vulkan:0"
  uint32_t ordinal = 0;
  keel_device_info info = {};
  std::atomic<bool> lost{false};

  // Guards the members below, and the members of the device's streams, events and gates that say
  // so. Never held across a plugin call, nor while logging.
  std::mutex mutex;
  Allocations allocations;
  std::map<uintptr_t, Block> registered;  // pinned host memory of the caller

  const std::string& owner() const { return name; }
  const keel_plugin& real() const { return *instance->plugin->real; }
  bool has(uint64_t bits) const { return (info.capabilities & bits) == bits; }
};

// A |Handle| of the plugin on a device.
template <typename Handle>
struct DeviceObject {
  std::shared_ptr<CheckedDevice> device;
  Handle* native = nullptr;
  Origin origin;

  const std::string& owner() const { return device->name; }
  const keel_plugin& real() const { return device->real(); }
};

struct CheckedStream : DeviceObject<keel_plugin_stream> {
  bool wrapped = false;                // around a stream of the caller, who answers for its work
  std::atomic<bool> is_shared{false};  // others may enqueue on the native stream, unseen
  std::shared_ptr<Timeline> timeline = std::make_shared<Timeline>();
  std::atomic<const void*> enqueuer{nullptr};  // the thread that is enqueueing
  // With the device's lock:
  keel_status failure = KEEL_OK;  // as reported by the plugin
  const void* told = nullptr;     // the thread that got the report
  uint64_t idle_at = UINT64_MAX;  // position at which a query reported all work done
};

struct CheckedEvent : DeviceObject<keel_plugin_event> {
  uint32_t flags = 0;
  // With the device's lock:
  std::shared_ptr<CheckedStream> stream;  // of the last record; empty: never recorded, or gone
  uint64_t records = 0;
  uint64_t position = 0;                 // of the last record on that stream
  keel_status outcome = KEEL_NOT_READY;  // of the last record, once reported by the plugin
  std::chrono::steady_clock::time_point recorded_at;
  std::vector<Use> waits;  // by streams, for the last record

  // Returns whether core knows that the last record is over.
  bool is_done() const {
    return outcome != KEEL_NOT_READY || stream == nullptr || stream->timeline->is_done(position);
  }
};

struct CheckedGate : DeviceObject<keel_plugin_gate> {
  bool open = false;       // with the device's lock
  std::vector<Use> waits;  // with the device's lock
};

struct CheckedModule : DeviceObject<keel_plugin_module> {
  // With the device's lock: the plugin's kernels, and core's handles for them.
  std::map<keel_plugin_kernel*, keel_plugin_kernel*> kernels;
};

struct CheckedKernel : DeviceObject<keel_plugin_kernel> {
  std::string name;
};

struct CheckedImport : DeviceObject<keel_plugin_import> {
  std::shared_ptr<Block> block;
};

struct CheckedComm : DeviceObject<keel_plugin_comm> {
  std::set<void*> registrations;  // with the device's lock
};

// A callback owed by the plugin for an event_notify.
struct Notification {
  std::shared_ptr<CheckedEvent> event;
  uint64_t record = 0;
  keel_notify_fn fn = nullptr;
  void* user = nullptr;
};

// One registry per kind of handle; never destroyed, since plugins' threads may call back while the
// process exits.
template <typename Handle>
struct ObjectOf;
#define KEEL_OBJECT(Handle, Object, word)     \
  template <>                                 \
  struct ObjectOf<Handle> {                   \
    using type = Object;                      \
    static constexpr const char* name = word; \
  }
KEEL_OBJECT(keel_plugin_instance, CheckedInstance, "instance");
KEEL_OBJECT(keel_plugin_device, CheckedDevice, "device");
KEEL_OBJECT(keel_plugin_stream, CheckedStream, "stream");
KEEL_OBJECT(keel_plugin_event, CheckedEvent, "event");
KEEL_OBJECT(keel_plugin_gate, CheckedGate, "gate");
KEEL_OBJECT(keel_plugin_module, CheckedModule, "module");
KEEL_OBJECT(keel_plugin_kernel, CheckedKernel, "kernel");
KEEL_OBJECT(keel_plugin_import, CheckedImport, "import");
KEEL_OBJECT(keel_plugin_comm, CheckedComm, "comm");
KEEL_OBJECT(void, Notification, "notification");
#undef KEEL_OBJECT

template <typename Handle>
Registry<Handle, typename ObjectOf<Handle>::type>& registry() {
  static auto& instance = *new Registry<Handle, typename ObjectOf<Handle>::type>;
  return instance;
}

}  // namespace keel::validation

#endif  // KEEL_CORE_VALIDATION_CHECKED_OBJECTS_H_

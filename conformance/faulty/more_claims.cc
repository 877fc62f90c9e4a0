// SPDX-License-Identifier: Apache-2.0
// No fault: adds the capabilities that the sample lacks, so that every case on the tables has a
// correct plugin.
#include <condition_variable>
#include <cstring>
#include <keel/plugin_kit.hpp>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "conformance/faulty/plain_plugin.h"

namespace {

using keel::faulty::plain_tables;
namespace kit = keel::kit;

keel_status info(keel_plugin_instance* instance, uint32_t ordinal, keel_device_info* out_info) {
  const keel_status status = plain_tables().device.info(instance, ordinal, out_info);
  constexpr size_t kClaimsEnd =
      offsetof(keel_device_info, capabilities) + sizeof(out_info->capabilities);
  if (status == KEEL_OK && out_info->header.size >= kClaimsEnd) {
    out_info->capabilities |= KEEL_CAPABILITY_MANAGED | KEEL_CAPABILITY_HOST_REGISTER |
                              KEEL_CAPABILITY_HOST_ALIAS | KEEL_CAPABILITY_NATIVE_GATE |
                              KEEL_CAPABILITY_STREAM_ALLOC;
  }
  return status;
}

keel_status health(keel_plugin_device*, keel_device_health* out_health) {
  out_health->ok = 1;
  out_health->throttled = 0;
  out_health->corrected_ecc = 0;
  out_health->uncorrected_ecc = 0;
  kit::copy_text(out_health->text, "");
  return KEEL_OK;
}

keel_status native_handle(keel_plugin_device* device, uint32_t which, void** out_handle) {
  if (which != 0) return kit::fail(KEEL_UNSUPPORTED, "there is no native handle %u", which);
  *out_handle = device;
  return KEEL_OK;
}

// ---- memory ----------------------------------------------------------------------------

// All memory is host memory.
keel_status alloc(keel_plugin_device* device, keel_memory_kind, uint64_t size, uint32_t usage,
                  void** out_pointer) {
  return plain_tables().memory.alloc(device, KEEL_MEMORY_DEVICE, size, usage, out_pointer);
}

keel_status host_register(keel_plugin_device*, void* pointer, uint64_t, void** out_device_pointer) {
  *out_device_pointer = pointer;
  return KEEL_OK;
}

keel_status host_unregister(keel_plugin_device*, void*) {
  return KEEL_OK;
}

keel_status host_alias(keel_plugin_device*, void* pointer, uint64_t, void** out_alias) {
  *out_alias = pointer;
  return KEEL_OK;
}

// Maps streams to their devices. Thread-safe.
class Owners {
 public:
  void add(keel_plugin_stream* stream, keel_plugin_device* device) {
    const std::lock_guard lock(mutex_);
    devices_[stream] = device;
  }
  void remove(keel_plugin_stream* stream) {
    const std::lock_guard lock(mutex_);
    devices_.erase(stream);
  }
  keel_plugin_device* find(keel_plugin_stream* stream) {
    const std::lock_guard lock(mutex_);
    return devices_.at(stream);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<keel_plugin_stream*, keel_plugin_device*> devices_;
};

Owners& owners() {
  static Owners& instance = *new Owners;
  return instance;
}

keel_status create(keel_plugin_device* device, int32_t priority, keel_plugin_stream** out_stream) {
  const keel_status status = plain_tables().stream.create(device, priority, out_stream);
  if (status == KEEL_OK) owners().add(*out_stream, device);
  return status;
}

void destroy(keel_plugin_stream* stream) {
  owners().remove(stream);
  plain_tables().stream.destroy(stream);
}

keel_status alloc_on_stream(keel_plugin_stream* stream, uint64_t size, void** out_pointer) {
  return alloc(owners().find(stream), KEEL_MEMORY_DEVICE, size, /*usage=*/0, out_pointer);
}

keel_status free_on_stream(keel_plugin_stream* stream, void* pointer) {
  keel_plugin_device* const device = owners().find(stream);
  keel::faulty::enqueue(
      stream, [=] { (void)plain_tables().memory.free(device, KEEL_MEMORY_DEVICE, pointer); });
  return KEEL_OK;
}

// ---- gates -----------------------------------------------------------------------------

struct Gate {
  std::mutex mutex;
  std::condition_variable opened;
  bool is_open = false;
};
// Shared with the streams that wait on the gate.
using SharedGate = std::shared_ptr<Gate>;

SharedGate& object(keel_plugin_gate* gate) {
  return *reinterpret_cast<SharedGate*>(gate);
}

keel_status gate_create(keel_plugin_device*, keel_plugin_gate** out_gate) {
  *out_gate = reinterpret_cast<keel_plugin_gate*>(new SharedGate(std::make_shared<Gate>()));
  return KEEL_OK;
}

void gate_destroy(keel_plugin_gate* gate) {
  delete &object(gate);
}

keel_status gate_open(keel_plugin_gate* gate) {
  const SharedGate shared = object(gate);
  const std::lock_guard lock(shared->mutex);
  shared->is_open = true;
  shared->opened.notify_all();
  return KEEL_OK;
}

keel_status stream_wait_gate(keel_plugin_stream* stream, keel_plugin_gate* gate) {
  keel::faulty::enqueue(stream, [shared = object(gate)] {
    std::unique_lock lock(shared->mutex);
    shared->opened.wait(lock, [&] { return shared->is_open; });
  });
  return KEEL_OK;
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = plain_tables();
  tables.device.info = info;
  tables.device.health = health;
  tables.device.native_handle = native_handle;
  tables.memory.alloc = alloc;
  tables.memory.alloc_on_stream = alloc_on_stream;
  tables.memory.free_on_stream = free_on_stream;
  tables.memory.host_register = host_register;
  tables.memory.host_unregister = host_unregister;
  tables.memory.host_alias = host_alias;
  tables.stream.create = create;
  tables.stream.destroy = destroy;
  tables.stream.gate_create = gate_create;
  tables.stream.gate_destroy = gate_destroy;
  tables.stream.gate_open = gate_open;
  tables.stream.stream_wait_gate = stream_wait_gate;
  return keel::faulty::answer_query("faulty_more_claims", tables, host, out_plugin);
}

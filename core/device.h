// SPDX-License-Identifier: Apache-2.0
// One device of a backend: opened on first use, with its memory and the pools that
// streams draw from.
#ifndef KEEL_CORE_DEVICE_H_
#define KEEL_CORE_DEVICE_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "core/backend.h"
#include "core/host_registrations.h"
#include "core/memory.h"
#include "core/module.h"
#include "core/ref_counted.h"
#include "core/status.h"

namespace keel {

class Stream;

// Thread-safe. Lives until the runtime shuts down.
class Device final : public RefCounted {
 public:
  Device(const Backend& backend, uint32_t ordinal, const keel_device_info& info);
  ~Device() override;

  // Opens the device if it is not open yet; every other function below needs that.
  Status open() { return is_open() ? Status() : open_now(); }
  bool is_open() const { return open_.load(std::memory_order_acquire); }
  // The end, in two steps: freed blocks and records of one device may keep streams of
  // another alive, so all devices release all before the first one closes.
  void release_all();
  void close();

  const Backend& backend() const { return backend_; }
  uint32_t ordinal() const { return ordinal_; }
  const std::string& name() const { return name_; }  // "vulkan:0"
  const keel_device_info& info() const { return info_; }
  bool claims(uint64_t bits) const { return (info_.claims & bits) == bits; }
  keel_plugin_device* native() const { return native_; }
  uint64_t handle() const { return handle_; }
  void set_handle(uint64_t handle) { handle_ = handle; }

  const keel_device_table* device_table() const { return plugin_.device; }
  const keel_memory_table* memory_table() const { return plugin_.memory; }
  const keel_stream_table* stream_table() const { return plugin_.stream; }
  const keel_kernel_table* kernel_table() const { return plugin_.kernel; }
  const keel_op_table* op_table() const { return plugin_.op; }
  const keel_ccl_table* ccl_table() const { return plugin_.ccl; }

  Memory& memory() { return memory_; }
  HostRegistrations& host_registrations() { return host_registrations_; }
  RetiredModules& retired_modules() { return retired_modules_; }

  // A plugin call's result as a Status; KEEL_DEVICE_LOST sticks to the device.
  Status check(keel_status code, const char* call) {
    return code == KEEL_OK ? Status() : failed(code, call);
  }
  // KEEL_DEVICE_LOST once the device is lost, with the text of the call that found it so; else
  // KEEL_OK.
  Status check_alive() const { return is_lost() ? lost() : Status(); }
  bool is_lost() const { return lost_.load(std::memory_order_relaxed); }

  // The NUMA node to stage on, asked for once; -1 where there is nothing to choose.
  int staging_node();

  // A stream of the runtime's own, for one copy or collective leg; exclusive to the
  // caller until its last work is done, then reused. |urgent|: its work goes before that of
  // others, where streams of the device have priorities.
  Status lease_stream(Ref<Stream>* out_stream, bool urgent = false);
  void return_stream(Ref<Stream> stream);
  // A stream that was destroyed with work that did not end by the deadline.
  void keep_unfinished(Ref<Stream> stream);

 private:
  static constexpr int kNodeNotAsked = -2;

  static void push(Ref<Stream>& list, Ref<Stream> stream);
  static Ref<Stream> pop(Ref<Stream>& list);
  Ref<Stream> pop_locked(Ref<Stream>& list);
  Ref<Stream>& idle_streams(bool urgent) { return urgent ? idle_urgent_streams_ : idle_streams_; }
  Status open_now();
  [[gnu::cold]] Status failed(keel_status code, const char* call);
  [[gnu::cold]] Status lost() const;

  const Backend& backend_;
  const keel_plugin& plugin_;
  const uint32_t ordinal_;
  const std::string name_;
  const keel_device_info info_;
  uint64_t handle_ = 0;

  std::atomic<bool> open_{false};
  std::atomic<bool> lost_{false};
  mutable std::mutex loss_mutex_;
  Status loss_;  // the first failure by which the device was lost; under loss_mutex_
  std::atomic<int> staging_node_{kNodeNotAsked};
  std::mutex mutex_;  // guards opening and the pools
  keel_plugin_device* native_ = nullptr;
  // Linked through the streams, so that none is lost for want of memory.
  Ref<Stream> idle_streams_;  // returned; may still have work in flight
  Ref<Stream> idle_urgent_streams_;
  Ref<Stream> unfinished_streams_;
  Memory memory_;
  HostRegistrations host_registrations_;
  RetiredModules retired_modules_;
};

}  // namespace keel

#endif  // KEEL_CORE_DEVICE_H_

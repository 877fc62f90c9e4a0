// SPDX-License-Identifier: Apache-2.0
// One device of a backend: opened on first use; owns its memory and pools of streams.
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

  // Opens the device unless it is open; every function below needs an open device.
  Status open() { return is_open() ? Status() : open_now(); }
  bool is_open() const { return open_.load(std::memory_order_acquire); }
  // Teardown in two steps: freed blocks and event records of one device may keep streams of another
  // device alive, so all devices call release_all() before the first calls close().
  void release_all();
  void close();

  const Backend& backend() const { return backend_; }
  uint32_t ordinal() const { return ordinal_; }
  const std::string& name() const { return name_; }  // "vulkan:0"
  const keel_device_info& info() const { return info_; }
  bool has(uint64_t bits) const { return (info_.capabilities & bits) == bits; }
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

  // Converts the result of a plugin call to a Status. KEEL_DEVICE_LOST marks the device as lost for
  // good.
  Status check(keel_status code, const char* call) {
    return code == KEEL_OK ? Status() : failed(code, call);
  }
  // KEEL_DEVICE_LOST once the device is lost, with the text of the call that detected the loss;
  // else KEEL_OK.
  Status check_alive() const { return is_lost() ? lost() : Status(); }
  bool is_lost() const { return lost_.load(std::memory_order_relaxed); }
  // Marks the device as lost because work on it, which |call| was to end, does not end and may
  // still run. A plugin that reports a loss has ended the work.
  void give_up_work(const char* call);
  bool may_run_given_up_work() const { return has_given_up_.load(); }

  // NUMA node for staging memory, looked up once; -1 if the machine offers no choice.
  int staging_node();

  // Returns an internal stream for part of a copy or collective. The stream is exclusive to the
  // caller until return_stream(), and is leased again once its work is done. |urgent|: the stream's
  // work precedes that of other streams, if the device supports stream priorities.
  Status lease_stream(Ref<Stream>* out_stream, bool urgent = false);
  void return_stream(Ref<Stream> stream);
  // Keeps a destroyed stream whose work did not end by the deadline.
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
  std::atomic<bool> has_given_up_{false};
  mutable std::mutex loss_mutex_;
  Status loss_;  // failure that caused the loss of the device; under loss_mutex_
  std::atomic<int> staging_node_{kNodeNotAsked};
  std::mutex mutex_;  // guards opening and the stream pools
  keel_plugin_device* native_ = nullptr;
  // Intrusive lists linked through the streams, so that adding a stream needs no memory.
  Ref<Stream> idle_streams_;  // returned; may still have work in flight
  Ref<Stream> idle_urgent_streams_;
  Ref<Stream> unfinished_streams_;
  Memory memory_;
  HostRegistrations host_registrations_;
  RetiredModules retired_modules_;
};

}  // namespace keel

#endif  // KEEL_CORE_DEVICE_H_

// SPDX-License-Identifier: Apache-2.0
// The process-wide runtime: backends, devices, handles and background threads.
#ifndef KEEL_CORE_RUNTIME_H_
#define KEEL_CORE_RUNTIME_H_

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <vector>

#include "core/api_state.h"
#include "core/backend.h"
#include "core/deadline.h"
#include "core/device.h"
#include "core/event.h"
#include "core/gate.h"
#include "core/handle_table.h"
#include "core/host_callbacks.h"
#include "core/insiders.h"
#include "core/module.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/stream.h"

namespace keel {

// One per process, never destroyed; started by initialize() and stopped by shutdown(). Thread-safe.
class Runtime {
 public:
  static Runtime& get() {
    Runtime* instance = instance_.load(std::memory_order_acquire);
    return instance != nullptr ? *instance : create();
  }
  // Like get(), for callers that have seen g_api_state at kOpen.
  static Runtime& opened() { return *instance_.load(std::memory_order_relaxed); }

  Status initialize(const keel_init_options* options);
  // Refuses new calls, ends the waits of current ones, and tears everything down once no thread is
  // inside a C function. KEEL_TIMED_OUT at the default deadline: nothing was torn down, and the
  // next shutdown() continues. KEEL_FAILED_PRECONDITION within a function that Keel has called.
  Status shutdown();
  bool is_initialized() const {
    return g_api_state.load(std::memory_order_acquire) == ApiState::kOpen;
  }

  Status load_plugin(const char* path, const keel_instance_settings* settings, const char* sha256,
                     uint32_t* out_backend);

  uint32_t backend_count();
  // Returns NULL past the end. Backends live until shutdown.
  const Backend* backend(uint32_t index);
  std::vector<Ref<Device>> devices();

  int64_t default_timeout_ns() const { return default_timeout_ns_; }
  // Within a C function, default_deadline() and deadline() pass when shutdown() begins.
  Deadline default_deadline() const { return insiders::deadline(default_timeout_ns_); }
  // Converts the user's |timeout_ns| to a deadline; fails for a negative number other than
  // KEEL_TIMEOUT_DEFAULT.
  // |operations_ns|: the deadlines of the awaited operations, for KEEL_TIMEOUT_OPERATIONS; negative
  // for a call that does not take that value.
  Status deadline(int64_t timeout_ns, Deadline* out_deadline, int64_t operations_ns = -1) const;

  HandleTable<Device, HandleKind::kDevice>& device_handles() { return device_handles_; }
  HandleTable<Stream, HandleKind::kStream>& stream_handles() { return stream_handles_; }
  HandleTable<Event, HandleKind::kEvent>& event_handles() { return event_handles_; }
  HandleTable<Gate, HandleKind::kGate>& gate_handles() { return gate_handles_; }
  HandleTable<Module, HandleKind::kModule>& module_handles() { return module_handles_; }
  HandleTable<Kernel, HandleKind::kKernel>& kernel_handles() { return kernel_handles_; }

  Progress& progress() { return *progress_; }
  HostCallbacks& host_callbacks() { return host_callbacks_; }

  // Registry of all live streams.
  void add_stream(Stream* stream);
  void remove_stream(Stream* stream);
  std::vector<Ref<Stream>> streams();
  // Like streams(), in batches and without allocating: fills |out_streams| with the streams after
  // |previous|, which the caller keeps alive; NULL starts at the first. Returns the count; 0 at the
  // end.
  size_t streams_after(const Stream* previous, std::span<Ref<Stream>> out_streams);
  std::vector<Ref<Stream>> streams_of(const Device& device);

  // Runs |hook| in shutdown, once no thread is inside a C function: layers above destroy their
  // objects there.
  void add_shutdown_hook(std::function<void()> hook);
  // |check| fails if a layer above uses host memory in [begin, end) that is registered with the
  // device. check_unused() returns the first failure.
  using CheckUnused = std::function<Status(const Device&, uintptr_t begin, uintptr_t end)>;
  void add_registration_user(CheckUnused check);
  Status check_unused(const Device& device, uintptr_t begin, uintptr_t end);

 private:
  Runtime();
  static Runtime& create();
  Status load_folder(const std::string& folder, const char* backends);
  Status add_backend(const char* path, const keel_instance_settings* settings, const char* sha256,
                     uint32_t* out_backend);
  void destroy_leftovers();

  static inline std::atomic<Runtime*> instance_{nullptr};

  std::mutex lifecycle_mutex_;
  uint32_t fork_memory_ = 0;
  int64_t default_timeout_ns_ = 0;
  std::unique_ptr<Progress> progress_;
  HostCallbacks host_callbacks_;
  std::shared_mutex backends_mutex_;
  std::deque<std::unique_ptr<Backend>> backends_;
  std::mutex hooks_mutex_;  // taken by threads for which shutdown waits
  std::vector<std::function<void()>> shutdown_hooks_;
  std::vector<CheckUnused> registration_users_;

  HandleTable<Device, HandleKind::kDevice> device_handles_;
  HandleTable<Stream, HandleKind::kStream> stream_handles_;
  HandleTable<Event, HandleKind::kEvent> event_handles_;
  HandleTable<Gate, HandleKind::kGate> gate_handles_;
  HandleTable<Module, HandleKind::kModule> module_handles_;
  HandleTable<Kernel, HandleKind::kKernel> kernel_handles_;  // of loaded modules

  std::mutex streams_mutex_;
  std::vector<Stream*> streams_;
};

}  // namespace keel

#endif  // KEEL_CORE_RUNTIME_H_

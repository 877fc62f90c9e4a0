// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SHIMS_ACL_RUNTIME_H_
#define KEEL_EMULATOR_SHIMS_ACL_RUNTIME_H_

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emulator/device.h"
#include "emulator/event.h"
#include "emulator/host_memory.h"
#include "emulator/settings.h"
#include "emulator/shims/beside.h"
#include "emulator/stream.h"
#include "vendor/ascend/acl.h"

namespace keel::emulator::acl {

// The configuration of the shim: the keys of chips, and the shim's own keys. See docs/emulator.md.
struct Settings {
  ChipSettings chips;
  aclError init = ACL_SUCCESS;    // result of aclInit
  aclError count = ACL_SUCCESS;   // result of aclrtGetDeviceCount
  aclError device = ACL_SUCCESS;  // result of aclrtSetDevice
  bool has_float8 = true;         // whether the chip casts 8-bit floats
  uint64_t descriptor = 0;        // the descriptor that is NULL, counted from 1; 0: none
  uint32_t version[3] = {1, 16, 0};
  // Devices from the second aclrtGetDeviceCount on; those beyond are gone.
  uint64_t devices_later = UINT64_MAX;
  // Host functions do not run in their place, but in keel_emulated_acl_call_back().
  bool calls_back_late = false;
};
// Parses KEEL_EMULATED_ASCEND.
Status read_settings(std::string_view text, Settings* out_settings);

// The default context of one device, and its chip. The first aclrtSetDevice of the process creates
// the chip, the last aclrtResetDevice destroys it. Lives as long as the process. Thread-safe.
class Context {
 public:
  Context(const DeviceOptions& options, int32_t ordinal, HostMemory& host_memory);

  int32_t ordinal() const { return ordinal_; }
  aclError hold();
  aclError release();
  // Returns ACL_ERROR_RT_CONTEXT_NULL if the context is not held, or the error that lost the chip.
  aclError chip(std::shared_ptr<Device>* out_chip);

 private:
  DeviceOptions options_;
  const int32_t ordinal_;
  HostMemory& host_memory_;
  std::mutex mutex_;
  uint32_t holders_ = 0;
  std::shared_ptr<Device> chip_;
};

// The objects behind the handles.
struct StreamHandle {
  Context* context;
  std::unique_ptr<Stream> stream;
};
struct EventHandle {
  std::shared_ptr<Device> chip;
  Event event;
  uint32_t flags;
  std::atomic<bool> is_recorded{false};
};

// Handles that exist. The real library does not check handles, so the use of another handle is
// undefined there. Thread-safe.
class Handles {
 public:
  void add(const void* handle);
  bool remove(const void* handle);
  bool has(const void* handle) const;

 private:
  mutable std::mutex mutex_;
  std::set<const void*> handles_;
};

// The process-wide state of the library. Thread-safe.
class Runtime {
 public:
  // Created at the first call from the environment, never destroyed.
  static Runtime& get();

  const Settings& settings() const { return settings_; }
  aclError init();
  bool is_ready() const { return ready_.load(std::memory_order_acquire); }
  // Returns NULL if |device| does not exist.
  Context* context(int64_t device) const {
    const auto index = static_cast<size_t>(device);
    return index < contexts_.size() ? contexts_[index].get() : nullptr;
  }
  // Counts the call.
  size_t count_devices() {
    return counted_.exchange(true, std::memory_order_relaxed) ? devices_later() : contexts_.size();
  }
  // Whether |device| has gone since the devices were counted first.
  bool has_gone(int64_t device) const {
    return counted_.load(std::memory_order_relaxed) &&
           static_cast<size_t>(device) >= devices_later();
  }
  HostMemory& host_memory() { return host_memory_; }
  Handles& streams() { return streams_; }
  Handles& events() { return events_; }
  // Counts a descriptor of an operator that is made; false for the one that is to be NULL.
  bool may_describe() {
    return descriptors_.fetch_add(1, std::memory_order_relaxed) + 1 != settings_.descriptor;
  }
  // Calls a host function of a stream, or keeps the call for call_back().
  void call_host(aclrtHostFunc function, void* argument);
  void call_back();

 private:
  Runtime();

  Settings settings_;
  HostMemory host_memory_;
  Handles streams_;
  Handles events_;
  std::vector<std::unique_ptr<Context>> contexts_;
  size_t devices_later() const {
    return std::min<size_t>(contexts_.size(), settings_.devices_later);
  }

  std::atomic<bool> ready_{false};
  std::atomic<bool> counted_{false};
  std::atomic<uint64_t> descriptors_{0};
  std::mutex late_mutex_;
  std::vector<std::pair<aclrtHostFunc, void*>> late_;
};

// Sets the text of aclGetRecentErrMsg for this thread, and returns |error|.
aclError fail(aclError error, std::string text);
// Maps a status of |chip|. A failure of work is an exception of the AI core.
aclError error_of(const Status& status, const Device& chip);
aclError error_of(HostMemory::Result result);
aclError loss_of(const Device& chip);

// The calling thread's current context; NULL if the thread has set none.
Context* current_context();
void set_current_context(Context* context);

// The current context of a call, and its chip.
struct Here {
  Context* context;
  std::shared_ptr<Device> chip;
};

// Runs |body| if aclInit was called; lets no exception escape.
template <typename Body>
aclError answer(Body&& body) noexcept {
  if (!Runtime::get().is_ready()) return ACL_ERROR_UNINITIALIZE;
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return ACL_ERROR_BAD_ALLOC;
  } catch (...) {
    return ACL_ERROR_INTERNAL_ERROR;
  }
}

// Like answer(), in the current context, if its chip is not lost.
template <typename Body>
aclError answer_here(Body&& body) noexcept {
  return answer([&] {
    Here here = {current_context(), nullptr};
    if (here.context == nullptr) {
      return fail(ACL_ERROR_RT_CONTEXT_NULL, "the thread has no current context");
    }
    const aclError well = here.context->chip(&here.chip);
    return well == ACL_SUCCESS ? body(here) : well;
  });
}

// Finds the stream |handle| of the current context.
aclError find_stream(const Here& here, const char* call, aclrtStream handle, Stream** out_stream);

}  // namespace keel::emulator::acl

extern "C" {

// For the vendor's other libraries: the chip of the calling thread's context, and a stream of that
// context. |call| names the calling function in messages.
aclError keel_emulated_acl_chip(std::shared_ptr<keel::emulator::Device>* out_chip);
aclError keel_emulated_acl_stream(const char* call, aclrtStream handle,
                                  keel::emulator::Stream** out_stream);
// Returns whether there is memory for another descriptor.
bool keel_emulated_acl_may_describe();
bool keel_emulated_acl_has_float8();
// Calls the host functions that streams have passed, if the setting late_callbacks keeps them.
void keel_emulated_acl_call_back();

}  // extern "C"

#endif  // KEEL_EMULATOR_SHIMS_ACL_RUNTIME_H_

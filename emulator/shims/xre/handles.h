// SPDX-License-Identifier: Apache-2.0
// The objects behind the shim's handles.
#ifndef KEEL_EMULATOR_SHIMS_XRE_HANDLES_H_
#define KEEL_EMULATOR_SHIMS_XRE_HANDLES_H_

#include <fmt/format.h>

#include <map>
#include <memory>
#include <mutex>

#include "emulator/event.h"
#include "emulator/shims/xre/runtime.h"
#include "emulator/stream.h"

namespace keel::emulator::xre {

struct StreamHandle {
  int device;
  std::shared_ptr<Stream> stream;
};

struct EventHandle {
  int device;
  std::shared_ptr<Device> chip;
  Event event;
};

// The live handles of one kind. The use of any other value ends the process, since the runtime
// defines nothing for it. Thread-safe.
template <typename Object>
class Handles {
 public:
  // Never destroyed.
  static Handles& get() {
    static Handles& handles = *new Handles;
    return handles;
  }

  void* add(std::shared_ptr<Object> object) {
    void* const handle = object.get();
    const std::lock_guard lock(mutex_);
    live_.emplace(handle, std::move(object));
    return handle;
  }
  std::shared_ptr<Object> find(const char* function, void* handle) {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(handle);
    if (found == live_.end()) end_process(function, fmt::format("{} is no live handle", handle));
    return found->second;
  }
  // Like find(), for a handle of the current device.
  std::shared_ptr<Object> find_here(const Here& here, void* handle) {
    std::shared_ptr<Object> object = find(here.function, handle);
    if (object->device != here.device) {
      end_process(here.function, fmt::format("a handle of device {}, while device {} is current",
                                             object->device, here.device));
    }
    return object;
  }
  void remove(void* handle) {
    std::shared_ptr<Object> last;
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(handle);
    if (found == live_.end()) return;
    last = std::move(found->second);
    live_.erase(found);
  }

 private:
  std::mutex mutex_;
  std::map<void*, std::shared_ptr<Object>> live_;
};

// Finds the stream |handle| of the current device; NULL is the default stream.
inline Status find_stream(const Here& here, void* handle, std::shared_ptr<Stream>* out_stream) {
  if (handle == nullptr) return here.chip->default_stream(out_stream);
  *out_stream = Handles<StreamHandle>::get().find_here(here, handle)->stream;
  return {};
}

}  // namespace keel::emulator::xre

#endif  // KEEL_EMULATOR_SHIMS_XRE_HANDLES_H_

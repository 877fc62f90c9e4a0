// SPDX-License-Identifier: Apache-2.0
// The objects behind the shim's handles.
#ifndef KEEL_EMULATOR_SHIMS_LEVEL_ZERO_HANDLES_H_
#define KEEL_EMULATOR_SHIMS_LEVEL_ZERO_HANDLES_H_

#include <fmt/format.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "emulator/completion.h"
#include "emulator/shims/level_zero/driver.h"
#include "emulator/simt/library.h"
#include "emulator/spirv/interpreter.h"
#include "emulator/spirv/module.h"
#include "emulator/stream.h"

namespace keel::emulator::level_zero {

struct ContextObject {};

// An immediate command list. Its stream runs the commands in order, which a list need not promise:
// callers put barriers between them.
struct ListObject {
  Chip* chip;
  std::shared_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  bool is_copy_only;
};

struct PoolObject {
  uint32_t count;
  std::vector<Chip*> chips;  // of which a loss ends waits
  std::mutex mutex;
  std::set<uint32_t> taken;
};

// An event. Each signal completes the completion; a reset replaces a completion that is done.
class EventObject {
 public:
  EventObject(std::shared_ptr<PoolObject> pool, uint32_t index)
      : pool_(std::move(pool)), index_(index), current_(std::make_shared<Completion>()) {}
  ~EventObject() {
    const std::lock_guard lock(pool_->mutex);
    pool_->taken.erase(index_);
  }
  EventObject(const EventObject&) = delete;
  EventObject& operator=(const EventObject&) = delete;

  // Returns whether a device of the pool is lost.
  bool is_lost() const {
    for (Chip* const chip : pool_->chips) {
      std::shared_ptr<Device> device;
      if (chip->device(&device).code() == Code::kDeviceLost) return true;
    }
    return false;
  }
  std::shared_ptr<Completion> current() const {
    const std::lock_guard lock(mutex_);
    return current_;
  }
  void reset() {
    const std::lock_guard lock(mutex_);
    if (current_->is_done()) current_ = std::make_shared<Completion>();
  }

 private:
  const std::shared_ptr<PoolObject> pool_;
  const uint32_t index_;
  mutable std::mutex mutex_;
  std::shared_ptr<Completion> current_;
};

// Kernels of this build's operators, or those of SPIR-V.
struct ModuleObject {
  Chip* chip;
  const simt::Library* library;  // NULL: |spirv|
  std::shared_ptr<const spirv::Module> spirv;
};

// A kernel, and group size and arguments of its next launch, which a launch copies.
struct KernelObject {
  std::shared_ptr<ModuleObject> module;
  const simt::Kernel* kernel = nullptr;  // NULL: |spirv|
  const spirv::Kernel* spirv = nullptr;
  std::mutex mutex;
  std::array<uint32_t, 3> group = {};  // 0: not set
  std::vector<std::optional<spirv::Argument>> arguments;
  uint32_t indirect = 0;
};

struct LogObject {
  std::string text;
};

// The live handles of one kind. The use of any other value ends the process, since the interface
// defines nothing for it. Thread-safe.
template <typename Object, typename Handle>
class Handles {
 public:
  // Never destroyed.
  static Handles& get() {
    static Handles& handles = *new Handles;
    return handles;
  }

  Handle add(std::shared_ptr<Object> object) {
    void* const handle = object.get();
    const std::lock_guard lock(mutex_);
    live_.emplace(handle, std::move(object));
    return reinterpret_cast<Handle>(handle);
  }
  std::shared_ptr<Object> find(const char* function, Handle handle) {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(static_cast<void*>(handle));
    if (found == live_.end()) {
      end_process(function, fmt::format("{} is no live handle", static_cast<void*>(handle)));
    }
    return found->second;
  }
  void remove(const char* function, Handle handle) {
    const std::shared_ptr<Object> last = find(function, handle);
    const std::lock_guard lock(mutex_);
    live_.erase(static_cast<void*>(handle));
  }

 private:
  std::mutex mutex_;
  std::map<void*, std::shared_ptr<Object>> live_;
};

using Contexts = Handles<ContextObject, ze::Context>;
using Lists = Handles<ListObject, ze::CommandList>;
using Pools = Handles<PoolObject, ze::EventPool>;
using Events = Handles<EventObject, ze::Event>;
using Modules = Handles<ModuleObject, ze::Module>;
using Kernels = Handles<KernelObject, ze::Kernel>;
using Logs = Handles<LogObject, ze::BuildLog>;

}  // namespace keel::emulator::level_zero

#endif  // KEEL_EMULATOR_SHIMS_LEVEL_ZERO_HANDLES_H_

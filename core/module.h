// SPDX-License-Identifier: Apache-2.0
// Binaries that the caller loads on a device, and their kernels.
#ifndef KEEL_CORE_MODULE_H_
#define KEEL_CORE_MODULE_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/event.h"
#include "core/ref_counted.h"
#include "core/status.h"

namespace keel {

class Device;

// A loaded binary. Kernels and held launches keep a reference; with the last one, the native module
// moves to the device's RetiredModules. Thread-safe.
class Module final : public RefCounted {
 public:
  static Status load(Device& device, keel_binary_format format, const void* data, uint64_t size,
                     Ref<Module>* out_module);
  ~Module() override;

  Device& device() const { return device_; }

  // Returns the handle of the kernel |name|, the same in every call.
  Status find_kernel(const char* name, uint64_t* out_handle);
  // Removes the handles of the module's kernels; later calls of find_kernel() fail.
  void close();

 private:
  Module(Device& device, keel_plugin_module* native) : device_(device), native_(native) {}

  Device& device_;
  keel_plugin_module* const native_;
  std::mutex mutex_;
  bool closed_ = false;
  std::map<std::string, uint64_t, std::less<>> kernels_;  // handles by name
};

// A kernel of a module; keeps the module loaded. Immutable.
class Kernel final : public RefCounted {
 public:
  Kernel(Ref<Module> module, std::string name, keel_plugin_kernel* native)
      : module_(std::move(module)),
        device_(module_->device()),
        name_(std::move(name)),
        native_(native) {}

  Device& device() const { return device_; }
  const std::string& name() const { return name_; }
  keel_plugin_kernel* native() const { return native_; }

 private:
  const Ref<Module> module_;
  Device& device_;
  const std::string name_;
  keel_plugin_kernel* const native_;
};

// Native modules of one device with no further launches to come, but maybe launches in the device's
// queues. Checked whenever a module is loaded or unloaded. Thread-safe.
class RetiredModules {
 public:
  explicit RetiredModules(Device& device) : device_(device) {}

  // Takes no lock of a stream: the last launch may be released with a stream's lock held.
  void add(keel_plugin_module* native);
  // Unloads the modules whose launches are done. Never waits for the device.
  void collect();
  // Unloads all modules when the device closes, after its streams.
  void unload_all();

 private:
  struct Entry {
    keel_plugin_module* native;
    bool fenced = false;
    std::vector<Ref<EventRecord>> fences;  // one per stream, behind every launch
  };

  bool is_done(Entry* entry, WakeList& wake);

  Device& device_;
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace keel

#endif  // KEEL_CORE_MODULE_H_

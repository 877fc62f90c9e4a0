// SPDX-License-Identifier: Apache-2.0
#include "core/module.h"

#include <algorithm>
#include <iterator>

#include "core/runtime.h"

namespace keel {

// ---- Module --------------------------------------------------------------------

Status Module::load(Device& device, keel_binary_format format, const void* data, uint64_t size,
                    Ref<Module>* out_module) {
  KEEL_RETURN_IF_ERROR(device.check_alive());
  keel_plugin_module* native = nullptr;
  KEEL_RETURN_IF_ERROR(device.check(
      device.kernel_table()->load(device.native(), format, data, size, &native), "kernel.load"));
  *out_module = Ref<Module>::adopt(new Module(device, native));
  return {};
}

Module::~Module() {
  device_.retired_modules().add(native_);
}

Status Module::find_kernel(const char* name, uint64_t* out_handle) {
  std::lock_guard lock(mutex_);
  if (closed_) return failure(KEEL_INVALID_HANDLE, "module was unloaded");
  const auto known = kernels_.find(std::string_view(name));
  if (known != kernels_.end()) {
    *out_handle = known->second;
    return {};
  }
  keel_plugin_kernel* native = nullptr;
  KEEL_RETURN_IF_ERROR(
      device_.check(device_.kernel_table()->find(native_, name, &native), "kernel.find"));
  const uint64_t handle = Runtime::get().kernel_handles().insert(
      make_ref<Kernel>(Ref<Module>(this), std::string(name), native));
  if (handle == 0) return failure(KEEL_OUT_OF_MEMORY, "all handles of this kind are taken");
  kernels_.emplace(name, handle);
  *out_handle = handle;
  return {};
}

void Module::close() {
  std::map<std::string, uint64_t, std::less<>> kernels;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    kernels.swap(kernels_);
  }
  for (const auto& [name, handle] : kernels) {
    Runtime::get().kernel_handles().remove(handle, /*lazily=*/true);
  }
}

// ---- RetiredModules ------------------------------------------------------------

void RetiredModules::add(keel_plugin_module* native) {
  std::lock_guard lock(mutex_);
  entries_.push_back({native, false, {}});
}

bool RetiredModules::is_done(Entry* entry, WakeList& wake) {
  if (!entry->fenced) {
    std::vector<Ref<EventRecord>> fences;
    for (const auto& stream : Runtime::get().streams_of(device_)) {
      Ref<EventRecord> fence;
      if (!stream->fence(&fence).ok()) return false;  // retried later
      fences.push_back(std::move(fence));
    }
    entry->fences.swap(fences);
    entry->fenced = true;
  }
  std::erase_if(entry->fences, [&](const Ref<EventRecord>& fence) {
    return fence->query(wake).code() != KEEL_NOT_READY;
  });
  return entry->fences.empty();
}

void RetiredModules::collect() {
  // Without the lock: recording fences takes the streams' locks.
  std::vector<Entry> entries;
  {
    std::lock_guard lock(mutex_);
    entries.swap(entries_);
  }
  if (entries.empty()) return;
  WakeList wake;
  std::erase_if(entries, [&](Entry& each) {
    if (!is_done(&each, wake)) return false;
    device_.kernel_table()->unload(each.native);
    return true;
  });
  advance_all(wake);
  std::lock_guard lock(mutex_);
  std::move(entries.begin(), entries.end(), std::back_inserter(entries_));
}

void RetiredModules::unload_all() {
  std::lock_guard lock(mutex_);
  for (const Entry& each : entries_) device_.kernel_table()->unload(each.native);
  entries_.clear();
}

}  // namespace keel

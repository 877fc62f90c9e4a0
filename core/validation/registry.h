// SPDX-License-Identifier: Apache-2.0
// The live objects of one kind by the layer's handles.
#ifndef KEEL_CORE_VALIDATION_REGISTRY_H_
#define KEEL_CORE_VALIDATION_REGISTRY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace keel::validation {

// Returns a number unlike any other handle of the process, with bits that make it no address: a
// handle is looked up, never followed.
inline uintptr_t next_handle() {
  static std::atomic<uintptr_t> last{0};
  return uintptr_t{0x5a} << 56 | (last.fetch_add(1, std::memory_order_relaxed) + 1);
}

// Thread-safe. |Handle|: an opaque type of abi.h.
template <typename Handle, typename Object>
class Registry {
 public:
  Handle* insert(std::shared_ptr<Object> object) {
    const uintptr_t handle = next_handle();
    std::unique_lock lock(mutex_);
    objects_.emplace(handle, std::move(object));
    return reinterpret_cast<Handle*>(handle);
  }

  // Returns empty if |handle| was never given out here, or was removed.
  std::shared_ptr<Object> find(const void* handle) const {
    std::shared_lock lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<uintptr_t>(handle));
    return found == objects_.end() ? nullptr : found->second;
  }

  std::shared_ptr<Object> remove(const void* handle) {
    std::unique_lock lock(mutex_);
    auto node = objects_.extract(reinterpret_cast<uintptr_t>(handle));
    return node.empty() ? nullptr : std::move(node.mapped());
  }

  std::vector<std::pair<Handle*, std::shared_ptr<Object>>> all() const {
    std::shared_lock lock(mutex_);
    std::vector<std::pair<Handle*, std::shared_ptr<Object>>> found;
    found.reserve(objects_.size());
    for (const auto& [handle, object] : objects_) {
      found.emplace_back(reinterpret_cast<Handle*>(handle), object);
    }
    return found;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<uintptr_t, std::shared_ptr<Object>> objects_;
};

}  // namespace keel::validation

#endif  // KEEL_CORE_VALIDATION_REGISTRY_H_

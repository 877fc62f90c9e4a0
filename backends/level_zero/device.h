// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_LEVEL_ZERO_DEVICE_H_
#define KEEL_BACKENDS_LEVEL_ZERO_DEVICE_H_

#include <keel/abi.h>

#include <atomic>
#include <keel/plugin_kit.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "backends/gpu/library_products.h"
#include "backends/level_zero/event_pool.h"
#include "backends/level_zero/kernels.h"
#include "backends/level_zero/loader.h"
#include "backends/level_zero/result.h"

namespace keel::gpu {

// The queue groups of a device that streams use.
struct QueueGroups {
  uint32_t compute = 0;
  std::optional<uint32_t> copy;  // a group of copy engines alone
  size_t max_fill_pattern = 0;   // of |compute|
};

// Returns whether the driver reports a group with kernels.
bool find_queue_groups(const ze::Functions& functions, ze::Device device, QueueGroups* out_groups);

// Sums the free and all memory of |device|'s modules. Returns whether the driver tells: where
// ZES_ENABLE_SYSMAN=1 was set for it.
bool read_memory_state(const ze::Functions& functions, ze::Device device, uint64_t* out_free,
                       uint64_t* out_total, ze::Result* out_result);

// A device in its driver's context. Thread-safe.
class Device {
 public:
  static keel_status open(const Loader& loader, uint32_t ordinal,
                          std::unique_ptr<Device>* out_device);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const ze::Functions& functions() const { return loader_.functions(); }
  ze::Context context() const { return gpu_.context; }
  ze::Device handle() const { return gpu_.device; }
  bool can_share_memory() const { return loader_.can_share_memory(gpu_.driver); }
  const QueueGroups& groups() const { return groups_; }
  EventPool& events() { return *events_; }
  // NULL if the operators' kernels cannot run on this device.
  const Kernels* kernels() const { return kernels_.get(); }
  // There is no library: the kernels compute every product.
  LibraryProducts& library_products() { return library_products_; }
  uint64_t timer_resolution() const { return timer_resolution_; }
  uint64_t timestamp_mask() const { return timestamp_mask_; }

  // Returns the status of |result|, of function |name|. Returns KEEL_DEVICE_LOST on the first
  // result that reports the device's loss, and from then on.
  keel_status check(const char* name, ze::Result result);
  // Calls |body|, which calls |name| of the table passed to |body|, unless the device is lost.
  template <typename Body>
  keel_status call(const char* name, Body&& body) {
    if (is_lost()) return say_lost();
    return check(name, std::forward<Body>(body)(functions()));
  }
  // Like call, for functions that release a resource. Returns KEEL_OK on a lost device, where the
  // resource no longer exists.
  template <typename Body>
  keel_status release(const char* name, Body&& body) {
    const keel_status status = check(name, std::forward<Body>(body)(functions()));
    return is_lost() ? keel_status{KEEL_OK} : status;
  }
  // Asks the driver whether the device is lost, at most every millisecond: the events of a lost
  // device stay unsignalled, and the answer may be a system call. Returns KEEL_OK or
  // KEEL_DEVICE_LOST.
  keel_status look_for_loss();

  keel_status alloc(keel_memory_kind kind, uint64_t size, void** out_pointer);
  keel_status free(keel_memory_kind kind, void* pointer);
  // The device gets no address of registered memory: kernels take addresses inside their
  // arguments, where the driver does not see them.
  keel_status host_register(void* pointer, uint64_t size, void** out_device_pointer);
  keel_status host_unregister(void* pointer);
  keel_status memory_info(uint64_t* out_free, uint64_t* out_total);
  keel_status peer_enable(const Device& peer);
  // Does not fail for an unhealthy device: |out_health| reports the condition.
  keel_status health(keel_device_health* out_health);
  // 0: the device; 1: the context.
  keel_status native_handle(uint32_t which, void** out_handle) const;

 private:
  Device(const Loader& loader, const Gpu& gpu) : loader_(loader), gpu_(gpu) {}

  bool is_lost() const { return loss_.load(std::memory_order_acquire) != ze::kSuccess; }
  keel_status say_lost() const;

  const Loader& loader_;
  const Gpu gpu_;
  QueueGroups groups_;
  uint64_t timer_resolution_ = 1;
  uint64_t timestamp_mask_ = UINT64_MAX;
  std::atomic<ze::Result> loss_{ze::kSuccess};
  std::atomic<int64_t> looked_at_ms_{0};  // of the last look_for_loss()
  std::unique_ptr<EventPool> events_;
  std::unique_ptr<Kernels> kernels_;
  LibraryProducts library_products_{*this, {}};
};

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_LEVEL_ZERO_DEVICE_H_

// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_GPU_DEVICE_H_
#define KEEL_BACKENDS_GPU_DEVICE_H_

#include <gpu_target.h>
#include <keel/abi.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "backends/gpu/capture.h"
#include "backends/gpu/driver.h"
#include "backends/gpu/kernels.h"
#include "backends/gpu/library_products.h"
#include "backends/gpu/nccl_settings.h"
#include "backends/gpu/result_codes.h"

namespace keel::gpu {

// Settings of the vendor's libraries beside the driver: their folders (empty: the dynamic loader's
// search path) and the configuration of communicators.
struct LibrarySettings {
  std::string ccl_folder;
  std::string products_folder;
  NcclSettings ccl;
};

// A device with its context, which the process's framework shares. Thread-safe.
class Device {
 public:
  static keel_status open(Driver& driver, uint32_t ordinal, const LibrarySettings& libraries,
                          std::unique_ptr<Device>* out_device);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Functions& functions() const { return driver_.functions(); }
  Driver& driver() const { return driver_; }
  NativeContext context() const { return context_; }
  NativeDevice handle() const { return device_; }
  const std::string& ccl_folder() const { return libraries_.ccl_folder; }
  const NcclSettings& ccl_settings() const { return libraries_.ccl; }
  int compute_capability() const { return capability_of(functions(), device_); }

  // Runs |body|, which calls function |name| of the table passed to |body|, in the device's
  // context, and restores the previous context. Returns KEEL_DEVICE_LOST on the first call that
  // reports the death of the context and on every later call.
  template <typename Body>
  keel_status call(const char* name, Body&& body) {
    if (is_lost()) return say_lost();
    return check(name, run(std::forward<Body>(body)));
  }
  // Like call, for functions that release a resource. Returns KEEL_OK on a lost device, where the
  // resource no longer exists.
  template <typename Body>
  keel_status release(const char* name, Body&& body) {
    const Result result = run(std::forward<Body>(body));
    return is_lost() ? keel_status{KEEL_OK} : check(name, result);
  }

  // Returns the raw result of |body| in the device's context. For results that are no failure of
  // the device.
  template <typename Body>
  Result ask(Body&& body) {
    return run(std::forward<Body>(body));
  }

  // NULL if the operators' kernels cannot run on this device.
  const Kernels* kernels() const { return kernels_.get(); }
  // Matrix products that the vendor's library computes instead of the kernels.
  LibraryProducts& library_products() { return *library_products_; }

  // Maps |priority| to a native priority.
  int native_priority(int32_t priority) const;

  keel_status alloc(keel_memory_kind kind, uint64_t size, void** out_pointer);
  keel_status free(keel_memory_kind kind, void* pointer);
  keel_status host_register(void* pointer, uint64_t size, void** out_device_pointer);
  keel_status host_unregister(void* pointer);
  keel_status memory_info(uint64_t* out_free, uint64_t* out_total);
  // Does not fail for an unhealthy device: |out_health| reports the condition.
  keel_status health(keel_device_health* out_health);
  keel_status peer_enable(const Device& peer);
  // Call before a copy between the two devices. The first call enables peer access in both
  // directions, so that copies use a direct link if there is one; otherwise the driver copies
  // through the host.
  void connect(Device& peer);
  keel_status native_handle(uint32_t which, void** out_handle) const {
    return gpu::native_handle(context_, device_, which, out_handle);
  }

 private:
  Device(Driver& driver, NativeDevice device, const LibrarySettings& libraries);

  bool is_lost() const { return loss_.load(std::memory_order_acquire) != kSuccess; }
  keel_status say_lost() const;
  keel_status check_managed(uint64_t size);
  keel_status check(const char* name, Result result);

  template <typename Body>
  Result run(Body&& body) {
    const RelaxedCapture relaxed(functions());
    return in_context(functions(), context_, std::forward<Body>(body));
  }

  Driver& driver_;
  const NativeDevice device_;
  const LibrarySettings libraries_;
  NativeContext context_ = kNoContext;
  int least_priority_ = 0;
  int greatest_priority_ = 0;
  std::atomic<Result> loss_{kSuccess};
  std::atomic<uint64_t> connected_{0};  // bit n: connect() was called for device n, with any result
  std::unique_ptr<Kernels> kernels_;
  std::optional<LibraryProducts> library_products_;  // exists while there is a context
};

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_GPU_DEVICE_H_

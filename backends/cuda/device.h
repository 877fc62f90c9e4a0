// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CUDA_DEVICE_H_
#define KEEL_BACKENDS_CUDA_DEVICE_H_

#include <cuda.h>
#include <keel/abi.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "backends/cuda/capture.h"
#include "backends/cuda/driver.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/library_products.h"
#include "backends/cuda/nccl_settings.h"

namespace keel::cuda {

// 90 for a device of compute capability 9.0; 0 if the driver does not report the capability.
int capability_of(const Functions& cu, CUdevice device);

// Settings of Nvidia's libraries beside the driver: their folders (empty: the dynamic loader's
// search path) and the configuration of NCCL communicators.
struct LibrarySettings {
  std::string nccl_folder;
  std::string cublaslt_folder;
  NcclSettings nccl;
};

// A device with its primary context, which the process's framework shares. Thread-safe.
class Device {
 public:
  static keel_status open(Driver& driver, uint32_t ordinal, const LibrarySettings& libraries,
                          std::unique_ptr<Device>* out_device);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Functions& functions() const { return driver_.functions(); }
  Driver& driver() const { return driver_; }
  CUcontext context() const { return context_; }
  CUdevice handle() const { return device_; }
  const std::string& nccl_folder() const { return libraries_.nccl_folder; }
  const NcclSettings& nccl_settings() const { return libraries_.nccl; }
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
    const CUresult result = run(std::forward<Body>(body));
    return is_lost() ? keel_status{KEEL_OK} : check(name, result);
  }

  // Returns the raw result of |body| in the device's context. For results that are no failure of
  // the device.
  template <typename Body>
  CUresult ask(Body&& body) {
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
  // 0: the CUcontext; 1: the CUdevice.
  keel_status native_handle(uint32_t which, void** out_handle) const;

 private:
  Device(Driver& driver, CUdevice device, const LibrarySettings& libraries);

  bool is_lost() const { return loss_.load(std::memory_order_acquire) != CUDA_SUCCESS; }
  keel_status say_lost() const;
  keel_status check(const char* name, CUresult result);

  template <typename Body>
  CUresult run(Body&& body) {
    const Functions& cu = functions();
    const RelaxedCapture relaxed(cu);
    CUcontext before = nullptr;
    if (cu.CtxGetCurrent(&before) == CUDA_SUCCESS && before == context_) return body(cu);
    CUresult result = cu.CtxPushCurrent(context_);
    if (result != CUDA_SUCCESS) return result;
    result = body(cu);
    cu.CtxPopCurrent(&before);
    return result;
  }

  Driver& driver_;
  const CUdevice device_;
  const LibrarySettings libraries_;
  CUcontext context_ = nullptr;
  int least_priority_ = 0;
  int greatest_priority_ = 0;
  std::atomic<CUresult> loss_{CUDA_SUCCESS};
  std::atomic<uint64_t> connected_{0};  // bit n: connect() was called for device n, with any result
  std::unique_ptr<Kernels> kernels_;
  std::optional<LibraryProducts> library_products_;  // exists while there is a context
};

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_DEVICE_H_

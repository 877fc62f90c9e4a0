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

// 90 of a device of compute capability 9.0; 0 where the driver does not say.
int capability_of(const Functions& cu, CUdevice device);

// Nvidia's libraries beside the driver: where they are looked for, empty being where the dynamic
// loader looks, and what they are told.
struct LibrarySettings {
  std::string nccl_folder;
  std::string cublaslt_folder;
  NcclSettings nccl;
};

// A device with its primary context, which the framework in the process uses too. Thread-safe.
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

  // Runs |body|, which calls |name| of the functions it is given, in the device's context, and
  // puts back the one that was current. Once a call has said that the context died, and on every
  // call after that, KEEL_DEVICE_LOST.
  template <typename Body>
  keel_status call(const char* name, Body&& body) {
    if (is_lost()) return say_lost();
    return check(name, run(std::forward<Body>(body)));
  }
  // The same for what gives something back: on a lost device that is gone anyway.
  template <typename Body>
  keel_status release(const char* name, Body&& body) {
    const CUresult result = run(std::forward<Body>(body));
    return is_lost() ? keel_status{KEEL_OK} : check(name, result);
  }

  // The bare answer of |body| in the device's context, for what is no failure of the device.
  template <typename Body>
  CUresult ask(Body&& body) {
    return run(std::forward<Body>(body));
  }

  // NULL where the operators' kernels cannot run here.
  const Kernels* kernels() const { return kernels_.get(); }
  // Matrix products that the vendor's library makes in the place of those.
  LibraryProducts& library_products() { return *library_products_; }

  // The native priority that stands for |priority|.
  int native_priority(int32_t priority) const;

  keel_status alloc(keel_memory_kind kind, uint64_t size, void** out_pointer);
  keel_status free(keel_memory_kind kind, void* pointer);
  keel_status host_register(void* pointer, uint64_t size, void** out_device_pointer);
  keel_status host_unregister(void* pointer);
  keel_status memory_info(uint64_t* out_free, uint64_t* out_total);
  // Never fails for a device that is unwell: that is the answer.
  keel_status health(keel_device_health* out_health);
  keel_status peer_enable(const Device& peer);
  // Before a copy between the two: the first one enables both, so that it, too, goes over the wires
  // that there are. The driver takes others through the host.
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
  std::atomic<uint64_t> connected_{0};  // a bit a device, by number, whatever came of it
  std::unique_ptr<Kernels> kernels_;
  std::optional<LibraryProducts> library_products_;  // while there is a context
};

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_DEVICE_H_

// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_KUNLUN_DEVICE_H_
#define KEEL_BACKENDS_KUNLUN_DEVICE_H_

#include <keel/abi.h>

#include <atomic>
#include <keel/plugin_kit.hpp>
#include <memory>
#include <string>
#include <utility>

#include "backends/kunlun/result.h"
#include "backends/kunlun/runtime.h"

namespace keel::kunlun {

// A device of XRE. XRE acts on the calling thread's current device, and defines nothing for memory
// or streams of another one: each call makes the device current and restores the one before, which
// may be a framework's. Thread-safe.
class Device {
 public:
  // |bkcl_folder|: the folder of libbkcl.so, or empty.
  static keel_status open(const Runtime& runtime, uint32_t ordinal, const std::string& bkcl_folder,
                          std::unique_ptr<Device>* out_device);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const xre::Functions& functions() const { return runtime_.functions(); }
  int number() const { return number_; }
  const std::string& bkcl_folder() const { return bkcl_folder_; }

  // Runs |body|, which calls |name| and returns XRE's result, on this device. Returns
  // KEEL_DEVICE_LOST on the first call that reports the device's failure and on every later call.
  template <typename Body>
  keel_status call(const char* name, Body&& body) {
    if (is_lost()) return say_lost();
    return check(name, run(std::forward<Body>(body)));
  }
  // Like call, for functions that release a resource. Returns KEEL_OK on a lost device, where the
  // resource no longer exists.
  template <typename Body>
  keel_status release(const char* name, Body&& body) {
    const keel_status status = check(name, run(std::forward<Body>(body)));
    return is_lost() ? keel_status{KEEL_OK} : status;
  }
  // Runs |body|, which returns a keel_status, on this device unless it is lost.
  template <typename Body>
  keel_status perform(const char* name, Body&& body) {
    keel_status status = KEEL_OK;
    const keel_status entered = call(name, [&](const xre::Functions&) {
      status = body();
      return int{xre::kSuccess};
    });
    return entered == KEEL_OK ? status : entered;
  }
  // KEEL_DEVICE_LOST once a call has reported that; else KEEL_OK.
  keel_status state() const { return is_lost() ? say_lost() : keel_status{KEEL_OK}; }
  // Converts |result| of |name|, and records a loss.
  keel_status check(const char* name, int result);

  keel_status alloc(keel_memory_kind kind, uint64_t size, void** out_pointer);
  keel_status free(keel_memory_kind kind, void* pointer);
  keel_status host_register(void* pointer, uint64_t size, void** out_device_pointer);
  keel_status host_unregister(void* pointer);
  // Does not fail for an unhealthy device: |out_health| reports the condition.
  keel_status health(keel_device_health* out_health) const;

 private:
  Device(const Runtime& runtime, int number, std::string bkcl_folder)
      : runtime_(runtime), number_(number), bkcl_folder_(std::move(bkcl_folder)) {}

  bool is_lost() const { return loss_.load(std::memory_order_acquire) != xre::kSuccess; }
  keel_status say_lost() const;

  template <typename Body>
  int run(Body&& body) {
    const xre::Functions& xpu = functions();
    int before = -1;
    const bool has_current = xpu.current_device(&before) == xre::kSuccess;
    if (has_current && before == number_) return body(xpu);
    int result = xpu.set_device(number_);
    if (result != xre::kSuccess) return result;
    result = body(xpu);
    if (has_current) (void)xpu.set_device(before);
    return result;
  }

  const Runtime& runtime_;
  const int number_;
  const std::string bkcl_folder_;
  std::atomic<int> loss_{xre::kSuccess};
};

}  // namespace keel::kunlun

#endif  // KEEL_BACKENDS_KUNLUN_DEVICE_H_

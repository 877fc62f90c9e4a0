// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SHIMS_CUDA_DRIVER_H_
#define KEEL_EMULATOR_SHIMS_CUDA_DRIVER_H_

#include <cuda.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "emulator/host_memory.h"
#include "emulator/settings.h"
#include "emulator/shims/cuda/context.h"
#include "emulator/shims/cuda/vendor.h"

namespace keel::emulator::cuda {

// The configuration of the shim: the keys of chips, and the shim's own keys. See docs/emulator.md.
struct Settings {
  ChipSettings chips;
  int version = kVendor.version;  // result of cuDriverGetVersion
  CUresult init = CUDA_SUCCESS;   // result of cuInit
  CUresult image = CUDA_SUCCESS;  // result of cuModuleLoadDataEx for any fat binary
  std::set<std::string> missing;  // functions that the library lacks
  uint64_t warp = kVendor.warp;   // threads of a warp: 32 or 64
  std::string architecture;       // HIP: the devices', for which no bundle has code
  uint64_t hiprtc = 0;            // HIP: result of hiprtcCompileProgram
};
// Parses the value of kVendor.variable.
Status read_settings(std::string_view text, Settings* out_settings);

std::string pci_address(uint32_t index);  // "fffe:01:00.0"

// The process-wide state of the library. Thread-safe.
class Driver {
 public:
  // Created at the first call from the environment, never destroyed.
  static Driver& get();

  const Settings& settings() const { return settings_; }
  CUresult init();
  // Returns CUDA_ERROR_NOT_INITIALIZED before init.
  CUresult ready() const {
    return ready_.load(std::memory_order_acquire) ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
  }
  size_t device_count() const { return contexts_.size(); }
  // Returns NULL if |device| does not exist.
  Context* context(CUdevice device) const {
    const auto index = static_cast<size_t>(device);
    return index < contexts_.size() ? contexts_[index].get() : nullptr;
  }
  HostMemory& host_memory() { return host_memory_; }

 private:
  Driver();

  Settings settings_;
  HostMemory host_memory_;
  std::vector<std::unique_ptr<Context>> contexts_;
  std::atomic<bool> ready_{false};
};

// The current context of a call, and its chip.
struct Here {
  Context* context;
  std::shared_ptr<Device> chip;
};

// Runs |body| if the driver is ready; lets no exception escape.
template <typename Body>
CUresult answer(Body&& body) noexcept {
  const CUresult ready = Driver::get().ready();
  if (ready != CUDA_SUCCESS) return ready;
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (...) {
    return CUDA_ERROR_UNKNOWN;
  }
}

// Like answer(), in the current context, if its chip is not lost.
template <typename Body>
CUresult answer_here(Body&& body) noexcept {
  return answer([&] {
    Here here = {current_context(), nullptr};
    if (here.context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    const CUresult well = here.context->chip(&here.chip);
    return well == CUDA_SUCCESS ? body(here) : well;
  });
}

}  // namespace keel::emulator::cuda

#endif  // KEEL_EMULATOR_SHIMS_CUDA_DRIVER_H_

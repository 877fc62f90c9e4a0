// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CUDA_NVML_H_
#define KEEL_BACKENDS_CUDA_NVML_H_

#include <keel/abi.h>

#include <keel/plugin_kit.hpp>
#include <map>
#include <mutex>
#include <string>

#include "vendor/nvml.h"

namespace keel::cuda {

// Nvidia's management library, which knows of a device what its driver does not say: errors of its
// memory, clocks that are held down, what the kernel module has logged. Opened and initialised by
// the first question, and for ever. Thread-safe.
class Nvml {
 public:
  // |folder|: where libnvidia-ml.so.1 is; empty: where the dynamic loader looks.
  explicit Nvml(std::string folder) : folder_(std::move(folder)) {}

  // Fills in what is known of the device at |pci_address|, and clears |ok| where NVML says that it
  // cannot be used; adds to |*out_text| what a person should know. Says why where nothing is known,
  // which is no failure. Does not wait for the device's work.
  void examine(const std::string& pci_address, keel_device_health* out_health,
               std::string* out_text);

 private:
  struct Functions {
    decltype(&nvmlInit_v2) Init = nullptr;
    decltype(&nvmlErrorString) ErrorString = nullptr;
    decltype(&nvmlDeviceGetHandleByPciBusId_v2) GetHandle = nullptr;
    // NULL where the library is too old for them.
    decltype(&nvmlDeviceGetTotalEccErrors) GetTotalEccErrors = nullptr;
    decltype(&nvmlDeviceGetCurrentClocksEventReasons) GetClocksReasons = nullptr;
    decltype(&nvmlDeviceGetRemappedRows) GetRemappedRows = nullptr;
    decltype(&nvmlEventSetCreate) EventSetCreate = nullptr;
    decltype(&nvmlDeviceRegisterEvents) RegisterEvents = nullptr;
    decltype(&nvmlEventSetWait_v2) EventSetWait = nullptr;
  };

  // What the answers about one device come to.
  struct Report {
    // Whether there is an answer; a failure that means something is in the text.
    bool accept(const char* call, nvmlReturn_t result);

    const Functions& nvml;
    keel_device_health& health;
    std::string& text;
    bool is_gone = false;
  };

  // With |mutex_| held, as the next: false, with |reason_|, where it cannot be used.
  bool start();
  nvmlReturn_t find(const std::string& pci_address, nvmlDevice_t* out_device);
  // The Xid that was logged last of |device|, since it was first asked about; 0: none.
  unsigned long long last_xid(nvmlDevice_t device);
  void examine_memory(nvmlDevice_t device, Report& report);
  void examine_clocks(nvmlDevice_t device, Report& report);

  const std::string folder_;
  std::mutex mutex_;
  bool is_started_ = false;
  std::string reason_;
  kit::VendorLibrary library_;
  Functions nvml_;
  nvmlEventSet_t events_ = nullptr;  // NULL: Xids are not told
  std::map<std::string, nvmlDevice_t> devices_;
  std::map<nvmlDevice_t, unsigned long long> xids_;
};

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_NVML_H_

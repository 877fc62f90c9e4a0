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

// Nvidia's management library. NVML reports device conditions that the driver does not: memory
// errors, throttled clocks, and errors logged by the kernel module. The first query opens and
// initialises the library, which stays open. Thread-safe.
class Nvml {
 public:
  // |folder| contains libnvidia-ml.so.1; if empty, the dynamic loader searches.
  explicit Nvml(std::string folder) : folder_(std::move(folder)) {}

  // Fills |out_health| for the device at |pci_address| and clears |ok| if NVML reports the device
  // unusable. Appends messages for the user to |*out_text|, including the reason if nothing is
  // known, which is no failure. Does not wait for the device's work.
  void examine(const std::string& pci_address, keel_device_health* out_health,
               std::string* out_text);

 private:
  struct Functions {
    decltype(&nvmlInit_v2) Init = nullptr;
    decltype(&nvmlErrorString) ErrorString = nullptr;
    decltype(&nvmlDeviceGetHandleByPciBusId_v2) GetHandle = nullptr;
    // NULL if the library is too old.
    decltype(&nvmlDeviceGetTotalEccErrors) GetTotalEccErrors = nullptr;
    decltype(&nvmlDeviceGetCurrentClocksEventReasons) GetClocksReasons = nullptr;
    decltype(&nvmlDeviceGetRemappedRows) GetRemappedRows = nullptr;
    decltype(&nvmlEventSetCreate) EventSetCreate = nullptr;
    decltype(&nvmlDeviceRegisterEvents) RegisterEvents = nullptr;
    decltype(&nvmlEventSetWait_v2) EventSetWait = nullptr;
  };

  // Collects the results of one device.
  struct Report {
    // Returns whether |result| is an answer. Adds relevant failures to the text.
    bool accept(const char* call, nvmlReturn_t result);

    const Functions& nvml;
    keel_device_health& health;
    std::string& text;
    bool is_gone = false;
  };

  // start, find and last_xid require |mutex_|. Returns false and sets |reason_| if the library is
  // not usable.
  bool start();
  nvmlReturn_t find(const std::string& pci_address, nvmlDevice_t* out_device);
  // The Xid that the kernel module logged last for |device| since the first query; 0: none.
  unsigned long long last_xid(nvmlDevice_t device);
  void examine_memory(nvmlDevice_t device, Report& report);
  void examine_clocks(nvmlDevice_t device, Report& report);

  const std::string folder_;
  std::mutex mutex_;
  bool is_started_ = false;
  std::string reason_;
  kit::VendorLibrary library_;
  Functions nvml_;
  nvmlEventSet_t events_ = nullptr;  // NULL: no Xid events
  std::map<std::string, nvmlDevice_t> devices_;
  std::map<nvmlDevice_t, unsigned long long> xids_;
};

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_NVML_H_

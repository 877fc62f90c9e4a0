// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_HIP_ROCM_SMI_H_
#define KEEL_BACKENDS_HIP_ROCM_SMI_H_

#include <keel/abi.h>

#include <keel/plugin_kit.hpp>
#include <mutex>
#include <string>
#include <utility>

#include "vendor/rocm_smi.h"

namespace keel::hip {

// AMD's management library, which reports device conditions that the runtime does not: memory
// errors, retired pages, and heat. The first query opens and initialises the library, which stays
// open. Thread-safe.
class RocmSmi {
 public:
  // |folder| contains librocm_smi64.so.7 or an older one; if empty, the search covers the dynamic
  // loader's paths, then ROCm's default folder.
  explicit RocmSmi(std::string folder) : folder_(std::move(folder)) {}

  // Fills |out_health| for the device at |pci_address| and clears |ok| if pages of its memory are
  // unusable. Appends messages for the user to |*out_text|, including the reason if nothing is
  // known, which is no failure. Does not wait for the device's work.
  void examine(const std::string& pci_address, keel_device_health* out_health,
               std::string* out_text);

 private:
  struct Functions {
    decltype(&rsmi_init) init = nullptr;
    decltype(&rsmi_status_string) status_string = nullptr;
    decltype(&rsmi_num_monitor_devices) num_monitor_devices = nullptr;
    decltype(&rsmi_dev_pci_id_get) pci_id_get = nullptr;
    // NULL if the library lacks the function.
    decltype(&rsmi_dev_temp_metric_get) temp_metric_get = nullptr;
    decltype(&rsmi_dev_ecc_enabled_get) ecc_enabled_get = nullptr;
    decltype(&rsmi_dev_ecc_count_get) ecc_count_get = nullptr;
    decltype(&rsmi_dev_memory_reserved_pages_get) reserved_pages_get = nullptr;
  };

  // Collects the results of one device.
  struct Report {
    // Returns whether |status| is an answer. Adds relevant failures to the text.
    bool accept(const char* call, rsmi_status_t status);
    void add(const std::string& more);

    const Functions& rsmi;
    keel_device_health& health;
    std::string& text;
  };

  // start and find require |mutex_|. start returns false and sets |reason_| if the library is not
  // usable.
  bool start();
  bool find(const std::string& pci_address, uint32_t* out_index) const;
  void examine_errors(uint32_t index, Report& report) const;
  void examine_pages(uint32_t index, Report& report) const;
  void examine_heat(uint32_t index, Report& report) const;

  const std::string folder_;
  std::mutex mutex_;
  bool is_started_ = false;
  std::string reason_;
  kit::VendorLibrary library_;
  Functions rsmi_;
};

}  // namespace keel::hip

#endif  // KEEL_BACKENDS_HIP_ROCM_SMI_H_

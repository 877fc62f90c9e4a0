// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SHIMS_ROCM_SMI_LIBRARY_H_
#define KEEL_EMULATOR_SHIMS_ROCM_SMI_LIBRARY_H_

#include <cstdint>
#include <mutex>
#include <string_view>

#include "emulator/shims/cuda/health.h"
#include "emulator/status.h"
#include "vendor/rocm_smi.h"

namespace keel::emulator::rocm_smi {

// The configuration of the shim; KEEL_EMULATED_HIP configures the chips. See docs/emulator.md.
struct Settings {
  rsmi_status_t init = RSMI_STATUS_SUCCESS;    // result of rsmi_init
  rsmi_status_t device = RSMI_STATUS_SUCCESS;  // result of every query of a device's condition
  uint64_t corrected = 0;                      // ECC errors, of each device
  uint64_t pages = 0;                          // retired pages of each device
  uint64_t page_status = RSMI_MEM_PAGE_STATUS_RESERVED;  // of the last page
};
// Parses KEEL_EMULATED_ROCM_SMI.
Status read_settings(std::string_view text, Settings* out_settings);

// The process-wide state of the library. Thread-safe.
class Library {
 public:
  // Created at the first call from the environment, never destroyed.
  static Library& get();

  const Settings& settings() const { return settings_; }
  // Returns RSMI_STATUS_INIT_ERROR without a libamdhip64.so.5 in this library's folder.
  rsmi_status_t init();
  rsmi_status_t shut_down();
  // RSMI_STATUS_INIT_ERROR unless the library is initialised.
  rsmi_status_t ready();
  // Returns the state of chip |index|; false if there is no such chip.
  bool health(uint32_t index, cuda::ChipHealth* out_health) const {
    return ask_(index, out_health);
  }

 private:
  Library();

  Settings settings_;
  std::mutex mutex_;
  uint32_t users_ = 0;
  decltype(&keel_emulated_cuda_health) ask_ = nullptr;  // written once, before the first user
};

}  // namespace keel::emulator::rocm_smi

#endif  // KEEL_EMULATOR_SHIMS_ROCM_SMI_LIBRARY_H_

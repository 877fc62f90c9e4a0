// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SHIMS_NVML_LIBRARY_H_
#define KEEL_EMULATOR_SHIMS_NVML_LIBRARY_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "emulator/settings.h"
#include "emulator/shims/cuda/health.h"
#include "vendor/nvml.h"

namespace keel::emulator::nvml {

// The configuration of the shim; KEEL_EMULATED_CUDA configures the chips. See docs/emulator.md.
struct Settings {
  nvmlReturn_t init = NVML_SUCCESS;    // result of nvmlInit_v2
  nvmlReturn_t device = NVML_SUCCESS;  // result of every query of a device
  uint64_t corrected = 0;              // ECC errors, of each device
  bool remap_failed = false;           // a row of each device's memory could not be remapped
};
// Parses KEEL_EMULATED_NVML.
Status read_settings(std::string_view text, Settings* out_settings);

// One chip of the libcuda.so.1 in this library's folder.
struct Chip {
  uint32_t index;
};

// Reports failures of chips from the registration of each chip on. Guarded by the library's mutex.
struct EventSet {
  struct Entry {
    Chip* chip;
    uint64_t seen;  // failures already reported, or before registration
  };
  std::vector<Entry> entries;
};

// The process-wide state of the library. Thread-safe.
class Library {
 public:
  // Created at the first call from the environment, never destroyed.
  static Library& get();

  const Settings& settings() const { return settings_; }
  // Returns NVML_ERROR_DRIVER_NOT_LOADED without a libcuda.so.1 in this library's folder.
  nvmlReturn_t init();
  nvmlReturn_t shutdown();
  nvmlReturn_t ready();

  // Finds a chip by its PCI address, spelled as the driver does. Returns NULL if there is none.
  Chip* find(std::string_view pci_address);
  cuda::ChipHealth health(const Chip& chip) const;

  EventSet* add_set();
  nvmlReturn_t remove_set(const EventSet* set);
  nvmlReturn_t listen(EventSet* set, Chip* chip);
  // Returns the next failure not yet reported to |set|, or NVML_ERROR_TIMEOUT.
  nvmlReturn_t next(EventSet* set, nvmlEventData_t* out_data);

 private:
  using HealthFunction = decltype(&keel_emulated_cuda_health);

  Library();
  bool open_driver();

  Settings settings_;
  std::mutex mutex_;
  uint32_t users_ = 0;
  HealthFunction ask_ = nullptr;  // written once, before any chip exists
  std::vector<std::unique_ptr<Chip>> chips_;
  std::vector<std::unique_ptr<EventSet>> sets_;
};

// Runs |body| if the library is initialised; lets no exception escape.
template <typename Body>
nvmlReturn_t answer(Body&& body) noexcept {
  try {
    const nvmlReturn_t ready = Library::get().ready();
    return ready == NVML_SUCCESS ? std::forward<Body>(body)(Library::get()) : ready;
  } catch (...) {
    return NVML_ERROR_UNKNOWN;
  }
}

// Like answer(), for a query of |device|.
template <typename Body>
nvmlReturn_t answer_of(nvmlDevice_t device, Body&& body) noexcept {
  return answer([&](Library& library) {
    if (device == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    if (library.settings().device != NVML_SUCCESS) return library.settings().device;
    return body(library, *reinterpret_cast<Chip*>(device));
  });
}

}  // namespace keel::emulator::nvml

#endif  // KEEL_EMULATOR_SHIMS_NVML_LIBRARY_H_

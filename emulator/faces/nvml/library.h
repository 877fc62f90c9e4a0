// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_FACES_NVML_LIBRARY_H_
#define KEEL_EMULATOR_FACES_NVML_LIBRARY_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "emulator/faces/cuda/health.h"
#include "emulator/settings.h"
#include "vendor/nvml.h"

namespace keel::emulator::nvml {

// What the face is asked to be; what the chips are is the affair of KEEL_EMULATED_CUDA. See
// docs/emulator.md.
struct Settings {
  nvmlReturn_t init = NVML_SUCCESS;    // what nvmlInit_v2 says
  nvmlReturn_t device = NVML_SUCCESS;  // what every question about a device is answered with
  uint64_t corrected = 0;              // ECC errors, of each device
  bool remap_failed = false;           // a row of each device's memory could not be replaced
};
// From KEEL_EMULATED_NVML.
Status read_settings(std::string_view text, Settings* out_settings);

// One chip of the libcuda.so.1 beside this library.
struct Chip {
  uint32_t index;
};

// Listens for failures of chips from its registration on. Guarded by the library's mutex.
struct EventSet {
  struct Entry {
    Chip* chip;
    uint64_t seen;  // failures that were told, or came before
  };
  std::vector<Entry> entries;
};

// The state of the library in this process. Thread-safe.
class Library {
 public:
  // Made at the first call, from the environment; for ever.
  static Library& get();

  const Settings& settings() const { return settings_; }
  // NVML_ERROR_DRIVER_NOT_LOADED where there is no libcuda.so.1 beside.
  nvmlReturn_t init();
  nvmlReturn_t shutdown();
  nvmlReturn_t ready();

  // NULL where there is none, in the driver's own spelling.
  Chip* find(std::string_view pci_address);
  cuda::ChipHealth health(const Chip& chip) const;

  EventSet* add_set();
  nvmlReturn_t remove_set(const EventSet* set);
  nvmlReturn_t listen(EventSet* set, Chip* chip);
  // The next failure that |set| has not been told of.
  nvmlReturn_t next(EventSet* set, nvmlEventData_t* out_data);

 private:
  using HealthFunction = decltype(&keel_emulated_cuda_health);

  Library();
  bool open_driver();

  Settings settings_;
  std::mutex mutex_;
  uint32_t users_ = 0;
  HealthFunction ask_ = nullptr;  // written once, before there is a chip
  std::vector<std::unique_ptr<Chip>> chips_;
  std::vector<std::unique_ptr<EventSet>> sets_;
};

// Runs |body| once the library is initialised, and keeps exceptions inside.
template <typename Body>
nvmlReturn_t answer(Body&& body) noexcept {
  try {
    const nvmlReturn_t ready = Library::get().ready();
    return ready == NVML_SUCCESS ? std::forward<Body>(body)(Library::get()) : ready;
  } catch (...) {
    return NVML_ERROR_UNKNOWN;
  }
}

// The same for a question about |device|.
template <typename Body>
nvmlReturn_t answer_of(nvmlDevice_t device, Body&& body) noexcept {
  return answer([&](Library& library) {
    if (device == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    if (library.settings().device != NVML_SUCCESS) return library.settings().device;
    return body(library, *reinterpret_cast<Chip*>(device));
  });
}

}  // namespace keel::emulator::nvml

#endif  // KEEL_EMULATOR_FACES_NVML_LIBRARY_H_

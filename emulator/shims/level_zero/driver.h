// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SHIMS_LEVEL_ZERO_DRIVER_H_
#define KEEL_EMULATOR_SHIMS_LEVEL_ZERO_DRIVER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emulator/device.h"
#include "emulator/host_memory.h"
#include "emulator/settings.h"
#include "emulator/status.h"
#include "vendor/level_zero.h"

namespace keel::emulator::level_zero {

// The configuration of the shim: the keys of chips, and the shim's own keys. See docs/emulator.md.
struct Settings {
  ChipSettings chips;
  uint64_t init = ze::kSuccess;  // result of zeInit
  uint64_t major = 1;            // of the interface's version
  uint64_t minor = 4;
  uint64_t copy_engine = 1;  // 0: one queue group, of kernels and copies
  uint64_t subgroup = 32;    // the one subgroup size besides 16
  uint64_t local_kib = 64;   // memory of a group
  uint64_t doubles = 1;      // 0: no 64-bit floats
  uint64_t ipc = 1;          // 0: no memory of other processes
  uint64_t import = 1;       // 0: no host memory of the caller
};
// Parses KEEL_EMULATED_LEVEL_ZERO.
Status read_settings(std::string_view text, Settings* out_settings);

// A PCI domain that no host uses, so that an emulated chip is never mistaken for a real one.
inline constexpr uint32_t kPciDomain = 0xfffc;

// One device and its chip, which the first use creates. The interface has no call that ends a
// device, so the chip lives as long as the process. Thread-safe.
class Chip {
 public:
  Chip(const DeviceOptions& options, HostMemory& host_memory)
      : options_(options), host_memory_(host_memory) {}

  ze::Device handle() { return reinterpret_cast<ze::Device>(this); }
  const DeviceOptions& options() const { return options_; }
  // Returns kOutOfMemory, or kDeviceLost.
  Status device(std::shared_ptr<Device>* out_device);

 private:
  const DeviceOptions options_;
  HostMemory& host_memory_;
  std::mutex mutex_;
  std::shared_ptr<Device> device_;
};

// The process-wide state of the library. Thread-safe.
class Driver {
 public:
  // Created at the first call from the environment, never destroyed.
  static Driver& get();

  const Settings& settings() const { return settings_; }
  ze::Driver handle() { return reinterpret_cast<ze::Driver>(this); }
  ze::Result init();
  // Whether ZES_ENABLE_SYSMAN was 1 at init: the functions of system management work.
  bool has_sysman() const { return has_sysman_; }
  // Returns kUninitialized before init. Ends the process after a failed one, which leaves every
  // other call undefined.
  ze::Result ready(const char* function) const;
  const std::vector<std::unique_ptr<Chip>>& chips() const { return chips_; }
  // Ends the process if |handle| is no device.
  Chip& chip(const char* function, ze::Device handle) const;
  // Returns the chip whose device memory contains |address|; NULL for a host address.
  Chip* owner(Address address) const;
  HostMemory& host_memory() { return host_memory_; }

 private:
  Driver();

  Settings settings_;
  bool unusable_ = false;
  std::atomic<bool> has_sysman_{false};
  HostMemory host_memory_;
  std::vector<std::unique_ptr<Chip>> chips_;
  std::atomic<ze::Result> state_{ze::kUninitialized};
};

// Ends the process with |why|: the caller relies on what the interface does not define.
[[noreturn]] void end_process(const char* function, const std::string& why);

ze::Result result_of(const Status& status);

// Runs |body|, which returns a ze::Result, if the driver is ready; lets no exception escape.
template <typename Body>
ze::Result answer(const char* function, Body&& body) noexcept {
  try {
    Driver& driver = Driver::get();
    const ze::Result ready = driver.ready(function);
    return ready == ze::kSuccess ? std::forward<Body>(body)(driver) : ready;
  } catch (const std::bad_alloc&) {
    return ze::kOutOfHostMemory;
  } catch (...) {
    return ze::kUnknown;
  }
}

}  // namespace keel::emulator::level_zero

#endif  // KEEL_EMULATOR_SHIMS_LEVEL_ZERO_DRIVER_H_

// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SHIMS_XRE_RUNTIME_H_
#define KEEL_EMULATOR_SHIMS_XRE_RUNTIME_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emulator/device.h"
#include "emulator/settings.h"
#include "emulator/status.h"
#include "emulator/stream.h"
#include "vendor/xre.h"

namespace keel::emulator::xre {

// The configuration of the shim: the keys of chips, and the shim's own keys. See docs/emulator.md.
struct Settings {
  ChipSettings chips;
  uint64_t version = 500;  // 500: XRE 5.0, result of xpu_get_runtime_version
  uint64_t model = keel::xre::kModelKl3;
  uint64_t devices_later = UINT64_MAX;  // result of xpu_device_count from the second call on
  bool positive = false;                // errors are positive numbers
  std::map<std::string, int, std::less<>> fail;  // error of each function that fails
};
// Parses KEEL_EMULATED_XRE.
Status read_settings(std::string_view text, Settings* out_settings);

// A PCI domain that no host uses, so that an emulated chip is never mistaken for a real one.
inline constexpr uint64_t kPciDomain = 0xfffd;

// One device and its chip, which the first use creates. XRE has no call that ends a device, so the
// chip lives as long as the process. Thread-safe.
class Chip {
 public:
  Chip(const DeviceOptions& options, uint32_t ordinal);
  // Returns kOutOfMemory, or kDeviceLost.
  Status device(std::shared_ptr<Device>* out_device);
  Status default_stream(std::shared_ptr<Stream>* out_stream);

 private:
  DeviceOptions options_;
  std::mutex mutex_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<Stream> default_stream_;
};

// The process-wide state of the library. Thread-safe.
class Runtime {
 public:
  // Created at the first call from the environment, never destroyed.
  static Runtime& get();

  const Settings& settings() const { return settings_; }
  // Why the library cannot be used: bad settings.
  bool is_unusable() const { return unusable_; }
  // Device numbers of XPU_VISIBLE_DEVICES, in its order; all devices without the variable.
  const std::vector<int>& visible() const { return visible_; }
  // NULL for a number that is not visible.
  Chip* chip(int device) const;
  uint64_t count_devices();

 private:
  Runtime();

  Settings settings_;
  bool unusable_ = false;
  std::vector<std::unique_ptr<Chip>> chips_;
  std::vector<int> visible_;
  std::atomic<uint64_t> counted_{0};
};

// The calling thread's current device: at first the first visible one; -1 if there is none.
int current_device();
void set_current_device(int device);

// Ends the process with |why|: the caller relies on what the runtime does not define.
[[noreturn]] void end_process(const char* function, const std::string& why);

// XRE's number of |status|: 0, or an error with the sign that the settings ask for.
int result_of(const Status& status, const Device* device);
int fail(keel::xre::Error error);

// The current device of a call, and its chip.
struct Here {
  const char* function;
  int device;
  Chip* chip;
  std::shared_ptr<Device> memory_and_engines;

  Device& emulated() const { return *memory_and_engines; }
};

// Runs |body|, which returns XRE's number; lets no exception escape.
template <typename Body>
int answer(const char* function, Body&& body) noexcept {
  try {
    Runtime& runtime = Runtime::get();
    if (runtime.is_unusable()) return fail(keel::xre::kUninit);
    const auto refused = runtime.settings().fail.find(std::string_view(function));
    if (refused != runtime.settings().fail.end()) {
      return fail(static_cast<keel::xre::Error>(refused->second));
    }
    return std::forward<Body>(body)(runtime);
  } catch (const std::bad_alloc&) {
    return fail(keel::xre::kNoCpuMemory);
  } catch (...) {
    return fail(keel::xre::kUnexpected);
  }
}

// Like answer(), on the current device, unless that is lost.
template <typename Body>
int answer_here(const char* function, Body&& body) noexcept {
  return answer(function, [&](Runtime& runtime) {
    Here here = {function, current_device(), nullptr, nullptr};
    here.chip = runtime.chip(here.device);
    if (here.chip == nullptr) return fail(keel::xre::kNoDevice);
    const Status status = here.chip->device(&here.memory_and_engines);
    if (!status.ok()) return result_of(status, here.memory_and_engines.get());
    return std::forward<Body>(body)(here);
  });
}

}  // namespace keel::emulator::xre

#endif  // KEEL_EMULATOR_SHIMS_XRE_RUNTIME_H_

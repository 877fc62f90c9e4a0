// SPDX-License-Identifier: Apache-2.0
#include "backends/kunlun/runtime.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>

#include "backends/kunlun/result.h"

namespace keel::kunlun {

const Runtime& Runtime::of(const std::string& folder) {
  // Never destroyed, like the libraries.
  static std::mutex& mutex = *new std::mutex;
  static auto& runtimes = *new std::map<std::string, std::unique_ptr<Runtime>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Runtime>& runtime = runtimes[folder];
  if (runtime == nullptr) runtime.reset(new Runtime(folder));
  return *runtime;
}

Runtime::Runtime(const std::string& folder) {
  if (!open(folder) || !find_devices()) devices_.clear();
}

bool Runtime::open(const std::string& folder) {
  const bool is_open = folder.empty()
                           ? library_.open(folder, {"libxpurt.so", "/usr/local/xpu/so/libxpurt.so"})
                           : library_.open(folder, {"libxpurt.so"});
  if (!is_open) {
    reason_ = "no XRE: " + library_.error();
    return false;
  }
  std::string missing;
#define KEEL_XRE_FIND(name, arguments)                                  \
  if (!library_.find("xpu_" #name, &functions_.name)) {                 \
    missing += std::string(missing.empty() ? "" : ", ") + "xpu_" #name; \
  }
  KEEL_XRE_FUNCTIONS(KEEL_XRE_FIND)
#undef KEEL_XRE_FIND
#define KEEL_XRE_FIND(name, arguments) library_.find("xpu_" #name, &functions_.name);
  KEEL_XRE_OPTIONAL_FUNCTIONS(KEEL_XRE_FIND)
#undef KEEL_XRE_FIND
  std::string path = "libxpurt.so";
  Dl_info info;
  if (functions_.device_count != nullptr &&
      dladdr(reinterpret_cast<void*>(functions_.device_count), &info) != 0 &&
      info.dli_fname != nullptr) {
    path = info.dli_fname;
  }
  if (!missing.empty()) {
    reason_ = "unusable XRE " + path + ": symbols missing: " + missing;
    return false;
  }
  uint32_t major = 0;
  uint32_t minor = 0;
  const bool has_version = functions_.get_runtime_version != nullptr &&
                           functions_.get_runtime_version(&major, &minor) == xre::kSuccess;
  version_ = has_version ? "XRE " + std::to_string(major) + "." + std::to_string(minor)
                         : std::string("XRE of unknown version");
  description_ = version_ + ", " + path;
  return true;
}

bool Runtime::find_devices() {
  int count = 0;
  int error = error_of(functions_.device_count(&count));
  if (error != xre::kSuccess) {
    reason_ = description_ + ": " + text_of("xpu_device_count", error);
    return false;
  }
  // XRE writes as many numbers as it counts, 64 at most.
  constexpr int kMost = 64;
  std::array<int, 2 * kMost> numbers = {};
  for (int i = 0; i < 2 * kMost; ++i) numbers[static_cast<size_t>(i)] = i;
  count = std::clamp(count, 0, kMost);
  if (count != 0 && functions_.device_list != nullptr) {
    error = error_of(functions_.device_list(numbers.data()));
    if (error != xre::kSuccess) {
      reason_ = description_ + ": " + text_of("xpu_device_list", error);
      return false;
    }
  }
  int simulators = 0;
  for (int i = 0; i < count; ++i) {
    const int number = numbers[static_cast<size_t>(i)];
    if (number >= xre::kFirstSimulator) ++simulators;
    if (number >= 0 && number < xre::kFirstSimulator) devices_.push_back(number);
  }
  reason_ = description_ + (simulators == 0 ? ": XRE shows no device"
                                            : ": XRE shows devices of its simulator alone");
  return true;
}

}  // namespace keel::kunlun

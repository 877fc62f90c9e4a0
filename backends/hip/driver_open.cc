// SPDX-License-Identifier: Apache-2.0
// Driver::open for HIP, symbol by symbol.
#include <dlfcn.h>

#include "backends/gpu/driver.h"

namespace keel::gpu {
namespace {

// 50221153 is 5.2.
std::string version_text(int version) {
  return std::to_string(version / 10000000) + "." + std::to_string(version / 100000 % 100);
}

}  // namespace

bool Driver::open(const std::string& folder, const std::string& file) {
  const bool is_open =
      file.empty()
          ? library_.open(folder, {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"})
          : library_.open(folder, {file.c_str()});
  if (!is_open) {
    reason_ = "no HIP runtime: " + library_.error();
    return false;
  }
  decltype(&hipRuntimeGetVersion) get_version = nullptr;
  if (!library_.find("hipRuntimeGetVersion", &get_version)) {
    reason_ = "unusable HIP runtime: " + library_.error();
    return false;
  }
  Dl_info info;
  std::string path = "libamdhip64.so";
  if (dladdr(reinterpret_cast<void*>(get_version), &info) != 0 && info.dli_fname != nullptr) {
    path = info.dli_fname;
  }
  const hipError_t asked = get_version(&version_);
  if (asked != 0) {
    reason_ =
        "unusable HIP runtime " + path + ": hipRuntimeGetVersion: error " + std::to_string(asked);
    return false;
  }
  description_ = "HIP " + version_text(version_) + ", " + path;
  if (version_ < kOldestDriver) {
    reason_ = "the runtime " + path + " is of HIP " + version_text(version_) +
              ", too old: " + version_text(kOldestDriver) + " is the first that is used";
    return false;
  }
  std::string missing;
#define KEEL_GPU_FIND(name, native)                                \
  if (!library_.find(#native, &functions_.name)) {                 \
    missing += std::string(missing.empty() ? "" : ", ") + #native; \
  }
  KEEL_GPU_FUNCTIONS(KEEL_GPU_FIND)
#undef KEEL_GPU_FIND
#define KEEL_GPU_FIND(name, native) library_.find(#native, &functions_.name);
  KEEL_GPU_OPTIONAL_FUNCTIONS(KEEL_GPU_FIND)
#undef KEEL_GPU_FIND
  if (missing.empty()) return true;
  reason_ = "unusable HIP runtime " + path + ": symbols missing: " + missing;
  return false;
}

}  // namespace keel::gpu

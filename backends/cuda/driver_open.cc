// SPDX-License-Identifier: Apache-2.0
// Driver::open for CUDA. cuGetProcAddress looks up functions by the version of their interface,
// independent of the driver's version.
#include <dlfcn.h>

#include <cstring>

#include "backends/gpu/driver.h"

namespace keel::gpu {
namespace {

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

bool Driver::open(const std::string& folder, const std::string& file) {
  if (!library_.open(folder, {file.c_str()})) {
    reason_ = "no CUDA driver: " + library_.error();
    return false;
  }
  PFN_cuDriverGetVersion_v2020 get_version = nullptr;
  PFN_cuGetProcAddress_v12000 get_address = nullptr;
  if (!library_.find("cuDriverGetVersion", &get_version)) {
    reason_ = "unusable CUDA driver: " + library_.error();
    return false;
  }
  Dl_info info;
  std::string path = file;
  if (dladdr(reinterpret_cast<void*>(get_version), &info) != 0 && info.dli_fname != nullptr) {
    path = info.dli_fname;
  }
  const CUresult asked = get_version(&version_);
  if (asked != CUDA_SUCCESS) {
    reason_ =
        "unusable CUDA driver " + path + ": cuDriverGetVersion: error " + std::to_string(asked);
    return false;
  }
  description_ = "CUDA " + version_text(version_) + ", " + path;
  if (version_ < kOldestDriver) {
    reason_ = "the driver " + path + " is for CUDA " + version_text(version_) +
              ", too old: " + version_text(kOldestDriver) + " is the first that is used";
    return false;
  }
  if (!library_.find("cuGetProcAddress_v2", &get_address)) {
    reason_ = "unusable CUDA driver " + path + ": " + library_.error();
    return false;
  }
  const auto find = [&](const char* name, int interface_version, auto* out_function) {
    void* address = nullptr;
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    const CUresult result =
        get_address(name, &address, interface_version, CU_GET_PROC_ADDRESS_DEFAULT, &found);
    if (result != CUDA_SUCCESS || found != CU_GET_PROC_ADDRESS_SUCCESS) address = nullptr;
    std::memcpy(out_function, &address, sizeof(address));
    return address != nullptr;
  };
  std::string missing;
#define KEEL_CUDA_FIND(name, interface_version)                       \
  if (!find("cu" #name, interface_version, &functions_.name)) {       \
    missing += std::string(missing.empty() ? "" : ", ") + "cu" #name; \
  }
  KEEL_GPU_FUNCTIONS(KEEL_CUDA_FIND)
#undef KEEL_CUDA_FIND
#define KEEL_CUDA_FIND(name, interface_version) \
  find("cu" #name, interface_version, &functions_.name);
  KEEL_GPU_OPTIONAL_FUNCTIONS(KEEL_CUDA_FIND)
#undef KEEL_CUDA_FIND
  if (missing.empty()) return true;
  reason_ = "unusable CUDA driver " + path + ": symbols missing: " + missing;
  return false;
}

}  // namespace keel::gpu

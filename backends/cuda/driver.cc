// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/driver.h"

#include <dlfcn.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>

namespace keel::cuda {
namespace {

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

Driver& Driver::of(const std::string& folder, const std::string& file) {
  // Never destroyed, like the libraries.
  static std::mutex& mutex = *new std::mutex;
  static auto& drivers = *new std::map<std::string, std::unique_ptr<Driver>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Driver>& driver = drivers[folder + "/" + file];
  if (driver == nullptr) driver.reset(new Driver(folder, file));
  return *driver;
}

Driver::Driver(const std::string& folder, const std::string& file) : nvml_(folder) {
  if (!open(folder, file) || !start()) device_count_ = 0;
}

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
  if (version_ < kOldest) {
    reason_ = "the driver " + path + " is for CUDA " + version_text(version_) +
              ", too old: " + version_text(kOldest) + " is the first that is used";
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
  KEEL_CUDA_FUNCTIONS(KEEL_CUDA_FIND)
#undef KEEL_CUDA_FIND
#define KEEL_CUDA_FIND(name, interface_version) \
  find("cu" #name, interface_version, &functions_.name);
  KEEL_CUDA_OPTIONAL_FUNCTIONS(KEEL_CUDA_FIND)
#undef KEEL_CUDA_FIND
  if (missing.empty()) return true;
  reason_ = "unusable CUDA driver " + path + ": symbols missing: " + missing;
  return false;
}

bool Driver::start() {
  CUresult result = functions_.Init(/*Flags=*/0);
  if (result != CUDA_SUCCESS) {
    reason_ = description_ + ": " + text_of("cuInit", result);
    return false;
  }
  result = functions_.DeviceGetCount(&device_count_);
  if (result != CUDA_SUCCESS) {
    reason_ = description_ + ": " + text_of("cuDeviceGetCount", result);
    return false;
  }
  reason_ = description_ + ": the driver shows no device";
  return true;
}

void Driver::warn_once(const std::string& text) {
  {
    const std::lock_guard lock(mutex_);
    if (!warnings_.insert(text).second) return;
  }
  kit::log(KEEL_LOG_WARNING, "%s", text.c_str());
}

std::string Driver::text_of(const char* call, CUresult result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (functions_.GetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) {
    return std::string(call) + ": error " + std::to_string(result);
  }
  if (functions_.GetErrorString(result, &text) != CUDA_SUCCESS || text == nullptr) text = "";
  return std::string(call) + ": " + name + ": " + text;
}

}  // namespace keel::cuda

// SPDX-License-Identifier: Apache-2.0
#include "conformance/library_faults.h"

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "conformance/emulated_libraries.h"

namespace keel::conformance {

namespace {

// Empty where it is not installed, as without Vulkan's headers.
std::filesystem::path failing_vulkan_folder() {
  const std::filesystem::path beside = keel_folder();
  if (beside.empty()) return "";
  const std::filesystem::path folder = beside / "failing" / "vulkan";
  std::error_code failure;
  return std::filesystem::exists(folder / "libvulkan.so.1", failure) ? folder : "";
}

void add_to_emulated_chips(const std::string& fault) {
  // One variable for each chip's driver.
  for (const char* const variable :
       {"KEEL_EMULATED_ASCEND", "KEEL_EMULATED_CUDA", "KEEL_EMULATED_HIP",
        "KEEL_EMULATED_LEVEL_ZERO", "KEEL_EMULATED_XRE"}) {
    const char* const set = std::getenv(variable);
    std::string settings = set == nullptr ? "" : set;
    constexpr std::string_view kKey = "faults=";
    const size_t key = settings.find(kKey);
    if (key == std::string::npos) {
      settings += (settings.empty() ? "" : " ") + std::string(kKey) + fault;
    } else {
      settings.insert(key + kKey.size(), fault + ",");
    }
    setenv(variable, settings.c_str(), /*overwrite=*/1);
  }
}

void put_before_vulkan(const std::string& fault) {
  constexpr char kFolder[] = "KEEL_VULKAN_LIBRARY_FOLDER";
  const char* const set = std::getenv(kFolder);
  if (set != nullptr && *set != '\0') setenv("KEEL_FAILING_VULKAN_FOLDER", set, /*overwrite=*/1);
  setenv(kFolder, failing_vulkan_folder().c_str(), /*overwrite=*/1);
  setenv("KEEL_FAILING_VULKAN", fault.c_str(), /*overwrite=*/1);
}

}  // namespace

std::string failing_library(const Environment& environment) {
  if (environment.target.backend == "vulkan") {
    return failing_vulkan_folder().empty() ? "" : kVulkan;
  }
  return environment.emulated ? kEmulated : "";
}

void add_library_fault(const std::string& fault) {
  if (fault.starts_with(kEmulated)) add_to_emulated_chips(fault.substr(sizeof(kEmulated) - 1));
  if (fault.starts_with(kVulkan)) put_before_vulkan(fault.substr(sizeof(kVulkan) - 1));
}

}  // namespace keel::conformance

// SPDX-License-Identifier: Apache-2.0
// The Vulkan loader, opened at run time, one VkInstance, and the devices that this backend can use.
#ifndef KEEL_BACKENDS_VULKAN_INSTANCE_H_
#define KEEL_BACKENDS_VULKAN_INSTANCE_H_

#include <keel/abi.h>

#include <keel/plugin_kit.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/vulkan/physical_device.h"
#include "backends/vulkan/vulkan_functions.h"

namespace keel::vulkan {

// The matmul kernel; kAuto selects by the device's type, without measurements.
enum class MatmulChoice { kAuto, kShared, kTexel };

class Instance {
 public:
  // Reads the settings; does not open the loader or a device.
  static keel_status create(const keel_instance_settings* settings,
                            std::unique_ptr<Instance>* out_instance);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  // Opens the loader on the first call and returns the devices. Thread-safe. An empty list is no
  // failure: reason() then returns the cause as one sentence.
  const std::vector<PhysicalDevice>& devices();
  const std::string& reason() const { return reason_; }

  const InstanceFunctions& functions() const { return vk_; }
  VkInstance handle() const { return handle_; }
  MatmulChoice matmul_choice() const { return matmul_choice_; }

 private:
  Instance() = default;
  void start();

  std::string library_folder_;
  MatmulChoice matmul_choice_ = MatmulChoice::kAuto;
  std::once_flag started_;
  kit::VendorLibrary library_;
  InstanceFunctions vk_;
  PFN_vkDestroyInstance destroy_ = nullptr;
  VkInstance handle_ = VK_NULL_HANDLE;
  std::vector<PhysicalDevice> devices_;
  std::string reason_;
};

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_INSTANCE_H_

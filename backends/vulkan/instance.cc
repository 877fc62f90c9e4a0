// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/instance.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace keel::vulkan {

keel_status Instance::create(const keel_instance_settings* settings,
                             std::unique_ptr<Instance>* out_instance) {
  std::unique_ptr<Instance> instance(new Instance());
  const char* const folder = secure_getenv("KEEL_VULKAN_LIBRARY_FOLDER");
  if (folder != nullptr) instance->library_folder_ = folder;
  const uint32_t count = settings == nullptr ? 0 : settings->count;
  for (uint32_t i = 0; i < count; ++i) {
    const std::string key = settings->keys[i];
    const std::string value = settings->values[i];
    if (key == "library_folder") {
      instance->library_folder_ = value;
    } else if (key == "matmul_kernel") {
      if (value == "auto") {
        instance->matmul_choice_ = MatmulChoice::kAuto;
      } else if (value == "shared") {
        instance->matmul_choice_ = MatmulChoice::kShared;
      } else if (value == "texel") {
        instance->matmul_choice_ = MatmulChoice::kTexel;
      } else {
        return kit::fail(KEEL_INVALID_ARGUMENT,
                         "setting \"matmul_kernel\" is \"%s\": auto, shared or texel",
                         value.c_str());
      }
    } else {
      return kit::fail(KEEL_INVALID_ARGUMENT, "vulkan does not know the setting \"%s\"",
                       key.c_str());
    }
  }
  *out_instance = std::move(instance);
  return KEEL_OK;
}

Instance::~Instance() {
  // The process keeps its first instance: when the last instance is destroyed, the loader unloads
  // the driver despite the threads and exit handlers that the driver left behind.
  static std::atomic<VkInstance> first{VK_NULL_HANDLE};
  VkInstance none = VK_NULL_HANDLE;
  if (handle_ != VK_NULL_HANDLE && first.compare_exchange_strong(none, handle_)) return;
  if (handle_ != VK_NULL_HANDLE && destroy_ != nullptr) destroy_(handle_, nullptr);
}

const std::vector<PhysicalDevice>& Instance::devices() {
  std::call_once(started_, [this] { start(); });
  return devices_;
}

void Instance::start() {
  if (!library_.open(library_folder_, {"libvulkan.so.1", "libvulkan.so"})) {
    reason_ = "no Vulkan loader: " + library_.error();
    return;
  }
  PFN_vkVoidFunction (*get)(VkInstance, const char*) = nullptr;
  if (!library_.find("vkGetInstanceProcAddr", &get)) {
    reason_ = "unusable Vulkan loader: " + library_.error();
    return;
  }
  const auto create =
      reinterpret_cast<PFN_vkCreateInstance>(get(VK_NULL_HANDLE, "vkCreateInstance"));
  if (create == nullptr) {
    reason_ = "unusable Vulkan loader: vkCreateInstance is missing";
    return;
  }

  VkApplicationInfo application = {};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.pEngineName = "Keel";
  application.apiVersion = VK_API_VERSION_1_2;
  VkInstanceCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  const VkResult created = create(&info, nullptr, &handle_);
  if (created != VK_SUCCESS) {
    handle_ = VK_NULL_HANDLE;
    reason_ = "vkCreateInstance failed with VkResult " + std::to_string(created) +
              (created == VK_ERROR_INCOMPATIBLE_DRIVER ? ": no Vulkan driver is installed" : "");
    return;
  }
  destroy_ = reinterpret_cast<PFN_vkDestroyInstance>(get(handle_, "vkDestroyInstance"));
  const char* missing = nullptr;
  if (!vk_.load(get, handle_, &missing)) {
    reason_ = std::string("unusable Vulkan loader: ") + missing + " is missing";
    return;
  }

  uint32_t count = 0;
  if (vk_.EnumeratePhysicalDevices(handle_, &count, nullptr) != VK_SUCCESS) count = 0;
  std::vector<VkPhysicalDevice> handles(count);
  if (vk_.EnumeratePhysicalDevices(handle_, &count, handles.data()) < 0) count = 0;
  handles.resize(count);

  // KEEL_VULKAN_DEVICE restricts the devices to those whose name contains the value.
  const char* wanted = secure_getenv("KEEL_VULKAN_DEVICE");
  std::string skipped;
  for (VkPhysicalDevice handle : handles) {
    VkPhysicalDeviceProperties2 properties = {};
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    vk_.GetPhysicalDeviceProperties2(handle, &properties);
    const char* name = properties.properties.deviceName;
    std::string why;
    if (wanted != nullptr && std::strstr(name, wanted) == nullptr) {
      why = "KEEL_VULKAN_DEVICE asks for another";
    } else if (auto device = PhysicalDevice::examine(vk_, handle, &why)) {
      devices_.push_back(*device);
      continue;
    }
    kit::log(KEEL_LOG_INFO, "vulkan: device \"%s\" skipped: %s", name, why.c_str());
    skipped += std::string(skipped.empty() ? "" : "; ") + name + ": " + why;
  }
  if (devices_.empty()) {
    reason_ = handles.empty() ? "the Vulkan drivers report no device"
                              : "no usable Vulkan device (" + skipped + ")";
  }
}

}  // namespace keel::vulkan

// SPDX-License-Identifier: Apache-2.0
// Stands in front of the Vulkan loader: hands every call on, but makes one fail. No driver loses a
// device, or refuses a submission, on demand. KEEL_FAILING_VULKAN has one fault:
//
//   lose:submit@N    vkQueueSubmit number N and all later ones find the device lost, as do waits
//   lose:wait@N      the same from the Nth wait for a semaphore, or look at one
//   refuse:submit@N  the Nth vkQueueSubmit is out of memory; so for memory (vkAllocateMemory) and
//                    pool (vkCreateCommandPool)
//
// KEEL_FAILING_VULKAN_FOLDER: the folder of the loader itself; by default where the system has it.
// For one device at a time.
#define VK_NO_PROTOTYPES
#include <dlfcn.h>
#include <vulkan/vulkan_core.h>

#include <atomic>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>

namespace {

enum Call { kSubmit, kWait, kMemory, kPool, kCalls };
constexpr std::string_view kCallNames[kCalls] = {"submit", "wait", "memory", "pool"};

struct Fault {
  bool loses = false;
  Call call = kCalls;
  uint64_t number = 0;
};

// Returns a fault of no call if |text| is none.
Fault parse(std::string_view text) {
  Fault fault;
  const size_t colon = text.find(':');
  const size_t at = text.find('@');
  if (colon == std::string_view::npos || at == std::string_view::npos || at < colon) return {};
  const std::string_view action = text.substr(0, colon);
  if (action != "lose" && action != "refuse") return {};
  fault.loses = action == "lose";
  const std::string_view name = text.substr(colon + 1, at - colon - 1);
  for (int call = 0; call < kCalls; ++call) {
    if (kCallNames[call] == name) fault.call = static_cast<Call>(call);
  }
  const std::string_view digits = text.substr(at + 1);
  std::from_chars(digits.data(), digits.data() + digits.size(), fault.number);
  return fault;
}

struct State {
  Fault fault;
  PFN_vkGetInstanceProcAddr get_instance = nullptr;  // of the loader; NULL: there is none
  PFN_vkGetDeviceProcAddr get_device = nullptr;
  VkDevice device = VK_NULL_HANDLE;
  PFN_vkAllocateMemory allocate_memory = nullptr;
  PFN_vkCreateCommandPool create_command_pool = nullptr;
  PFN_vkDeviceWaitIdle device_wait_idle = nullptr;
  PFN_vkGetSemaphoreCounterValue get_semaphore_counter_value = nullptr;
  PFN_vkQueueSubmit queue_submit = nullptr;
  PFN_vkWaitSemaphores wait_semaphores = nullptr;
  std::atomic<uint64_t> counts[kCalls] = {};
  std::recursive_mutex submitting;
  std::atomic<bool> is_lost = false;
};

State* open_state() {
  static State state;
  const char* const fault = std::getenv("KEEL_FAILING_VULKAN");
  if (fault != nullptr) state.fault = parse(fault);
  const char* const folder = std::getenv("KEEL_FAILING_VULKAN_FOLDER");
  const std::string path = folder == nullptr ? std::string() : std::string(folder) + "/";
  void* loader = nullptr;
  for (const char* const file : {"libvulkan.so.1", "libvulkan.so"}) {  // as the plugin does
    if (loader == nullptr) loader = dlopen((path + file).c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (loader != nullptr) {
    state.get_instance =
        reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(loader, "vkGetInstanceProcAddr"));
  }
  return &state;
}

State& state() {
  static State& opened = *open_state();
  return opened;
}

// Counts a call, and returns what becomes of it: VK_SUCCESS if it goes on.
VkResult judge(Call call) {
  State& now = state();
  const uint64_t number = ++now.counts[call];
  if (now.is_lost) return call == kSubmit || call == kWait ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
  if (now.fault.call != call || number != now.fault.number) return VK_SUCCESS;
  if (!now.fault.loses) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  // The device goes on below: nothing may run once the caller destroys what it uses.
  const std::lock_guard lock(now.submitting);
  now.device_wait_idle(now.device);
  now.is_lost = true;
  return VK_ERROR_DEVICE_LOST;
}

// Calls |next|, the loader's function, unless the call fails here.
template <typename Function, typename... Arguments>
VkResult pass_on(Call call, Function next, Arguments... arguments) {
  const VkResult result = judge(call);
  return result != VK_SUCCESS ? result : next(arguments...);
}

VkResult VKAPI_CALL allocate_memory(VkDevice device, const VkMemoryAllocateInfo* info,
                                    const VkAllocationCallbacks* callbacks,
                                    VkDeviceMemory* out_memory) {
  return pass_on(kMemory, state().allocate_memory, device, info, callbacks, out_memory);
}

VkResult VKAPI_CALL create_command_pool(VkDevice device, const VkCommandPoolCreateInfo* info,
                                        const VkAllocationCallbacks* callbacks,
                                        VkCommandPool* out_pool) {
  return pass_on(kPool, state().create_command_pool, device, info, callbacks, out_pool);
}

VkResult VKAPI_CALL device_wait_idle(VkDevice device) {
  return state().is_lost ? VK_ERROR_DEVICE_LOST : state().device_wait_idle(device);
}

VkResult VKAPI_CALL get_semaphore_counter_value(VkDevice device, VkSemaphore semaphore,
                                                uint64_t* out_value) {
  return pass_on(kWait, state().get_semaphore_counter_value, device, semaphore, out_value);
}

VkResult VKAPI_CALL queue_submit(VkQueue queue, uint32_t count, const VkSubmitInfo* submits,
                                 VkFence fence) {
  const std::lock_guard lock(state().submitting);
  return pass_on(kSubmit, state().queue_submit, queue, count, submits, fence);
}

VkResult VKAPI_CALL wait_semaphores(VkDevice device, const VkSemaphoreWaitInfo* info,
                                    uint64_t timeout) {
  return pass_on(kWait, state().wait_semaphores, device, info, timeout);
}

template <typename Function>
PFN_vkVoidFunction replace(Function own, Function* next, PFN_vkVoidFunction real) {
  *next = reinterpret_cast<Function>(real);
  return reinterpret_cast<PFN_vkVoidFunction>(own);
}

PFN_vkVoidFunction VKAPI_CALL get_device(VkDevice device, const char* name) {
  State& now = state();
  const PFN_vkVoidFunction real =
      now.get_device == nullptr ? nullptr : now.get_device(device, name);
  if (real == nullptr) return nullptr;
  now.device = device;
  const std::string_view wanted = name;
  if (wanted == "vkAllocateMemory") return replace(allocate_memory, &now.allocate_memory, real);
  if (wanted == "vkCreateCommandPool") {
    return replace(create_command_pool, &now.create_command_pool, real);
  }
  if (wanted == "vkDeviceWaitIdle") return replace(device_wait_idle, &now.device_wait_idle, real);
  if (wanted == "vkGetSemaphoreCounterValue") {
    return replace(get_semaphore_counter_value, &now.get_semaphore_counter_value, real);
  }
  if (wanted == "vkQueueSubmit") return replace(queue_submit, &now.queue_submit, real);
  if (wanted == "vkWaitSemaphores") return replace(wait_semaphores, &now.wait_semaphores, real);
  return real;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) PFN_vkVoidFunction VKAPI_CALL
vkGetInstanceProcAddr(VkInstance instance, const char* name) {
  State& now = state();
  if (now.get_instance == nullptr) return nullptr;
  const PFN_vkVoidFunction real = now.get_instance(instance, name);
  if (std::string_view(name) != "vkGetDeviceProcAddr" || real == nullptr) return real;
  return replace(get_device, &now.get_device, real);
}

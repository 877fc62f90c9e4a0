// SPDX-License-Identifier: Apache-2.0
#include "bench/raw_vulkan.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <vulkan/vulkan_core.h>

#include <array>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace keel::bench {

namespace {

// One shader per array, compiled by glslc.
constexpr uint32_t kScaleCode[] = {
#include "shaders/scale.inc"
};
constexpr uint32_t kMultiplyAddCode[] = {
#include "shaders/multiply_add.inc"
};

constexpr uint32_t kElements = 64;
constexpr VkDeviceSize kHalf = kElements * sizeof(float);

void check(VkResult result, const char* call) {
  if (result < 0) throw std::runtime_error(fmt::format("{}: VkResult {}", call, int{result}));
}

template <typename Struct>
Struct make(VkStructureType type) {
  Struct value = {};
  value.sType = type;
  return value;
}

// Opened once and never closed: drivers do not support unloading well.
PFN_vkGetInstanceProcAddr open_loader() {
  static void* const library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  return reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
}

struct InstanceFunctions {
  PFN_vkDestroyInstance DestroyInstance;
  PFN_vkEnumeratePhysicalDevices EnumeratePhysicalDevices;
  PFN_vkGetPhysicalDeviceProperties2 GetPhysicalDeviceProperties2;
  PFN_vkGetPhysicalDeviceQueueFamilyProperties GetPhysicalDeviceQueueFamilyProperties;
  PFN_vkGetPhysicalDeviceMemoryProperties GetPhysicalDeviceMemoryProperties;
  PFN_vkCreateDevice CreateDevice;
  PFN_vkGetDeviceProcAddr GetDeviceProcAddr;
};

// The driver's functions, without the loader's dispatch.
struct DeviceFunctions {
// The formatter would move the line continuations on each run.
// clang-format off
#define KEEL_DEVICE_FUNCTIONS(X)                                                              \
  X(AllocateCommandBuffers) X(AllocateMemory) X(BeginCommandBuffer) X(BindBufferMemory)       \
  X(CmdBindPipeline) X(CmdDispatch) X(CmdPipelineBarrier) X(CmdPushConstants)                 \
  X(CreateBuffer) X(CreateCommandPool) X(CreateComputePipelines) X(CreatePipelineLayout)      \
  X(CreateSemaphore) X(CreateShaderModule) X(DestroyBuffer) X(DestroyCommandPool)             \
  X(DestroyDevice) X(DestroyPipeline) X(DestroyPipelineLayout) X(DestroySemaphore)            \
  X(DestroyShaderModule) X(EndCommandBuffer) X(FreeMemory) X(GetBufferDeviceAddress)          \
  X(GetBufferMemoryRequirements) X(GetDeviceQueue) X(MapMemory) X(QueueSubmit)                \
  X(WaitSemaphores)
// clang-format on
#define KEEL_DECLARE(name) PFN_vk##name name;
  KEEL_DEVICE_FUNCTIONS(KEEL_DECLARE)
#undef KEEL_DECLARE
};

// Push constants of both shaders.
struct Arguments {
  VkDeviceAddress x;
  VkDeviceAddress y;
  uint32_t count;  // or steps
  float factor;
};

class Program final : public RawVulkan {
 public:
  // On failure |*out_reason| is the reason.
  bool open(const uint8_t* uuid, std::string* out_reason) {
    if (!create_instance(out_reason) || !find_device(uuid, out_reason)) return false;
    create_device();
    create_buffer();
    create_pipelines();
    create_queue_objects();
    return true;
  }

  ~Program() override {
    if (device_ != VK_NULL_HANDLE) {
      if (signalled_ != 0) wait_noexcept();
      vk_.DestroySemaphore(device_, timeline_, nullptr);
      vk_.DestroyCommandPool(device_, pool_, nullptr);
      vk_.DestroyPipeline(device_, scale_, nullptr);
      vk_.DestroyPipeline(device_, multiply_add_, nullptr);
      vk_.DestroyPipelineLayout(device_, layout_, nullptr);
      vk_.DestroyBuffer(device_, buffer_, nullptr);
      vk_.FreeMemory(device_, memory_, nullptr);
      vk_.DestroyDevice(device_, nullptr);
    }
    if (instance_ != VK_NULL_HANDLE) instance_functions_.DestroyInstance(instance_, nullptr);
  }

  void record_dispatch_and_wait() override {
    record(recorded_each_time_, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT, scale_,
           {address_, address_ + kHalf, kElements, 0.5f},
           (kElements + local_size_ - 1) / local_size_);
    submit_and_wait(&recorded_each_time_);
  }
  void submit_dispatch_and_wait() override { submit_and_wait(&recorded_before_); }
  void submit_nothing_and_wait() override { submit_and_wait(nullptr); }
  void multiply_add_and_wait() override { submit_and_wait(&roof_); }
  double multiply_add_operations() const override {
    constexpr double kChains = 10;
    constexpr double kUnrolled = 16;
    return 2 * kChains * kUnrolled * steps_ * roof_groups_ * local_size_;
  }

 private:
  bool create_instance(std::string* out_reason) {
    const PFN_vkGetInstanceProcAddr get = open_loader();
    if (get == nullptr) {
      *out_reason = "libvulkan.so.1 is not here";
      return false;
    }
    auto application = make<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
    application.apiVersion = VK_API_VERSION_1_2;
    auto info = make<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
    info.pApplicationInfo = &application;
    const auto create =
        reinterpret_cast<PFN_vkCreateInstance>(get(VK_NULL_HANDLE, "vkCreateInstance"));
    check(create(&info, nullptr, &instance_), "vkCreateInstance");
    InstanceFunctions& vk = instance_functions_;
    const auto load = [&](auto* function, const char* name) {
      *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(get(instance_, name));
    };
    load(&vk.DestroyInstance, "vkDestroyInstance");
    load(&vk.EnumeratePhysicalDevices, "vkEnumeratePhysicalDevices");
    load(&vk.GetPhysicalDeviceProperties2, "vkGetPhysicalDeviceProperties2");
    load(&vk.GetPhysicalDeviceQueueFamilyProperties, "vkGetPhysicalDeviceQueueFamilyProperties");
    load(&vk.GetPhysicalDeviceMemoryProperties, "vkGetPhysicalDeviceMemoryProperties");
    load(&vk.CreateDevice, "vkCreateDevice");
    load(&vk.GetDeviceProcAddr, "vkGetDeviceProcAddr");
    return true;
  }

  bool find_device(const uint8_t* uuid, std::string* out_reason) {
    const InstanceFunctions& vk = instance_functions_;
    uint32_t count = 0;
    check(vk.EnumeratePhysicalDevices(instance_, &count, nullptr), "vkEnumeratePhysicalDevices");
    std::vector<VkPhysicalDevice> devices(count);
    check(vk.EnumeratePhysicalDevices(instance_, &count, devices.data()),
          "vkEnumeratePhysicalDevices");
    for (const VkPhysicalDevice device : devices) {
      auto v11 = make<VkPhysicalDeviceVulkan11Properties>(
          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES);
      auto properties =
          make<VkPhysicalDeviceProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
      properties.pNext = &v11;
      vk.GetPhysicalDeviceProperties2(device, &properties);
      if (std::memcmp(v11.deviceUUID, uuid, VK_UUID_SIZE) != 0) continue;
      physical_ = device;
      // A CPU driver runs one subgroup per core at a time; a GPU needs many.
      const bool cpu = properties.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
      local_size_ = cpu ? v11.subgroupSize : 64;
      roof_groups_ = cpu ? 64 : 1 << 15;
      steps_ = cpu ? 1 << 13 : 1 << 9;
      return true;
    }
    *out_reason = "the Vulkan loader does not list Keel's device";
    return false;
  }

  uint32_t compute_family() const {
    uint32_t count = 0;
    const auto list = instance_functions_.GetPhysicalDeviceQueueFamilyProperties;
    list(physical_, &count, nullptr);
    std::vector<VkQueueFamilyProperties> families(count);
    list(physical_, &count, families.data());
    for (uint32_t i = 0; i < count; ++i) {
      if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) != 0) return i;
    }
    throw std::runtime_error("no compute queue");
  }

  void create_device() {
    family_ = compute_family();
    const float priority = 1;
    auto queue = make<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
    queue.queueFamilyIndex = family_;
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    auto features = make<VkPhysicalDeviceVulkan12Features>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
    features.bufferDeviceAddress = VK_TRUE;
    features.timelineSemaphore = VK_TRUE;
    auto info = make<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO);
    info.pNext = &features;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue;
    VkDevice device = VK_NULL_HANDLE;
    check(instance_functions_.CreateDevice(physical_, &info, nullptr, &device), "vkCreateDevice");
#define KEEL_LOAD(name) \
  vk_.name =            \
      reinterpret_cast<PFN_vk##name>(instance_functions_.GetDeviceProcAddr(device, "vk" #name));
    KEEL_DEVICE_FUNCTIONS(KEEL_LOAD)
#undef KEEL_LOAD
    device_ = device;
    vk_.GetDeviceQueue(device_, family_, 0, &queue_);
  }

  uint32_t host_memory_type(uint32_t allowed) const {
    VkPhysicalDeviceMemoryProperties memory;
    instance_functions_.GetPhysicalDeviceMemoryProperties(physical_, &memory);
    constexpr VkMemoryPropertyFlags kHost =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
      const bool fits = (allowed >> i & 1u) != 0;
      if (fits && (memory.memoryTypes[i].propertyFlags & kHost) == kHost) return i;
    }
    throw std::runtime_error("no memory that the host can write");
  }

  // x is in the first half, y in the second.
  void create_buffer() {
    auto info = make<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
    info.size = 2 * kHalf;
    info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
    check(vk_.CreateBuffer(device_, &info, nullptr, &buffer_), "vkCreateBuffer");
    VkMemoryRequirements needs;
    vk_.GetBufferMemoryRequirements(device_, buffer_, &needs);
    auto flags = make<VkMemoryAllocateFlagsInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO);
    flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
    auto allocation = make<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO);
    allocation.pNext = &flags;
    allocation.allocationSize = needs.size;
    allocation.memoryTypeIndex = host_memory_type(needs.memoryTypeBits);
    check(vk_.AllocateMemory(device_, &allocation, nullptr, &memory_), "vkAllocateMemory");
    check(vk_.BindBufferMemory(device_, buffer_, memory_, 0), "vkBindBufferMemory");
    void* mapped = nullptr;
    check(vk_.MapMemory(device_, memory_, 0, VK_WHOLE_SIZE, 0, &mapped), "vkMapMemory");
    for (uint32_t i = 0; i < 2 * kElements; ++i) static_cast<float*>(mapped)[i] = 1.0f;
    auto address = make<VkBufferDeviceAddressInfo>(VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO);
    address.buffer = buffer_;
    address_ = vk_.GetBufferDeviceAddress(device_, &address);
  }

  VkPipeline create_pipeline(const uint32_t* code, size_t bytes) {
    auto module = make<VkShaderModuleCreateInfo>(VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
    module.codeSize = bytes;
    module.pCode = code;
    auto info = make<VkComputePipelineCreateInfo>(VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.pName = "main";
    const VkSpecializationMapEntry entry = {/*constantID=*/0, /*offset=*/0, sizeof(local_size_)};
    const VkSpecializationInfo constants = {1, &entry, sizeof(local_size_), &local_size_};
    info.stage.pSpecializationInfo = &constants;
    info.layout = layout_;
    check(vk_.CreateShaderModule(device_, &module, nullptr, &info.stage.module),
          "vkCreateShaderModule");
    VkPipeline pipeline = VK_NULL_HANDLE;
    const VkResult result =
        vk_.CreateComputePipelines(device_, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline);
    vk_.DestroyShaderModule(device_, info.stage.module, nullptr);
    check(result, "vkCreateComputePipelines");
    return pipeline;
  }

  void create_pipelines() {
    const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(Arguments)};
    auto info = make<VkPipelineLayoutCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
    info.pushConstantRangeCount = 1;
    info.pPushConstantRanges = &range;
    check(vk_.CreatePipelineLayout(device_, &info, nullptr, &layout_), "vkCreatePipelineLayout");
    scale_ = create_pipeline(kScaleCode, sizeof(kScaleCode));
    multiply_add_ = create_pipeline(kMultiplyAddCode, sizeof(kMultiplyAddCode));
  }

  void create_queue_objects() {
    auto type = make<VkSemaphoreTypeCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    auto semaphore = make<VkSemaphoreCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO);
    semaphore.pNext = &type;
    check(vk_.CreateSemaphore(device_, &semaphore, nullptr, &timeline_), "vkCreateSemaphore");

    auto pool = make<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
    pool.flags =
        VK_COMMAND_POOL_CREATE_TRANSIENT_BIT | VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    pool.queueFamilyIndex = family_;
    check(vk_.CreateCommandPool(device_, &pool, nullptr, &pool_), "vkCreateCommandPool");
    auto info = make<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
    info.commandPool = pool_;
    info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    std::array<VkCommandBuffer, 3> buffers;
    info.commandBufferCount = static_cast<uint32_t>(buffers.size());
    check(vk_.AllocateCommandBuffers(device_, &info, buffers.data()), "vkAllocateCommandBuffers");
    recorded_each_time_ = buffers[0];
    recorded_before_ = buffers[1];
    roof_ = buffers[2];
    record(recorded_before_, /*usage=*/0, scale_, {address_, address_ + kHalf, kElements, 0.5f},
           (kElements + local_size_ - 1) / local_size_);
    record(roof_, /*usage=*/0, multiply_add_, {address_, address_ + kHalf, steps_, 0.5f},
           roof_groups_);
  }

  void record(VkCommandBuffer commands, VkCommandBufferUsageFlags usage, VkPipeline pipeline,
              const Arguments& arguments, uint32_t groups) {
    auto begin = make<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
    begin.flags = usage;
    check(vk_.BeginCommandBuffer(commands, &begin), "vkBeginCommandBuffer");
    vk_.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vk_.CmdPushConstants(commands, layout_, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(arguments),
                         &arguments);
    vk_.CmdDispatch(commands, groups, 1, 1);
    auto barrier = make<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
    barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
    vk_.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                           VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, nullptr, 0, nullptr);
    check(vk_.EndCommandBuffer(commands), "vkEndCommandBuffer");
  }

  // |commands| may be NULL: then only the signal is submitted.
  void submit_and_wait(const VkCommandBuffer* commands) {
    const uint64_t value = signalled_ + 1;
    auto timeline =
        make<VkTimelineSemaphoreSubmitInfo>(VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
    timeline.signalSemaphoreValueCount = 1;
    timeline.pSignalSemaphoreValues = &value;
    auto info = make<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
    info.pNext = &timeline;
    info.commandBufferCount = commands == nullptr ? 0 : 1;
    info.pCommandBuffers = commands;
    info.signalSemaphoreCount = 1;
    info.pSignalSemaphores = &timeline_;
    check(vk_.QueueSubmit(queue_, 1, &info, VK_NULL_HANDLE), "vkQueueSubmit");
    signalled_ = value;
    const VkResult result = wait_noexcept();
    check(result == VK_TIMEOUT ? VK_ERROR_UNKNOWN : result, "vkWaitSemaphores");
  }

  VkResult wait_noexcept() noexcept {
    constexpr uint64_t kMinute = 60'000'000'000;
    auto wait = make<VkSemaphoreWaitInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO);
    wait.semaphoreCount = 1;
    wait.pSemaphores = &timeline_;
    wait.pValues = &signalled_;
    return vk_.WaitSemaphores(device_, &wait, kMinute);
  }

  InstanceFunctions instance_functions_ = {};
  DeviceFunctions vk_ = {};
  VkInstance instance_ = VK_NULL_HANDLE;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  uint32_t family_ = 0;
  uint32_t local_size_ = 0;
  uint32_t roof_groups_ = 0;
  uint32_t steps_ = 0;
  VkBuffer buffer_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  VkDeviceAddress address_ = 0;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipeline scale_ = VK_NULL_HANDLE;
  VkPipeline multiply_add_ = VK_NULL_HANDLE;
  VkSemaphore timeline_ = VK_NULL_HANDLE;
  uint64_t signalled_ = 0;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer recorded_each_time_ = VK_NULL_HANDLE;
  VkCommandBuffer recorded_before_ = VK_NULL_HANDLE;
  VkCommandBuffer roof_ = VK_NULL_HANDLE;
};

}  // namespace

std::unique_ptr<RawVulkan> RawVulkan::open(const uint8_t* uuid, std::string* out_reason) {
  auto program = std::make_unique<Program>();
  if (!program->open(uuid, out_reason)) return nullptr;
  return program;
}

}  // namespace keel::bench

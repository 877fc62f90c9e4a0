// SPDX-License-Identifier: Apache-2.0
// The part of oneAPI Level Zero (libze_loader.so.1) that is called here. Numbers, layouts and
// argument lists are those of version 1.4 of the specification, which loader 1.8 implements.
// Everything has a name of its own, so that this header and ze_api.h can be in one source.
#ifndef KEEL_VENDOR_LEVEL_ZERO_H_
#define KEEL_VENDOR_LEVEL_ZERO_H_

#include <cstddef>
#include <cstdint>

namespace keel::ze {

using Driver = struct DriverTag*;
using Device = struct DeviceTag*;
using Context = struct ContextTag*;
using CommandList = struct CommandListTag*;
using EventPool = struct EventPoolTag*;
using Event = struct EventTag*;
using Module = struct ModuleTag*;
using BuildLog = struct BuildLogTag*;
using Kernel = struct KernelTag*;
using SysmanMemory = struct SysmanMemoryTag*;

// ze_result_t, a 32-bit enumeration.
enum Result : uint32_t {
  kSuccess = 0,
  kNotReady = 1,
  kDeviceLost = 0x70000001,
  kOutOfHostMemory = 0x70000002,
  kOutOfDeviceMemory = 0x70000003,
  kModuleBuildFailure = 0x70000004,
  kModuleLinkFailure = 0x70000005,
  kDeviceRequiresReset = 0x70000006,
  kDeviceInLowPowerState = 0x70000007,
  kInsufficientPermissions = 0x70010000,
  kNotAvailable = 0x70010001,
  kDependencyUnavailable = 0x70020000,
  kUninitialized = 0x78000001,
  kUnsupportedVersion = 0x78000002,
  kUnsupportedFeature = 0x78000003,
  kInvalidArgument = 0x78000004,
  kInvalidNullHandle = 0x78000005,
  kHandleObjectInUse = 0x78000006,
  kInvalidNullPointer = 0x78000007,
  kInvalidSize = 0x78000008,
  kUnsupportedSize = 0x78000009,
  kUnsupportedAlignment = 0x7800000a,
  kInvalidEnumeration = 0x7800000c,
  kInvalidNativeBinary = 0x7800000f,
  kInvalidKernelName = 0x78000011,
  kInvalidGroupSize = 0x78000013,
  kInvalidArgumentIndex = 0x78000015,
  kInvalidArgumentSize = 0x78000016,
  kInvalidCommandListType = 0x78000019,
  kOverlappingRegions = 0x7800001a,
  kUnknown = 0x7ffffffe
};

// ze_structure_type_t.
enum Structure : uint32_t {
  kDriverProperties = 0x1,
  kDriverIpcProperties = 0x2,
  kDeviceProperties = 0x3,
  kDeviceComputeProperties = 0x4,
  kDeviceModuleProperties = 0x5,
  kQueueGroupProperties = 0x6,
  kDeviceMemoryProperties = 0x7,
  kContextDesc = 0xd,
  kQueueDesc = 0xe,
  kEventPoolDesc = 0x10,
  kEventDesc = 0x11,
  kDeviceMemoryDesc = 0x15,
  kHostMemoryDesc = 0x16,
  kAllocationProperties = 0x17,
  kModuleDesc = 0x1b,
  kKernelDesc = 0x1d,
  kPciProperties = 0x10008
};
// zes_structure_type_t.
inline constexpr uint32_t kSysmanMemoryState = 0x1e;

// Flags and enumerations, by the member that contains them.
inline constexpr uint32_t kInitGpuOnly = 1;
inline constexpr uint32_t kDeviceTypeGpu = 1;
inline constexpr uint32_t kDeviceIntegrated = 1;
inline constexpr uint32_t kQueueGroupCompute = 1;
inline constexpr uint32_t kQueueGroupCopy = 2;
inline constexpr uint32_t kQueueAsynchronous = 2;
enum Priority : uint32_t { kPriorityNormal = 0, kPriorityLow = 1, kPriorityHigh = 2 };
inline constexpr uint32_t kEventPoolHostVisible = 1;
inline constexpr uint32_t kEventScopeDevice = 2;
inline constexpr uint32_t kEventScopeHost = 4;
inline constexpr uint32_t kModuleIlSpirv = 0;
inline constexpr uint32_t kModuleFloat16 = 1;
inline constexpr uint32_t kModuleFloat64 = 2;
inline constexpr uint32_t kIpcMemory = 1;
inline constexpr uint32_t kIndirectHost = 1;
inline constexpr uint32_t kIndirectDevice = 2;
inline constexpr uint32_t kIndirectShared = 4;
enum MemoryType : uint32_t {
  kMemoryUnknown = 0,
  kMemoryHost = 1,
  kMemoryDevice = 2,
  kMemoryShared = 3
};

struct DriverProperties {
  uint32_t type = kDriverProperties;
  void* next = nullptr;
  uint8_t uuid[16] = {};
  uint32_t version = 0;
};
struct DriverIpcProperties {
  uint32_t type = kDriverIpcProperties;
  void* next = nullptr;
  uint32_t flags = 0;  // kIpcMemory
};
struct IpcMemHandle {
  char data[64];
};
struct SysmanMemoryState {
  uint32_t type = kSysmanMemoryState;
  const void* next = nullptr;
  uint32_t health = 0;
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;  // that can be allocated
};
struct DeviceProperties {
  uint32_t structure = kDeviceProperties;
  void* next = nullptr;
  uint32_t type = 0;  // kDeviceTypeGpu
  uint32_t vendor_id = 0;
  uint32_t device_id = 0;
  uint32_t flags = 0;  // kDeviceIntegrated
  uint32_t subdevice_id = 0;
  uint32_t core_clock_rate = 0;
  uint64_t max_alloc_bytes = 0;
  uint32_t max_hardware_contexts = 0;
  uint32_t max_queue_priority = 0;
  uint32_t threads_per_eu = 0;
  uint32_t eu_simd_width = 0;
  uint32_t eus_per_subslice = 0;
  uint32_t subslices_per_slice = 0;
  uint32_t slices = 0;
  uint64_t timer_resolution = 0;  // nanoseconds for a tick of the global timestamp
  uint32_t timestamp_valid_bits = 0;
  uint32_t kernel_timestamp_valid_bits = 0;
  uint8_t uuid[16] = {};
  char name[256] = {};
};
struct ComputeProperties {
  uint32_t type = kDeviceComputeProperties;
  void* next = nullptr;
  uint32_t max_group_size = 0;
  uint32_t max_group_x = 0;
  uint32_t max_group_y = 0;
  uint32_t max_group_z = 0;
  uint32_t max_groups_x = 0;
  uint32_t max_groups_y = 0;
  uint32_t max_groups_z = 0;
  uint32_t max_local_bytes = 0;
  uint32_t subgroup_sizes_count = 0;
  uint32_t subgroup_sizes[8] = {};
};
struct ModuleProperties {
  uint32_t type = kDeviceModuleProperties;
  void* next = nullptr;
  uint32_t spirv_version = 0;
  uint32_t flags = 0;  // kModuleFloat16, kModuleFloat64
  uint32_t float16_flags = 0;
  uint32_t float32_flags = 0;
  uint32_t float64_flags = 0;
  uint32_t max_arguments_bytes = 0;
  uint32_t printf_buffer_bytes = 0;
  uint8_t native_kernels[16] = {};
};
struct QueueGroupProperties {
  uint32_t type = kQueueGroupProperties;
  void* next = nullptr;
  uint32_t flags = 0;  // kQueueGroup*
  size_t max_fill_pattern = 0;
  uint32_t queues = 0;
};
struct MemoryProperties {
  uint32_t type = kDeviceMemoryProperties;
  void* next = nullptr;
  uint32_t flags = 0;
  uint32_t max_clock_rate = 0;
  uint32_t max_bus_width = 0;
  uint64_t total_bytes = 0;
  char name[256] = {};
};
struct PciProperties {
  uint32_t type = kPciProperties;
  void* next = nullptr;
  uint32_t domain = 0;
  uint32_t bus = 0;
  uint32_t device = 0;
  uint32_t function = 0;
  int32_t speed_generation = 0;
  int32_t speed_width = 0;
  int64_t speed_bandwidth = 0;
};
struct ContextDesc {
  uint32_t type = kContextDesc;
  const void* next = nullptr;
  uint32_t flags = 0;
};
struct QueueDesc {
  uint32_t type = kQueueDesc;
  const void* next = nullptr;
  uint32_t ordinal = 0;  // of the queue group
  uint32_t index = 0;    // of the queue in the group
  uint32_t flags = 0;
  uint32_t mode = kQueueAsynchronous;
  uint32_t priority = kPriorityNormal;
};
struct EventPoolDesc {
  uint32_t type = kEventPoolDesc;
  const void* next = nullptr;
  uint32_t flags = kEventPoolHostVisible;
  uint32_t count = 0;
};
struct EventDesc {
  uint32_t type = kEventDesc;
  const void* next = nullptr;
  uint32_t index = 0;
  uint32_t signal = 0;  // kEventScope*
  uint32_t wait = 0;
};
struct DeviceMemoryDesc {
  uint32_t type = kDeviceMemoryDesc;
  const void* next = nullptr;
  uint32_t flags = 0;
  uint32_t ordinal = 0;
};
struct HostMemoryDesc {
  uint32_t type = kHostMemoryDesc;
  const void* next = nullptr;
  uint32_t flags = 0;
};
struct AllocationProperties {
  uint32_t structure = kAllocationProperties;
  void* next = nullptr;
  uint32_t type = kMemoryUnknown;
  uint64_t id = 0;
  uint64_t page_bytes = 0;
};
struct ModuleDesc {
  uint32_t type = kModuleDesc;
  const void* next = nullptr;
  uint32_t format = kModuleIlSpirv;
  size_t bytes = 0;
  const uint8_t* data = nullptr;
  const char* build_flags = nullptr;
  const void* constants = nullptr;
};
struct KernelDesc {
  uint32_t type = kKernelDesc;
  const void* next = nullptr;
  uint32_t flags = 0;
  const char* name = nullptr;
};
struct GroupCount {
  uint32_t x, y, z;
};

// X(table, name, slot, arguments): the function ze<table><name> (zeInit for Init of the table
// Global). |slot| is the function's place in the table that a driver fills for the loader.
#define KEEL_ZE_FUNCTIONS(X)                                                                     \
  X(Global, Init, 0, (uint32_t flags))                                                           \
  X(Driver, Get, 0, (uint32_t * count, ze::Driver * drivers))                                    \
  X(Driver, GetApiVersion, 1, (ze::Driver driver, uint32_t * version))                           \
  X(Driver, GetProperties, 2, (ze::Driver driver, ze::DriverProperties * properties))            \
  X(Device, Get, 0, (ze::Driver driver, uint32_t * count, ze::Device * devices))                 \
  X(Device, GetProperties, 2, (ze::Device device, ze::DeviceProperties * properties))            \
  X(Device, GetComputeProperties, 3, (ze::Device device, ze::ComputeProperties * properties))    \
  X(Device, GetModuleProperties, 4, (ze::Device device, ze::ModuleProperties * properties))      \
  X(Device, GetCommandQueueGroupProperties, 5,                                                   \
    (ze::Device device, uint32_t * count, ze::QueueGroupProperties * properties))                \
  X(Device, GetMemoryProperties, 6,                                                              \
    (ze::Device device, uint32_t * count, ze::MemoryProperties * properties))                    \
  X(Device, CanAccessPeer, 12, (ze::Device device, ze::Device peer, uint8_t * value))            \
  X(Device, GetStatus, 13, (ze::Device device))                                                  \
  X(Context, Create, 0, (ze::Driver driver, const ze::ContextDesc* desc, ze::Context* context))  \
  X(Context, Destroy, 1, (ze::Context context))                                                  \
  X(CommandList, CreateImmediate, 1,                                                             \
    (ze::Context context, ze::Device device, const ze::QueueDesc* desc, ze::CommandList* list))  \
  X(CommandList, Destroy, 2, (ze::CommandList list))                                             \
  X(CommandList, AppendWriteGlobalTimestamp, 5,                                                  \
    (ze::CommandList list, uint64_t * destination, ze::Event signal, uint32_t wait_count,        \
     ze::Event * waits))                                                                         \
  X(CommandList, AppendBarrier, 6,                                                               \
    (ze::CommandList list, ze::Event signal, uint32_t wait_count, ze::Event * waits))            \
  X(CommandList, AppendMemoryCopy, 8,                                                            \
    (ze::CommandList list, void* destination, const void* source, size_t size, ze::Event signal, \
     uint32_t wait_count, ze::Event* waits))                                                     \
  X(CommandList, AppendMemoryFill, 9,                                                            \
    (ze::CommandList list, void* destination, const void* pattern, size_t pattern_size,          \
     size_t size, ze::Event signal, uint32_t wait_count, ze::Event* waits))                      \
  X(CommandList, AppendLaunchKernel, 22,                                                         \
    (ze::CommandList list, ze::Kernel kernel, const ze::GroupCount* groups, ze::Event signal,    \
     uint32_t wait_count, ze::Event* waits))                                                     \
  X(EventPool, Create, 0,                                                                        \
    (ze::Context context, const ze::EventPoolDesc* desc, uint32_t device_count,                  \
     ze::Device* devices, ze::EventPool* pool))                                                  \
  X(EventPool, Destroy, 1, (ze::EventPool pool))                                                 \
  X(Event, Create, 0, (ze::EventPool pool, const ze::EventDesc* desc, ze::Event* event))         \
  X(Event, Destroy, 1, (ze::Event event))                                                        \
  X(Event, HostSignal, 2, (ze::Event event))                                                     \
  X(Event, HostSynchronize, 3, (ze::Event event, uint64_t timeout))                              \
  X(Event, QueryStatus, 4, (ze::Event event))                                                    \
  X(Event, HostReset, 5, (ze::Event event))                                                      \
  X(Mem, AllocShared, 0,                                                                         \
    (ze::Context context, const ze::DeviceMemoryDesc* device_desc,                               \
     const ze::HostMemoryDesc* host_desc, size_t size, size_t alignment, ze::Device device,      \
     void** pointer))                                                                            \
  X(Mem, AllocDevice, 1,                                                                         \
    (ze::Context context, const ze::DeviceMemoryDesc* desc, size_t size, size_t alignment,       \
     ze::Device device, void** pointer))                                                         \
  X(Mem, AllocHost, 2,                                                                           \
    (ze::Context context, const ze::HostMemoryDesc* desc, size_t size, size_t alignment,         \
     void** pointer))                                                                            \
  X(Mem, Free, 3, (ze::Context context, void* pointer))                                          \
  X(Mem, GetAllocProperties, 4,                                                                  \
    (ze::Context context, const void* pointer, ze::AllocationProperties* properties,             \
     ze::Device* device))                                                                        \
  X(Module, Create, 0,                                                                           \
    (ze::Context context, ze::Device device, const ze::ModuleDesc* desc, ze::Module* module,     \
     ze::BuildLog* log))                                                                         \
  X(Module, Destroy, 1, (ze::Module module))                                                     \
  X(ModuleBuildLog, Destroy, 0, (ze::BuildLog log))                                              \
  X(ModuleBuildLog, GetString, 1, (ze::BuildLog log, size_t * size, char* text))                 \
  X(Kernel, Create, 0, (ze::Module module, const ze::KernelDesc* desc, ze::Kernel* kernel))      \
  X(Kernel, Destroy, 1, (ze::Kernel kernel))                                                     \
  X(Kernel, SetGroupSize, 3, (ze::Kernel kernel, uint32_t x, uint32_t y, uint32_t z))            \
  X(Kernel, SetArgumentValue, 6,                                                                 \
    (ze::Kernel kernel, uint32_t index, size_t size, const void* value))                         \
  X(Kernel, SetIndirectAccess, 7, (ze::Kernel kernel, uint32_t flags))

// Called where the driver has them.
#define KEEL_ZE_OPTIONAL_FUNCTIONS(X)                                                           \
  X(Driver, GetIpcProperties, 3, (ze::Driver driver, ze::DriverIpcProperties * properties))     \
  X(Driver, GetExtensionFunctionAddress, 5,                                                     \
    (ze::Driver driver, const char* name, void** function))                                     \
  X(Device, PciGetPropertiesExt, 17, (ze::Device device, ze::PciProperties * properties))       \
  X(Mem, GetAddressRange, 5,                                                                    \
    (ze::Context context, const void* pointer, void** base, size_t* size))                      \
  X(Mem, GetIpcHandle, 6, (ze::Context context, const void* pointer, ze::IpcMemHandle* handle)) \
  X(Mem, OpenIpcHandle, 7,                                                                      \
    (ze::Context context, ze::Device device, ze::IpcMemHandle handle, uint32_t flags,           \
     void** pointer))                                                                           \
  X(Mem, CloseIpcHandle, 8, (ze::Context context, const void* pointer))

// Likewise of the system management interface: the function zes<table><name>. A device has the same
// handle there if ZES_ENABLE_SYSMAN is 1 in the environment of zeInit.
#define KEEL_ZES_FUNCTIONS(X)                                          \
  X(Device, EnumMemoryModules, 16,                                     \
    (ze::Device device, uint32_t * count, ze::SysmanMemory * modules)) \
  X(Memory, GetState, 1, (ze::SysmanMemory module, ze::SysmanMemoryState * state))

// Functions of Intel's driver, which zeDriverGetExtensionFunctionAddress finds by these names: host
// memory of the caller becomes, and ceases to be, memory that the driver may access at any time.
inline constexpr char kImportExternalPointer[] = "zexDriverImportExternalPointer";
inline constexpr char kReleaseImportedPointer[] = "zexDriverReleaseImportedPointer";
using ImportExternalPointer = Result(Driver driver, void* pointer, size_t size);
using ReleaseImportedPointer = Result(Driver driver, void* pointer);

// X(table, slots): the tables of a driver at version 1.4, with their numbers of functions.
#define KEEL_ZE_TABLES(X) \
  X(Global, 1)            \
  X(Driver, 6)            \
  X(Device, 18)           \
  X(DeviceExp, 1)         \
  X(Context, 9)           \
  X(CommandQueue, 4)      \
  X(CommandList, 28)      \
  X(Image, 4)             \
  X(ImageExp, 2)          \
  X(Fence, 5)             \
  X(EventPool, 5)         \
  X(Event, 7)             \
  X(EventExp, 1)          \
  X(Module, 9)            \
  X(ModuleBuildLog, 2)    \
  X(Kernel, 12)           \
  X(KernelExp, 2)         \
  X(Sampler, 2)           \
  X(PhysicalMem, 2)       \
  X(Mem, 10)              \
  X(VirtualMem, 7)        \
  X(FabricVertexExp, 4)   \
  X(FabricEdgeExp, 3)

// Likewise of the tools interface, whose tables the loader looks for in the same driver.
#define KEEL_ZET_TABLES(X) \
  X(Device, 1)             \
  X(Context, 1)            \
  X(CommandList, 4)        \
  X(Module, 1)             \
  X(Kernel, 1)             \
  X(MetricGroup, 3)        \
  X(MetricGroupExp, 1)     \
  X(Metric, 2)             \
  X(MetricStreamer, 3)     \
  X(MetricQueryPool, 2)    \
  X(MetricQuery, 4)        \
  X(TracerExp, 5)          \
  X(Debug, 11)

// Likewise of the system management interface, whose tables the loader looks for in the same
// driver.
#define KEEL_ZES_TABLES(X) \
  X(Driver, 2)             \
  X(Device, 29)            \
  X(Scheduler, 8)          \
  X(PerformanceFactor, 3)  \
  X(Power, 8)              \
  X(Frequency, 17)         \
  X(Engine, 2)             \
  X(Standby, 3)            \
  X(Firmware, 2)           \
  X(Memory, 3)             \
  X(FabricPort, 6)         \
  X(Temperature, 4)        \
  X(Psu, 2)                \
  X(Fan, 6)                \
  X(Led, 4)                \
  X(Ras, 4)                \
  X(Diagnostics, 3)

// A member <table><name> for each function, NULL until found; Sysman<table><name> for those of
// system management.
struct Functions {
#define KEEL_ZE_MEMBER(table, name, slot, arguments) Result(*table##name) arguments = nullptr;
  KEEL_ZE_FUNCTIONS(KEEL_ZE_MEMBER)
  KEEL_ZE_OPTIONAL_FUNCTIONS(KEEL_ZE_MEMBER)
#undef KEEL_ZE_MEMBER
#define KEEL_ZES_MEMBER(table, name, slot, arguments) \
  Result(*Sysman##table##name) arguments = nullptr;
  KEEL_ZES_FUNCTIONS(KEEL_ZES_MEMBER)
#undef KEEL_ZES_MEMBER
};

}  // namespace keel::ze

#endif  // KEEL_VENDOR_LEVEL_ZERO_H_

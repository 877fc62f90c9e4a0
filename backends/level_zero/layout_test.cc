// SPDX-License-Identifier: Apache-2.0
// The declarations in vendor/level_zero.h have the layouts and numbers of the vendor's headers.
#include <gtest/gtest.h>
#include <level_zero/ze_api.h>
#include <level_zero/ze_ddi.h>
#include <level_zero/zes_api.h>
#include <level_zero/zes_ddi.h>

#include <cstddef>

#include "vendor/level_zero.h"

namespace keel {
namespace {

#define KEEL_SAME_SIZE(ours, theirs) static_assert(sizeof(ours) == sizeof(theirs));
KEEL_SAME_SIZE(ze::DriverProperties, ze_driver_properties_t)
KEEL_SAME_SIZE(ze::DriverIpcProperties, ze_driver_ipc_properties_t)
KEEL_SAME_SIZE(ze::IpcMemHandle, ze_ipc_mem_handle_t)
KEEL_SAME_SIZE(ze::SysmanMemoryState, zes_mem_state_t)
KEEL_SAME_SIZE(ze::DeviceProperties, ze_device_properties_t)
KEEL_SAME_SIZE(ze::ComputeProperties, ze_device_compute_properties_t)
KEEL_SAME_SIZE(ze::ModuleProperties, ze_device_module_properties_t)
KEEL_SAME_SIZE(ze::QueueGroupProperties, ze_command_queue_group_properties_t)
KEEL_SAME_SIZE(ze::MemoryProperties, ze_device_memory_properties_t)
KEEL_SAME_SIZE(ze::PciProperties, ze_pci_ext_properties_t)
KEEL_SAME_SIZE(ze::ContextDesc, ze_context_desc_t)
KEEL_SAME_SIZE(ze::QueueDesc, ze_command_queue_desc_t)
KEEL_SAME_SIZE(ze::EventPoolDesc, ze_event_pool_desc_t)
KEEL_SAME_SIZE(ze::EventDesc, ze_event_desc_t)
KEEL_SAME_SIZE(ze::DeviceMemoryDesc, ze_device_mem_alloc_desc_t)
KEEL_SAME_SIZE(ze::HostMemoryDesc, ze_host_mem_alloc_desc_t)
KEEL_SAME_SIZE(ze::AllocationProperties, ze_memory_allocation_properties_t)
KEEL_SAME_SIZE(ze::ModuleDesc, ze_module_desc_t)
KEEL_SAME_SIZE(ze::KernelDesc, ze_kernel_desc_t)
KEEL_SAME_SIZE(ze::GroupCount, ze_group_count_t)

#define KEEL_SAME_PLACE(ours, member, theirs, name) \
  static_assert(offsetof(ours, member) == offsetof(theirs, name));
KEEL_SAME_PLACE(ze::DeviceProperties, timer_resolution, ze_device_properties_t, timerResolution)
KEEL_SAME_PLACE(ze::DeviceProperties, uuid, ze_device_properties_t, uuid)
KEEL_SAME_PLACE(ze::DeviceProperties, slices, ze_device_properties_t, numSlices)
KEEL_SAME_PLACE(ze::ModuleProperties, flags, ze_device_module_properties_t, flags)
KEEL_SAME_PLACE(ze::SysmanMemoryState, free_bytes, zes_mem_state_t, free)
KEEL_SAME_PLACE(ze::SysmanMemoryState, total_bytes, zes_mem_state_t, size)
static_assert(ze::kSysmanMemoryState == ZES_STRUCTURE_TYPE_MEM_STATE);
KEEL_SAME_PLACE(ze::MemoryProperties, total_bytes, ze_device_memory_properties_t, totalSize)
KEEL_SAME_PLACE(ze::PciProperties, function, ze_pci_ext_properties_t, address.function)
KEEL_SAME_PLACE(ze::ComputeProperties, subgroup_sizes, ze_device_compute_properties_t,
                subGroupSizes)

using Global = ze_global_dditable_t;
using Driver = ze_driver_dditable_t;
using Device = ze_device_dditable_t;
using Context = ze_context_dditable_t;
using CommandList = ze_command_list_dditable_t;
using EventPool = ze_event_pool_dditable_t;
using Event = ze_event_dditable_t;
using Mem = ze_mem_dditable_t;
using Module = ze_module_dditable_t;
using ModuleBuildLog = ze_module_build_log_dditable_t;
using Kernel = ze_kernel_dditable_t;
#define KEEL_SAME_SLOT(table, name, slot, arguments) \
  static_assert(offsetof(table, pfn##name) == sizeof(void*) * (slot));
KEEL_ZE_FUNCTIONS(KEEL_SAME_SLOT)
KEEL_ZE_OPTIONAL_FUNCTIONS(KEEL_SAME_SLOT)
#define KEEL_SAME_SYSMAN_SLOT(table, name, slot, arguments) \
  static_assert(offsetof(Sysman##table, pfn##name) == sizeof(void*) * (slot));
using SysmanDevice = zes_device_dditable_t;
using SysmanMemory = zes_memory_dditable_t;
KEEL_ZES_FUNCTIONS(KEEL_SAME_SYSMAN_SLOT)

TEST(LevelZeroLayoutTest, ResultsHaveTheVendorsNumbers) {
  const struct {
    uint32_t ours;
    uint32_t theirs;
  } kResults[] = {
      {ze::kDeviceLost, ZE_RESULT_ERROR_DEVICE_LOST},
      {ze::kOutOfDeviceMemory, ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY},
      {ze::kModuleBuildFailure, ZE_RESULT_ERROR_MODULE_BUILD_FAILURE},
      {ze::kUninitialized, ZE_RESULT_ERROR_UNINITIALIZED},
      {ze::kUnsupportedFeature, ZE_RESULT_ERROR_UNSUPPORTED_FEATURE},
      {ze::kUnsupportedSize, ZE_RESULT_ERROR_UNSUPPORTED_SIZE},
      {ze::kInvalidKernelName, ZE_RESULT_ERROR_INVALID_KERNEL_NAME},
      {ze::kInvalidArgumentSize, ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE},
      {ze::kUnknown, ZE_RESULT_ERROR_UNKNOWN},
  };
  for (const auto& result : kResults) EXPECT_EQ(result.ours, result.theirs);
}

}  // namespace
}  // namespace keel

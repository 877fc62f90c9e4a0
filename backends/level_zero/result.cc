// SPDX-License-Identifier: Apache-2.0
#include "backends/level_zero/result.h"

#include <cstdio>

namespace keel::gpu {
namespace {

struct Row {
  ze::Result result;
  keel_status status;
  const char* name;  // without the prefix ZE_RESULT_
};
constexpr Row kRows[] = {
    {ze::kSuccess, KEEL_OK, "SUCCESS"},
    {ze::kNotReady, KEEL_NOT_READY, "NOT_READY"},
    {ze::kDeviceLost, KEEL_DEVICE_LOST, "ERROR_DEVICE_LOST"},
    {ze::kOutOfHostMemory, KEEL_OUT_OF_MEMORY, "ERROR_OUT_OF_HOST_MEMORY"},
    {ze::kOutOfDeviceMemory, KEEL_OUT_OF_MEMORY, "ERROR_OUT_OF_DEVICE_MEMORY"},
    {ze::kModuleBuildFailure, KEEL_INVALID_ARGUMENT, "ERROR_MODULE_BUILD_FAILURE"},
    {ze::kModuleLinkFailure, KEEL_INVALID_ARGUMENT, "ERROR_MODULE_LINK_FAILURE"},
    {ze::kDeviceRequiresReset, KEEL_DEVICE_LOST, "ERROR_DEVICE_REQUIRES_RESET"},
    {ze::kDeviceInLowPowerState, KEEL_UNAVAILABLE, "ERROR_DEVICE_IN_LOW_POWER_STATE"},
    {ze::kInsufficientPermissions, KEEL_PERMISSION_DENIED, "ERROR_INSUFFICIENT_PERMISSIONS"},
    {ze::kNotAvailable, KEEL_UNAVAILABLE, "ERROR_NOT_AVAILABLE"},
    {ze::kDependencyUnavailable, KEEL_UNAVAILABLE, "ERROR_DEPENDENCY_UNAVAILABLE"},
    {ze::kUninitialized, KEEL_FAILED_PRECONDITION, "ERROR_UNINITIALIZED"},
    {ze::kUnsupportedVersion, KEEL_UNSUPPORTED, "ERROR_UNSUPPORTED_VERSION"},
    {ze::kUnsupportedFeature, KEEL_UNSUPPORTED, "ERROR_UNSUPPORTED_FEATURE"},
    {ze::kInvalidArgument, KEEL_INVALID_ARGUMENT, "ERROR_INVALID_ARGUMENT"},
    {ze::kInvalidNullHandle, KEEL_INVALID_ARGUMENT, "ERROR_INVALID_NULL_HANDLE"},
    {ze::kHandleObjectInUse, KEEL_FAILED_PRECONDITION, "ERROR_HANDLE_OBJECT_IN_USE"},
    {ze::kInvalidNullPointer, KEEL_INVALID_ARGUMENT, "ERROR_INVALID_NULL_POINTER"},
    {ze::kInvalidSize, KEEL_INVALID_ARGUMENT, "ERROR_INVALID_SIZE"},
    // An allocation larger than the device's memory.
    {ze::kUnsupportedSize, KEEL_OUT_OF_MEMORY, "ERROR_UNSUPPORTED_SIZE"},
    {ze::kUnsupportedAlignment, KEEL_UNSUPPORTED, "ERROR_UNSUPPORTED_ALIGNMENT"},
    {ze::kInvalidEnumeration, KEEL_INVALID_ARGUMENT, "ERROR_INVALID_ENUMERATION"},
    {ze::kInvalidNativeBinary, KEEL_INVALID_ARGUMENT, "ERROR_INVALID_NATIVE_BINARY"},
    {ze::kInvalidKernelName, KEEL_NOT_FOUND, "ERROR_INVALID_KERNEL_NAME"},
    {ze::kInvalidGroupSize, KEEL_INVALID_ARGUMENT, "ERROR_INVALID_GROUP_SIZE_DIMENSION"},
    {ze::kInvalidArgumentIndex, KEEL_INVALID_ARGUMENT, "ERROR_INVALID_KERNEL_ARGUMENT_INDEX"},
    {ze::kInvalidArgumentSize, KEEL_INVALID_ARGUMENT, "ERROR_INVALID_KERNEL_ARGUMENT_SIZE"},
    {ze::kInvalidCommandListType, KEEL_INTERNAL, "ERROR_INVALID_COMMAND_LIST_TYPE"},
    {ze::kOverlappingRegions, KEEL_INVALID_ARGUMENT, "ERROR_OVERLAPPING_REGIONS"},
    {ze::kUnknown, KEEL_INTERNAL, "ERROR_UNKNOWN"},
};

const Row* find_row(ze::Result result) {
  for (const Row& row : kRows) {
    if (row.result == result) return &row;
  }
  return nullptr;
}

}  // namespace

keel_status status_of(ze::Result result) {
  const Row* const row = find_row(result);
  return row == nullptr ? keel_status{KEEL_INTERNAL} : row->status;
}

bool is_fatal(ze::Result result) {
  return result == ze::kDeviceLost || result == ze::kDeviceRequiresReset;
}

std::string text_of(const char* call, ze::Result result) {
  const Row* const row = find_row(result);
  char number[16];
  std::snprintf(number, sizeof(number), "0x%x", static_cast<unsigned>(result));
  if (row == nullptr) return std::string(call) + ": result " + number;
  return std::string(call) + ": ZE_RESULT_" + row->name + " (" + number + ")";
}

}  // namespace keel::gpu

// SPDX-License-Identifier: Apache-2.0
// The exported functions.
#include "emulator/shims/nvml/library.h"
#include "vendor/nvml.h"

using namespace keel::emulator::nvml;  // NOLINT: the functions below are C functions

extern "C" {

nvmlReturn_t nvmlInit_v2(void) {
  try {
    return Library::get().init();
  } catch (...) {
    return NVML_ERROR_UNKNOWN;
  }
}

nvmlReturn_t nvmlShutdown(void) {
  return Library::get().shutdown();
}

const char* nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
    case NVML_SUCCESS:
      return "no error";
    case NVML_ERROR_UNINITIALIZED:
      return "not initialized";
    case NVML_ERROR_INVALID_ARGUMENT:
      return "invalid argument";
    case NVML_ERROR_NOT_SUPPORTED:
      return "not supported";
    case NVML_ERROR_NO_PERMISSION:
      return "no permission";
    case NVML_ERROR_NOT_FOUND:
      return "not found";
    case NVML_ERROR_DRIVER_NOT_LOADED:
      return "the driver is not loaded";
    case NVML_ERROR_TIMEOUT:
      return "timeout";
    case NVML_ERROR_FUNCTION_NOT_FOUND:
      return "function not found";
    case NVML_ERROR_GPU_IS_LOST:
      return "the GPU is lost";
    case NVML_ERROR_RESET_REQUIRED:
      return "the GPU needs a reset";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
      return "the driver and the library are of different versions";
    default:
      return "unknown error";
  }
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* pciBusId, nvmlDevice_t* device) {
  return answer([&](Library& library) {
    if (pciBusId == nullptr || device == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    Chip* const chip = library.find(pciBusId);
    if (chip == nullptr) return NVML_ERROR_NOT_FOUND;
    *device = reinterpret_cast<nvmlDevice_t>(chip);
    return NVML_SUCCESS;
  });
}

// Both counter types start with the process: no chip state outlives the process.
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t errorType,
                                         nvmlEccCounterType_t /*counterType*/,
                                         unsigned long long* eccCounts) {
  return answer_of(device, [&](Library& library, const Chip& chip) {
    if (eccCounts == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    *eccCounts = errorType == NVML_MEMORY_ERROR_TYPE_CORRECTED ? library.settings().corrected
                                                               : library.health(chip).uncorrected;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device,
                                                    unsigned long long* clocksEventReasons) {
  return answer_of(device, [&](const Library& library, const Chip& chip) {
    if (clocksEventReasons == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    // A chip slowed by a fault reports a thermal slowdown.
    *clocksEventReasons =
        library.health(chip).is_slowed
            ? nvmlClocksThrottleReasonHwSlowdown | nvmlClocksThrottleReasonHwThermalSlowdown
            : 0;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device,
                                                       unsigned long long* clocksThrottleReasons) {
  return nvmlDeviceGetCurrentClocksEventReasons(device, clocksThrottleReasons);
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int* corrRows,
                                       unsigned int* uncRows, unsigned int* isPending,
                                       unsigned int* failureOccurred) {
  return answer_of(device, [&](const Library& library, const Chip&) {
    if (corrRows == nullptr || uncRows == nullptr || isPending == nullptr ||
        failureOccurred == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    *corrRows = *uncRows = *isPending = 0;
    *failureOccurred = library.settings().remap_failed ? 1 : 0;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* set) {
  return answer([&](Library& library) {
    if (set == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    *set = reinterpret_cast<nvmlEventSet_t>(library.add_set());
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long eventTypes,
                                      nvmlEventSet_t set) {
  return answer_of(device, [&](Library& library, Chip& chip) {
    if (set == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    if (eventTypes != nvmlEventTypeXidCriticalError) return NVML_ERROR_NOT_SUPPORTED;
    return library.listen(reinterpret_cast<EventSet*>(set), &chip);
  });
}

// Returns NVML_ERROR_TIMEOUT before the timeout, as the real function may.
nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t* data,
                                 unsigned int /*timeoutms*/) {
  return answer([&](Library& library) {
    if (set == nullptr || data == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    return library.next(reinterpret_cast<EventSet*>(set), data);
  });
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
  return answer(
      [&](Library& library) { return library.remove_set(reinterpret_cast<EventSet*>(set)); });
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/nvml.h"

namespace keel::cuda {
namespace {

constexpr struct {
  unsigned long long bit;
  const char* text;
} kSlowdowns[] = {
    {nvmlClocksThrottleReasonHwThermalSlowdown, "heat (hardware)"},
    {nvmlClocksEventReasonSwThermalSlowdown, "heat (driver)"},
    {nvmlClocksThrottleReasonHwPowerBrakeSlowdown, "the power supply's brake"},
    {nvmlClocksEventReasonSwPowerCap, "the power limit"},
    // Reported alone if the hardware does not specify a reason.
    {nvmlClocksThrottleReasonHwSlowdown, "hardware"},
};

// Returns a text such as "heat (hardware)" for one or more reasons.
std::string slowdown_text(unsigned long long reasons) {
  constexpr unsigned long long kDetails =
      nvmlClocksThrottleReasonHwThermalSlowdown | nvmlClocksThrottleReasonHwPowerBrakeSlowdown;
  if ((reasons & kDetails) != 0) reasons &= ~nvmlClocksThrottleReasonHwSlowdown;
  std::string text;
  for (const auto& [bit, reason] : kSlowdowns) {
    if ((reasons & bit) != 0) text += (text.empty() ? "" : ", ") + std::string(reason);
  }
  return text;
}

void add(std::string* text, const std::string& more) {
  *text += (text->empty() ? "" : "; ") + more;
}

}  // namespace

bool Nvml::start() {
  if (is_started_) return reason_.empty();
  is_started_ = true;
  if (!library_.open(folder_, {"libnvidia-ml.so.1"}) ||
      !library_.find("nvmlInit_v2", &nvml_.Init) ||
      !library_.find("nvmlErrorString", &nvml_.ErrorString) ||
      !library_.find("nvmlDeviceGetHandleByPciBusId_v2", &nvml_.GetHandle)) {
    reason_ = "no NVML: " + library_.error();
    return false;
  }
  library_.find("nvmlDeviceGetTotalEccErrors", &nvml_.GetTotalEccErrors);
  // Before NVML 12.2 the function had another name; the bits are the same.
  if (!library_.find("nvmlDeviceGetCurrentClocksEventReasons", &nvml_.GetClocksReasons)) {
    library_.find("nvmlDeviceGetCurrentClocksThrottleReasons", &nvml_.GetClocksReasons);
  }
  library_.find("nvmlDeviceGetRemappedRows", &nvml_.GetRemappedRows);
  const nvmlReturn_t started = nvml_.Init();
  if (started != NVML_SUCCESS) {
    reason_ = std::string("no NVML: nvmlInit_v2: ") + nvml_.ErrorString(started);
    return false;
  }
  if (library_.find("nvmlEventSetCreate", &nvml_.EventSetCreate) &&
      library_.find("nvmlDeviceRegisterEvents", &nvml_.RegisterEvents) &&
      library_.find("nvmlEventSetWait_v2", &nvml_.EventSetWait) &&
      nvml_.EventSetCreate(&events_) != NVML_SUCCESS) {
    events_ = nullptr;
  }
  return true;
}

nvmlReturn_t Nvml::find(const std::string& pci_address, nvmlDevice_t* out_device) {
  const auto known = devices_.find(pci_address);
  if (known != devices_.end()) {
    *out_device = known->second;
    return NVML_SUCCESS;
  }
  const nvmlReturn_t found = nvml_.GetHandle(pci_address.c_str(), out_device);
  if (found != NVML_SUCCESS) return found;
  devices_[pci_address] = *out_device;
  // If registration is refused, as in some containers, Xids stay unknown.
  if (events_ != nullptr) {
    (void)nvml_.RegisterEvents(*out_device, nvmlEventTypeXidCriticalError, events_);
  }
  return NVML_SUCCESS;
}

unsigned long long Nvml::last_xid(nvmlDevice_t device) {
  // Limits the events read, so that a device that logs continuously does not block the caller.
  constexpr int kMost = 1000;
  nvmlEventData_t event = {};
  for (int i = 0; events_ != nullptr && i < kMost; ++i) {
    if (nvml_.EventSetWait(events_, &event, /*timeoutms=*/0) != NVML_SUCCESS) break;
    if (event.eventType == nvmlEventTypeXidCriticalError) xids_[event.device] = event.eventData;
  }
  const auto found = xids_.find(device);
  return found == xids_.end() ? 0 : found->second;
}

bool Nvml::Report::accept(const char* call, nvmlReturn_t result) {
  switch (result) {
    case NVML_SUCCESS:
      return true;
    // Skips values that the device lacks or the user may not read.
    case NVML_ERROR_NOT_SUPPORTED:
    case NVML_ERROR_NO_PERMISSION:
    case NVML_ERROR_FUNCTION_NOT_FOUND:
      return false;
    case NVML_ERROR_GPU_IS_LOST:
    case NVML_ERROR_RESET_REQUIRED:
      if (is_gone) return false;  // every later call fails alike
      is_gone = true;
      health.ok = 0;
      break;
    default:
      break;
  }
  add(&text, std::string(call) + ": " + nvml.ErrorString(result));
  return false;
}

void Nvml::examine(const std::string& pci_address, keel_device_health* out_health,
                   std::string* out_text) {
  const std::lock_guard lock(mutex_);
  if (!start()) return add(out_text, reason_);
  Report report = {nvml_, *out_health, *out_text};
  nvmlDevice_t device = nullptr;
  if (!report.accept("nvmlDeviceGetHandleByPciBusId_v2", find(pci_address, &device))) return;
  if (const unsigned long long xid = last_xid(device); xid != 0) {
    add(out_text, "Xid " + std::to_string(xid));
  }
  examine_memory(device, report);
  examine_clocks(device, report);
}

void Nvml::examine_memory(nvmlDevice_t device, Report& report) {
  const auto count = [&](nvmlMemoryErrorType_t type) {
    unsigned long long errors = 0;
    if (nvml_.GetTotalEccErrors == nullptr) return uint64_t{0};
    const nvmlReturn_t asked = nvml_.GetTotalEccErrors(device, type, NVML_VOLATILE_ECC, &errors);
    return report.accept("nvmlDeviceGetTotalEccErrors", asked) ? uint64_t{errors} : 0;
  };
  report.health.uncorrected_ecc = count(NVML_MEMORY_ERROR_TYPE_UNCORRECTED);
  report.health.corrected_ecc = count(NVML_MEMORY_ERROR_TYPE_CORRECTED);
  if (report.health.uncorrected_ecc != 0) {
    add(&report.text, "uncorrected ECC errors: " + std::to_string(report.health.uncorrected_ecc));
  }
  unsigned int corrected_rows = 0;
  unsigned int uncorrected_rows = 0;
  unsigned int is_pending = 0;
  unsigned int has_failed = 0;
  if (nvml_.GetRemappedRows == nullptr ||
      !report.accept("nvmlDeviceGetRemappedRows",
                     nvml_.GetRemappedRows(device, &corrected_rows, &uncorrected_rows, &is_pending,
                                           &has_failed))) {
    return;
  }
  if (has_failed != 0) {
    report.health.ok = 0;
    add(&report.text, "bad rows of its memory could not be replaced");
  } else if (is_pending != 0) {
    add(&report.text, "rows of its memory are replaced at the next reset");
  }
}

void Nvml::examine_clocks(nvmlDevice_t device, Report& report) {
  unsigned long long reasons = 0;
  if (nvml_.GetClocksReasons == nullptr ||
      !report.accept("nvmlDeviceGetCurrentClocksEventReasons",
                     nvml_.GetClocksReasons(device, &reasons))) {
    return;
  }
  const std::string slowdown = slowdown_text(reasons);
  if (slowdown.empty()) return;
  report.health.throttled = 1;
  add(&report.text, "clocks are held down by " + slowdown);
}

}  // namespace keel::cuda

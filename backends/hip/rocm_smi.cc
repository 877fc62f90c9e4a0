// SPDX-License-Identifier: Apache-2.0
#include "backends/hip/rocm_smi.h"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace keel::hip {
namespace {

// ROCm's library folder, which the loader's search path may not contain.
constexpr char kRocmFolder[] = "/opt/rocm/lib";

std::string text_of(decltype(&rsmi_status_string) status_string, rsmi_status_t status) {
  const char* text = nullptr;
  if (status_string(status, &text) == RSMI_STATUS_SUCCESS && text != nullptr) return text;
  return "error " + std::to_string(static_cast<unsigned int>(status));
}

}  // namespace

void RocmSmi::Report::add(const std::string& more) {
  text += (text.empty() ? "" : "; ") + more;
}

bool RocmSmi::Report::accept(const char* call, rsmi_status_t status) {
  switch (status) {
    case RSMI_STATUS_SUCCESS:
      return true;
    // Values that this device, kernel or user cannot read.
    case RSMI_STATUS_NOT_SUPPORTED:
    case RSMI_STATUS_FILE_ERROR:
    case RSMI_STATUS_PERMISSION:
    case RSMI_STATUS_NOT_YET_IMPLEMENTED:
    case RSMI_STATUS_NO_DATA:
      return false;
    default:
      add(std::string(call) + ": " + text_of(rsmi.status_string, status));
      return false;
  }
}

bool RocmSmi::start() {
  if (is_started_) return reason_.empty();
  is_started_ = true;
  const auto names = {"librocm_smi64.so.7", "librocm_smi64.so.6", "librocm_smi64.so.5",
                      "librocm_smi64.so.1"};
  bool is_open = library_.open(folder_, names);
  const std::string why = is_open ? "" : library_.error();
  if (!is_open && folder_.empty()) is_open = library_.open(kRocmFolder, names);
  if (!is_open) {
    reason_ = "no ROCm SMI: " + why;
    return false;
  }
  if (!library_.find("rsmi_init", &rsmi_.init) ||
      !library_.find("rsmi_status_string", &rsmi_.status_string) ||
      !library_.find("rsmi_num_monitor_devices", &rsmi_.num_monitor_devices) ||
      !library_.find("rsmi_dev_pci_id_get", &rsmi_.pci_id_get)) {
    reason_ = "no ROCm SMI: " + library_.error();
    return false;
  }
  library_.find("rsmi_dev_temp_metric_get", &rsmi_.temp_metric_get);
  library_.find("rsmi_dev_ecc_enabled_get", &rsmi_.ecc_enabled_get);
  library_.find("rsmi_dev_ecc_count_get", &rsmi_.ecc_count_get);
  library_.find("rsmi_dev_memory_reserved_pages_get", &rsmi_.reserved_pages_get);
  const rsmi_status_t started = rsmi_.init(0);
  if (started != RSMI_STATUS_SUCCESS) {
    reason_ = "no ROCm SMI: rsmi_init: " + text_of(rsmi_.status_string, started);
    return false;
  }
  return true;
}

// The library numbers all devices of the machine, whichever the runtime shows.
bool RocmSmi::find(const std::string& pci_address, uint32_t* out_index) const {
  unsigned int domain = 0;
  unsigned int bus = 0;
  unsigned int device = 0;
  unsigned int function = 0;
  // NOLINTNEXTLINE(cert-err34-c): the address has few digits.
  if (std::sscanf(pci_address.c_str(), "%8x:%2x:%2x.%1x", &domain, &bus, &device, &function) != 4) {
    return false;
  }
  constexpr uint64_t kPlace = 0xffffffff0000ffff;  // without the number of a partition
  const uint64_t wanted = uint64_t{domain} << 32 | bus << 8 | device << 3 | function;
  uint32_t count = 0;
  if (rsmi_.num_monitor_devices(&count) != RSMI_STATUS_SUCCESS) return false;
  for (uint32_t index = 0; index < count; ++index) {
    uint64_t place = 0;
    if (rsmi_.pci_id_get(index, &place) == RSMI_STATUS_SUCCESS && (place & kPlace) == wanted) {
      *out_index = index;
      return true;
    }
  }
  return false;
}

void RocmSmi::examine(const std::string& pci_address, keel_device_health* out_health,
                      std::string* out_text) {
  const std::lock_guard lock(mutex_);
  Report report = {rsmi_, *out_health, *out_text};
  if (!start()) return report.add(reason_);
  uint32_t index = 0;
  if (!find(pci_address, &index)) return report.add("ROCm SMI has no device " + pci_address);
  examine_errors(index, report);
  examine_pages(index, report);
  examine_heat(index, report);
}

void RocmSmi::examine_errors(uint32_t index, Report& report) const {
  uint64_t blocks = 0;
  if (rsmi_.ecc_enabled_get == nullptr || rsmi_.ecc_count_get == nullptr ||
      !report.accept("rsmi_dev_ecc_enabled_get", rsmi_.ecc_enabled_get(index, &blocks))) {
    return;
  }
  for (uint64_t block = RSMI_GPU_BLOCK_UMC; block <= RSMI_GPU_BLOCK_LAST; block <<= 1) {
    rsmi_error_count_t errors = {};
    if ((blocks & block) == 0 ||
        !report.accept("rsmi_dev_ecc_count_get",
                       rsmi_.ecc_count_get(index, rsmi_gpu_block_t{block}, &errors))) {
      continue;
    }
    report.health.corrected_ecc += errors.correctable_err;
    report.health.uncorrected_ecc += errors.uncorrectable_err;
  }
  if (report.health.uncorrected_ecc != 0) {
    report.add("uncorrected ECC errors: " + std::to_string(report.health.uncorrected_ecc));
  }
}

void RocmSmi::examine_pages(uint32_t index, Report& report) const {
  constexpr uint32_t kMostPages = 4096;
  uint32_t count = 0;
  if (rsmi_.reserved_pages_get == nullptr ||
      !report.accept("rsmi_dev_memory_reserved_pages_get",
                     rsmi_.reserved_pages_get(index, &count, nullptr))) {
    return;
  }
  std::vector<rsmi_retired_page_record_t> pages(std::min(count, kMostPages));
  if (pages.empty()) return;
  count = static_cast<uint32_t>(pages.size());
  const rsmi_status_t asked = rsmi_.reserved_pages_get(index, &count, pages.data());
  // A page may have been added since.
  if (asked != RSMI_STATUS_INSUFFICIENT_SIZE &&
      !report.accept("rsmi_dev_memory_reserved_pages_get", asked)) {
    return;
  }
  const auto has = [&](rsmi_memory_page_status_t status) {
    return std::any_of(pages.begin(), pages.end(),
                       [status](const auto& page) { return page.status == status; });
  };
  if (has(RSMI_MEM_PAGE_STATUS_UNRESERVABLE)) {
    report.health.ok = 0;
    report.add("bad pages of its memory could not be retired");
  } else if (has(RSMI_MEM_PAGE_STATUS_PENDING)) {
    report.add("pages of its memory are still to be retired");
  }
}

// The library does not tell why clocks are low in a form that all its releases share. At its
// critical temperature a device lowers them.
void RocmSmi::examine_heat(uint32_t index, Report& report) const {
  if (rsmi_.temp_metric_get == nullptr) return;
  for (const auto& [sensor, name] : {std::pair{RSMI_TEMP_TYPE_JUNCTION, "its hottest spot"},
                                     std::pair{RSMI_TEMP_TYPE_EDGE, "its edge"}}) {
    int64_t current = 0;
    int64_t critical = 0;
    if (!report.accept("rsmi_dev_temp_metric_get",
                       rsmi_.temp_metric_get(index, sensor, RSMI_TEMP_CURRENT, &current)) ||
        !report.accept("rsmi_dev_temp_metric_get",
                       rsmi_.temp_metric_get(index, sensor, RSMI_TEMP_CRITICAL, &critical))) {
      continue;
    }
    if (critical <= 0 || current < critical) return;
    report.health.throttled = 1;
    return report.add(std::string(name) + " has " + std::to_string(current / 1000) +
                      " degrees Celsius of " + std::to_string(critical / 1000) + " allowed");
  }
}

}  // namespace keel::hip

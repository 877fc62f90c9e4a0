// SPDX-License-Identifier: Apache-2.0
// The exported functions.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "emulator/shims/rocm_smi/library.h"

namespace keel::emulator::rocm_smi {
namespace {

// Runs |body| with the state of chip |index|, for a query of its condition if |is_condition|; lets
// no exception escape.
template <typename Body>
rsmi_status_t answer_of(uint32_t index, const void* out, bool is_condition, Body&& body) noexcept {
  try {
    Library& library = Library::get();
    const rsmi_status_t ready = library.ready();
    if (ready != RSMI_STATUS_SUCCESS) return ready;
    cuda::ChipHealth health;
    if (out == nullptr || !library.health(index, &health)) return RSMI_STATUS_INVALID_ARGS;
    const rsmi_status_t refusal = library.settings().device;
    if (is_condition && refusal != RSMI_STATUS_SUCCESS) return refusal;
    return std::forward<Body>(body)(library.settings(), health);
  } catch (...) {
    return RSMI_STATUS_INTERNAL_EXCEPTION;
  }
}

}  // namespace
}  // namespace keel::emulator::rocm_smi

using namespace keel::emulator::rocm_smi;  // NOLINT: the functions below are C functions
using keel::emulator::cuda::ChipHealth;

extern "C" {

rsmi_status_t rsmi_init(uint64_t /*init_flags*/) {
  try {
    return Library::get().init();
  } catch (...) {
    return RSMI_STATUS_INTERNAL_EXCEPTION;
  }
}

rsmi_status_t rsmi_shut_down() {
  return Library::get().shut_down();
}

rsmi_status_t rsmi_status_string(rsmi_status_t status, const char** status_string) {
  if (status_string == nullptr) return RSMI_STATUS_INVALID_ARGS;
  switch (status) {
    case RSMI_STATUS_SUCCESS:
      *status_string = "success";
      break;
    case RSMI_STATUS_INVALID_ARGS:
      *status_string = "invalid arguments";
      break;
    case RSMI_STATUS_INIT_ERROR:
      *status_string = "an error during initialisation";
      break;
    case RSMI_STATUS_INTERNAL_EXCEPTION:
      *status_string = "an internal exception";
      break;
    default:
      *status_string = "an unknown error";
  }
  return RSMI_STATUS_SUCCESS;
}

rsmi_status_t rsmi_num_monitor_devices(uint32_t* num_devices) {
  const rsmi_status_t ready = Library::get().ready();
  if (ready != RSMI_STATUS_SUCCESS) return ready;
  if (num_devices == nullptr) return RSMI_STATUS_INVALID_ARGS;
  ChipHealth ignored;
  for (*num_devices = 0; Library::get().health(*num_devices, &ignored);) ++*num_devices;
  return RSMI_STATUS_SUCCESS;
}

rsmi_status_t rsmi_dev_pci_id_get(uint32_t dv_ind, uint64_t* bdfid) {
  return answer_of(dv_ind, bdfid, false, [&](const Settings&, const ChipHealth& health) {
    unsigned int domain = 0;
    unsigned int bus = 0;
    unsigned int device = 0;
    unsigned int function = 0;
    // NOLINTNEXTLINE(cert-err34-c): the address is the emulator's own.
    (void)std::sscanf(health.pci_address, "%x:%x:%x.%x", &domain, &bus, &device, &function);
    // As if the device were partition 1.
    *bdfid = uint64_t{domain} << 32 | 1U << 28 | bus << 8 | device << 3 | function;
    return RSMI_STATUS_SUCCESS;
  });
}

// A chip slowed by a fault is hot. There is no sensor but the junction's.
rsmi_status_t rsmi_dev_temp_metric_get(uint32_t dv_ind, uint32_t sensor_type,
                                       rsmi_temperature_metric_t metric, int64_t* temperature) {
  return answer_of(dv_ind, temperature, true, [&](const Settings&, const ChipHealth& health) {
    if (sensor_type != RSMI_TEMP_TYPE_JUNCTION) return RSMI_STATUS_NOT_SUPPORTED;
    if (metric != RSMI_TEMP_CURRENT && metric != RSMI_TEMP_CRITICAL) {
      return RSMI_STATUS_NOT_SUPPORTED;
    }
    *temperature = metric == RSMI_TEMP_CRITICAL ? 110000 : health.is_slowed ? 111500 : 45000;
    return RSMI_STATUS_SUCCESS;
  });
}

rsmi_status_t rsmi_dev_ecc_enabled_get(uint32_t dv_ind, uint64_t* enabled_blocks) {
  return answer_of(dv_ind, enabled_blocks, true, [&](const Settings&, const ChipHealth&) {
    *enabled_blocks = RSMI_GPU_BLOCK_UMC | RSMI_GPU_BLOCK_FUSE;
    return RSMI_STATUS_SUCCESS;
  });
}

// The memory's controller counts all errors.
rsmi_status_t rsmi_dev_ecc_count_get(uint32_t dv_ind, rsmi_gpu_block_t block,
                                     rsmi_error_count_t* ec) {
  return answer_of(dv_ind, ec, true, [&](const Settings& settings, const ChipHealth& health) {
    if (block == RSMI_GPU_BLOCK_FUSE) return RSMI_STATUS_NOT_SUPPORTED;
    if (block != RSMI_GPU_BLOCK_UMC) return RSMI_STATUS_INVALID_ARGS;
    *ec = {settings.corrected, health.uncorrected};
    return RSMI_STATUS_SUCCESS;
  });
}

rsmi_status_t rsmi_dev_memory_reserved_pages_get(uint32_t dv_ind, uint32_t* num_pages,
                                                 rsmi_retired_page_record_t* records) {
  return answer_of(dv_ind, num_pages, true, [&](const Settings& settings, const ChipHealth&) {
    const auto pages = static_cast<uint32_t>(settings.pages);
    if (records == nullptr) {
      *num_pages = pages;
      return RSMI_STATUS_SUCCESS;
    }
    const uint32_t room = *num_pages;
    *num_pages = std::min(room, pages);
    for (uint32_t i = 0; i < *num_pages; ++i) {
      const uint64_t status =
          i + 1 == pages ? settings.page_status : uint64_t{RSMI_MEM_PAGE_STATUS_RESERVED};
      records[i] = {uint64_t{i} << 12, 4096, static_cast<rsmi_memory_page_status_t>(status)};
    }
    return room < pages ? RSMI_STATUS_INSUFFICIENT_SIZE : RSMI_STATUS_SUCCESS;
  });
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
// The part of AMD's management library (librocm_smi64.so) that is called here. Names, numbers and
// layouts are those of rocm_smi/rocm_smi.h of ROCm 5.2, and the same in ROCm 6.2.
#ifndef KEEL_VENDOR_ROCM_SMI_H_
#define KEEL_VENDOR_ROCM_SMI_H_

#include <cstdint>

enum rsmi_status_t : unsigned int {
  RSMI_STATUS_SUCCESS = 0,
  RSMI_STATUS_INVALID_ARGS = 1,
  RSMI_STATUS_NOT_SUPPORTED = 2,
  RSMI_STATUS_FILE_ERROR = 3,  // for one, that the kernel lacks the file
  RSMI_STATUS_PERMISSION = 4,
  RSMI_STATUS_INTERNAL_EXCEPTION = 6,
  RSMI_STATUS_INIT_ERROR = 8,
  RSMI_STATUS_NOT_YET_IMPLEMENTED = 9,
  RSMI_STATUS_NOT_FOUND = 10,
  RSMI_STATUS_INSUFFICIENT_SIZE = 11,
  RSMI_STATUS_NO_DATA = 14,
  RSMI_STATUS_UNKNOWN_ERROR = 0xFFFFFFFF,
};

enum rsmi_temperature_metric_t : unsigned int {
  RSMI_TEMP_CURRENT = 0,
  RSMI_TEMP_CRITICAL = 5,
};
enum rsmi_temperature_type_t : unsigned int {
  RSMI_TEMP_TYPE_EDGE = 0,
  RSMI_TEMP_TYPE_JUNCTION = 1,
};

// Parts of a device that count errors; a bit each.
enum rsmi_gpu_block_t : uint64_t {
  RSMI_GPU_BLOCK_UMC = 0x1,  // the memory's controller
  RSMI_GPU_BLOCK_FUSE = 0x2000,
  RSMI_GPU_BLOCK_LAST = RSMI_GPU_BLOCK_FUSE,
};
struct rsmi_error_count_t {
  uint64_t correctable_err;
  uint64_t uncorrectable_err;
};

enum rsmi_memory_page_status_t : unsigned int {
  RSMI_MEM_PAGE_STATUS_RESERVED = 0,
  RSMI_MEM_PAGE_STATUS_PENDING = 1,  // bad, and reserved at the next opportunity
  RSMI_MEM_PAGE_STATUS_UNRESERVABLE = 2,
};
struct rsmi_retired_page_record_t {
  uint64_t page_address;
  uint64_t page_size;
  rsmi_memory_page_status_t status;
};

extern "C" {

rsmi_status_t rsmi_init(uint64_t init_flags);  // counts its callers
rsmi_status_t rsmi_shut_down();
rsmi_status_t rsmi_status_string(rsmi_status_t status, const char** status_string);
rsmi_status_t rsmi_num_monitor_devices(uint32_t* num_devices);
// Domain in the upper 32 bits; bus, device and function in the lower 16.
rsmi_status_t rsmi_dev_pci_id_get(uint32_t dv_ind, uint64_t* bdfid);
// In thousandths of a degree Celsius.
rsmi_status_t rsmi_dev_temp_metric_get(uint32_t dv_ind, uint32_t sensor_type,
                                       rsmi_temperature_metric_t metric, int64_t* temperature);
// The blocks with ECC.
rsmi_status_t rsmi_dev_ecc_enabled_get(uint32_t dv_ind, uint64_t* enabled_blocks);
rsmi_status_t rsmi_dev_ecc_count_get(uint32_t dv_ind, rsmi_gpu_block_t block,
                                     rsmi_error_count_t* ec);
// With |records| NULL, sets |*num_pages| to the number of records.
rsmi_status_t rsmi_dev_memory_reserved_pages_get(uint32_t dv_ind, uint32_t* num_pages,
                                                 rsmi_retired_page_record_t* records);

}  // extern "C"

#endif  // KEEL_VENDOR_ROCM_SMI_H_

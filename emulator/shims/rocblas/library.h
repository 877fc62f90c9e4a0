// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SHIMS_ROCBLAS_LIBRARY_H_
#define KEEL_EMULATOR_SHIMS_ROCBLAS_LIBRARY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "emulator/device.h"
#include "emulator/memory.h"
#include "emulator/shims/cuda/driver_beside.h"
#include "emulator/status.h"
#include "emulator/stream.h"
#include "vendor/rocblas.h"

namespace keel::emulator::rocblas {

// The configuration of the shim. See docs/emulator.md.
struct Settings {
  std::string version = "2.44.0.keel";             // result of rocblas_get_version_string
  rocblas_status create = rocblas_status_success;  // result of rocblas_create_handle
  rocblas_status gemm = rocblas_status_success;    // result of products
  uint64_t workspace = 4096;                       // workspace bytes of a kernel for a long k
};
// Parses KEEL_EMULATED_ROCBLAS.
Status read_settings(std::string_view text, Settings* out_settings);

// The process-wide state of the library: its settings, and the runtime shim that owns the chips and
// streams. Thread-safe.
class Library {
 public:
  // Created at the first call from the environment, never destroyed.
  static Library& get();

  const Settings& settings() const { return settings_; }
  // Return the chip of the calling thread's device, and a stream of that device. Return
  // kInvalidArgument for bad settings, kUnavailable without the emulated chip's runtime,
  // kDeviceLost with the runtime's error.
  Status chip(std::shared_ptr<Device>* out_chip) const;
  Status stream(hipStream_t handle, Stream** out_stream) const;
  // Whether the folder of kernels has the thread's device: files of kernels have the names of the
  // real library's, and no content.
  bool has_kernels() const;

  // For tests: counts of handles that exist and of enqueued products.
  std::atomic<uint64_t> handles{0};
  std::atomic<uint64_t> products{0};

 private:
  Library();

  Settings settings_;
  Status trouble_;
  cuda::DriverBeside runtime_;
  decltype(&hipGetDevice) get_device_ = nullptr;
  decltype(&hipGetDeviceProperties) get_properties_ = nullptr;
};

// The object behind a handle.
struct Handle {
  std::shared_ptr<Device> chip;
  hipStream_t stream = nullptr;
  Address workspace = 0;  // the caller's; 0: the library's own, without a kernel that wants any
  uint64_t workspace_bytes = 0;
  std::atomic<bool> is_in_use{false};
};

// Writes |why| to stderr, because the interface returns no text. Returns |result|.
rocblas_status fail(rocblas_status result, const std::string& why);

}  // namespace keel::emulator::rocblas

#endif  // KEEL_EMULATOR_SHIMS_ROCBLAS_LIBRARY_H_

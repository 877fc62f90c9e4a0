// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SHIMS_CUBLASLT_LIBRARY_H_
#define KEEL_EMULATOR_SHIMS_CUBLASLT_LIBRARY_H_

#include <cublasLt.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "emulator/device.h"
#include "emulator/shims/cuda/driver_beside.h"
#include "emulator/status.h"
#include "emulator/stream.h"

namespace keel::emulator::cublaslt {

// The configuration of the shim. See docs/emulator.md.
struct Settings {
  size_t version = CUBLAS_VERSION;                   // result of cublasLtGetVersion
  cublasStatus_t create = CUBLAS_STATUS_SUCCESS;     // result of cublasLtCreate
  cublasStatus_t heuristic = CUBLAS_STATUS_SUCCESS;  // result of the heuristic for every product
  cublasStatus_t matmul = CUBLAS_STATUS_SUCCESS;     // result of cublasLtMatmul
  bool kernels = true;        // false: the heuristic succeeds and finds no kernel
  uint64_t workspace = 4096;  // workspace bytes of a kernel for a long k
};
// Parses KEEL_EMULATED_CUBLASLT.
Status read_settings(std::string_view text, Settings* out_settings);

// The process-wide state of the library: its settings, and the driver shim that owns the chips and
// streams. Thread-safe.
class Library {
 public:
  // Created at the first call from the environment, never destroyed.
  static Library& get();

  const Settings& settings() const { return settings_; }
  // Return the chip of the calling thread's current context, and a stream of that context. Return
  // kInvalidArgument for bad settings, kUnavailable without the emulated chip's driver, kDeviceLost
  // with the driver's error.
  Status chip(std::shared_ptr<Device>* out_chip) const;
  Status stream(cudaStream_t handle, Stream** out_stream) const;

  // For tests: counts of heuristic queries and of enqueued products.
  std::atomic<uint64_t> heuristics{0};
  std::atomic<uint64_t> products{0};

 private:
  Library();

  Settings settings_;
  Status trouble_;
  cuda::DriverBeside driver_;
};

// The object behind a handle: belongs to one chip, as the real library's handle belongs to one
// context.
struct Handle {
  std::shared_ptr<Device> chip;
};

// Writes |why| to stderr, because the interface returns no text. Returns |result|.
cublasStatus_t fail(cublasStatus_t result, const std::string& why);

}  // namespace keel::emulator::cublaslt

#endif  // KEEL_EMULATOR_SHIMS_CUBLASLT_LIBRARY_H_

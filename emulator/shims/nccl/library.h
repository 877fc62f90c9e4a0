// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SHIMS_NCCL_LIBRARY_H_
#define KEEL_EMULATOR_SHIMS_NCCL_LIBRARY_H_

#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "emulator/device.h"
#include "emulator/shims/cuda/driver_beside.h"
#include "emulator/status.h"
#include "emulator/stream.h"

namespace keel::emulator::nccl {

// The configuration of the shim. See docs/emulator.md.
struct Settings {
  int version = NCCL_VERSION_CODE;  // result of ncclGetVersion
  uint64_t stuck = 0;               // number of the group that is never enqueued; 0: none
  uint64_t ids = UINT64_MAX;        // unique ids to hand out before failing
  bool aborts = true;               // false: ncclCommAbort ends no operation
};
// Parses KEEL_EMULATED_NCCL.
Status read_settings(std::string_view text, Settings* out_settings);

// The process-wide state of the library: its settings, and the driver shim that owns the chips and
// streams. Thread-safe.
class Library {
 public:
  // Created at the first call from the environment, never destroyed.
  static Library& get();

  const Settings& settings() const { return settings_; }
  // Returns why the library cannot be used: bad settings, or no driver of the emulated chip in this
  // library's folder or its parent.
  const Status& trouble() const { return trouble_; }
  // Return the chip of the calling thread's current context, and a stream of that context. Return
  // trouble(), or kDeviceLost with the driver's error.
  Status chip(std::shared_ptr<Device>* out_chip) const;
  Status stream(cudaStream_t handle, Stream** out_stream) const;
  // Counts a unique id; returns whether the limit is exceeded.
  bool is_out_of_ids() { return ++ids_ > settings_.ids; }
  // Counts a group; returns whether this group gets stuck.
  bool is_stuck() { return ++groups_ == settings_.stuck; }

 private:
  Library();

  Settings settings_;
  Status trouble_;
  cuda::DriverBeside driver_;
  std::atomic<uint64_t> ids_{0};
  std::atomic<uint64_t> groups_{0};
};

// Maps |status| to NCCL's result; ncclGetLastError returns its text on this thread.
ncclResult_t result_of(const Status& status);
ncclResult_t fail(ncclResult_t result, std::string text);
const char* last_error();

}  // namespace keel::emulator::nccl

#endif  // KEEL_EMULATOR_SHIMS_NCCL_LIBRARY_H_

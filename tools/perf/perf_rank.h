// SPDX-License-Identifier: Apache-2.0
// A rank of `keel perf`: communicator, buffers and data.
#ifndef KEEL_TOOLS_PERF_PERF_RANK_H_
#define KEEL_TOOLS_PERF_PERF_RANK_H_

#include <cstddef>
#include <cstdint>
#include <keel/keel.hpp>
#include <memory>
#include <optional>
#include <vector>

#include "tools/perf/perf_control.h"
#include "tools/perf/perf_data.h"
#include "tools/perf/perf_operation.h"

namespace keel::cli {

// A measured configuration.
struct PerfStep {
  const PerfOperation* operation;
  PerfCounts counts;
  keel_dtype dtype;
  keel_reduction reduction;
  uint32_t root;
  bool in_place;
};

// A rank's send or receive memory.
class PerfBuffer {
 public:
  // |foreign|: memory from aligned_alloc, registered with |device|.
  PerfBuffer(Device device, uint64_t bytes, bool foreign);
  ~PerfBuffer();
  PerfBuffer(const PerfBuffer&) = delete;
  PerfBuffer& operator=(const PerfBuffer&) = delete;

  std::byte* data() const { return data_; }

 private:
  Device device_;
  std::optional<Buffer> own_;
  std::byte* data_ = nullptr;
  std::byte* foreign_ = nullptr;
};

// Used by one thread. Throws keel::Error on a failure of Keel.
class PerfRank {
 public:
  PerfRank(Device device, uint32_t rank, uint32_t world, uint64_t buffer_bytes, bool foreign,
           int64_t timeout_ns);

  Device device() const { return device_; }
  uint32_t rank() const { return rank_; }
  keel_comm comm() const { return comm_.get(); }
  void set_comm(keel_comm comm) { comm_ = PerfComm(comm); }

  void start(const PerfStep& step);
  void synchronize() const;
  // Fills the send data and poisons all further buffers.
  void fill(const PerfStep& step, uint64_t seed);
  // Returns the number of result elements that differ from the elements expected for |seed|.
  uint64_t verify(const PerfStep& step, uint64_t seed);

 private:
  std::byte* send_data(const PerfStep& step) const;
  std::byte* receive_data(const PerfStep& step) const;
  PerfData data(const PerfStep& step, uint64_t seed) const;
  keel_reduction reduction_of(const PerfStep& step);
  // Both block until the copy is done.
  void upload(std::byte* to, std::span<const std::byte> from);
  void download(std::span<std::byte> to, const std::byte* from);

  Device device_;
  uint32_t rank_;
  uint32_t world_;
  bool foreign_;
  int64_t timeout_ns_;
  PerfBuffer send_;
  PerfBuffer receive_;
  Stream stream_;
  PerfComm comm_;
  std::optional<keel_reduction> premul_;
  std::vector<std::byte> host_;
  std::vector<std::byte> expected_;
};

}  // namespace keel::cli

#endif  // KEEL_TOOLS_PERF_PERF_RANK_H_

// SPDX-License-Identifier: Apache-2.0
// Memory in which a rank gathers blocks for ranks of its own host and of other hosts.
#ifndef KEEL_COLLECTIVES_HOSTS_HOST_SCRATCH_H_
#define KEEL_COLLECTIVES_HOSTS_HOST_SCRATCH_H_

#include <cstdint>
#include <memory>

#include "collectives/bridge/staging_pipeline.h"
#include "collectives/rank_context.h"
#include "core/status.h"

namespace keel {

// Scratch that the other ranks of the host reach in place, and bounce buffers for a device whose
// memory the host does not reach. For one thread.
class HostScratch {
 public:
  // |window_bytes|: of a bounce buffer.
  HostScratch(RankContext& context, uint64_t window_bytes)
      : context_(context), window_bytes_(window_bytes) {}
  ~HostScratch();
  HostScratch(const HostScratch&) = delete;
  HostScratch& operator=(const HostScratch&) = delete;

  // Makes the scratch |bytes| long or longer. The content is undefined afterwards.
  Status reserve(uint64_t bytes);
  // The start of the scratch: for Keel's calls, and for the host.
  char* data() const { return static_cast<char*>(data_); }
  char* host() const { return host_; }

  uint64_t window_bytes() const { return window_bytes_; }
  // Makes stage() ready for the next operation.
  Status prepare_stage();
  StagingPipeline& stage() { return *stage_; }
  // Waits until no copy touches the caller's memory.
  void settle();

 private:
  RankContext& context_;
  const uint64_t window_bytes_;
  std::unique_ptr<StagingPipeline> stage_;
  void* data_ = nullptr;
  char* host_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_HOST_SCRATCH_H_

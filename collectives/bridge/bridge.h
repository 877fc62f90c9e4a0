// Moves and reduces chunks between ranks through host memory.
#ifndef KEEL_COLLECTIVES_BRIDGE_BRIDGE_H_
#define KEEL_COLLECTIVES_BRIDGE_BRIDGE_H_

#include <memory>
#include <string>
#include <vector>

#include "collectives/bridge/reach.h"
#include "collectives/operation.h"
#include "core/status.h"

namespace keel {

struct BridgeOptions {
  // 2 MiB: long enough that the 30 to 90 us of a submission to a chip's queue are under
  // a tenth of the copy, short enough that a chunk stays in the second-level cache
  // between the leg that brings it and the reduction.
  uint64_t chunk_bytes = 2 << 20;
  // Chunks in flight: one arriving, one being reduced, one leaving, one of slack.
  uint32_t slots = 4;
  bool forbid_alias = false;
};

// Runs one operation at a time, on the calling thread. Each element is reduced once, in
// rank order, and its bits go to every rank.
class Bridge {
 public:
  // Rank i is on devices[i].
  Bridge(std::vector<Ref<Device>> devices, const BridgeOptions& options);

  // What each rank brings: its buffers, and the point in its stream they are ready at.
  struct Side {
    Request request;
    Ref<EventRecord> ready;
  };
  // Blocks until the operation is done on all ranks. A failure names the rank; after it
  // the reaches are made anew, since their streams may be anywhere.
  Status run(const std::vector<Side>& sides, const Patience& patience);

  // "alias" or "staged".
  const char* reach_name(uint32_t rank) const;
  const BridgeOptions& options() const { return options_; }
  // Summed over ranks and operations; after a failure only of those since.
  ReachStats stats() const;

 private:
  struct Chunk {
    const Segment* segment;
    uint64_t offset;
    uint64_t bytes;
  };

  Status prepare();
  Status run_chunks(const std::vector<Side>& sides, const std::vector<Chunk>& chunks,
                    const Patience& patience);
  Status start_chunk(const std::vector<Side>& sides, const Chunk& chunk, uint32_t slot,
                     const Patience& patience);
  Status complete_chunk(const std::vector<Side>& sides, const Chunk& chunk, uint32_t slot,
                        const Patience& patience);
  Status named(const Status& status, uint32_t rank) const;

  struct Scratch {
    std::vector<const void*> sources;
    std::vector<Place> places;
    std::vector<void*> destinations;
  };

  const std::vector<Ref<Device>> devices_;
  const BridgeOptions options_;
  Scratch scratch_;
  std::vector<std::unique_ptr<Reach>> reaches_;  // made at the first operation
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BRIDGE_BRIDGE_H_

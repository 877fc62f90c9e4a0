// SPDX-License-Identifier: Apache-2.0
// The native communicator of one rank's island.
#ifndef KEEL_COLLECTIVES_ISLANDS_ISLAND_H_
#define KEEL_COLLECTIVES_ISLANDS_ISLAND_H_

#include <keel/abi.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "collectives/islands/stream_lease.h"
#include "collectives/team.h"
#include "collectives/transports/control_segment.h"
#include "collectives/transports/patience.h"
#include "core/deadline.h"
#include "core/device.h"
#include "core/event.h"
#include "core/status.h"
#include "core/stream.h"

namespace keel {

// What the ranks of an island meet by. Crosses through shared memory as it lies here.
struct NativeId {
  uint32_t inherited = 0;  // ranks of the island, where a split has made it already
  uint32_t size = 0;
  std::array<uint8_t, 8184> bytes = {};  // HCCL's, the longest, has 4,108
};

// A rank in a plugin's own library. Its operations run on a stream of their own and are waited
// for by the calling thread, which looks meanwhile whether the library has an error, the
// communicator has failed or the deadline has passed, and then has the library give up. For one
// thread.
class Island {
 public:
  static Status make_id(Device& device, NativeId* out_id);
  // The rank is number |index| of |size| there, and its operations run on |stream|. Blocks until
  // all have come, or |segment|, of the communicator it belongs to, has failed, or |deadline| has
  // passed. |timeout_ns|: how long the library may take for each of its calls, this one and those
  // of later operations.
  static Status create(const Ref<Device>& device, const NativeId& id, uint32_t index, uint32_t size,
                       StreamLease stream, int64_t timeout_ns, const ControlSegment& segment,
                       const Deadline& deadline, std::unique_ptr<Island>* out_island);
  // Every rank of this island calls: those of |members|, by their numbers here, are one of their
  // own, in which this is number |index|, on |stream|; |*out_island| stays empty where there are
  // none. KEEL_UNSUPPORTED where the library has no splits; after any other failure this one is not
  // to be used any more.
  Status split(std::span<const uint32_t> members, uint32_t index, StreamLease stream,
               int64_t timeout_ns, const ControlSegment& segment, const Deadline& deadline,
               std::unique_ptr<Island>* out_island);
  ~Island();
  Island(const Island&) = delete;
  Island& operator=(const Island&) = delete;

  uint32_t index() const { return index_; }
  uint32_t size() const { return size_; }

  // Within the rank's device.
  struct Copy {
    void* destination;
    const void* source;
    uint64_t bytes;
  };
  // Makes |copies|, and then runs |calls| as one group, for |rank| of |team|. A failure of either
  // is one of both: the team's is returned, and the library is not to be used any more. Only a call
  // that the library has not taken is left to the caller to tell.
  Status run(const char* name, std::span<const Copy> copies, std::span<const keel_ccl_call> calls,
             Team& team, uint32_t rank, Patience& patience);

 private:
  Island(Ref<Device> device, keel_plugin_comm* native, StreamLease stream, uint32_t index,
         uint32_t size)
      : device_(std::move(device)),
        native_(native),
        stream_(std::move(stream)),
        index_(index),
        size_(size) {}

  void describe(AccessList& accesses, const keel_ccl_call& call) const;
  Status enqueue(const char* name, std::span<const Copy> copies,
                 std::span<const keel_ccl_call> calls);
  Status await(const char* name, const Ref<EventRecord>& record, const ControlSegment& segment,
               Patience& patience);
  // What the library says is wrong.
  Status async_error() const;
  // Ends what runs, up to |record|; a device on which it does not end, or where nobody can tell
  // (there is no record), is lost.
  void give_up(const Ref<EventRecord>& record);

  const Ref<Device> device_;
  keel_plugin_comm* const native_;
  bool is_stuck_ = false;  // a thread is in a call of the library's for good
  const StreamLease stream_;
  const uint32_t index_;
  const uint32_t size_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_ISLANDS_ISLAND_H_

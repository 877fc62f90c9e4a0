// SPDX-License-Identifier: Apache-2.0
// The native communicator of one rank's island: the ranks that share a native library of
// collectives (see hierarchical_plan.h).
#ifndef KEEL_COLLECTIVES_HIERARCHICAL_NATIVE_GROUP_H_
#define KEEL_COLLECTIVES_HIERARCHICAL_NATIVE_GROUP_H_

#include <keel/abi.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "collectives/hierarchical/stream_lease.h"
#include "collectives/team.h"
#include "collectives/transports/abort_record.h"
#include "collectives/transports/wait_context.h"
#include "core/deadline.h"
#include "core/device.h"
#include "core/event.h"
#include "core/status.h"
#include "core/stream.h"

namespace keel {

// The unique id with which an island's ranks bootstrap their native communicator. Ranks copy it
// bytewise through shared memory.
struct NativeId {
  uint32_t inherited = 0;  // ranks in the island if a split has made it already, else 0
  uint32_t size = 0;
  std::array<uint8_t, 8184> bytes = {};  // the longest id, HCCL's, has 4,108
};

// A rank in a plugin's native library. Its operations run on a stream of their own. The calling
// thread waits for them and meanwhile checks whether the library reports an error, the communicator
// has failed or the deadline has passed; if so, it aborts the native communicator. Used by one
// thread.
class NativeGroup {
 public:
  static Status make_id(Device& device, NativeId* out_id);
  // Joins the native communicator |id| as rank |index| of |size|, with operations on |stream|.
  // Blocks until all ranks have joined, |failures|, of the communicator that owns the island, has
  // one, or |deadline| has passed (plus 1 s in which the library may report the timeout itself).
  // |timeout_ns|: limit for each call of the library, in create() and in later operations.
  static Status create(const Ref<Device>& device, const NativeId& id, uint32_t index, uint32_t size,
                       StreamLease stream, int64_t timeout_ns, const AbortRecord& failures,
                       const Deadline& deadline, std::unique_ptr<NativeGroup>* out_group);
  // Splits the native communicator. Every rank of this island calls: the ranks |members|, numbered
  // as in this island, form a new island in which this rank is number |index| and uses |stream|.
  // |*out_group| stays empty if |members| is empty. Returns KEEL_UNSUPPORTED if the library cannot
  // split; after any other failure this island must not be used any more.
  Status split(std::span<const uint32_t> members, uint32_t index, StreamLease stream,
               int64_t timeout_ns, const AbortRecord& failures, const Deadline& deadline,
               std::unique_ptr<NativeGroup>* out_group);
  ~NativeGroup();
  NativeGroup(const NativeGroup&) = delete;
  NativeGroup& operator=(const NativeGroup&) = delete;

  uint32_t index() const { return index_; }
  uint32_t size() const { return size_; }

  // Both ends are memory of the rank's device.
  struct Copy {
    void* destination;
    const void* source;
    uint64_t bytes;
  };
  // Runs |copies| and then |calls| as one group, for |rank| of |team|, and blocks until they end.
  // After a failure aborts the team, and the native communicator too if its work may still run:
  // returns the team's failure, and the library must not be used any more.
  Status run(const char* name, std::span<const Copy> copies, std::span<const keel_ccl_call> calls,
             Team& team, uint32_t rank, WaitContext& wait_context);

 private:
  NativeGroup(Ref<Device> device, keel_plugin_comm* native, StreamLease stream, uint32_t index,
              uint32_t size)
      : device_(std::move(device)),
        native_(native),
        stream_(std::move(stream)),
        index_(index),
        size_(size) {}

  void describe(AccessList& accesses, const keel_ccl_call& call) const;
  Status enqueue(const char* name, std::span<const Copy> copies,
                 std::span<const keel_ccl_call> calls);
  Status await(const char* name, const Ref<EventRecord>& record, const AbortRecord& failures,
               WaitContext& wait_context);
  // The asynchronous error that the library reports.
  Status async_error() const;
  // Aborts the native communicator, if its library can, and waits at most 5 s for the abort to
  // return and for the aborted work: |ends| returns whether the work ends by |limit|. Then
  // is_stuck_ is up to date.
  void abort(const std::function<bool(const Deadline& limit)>& ends);
  // Aborts running work up to |record|. If the work does not end, or without a record, marks the
  // device as lost. Then is_stuck_ is up to date.
  void give_up(const Ref<EventRecord>& record);

  const Ref<Device> device_;
  keel_plugin_comm* const native_;
  // A call of the library, or its work, has not ended: the communicator must not be destroyed.
  bool is_stuck_ = false;
  const StreamLease stream_;
  const uint32_t index_;
  const uint32_t size_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HIERARCHICAL_NATIVE_GROUP_H_

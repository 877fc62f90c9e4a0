// SPDX-License-Identifier: Apache-2.0
// Runs the operations of one rank in order.
#ifndef KEEL_COLLECTIVES_RUNNER_H_
#define KEEL_COLLECTIVES_RUNNER_H_

#include <memory>
#include <optional>
#include <vector>

#include "collectives/algorithms/direct.h"
#include "collectives/algorithms/messages.h"
#include "collectives/algorithms/steps.h"
#include "collectives/flight/recorder.h"
#include "collectives/operation.h"
#include "collectives/rank_context.h"
#include "core/status.h"

namespace keel {

class Hierarchical;
struct EagerBuffers;

// A collective has three phases on every rank:
//   publish   write the call and the places of the buffers (of small buffers, the data)
//   match     wait until all ranks have published; compare the calls
//   act       run the algorithm, or the native libraries of islands
// A rank unable to take part publishes the reason, and its peers fail at once with the rank's name.
// A failure or a timeout after the first phase ends the communicator: the progress of the peers is
// unknown. For one thread.
class Runner {
 public:
  explicit Runner(RankContext& context) : context_(context), messages_(context) {}

  // Runs the operations accepted by |islands| through |islands| from now on. |islands| outlives the
  // operations.
  void use(Hierarchical* islands) { islands_ = islands; }
  bool is_native(const Request& request) const;

  // Blocks until |request| is complete or has failed. |ready|: KEEL_OK, or why the rank cannot take
  // part. |published|: the sequence number from publish_now(), with |sides|, not looked up again:
  // the caller may have freed the buffers since, effective when the operation completes.
  Status run(const Request& request, const Status& ready, FlightRecorder::Entry* entry,
             WaitContext& wait_context, std::optional<uint64_t> published = {},
             const Sides& sides = {});

  // Replaces run() for a call refused with |why|: publishes the refusal in its turn and waits until
  // the peers have called. |request| need not be valid. If |wait_context| is cancelled, the refusal
  // is published all the same.
  Status refuse(const Request& request, const Status& why, FlightRecorder::Entry* entry,
                WaitContext& wait_context);

  // Locates the buffers of |request|.
  Status make_sides(const Request& request, Sides* out_sides);

  // Before publish_now(): copies staged data on the calling thread, for the peers to read. Returns
  // false if only run() can do this.
  bool fetch_now(const Request& request, Sides* sides, WaitContext& wait_context);
  // Before run(), for a request whose buffers are ready and located in |sides| for all readers:
  // publishes the request if there is room. A caller that gets true passes |*out_published| to
  // run().
  bool publish_now(const Request& request, const Sides& sides,
                   std::optional<uint64_t>* out_published);
  // Whether all ranks have published the same call as |published|, after |turns| polls.
  bool match_now(const Request& request, uint64_t published, uint32_t turns,
                 uint64_t eager_bytes = 0);
  // Replace run() for an eager request on memory reachable by the host: publish_eager() publishes
  // the request, try_eager() completes it if all ranks have published.
  bool publish_eager(const Request& request, const EagerBuffers& buffers,
                     std::optional<uint64_t>* out_published);
  bool try_eager(const Request& request, const EagerBuffers& buffers, uint64_t published,
                 uint32_t turns);

 private:
  Status run_messages(const Request& request, const Status& ready, FlightRecorder::Entry* entry,
                      WaitContext& wait_context);
  // Sends the refusal to the peers of |transfers|, all of them refused. Returns |why|, or the
  // failure behind the end of the communicator.
  Status tell_refused(const std::vector<Transfer>& transfers, const Status& why,
                      FlightRecorder::Entry* entry, WaitContext& wait_context);
  Status run_collective(const Request& request, const Status& ready, FlightRecorder::Entry* entry,
                        WaitContext& wait_context, std::optional<uint64_t> published,
                        const Sides& published_sides);
  // Fills the operation descriptor, without the data.
  OperationDescriptor& write_descriptor_head(const Request& request, uint64_t sequence,
                                             keel_status status, uint32_t flags);
  // |more_flags|: flags of OperationDescriptor not implied by |sides|.
  void write_descriptor(const Request& request, uint64_t sequence, const Status& ready,
                        const Sides& sides, uint32_t more_flags = 0);
  Status act(const Request& request, uint64_t sequence, const Sides& sides, DirectAlgorithm& direct,
             StepsAlgorithm& steps, WaitContext& wait_context);
  Status act_native(const Request& request, WaitContext& wait_context);
  Status compare(uint64_t sequence, const Fingerprint& print, const Status& ready);

  RankContext& context_;
  PointToPointTransfers messages_;
  StepPlan plan_;                    // of the running operation; kept to avoid allocations
  Hierarchical* islands_ = nullptr;  // NULL: Keel's own algorithms run all operations
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_RUNNER_H_

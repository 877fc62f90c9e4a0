// SPDX-License-Identifier: Apache-2.0
// Runs the operations of one rank, one after the other.
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

class Islands;
struct EagerBuffers;

// A collective goes like this on every rank:
//   post      what is called, and where the buffers are (or, of small ones, the data)
//   match     wait until all have posted; compare what they call
//   act       by the algorithm, or through the native libraries of islands
// A rank that cannot take part posts why, so that the others fail at once with its name. What
// goes wrong after the posts, or does not come at all, ends the communicator: nobody can
// know any more how far the others are. For one thread.
class Runner {
 public:
  explicit Runner(RankContext& context) : context_(context), messages_(context) {}

  // Operations that |islands| takes go through it from now on. It outlives them.
  void use(Islands* islands) { islands_ = islands; }
  bool is_native(const Request& request) const;

  // Blocks until |request| is done, or failed. |ready|: KEEL_OK, or why this rank cannot
  // take part. |posted|: the number that post_now() has posted it under, with |sides|, which are
  // not looked up again: the caller may have given its buffers back since, for when it is done.
  Status run(const Request& request, const Status& ready, FlightRecorder::Entry* entry,
             Patience& patience, std::optional<uint64_t> posted = {}, const Sides& sides = {});

  // In place of run(), for a call that was refused with |why|: tells the other ranks, in its turn,
  // and waits until they have called. Of |request| nothing needs to make sense. Where |patience| is
  // cancelled the others are told all the same.
  Status refuse(const Request& request, const Status& why, FlightRecorder::Entry* entry,
                Patience& patience);

  // Where the buffers are, for |request|.
  Status make_sides(const Request& request, Sides* out_sides);

  // Before post_now(): brings what is staged to where the others read it, by this thread. False
  // if that has to be left to run().
  bool fetch_now(const Request& request, Sides* sides, Patience& patience);
  // Before run(), for a request whose buffers are ready, and where |sides| says for all who read
  // them: posts it, if there is room; run() then wants to know |*out_posted|.
  bool post_now(const Request& request, const Sides& sides, std::optional<uint64_t>* out_posted);
  // Whether all ranks have posted the same as |posted|, having looked |turns| times.
  bool match_now(const Request& request, uint64_t posted, uint32_t turns, uint64_t eager_bytes = 0);
  // In place of run(), for an eager request on memory that the host reaches: posts it; and, if all
  // ranks have, is done.
  bool post_eager(const Request& request, const EagerBuffers& buffers,
                  std::optional<uint64_t>* out_posted);
  bool try_eager(const Request& request, const EagerBuffers& buffers, uint64_t posted,
                 uint32_t turns);

 private:
  Status run_messages(const Request& request, const Status& ready, FlightRecorder::Entry* entry,
                      Patience& patience);
  // To the peers of |transfers|, all of which are refused: |why| is returned.
  Status tell_refused(const std::vector<Transfer>& transfers, const Status& why,
                      FlightRecorder::Entry* entry, Patience& patience);
  Status run_collective(const Request& request, const Status& ready, FlightRecorder::Entry* entry,
                        Patience& patience, std::optional<uint64_t> posted,
                        const Sides& posted_sides);
  // All that every post has but its data.
  Post& write_post_head(const Request& request, uint64_t sequence, keel_status status,
                        uint32_t flags);
  // |more_flags|: of Post, beyond what |sides| say.
  void write_post(const Request& request, uint64_t sequence, const Status& ready,
                  const Sides& sides, uint32_t more_flags = 0);
  Status act(const Request& request, uint64_t sequence, const Sides& sides, DirectAlgorithm& direct,
             StepsAlgorithm& steps, Patience& patience);
  Status act_native(const Request& request, Patience& patience);
  Status compare(uint64_t sequence, const Fingerprint& print, const Status& ready);

  RankContext& context_;
  MessageExchange messages_;
  StepPlan plan_;  // of the operation under way; kept, so that the next one allocates nothing
  Islands* islands_ = nullptr;  // none: all goes by Keel's own algorithms
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_RUNNER_H_

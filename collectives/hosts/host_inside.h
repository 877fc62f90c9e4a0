// SPDX-License-Identifier: Apache-2.0
// Parts of an operation between hosts that run among the ranks of one host.
#ifndef KEEL_COLLECTIVES_HOSTS_HOST_INSIDE_H_
#define KEEL_COLLECTIVES_HOSTS_HOST_INSIDE_H_

#include <cstdint>

#include "collectives/flight/flight_format.h"
#include "collectives/rank_context.h"
#include "collectives/runner.h"
#include "collectives/selection/selection.h"
#include "collectives/transports/wait_context.h"
#include "core/status.h"

namespace keel {

// For one thread.
class HostInside {
 public:
  // |inner|: the runner of the host's |size| ranks; |selection|: their algorithms.
  HostInside(RankContext& context, Runner& inner, const Selection& selection, uint32_t size)
      : context_(context), inner_(inner), selection_(selection), size_(size) {}

  // Sets algorithm and fingerprint of |part|, whose other members are set.
  void choose(Request* part) const {
    part->algorithm = selection_.choose(*part, size_);
    if (part->algorithm == Algorithm::kDirect || part->algorithm == Algorithm::kOneShot) {
      part->foreign = selection_.choose_foreign(*part, size_);
    }
    part->print = part->fingerprint();
  }
  // Blocks until |part| is complete or has failed. The ranks compare the fingerprints of |part|.
  Status run(const Request& part, WaitContext& wait_context) {
    context_.call = context_.sequence;
    return inner_.run(part, {}, &entry_, wait_context);
  }

 private:
  RankContext& context_;
  Runner& inner_;
  const Selection& selection_;
  const uint32_t size_;
  FlightEntry entry_;  // discarded: the recorder logs the whole operation
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_HOST_INSIDE_H_

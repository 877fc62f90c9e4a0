// SPDX-License-Identifier: Apache-2.0
// All-gather of control data among the ranks of a communicator, between its collectives.
#ifndef KEEL_COLLECTIVES_ALL_GATHER_CONTROL_H_
#define KEEL_COLLECTIVES_ALL_GATHER_CONTROL_H_

#include <cstring>
#include <type_traits>
#include <vector>

#include "collectives/operation.h"
#include "collectives/rank_context.h"
#include "core/status.h"

namespace keel {

// All-gathers |own|, as an operation in the sequence of the collectives, with the fingerprint
// |collective|. Calls |visit|(rank, data) for each rank in rank order; data of remote ranks may
// have been overwritten by their process.
template <typename Data, typename Visit>
Status exchange(RankContext& context, uint8_t collective, const Data& own,
                WaitContext& wait_context, const Visit& visit) {
  static_assert(std::is_trivially_copyable_v<Data> && sizeof(Data) <= OperationBoard::kEagerBytes);
  OperationBoard& board = context.board();
  const uint64_t sequence = context.sequence++;
  const auto place = [&](uint32_t rank) {
    return sizeof(Data) <= sizeof(OperationDescriptor::small)
               ? board.descriptor(rank, sequence).small
               : board.eager(rank, sequence);
  };
  Status status = board.await_room(sequence, wait_context);
  if (status.ok()) {
    OperationDescriptor& descriptor = board.descriptor(context.rank(), sequence);
    descriptor.fingerprint = {};
    descriptor.fingerprint.collective = collective;
    descriptor.status = KEEL_OK;
    descriptor.flags = context.call_flags();
    context.write_link(&descriptor);
    std::memcpy(place(context.rank()), &own, sizeof(own));
    board.publish(context.rank(), sequence);
    status = context.await_descriptors(sequence, wait_context);
  } else {
    if (status.code() == KEEL_TIMED_OUT) {
      const uint64_t oldest = sequence - OperationBoard::kDescriptors;
      status = failure(
          KEEL_TIMED_OUT, "{} did not end operation {} in time",
          context.name_ranks([&](uint32_t rank) { return !board.is_done(rank, oldest); }), oldest);
    }
    context.failures().abort(status);
  }
  KEEL_RETURN_IF_ERROR(status);
  status = context.check_calls(sequence);
  std::vector<Fingerprint> fingerprints;
  for (uint32_t rank = 0; rank < context.world(); ++rank) {
    fingerprints.push_back(board.descriptor(rank, sequence).fingerprint);
    if (status.ok()) status = context.published_status(rank, sequence);
    Data data = own;
    if (rank != context.rank()) std::memcpy(&data, place(rank), sizeof(data));
    visit(rank, data);
  }
  board.publish_done(context.rank(), sequence, context.team().is_urgent());
  KEEL_RETURN_IF_ERROR(status);
  return check_fingerprints(fingerprints);
}

// Same, collecting the data of all ranks in |*out_all|.
template <typename Data>
Status exchange(RankContext& context, uint8_t collective, const Data& own,
                WaitContext& wait_context, std::vector<Data>* out_all) {
  return exchange(context, collective, own, wait_context,
                  [&](uint32_t, const Data& data) { out_all->push_back(data); });
}

}  // namespace keel

#endif  // KEEL_COLLECTIVES_ALL_GATHER_CONTROL_H_

// SPDX-License-Identifier: Apache-2.0
// Large operations: every rank reads the buffers of all ranks in place and writes only the rank's
// own result.
#ifndef KEEL_COLLECTIVES_ALGORITHMS_DIRECT_H_
#define KEEL_COLLECTIVES_ALGORITHMS_DIRECT_H_

#include <chrono>
#include <cstdint>

#include "collectives/algorithms/pair_reduction.h"
#include "collectives/operation.h"
#include "collectives/rank_context.h"
#include "collectives/reduce/reduce.h"
#include "core/status.h"

namespace keel {

// Runs one operation once all ranks have published their buffers. The data moves in rounds of a
// chunk: ranks with unreachable buffers stage the next chunks and take the last chunks away
// meanwhile. Work of each rank:
//   copies (broadcast, all_gather, all_to_all, ...)   pulls the data for the rank
//   reduce_scatter                                    reduces the rank's piece of all buffers
//   all_reduce, reduce                                reduces a share of the chunk, then all
//                                                     ranks, or the root, gather the shares
//   all_reduce of two ranks, one staged               the staged rank's device reduces, if both
//                                                     buffers are in its reach
// Source: the reduce-scatter and all-gather composition of Rabenseifner (2004), with direct reads
// in place of messages: one pass over the data per half.
class DirectAlgorithm {
 public:
  DirectAlgorithm(RankContext& context, const Request& request, uint64_t sequence, const Side& send,
                  const Side& receive, WaitContext& wait_context);

  // Before publishing: stages the chunks of the first round. |is_fetched|: a separate instance has
  // staged the chunks for this operation.
  Status start(bool is_fetched);
  // Flags of OperationDescriptor, after start().
  uint32_t descriptor_flags() const {
    return can_sum_pair_ ? OperationDescriptor::kSumsOnDevice : 0u;
  }
  // Runs the operation, after all ranks have published.
  Status run();
  // Whether the peers read the receive side, which then needs a place.
  static bool shares_result(const Request& request, uint32_t rank);

 private:
  // Elements [begin, begin + count) of a piece.
  struct Range {
    uint64_t begin;
    uint64_t count;
  };

  Status fetch_first(bool is_fetched);
  Status run_rounds();
  // Plans the sizes of chunks and shares for staged operations; before publishing if the rank is
  // staged. The plan is equal on all ranks.
  void make_plan();
  // The bytes of |rank|'s host link, unless the operation has arrays of counts.
  LinkTraffic traffic_of(uint32_t rank) const;
  void tell_exchange(std::chrono::steady_clock::time_point begin);
  Status copy_round(uint64_t round);
  Status reduce_round(uint64_t round);
  Status share_round(uint64_t round);
  Status fetch(uint64_t round);
  Status deliver(uint64_t round);
  // Returns where the rank writes |range| of |piece|, its part |part|, in this round.
  char* target(uint64_t round, uint32_t part, const Piece& piece, const Range& range);
  // Returns where |peer| has |range| of |piece|, its part |part|, in this round.
  Status source(uint32_t peer, uint64_t round, uint32_t part, const Piece& piece,
                const Range& range, const char** out_data);
  Status shared_result(uint32_t peer, uint64_t round, const Range& range, const char** out_data);
  Range range_of(const Piece& piece, uint64_t round) const;
  // Returns the range that |peer| reduces in a chunk of |count| elements.
  Range share_of(uint32_t peer, uint64_t count) const;
  // Yields to urgent operations every few MiB of a piece.
  Status copy_in_steps(char* destination, const char* source, uint64_t bytes, Store store);
  bool reads_from(uint32_t peer) const;
  // Whether the rank's own data is already at the destination.
  bool is_in_place(uint32_t peer) const;
  bool is_read() const;

  RankContext& context_;
  const Request& request_;
  const uint64_t sequence_;
  const Side& send_;
  const Side& receive_;
  WaitContext& wait_context_;
  const uint32_t world_;
  const uint32_t rank_;
  const uint64_t element_;
  uint64_t window_ = 0;  // elements of a piece in a staged round; 0: no plan yet
  uint64_t round_elements_ = 0;
  uint64_t rounds_ = 0;
  bool any_staged_ = false;
  bool has_fetched_ = false;  // the first chunks
  PairReduction pair_reduction_;
  bool can_sum_pair_ = false;  // this rank can do its part
  // Staged data is copied by the threads of the ranks, and is complete when the ranks meet.
  const bool host_copies_;
  const bool is_copied_whole_;           // others may read all staged data: see one_shot.h
  const bool shares_;                    // all_reduce, reduce
  Store store_ = Store::kCached;         // for data that stays in this rank's buffer
  Store gather_store_ = Store::kCached;  // for shares that other ranks have reduced
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_ALGORITHMS_DIRECT_H_

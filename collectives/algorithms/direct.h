// SPDX-License-Identifier: Apache-2.0
// Large operations: every rank reads the others' buffers where they are and writes only
// its own result.
#ifndef KEEL_COLLECTIVES_ALGORITHMS_DIRECT_H_
#define KEEL_COLLECTIVES_ALGORITHMS_DIRECT_H_

#include <chrono>
#include <cstdint>

#include "collectives/algorithms/pair_sum.h"
#include "collectives/operation.h"
#include "collectives/rank_context.h"
#include "collectives/reduce.h"
#include "core/status.h"

namespace keel {

// Runs one operation once all ranks have posted where their buffers are. The data goes in
// rounds of a window: the ranks whose buffers the others cannot reach stage the next ones
// and take the last ones away meanwhile. What the ranks do:
//   copies (broadcast, all_gather, all_to_all, ...)   each pulls what is for it
//   reduce_scatter                                    each reduces its piece of all
//   all_reduce, reduce                                each reduces a share of the window, then
//                                                     all, or the root, gather the shares
//   all_reduce of two, one of them staged             that one's device, where it reaches both
// Source: the reduce-scatter and all-gather composition of Rabenseifner (2004), with
// direct reads in place of messages, which leave one pass over the data per half.
class DirectAlgorithm {
 public:
  DirectAlgorithm(RankContext& context, const Request& request, uint64_t sequence, const Side& send,
                  const Side& receive, Patience& patience);

  // Before the posts: what the first round needs of this rank's staged buffers. |is_fetched|:
  // another one has brought it for this operation.
  Status start(bool is_fetched);
  // Of Post, after start().
  uint32_t post_flags() const { return can_sum_pair_ ? Post::kSumsOnDevice : 0u; }
  // After them.
  Status run();
  // Whether the receive side is read by the others, and so has to have a place.
  static bool shares_result(const Request& request, uint32_t rank);

 private:
  // Elements [begin, begin + count) of a piece.
  struct Range {
    uint64_t begin;
    uint64_t count;
  };

  Status fetch_first(bool is_fetched);
  Status run_rounds();
  // Sizes of windows and shares, where some rank's side is staged: before the posts where it is
  // this one's. The same on all ranks.
  void make_plan();
  void tell_exchange(std::chrono::steady_clock::time_point begin);
  Status copy_round(uint64_t round);
  Status reduce_round(uint64_t round);
  Status share_round(uint64_t round);
  Status fetch(uint64_t round);
  Status deliver(uint64_t round);
  // Where this rank writes |to|'s part that begins with |range| of the round.
  char* target(uint64_t round, uint32_t part, const Piece& piece, const Range& range);
  // Where |peer| has the elements of |piece|, its part |part|, in this round.
  Status source(uint32_t peer, uint64_t round, uint32_t part, const Piece& piece,
                const Range& range, const char** out_data);
  Status shared_result(uint32_t peer, uint64_t round, const Range& range, const char** out_data);
  Range range_of(const Piece& piece, uint64_t round) const;
  // What |peer| reduces of a window of |count| elements.
  Range share_of(uint32_t peer, uint64_t count) const;
  // Lets urgent operations go first every few MiB of one piece.
  Status copy_in_steps(char* destination, const char* source, uint64_t bytes, Store store);
  bool reads_from(uint32_t peer) const;
  // Whether what this rank has for itself is where it belongs.
  bool is_in_place(uint32_t peer) const;
  bool is_read() const;

  RankContext& context_;
  const Request& request_;
  const uint64_t sequence_;
  const Side& send_;
  const Side& receive_;
  Patience& patience_;
  const uint32_t world_;
  const uint32_t rank_;
  const uint64_t element_;
  uint64_t window_ = 0;  // elements of a piece in a staged round; 0: there is no plan yet
  uint64_t round_elements_ = 0;
  uint64_t rounds_ = 0;
  bool any_staged_ = false;
  bool has_fetched_ = false;  // the first windows
  PairSum pair_sum_;
  bool can_sum_pair_ = false;  // this rank's part of it
  // What is staged is copied by the ranks' own threads, and so is there when they meet.
  const bool host_copies_;
  const bool is_copied_whole_;           // others may want all that is staged: see one_shot.h
  const bool shares_;                    // all_reduce, reduce
  Store store_ = Store::kCached;         // of what ends up in this rank's buffer for good
  Store gather_store_ = Store::kCached;  // of the shares that other ranks have reduced
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_ALGORITHMS_DIRECT_H_

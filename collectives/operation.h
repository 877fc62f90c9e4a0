// SPDX-License-Identifier: Apache-2.0
// The request of one rank, and the parts of its buffers to read and write.
#ifndef KEEL_COLLECTIVES_OPERATION_H_
#define KEEL_COLLECTIVES_OPERATION_H_

#include <keel/keel.h>

#include <cstdint>
#include <keel/plugin_kit.hpp>
#include <string>
#include <vector>

#include "collectives/element_types.h"
#include "collectives/fingerprint.h"
#include "collectives/selection/algorithm.h"
#include "collectives/selection/foreign.h"
#include "core/status.h"

namespace keel {

// A part of a buffer, in elements.
struct Piece {
  uint64_t offset = 0;
  uint64_t count = 0;

  uint64_t end() const { return count == 0 ? 0 : offset + count; }
  bool operator==(const Piece&) const = default;
};

// One message of a group of sends and receives.
struct Transfer {
  bool sends = false;
  keel_dtype dtype = KEEL_UINT8;
  uint32_t peer = 0;
  uint64_t count = 0;
  const void* source = nullptr;
  void* destination = nullptr;
  keel_status refused = KEEL_OK;  // not KEEL_OK: refused; the waiting peer receives this code

  uint64_t bytes() const { return count * element_size(dtype); }
};

// Refuses with |why| each of |transfers| not refused yet.
inline void refuse_all(std::vector<Transfer>* transfers, const Status& why) {
  for (Transfer& transfer : *transfers) {
    if (transfer.refused == KEEL_OK) transfer.refused = why.code();
  }
}

// Whether the collective is a form with arrays of counts.
constexpr bool has_arrays(keel_collective collective) {
  constexpr uint64_t kForms = 1u << KEEL_ALL_GATHER_V | 1u << KEEL_REDUCE_SCATTER_V |
                              1u << KEEL_ALL_TO_ALL_V | 1u << KEEL_GATHER_V | 1u << KEEL_SCATTER_V;
  static_assert(KEEL_COLLECTIVE_COUNT < 32);
  return (kForms >> (collective & 63) & 1) != 0;
}

// One rank's call. |count| has the meaning given by keel.h for the collective.
struct Request {
  keel_collective collective = KEEL_BARRIER;
  keel_dtype dtype = KEEL_UINT8;
  keel_reduction reduction = KEEL_SUM;
  uint32_t root = 0;
  uint64_t count = 0;
  const void* send = nullptr;
  void* receive = nullptr;
  double factor = 1;
  CalledType called;                         // where the caller's dtype is not |dtype|
  Algorithm algorithm = Algorithm::kDirect;  // the choice, equal on all ranks
  // Access of other processes to a send buffer not allocated by Keel, where the operation and the
  // kernel allow it.
  ForeignWay foreign = ForeignWay::kAttach;
  bool keeps_off_library = false;  // no native library runs the operation
  Fingerprint print;  // fingerprint() after |algorithm| is chosen: published and recorded as it is
  // One piece per rank in the forms with arrays; else empty.
  std::vector<Piece> send_pieces;
  std::vector<Piece> receive_pieces;
  std::vector<Transfer> transfers;  // for KEEL_SEND_RECV

  uint32_t element() const { return kit::dtype_size(dtype); }

  // The piece for |peer| in |rank|'s send buffer, and the piece for data from |peer| in |rank|'s
  // receive buffer. Empty if the collective moves no data between the two.
  Piece send_piece(uint32_t rank, uint32_t peer) const;
  Piece receive_piece(uint32_t rank, uint32_t peer, uint32_t world) const;
  // Number of distinct pieces in the send and in the receive buffer: 1, or one per rank.
  uint32_t send_parts(uint32_t world) const;
  uint32_t receive_parts(uint32_t world) const;
  // Bytes of |rank|'s buffers to read and to write, from the start of each buffer.
  uint64_t send_bytes(uint32_t rank, uint32_t world) const;
  uint64_t receive_bytes(uint32_t rank, uint32_t world) const;
  // Elements of the largest piece.
  uint64_t largest_piece() const;

  // All collectives without reduction have the same |reduction|. Inline, since every operation
  // outside the call cache needs a fingerprint.
  [[gnu::always_inline]] Fingerprint fingerprint() const {
    Fingerprint print;
    print.count = has_arrays(collective) ? hash_of_arrays() : called_count();
    print.collective = static_cast<uint8_t>(collective);
    print.dtype = static_cast<uint8_t>(called.is_set ? called.dtype : dtype);
    print.reduction = static_cast<uint8_t>(called.is_set ? called.reduction : reduction);
    print.algorithm = static_cast<uint8_t>(algorithm);
    print.root = root;
    return print;
  }
  // Returns |count| in the caller's elements.
  uint64_t called_count() const { return count >> called.lane_bits; }
  // Returns, for example, "all_reduce(1024 float32, sum)".
  std::string describe() const;

 private:
  // Hash of the array entries that must be equal on all ranks; takes the place of the count.
  uint64_t hash_of_arrays() const;
};

// Returns the fingerprint by which diagnostics describe |request|, after its own fingerprint is
// set: for a group of messages, the first message's.
Fingerprint told_print(const Request& request);

bool reduces(keel_collective collective);
bool has_root(keel_collective collective);

// Fingerprint::collective of the control data of a split.
inline constexpr uint8_t kSplitCollective = KEEL_COLLECTIVE_COUNT;
// Fingerprint::collective of the search for islands.
inline constexpr uint8_t kIslandsCollective = KEEL_COLLECTIVE_COUNT + 1;
// Fingerprint::collective of the rates of lanes between hosts.
inline constexpr uint8_t kLaneRatesCollective = KEEL_COLLECTIVE_COUNT + 2;

const char* collective_name(keel_collective collective);
const char* reduction_name(keel_reduction reduction);
// Describes a rank's call from the published fingerprint.
std::string describe(const Fingerprint& fingerprint);

// Returns KEEL_OK if all |fingerprints|, one per rank, are equal; else a failure with the name of
// the odd rank or, without a single odd rank (two ranks, or several camps), the call of each rank.
Status check_fingerprints(const std::vector<Fingerprint>& fingerprints);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_OPERATION_H_

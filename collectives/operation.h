// SPDX-License-Identifier: Apache-2.0
// What one rank asks for, and which parts of its buffers that is about.
#ifndef KEEL_COLLECTIVES_OPERATION_H_
#define KEEL_COLLECTIVES_OPERATION_H_

#include <keel/keel.h>

#include <cstdint>
#include <keel/plugin_kit.hpp>
#include <string>
#include <vector>

#include "collectives/selection/algorithm.h"
#include "collectives/selection/foreign.h"
#include "collectives/transports/control_segment.h"
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
  keel_status refused = KEEL_OK;  // else its peer, who waits for it, is told that this was said

  uint64_t bytes() const { return count * kit::dtype_size(dtype); }
};

// Those of |transfers| that are not refused yet are, with |why|.
inline void refuse_all(std::vector<Transfer>* transfers, const Status& why) {
  for (Transfer& transfer : *transfers) {
    if (transfer.refused == KEEL_OK) transfer.refused = why.code();
  }
}

// Whether the collective is one of those with arrays.
constexpr bool has_arrays(keel_collective collective) {
  constexpr uint64_t kForms = 1u << KEEL_ALL_GATHER_V | 1u << KEEL_REDUCE_SCATTER_V |
                              1u << KEEL_ALL_TO_ALL_V | 1u << KEEL_GATHER_V | 1u << KEEL_SCATTER_V;
  static_assert(KEEL_COLLECTIVE_COUNT < 32);
  return (kForms >> (collective & 63) & 1) != 0;
}

// One rank's call. |count| as keel.h counts it for the collective.
struct Request {
  keel_collective collective = KEEL_BARRIER;
  keel_dtype dtype = KEEL_UINT8;
  keel_reduction reduction = KEEL_SUM;
  uint32_t root = 0;
  uint64_t count = 0;
  const void* send = nullptr;
  void* receive = nullptr;
  double factor = 1;
  Algorithm algorithm = Algorithm::kDirect;  // as chosen, by all ranks alike
  // Of a send buffer that Keel did not allocate, where the operation and the kernel allow it.
  ForeignWay foreign = ForeignWay::kAttach;
  Fingerprint print;  // fingerprint(), once that is chosen: posted and recorded as it is
  // Of the forms with arrays, one a rank; empty for the others.
  std::vector<Piece> send_pieces;
  std::vector<Piece> receive_pieces;
  std::vector<Transfer> transfers;  // KEEL_SEND_RECV

  uint32_t element() const { return kit::dtype_size(dtype); }

  // What |rank| has for |peer| in its send buffer, and where it puts what comes from it.
  // Nothing where the collective moves nothing between the two.
  Piece send_piece(uint32_t rank, uint32_t peer) const;
  Piece receive_piece(uint32_t rank, uint32_t peer, uint32_t world) const;
  // Pieces in a send and in a receive buffer that differ from each other: 1, or one a rank.
  uint32_t send_parts(uint32_t world) const;
  uint32_t receive_parts(uint32_t world) const;
  // Bytes of the buffers of |rank| that are read and written, from their beginning.
  uint64_t send_bytes(uint32_t rank, uint32_t world) const;
  uint64_t receive_bytes(uint32_t rank, uint32_t world) const;
  // Elements of the largest piece.
  uint64_t largest_piece() const;

  // |reduction| is the same for all that do not reduce. In line: it is made for every operation
  // that is not known yet.
  [[gnu::always_inline]] Fingerprint fingerprint() const {
    Fingerprint print;
    print.count = has_arrays(collective) ? hash_of_arrays() : count;
    print.collective = static_cast<uint8_t>(collective);
    print.dtype = static_cast<uint8_t>(dtype);
    print.reduction = static_cast<uint8_t>(reduction);
    print.algorithm = static_cast<uint8_t>(algorithm);
    print.root = root;
    return print;
  }
  // "all_reduce(1024 float32, sum)"
  std::string describe() const;

 private:
  // What has to be equal of the arrays, in the place of the count.
  uint64_t hash_of_arrays() const;
};

// What is told of |request|, once its own fingerprint is made, to those who ask what a rank is at.
// Of a group of messages the first one tells which it is.
Fingerprint told_print(const Request& request);

bool reduces(keel_collective collective);
bool has_root(keel_collective collective);

// In the fingerprint of what ranks tell each other when they split.
inline constexpr uint8_t kSplitCollective = KEEL_COLLECTIVE_COUNT;
// And when they look for islands.
inline constexpr uint8_t kIslandsCollective = KEEL_COLLECTIVE_COUNT + 1;

const char* collective_name(keel_collective collective);
const char* reduction_name(keel_reduction reduction);
// What a rank called, from what it told the others.
std::string describe(const Fingerprint& fingerprint);

// KEEL_OK when all |fingerprints|, one a rank, are equal; else a failure that names the odd
// rank, or where there is none (two ranks, or several camps), what each one called.
Status check_fingerprints(const std::vector<Fingerprint>& fingerprints);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_OPERATION_H_

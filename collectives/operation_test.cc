// SPDX-License-Identifier: Apache-2.0
// Places of pieces beyond 32 bits, by numbers alone: no machine needs the number of ranks or the
// sizes of elements used here.
#include "collectives/operation.h"

#include <gtest/gtest.h>

#include "collectives/shares.h"

namespace keel {
namespace {

constexpr uint32_t kWorld = 9;

std::vector<uint64_t> large_counts() {
  std::vector<uint64_t> counts;
  for (const uint32_t bits : {31, 32, 33, 40}) {
    for (const int64_t more : {-1, 0, 1, 63}) counts.push_back((uint64_t{1} << bits) + more);
  }
  return counts;
}

TEST(LargeRequests, PiecesFollowEachOther) {
  for (const uint64_t count : large_counts()) {
    Request request;
    request.count = count;
    request.dtype = KEEL_FLOAT64;
    for (uint32_t peer = 0; peer < kWorld; ++peer) {
      const Piece piece = {peer * count, count};
      for (const keel_collective collective : {KEEL_REDUCE_SCATTER, KEEL_ALL_TO_ALL}) {
        request.collective = collective;
        EXPECT_EQ(request.send_piece(1, peer), piece);
      }
      for (const keel_collective collective : {KEEL_ALL_GATHER, KEEL_ALL_TO_ALL}) {
        request.collective = collective;
        EXPECT_EQ(request.receive_piece(1, peer, kWorld), piece);
      }
      request.collective = KEEL_SCATTER;
      EXPECT_EQ(request.send_piece(request.root, peer), piece);
      request.collective = KEEL_GATHER;
      EXPECT_EQ(request.receive_piece(request.root, peer, kWorld), piece);
    }
  }
}

TEST(LargeRequests, BuffersAreAsLargeAsTheirPieces) {
  for (const uint64_t count : large_counts()) {
    const uint64_t one = count * 8;
    struct {
      keel_collective collective;
      uint64_t sends;
      uint64_t receives;
    } const expected[] = {
        {KEEL_ALL_REDUCE, one, one},
        {KEEL_REDUCE, one, one},
        {KEEL_BROADCAST, one, one},
        {KEEL_ALL_GATHER, one, one * kWorld},
        {KEEL_REDUCE_SCATTER, one * kWorld, one},
        {KEEL_ALL_TO_ALL, one * kWorld, one * kWorld},
        {KEEL_GATHER, one, one * kWorld},
        {KEEL_SCATTER, one * kWorld, one},
    };
    for (const auto& [collective, sends, receives] : expected) {
      Request request;
      request.collective = collective;
      request.count = count;
      request.dtype = KEEL_FLOAT64;
      EXPECT_EQ(request.send_bytes(request.root, kWorld), sends) << request.describe();
      EXPECT_EQ(request.receive_bytes(request.root, kWorld), receives) << request.describe();
      EXPECT_EQ(request.largest_piece(), count);
    }
  }
}

TEST(LargeRequests, ArraysEndWhereTheirLastPieceDoes) {
  for (const uint64_t count : large_counts()) {
    Request request;
    request.collective = KEEL_ALL_TO_ALL_V;
    request.dtype = KEEL_FLOAT16;
    request.send_pieces = {{3 * count, 5}, {0, 2 * count}};
    request.receive_pieces = {{count, count}, {7 * count, 0}};
    EXPECT_EQ(request.send_bytes(0, 2), (3 * count + 5) * 2);
    EXPECT_EQ(request.receive_bytes(0, 2), 2 * count * 2) << "what is empty ends nowhere";
    EXPECT_EQ(request.largest_piece(), 2 * count);
    Transfer transfer;
    transfer.dtype = KEEL_FLOAT64;
    transfer.count = count;
    EXPECT_EQ(transfer.bytes(), count * 8);
  }
}

TEST(LargeRequests, CountsThatDifferInTheirUpperBitsAreOthers) {
  Request request;
  request.collective = KEEL_ALL_REDUCE;
  request.count = 5;
  const Fingerprint few = request.fingerprint();
  request.count = (uint64_t{1} << 32) + 5;
  EXPECT_FALSE(request.fingerprint() == few);
  request.collective = KEEL_ALL_GATHER_V;
  request.receive_pieces = {{0, 5}, {5, 5}};
  const Fingerprint small = request.fingerprint();
  request.receive_pieces = {{0, 5}, {(uint64_t{1} << 32) + 5, 5}};
  EXPECT_FALSE(request.fingerprint() == small);
}

TEST(LargeRequests, SharesCoverAllAndOverlapNowhere) {
  for (const uint64_t count : large_counts()) {
    for (const uint64_t element : {1, 2, 8}) {
      for (const uint64_t shares : {1, 2, 7, 1024}) {
        const uint64_t share = share_elements(count, shares, element);
        EXPECT_GE(share, (count + shares - 1) / shares);
        EXPECT_LT(share, count / shares + 1 + line_elements(element));
        EXPECT_EQ(share % line_elements(element), 0u);
      }
    }
  }
}

}  // namespace
}  // namespace keel

// SPDX-License-Identifier: Apache-2.0
#include "collectives/operation.h"

#include <algorithm>
#include <array>

namespace keel {

const char* collective_name(keel_collective collective) {
  constexpr std::array<const char*, KEEL_COLLECTIVE_COUNT + 3> kNames = {
      "all_reduce",   "reduce",           "broadcast", "all_gather", "reduce_scatter",
      "all_to_all",   "all_to_all_v",     "send",      "recv",       "barrier",
      "all_gather_v", "reduce_scatter_v", "gather",    "gather_v",   "scatter",
      "scatter_v",    "send_recv",        "split",     "islands",    "lane_rates"};
  return collective < kNames.size() ? kNames[collective] : "unknown";
}

const char* reduction_name(keel_reduction reduction) {
  constexpr std::array<const char*, KEEL_REDUCTION_COUNT> kNames = {"sum", "prod", "min",
                                                                    "max", "avg",  "premul_sum"};
  constexpr std::array<const char*, 3> kBitwise = {"band", "bor", "bxor"};
  if (is_bitwise(reduction)) return kBitwise[reduction - KEEL_BAND];
  return reduction < kNames.size() ? kNames[reduction] : "unknown";
}

bool reduces(keel_collective collective) {
  return collective == KEEL_ALL_REDUCE || collective == KEEL_REDUCE ||
         collective == KEEL_REDUCE_SCATTER || collective == KEEL_REDUCE_SCATTER_V;
}

bool has_root(keel_collective collective) {
  return collective == KEEL_REDUCE || collective == KEEL_BROADCAST || collective == KEEL_GATHER ||
         collective == KEEL_GATHER_V || collective == KEEL_SCATTER || collective == KEEL_SCATTER_V;
}

// ---- pieces ---------------------------------------------------------------------

Piece Request::send_piece(uint32_t rank, uint32_t peer) const {
  switch (collective) {
    case KEEL_ALL_REDUCE:
    case KEEL_ALL_GATHER:
      return {0, count};
    case KEEL_REDUCE:
    case KEEL_GATHER:
      return peer == root ? Piece{0, count} : Piece{};
    case KEEL_BROADCAST:
      return rank == root ? Piece{0, count} : Piece{};
    case KEEL_REDUCE_SCATTER:
    case KEEL_ALL_TO_ALL:
      return {peer * count, count};
    case KEEL_SCATTER:
      return rank == root ? Piece{peer * count, count} : Piece{};
    case KEEL_ALL_GATHER_V:
      return {0, send_pieces[rank].count};
    case KEEL_GATHER_V:
      return peer == root ? Piece{0, send_pieces[rank].count} : Piece{};
    case KEEL_REDUCE_SCATTER_V:
    case KEEL_ALL_TO_ALL_V:
      return send_pieces[peer];
    case KEEL_SCATTER_V:
      return rank == root ? send_pieces[peer] : Piece{};
    default:
      return {};
  }
}

Piece Request::receive_piece(uint32_t rank, uint32_t peer, uint32_t) const {
  switch (collective) {
    case KEEL_ALL_REDUCE:
    case KEEL_REDUCE_SCATTER:
      return {0, count};
    case KEEL_REDUCE:
      return rank == root ? Piece{0, count} : Piece{};
    case KEEL_BROADCAST:
    case KEEL_SCATTER:
      return peer == root ? Piece{0, count} : Piece{};
    case KEEL_ALL_GATHER:
    case KEEL_ALL_TO_ALL:
      return {peer * count, count};
    case KEEL_GATHER:
      return rank == root ? Piece{peer * count, count} : Piece{};
    case KEEL_ALL_GATHER_V:
    case KEEL_ALL_TO_ALL_V:
      return receive_pieces[peer];
    case KEEL_GATHER_V:
      return rank == root ? receive_pieces[peer] : Piece{};
    case KEEL_REDUCE_SCATTER_V:
      return {0, receive_pieces[rank].count};
    case KEEL_SCATTER_V:
      return peer == root ? Piece{0, receive_pieces[rank].count} : Piece{};
    default:
      return {};
  }
}

uint32_t Request::send_parts(uint32_t world) const {
  const bool has_parts = collective == KEEL_REDUCE_SCATTER || collective == KEEL_ALL_TO_ALL ||
                         collective == KEEL_SCATTER || collective == KEEL_REDUCE_SCATTER_V ||
                         collective == KEEL_ALL_TO_ALL_V || collective == KEEL_SCATTER_V;
  return has_parts ? world : 1;
}

uint32_t Request::receive_parts(uint32_t world) const {
  const bool has_parts = collective == KEEL_ALL_GATHER || collective == KEEL_ALL_TO_ALL ||
                         collective == KEEL_GATHER || collective == KEEL_ALL_GATHER_V ||
                         collective == KEEL_ALL_TO_ALL_V || collective == KEEL_GATHER_V;
  return has_parts ? world : 1;
}

namespace {

template <typename PieceOf>
uint64_t end_of(uint32_t world, const PieceOf& piece_of) {
  uint64_t end = 0;
  for (uint32_t peer = 0; peer < world; ++peer) {
    end = std::max(end, piece_of(peer).end());
  }
  return end;
}

}  // namespace

// Without arrays, the piece with the largest end is the root's if all pieces but the root's are
// empty, else the last rank's: no loop over perhaps thousands of ranks.
uint64_t Request::send_bytes(uint32_t rank, uint32_t world) const {
  const auto piece_of = [&](uint32_t peer) { return send_piece(rank, peer); };
  if (has_arrays(collective)) return element() * end_of(world, piece_of);
  const bool goes_to_root = collective == KEEL_REDUCE || collective == KEEL_GATHER;
  return element() * piece_of(goes_to_root ? root : world - 1).end();
}

uint64_t Request::receive_bytes(uint32_t rank, uint32_t world) const {
  const auto piece_of = [&](uint32_t peer) { return receive_piece(rank, peer, world); };
  if (has_arrays(collective)) return element() * end_of(world, piece_of);
  const bool comes_from_root = collective == KEEL_BROADCAST || collective == KEEL_SCATTER;
  return element() * piece_of(comes_from_root ? root : world - 1).end();
}

uint64_t Request::largest_piece() const {
  uint64_t largest = has_arrays(collective) ? 0 : count;
  for (const Piece& piece : send_pieces) largest = std::max(largest, piece.count);
  for (const Piece& piece : receive_pieces) largest = std::max(largest, piece.count);
  return largest;
}

// ---- what ranks must agree on ---------------------------------------------------

namespace {

// FNV-1a hash of the offsets and counts.
uint64_t hash_pieces(const std::vector<Piece>& pieces) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](uint64_t value) {
    for (int byte = 0; byte < 8; ++byte) {
      hash = (hash ^ (value >> (8 * byte) & 0xff)) * 0x100000001b3;
    }
  };
  for (const Piece& piece : pieces) {
    add(piece.offset);
    add(piece.count);
  }
  return hash;
}

}  // namespace

uint64_t Request::hash_of_arrays() const {
  // In all_to_all_v every rank has its own arrays, and the pieces are compared separately.
  if (collective == KEEL_ALL_TO_ALL_V) return count;
  return hash_pieces(collective == KEEL_REDUCE_SCATTER_V || collective == KEEL_SCATTER_V
                         ? send_pieces
                         : receive_pieces);
}

Fingerprint told_print(const Request& request) {
  if (request.collective != KEEL_SEND_RECV || request.transfers.empty()) return request.print;
  const Transfer& first = request.transfers.front();
  Request told;
  told.collective = KEEL_SEND_RECV;
  if (request.transfers.size() == 1) told.collective = first.sends ? KEEL_SEND : KEEL_RECV;
  told.dtype = first.dtype;
  told.root = first.peer;
  told.count = first.count;
  return told.fingerprint();
}

std::string describe(const Fingerprint& print) {
  if (print.collective == KEEL_BARRIER || print.collective == kSplitCollective ||
      print.collective == kIslandsCollective || print.collective == kLaneRatesCollective) {
    return fmt::format("{}()", collective_name(print.collective));
  }
  std::string text = fmt::format("{}(", collective_name(print.collective));
  if (!has_arrays(print.collective)) {
    text += fmt::format("{} ", print.count);
  } else if (print.collective != KEEL_ALL_TO_ALL_V) {
    text += fmt::format("arrays {:08x}, ", print.count & 0xffffffff);
  }
  text += element_name(print.dtype);
  if (reduces(print.collective)) text += fmt::format(", {}", reduction_name(print.reduction));
  if (has_root(print.collective)) text += fmt::format(", root {}", print.root);
  return text + ")";
}

std::string Request::describe() const {
  return keel::describe(fingerprint());
}

Status check_fingerprints(const std::vector<Fingerprint>& fingerprints) {
  const auto agreeing = [&](const Fingerprint& print) {
    return std::count(fingerprints.begin(), fingerprints.end(), print);
  };
  const auto world = static_cast<std::ptrdiff_t>(fingerprints.size());
  if (agreeing(fingerprints[0]) == world) return {};
  // Whether the calls are equal, except for the algorithm from the ranks' tables.
  const auto is_same_call = [&](Fingerprint print) {
    print.algorithm = fingerprints[0].algorithm;
    return print == fingerprints[0];
  };
  const bool all_same = std::all_of(fingerprints.begin(), fingerprints.end(), is_same_call);
  const auto describe = [&](const Fingerprint& print) {
    const std::string call = keel::describe(print);
    if (!all_same) return call;
    return fmt::format("{} by {}", call, algorithm_name(static_cast<Algorithm>(print.algorithm)));
  };
  for (size_t rank = 0; world > 2 && rank < fingerprints.size(); ++rank) {
    const size_t other = rank == 0 ? 1 : 0;
    if (agreeing(fingerprints[other]) == world - 1 && agreeing(fingerprints[rank]) == 1) {
      return failure(KEEL_INVALID_ARGUMENT, "mismatch: rank {} called {}, all others {}", rank,
                     describe(fingerprints[rank]), describe(fingerprints[other]));
    }
  }
  std::string text = "mismatch:";
  constexpr size_t kMostNamed = 16;
  for (size_t rank = 0; rank < fingerprints.size(); ++rank) {
    if (rank == kMostNamed) {
      text += fmt::format(" and {} ranks more", fingerprints.size() - rank);
      break;
    }
    text += fmt::format("{} rank {} called {}", rank == 0 ? "" : ",", rank,
                        describe(fingerprints[rank]));
  }
  return {KEEL_INVALID_ARGUMENT, text};
}

}  // namespace keel

// SPDX-License-Identifier: Apache-2.0
// The call interface of the emulated chip's own collectives library. As in every vendor's library,
// the enums are its own; a shim translates.
#ifndef KEEL_EMULATOR_CCL_CALL_H_
#define KEEL_EMULATOR_CCL_CALL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "emulator/memory.h"

namespace keel::emulator::ccl {

enum class Type : uint8_t {
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kFloat16,
  kBfloat16,
  kFloat32,
  kFloat64,
  kFloat8E4m3,
  kFloat8E5m2,
};
inline constexpr uint32_t kTypes = 14;
inline constexpr std::array<std::string_view, kTypes> kTypeNames = {
    "int8",   "int16",   "int32",    "int64",   "uint8",   "uint16",      "uint32",
    "uint64", "float16", "bfloat16", "float32", "float64", "float8_e4m3", "float8_e5m2"};
inline constexpr std::array<uint8_t, kTypes> kTypeBytes = {1, 2, 4, 8, 1, 2, 4,
                                                           8, 2, 2, 4, 8, 1, 1};

// One bit per type. kUsualTypes are the chip's default types: like existing libraries, the chip
// omits some types.
using TypeSet = uint32_t;
constexpr TypeSet bit(Type type) {
  return 1u << static_cast<uint32_t>(type);
}
inline constexpr TypeSet kAllTypes = (1u << kTypes) - 1;
inline constexpr TypeSet kUsualTypes =
    kAllTypes & ~(bit(Type::kInt16) | bit(Type::kUint16) | bit(Type::kFloat64) |
                  bit(Type::kFloat8E4m3) | bit(Type::kFloat8E5m2));

enum class Reduction : uint8_t { kSum, kProduct, kMin, kMax, kAverage, kScaledSum };

enum class Collective : uint8_t {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kSend,
  kReceive,
  kSplit,  // moves no data: see Communicator::split
};
// Returns whether the operation is point-to-point.
constexpr bool is_message(Collective collective) {
  return collective == Collective::kSend || collective == Collective::kReceive;
}
constexpr bool reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduce ||
         collective == Collective::kReduceScatter;
}

// A rank's call. |count| is in elements: per piece where the buffer holds a piece per rank.
struct Call {
  Collective collective = Collective::kAllReduce;
  Type type = Type::kFloat32;
  Reduction reduction = Reduction::kSum;
  uint32_t root = 0;  // of a message: the peer rank
  Address send = 0;
  Address receive = 0;
  uint64_t count = 0;
  double factor = 1;  // of kScaledSum: this rank's factor
  // For kSplit, per rank: the part that the rank joins (none if negative), and its sort key there.
  int32_t color = -1;
  int32_t key = 0;

  uint32_t element() const { return kTypeBytes[static_cast<size_t>(type)]; }
  // Returns whether the two calls belong to one operation; of a message, whether its two ends
  // match.
  bool matches(const Call& other) const {
    if (is_message(collective)) return type == other.type && count == other.count;
    return collective == other.collective && type == other.type && count == other.count &&
           root == other.root && (!reduces(collective) || reduction == other.reduction);
  }
};

// A rank's result of a split, in its memory layout. |world| 0: the rank is in no part.
struct SplitResult {
  std::array<std::byte, 128> id = {};  // UniqueId, for the rendezvous
  uint32_t rank = 0;
  uint32_t world = 0;
};

// Returns whether the call's root, type and count are valid, so that the sizes below do not
// overflow.
constexpr bool is_possible(const Call& call, uint32_t world) {
  return call.root < world && static_cast<uint32_t>(call.type) < kTypes &&
         call.count <= UINT64_MAX / 16 / world;
}
// Bytes of rank |rank|'s send buffer that other ranks may read, and of its result.
inline uint64_t sent_bytes(const Call& call, uint32_t rank, uint32_t world) {
  const uint64_t piece = call.count * call.element();
  switch (call.collective) {
    case Collective::kReceive:
    case Collective::kSplit:
      return 0;
    case Collective::kBroadcast:
      return rank == call.root ? piece : 0;
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return piece * world;
    default:
      return piece;
  }
}
inline uint64_t result_bytes(const Call& call, uint32_t rank, uint32_t world) {
  const uint64_t piece = call.count * call.element();
  switch (call.collective) {
    case Collective::kSend:
      return 0;
    case Collective::kSplit:
      return sizeof(SplitResult);
    case Collective::kReduce:
      return rank == call.root ? piece : 0;
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return piece * world;
    default:
      return piece;
  }
}

}  // namespace keel::emulator::ccl

#endif  // KEEL_EMULATOR_CCL_CALL_H_

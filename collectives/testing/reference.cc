// SPDX-License-Identifier: Apache-2.0
#include "collectives/testing/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <keel/plugin_kit.hpp>

namespace keel::testing {

namespace {

bool is_float(keel_dtype dtype) {
  return dtype >= KEEL_FLOAT16;
}
bool is_unsigned(keel_dtype dtype) {
  return KEEL_UINT8 <= dtype && dtype <= KEEL_UINT64;
}

// A pseudorandom number from all three arguments, without a period that a chunk size could match.
uint64_t noise_word(uint32_t seed, uint32_t rank, uint64_t i) {
  uint64_t x = i * 0x9e3779b97f4a7c15 + rank * 0xbf58476d1ce4e5b9 + seed * 0x94d049bb133111eb;
  return (x ^ (x >> 31)) * 0xd6e8feb86659fd93;
}
uint32_t noise(uint32_t seed, uint32_t rank, uint64_t i) {
  return static_cast<uint32_t>(noise_word(seed, rank, i) >> 32);
}

// Writes bytes [at, at + size) of |rank|'s initial memory.
void write_noise(uint32_t seed, uint32_t rank, uint64_t at, uint64_t size, char* out) {
  constexpr uint64_t kWord = sizeof(uint64_t);
  while (size != 0) {
    uint64_t word = noise_word(seed, rank, at / kWord);
    word ^= word >> 29;
    const uint64_t skipped = at % kWord;
    const uint64_t taken = std::min(kWord - skipped, size);
    std::memcpy(out, reinterpret_cast<const char*>(&word) + skipped, taken);
    at += taken;
    out += taken;
    size -= taken;
  }
}

// Small whole numbers, never 0: every sum of eight is exact in float32 in any order, and no result
// leaves the range of float8_e4m3. Products use even smaller numbers, and signs alone from the
// ninth rank on.
int input(const Case& scenario, uint32_t rank, uint64_t i) {
  const uint32_t x = noise(scenario.seed, rank, i);
  if (scenario.reduction == KEEL_PROD) {
    constexpr int kFactors[] = {1, 2, -1, -2};
    const int value = kFactors[rank < 8 ? x % 4 : x % 4 & 2];
    return is_unsigned(scenario.dtype) ? std::abs(value) : value;
  }
  const int value = static_cast<int>(x % 5) + 1;
  return is_unsigned(scenario.dtype) || x % 2 == 0 ? value : -value;
}

struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
};

uint32_t encode_small(SmallFloat format, double value) {
  const uint32_t sign =
      std::signbit(value) ? 1u << (format.exponent_bits + format.mantissa_bits) : 0u;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  // Subnormal numbers share the exponent of the smallest normal number.
  const int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  // In units of the last place, ties to even; a carry into the exponent is correct as is.
  const auto units =
      static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent)));
  const auto biased = static_cast<uint32_t>(exponent + bias - 1);
  return sign | ((biased << format.mantissa_bits) + units);
}

// encode() with a lookup table for small whole numbers, which most data are.
class Encoder {
 public:
  explicit Encoder(keel_dtype dtype) : dtype_(dtype), element_(kit::dtype_size(dtype)) {
    for (int value = -kMost; value <= kMost; ++value) encode(dtype, value, known_[value + kMost]);
  }
  void write(double value, char* out) const {
    if (!(value >= -kMost && value <= kMost) || value != std::trunc(value) ||
        (value == 0 && std::signbit(value))) {
      return encode(dtype_, value, out);
    }
    std::memcpy(out, known_[static_cast<int>(value) + kMost], element_);
  }

 private:
  static constexpr int kMost = 64;

  const keel_dtype dtype_;
  const uint64_t element_;
  char known_[2 * kMost + 1][8];
};

const Encoder& encoder_of(keel_dtype dtype) {
  static const std::vector<Encoder>* const encoders = [] {
    auto* made = new std::vector<Encoder>;
    for (keel_dtype each = KEEL_DTYPE_INVALID + 1; each < KEEL_DTYPE_COUNT; ++each) {
      made->emplace_back(each);
    }
    return made;
  }();
  return (*encoders)[dtype - KEEL_DTYPE_INVALID - 1];
}

template <typename T>
void store(T value, char* out) {
  std::memcpy(out, &value, sizeof(value));
}

}  // namespace

void encode(keel_dtype dtype, double value, char* out) {
  switch (dtype) {
    case KEEL_FLOAT16:
      return store(static_cast<uint16_t>(encode_small({5, 10}, value)), out);
    case KEEL_BFLOAT16:
      return store(static_cast<uint16_t>(encode_small({8, 7}, value)), out);
    case KEEL_FLOAT8_E4M3FN:
      return store(static_cast<uint8_t>(encode_small({4, 3}, value)), out);
    case KEEL_FLOAT8_E5M2:
      return store(static_cast<uint8_t>(encode_small({5, 2}, value)), out);
    case KEEL_FLOAT32:
      return store(static_cast<float>(value), out);
    case KEEL_FLOAT64:
      return store(value, out);
    default: {
      // Little-endian: the low bytes come first, so a value out of range wraps.
      const auto whole = static_cast<int64_t>(value);
      std::memcpy(out, &whole, kit::dtype_size(dtype));
    }
  }
}

double Case::factor(uint32_t rank) const {
  constexpr double kWhole[] = {2, 1, -1, 3};
  constexpr double kHalves[] = {0.5, 2, -1, 1.5};
  return is_float(dtype) ? kHalves[(seed + rank) % 4] : kWhole[(seed + rank) % 4];
}

std::string Case::describe() const {
  constexpr const char* kNames[kOperations] = {
      "all_reduce",   "reduce",     "reduce_scatter", "reduce_scatter_v", "broadcast", "all_gather",
      "all_gather_v", "all_to_all", "all_to_all_v",   "gather",           "gather_v",  "scatter",
      "scatter_v",    "send_recv",  "pairs",          "group_exchange",   "barrier"};
  constexpr const char* kReductions[KEEL_REDUCTION_COUNT] = {"sum", "prod", "min",
                                                             "max", "avg",  "premul_sum"};
  return fmt::format("{} of {} {}{}{}, world {}, seed {}{}{}", kNames[static_cast<int>(operation)],
                     count, kit::dtype_name(dtype), reduces() ? ", " : "",
                     reduces() ? kReductions[reduction] : "", world, seed,
                     in_place ? ", in place" : "", staged ? ", staged" : "");
}

uint64_t Arrays::extent() const {
  uint64_t end = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] != 0) end = std::max(end, offsets[i] + counts[i]);
  }
  return end;
}

Reference::Reference(const Case& scenario, uint32_t only)
    : case_(scenario), only_(only), element_(kit::dtype_size(scenario.dtype)) {
  make_arrays();
  make_buffers();
  run();
}

// ---- layout of the buffers ------------------------------------------------------

void Reference::make_arrays() {
  const uint32_t world = case_.world;
  const bool is_packed = case_.seed % 3 == 0;
  const bool is_equal =
      case_.operation == Operation::kAllToAll || case_.operation == Operation::kGroupExchange;
  // Elements from rank |from| to |to|: none, some, or more. In-place cases send equal amounts both
  // ways.
  const auto amount = [&](uint32_t from, uint32_t to) -> uint64_t {
    if (is_equal) return case_.count;
    const uint32_t pair = case_.in_place ? from * to + from + to : from * 3 + to;
    return case_.count * ((pair + case_.seed) % 3) / 2;
  };
  const auto lay_out = [&](Arrays& arrays) {
    arrays.packed = is_packed || is_equal;
    arrays.offsets.resize(world);
    uint64_t end = arrays.packed ? 0 : case_.seed % 2;
    for (uint32_t i = 0; i < world; ++i) {
      // Unless packed, in reverse order with gaps.
      const uint32_t entry = arrays.packed ? i : world - 1 - i;
      arrays.offsets[entry] = end;
      end += arrays.counts[entry] + (arrays.packed ? 0 : 1 + entry % 2);
    }
  };
  send_arrays_.resize(world);
  receive_arrays_.resize(world);
  const bool is_pairwise = is_equal || case_.operation == Operation::kAllToAllV;
  for (uint32_t rank = 0; rank < world; ++rank) {
    for (uint32_t peer = 0; peer < world; ++peer) {
      send_arrays_[rank].counts.push_back(is_pairwise ? amount(rank, peer) : amount(peer, 0));
      receive_arrays_[rank].counts.push_back(is_pairwise ? amount(peer, rank) : amount(peer, 0));
    }
    lay_out(send_arrays_[rank]);
    lay_out(receive_arrays_[rank]);
  }
}

uint64_t Reference::send_elements(uint32_t rank) const {
  const bool is_root = rank == case_.root();
  switch (case_.operation) {
    case Operation::kBroadcast:
      return is_root ? case_.count : 0;
    case Operation::kScatter:
      return is_root ? case_.world * case_.count : 0;
    case Operation::kScatterV:
      return is_root ? send_arrays_[rank].extent() : 0;
    case Operation::kReduceScatter:
      return case_.world * case_.count;
    case Operation::kReduceScatterV:
    case Operation::kAllToAll:
    case Operation::kAllToAllV:
      return send_arrays_[rank].extent();
    case Operation::kGroupExchange:
      return kMessages * send_arrays_[rank].extent();
    case Operation::kAllGatherV:
    case Operation::kGatherV:
      return send_arrays_[rank].counts[rank];
    case Operation::kBarrier:
      return 0;
    default:
      return case_.count;
  }
}

uint64_t Reference::receive_elements(uint32_t rank) const {
  const bool is_root = rank == case_.root();
  switch (case_.operation) {
    case Operation::kReduce:
      return is_root ? case_.count : 0;
    case Operation::kGather:
      return is_root ? case_.world * case_.count : 0;
    case Operation::kGatherV:
      return is_root ? receive_arrays_[rank].extent() : 0;
    case Operation::kAllGather:
      return case_.world * case_.count;
    case Operation::kAllGatherV:
    case Operation::kAllToAll:
    case Operation::kAllToAllV:
      return receive_arrays_[rank].extent();
    case Operation::kGroupExchange:
      return kMessages * receive_arrays_[rank].extent();
    case Operation::kReduceScatterV:
    case Operation::kScatterV:
      return receive_arrays_[rank].counts[rank];
    case Operation::kBarrier:
      return 0;
    default:
      return case_.count;
  }
}

void Reference::make_buffers() {
  const uint32_t world = case_.world;
  for (uint32_t rank = 0; rank < world; ++rank) {
    const uint64_t send = send_elements(rank) * element_;
    const uint64_t receive = receive_elements(rank) * element_;
    // Buffers do not always begin at an allocation's alignment.
    const uint64_t margin = 64 + case_.seed % 3 * element_;
    uint64_t send_at = margin;
    uint64_t receive_at = margin + send + margin;
    if (case_.in_place && send != 0 && receive != 0) {
      receive_at = margin;
      const uint64_t own = rank * case_.count * element_;
      switch (case_.operation) {
        case Operation::kAllGather:
        case Operation::kGather:
          send_at = receive_at + own;
          break;
        case Operation::kAllGatherV:
        case Operation::kGatherV:
          send_at = receive_at + receive_arrays_[rank].offsets[rank] * element_;
          break;
        case Operation::kReduceScatter:
        case Operation::kScatter:
          receive_at = send_at + own;
          break;
        case Operation::kReduceScatterV:
        case Operation::kScatterV:
          receive_at = send_at + send_arrays_[rank].offsets[rank] * element_;
          break;
        case Operation::kSendRecv:
        case Operation::kPairs:
        case Operation::kGroupExchange:
          receive_at = margin + send + margin;  // no in-place form
          break;
        default:
          break;
      }
    }
    send_at_.push_back(send == 0 ? kNone : send_at);
    receive_at_.push_back(receive == 0 ? kNone : receive_at);
    before_.emplace_back();
    if (!knows(rank)) continue;
    before_[rank].resize(std::max(send_at + send, receive_at + receive) + margin);
    fill(rank);
  }
  after_ = before_;
}

void Reference::fill(uint32_t rank) {
  std::string& memory = before_[rank];
  write_noise(case_.seed + 1, rank, 0, memory.size(), memory.data());
  if (!case_.reduces()) return;
  const Encoder& encoder = encoder_of(case_.dtype);
  const uint64_t count = send_elements(rank);
  for (uint64_t i = 0; i < count; ++i) {
    encoder.write(input(case_, rank, i), &memory[send_at_[rank] + i * element_]);
  }
}

// ---- results --------------------------------------------------------------------

void Reference::move(uint32_t source, uint64_t from, uint32_t rank, uint64_t to, uint64_t count) {
  if (count == 0) return;
  write_noise(case_.seed + 1, source, send_at_[source] + from * element_, count * element_,
              &after_[rank][receive_at_[rank] + to * element_]);
}

void Reference::put(uint32_t rank, uint64_t to, const std::string& bytes) {
  if (bytes.empty()) return;
  std::memcpy(&after_[rank][receive_at_[rank] + to * element_], bytes.data(), bytes.size());
}

std::string Reference::reduce(uint64_t from, uint64_t count) const {
  std::string bytes(count * element_, '\0');
  const bool has_factors = case_.reduction == KEEL_PREMUL_SUM;
  const Encoder& encoder = encoder_of(case_.dtype);
  for (uint64_t i = 0; i < count; ++i) {
    double result = 0;
    for (uint32_t rank = 0; rank < case_.world; ++rank) {
      double value = input(case_, rank, from + i);
      if (has_factors) value *= case_.factor(rank);
      if (rank == 0) {
        result = value;
      } else if (case_.reduction == KEEL_PROD) {
        result *= value;
      } else if (case_.reduction == KEEL_MIN) {
        result = std::min(result, value);
      } else if (case_.reduction == KEEL_MAX) {
        result = std::max(result, value);
      } else {
        result += value;
      }
    }
    if (case_.reduction == KEEL_AVG) {
      result /= case_.world;
      // Small floats divide in float32; integers truncate when stored.
      if (is_float(case_.dtype) && case_.dtype != KEEL_FLOAT64) result = static_cast<float>(result);
    }
    encoder.write(result, &bytes[i * element_]);
  }
  return bytes;
}

void Reference::run() {
  const bool is_same = case_.operation == Operation::kAllReduce;
  const std::string all = is_same ? reduce(0, case_.count) : "";
  for (uint32_t rank = 0; rank < case_.world; ++rank) {
    if (!knows(rank)) continue;
    if (is_same) put(rank, 0, all);
    run(rank);
  }
}

void Reference::run(uint32_t rank) {
  const uint32_t world = case_.world;
  const uint32_t root = case_.root();
  const uint64_t count = case_.count;
  const Arrays& send = send_arrays_[rank];
  const Arrays& receive = receive_arrays_[rank];
  switch (case_.operation) {
    case Operation::kReduce:
      if (rank == root) put(rank, 0, reduce(0, count));
      break;
    case Operation::kReduceScatter:
      put(rank, 0, reduce(rank * count, count));
      break;
    case Operation::kReduceScatterV:
      put(rank, 0, reduce(send.offsets[rank], send.counts[rank]));
      break;
    case Operation::kBroadcast:
      move(root, 0, rank, 0, count);
      break;
    case Operation::kScatter:
      move(root, rank * count, rank, 0, count);
      break;
    case Operation::kScatterV:
      move(root, send.offsets[rank], rank, 0, send.counts[rank]);
      break;
    case Operation::kSendRecv:
      move((rank + world - 1) % world, 0, rank, 0, count);
      break;
    case Operation::kPairs:
      if ((rank ^ 1) < world) move(rank ^ 1, 0, rank, 0, count);
      break;
    case Operation::kAllReduce:  // same result on all ranks, done by the caller
    case Operation::kBarrier:
      break;
    default:
      for (uint32_t peer = 0; peer < world; ++peer) {
        if (case_.operation == Operation::kAllGather) {
          move(peer, 0, rank, peer * count, count);
        } else if (case_.operation == Operation::kGather) {
          if (rank == root) move(peer, 0, rank, peer * count, count);
        } else if (case_.operation == Operation::kGatherV) {
          if (rank == root) move(peer, 0, rank, receive.offsets[peer], receive.counts[peer]);
        } else if (case_.operation == Operation::kAllGatherV) {
          move(peer, 0, rank, receive.offsets[peer], receive.counts[peer]);
        } else {
          const uint32_t messages = case_.operation == Operation::kGroupExchange ? kMessages : 1;
          for (uint32_t i = 0; i < messages; ++i) {
            move(peer, i * send_arrays_[peer].extent() + send_arrays_[peer].offsets[rank], rank,
                 i * receive.extent() + receive.offsets[peer], receive.counts[peer]);
          }
        }
      }
  }
}

}  // namespace keel::testing

// SPDX-License-Identifier: Apache-2.0
#include "conformance/collective_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <keel/plugin_kit.hpp>

namespace keel::conformance {

namespace {

constexpr const char* kCollectives[KEEL_COLLECTIVE_COUNT] = {
    "all_reduce",   "reduce",   "broadcast", "all_gather", "reduce_scatter", "all_to_all",
    "all_to_all_v", "send",     "recv",      "barrier",    "all_gather_v",   "reduce_scatter_v",
    "gather",       "gather_v", "scatter",   "scatter_v",  "send_recv"};
constexpr const char* kReductions[KEEL_REDUCTION_COUNT] = {"sum", "prod", "min",
                                                           "max", "avg",  "premul_sum"};

bool is_unsigned(keel_dtype dtype) {
  return KEEL_UINT8 <= dtype && dtype <= KEEL_UINT64;
}

// Returns the largest n such that the dtype represents every whole number up to n.
int64_t exact_limit(keel_dtype dtype) {
  switch (dtype) {
    case KEEL_INT8:
      return 127;
    case KEEL_UINT8:
      return 255;
    case KEEL_INT16:
      return 32'767;
    case KEEL_UINT16:
      return 65'535;
    case KEEL_INT32:
      return INT32_MAX;
    case KEEL_UINT32:
      return UINT32_MAX;
    case KEEL_INT64:
    case KEEL_UINT64:
      return int64_t{1} << 61;
    case KEEL_FLOAT16:
      return 2048;
    case KEEL_BFLOAT16:
      return 256;
    case KEEL_FLOAT32:
      return 1 << 24;
    case KEEL_FLOAT64:
      return int64_t{1} << 53;
    case KEEL_FLOAT8_E4M3FN:
      return 16;
    default:
      return 8;
  }
}

// Returns |rank|'s factor for KEEL_PREMUL_SUM, distinct for four ranks of a signed dtype.
int64_t whole_factor(keel_dtype dtype, uint32_t rank) {
  constexpr int64_t kFactors[] = {2, -1, 3, 1};
  const int64_t factor = kFactors[rank % 4];
  return is_unsigned(dtype) && factor < 0 ? 1 : factor;
}

// Returns element |i| of |rank|'s send buffer: whole numbers, of both signs if the dtype is signed,
// for which every result and every intermediate sum is exact.
int64_t input(const CallShape& shape, uint32_t world, uint32_t rank, uint64_t i, uint64_t salt) {
  uint64_t x = (i + 1) * 0x9e3779b97f4a7c15 ^ (rank + 1) * 0xbf58476d1ce4e5b9 ^
               (salt + 1) * 0x94d049bb133111eb;
  x = (x ^ x >> 31) * 0xd6e8feb86659fd93;
  x ^= x >> 32;
  const bool negative = !is_unsigned(shape.dtype) && (x & 1) != 0;
  const auto noise = static_cast<int64_t>(x >> 2);
  const int64_t limit = exact_limit(shape.dtype);
  int64_t value = 0;
  switch (shape.reduction) {
    case KEEL_PROD:
      // Only 1 and 2: three threes, 27, are not exact in the smallest floats.
      value = noise % 2 + 1;
      break;
    case KEEL_MIN:
    case KEEL_MAX:
      // Any 64-bit pattern: half of the values are negative if the library treats them as signed.
      if (shape.dtype == KEEL_UINT64) return static_cast<int64_t>(x);
      value = noise % limit + 1;
      break;
    case KEEL_AVG:
      // A multiple of the world size, so that the time of the division does not matter.
      value = (noise % std::max<int64_t>(limit / world / world, 1) + 1) * world;
      break;
    case KEEL_PREMUL_SUM:
      value = noise % std::max<int64_t>(limit / 7, 1) + 1;
      break;
    default:
      value = noise % std::max<int64_t>(limit / world, 1) + 1;
  }
  return negative ? -value : value;
}

bool is_below(keel_dtype dtype, int64_t one, int64_t other) {
  return dtype == KEEL_UINT64 ? static_cast<uint64_t>(one) < static_cast<uint64_t>(other)
                              : one < other;
}

int64_t result(const CallShape& shape, uint32_t world, uint64_t i, uint64_t salt) {
  int64_t all = 0;
  for (uint32_t rank = 0; rank < world; ++rank) {
    const int64_t value = input(shape, world, rank, i, salt);
    if (rank == 0 && shape.reduction != KEEL_PREMUL_SUM) {
      all = value;
      continue;
    }
    switch (shape.reduction) {
      case KEEL_PROD:
        all *= value;
        break;
      case KEEL_MIN:
        if (is_below(shape.dtype, value, all)) all = value;
        break;
      case KEEL_MAX:
        if (is_below(shape.dtype, all, value)) all = value;
        break;
      case KEEL_PREMUL_SUM:
        all += whole_factor(shape.dtype, rank) * value;
        break;
      default:
        all += value;
    }
  }
  return shape.reduction == KEEL_AVG ? all / static_cast<int64_t>(world) : all;
}

Bytes message(keel_dtype dtype, uint64_t count, uint32_t from, uint32_t to, uint64_t salt) {
  CallShape shape;
  shape.dtype = dtype;
  return elements(dtype, 0, count,
                  [&](uint64_t i) { return input(shape, /*world=*/1, from * 64 + to, i, salt); });
}

}  // namespace

keel_ccl_call call_of(const CallShape& shape, uint32_t rank) {
  keel_ccl_call call = {};
  call.header = kit::header<keel_ccl_call>(KEEL_STRUCT_CCL_CALL);
  call.collective = shape.collective;
  call.dtype = shape.dtype;
  call.reduction = shape.reduction;
  call.root = static_cast<int32_t>(shape.root);
  call.count = shape.count;
  if (shape.reduction == KEEL_PREMUL_SUM) {
    call.factor = static_cast<double>(whole_factor(shape.dtype, rank));
  }
  return call;
}

std::string CallShape::text() const {
  std::string text =
      fmt::format("{} of {} {}", kCollectives[collective], count, kit::dtype_name(dtype));
  const bool reduces = collective == KEEL_ALL_REDUCE || collective == KEEL_REDUCE ||
                       collective == KEEL_REDUCE_SCATTER;
  if (reduces) text += fmt::format(", {}", kReductions[reduction]);
  if (collective == KEEL_REDUCE || collective == KEEL_BROADCAST) {
    text += fmt::format(", root {}", root);
  }
  return text + (in_place ? ", in place" : "") + (skew != 0 ? ", unaligned" : "");
}

uint64_t Script::place(Rank& rank, uint64_t size, uint64_t skew) {
  constexpr uint64_t kGap = 64;
  const uint64_t at = (rank.before.size() + kGap + 255) / 256 * 256 + skew;
  rank.before.resize(at + size + kGap, kRedZone);
  rank.after.resize(rank.before.size(), kRedZone);
  return at;
}

void Script::add(const CallShape& shape, uint64_t salt) {
  const auto world = static_cast<uint32_t>(ranks_.size());
  const uint64_t element = kit::dtype_size(shape.dtype);
  const uint64_t piece = shape.count * element;
  const auto sent = [&](uint32_t rank, uint64_t first, uint64_t count) {
    return elements(shape.dtype, first, count,
                    [&](uint64_t i) { return input(shape, world, rank, i, salt); });
  };
  const auto reduced = [&](uint64_t first, uint64_t count) {
    return elements(shape.dtype, first, count,
                    [&](uint64_t i) { return result(shape, world, i, salt); });
  };
  for (uint32_t rank = 0; rank < world; ++rank) {
    // The send and receive buffers, and the offset of the smaller in the larger for in-place calls.
    Bytes from;
    Bytes to;
    uint64_t offset = 0;
    switch (shape.collective) {
      case KEEL_ALL_REDUCE:
        from = sent(rank, 0, shape.count);
        to = reduced(0, shape.count);
        break;
      case KEEL_REDUCE:
        from = sent(rank, 0, shape.count);
        if (rank == shape.root) to = reduced(0, shape.count);
        break;
      case KEEL_BROADCAST:
        if (rank == shape.root) from = sent(rank, 0, shape.count);
        to = sent(shape.root, 0, shape.count);
        break;
      case KEEL_ALL_GATHER:
        from = sent(rank, 0, shape.count);
        for (uint32_t peer = 0; peer < world; ++peer) {
          const Bytes own = sent(peer, 0, shape.count);
          to.insert(to.end(), own.begin(), own.end());
        }
        offset = rank * piece;
        break;
      case KEEL_REDUCE_SCATTER:
        from = sent(rank, 0, shape.count * world);
        to = reduced(rank * shape.count, shape.count);
        offset = rank * piece;
        break;
      default:  // KEEL_ALL_TO_ALL
        from = sent(rank, 0, shape.count * world);
        for (uint32_t peer = 0; peer < world; ++peer) {
          const Bytes own = sent(peer, rank * shape.count, shape.count);
          to.insert(to.end(), own.begin(), own.end());
        }
    }
    Rank& own = ranks_[rank];
    Step step;
    step.call = call_of(shape, rank);
    const uint64_t skew = shape.skew * element;
    const auto put = [](Bytes& memory, uint64_t at, const Bytes& bytes) {
      std::copy(bytes.begin(), bytes.end(), memory.begin() + static_cast<std::ptrdiff_t>(at));
    };
    if (shape.in_place && !from.empty() && !to.empty()) {
      const uint64_t at = place(own, std::max(from.size(), to.size()), skew);
      step.send_at = from.size() < to.size() ? at + offset : at;
      step.receive_at = from.size() > to.size() ? at + offset : at;
      put(own.before, step.send_at, from);
      put(own.after, step.send_at, from);
      put(own.after, step.receive_at, to);
    } else {
      if (!from.empty()) {
        step.send_at = place(own, from.size(), skew);
        put(own.before, step.send_at, from);
        put(own.after, step.send_at, from);
      }
      if (!to.empty()) {
        step.receive_at = place(own, to.size(), skew);
        put(own.after, step.receive_at, to);
      }
      // Callers that work in place pass one buffer as both, even on ranks that use only one of
      // them.
      if (shape.in_place && from.empty()) step.send_at = step.receive_at;
      if (shape.in_place && to.empty()) step.receive_at = step.send_at;
    }
    own.steps.push_back(step);
  }
}

void Script::add_send(uint32_t from, uint32_t to, keel_dtype dtype, uint64_t count, uint64_t salt) {
  Rank& rank = ranks_[from];
  const Bytes sent = message(dtype, count, from, to, salt);
  Step step;
  CallShape shape = {KEEL_SEND, dtype, KEEL_SUM, count, to};
  step.call = call_of(shape, from);
  step.send_at = place(rank, sent.size(), salt % 3 * kit::dtype_size(dtype));
  const auto at = static_cast<std::ptrdiff_t>(step.send_at);
  std::copy(sent.begin(), sent.end(), rank.before.begin() + at);
  std::copy(sent.begin(), sent.end(), rank.after.begin() + at);
  rank.steps.push_back(step);
}

void Script::add_receive(uint32_t to, uint32_t from, keel_dtype dtype, uint64_t count,
                         uint64_t salt) {
  Rank& rank = ranks_[to];
  const Bytes sent = message(dtype, count, from, to, salt);
  Step step;
  CallShape shape = {KEEL_RECV, dtype, KEEL_SUM, count, from};
  step.call = call_of(shape, to);
  step.receive_at = place(rank, sent.size(), salt % 2 * kit::dtype_size(dtype));
  std::copy(sent.begin(), sent.end(),
            rank.after.begin() + static_cast<std::ptrdiff_t>(step.receive_at));
  rank.steps.push_back(step);
}

std::vector<keel_status> Script::try_play(const TableRanks& ranks, const std::string& what,
                                          Where where) const {
  const keel_ccl_table& table = *device_of(ranks.context()).plugin().ccl;
  std::deque<RankMemory> memory;
  std::vector<std::vector<keel_ccl_call>> calls(ranks.world());
  for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
    const Rank& own = ranks_[rank];
    memory.emplace_back(ranks, rank, std::max<uint64_t>(own.before.size(), 1), where);
    if (!own.before.empty()) ranks.upload(rank, memory[rank].at(0), own.before, where);
    for (const Step& step : own.steps) {
      calls[rank].push_back(step.call);
      if (step.send_at != kNowhere) calls[rank].back().send = memory[rank].at(step.send_at);
      if (step.receive_at != kNowhere)
        calls[rank].back().receive = memory[rank].at(step.receive_at);
    }
    for (keel_ccl_call call : own.refused) {
      call.send = memory[rank].at(0);
      call.receive = memory[rank].at(0);
      calls[rank].push_back(call);
    }
  }
  const std::vector<keel_status> statuses = ranks.call_all(
      [&](uint32_t rank) {
        // The library borrows the calls during run(). Overwrite them with invalid values
        // afterwards, so that a late read is detected.
        const keel_status status =
            table.run(ranks.comm(rank), ranks.stream(rank), calls[rank].data(),
                      static_cast<uint32_t>(calls[rank].size()));
        for (keel_ccl_call& call : calls[rank]) {
          call = {};
          call.count = UINT64_MAX / 2;
        }
        return status;
      },
      where);
  const bool refused = std::any_of(statuses.begin(), statuses.end(),
                                   [](keel_status status) { return status != KEEL_OK; });
  for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
    need(ranks.settle(rank, where), fmt::format("{}, the stream of rank {}", what, rank), where);
  }
  for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
    const Rank& own = ranks_[rank];
    // The effect of a call that should have been refused is undefined, so skip its rank.
    if (own.before.empty() || (!refused && !own.refused.empty())) continue;
    const Bytes got = ranks.download(rank, memory[rank].at(0), own.before.size(), where);
    check_equal(got, refused ? own.before : own.after,
                fmt::format("{}, rank {} of {}", what, rank, ranks.world()), where);
  }
  return statuses;
}

void Script::play(const TableRanks& ranks, const std::string& what, Where where) const {
  const std::vector<keel_status> statuses = try_play(ranks, what, where);
  for (uint32_t rank = 0; rank < ranks.world(); ++rank) {
    check(statuses[rank] == KEEL_OK,
          fmt::format("{}: ccl.run on rank {}: {}", what, rank, keel_status_name(statuses[rank])),
          where);
  }
}

CallShape usual_shape(const Context& context, uint64_t count) {
  CallShape shape;
  shape.count = count;
  (void)ccl_table_of(context);
  if (ccl_can(context, KEEL_ALL_REDUCE, KEEL_FLOAT32)) return shape;
  shape.collective = KEEL_BROADCAST;
  if (ccl_can(context, KEEL_BROADCAST, KEEL_FLOAT32)) return shape;
  unsupported("the library has no all_reduce and no broadcast of float32");
}

void expect_works(const TableRanks& ranks, const std::string& what, uint64_t salt, Where where) {
  const Context& context = ranks.context();
  Script script(ranks.world());
  for (uint32_t root = 0; root < ranks.world(); ++root) {
    for (const keel_collective collective :
         {KEEL_ALL_REDUCE, KEEL_BROADCAST, KEEL_ALL_GATHER, KEEL_REDUCE_SCATTER}) {
      if (root != 0 && collective != KEEL_BROADCAST) continue;
      if (!ccl_can(context, collective, KEEL_FLOAT32)) continue;
      script.add({static_cast<keel_collective>(collective), KEEL_FLOAT32, KEEL_SUM, 513, root},
                 salt + root);
    }
  }
  script.play(ranks, what, where);
}

}  // namespace keel::conformance

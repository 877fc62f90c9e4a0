// SPDX-License-Identifier: Apache-2.0
#include "collectives/testing/test_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <keel/plugin_kit.hpp>
#include <set>
#include <utility>

namespace keel::testing {

// ---- devices --------------------------------------------------------------------

std::vector<keel_device> all_devices() {
  uint32_t count = 0;
  if (keel_device_count(&count) != KEEL_OK) return {};
  std::vector<keel_device> devices(count);
  for (uint32_t i = 0; i < count; ++i) {
    if (keel_device_get(i, &devices[i]) != KEEL_OK) return {};
  }
  return devices;
}

keel_device device_of(const std::vector<keel_device>& available, uint32_t rank, uint32_t world) {
  return available[(available.size() * world - 1 - rank) % available.size()];
}

// ---- one rank in one case -------------------------------------------------------

CaseRun::CaseRun(const Reference& reference, uint32_t rank, keel_device device)
    : reference_(&reference),
      rank_(rank),
      device_(device),
      reduction_(reference.scenario().reduction) {}

CaseRun::CaseRun(const Reference& reference, uint32_t rank, keel_device device, char* memory)
    : CaseRun(reference, rank, device) {
  memory_ = memory;
  is_owned_ = false;
}

CaseRun::CaseRun(CaseRun&& other) noexcept
    : reference_(other.reference_),
      rank_(other.rank_),
      device_(other.device_),
      memory_(std::exchange(other.memory_, nullptr)),
      is_owned_(other.is_owned_),
      reduction_(other.reduction_),
      fetched_(std::move(other.fetched_)) {}

CaseRun::~CaseRun() {
  if (is_owned_) keel_free(device_, memory_);
}

std::string CaseRun::failed(const char* what) const {
  return fmt::format("rank {}, {}, {}: {}", rank_, reference_->scenario().describe(), what,
                     keel_last_error());
}

std::string CaseRun::prepare(keel_stream stream) {
  const std::string& before = reference_->before(rank_);
  if (memory_ == nullptr) {
    void* memory = nullptr;
    if (keel_alloc(device_, KEEL_MEMORY_DEVICE, before.size(), &memory) != KEEL_OK) {
      return failed("keel_alloc");
    }
    memory_ = static_cast<char*>(memory);
  }
  if (keel_copy(stream, device_, memory_, KEEL_HOST, before.data(), before.size()) != KEEL_OK) {
    return failed("keel_copy");
  }
  return "";
}

std::string CaseRun::fetch(keel_stream stream) {
  fetched_.resize(reference_->after(rank_).size());
  if (keel_copy(stream, KEEL_HOST, fetched_.data(), device_, memory_, fetched_.size()) != KEEL_OK) {
    return failed("keel_copy");
  }
  return "";
}

std::string CaseRun::check(std::string_view fetched) const {
  const std::string& expected = reference_->after(rank_);
  if (fetched == expected) return "";
  const auto at = static_cast<uint64_t>(
      std::mismatch(fetched.begin(), fetched.end(), expected.begin()).first - fetched.begin());
  uint64_t wrong = 0;
  for (size_t i = 0; i < expected.size(); ++i) wrong += fetched[i] != expected[i] ? 1 : 0;
  const auto place = [](uint64_t offset) {
    return offset == Reference::kNone ? "nowhere" : std::to_string(offset);
  };
  return fmt::format(
      "rank {}, {}: {} bytes of {} are wrong, first byte {}: {:#04x} instead of {:#04x}; send is "
      "at {}, receive at {}",
      rank_, reference_->scenario().describe(), wrong, expected.size(), at,
      static_cast<uint8_t>(fetched[at]), static_cast<uint8_t>(expected[at]),
      place(reference_->send_at(rank_)), place(reference_->receive_at(rank_)));
}

std::string CaseRun::call(keel_comm comm, keel_stream stream) {
  const Case& scenario = reference_->scenario();
  if (scenario.reduces() && scenario.reduction == KEEL_PREMUL_SUM &&
      keel_premul_sum_create(comm, scenario.factor(rank_), &reduction_) != KEEL_OK) {
    return failed("keel_premul_sum_create");
  }
  return enqueue(comm, stream) == KEEL_OK ? "" : failed("the call");
}

keel_status CaseRun::exchange(keel_comm comm, keel_stream stream) const {
  const Case& scenario = reference_->scenario();
  const uint64_t element = kit::dtype_size(scenario.dtype);
  const uint64_t extent = scenario.world * scenario.count * element;
  const uint64_t piece = scenario.count * element;
  keel_status status = keel_group_start();
  for (uint32_t message = 0; message < kMessages; ++message) {
    for (uint32_t step = 0; step < scenario.world; ++step) {
      // Every rank begins with a different peer, and some ranks receive before they send.
      const uint32_t peer = (rank_ + step + scenario.seed) % scenario.world;
      const uint64_t offset = message * extent + peer * piece;
      const bool any = scenario.count != 0;
      const char* const source = any ? memory_ + reference_->send_at(rank_) + offset : nullptr;
      char* const destination = any ? memory_ + reference_->receive_at(rank_) + offset : nullptr;
      for (uint32_t half = 0; half < 2 && status == KEEL_OK; ++half) {
        status = (half + rank_) % 2 == 0
                     ? keel_send(comm, source, scenario.count, scenario.dtype, peer, stream)
                     : keel_recv(comm, destination, scenario.count, scenario.dtype, peer, stream);
      }
    }
  }
  const keel_status ended = keel_group_end();
  return status == KEEL_OK ? ended : status;
}

keel_status CaseRun::enqueue(keel_comm comm, keel_stream stream) const {
  const Case& scenario = reference_->scenario();
  const keel_dtype dtype = scenario.dtype;
  const uint64_t count = scenario.count;
  const uint32_t world = scenario.world;
  const auto at = [&](uint64_t offset) {
    return offset == Reference::kNone ? nullptr : memory_ + offset;
  };
  const char* const send = at(reference_->send_at(rank_));
  char* const receive = at(reference_->receive_at(rank_));
  const uint32_t root = scenario.root();
  const Arrays& to = reference_->send_arrays(rank_);
  const Arrays& from = reference_->receive_arrays(rank_);
  const uint64_t* const to_offsets = to.packed ? nullptr : to.offsets.data();
  const uint64_t* const from_offsets = from.packed ? nullptr : from.offsets.data();
  switch (scenario.operation) {
    case Operation::kAllReduce:
      return keel_all_reduce(comm, send, receive, count, dtype, reduction_, stream);
    case Operation::kReduce:
      return keel_reduce(comm, send, receive, count, dtype, reduction_, root, stream);
    case Operation::kReduceScatter:
      return keel_reduce_scatter(comm, send, receive, count, dtype, reduction_, stream);
    case Operation::kReduceScatterV:
      return keel_reduce_scatter_v(comm, send, receive, to.counts.data(), to_offsets, dtype,
                                   reduction_, stream);
    case Operation::kBroadcast:
      return keel_broadcast(comm, send, receive, count, dtype, root, stream);
    case Operation::kAllGather:
      return keel_all_gather(comm, send, receive, count, dtype, stream);
    case Operation::kAllGatherV:
      return keel_all_gather_v(comm, send, receive, from.counts.data(), from_offsets, dtype,
                               stream);
    case Operation::kAllToAll:
      return keel_all_to_all(comm, send, receive, count, dtype, stream);
    case Operation::kAllToAllV:
      return keel_all_to_all_v(comm, send, to.counts.data(), to_offsets, receive,
                               from.counts.data(), from_offsets, dtype, stream);
    case Operation::kGather:
      return keel_gather(comm, send, receive, count, dtype, root, stream);
    case Operation::kGatherV:
      return keel_gather_v(comm, send, receive, from.counts.data(), from_offsets, dtype, root,
                           stream);
    case Operation::kScatter:
      return keel_scatter(comm, send, receive, count, dtype, root, stream);
    case Operation::kScatterV:
      return keel_scatter_v(comm, send, receive, to.counts.data(), to_offsets, dtype, root, stream);
    case Operation::kSendRecv:
      return keel_send_recv(comm, send, count, (rank_ + 1) % world, receive, count,
                            (rank_ + world - 1) % world, dtype, stream);
    case Operation::kPairs: {
      const uint32_t peer = rank_ ^ 1;
      if (peer >= world) return KEEL_OK;
      const bool sends_first = rank_ < peer;
      const auto half = [&](bool sends) {
        return sends ? keel_send(comm, send, count, dtype, peer, stream)
                     : keel_recv(comm, receive, count, dtype, peer, stream);
      };
      const keel_status first = half(sends_first);
      return first == KEEL_OK ? half(!sends_first) : first;
    }
    case Operation::kGroupExchange:
      return exchange(comm, stream);
    case Operation::kBarrier:
      return keel_barrier(comm, stream);
  }
  return KEEL_INTERNAL;
}

std::string run_case(const Reference& reference, uint32_t rank, keel_device device, keel_comm comm,
                     keel_stream stream) {
  CaseRun run(reference, rank, device);
  std::string problem = run.prepare(stream);
  if (problem.empty()) problem = run.call(comm, stream);
  if (problem.empty()) problem = run.fetch(stream);
  if (!problem.empty()) return problem;
  if (keel_stream_synchronize(stream, KEEL_TIMEOUT_DEFAULT) != KEEL_OK) {
    return fmt::format("rank {}, {}: {}", rank, reference.scenario().describe(), keel_last_error());
  }
  return run.check();
}

// ---- selection of cases ---------------------------------------------------------

uint32_t Random::below(uint32_t limit) {
  state_ = state_ * 6364136223846793005 + 1442695040888963407;
  return static_cast<uint32_t>((state_ >> 33) % limit);
}

namespace {

constexpr uint32_t kFactors = 7;
constexpr uint32_t kReductionFactor = 2;
using Levels = std::array<uint32_t, kFactors>;  // one level per factor
using Pair = std::array<uint32_t, 4>;           // two factors and their levels

constexpr uint32_t kCounts = 9;

uint64_t count_of(uint32_t level, Operation operation, keel_dtype dtype, uint32_t world) {
  const bool has_parts = operation == Operation::kReduceScatter ||
                         operation == Operation::kAllToAll || operation == Operation::kScatter;
  const uint64_t eager = 4096 / kit::dtype_size(dtype) / (has_parts ? world : 1);
  const bool has_pieces = has_parts || operation == Operation::kAllGather ||
                          operation == Operation::kGather || operation == Operation::kAllGatherV ||
                          operation == Operation::kGatherV || operation == Operation::kScatterV ||
                          operation == Operation::kReduceScatterV ||
                          operation == Operation::kAllToAllV;
  uint64_t large = 70001;
  if (has_pieces) large /= world;
  if (operation == Operation::kGroupExchange) large /= world * kMessages;
  const uint64_t counts[kCounts] = {0, 1, 3, eager - 1, eager, eager + 1, 1023, 4097, large};
  return counts[level];
}

bool is_pair_of(const Levels& levels, uint32_t factor) {
  return factor != kReductionFactor || levels[0] < kReducingOperations;
}

template <typename Visit>
void visit_pairs(const Levels& levels, const Visit& visit) {
  for (uint32_t a = 0; a < kFactors; ++a) {
    for (uint32_t b = a + 1; b < kFactors; ++b) {
      if (is_pair_of(levels, a) && is_pair_of(levels, b)) visit(Pair{a, levels[a], b, levels[b]});
    }
  }
}

}  // namespace

std::vector<Case> pairwise_cases(const std::vector<uint32_t>& worlds, uint32_t seed) {
  const uint32_t operations = kOperations - 1;  // a barrier has no parameters
  const Levels limits = {operations,
                         KEEL_DTYPE_COUNT - 1,
                         KEEL_REDUCTION_COUNT,
                         static_cast<uint32_t>(worlds.size()),
                         kCounts,
                         2,
                         2};
  std::set<Pair> missing;
  for (uint32_t a = 0; a < kFactors; ++a) {
    for (uint32_t b = a + 1; b < kFactors; ++b) {
      for (uint32_t i = 0; i < limits[a]; ++i) {
        for (uint32_t j = 0; j < limits[b]; ++j) {
          const bool never = a == 0 && i >= kReducingOperations && b == kReductionFactor;
          if (!never) missing.insert(Pair{a, i, b, j});
        }
      }
    }
  }
  Random random(seed);
  std::vector<Case> cases;
  while (!missing.empty()) {
    Levels best = {};
    uint32_t most = 0;
    for (int attempt = 0; attempt < 30; ++attempt) {
      Levels levels;
      for (uint32_t factor = 0; factor < kFactors; ++factor) {
        levels[factor] = random.below(limits[factor]);
      }
      // Each candidate covers at least one new pair.
      auto wanted = missing.begin();
      std::advance(wanted, random.below(static_cast<uint32_t>(missing.size())));
      const auto [a, i, b, j] = *wanted;
      if (a == kReductionFactor || b == kReductionFactor) {
        levels[0] = random.below(kReducingOperations);
      }
      levels[a] = i;
      levels[b] = j;
      uint32_t found = 0;
      visit_pairs(levels, [&](const Pair& pair) { found += missing.count(pair) != 0 ? 1 : 0; });
      if (found > most) {
        most = found;
        best = levels;
      }
    }
    visit_pairs(best, [&](const Pair& pair) { missing.erase(pair); });
    Case scenario;
    scenario.operation = static_cast<Operation>(best[0]);
    scenario.dtype = KEEL_DTYPE_INVALID + 1 + best[1];
    scenario.reduction = best[2];
    scenario.world = worlds[best[3]];
    scenario.count = count_of(best[4], scenario.operation, scenario.dtype, scenario.world);
    scenario.in_place = best[5] != 0;
    scenario.staged = best[6] != 0;
    scenario.seed = random.below(1000);
    cases.push_back(scenario);
  }
  return cases;
}

}  // namespace keel::testing

// SPDX-License-Identifier: Apache-2.0
#include "collectives/testing/product.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <keel/keel.hpp>
#include <keel/plugin_kit.hpp>
#include <memory>
#include <numeric>
#include <string_view>

#include "collectives/testing/test_rank.h"

namespace keel::testing {

namespace {

// Odd counts: fewer elements than ranks, more than a cache line of each type, and one element more
// than two chunks of 4 KiB.
std::array<uint64_t, 3> counts_of(keel_dtype dtype) {
  return {1, 67, 8192 / kit::dtype_size(dtype) + 1};
}

// Only one of this many cases runs.
size_t every() {
#if defined(__SANITIZE_THREAD__)
  return 32;
#elif defined(__SANITIZE_ADDRESS__)
  return 8;
#else
  const bool is_slow =
      std::getenv("KEEL_VALIDATE") != nullptr || std::getenv("KEEL_CPU_GUARD") != nullptr;
  return is_slow ? 8 : 1;
#endif
}

constexpr uint64_t kArenaBytes = 4 << 20;
constexpr uint64_t kAlignment = 256;
constexpr size_t kMostInFlight = 64;

}  // namespace

const std::vector<AlgorithmCase>& algorithm_cases() {
  static const auto& all = *new std::vector<AlgorithmCase>{
      {"one_shot", {Operation::kAllReduce}},
      {"ring", {Operation::kAllReduce, Operation::kAllGather, Operation::kReduceScatter}},
      {"doubling", {Operation::kAllReduce, Operation::kAllGather}},
      {"halving", {Operation::kAllReduce, Operation::kReduceScatter}},
      {"binomial",
       {Operation::kBroadcast, Operation::kReduce, Operation::kGather, Operation::kScatter}},
      {"knomial",
       {Operation::kBroadcast, Operation::kReduce, Operation::kGather, Operation::kScatter}},
      {"bruck", {Operation::kAllGather, Operation::kAllToAll}},
      {"pairwise", {Operation::kAllToAll}},
      {"eager",
       {Operation::kAllReduce, Operation::kReduce, Operation::kReduceScatter, Operation::kBroadcast,
        Operation::kAllGather, Operation::kAllToAll, Operation::kGather, Operation::kScatter,
        Operation::kBarrier}},
      {"direct",
       {Operation::kAllReduce, Operation::kReduce, Operation::kReduceScatter,
        Operation::kReduceScatterV, Operation::kBroadcast, Operation::kAllGather,
        Operation::kAllGatherV, Operation::kAllToAll, Operation::kAllToAllV, Operation::kGather,
        Operation::kGatherV, Operation::kScatter, Operation::kScatterV, Operation::kSendRecv,
        Operation::kPairs, Operation::kGroupExchange}},
  };
  return all;
}

std::vector<Case> product_cases(const AlgorithmCase& algorithm_case, uint32_t world) {
  std::vector<Case> cases;
  for (const Operation operation : algorithm_case.operations) {
    for (keel_dtype dtype = KEEL_DTYPE_INVALID + 1; dtype < KEEL_DTYPE_COUNT; ++dtype) {
      for (keel_reduction reduction = 0; reduction < KEEL_REDUCTION_COUNT; ++reduction) {
        for (const uint64_t count : counts_of(dtype)) {
          for (const bool in_place : {false, true}) {
            Case scenario;
            scenario.operation = operation;
            scenario.dtype = dtype;
            scenario.reduction = reduction;
            scenario.world = world;
            scenario.count = count;
            scenario.in_place = in_place;
            scenario.seed = static_cast<uint32_t>(cases.size() % 997);
            if (reduction == 0 || scenario.reduces()) cases.push_back(scenario);
          }
        }
      }
    }
  }
  const size_t taken_of = every();
  if (taken_of == 1) return cases;
  // A step coprime to the number of cases visits each case once.
  size_t step = cases.size() * 5 / 13 + 1;
  while (std::gcd(step, cases.size()) != 1) ++step;
  std::vector<Case> taken;
  for (size_t i = 0; i * taken_of < cases.size(); ++i) {
    taken.push_back(cases[i * step % cases.size()]);
  }
  return taken;
}

namespace {

// The cases in flight together, in one allocation.
class Batch {
 public:
  Batch(keel_device device, keel_comm comm) : device_(device), comm_(comm) {}
  ~Batch() {
    keel_stream_synchronize(stream_, KEEL_TIMEOUT_DEFAULT);
    keel_free(device_, memory_);
    keel_stream_destroy(stream_);
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  std::string prepare() {
    void* memory = nullptr;
    if (keel_stream_create(device_, 0, &stream_) != KEEL_OK ||
        keel_alloc(device_, KEEL_MEMORY_DEVICE, kArenaBytes, &memory) != KEEL_OK ||
        keel_comm_rank(comm_, &rank_, &world_) != KEEL_OK) {
      return keel_last_error();
    }
    memory_ = static_cast<char*>(memory);
    return "";
  }
  uint32_t world() const { return world_; }

  std::string add(const Case& scenario) {
    auto reference = std::make_unique<Reference>(scenario, rank_);
    const uint64_t bytes = reference->before(rank_).size();
    if (references_.size() == kMostInFlight || host_.size() + bytes > kArenaBytes) {
      std::string problem = run();
      if (!problem.empty()) return problem;
    }
    if (bytes > kArenaBytes) return fmt::format("{} bytes are too many", bytes);
    offsets_.push_back(host_.size());
    host_ += reference->before(rank_);
    host_.resize((host_.size() + kAlignment - 1) / kAlignment * kAlignment);
    references_.push_back(std::move(reference));
    return "";
  }

  std::string run() {
    const uint64_t bytes = std::min<uint64_t>(host_.size(), kArenaBytes);
    if (bytes == 0) return "";
    if (keel_copy(stream_, device_, memory_, KEEL_HOST, host_.data(), bytes) != KEEL_OK) {
      return keel_last_error();
    }
    std::vector<CaseRun> runs;
    for (size_t i = 0; i < references_.size(); ++i) {
      runs.emplace_back(*references_[i], rank_, device_, memory_ + offsets_[i]);
      std::string problem = runs.back().call(comm_, stream_);
      if (!problem.empty()) return problem;
    }
    if (keel_copy(stream_, KEEL_HOST, host_.data(), device_, memory_, bytes) != KEEL_OK ||
        keel_stream_synchronize(stream_, KEEL_TIMEOUT_DEFAULT) != KEEL_OK) {
      return fmt::format("rank {}, {} to {}: {}", rank_, references_.front()->scenario().describe(),
                         references_.back()->scenario().describe(), keel_last_error());
    }
    for (size_t i = 0; i < references_.size(); ++i) {
      const uint64_t size = references_[i]->after(rank_).size();
      std::string problem = runs[i].check(std::string_view(host_).substr(offsets_[i], size));
      if (!problem.empty()) return problem;
    }
    references_.clear();
    offsets_.clear();
    host_.clear();
    return "";
  }

 private:
  const keel_device device_;
  const keel_comm comm_;
  keel_stream stream_ = {};
  char* memory_ = nullptr;
  uint32_t rank_ = 0;
  uint32_t world_ = 0;
  std::vector<std::unique_ptr<Reference>> references_;
  std::vector<uint64_t> offsets_;
  std::string host_;
};

}  // namespace

std::string run_product(const AlgorithmCase& algorithm_case, keel_device device, keel_comm comm) {
  Batch batch(device, comm);
  std::string problem = batch.prepare();
  if (!problem.empty()) return problem;
  const std::string explained = api_detail::read_text(
      [&](char* out, uint64_t* size) { return keel_comm_explain(comm, out, size); });
  const std::string used = fmt::format("\"algorithm\": \"{}\"", algorithm_case.algorithm);
  if (batch.world() > 1 && explained.find(used) == std::string::npos) return explained;
  for (const Case& scenario : product_cases(algorithm_case, batch.world())) {
    problem = batch.add(scenario);
    if (!problem.empty()) break;
  }
  if (problem.empty()) problem = batch.run();
  if (!problem.empty()) keel_comm_abort(comm);  // so that peers do not wait
  return problem.empty() ? "" : fmt::format("{}: {}", algorithm_case.algorithm, problem);
}

}  // namespace keel::testing

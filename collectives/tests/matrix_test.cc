// SPDX-License-Identifier: Apache-2.0
// Every collective against a serial reference, ranks on all kinds of devices driven by one thread.
// The cases are a pairwise covering set of operations, dtypes, reductions, worlds, sizes, places
// and ways to reach a device; and all pairs of dtype and reduction.
#include <gtest/gtest.h>
#include <keel/keel.h>

#include <keel/keel.hpp>
#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "collectives/testing/interleaving.h"
#include "collectives/testing/product.h"
#include "collectives/testing/reference.h"
#include "collectives/testing/rounding.h"
#include "collectives/testing/test_rank.h"
#include "core/testing/expect.h"
#include "core/testing/test_backend.h"

namespace {

using keel::testing::AlgorithmCase;
using keel::testing::Case;
using keel::testing::CaseRun;
using keel::testing::Operation;
using keel::testing::Reference;

constexpr int64_t kSecond = 1'000'000'000;
// Triples of values occur by chance, so more seeds mean more triples. A sanitizer sees a wrong
// access at the first occurrence, and takes ten times as long.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr uint32_t kSeeds = 1;
constexpr uint32_t kInterleavings = 2;  // one staged, one not
constexpr uint32_t kInterleavedOperations = 60;
const std::vector<uint32_t> kAlgorithmWorlds = {2, 5};
const std::vector<uint64_t> kAlgorithmCounts = {0, 1023, 70001};
#else
constexpr uint32_t kSeeds = 5;
constexpr uint32_t kInterleavings = 3;
constexpr uint32_t kInterleavedOperations = 200;
const std::vector<uint32_t> kAlgorithmWorlds = {1, 2, 3, 4, 5, 8};
const std::vector<uint64_t> kAlgorithmCounts = {0, 1, 3, 255, 1023, 4097, 9001, 70001};
#endif
const std::vector<uint32_t> kWorlds = {1, 2, 3, 4, 5, 8};

// Reductions to test with |dtype|. All have the same memory accesses and timing: the thread
// sanitizer runs every dtype and every reduction, but a single pair for each dtype.
std::vector<keel_reduction> reductions_of(keel_dtype dtype) {
#if defined(__SANITIZE_THREAD__)
  return {dtype % KEEL_REDUCTION_COUNT};
#else
  (void)dtype;
  std::vector<keel_reduction> all(KEEL_REDUCTION_COUNT);
  std::iota(all.begin(), all.end(), keel_reduction{0});
  return all;
#endif
}

class KeelEnvironment : public testing::Environment {
 public:
  void SetUp() override {
    keel::testing::set_test_devices(3);
    setenv("KEEL_SIM_DEVICES", "2", /*overwrite=*/0);
    auto options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
    options.default_timeout_ns = 60 * kSecond;
    const keel_status begun = keel_init(&options);
    is_begun_ = begun == KEEL_OK;
    if (keel::testing::test_backend() == "vulkan" &&
        (!is_begun_ || keel::testing::all_devices().empty())) {
      GTEST_SKIP() << "there is no vulkan:0";
    }
    ASSERT_EQ(KEEL_OK, begun) << keel_last_error();
  }
  void TearDown() override {
    if (!is_begun_) return;
    EXPECT_KEEL_OK(keel_shutdown());
  }

 private:
  bool is_begun_ = false;
};
const auto* const g_environment = testing::AddGlobalTestEnvironment(new KeelEnvironment);

class Ranks {
 public:
  // |algorithm| runs all supported operations; the rest use the built-in choice.
  Ranks(uint32_t world, bool staged, const char* algorithm = "") : comms_(world), streams_(world) {
    const std::vector<keel_device> available = keel::testing::all_devices();
    for (uint32_t rank = 0; rank < world; ++rank) {
      devices_.push_back(keel::testing::device_of(available, rank, world));
      EXPECT_KEEL_OK(keel_stream_create(devices_[rank], 0, &streams_[rank]));
    }
    auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
    options.forbid_alias = staged ? 1 : 0;
    options.chunk_bytes = 4096;  // small: many rounds with little data
    setenv("KEEL_ALGORITHM", algorithm, /*overwrite=*/1);
    EXPECT_KEEL_OK(keel_comm_init_all(devices_.data(), world, &options, comms_.data()));
    unsetenv("KEEL_ALGORITHM");
  }
  ~Ranks() {
    for (keel_comm comm : comms_) EXPECT_KEEL_OK(keel_comm_destroy(comm));
    for (keel_stream stream : streams_) keel_stream_destroy(stream);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  std::string explain() const {
    return keel::api_detail::read_text(
        [&](char* out, uint64_t* size) { return keel_comm_explain(comms_[0], out, size); });
  }

  // Ranks call one after another, from |first| on; in some cases all in one group.
  void run(const Case& scenario, uint32_t first) {
    const Reference reference(scenario);
    std::vector<CaseRun> runs;
    for (uint32_t rank = 0; rank < scenario.world; ++rank) {
      runs.emplace_back(reference, rank, devices_[rank]);
      ASSERT_EQ(runs.back().prepare(streams_[rank]), "");
    }
    const bool is_group = scenario.seed % 4 == 0;
    if (is_group) {
      EXPECT_KEEL_OK(keel_group_start());
    }
    for (uint32_t i = 0; i < scenario.world; ++i) {
      const uint32_t rank = (first + i) % scenario.world;
      EXPECT_EQ(runs[rank].call(comms_[rank], streams_[rank]), "");
    }
    if (is_group) {
      EXPECT_KEEL_OK(keel_group_end());
    }
    for (uint32_t rank = 0; rank < scenario.world; ++rank) {
      ASSERT_EQ(runs[rank].fetch(streams_[rank]), "");
    }
    for (uint32_t rank = 0; rank < scenario.world; ++rank) {
      ASSERT_EQ(KEEL_OK, keel_stream_synchronize(streams_[rank], KEEL_TIMEOUT_DEFAULT))
          << scenario.describe() << ": " << keel_last_error();
    }
    for (const CaseRun& run : runs) EXPECT_EQ(run.check(), "");
  }

  // Returns each rank's result for |sent|, one entry per rank, after an all_reduce of |count|
  // elements.
  std::vector<std::string> all_reduce(const std::vector<std::string>& sent, uint64_t count,
                                      keel_dtype dtype, keel_reduction reduction) {
    std::vector<void*> memory(sent.size());
    std::vector<std::string> got = sent;
    for (uint32_t rank = 0; rank < sent.size(); ++rank) {
      const uint64_t bytes = sent[rank].size();
      EXPECT_KEEL_OK(keel_alloc(devices_[rank], KEEL_MEMORY_DEVICE, bytes, &memory[rank]));
      EXPECT_KEEL_OK(keel_copy(streams_[rank], devices_[rank], memory[rank], KEEL_HOST,
                               sent[rank].data(), bytes));
    }
    for (uint32_t rank = 0; rank < sent.size(); ++rank) {
      EXPECT_KEEL_OK(keel_all_reduce(comms_[rank], memory[rank], memory[rank], count, dtype,
                                     reduction, streams_[rank]));
      EXPECT_KEEL_OK(keel_copy(streams_[rank], KEEL_HOST, got[rank].data(), devices_[rank],
                               memory[rank], got[rank].size()));
    }
    for (uint32_t rank = 0; rank < sent.size(); ++rank) {
      EXPECT_KEEL_OK(keel_stream_synchronize(streams_[rank], KEEL_TIMEOUT_DEFAULT));
      EXPECT_KEEL_OK(keel_free(devices_[rank], memory[rank]));
    }
    return got;
  }

 private:
  std::vector<keel_device> devices_;
  std::vector<keel_comm> comms_;
  std::vector<keel_stream> streams_;
};

class Matrix : public testing::TestWithParam<std::tuple<uint32_t, bool>> {};

TEST_P(Matrix, EveryPairOfValues) {
  const auto [world, staged] = GetParam();
  Ranks ranks(world, staged);
  for (uint32_t seed = 1; seed <= kSeeds; ++seed) {
    for (const Case& scenario : keel::testing::pairwise_cases(kWorlds, seed)) {
      if (scenario.world != world || scenario.staged != staged) continue;
      ranks.run(scenario, scenario.seed);
      if (HasFailure()) return;
    }
  }
}

// With data: the size of a switch between algorithms lies between the two counts.
TEST_P(Matrix, EveryOperation) {
  const auto [world, staged] = GetParam();
  Ranks ranks(world, staged);
  for (uint32_t operation = 0; operation < keel::testing::kOperations; ++operation) {
    for (const uint64_t count : {100, 3000}) {
      Case scenario;
      scenario.operation = static_cast<Operation>(operation);
      scenario.dtype = KEEL_INT16;
      scenario.world = world;
      scenario.staged = staged;
      scenario.in_place = operation % 2 == 0;
      scenario.count = count;
      scenario.seed = operation + world;
      ranks.run(scenario, operation);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, Matrix,
                         testing::Combine(testing::ValuesIn(kWorlds), testing::Bool()),
                         [](const testing::TestParamInfo<Matrix::ParamType>& info) {
                           return std::to_string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) ? "_staged" : "_alias");
                         });

// ---- every algorithm ------------------------------------------------------------

class Algorithms : public testing::TestWithParam<std::tuple<size_t, bool>> {};

// All supported operations, with every number of ranks and every size; types, reductions and places
// vary.
TEST_P(Algorithms, EveryOperationAndSize) {
  const auto [index, staged] = GetParam();
  const AlgorithmCase& algorithm_case = keel::testing::algorithm_cases()[index];
  keel::testing::Random random(static_cast<uint64_t>(index) * 2 + (staged ? 1 : 0));
  for (const uint32_t world : kAlgorithmWorlds) {
    Ranks ranks(world, staged, algorithm_case.algorithm);
    if (world > 1) {
      const std::string used = std::string("\"algorithm\": \"") + algorithm_case.algorithm + "\"";
      ASSERT_NE(ranks.explain().find(used), std::string::npos) << ranks.explain();
    }
    for (const Operation operation : algorithm_case.operations) {
      for (const uint64_t count : kAlgorithmCounts) {
        Case scenario;
        scenario.operation = operation;
        scenario.dtype = KEEL_DTYPE_INVALID + 1 + random.below(KEEL_DTYPE_COUNT - 1);
        scenario.reduction = random.below(KEEL_REDUCTION_COUNT);
        scenario.world = world;
        scenario.staged = staged;
        scenario.in_place = random.below(2) == 0;
        scenario.count = count < 5000 ? count : count / world;
        scenario.seed = random.below(1000);
        ranks.run(scenario, scenario.seed);
        if (HasFailure()) return;
      }
    }
  }
}

// Reducing operations in all types and reductions; lossy partial results use a different algorithm.
TEST_P(Algorithms, EveryDtypeByEveryReduction) {
  const auto [index, staged] = GetParam();
  const AlgorithmCase& algorithm_case = keel::testing::algorithm_cases()[index];
  const auto operation = algorithm_case.operations.front() == Operation::kBroadcast
                             ? Operation::kReduce
                             : algorithm_case.operations.front();
  constexpr uint32_t kWorld = 5;
  Ranks ranks(kWorld, staged, algorithm_case.algorithm);
  for (keel_dtype dtype = KEEL_DTYPE_INVALID + 1; dtype < KEEL_DTYPE_COUNT; ++dtype) {
    for (const keel_reduction reduction : reductions_of(dtype)) {
      Case scenario;
      scenario.operation = operation;
      if (!scenario.reduces()) return;
      scenario.dtype = dtype;
      scenario.reduction = reduction;
      scenario.world = kWorld;
      scenario.staged = staged;
      scenario.count = 777;
      scenario.in_place = (reduction + dtype) % 2 == 0;
      scenario.seed = dtype;
      ranks.run(scenario, dtype);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Algorithms, Algorithms, testing::Combine(testing::Range<size_t>(0, 8), testing::Bool()),
    [](const testing::TestParamInfo<Algorithms::ParamType>& info) {
      return std::string(keel::testing::algorithm_cases()[std::get<0>(info.param)].algorithm) +
             (std::get<1>(info.param) ? "_staged" : "_alias");
    });

TEST(MatrixOfReductions, EveryDtypeByEveryReduction) {
  Ranks ranks(5, /*staged=*/false);
  for (keel_dtype dtype = KEEL_DTYPE_INVALID + 1; dtype < KEEL_DTYPE_COUNT; ++dtype) {
    for (const keel_reduction reduction : reductions_of(dtype)) {
      for (const uint64_t count : {77, 9001}) {
        Case scenario;
        scenario.dtype = dtype;
        scenario.reduction = reduction;
        scenario.world = 5;
        scenario.count = count;
        scenario.in_place = reduction % 2 == 0;
        scenario.seed = dtype;
        ranks.run(scenario, dtype);
        if (HasFailure()) return;
      }
    }
  }
}

// ---- all there is ---------------------------------------------------------------

// A thread per rank, on CPU devices. processes_test runs the same in processes.
class Product : public testing::TestWithParam<uint32_t> {};

TEST_P(Product, EveryOperationDtypeReductionSizeAndPlaceByEveryAlgorithm) {
  const uint32_t world = GetParam();
  if (keel::testing::test_backend() != "cpu") GTEST_SKIP() << "on CPU devices, whatever there is";
  std::vector<keel_device> devices(world);
  for (uint32_t rank = 0; rank < world; ++rank) {
    const std::string name = "cpu:" + std::to_string(rank % 3);
    ASSERT_EQ(KEEL_OK, keel_device_find(name.c_str(), &devices[rank])) << keel_last_error();
  }
  for (const AlgorithmCase& algorithm_case : keel::testing::algorithm_cases()) {
    std::vector<keel_comm> comms(world);
    auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
    options.chunk_bytes = 4096;
    setenv("KEEL_ALGORITHM", algorithm_case.algorithm, /*overwrite=*/1);
    ASSERT_EQ(KEEL_OK, keel_comm_init_all(devices.data(), world, &options, comms.data()))
        << keel_last_error();
    unsetenv("KEEL_ALGORITHM");
    std::vector<std::string> problems(world);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < world; ++rank) {
      threads.emplace_back([&, rank] {
        problems[rank] = keel::testing::run_product(algorithm_case, devices[rank], comms[rank]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& problem : problems) EXPECT_EQ(problem, "");
    for (keel_comm comm : comms) EXPECT_KEEL_OK(keel_comm_destroy(comm));
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, Product, testing::ValuesIn(kWorlds));

// A thread per rank: a communicator, a duplicate and the parts, on three streams.
class Interleaving : public testing::TestWithParam<uint32_t> {};

TEST_P(Interleaving, OperationsOfThreeCommunicatorsDoNotDisturbEachOther) {
  const uint32_t world = GetParam();
  const std::vector<keel_device> available = keel::testing::all_devices();
  for (uint32_t seed = 1; seed <= kInterleavings; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::vector<keel_device> devices;
    for (uint32_t rank = 0; rank < world; ++rank) {
      devices.push_back(keel::testing::device_of(available, rank, world));
    }
    auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
    options.chunk_bytes = 4096;
    options.forbid_alias = seed % 2;
    std::vector<keel_comm> comms(world);
    ASSERT_EQ(KEEL_OK, keel_comm_init_all(devices.data(), world, &options, comms.data()));
    std::vector<std::string> problems(world);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < world; ++rank) {
      threads.emplace_back([&, rank] {
        problems[rank] = keel::testing::run_interleaving(devices[rank], comms[rank], seed,
                                                         kInterleavedOperations);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& problem : problems) EXPECT_EQ(problem, "");
    for (keel_comm comm : comms) EXPECT_KEEL_OK(keel_comm_destroy(comm));
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, Interleaving, testing::Values(2u, 4u, 5u));

// The cases above cover all pairs of values: at least the product of two factors.
TEST(MatrixCases, AreAsManyAsTheyHaveToBe) {
  const std::vector<Case> cases = keel::testing::pairwise_cases(kWorlds, /*seed=*/1);
  std::map<std::tuple<Operation, keel_dtype>, int> seen;
  for (const Case& scenario : cases) ++seen[{scenario.operation, scenario.dtype}];
  EXPECT_EQ(seen.size(), (keel::testing::kOperations - 1) * (KEEL_DTYPE_COUNT - 1));
  EXPECT_LT(cases.size(), 2 * seen.size());
}

// A rank with its own order of additions has different bits.
class Bits : public testing::TestWithParam<std::tuple<const char*, bool>> {};

TEST_P(Bits, AreThoseOfAllRanksWhereResultsAreRounded) {
  const auto [algorithm, staged] = GetParam();
  for (const uint32_t world : kAlgorithmWorlds) {
    Ranks ranks(world, staged, algorithm);
    for (const keel_dtype dtype : {KEEL_FLOAT32, KEEL_FLOAT64, KEEL_BFLOAT16}) {
      for (const keel_reduction reduction : {KEEL_SUM, KEEL_PROD, KEEL_AVG}) {
        for (const uint64_t count : {uint64_t{13}, uint64_t{4099}}) {
          std::vector<std::string> sent;
          for (uint32_t rank = 0; rank < world; ++rank) {
            sent.push_back(keel::testing::inexact(dtype, count, 100 * world + rank));
          }
          const std::vector<std::string> got = ranks.all_reduce(sent, count, dtype, reduction);
          for (uint32_t rank = 1; rank < world; ++rank) {
            ASSERT_TRUE(got[rank] == got[0])
                << "rank " << rank << " of " << world << ", dtype " << dtype << ", reduction "
                << reduction << ", " << count << " elements: " << ranks.explain();
          }
          ASSERT_TRUE(world == 1 || got[0] != sent[0]);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Bits,
                         testing::Combine(testing::Values("one_shot", "ring", "doubling", "halving",
                                                          "eager", "direct"),
                                          testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) ? "_staged" : "_alias");
                         });

}  // namespace

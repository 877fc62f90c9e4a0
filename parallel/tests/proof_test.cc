// SPDX-License-Identifier: Apache-2.0
// The proof: every mesh trains the same model as one device. Losses of 20 steps within 1e-4, each
// gradient of the first step within 1e-3 of the largest element of its tensor.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "parallel/tests/ranks.h"

namespace keel::parallel::testing {
namespace {

constexpr int64_t kSteps = kSanitized ? 3 : 20;
// Steps on the CUDA backend's own kernels, which the host runs thread by thread, up to a second
// each, and on Vulkan's.
constexpr int64_t kKernelSteps = 3;
constexpr double kLossTolerance = 1e-4;
constexpr double kGradientTolerance = 1e-3;

struct Case {
  const char* name;
  Architecture architecture;
  const char* mesh;
  void (*adjust)(Settings&);
  const char* backends = "cpu";
  bool usual = false;  // part of the default run
};

constexpr void (*kPlain)(Settings&) = [](Settings&) {};

const Case kCases[] = {
    // The default run: each strategy, each shape, 2 to 8 ranks, two makes.
    {"Dp2", kGpt2, "dp=2", [](Settings& s) { s.bucket_bytes = 20000; }, "cpu", true},
    {"Tp2Sequence", kLlama, "tp=2",
     [](Settings& s) {
       s.sequence_parallel = true;
       s.chunks = 2;
     },
     "cpu", true},
    {"Tp4", kGpt2, "tp=4", [](Settings& s) { s.chunks = 3; }, "cpu", true},
    {"Pp2Micro4", kGpt2, "pp=2", [](Settings& s) { s.micro_batches = 4; }, "cpu", true},
    {"Pp2Dp2Tp2", kLlama, "pp=2,dp=2,tp=2",
     [](Settings& s) {
       s.micro_batches = 2;
       s.sequence_parallel = true;
       s.sharding = 1;
     },
     "cpu", true},
    {"Dp2Tp2Zero3Full", kGpt2, "dp=2,tp=2",
     [](Settings& s) {
       s.sharding = 3;
       s.micro_batches = 2;
       s.recompute = {Recompute::kFull};
       s.sequence_parallel = true;
     },
     "cpu", true},
    {"MixedDp2Tp2", kGpt2, "dp=2,tp=2",
     [](Settings& s) {
       s.sharding = 2;
       s.recompute = {Recompute::kNone, Recompute::kSelective, Recompute::kFull, Recompute::kNone};
     },
     "cpu+sim", true},
    {"MixedPp2UnevenShares", kLlama, "dp=2,pp=2",
     [](Settings& s) {
       s.micro_batches = 2;
       s.shares = {3, 1};
       s.stage_layers = {3, 1};
     },
     "cpu+sim", true},
    {"Pp2Dp2Zero2", kGpt2, "pp=2,dp=2",
     [](Settings& s) {
       s.micro_batches = 4;
       s.sharding = 2;
     },
     "cpu", true},
    {"Tp3UnevenHeads", kLlama, "tp=3", [](Settings& s) { s.chunks = 2; }, "cpu", true},
    {"CudaTp2", kLlama, "tp=2", [](Settings& s) { s.sequence_parallel = true; }, "cuda", true},
    {"MixedCudaDp2", kGpt2, "dp=2", [](Settings& s) { s.sharding = 1; }, "cpu+cuda", true},
    // All others.
    {"Dp2Tp3UnevenHeads", kGpt2, "dp=2,tp=3", [](Settings& s) { s.sharding = 3; }},
    {"Tp5UnevenMlp", kGpt2, "tp=5", kPlain},
    {"MixedCudaPp2Tp2", kLlama, "pp=2,tp=2", [](Settings& s) { s.micro_batches = 2; }, "cuda+cpu"},
    {"Dp2", kLlama, "dp=2", kPlain},
    {"Dp4Micro2", kGpt2, "dp=4", [](Settings& s) { s.micro_batches = 2; }},
    {"Dp8", kLlama, "dp=8", kPlain},
    {"Dp4Zero1", kGpt2, "dp=4", [](Settings& s) { s.sharding = 1; }},
    {"Dp4Zero2", kLlama, "dp=4",
     [](Settings& s) {
       s.sharding = 2;
       s.micro_batches = 2;
     }},
    {"Dp4Zero3", kLlama, "dp=4", [](Settings& s) { s.sharding = 3; }},
    {"Dp3Uneven", kGpt2, "dp=3",
     [](Settings& s) {
       s.shares = {5, 2, 1};
       s.sharding = 3;
     }},
    {"Tp2", kGpt2, "tp=2", kPlain},
    {"Tp2", kLlama, "tp=2", kPlain},
    {"Tp2Zero3", kLlama, "tp=2", [](Settings& s) { s.sharding = 3; }},
    {"Tp4SequenceChunks", kGpt2, "tp=4",
     [](Settings& s) {
       s.sequence_parallel = true;
       s.chunks = 4;
     }},
    {"Tp4SequenceSelective", kLlama, "tp=4",
     [](Settings& s) {
       s.sequence_parallel = true;
       s.recompute = {Recompute::kSelective};
     }},
    {"Pp4Micro8", kLlama, "pp=4", [](Settings& s) { s.micro_batches = 8; }},
    {"Pp2Tp2", kGpt2, "tp=2,pp=2", [](Settings& s) { s.micro_batches = 2; }},
    {"Pp2Dp2Zero3", kGpt2, "pp=2,dp=2",
     [](Settings& s) {
       s.micro_batches = 2;
       s.sharding = 3;
     }},
    {"Pp2Dp2Tp2Full", kGpt2, "pp=2,dp=2,tp=2",
     [](Settings& s) {
       s.micro_batches = 2;
       s.recompute = {Recompute::kFull};
       s.sequence_parallel = true;
       s.chunks = 2;
     }},
    {"Dp2Tp4", kGpt2, "dp=2,tp=4", [](Settings& s) { s.sequence_parallel = true; }},
    {"Dp4Tp2", kLlama, "tp=2,dp=4", [](Settings& s) { s.sharding = 1; }},
    {"OtherOrder", kLlama, "pp=2,tp=2@2,0,3,1", [](Settings& s) { s.micro_batches = 2; }},
    {"DropoutTp2Sequence", kGpt2, "dp=2,tp=2",
     [](Settings& s) {
       s.model.dropout = 0.2;
       s.sequence_parallel = true;
     }},
    {"DropoutPp2Full", kLlama, "pp=2,dp=2",
     [](Settings& s) {
       s.model.dropout = 0.1;
       s.micro_batches = 2;
       s.recompute = {Recompute::kFull};
     }},
    {"MixedDp4", kLlama, "dp=4", kPlain, "cpu+sim"},
    {"MixedTp2", kLlama, "tp=2", [](Settings& s) { s.sequence_parallel = true; }, "cpu+sim"},
    {"MixedPp2Tp2", kGpt2, "pp=2,tp=2", [](Settings& s) { s.micro_batches = 2; }, "cpu+sim"},
    {"MixedPp2Dp2Tp2", kLlama, "tp=2,pp=2,dp=2",
     [](Settings& s) {
       s.micro_batches = 2;
       s.sharding = 3;
     },
     "cpu+sim"},
    {"MixedTp4Chunks", kGpt2, "tp=4",
     [](Settings& s) {
       s.sequence_parallel = true;
       s.chunks = 2;
     },
     "cpu+sim"},
    {"SimTp2Chunks", kLlama, "tp=2",
     [](Settings& s) {
       s.sequence_parallel = true;
       s.chunks = 3;
     },
     "sim"},
    {"SimDp2Tp2", kGpt2, "dp=2,tp=2", [](Settings& s) { s.sequence_parallel = true; }, "sim"},
    {"VulkanDp2", kGpt2, "dp=2", kPlain, "cpu+vulkan"},
};

// Training on one device, run once for all cases of the same model.
const Training& one_device(const Settings& settings) {
  static std::map<std::string, Training> known;
  Settings alone;
  alone.model = settings.model;
  alone.batch = settings.batch;
  alone.optimizer = settings.optimizer;
  const auto found = known.find(alone.text());
  if (found != known.end()) return found->second;
  Options options;
  options.steps = kSteps;
  return known[alone.text()] = train(alone, options);
}

bool runs_all() {
  return std::getenv("KEEL_PARALLEL_ALL") != nullptr;
}

bool has(const std::string& backends, const char* make) {
  return backends.find(make) != std::string::npos;
}

// Trains |mesh| for |steps| on |backends| and on one device.
void expect_equals_one_device(const Case& mesh, const std::string& backends, int64_t steps) {
  start_keel();
  Settings settings = tiny_settings(mesh.architecture);
  mesh.adjust(settings);
  Options options;
  options.mesh = mesh.mesh;
  options.backends = backends;
  options.steps = steps;
  if (has(backends, "vulkan") || has(backends, "cuda")) {
    try {
      (void)devices_of(options.backends, MeshShape::parse(mesh.mesh).size());
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  const Training& expected = one_device(settings);
  ASSERT_EQ(expected.failures, std::vector<std::string>(1));
  if (!kSanitized) {
    ASSERT_LT(expected.losses.back(), expected.losses.front() - 0.1) << "one device learns nothing";
  }
  const Training training = train(settings, options);
  for (const std::string& failure : training.failures) ASSERT_EQ(failure, "");
  ASSERT_EQ(training.losses.size(), static_cast<size_t>(options.steps));
  for (size_t step = 0; step < training.losses.size(); ++step) {
    EXPECT_NEAR(training.losses[step], expected.losses[step], kLossTolerance) << "step " << step;
  }
  EXPECT_NEAR(training.norms[0], expected.norms[0], kGradientTolerance * expected.norms[0]);
  std::string name;
  EXPECT_LE(deviation(training.gradients, expected.gradients, &name), kGradientTolerance) << name;
}

std::string name_of(const Case& mesh) {
  return std::string(mesh.name) + (mesh.architecture == kGpt2 ? "Gpt2" : "Llama");
}

class ProofTest : public ::testing::TestWithParam<Case> {};

TEST_P(ProofTest, EqualsOneDevice) {
  const Case& mesh = GetParam();
  if (!mesh.usual && !runs_all()) GTEST_SKIP() << "KEEL_PARALLEL_ALL is not set";
  const bool is_short = has(mesh.backends, "cuda") && !runs_all();
  expect_equals_one_device(mesh, mesh.backends, is_short ? kKernelSteps : kSteps);
}

INSTANTIATE_TEST_SUITE_P(Meshes, ProofTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return name_of(info.param); });

// The meshes of one make, with each second make at every other rank.
struct Pair {
  const char* name;
  const char* backends;
};
constexpr Pair kPairs[] = {
    {"CpuAndSim", "cpu+sim"}, {"CpuAndCuda", "cpu+cuda"}, {"CpuAndVulkan", "cpu+vulkan"}};
struct TwoMakesCase {
  Case mesh;
  Pair makes;
};

std::vector<TwoMakesCase> two_makes_cases() {
  std::vector<TwoMakesCase> cases;
  for (const Case& mesh : kCases) {
    if (std::string(mesh.backends) != "cpu") continue;
    for (const Pair& makes : kPairs) cases.push_back({mesh, makes});
  }
  return cases;
}

class TwoMakesProofTest : public ::testing::TestWithParam<TwoMakesCase> {};

TEST_P(TwoMakesProofTest, EqualsOneDevice) {
  const TwoMakesCase& given = GetParam();
  if (!given.mesh.usual && !runs_all()) GTEST_SKIP() << "KEEL_PARALLEL_ALL is not set";
  const bool is_emulated_chip = has(given.makes.backends, "sim");
  if (kSanitized && !is_emulated_chip) GTEST_SKIP() << "a sanitized build takes the emulated chip";
  expect_equals_one_device(given.mesh, given.makes.backends,
                           is_emulated_chip ? kSteps : kKernelSteps);
}

INSTANTIATE_TEST_SUITE_P(Meshes, TwoMakesProofTest, ::testing::ValuesIn(two_makes_cases()),
                         [](const auto& info) {
                           return name_of(info.param.mesh) + info.param.makes.name;
                         });

}  // namespace
}  // namespace keel::parallel::testing

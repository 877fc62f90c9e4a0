// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of the test program, and trainings on them.
#ifndef KEEL_PARALLEL_TESTS_RANKS_H_
#define KEEL_PARALLEL_TESTS_RANKS_H_

#include <cstdint>
#include <functional>
#include <keel/parallel.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace keel::parallel::testing {

inline constexpr Architecture kGpt2 = Architecture::kGpt2;
inline constexpr Architecture kLlama = Architecture::kLlama;

// True under a sanitizer, where tests that look at no other code than others are left out.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// Loads the plugins once, with at least eight CPU devices, eight of the emulated chip of 96 MiB
// each, and where the build has the CUDA plugin and is not sanitized, four emulated CUDA devices.
void start_keel();

// |count| devices: of |backends| in turn, each rank another device, but of vulkan, which may have
// one alone: "cpu", "cpu+sim".
std::vector<Device> devices_of(const std::string& backends, int64_t count);

// Runs |body| in a thread for each device, as ranks of the mesh. Returns the message of each rank's
// failure, by rank; empty where it succeeded. A rank that fails alone aborts the job after a
// while, so that no other waits for it.
std::vector<std::string> run_ranks(const std::vector<Device>& devices, const std::string& mesh,
                                   const std::function<void(Mesh&)>& body);

// Shapes of milliseconds, which 2 or 4 ranks of axis tp can divide.
ModelShape tiny_model(Architecture architecture);
Settings tiny_settings(Architecture architecture);

struct Batch {
  std::vector<int32_t> tokens, labels;
};
// The same on all ranks; some labels do not count.
Batch batch_of(const Settings& settings, int64_t step);

// Operations of one axis, as the engine and as libkeel count.
struct Operations {
  uint64_t engine = 0, libkeel = 0;
};
using Tensors = std::map<std::string, std::vector<float>>;
// Results of a training; gradients are whole tensors, of the first step.
struct Training {
  std::vector<double> losses, norms;
  Tensors gradients, values;
  std::vector<std::string> failures;                    // of the ranks
  std::vector<std::map<std::string, Traffic>> traffic;  // by rank, of the last step
  std::vector<uint64_t> in_use, peak;                   // by rank, bytes, of the last step
  // Operations on axis tp since the start, by rank: as the engine and as libkeel count.
  std::vector<uint64_t> calls, operations;
  // By rank, of the steps alone; of libkeel only on CPU devices, which no ranks share.
  std::vector<std::map<std::string, Operations>> on_axis;
};
struct Options {
  std::string mesh = "dp=1";
  std::string backends = "cpu";
  int64_t steps = 20;
  // Before the passes of each step, whose arguments it may change.
  std::function<void(Engine&, Schedule::Run&)> before_run;
  std::function<std::shared_ptr<Schedule>()> schedule;  // one a rank; without before_run
  std::function<void(Engine&)> prepare;                 // before the first step
  std::function<void(Engine&, int64_t step)> before_step;
  std::function<void(Settings&, int64_t rank)> adjust;  // of one rank's settings
  bool by_share = false;                                // each rank passes its share of a batch
};
Training train(const Settings& settings, const Options& options);

// Largest deviation of a gradient from |expected|, relative to the largest element of the tensor;
// |out_name|: the tensor's.
double deviation(const Tensors& got, const Tensors& expected, std::string* out_name);
bool same_bits(const Tensors& a, const Tensors& b);

}  // namespace keel::parallel::testing

#endif  // KEEL_PARALLEL_TESTS_RANKS_H_

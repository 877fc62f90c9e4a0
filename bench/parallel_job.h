// SPDX-License-Identifier: Apache-2.0
// Trainings on meshes, of which one step is a contender of a figure.
#ifndef KEEL_BENCH_PARALLEL_JOB_H_
#define KEEL_BENCH_PARALLEL_JOB_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <keel/parallel.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace keel::bench {

// Loads one more instance of the emulated chip: |settings| by key, as docs/emulator.md lists them.
// Returns the devices. Throws Error.
std::vector<Device> load_chips(const std::map<std::string, std::string>& settings);

// Ranks of a mesh as threads that wait between steps. Not thread-safe.
class ParallelJob {
 public:
  // Waits for the ranks; throws the first failure. |schedule|: a name of make_schedule(); empty:
  // FillDrainSchedule. |folder|: of checkpoints; empty: none.
  ParallelJob(std::vector<Device> devices, std::string mesh, parallel::Settings settings,
              std::string schedule = {}, std::filesystem::path folder = {});
  ~ParallelJob();
  ParallelJob(const ParallelJob&) = delete;
  ParallelJob& operator=(const ParallelJob&) = delete;

  // One step of all ranks; returns its seconds, until the last rank has ended. A result that is not
  // finite is none of a failure: chips without arithmetic have no other.
  double step();
  // The same for a step that begins with the save of a checkpoint.
  double step_behind_save();
  bool is_saving() const;  // of any rank
  void wait_for_save();
  int64_t tokens() const { return settings_.batch * settings_.model.context; }

 private:
  struct Rank;
  enum class Command { kStep, kSave, kWait, kStop };

  void run_rank(Rank& rank);
  double command(Command command);

  std::string mesh_;
  parallel::Settings settings_;
  std::string schedule_;
  std::filesystem::path folder_;
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

}  // namespace keel::bench

#endif  // KEEL_BENCH_PARALLEL_JOB_H_

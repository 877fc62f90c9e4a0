// SPDX-License-Identifier: Apache-2.0
// The ranks of `keel perf` in this process, and how they are timed.
#ifndef KEEL_CLI_PERF_JOB_H_
#define KEEL_CLI_PERF_JOB_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/output_file.h"
#include "cli/perf_control.h"
#include "cli/perf_options.h"
#include "cli/perf_rank.h"
#include "cli/perf_report.h"
#include "cli/perf_team.h"
#include "cli/perf_tune.h"

namespace keel::cli {

// Keel is up while this lives. |process| of options.processes; all of them come to the same
// meeting, of the launcher.
class PerfJob {
 public:
  PerfJob(const PerfOptions& options, uint32_t process);

  // Times all that the options ask for; prints it in process 0. Whether all was right.
  // What a thread throws comes through, and ends the others.
  bool run();

 private:
  // |algorithm|: which does what it can; NULL: as Keel chooses.
  void make_communicators(const char* algorithm = nullptr);
  // Times every algorithm, and writes what is the fastest where. Whether all was right.
  bool tune();
  // UsageError where buffers of --foreign can go one way only.
  void check_foreign_ways() const;
  // That the ranks of all processes have read where they were, in their communicators so far.
  uint64_t bytes_in_place();
  // At the sizes that |algorithm|, by |explained|, does otherwise than |built_in|.
  void tune_operation(uint32_t thread, const PerfOperation& operation, const std::string& algorithm,
                      const Json& explained, const Json& built_in, PerfTuning* tuning);
  // What the first rank of this process says of itself.
  std::string explain() const;
  std::vector<PerfRankInfo> gather_ranks();
  void run_thread(uint32_t thread);
  void run_operation(uint32_t thread, const PerfOperation& operation);
  void run_table(uint32_t thread, PerfStep step);
  PerfTiming time(uint32_t thread, const PerfStep& step);
  void start_all(std::span<const std::unique_ptr<PerfRank>> ranks, const PerfStep& step);
  // Of |thread|.
  std::span<const std::unique_ptr<PerfRank>> ranks_of(uint32_t thread) const;
  // All threads of all processes have come.
  void meet();
  bool reports(uint32_t thread) const { return thread == 0 && control_.process() == 0; }
  void explain_last(const PerfStep& step, const PerfRow& row) const;

  const PerfOptions& options_;
  const OutputFile output_;
  std::vector<Device> devices_;  // of this process's ranks
  PerfControl control_;
  std::vector<std::unique_ptr<PerfRank>> ranks_;
  PerfTeam team_;
  std::optional<PerfReport> report_;
  Json explained_;  // what rank 0 says of itself
};

}  // namespace keel::cli

#endif  // KEEL_CLI_PERF_JOB_H_

// SPDX-License-Identifier: Apache-2.0
// Runs and times the ranks of `keel perf` in this process.
#ifndef KEEL_TOOLS_PERF_PERF_JOB_H_
#define KEEL_TOOLS_PERF_PERF_JOB_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/output_file.h"
#include "tools/perf/perf_control.h"
#include "tools/perf/perf_options.h"
#include "tools/perf/perf_rank.h"
#include "tools/perf/perf_report.h"
#include "tools/perf/perf_team.h"
#include "tools/perf/perf_tune.h"

namespace keel::cli {

// Process |process| of options.processes; all join through the launcher's bootstrap address. Keel
// must stay initialized during the object's lifetime.
class PerfJob {
 public:
  PerfJob(const PerfOptions& options, uint32_t process);

  // Times all requested operations; process 0 prints. Returns whether all results were right. An
  // exception in a thread ends all threads and propagates.
  bool run();

 private:
  // |algorithm| is used where possible; NULL: Keel chooses.
  void make_communicators(const char* algorithm = nullptr);
  // Times every algorithm, and writes the table of the fastest algorithms. Returns whether all
  // results were right.
  bool tune();
  // Throws UsageError if only one transfer is possible for the buffers of --foreign.
  void check_foreign_ways() const;
  // Returns the bytes read in place by the ranks of all processes, in the current communicators.
  uint64_t bytes_in_place();
  // Times the sizes at which |algorithm|, by |explained|, differs from |built_in|.
  void tune_operation(uint32_t thread, const PerfOperation& operation, const std::string& algorithm,
                      const Json& explained, const Json& built_in, PerfTuning* tuning);
  // Returns keel_comm_explain of this process's first rank.
  std::string explain() const;
  std::vector<PerfRankInfo> gather_ranks();
  void run_thread(uint32_t thread);
  void run_operation(uint32_t thread, const PerfOperation& operation);
  void run_table(uint32_t thread, PerfStep step);
  PerfTiming time(uint32_t thread, const PerfStep& step);
  void start_all(std::span<const std::unique_ptr<PerfRank>> ranks, const PerfStep& step);
  // Returns the ranks of |thread|.
  std::span<const std::unique_ptr<PerfRank>> ranks_of(uint32_t thread) const;
  // Returns once all threads of all processes have called meet().
  void meet();
  bool reports(uint32_t thread) const { return thread == 0 && control_.process() == 0; }
  void explain_last(const PerfStep& step, const PerfRow& row) const;

  const PerfOptions& options_;
  const OutputFile output_;
  const OutputFile picture_;
  std::vector<Device> devices_;  // of this process's ranks
  PerfControl control_;
  std::vector<std::unique_ptr<PerfRank>> ranks_;
  PerfTeam team_;
  std::optional<PerfReport> report_;
  Json explained_;                         // explain() of rank 0
  std::vector<std::string> device_names_;  // by rank, of all processes
};

}  // namespace keel::cli

#endif  // KEEL_TOOLS_PERF_PERF_JOB_H_

// SPDX-License-Identifier: Apache-2.0
// One run of `keel conform run` or `list`, from the options to the output files.
#ifndef KEEL_CONFORMANCE_SESSION_H_
#define KEEL_CONFORMANCE_SESSION_H_

#include <set>
#include <string>
#include <vector>

#include "conformance/report.h"

namespace keel::conformance {

// Exit statuses of the program.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

struct SessionOptions {
  RunSettings settings;
  std::vector<std::string> levels;  // names; empty: all
  std::string filter;               // a glob over ids; empty: all
  uint32_t within_seconds = 0;      // begin no case after this time; 0: no limit
  uint32_t every = 1;               // a sample: run one of every |every| cases per level
  uint64_t first = 0;               // of the sample, modulo |every|: 0 runs the first of them
  bool fail_fast = false;           // begin no case after the first failure
  bool here = false;                // run the cases in this process, for a debugger
  std::string rerun_failed;         // a report that the run continues; empty: none
  std::set<std::string> failed;     // its failed cases, which alone run; empty: no such limit
  std::string profile = "quick";
  std::string json_file;
  std::string junit_file;
  std::string certificate_file;
  std::string waivers_file;
};

// Run or list the cases. Print to standard output, and mistakes to standard error, and return the
// exit status. |out_report| may be NULL; it is complete unless the status is kExitUsage.
int run_session(const SessionOptions& options, Report* out_report);
int list_session(const SessionOptions& options);
// Checks a certificate; with |rerun| also repeats its run.
int verify_session(const std::string& file, bool rerun);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_SESSION_H_

// SPDX-License-Identifier: Apache-2.0
// One run of `keel conform run` or `list`, from the options to the files.
#ifndef KEEL_CONFORMANCE_SESSION_H_
#define KEEL_CONFORMANCE_SESSION_H_

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
  uint32_t within_seconds = 0;      // after which no case is begun; 0: all are
  uint32_t every = 1;               // a sample: of each level the first of every so many cases
  bool fail_fast = false;           // no case is begun after one has failed
  bool here = false;                // in this process, for a debugger
  std::string rerun_failed;         // a report whose failed cases are run; empty: no such
  std::string profile = "quick";
  std::string json_file;
  std::string junit_file;
  std::string certificate_file;
  std::string waivers_file;
};

// Prints to standard output, mistakes to standard error; the exit status. |out_report|
// may be NULL; it is complete where the status is not kExitUsage.
int run_session(const SessionOptions& options, Report* out_report);
int list_session(const SessionOptions& options);
// Checks a certificate, and with |rerun| runs it again.
int verify_session(const std::string& file, bool rerun);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_SESSION_H_

// SPDX-License-Identifier: Apache-2.0
// `keel perf --tune`: which algorithm was the fastest at each size, as a table for Keel to read.
#ifndef KEEL_CLI_PERF_TUNE_H_
#define KEEL_CLI_PERF_TUNE_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/command.h"

namespace keel::cli {

// What was measured of one operation, and the rules that follow from it. For one thread.
class PerfTuning {
 public:
  // What keel_comm_explain says of the communicator that is measured. |foreign|: not which
  // algorithm is the fastest, but which way of buffers that Keel did not allocate.
  explicit PerfTuning(const std::string& explained, bool foreign = false);

  // What Keel chooses by itself; measured too, for what is no faster by more than kMargin is
  // not worth a rule.
  static constexpr const char* kBuiltIn = "built-in";
  // What foreign buffers are measured against: that is attached, as built in.
  static constexpr const char* kStaging = "staging";
  static constexpr double kMargin = 0.05;

  // kBuiltIn, and then those that can do |operation|; none: there is no choice.
  std::vector<std::string> algorithms(const std::string& operation) const;
  // |bytes|: what a rank sends. The shortest time counts, of several.
  void add(const std::string& operation, uint64_t bytes, const std::string& algorithm,
           double seconds);

  // What was measured and what is chosen, for people.
  std::string report() const;
  // The lines of the table: one for each range of sizes in which something beats kBuiltIn. From
  // one size to the next the middle, in factors, is where the ranges meet.
  std::vector<std::string> rules() const;

  // Where Keel looks for the table of this machine; empty: nowhere.
  const std::string& path() const { return path_; }
  // |before| with the rules for what was measured here replaced.
  std::string merged(const std::string& before) const;
  // Does so with the file, at once for whoever reads it. std::runtime_error names the file.
  void write() const;
  // Makes the folders of the file. Fails as write() would, before anything is measured.
  void require_writable() const;

 private:
  using Times = std::map<std::string, double>;  // of an algorithm, in seconds

  const std::string& best(const Times& times) const;
  // RANKS REACH CORES of the rules.
  std::string surroundings() const;

  Json explained_;
  bool foreign_;
  std::string path_;
  std::map<std::string, std::map<uint64_t, Times>> measured_;  // of an operation, at a size
};

// What |explained| says that calls of |bytes| go by; empty where there is no choice.
std::string perf_algorithm_at(const Json& explained, const std::string& operation, uint64_t bytes);
// "# Algorithms by bytes sent: eager to 4096, then direct": what |explained| says of
// |operation|; empty where there is no choice.
std::string perf_algorithms_text(const Json& explained, const std::string& operation);

}  // namespace keel::cli

#endif  // KEEL_CLI_PERF_TUNE_H_

// SPDX-License-Identifier: Apache-2.0
// `keel perf --tune`: writes a table of the fastest algorithm at each size, which Keel reads.
#ifndef KEEL_TOOLS_PERF_PERF_TUNE_H_
#define KEEL_TOOLS_PERF_PERF_TUNE_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/command.h"

namespace keel::cli {

// The measurements of the operations, and the rules derived from them. Used by one thread.
class PerfTuning {
 public:
  // |explained| is the text of keel_comm_explain for the measured communicator. With |foreign| the
  // choice is not between algorithms but between the two transfers for buffers not allocated by
  // Keel: cross-memory attach and staging.
  explicit PerfTuning(const std::string& explained, bool foreign = false);

  // Keel's own choice. Also measured: an algorithm needs to be faster by more than kMargin to get a
  // rule.
  static constexpr const char* kBuiltIn = "built-in";
  // Measured for foreign buffers against cross-memory attach, which is the built-in choice.
  static constexpr const char* kStaging = "staging";
  static constexpr double kMargin = 0.05;

  // Returns kBuiltIn, then the algorithms available for |operation|; empty if there is no choice.
  std::vector<std::string> algorithms(const std::string& operation) const;
  // |bytes| is the number that one rank sends. The shortest of several times counts.
  void add(const std::string& operation, uint64_t bytes, const std::string& algorithm,
           double seconds);

  // Returns the measurements and choices as readable text.
  std::string report() const;
  // Returns the table's lines: one per range of sizes in which an algorithm beats kBuiltIn. Ranges
  // meet at the geometric mean of neighbouring sizes.
  std::vector<std::string> rules() const;

  // Where Keel looks for this machine's table; empty if nowhere.
  const std::string& path() const { return path_; }
  // Returns |before| with the rules for the measured operations replaced.
  std::string merged(const std::string& before) const;
  // Replaces the file by its merged() text, atomically for readers. std::runtime_error names the
  // file.
  void write() const;
  // Creates the file's folders. Throws like write(), but before any measurement.
  void require_writable() const;

 private:
  using Times = std::map<std::string, double>;  // by algorithm, in seconds

  const std::string& best(const Times& times) const;
  // Returns RANKS REACH CORES for the rules.
  std::string selection_key() const;

  Json explained_;
  bool foreign_;
  std::string path_;
  std::map<std::string, std::map<uint64_t, Times>> measured_;  // by operation and size
};

// Returns the algorithm that |explained| gives for |bytes|; empty if there is no choice.
std::string perf_algorithm_at(const Json& explained, const std::string& operation, uint64_t bytes);
// Returns the algorithms that |explained| gives for |operation|, as "# Algorithms by bytes sent:
// eager to 4096, then direct"; empty if there is no choice.
std::string perf_algorithms_text(const Json& explained, const std::string& operation);

}  // namespace keel::cli

#endif  // KEEL_TOOLS_PERF_PERF_TUNE_H_

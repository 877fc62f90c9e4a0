// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/perf_tune.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "tensorfile/replacement.h"

namespace keel::cli {
namespace {

constexpr const char* kTitle = "keel-collectives 1";

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word && word[0] != '#';) words.push_back(word);
  return words;
}

// Returns the geometric mean of two sizes.
uint64_t middle(uint64_t smaller, uint64_t larger) {
  return static_cast<uint64_t>(
      std::sqrt(static_cast<double>(smaller) * static_cast<double>(larger)));
}

[[noreturn]] void fail(const std::string& path) {
  throw std::runtime_error(fmt::format("{}: {}", path, std::strerror(errno)));
}

}  // namespace

PerfTuning::PerfTuning(const std::string& explained, bool foreign)
    : explained_(json_of(explained)), foreign_(foreign), path_(explained_["measured_table"]) {}

std::vector<std::string> PerfTuning::algorithms(const std::string& operation) const {
  std::vector<std::string> all;
  if (foreign_) {
    if (explained_["foreign_buffers"].contains(operation)) all = {kBuiltIn, kStaging};
    return all;
  }
  const Json& candidates = explained_["candidates"];
  if (!candidates.contains(operation)) return all;
  all.emplace_back(kBuiltIn);
  for (const Json& name : candidates[operation]) all.push_back(name);
  return all;
}

void PerfTuning::add(const std::string& operation, uint64_t bytes, const std::string& algorithm,
                     double seconds) {
  Times& times = measured_[operation][bytes];
  const auto found = times.try_emplace(algorithm, seconds).first;
  found->second = std::min(found->second, seconds);
}

const std::string& PerfTuning::best(const Times& times) const {
  const auto built_in = times.find(kBuiltIn);
  auto fastest = built_in;
  for (auto each = times.begin(); each != times.end(); ++each) {
    if (fastest == times.end() || each->second < fastest->second) fastest = each;
  }
  if (built_in != times.end() && fastest->second > built_in->second * (1 - kMargin)) {
    return built_in->first;
  }
  return fastest->first;
}

std::string PerfTuning::report() const {
  std::string text;
  for (const auto& [operation, sizes] : measured_) {
    text += fmt::format("# {}: us by algorithm, the chosen one in brackets\n", operation);
    for (const auto& [bytes, times] : sizes) {
      text += fmt::format("{:>12}", bytes);
      const std::string& chosen = best(times);
      for (const std::string& name : algorithms(operation)) {
        const auto found = times.find(name);
        if (found == times.end()) continue;
        const char* const shape = name == chosen ? "  [{} {:.2f}]" : "  {} {:.2f}";
        text += fmt::format(fmt::runtime(shape), name, found->second * 1e6);
      }
      text += "\n";
    }
  }
  return text;
}

std::string PerfTuning::selection_key() const {
  const Json& where = explained_["selection_key"];
  return fmt::format("{} {} {}", where["ranks"].get<uint32_t>(),
                     foreign_ ? "foreign" : where["reach"].get<std::string>(),
                     where["cores"].get<std::string>());
}

std::vector<std::string> PerfTuning::rules() const {
  std::vector<std::string> lines;
  for (const auto& [operation, sizes] : measured_) {
    for (auto size = sizes.begin(); size != sizes.end();) {
      const std::string& chosen = best(size->second);
      const uint64_t first =
          size == sizes.begin() ? 0 : middle(std::prev(size)->first, size->first) + 1;
      auto end = size;
      while (end != sizes.end() && best(end->second) == chosen) ++end;
      const std::string last =
          end == sizes.end() ? "" : std::to_string(middle(std::prev(end)->first, end->first));
      if (chosen != kBuiltIn) {
        lines.push_back(
            fmt::format("{} {}-{} {} {}", operation, first, last, selection_key(), chosen));
      }
      size = end;
    }
  }
  return lines;
}

std::string PerfTuning::merged(const std::string& before) const {
  std::string text = std::string(kTitle) + "\n";
  std::istringstream stream(before);
  std::string line;
  // A table of another version is discarded.
  const bool is_ours = std::getline(stream, line) && line == kTitle;
  while (is_ours && std::getline(stream, line)) {
    const std::vector<std::string> words = words_of(line);
    const bool is_measured =
        words.size() >= 6 && measured_.contains(words[0]) &&
        fmt::format("{} {} {}", words[2], words[3], words[4]) == selection_key();
    if (!is_measured) text += line + "\n";
  }
  for (const std::string& rule : rules()) text += rule + "\n";
  return text;
}

void PerfTuning::require_writable() const {
  if (path_.empty()) {
    throw std::runtime_error("--tune: neither XDG_CACHE_HOME nor HOME says where the table goes");
  }
  for (size_t slash = path_.find('/', 1); slash != std::string::npos;
       slash = path_.find('/', slash + 1)) {
    if (mkdir(path_.substr(0, slash).c_str(), 0700) != 0 && errno != EEXIST) fail(path_);
  }
  // The table is replaced by rename.
  if (access(path_.substr(0, path_.rfind('/')).c_str(), W_OK | X_OK) != 0) fail(path_);
}

void PerfTuning::write() const {
  require_writable();
  std::ifstream file(path_, std::ios::binary);
  const std::string text =
      merged({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
  tensorfile::replace_file(path_, text);
}

std::string perf_algorithm_at(const Json& explained, const std::string& operation, uint64_t bytes) {
  if (!explained.contains("algorithms")) return {};  // ranks of several hosts
  const Json& chosen = explained["algorithms"];
  if (!chosen.contains(operation)) return {};
  for (const Json& range : chosen[operation]) {
    if (!range.contains("to") || bytes <= range["to"].get<uint64_t>()) return range["algorithm"];
  }
  return {};
}

std::string perf_algorithms_text(const Json& explained, const std::string& operation) {
  if (!explained.contains("algorithms")) return {};  // ranks of several hosts
  const Json& chosen = explained["algorithms"];
  if (!chosen.contains(operation)) return {};
  std::string text;
  for (const Json& range : chosen[operation]) {
    const std::string name = range["algorithm"];
    if (range.contains("to")) {
      text += fmt::format("{} to {}, ", name, range["to"].get<uint64_t>());
    } else {
      text += text.empty() ? name : "then " + name;
    }
  }
  return fmt::format("# Algorithms by bytes sent: {}\n", text);
}

}  // namespace keel::cli

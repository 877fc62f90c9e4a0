// SPDX-License-Identifier: Apache-2.0
#include "collectives/selection/table.h"

#include <charconv>
#include <string>

#include "collectives/operation.h"

namespace keel {

namespace {

constexpr std::string_view kTitle = "keel-collectives 1";
constexpr size_t kMostRules = 4096;
constexpr uint32_t kDefaultScore = 100;
constexpr uint32_t kMostScore = 1000;
constexpr size_t kQuoted = 40;  // characters of a word in a message

std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  line = line.substr(0, line.find('#'));
  std::vector<std::string_view> words;
  while (true) {
    const size_t begin = line.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return words;
    line.remove_prefix(begin);
    const size_t end = std::min(line.find_first_of(kBlanks), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

// Replaces unprintable characters, since the file may contain anything.
std::string quoted(std::string_view word) {
  std::string text;
  for (const char character : word.substr(0, kQuoted)) {
    text += character >= ' ' && character <= '~' ? character : '?';
  }
  return text + (word.size() > kQuoted ? "..." : "");
}

Status wrong(const char* what, std::string_view word, const std::string& wanted) {
  return failure(KEEL_INVALID_ARGUMENT, "{} is '{}': {}", what, quoted(word), wanted);
}

bool read_number(std::string_view word, bool has_unit, uint64_t most, uint64_t* out_number) {
  uint64_t unit = 1;
  if (has_unit && !word.empty()) {
    const char last = word.back();
    unit = last == 'K' ? 1ull << 10 : last == 'M' ? 1ull << 20 : last == 'G' ? 1ull << 30 : 1;
    if (unit != 1) word.remove_suffix(1);
  }
  uint64_t number = 0;
  const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || rest != word.data() + word.size()) return false;
  if (number > most / unit) return false;
  *out_number = number * unit;
  return true;
}

// Parses "4", "2-8", "2-" and "*".
bool read_range(std::string_view word, bool has_unit, uint64_t least, uint64_t most,
                uint64_t* out_first, uint64_t* out_last) {
  *out_first = least;
  *out_last = most;
  if (word == "*") return true;
  const size_t dash = word.find('-');
  if (!read_number(word.substr(0, dash), has_unit, most, out_first)) return false;
  if (dash == std::string_view::npos) {
    *out_last = *out_first;
  } else if (dash + 1 != word.size() &&
             !read_number(word.substr(dash + 1), has_unit, most, out_last)) {
    return false;
  }
  return *out_first >= least && *out_first <= *out_last;
}

bool read_choice(std::string_view word, const char* no, const char* yes,
                 std::optional<bool>* out_choice) {
  if (word == "*") return true;
  *out_choice = word == yes;
  return word == yes || word == no;
}

// Parses what follows "hosts": nothing, or ":2", ":2-4", ":2-".
bool read_hosts(std::string_view word, Rule* out_rule) {
  uint64_t first = 2;
  uint64_t last = UINT32_MAX;
  const bool is_range = word.empty() || (word[0] == ':' && read_range(word.substr(1), false, 2,
                                                                      UINT32_MAX, &first, &last));
  out_rule->first_hosts = static_cast<uint32_t>(first);
  out_rule->last_hosts = static_cast<uint32_t>(last);
  return is_range;
}

Status read_rule(const std::vector<std::string_view>& words, Rule* out_rule) {
  if (words.size() != 6 && words.size() != 7) {
    return failure(KEEL_INVALID_ARGUMENT,
                   "{} words, where a rule has six or seven: COLLECTIVE BYTES RANKS REACH CORES "
                   "ALGORITHM [SCORE]",
                   words.size());
  }
  const bool is_for_hosts = words[3].substr(0, 5) == "hosts";
  auto collective = find_chosen_collective(words[0]);
  // Within a host there is one way to do it.
  if (is_for_hosts && words[0] == collective_name(KEEL_ALL_TO_ALL_V)) {
    collective = KEEL_ALL_TO_ALL_V;
  }
  if (!collective) {
    return wrong("COLLECTIVE", words[0],
                 "all_reduce, reduce, broadcast, all_gather, reduce_scatter, all_to_all, gather, "
                 "scatter or, where REACH is hosts, all_to_all_v");
  }
  out_rule->collective = *collective;
  if (!read_range(words[1], true, 0, UINT64_MAX, &out_rule->first_byte_count,
                  &out_rule->last_byte_count)) {
    return wrong("BYTES", words[1], "a number, FIRST-LAST, FIRST- or *, such as 4K-1M");
  }
  uint64_t first = 0;
  uint64_t last = 0;
  if (!read_range(words[2], false, 1, UINT32_MAX, &first, &last)) {
    return wrong("RANKS", words[2], "a number from 1 on, FIRST-LAST, FIRST- or *, such as 2-8");
  }
  out_rule->first_world = static_cast<uint32_t>(first);
  out_rule->last_world = static_cast<uint32_t>(last);
  const bool is_foreign = words[3] == "foreign";
  if (is_for_hosts ? !read_hosts(words[3].substr(5), out_rule)
                   : !is_foreign && !read_choice(words[3], "alias", "staged", &out_rule->staged)) {
    return wrong("REACH", words[3], "alias, staged, foreign, hosts, hosts:FIRST-LAST or *");
  }
  if (is_for_hosts && words[4] != "*") {
    return wrong("CORES", words[4], "*, where REACH is hosts");
  }
  if (!read_choice(words[4], "dedicated", "oversubscribed", &out_rule->oversubscribed)) {
    return wrong("CORES", words[4], "dedicated, oversubscribed or *");
  }
  bool is_able = false;
  if (is_foreign) {
    out_rule->foreign = find_foreign_way(words[5]);
    if (!out_rule->foreign) {
      return wrong("ALGORITHM", words[5], "attach or staging, where REACH is foreign");
    }
    is_able = *out_rule->foreign == ForeignWay::kStaging || can_attach(*collective);
  } else {
    const auto algorithm = find_algorithm(words[5]);
    if (!algorithm) return wrong("ALGORITHM", words[5], algorithm_names());
    out_rule->algorithm = *algorithm;
    is_able = is_for_hosts ? applies_between_hosts(*algorithm, *collective, /*world=*/2)
                           : applies(*algorithm, *collective, /*world=*/2);
  }
  if (!is_able) {
    return failure(KEEL_INVALID_ARGUMENT, "ALGORITHM {} does not do {}", quoted(words[5]),
                   quoted(words[0]));
  }
  uint64_t score = kDefaultScore;
  if (words.size() == 7 && (!read_number(words[6], false, kMostScore, &score) || score == 0)) {
    return wrong("SCORE", words[6], fmt::format("1 to {}", kMostScore));
  }
  out_rule->score = static_cast<uint32_t>(score);
  return {};
}

}  // namespace

Status read_table(std::string_view text, std::vector<Rule>* out_rules) {
  out_rules->clear();
  uint32_t number = 0;
  size_t for_hosts = 0;
  while (!text.empty() || number == 0) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (++number == 1) {
      const std::string_view title = line.substr(0, line.find_last_not_of(" \t\r") + 1);
      if (title == kTitle) continue;
      return wrong("line 1", title, fmt::format("a table begins with '{}'", kTitle));
    }
    const std::vector<std::string_view> words = words_of(line);
    if (words.empty()) continue;
    Rule rule;
    const Status status = read_rule(words, &rule);
    if (!status.ok()) return status.with_prefix(fmt::format("line {}: ", number));
    if (out_rules->size() == kMostRules) {
      return failure(KEEL_INVALID_ARGUMENT, "line {}: more than {} rules", number, kMostRules);
    }
    for_hosts += rule.is_for_hosts() ? 1 : 0;
    if (for_hosts > kMostHostRules) {
      return failure(KEEL_INVALID_ARGUMENT, "line {}: more than {} rules for hosts", number,
                     kMostHostRules);
    }
    out_rules->push_back(rule);
  }
  return {};
}

}  // namespace keel

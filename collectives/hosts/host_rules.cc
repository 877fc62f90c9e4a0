// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/host_rules.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace keel {

namespace {

// The numbers of a rule, in the order of the text. Unlimited ends are written as 0, which no rule
// has as its end, to keep the text short.
constexpr size_t kNumbers = 9;
using Numbers = std::array<uint64_t, kNumbers>;

template <typename Value>
uint64_t shorten(Value end) {
  return end == static_cast<Value>(-1) ? 0 : end + uint64_t{1};
}

template <typename Value>
Value lengthen(uint64_t number) {
  return number == 0 ? static_cast<Value>(-1) : static_cast<Value>(number - 1);
}

Numbers numbers_of(const Rule& rule) {
  return {rule.collective,
          rule.first_byte_count,
          shorten(rule.last_byte_count),
          rule.first_world,
          shorten(rule.last_world),
          rule.first_hosts,
          shorten(rule.last_hosts),
          static_cast<uint64_t>(rule.algorithm),
          rule.score};
}

bool make_rule(const Numbers& numbers, Rule* out_rule) {
  constexpr size_t kFirstWorld = 3;
  for (size_t i = kFirstWorld; i < kNumbers; ++i) {
    if (numbers[i] > UINT32_MAX) return false;
  }
  if (numbers[0] >= KEEL_COLLECTIVE_COUNT || numbers[7] >= kAlgorithms) return false;
  out_rule->collective = static_cast<keel_collective>(numbers[0]);
  out_rule->first_byte_count = numbers[1];
  out_rule->last_byte_count = lengthen<uint64_t>(numbers[2]);
  out_rule->first_world = static_cast<uint32_t>(numbers[3]);
  out_rule->last_world = lengthen<uint32_t>(numbers[4]);
  out_rule->first_hosts = static_cast<uint32_t>(numbers[5]);
  out_rule->last_hosts = lengthen<uint32_t>(numbers[6]);
  out_rule->algorithm = static_cast<Algorithm>(numbers[7]);
  out_rule->score = static_cast<uint32_t>(numbers[8]);
  return out_rule->is_for_hosts() &&
         applies_between_hosts(out_rule->algorithm, out_rule->collective, /*world=*/2);
}

}  // namespace

std::vector<Rule> host_rules_of(const std::vector<Rule>& rules) {
  std::vector<Rule> found;
  for (const Rule& rule : rules) {
    if (rule.is_for_hosts()) found.push_back(rule);
  }
  return found;
}

std::string write_host_rules(const std::vector<Rule>& rules) {
  std::string text;
  for (const Rule& rule : rules) {
    const char* separator = text.empty() ? "" : ";";
    for (const uint64_t number : numbers_of(rule)) {
      text += fmt::format("{}{}", separator, number);
      separator = ",";
    }
  }
  return text;
}

bool read_host_rules(std::string_view text, std::vector<Rule>* out_rules) {
  out_rules->clear();
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (out_rules->size() == kMostHostRules) return false;
    Numbers numbers = {};
    for (size_t i = 0; i < kNumbers; ++i) {
      const auto [behind, error] = std::from_chars(at, end, numbers[i]);
      if (error != std::errc()) return false;
      at = behind;
      const bool is_last = i + 1 == kNumbers;
      if (is_last && at == end) break;
      if (at == end || *at != (is_last ? ';' : ',')) return false;
      if (++at == end) return false;
    }
    Rule rule;
    if (!make_rule(numbers, &rule)) return false;
    out_rules->push_back(rule);
  }
  return true;
}

std::vector<Rule> fitting_host_rules(const std::vector<Rule>& rules, uint32_t world,
                                     uint32_t hosts) {
  std::vector<Rule> fitting;
  for (const Rule& rule : rules) {
    const bool fits = rule.first_world <= world && world <= rule.last_world &&
                      rule.first_hosts <= hosts && hosts <= rule.last_hosts;
    if (fits) fitting.push_back(rule);
  }
  return fitting;
}

}  // namespace keel

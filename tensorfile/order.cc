// SPDX-License-Identifier: Apache-2.0
#include "tensorfile/order.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace keel::tensorfile {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Takes the digits at the front of |text|; returns them without leading zeroes.
std::string_view take_number(std::string_view* text) {
  const auto end =
      static_cast<size_t>(std::find_if_not(text->begin(), text->end(), is_digit) - text->begin());
  std::string_view number = text->substr(0, end);
  text->remove_prefix(end);
  number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
  return number;
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  // Skips the common beginning, except a number that continues: names of one model share most of
  // their text, and sorting 300,000 names took a second without the skip.
  auto begin =
      static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  while (begin != 0 && is_digit(a[begin - 1])) --begin;
  std::string_view rest_a = a.substr(begin);
  std::string_view rest_b = b.substr(begin);
  while (!rest_a.empty() && !rest_b.empty()) {
    if (is_digit(rest_a.front()) && is_digit(rest_b.front())) {
      const std::string_view number_a = take_number(&rest_a);
      const std::string_view number_b = take_number(&rest_b);
      if (number_a != number_b) {
        return std::pair(number_a.size(), number_a) < std::pair(number_b.size(), number_b);
      }
      continue;
    }
    if (rest_a.front() != rest_b.front()) return rest_a.front() < rest_b.front();
    rest_a.remove_prefix(1);
    rest_b.remove_prefix(1);
  }
  if (rest_a.empty() != rest_b.empty()) return rest_a.empty();
  return a < b;  // the names differ in leading zeroes, if at all
}

std::vector<std::string> metadata_lines(const SafetensorsFile& file, const std::string& key) {
  std::vector<std::string> lines;
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) return lines;
  std::string_view rest = found->second;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    if (end != 0) lines.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return lines;
}

std::vector<std::string> ordered_names(const SafetensorsFile& file) {
  std::vector<std::string> names;
  std::set<std::string> listed;
  for (std::string& name : metadata_lines(file, kOrderKey)) {
    if (file.has(name) && listed.insert(name).second) names.push_back(std::move(name));
  }
  if (names.size() == file.tensors().size()) return names;
  const auto others = static_cast<std::ptrdiff_t>(names.size());
  for (const auto& [name, tensor] : file.tensors()) {
    if (listed.count(name) == 0) names.push_back(name);
  }
  std::sort(names.begin() + others, names.end(), natural_less);
  return names;
}

std::vector<std::string> ordered_names(const SafetensorsFile& a, const SafetensorsFile& b) {
  if (a.metadata().count(kOrderKey) == 0 && b.metadata().count(kOrderKey) != 0) {
    return ordered_names(b, a);
  }
  // Usually |b| has no name that |a| lacks, and the order of |b| adds nothing.
  if (std::includes(a.tensors().begin(), a.tensors().end(), b.tensors().begin(), b.tensors().end(),
                    a.tensors().value_comp())) {
    return ordered_names(a);
  }
  // Names that only |b| has, by their predecessor in |b|; empty for the beginning.
  std::map<std::string, std::vector<std::string>> followers;
  std::string last_of_both;
  for (std::string& name : ordered_names(b)) {
    if (a.has(name)) {
      last_of_both = std::move(name);
    } else {
      followers[last_of_both].push_back(std::move(name));
    }
  }
  std::vector<std::string> names = std::move(followers[""]);
  for (std::string& name : ordered_names(a)) {
    std::vector<std::string> behind;
    if (const auto found = followers.find(name); found != followers.end() && !name.empty()) {
      behind = std::move(found->second);
    }
    names.push_back(std::move(name));
    std::move(behind.begin(), behind.end(), std::back_inserter(names));
  }
  return names;
}

std::string layer_of(std::string_view name) {
  std::string_view before;
  while (!name.empty()) {
    const size_t end = std::min(name.find('.'), name.size());
    const std::string_view part = name.substr(0, end);
    if (!part.empty() && std::all_of(part.begin(), part.end(), is_digit) && !before.empty()) {
      return std::string(before) + "." + std::string(part);
    }
    before = part;
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return {};
}

}  // namespace keel::tensorfile

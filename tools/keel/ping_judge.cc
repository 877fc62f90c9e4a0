// SPDX-License-Identifier: Apache-2.0
#include "tools/keel/ping_judge.h"

#include <fmt/format.h>

#include <algorithm>

namespace keel::cli {

namespace {

constexpr double kSlow = 2.0 / 3;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Bandwidths of the links without |left_out|; of all links if |left_out| is no host.
std::vector<double> links(const PingTable& table, size_t left_out) {
  std::vector<double> values;
  for (size_t from = 0; from < table.hosts.size(); ++from) {
    for (size_t to = from + 1; to < table.hosts.size(); ++to) {
      if (from == left_out || to == left_out) continue;
      values.push_back(table.at(table.gb_per_s, from, to));
    }
  }
  return values;
}

}  // namespace

std::string write_table(const PingTable& table, const std::vector<double>& values) {
  size_t width = 8;
  for (const std::string& host : table.hosts) width = std::max(width, host.size());
  std::string text = fmt::format("{:{}}", "", width);
  for (const std::string& host : table.hosts) text += fmt::format("  {:>{}}", host, width);
  text += "\n";
  for (size_t from = 0; from < table.hosts.size(); ++from) {
    text += fmt::format("{:{}}", table.hosts[from], width);
    for (size_t to = 0; to < table.hosts.size(); ++to) {
      text += from == to ? fmt::format("  {:>{}}", "-", width)
                         : fmt::format("  {:>{}.4g}", table.at(values, from, to), width);
    }
    text += "\n";
  }
  return text;
}

std::string judge(const PingTable& table) {
  const size_t hosts = table.hosts.size();
  if (hosts < 2) return "All ranks are on one host.";
  if (hosts == 2) {
    return fmt::format("The link between {} and {} moves {:.3g} GB/s.", table.hosts[0],
                       table.hosts[1], table.at(table.gb_per_s, 0, 1));
  }
  // With three hosts, two slow links of three make a slow host.
  for (size_t host = 0; host < hosts; ++host) {
    const double rest = median(links(table, host));
    double fastest = 0;
    for (size_t other = 0; other < hosts; ++other) {
      if (other != host) fastest = std::max(fastest, table.at(table.gb_per_s, host, other));
    }
    if (fastest >= kSlow * rest) continue;
    return fmt::format(
        "Host {} is slow: its fastest link moves {:.3g} GB/s, a link between others {:.3g} GB/s.",
        table.hosts[host], fastest, rest);
  }
  const double typical = median(links(table, hosts));
  size_t slow_from = 0;
  size_t slow_to = 1;
  for (size_t from = 0; from < hosts; ++from) {
    for (size_t to = from + 1; to < hosts; ++to) {
      if (table.at(table.gb_per_s, from, to) < table.at(table.gb_per_s, slow_from, slow_to)) {
        slow_from = from;
        slow_to = to;
      }
    }
  }
  const double slowest = table.at(table.gb_per_s, slow_from, slow_to);
  if (slowest >= kSlow * typical) {
    return fmt::format("All links are alike: {:.3g} to {:.3g} GB/s is the slowest and the median.",
                       slowest, typical);
  }
  return fmt::format("The link between {} and {} is slow: {:.3g} GB/s, the median is {:.3g} GB/s.",
                     table.hosts[slow_from], table.hosts[slow_to], slowest, typical);
}

}  // namespace keel::cli

// SPDX-License-Identifier: Apache-2.0
// The table of `keel ping`, and the sentence below.
#ifndef KEEL_TOOLS_KEEL_PING_JUDGE_H_
#define KEEL_TOOLS_KEEL_PING_JUDGE_H_

#include <cstddef>
#include <string>
#include <vector>

namespace keel::cli {

// Values of each pair of hosts, in both orders; 0 on the diagonal.
struct PingTable {
  std::vector<std::string> hosts;
  std::vector<double> round_trip_us;
  std::vector<double> gb_per_s;

  double at(const std::vector<double>& values, size_t from, size_t to) const {
    return values[from * hosts.size() + to];
  }
};

// Returns a line and a column for each host.
std::string write_table(const PingTable& table, const std::vector<double>& values);
// Returns one sentence: a host or a link with less than two thirds of the median bandwidth is
// named.
std::string judge(const PingTable& table);

}  // namespace keel::cli

#endif  // KEEL_TOOLS_KEEL_PING_JUDGE_H_

// SPDX-License-Identifier: Apache-2.0
#include "samples/mixed_training/work_shares.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

namespace mixed_training {

std::vector<int64_t> split_batch(int64_t batch, std::span<const double> speeds) {
  const int64_t units = batch / kShareRows;
  const double total = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  std::vector<int64_t> shares;
  std::vector<double> ideals;
  for (double speed : speeds) {
    ideals.push_back(static_cast<double>(units) * speed / total);
    shares.push_back(std::max<int64_t>(1, static_cast<int64_t>(ideals.back())));
  }
  // Each remaining unit goes to the share furthest below its ideal. If the minimum of one unit gave
  // out too many, the share furthest above its ideal returns one.
  const auto missing = [&](size_t i) { return ideals[i] - static_cast<double>(shares[i]); };
  int64_t left = units - std::accumulate(shares.begin(), shares.end(), int64_t{0});
  for (; left != 0; left += left > 0 ? -1 : 1) {
    size_t chosen = shares.size();
    for (size_t i = 0; i < shares.size(); ++i) {
      if (left < 0 && shares[i] == 1) continue;
      const bool better = chosen == shares.size() ||
                          (left > 0 ? missing(i) > missing(chosen) : missing(i) < missing(chosen));
      if (better) chosen = i;
    }
    shares[chosen] += left > 0 ? 1 : -1;
  }
  for (int64_t& share : shares) share *= kShareRows;
  return shares;
}

WorkShares::WorkShares(int64_t batch, size_t devices)
    : batch_(batch),
      rows_(split_batch(batch, std::vector<double>(devices, 1.0))),
      window_(devices),
      total_(devices),
      speeds_(devices, 0.0) {}

void WorkShares::add(size_t device, std::chrono::nanoseconds compute) {
  const double seconds = std::chrono::duration<double>(compute).count();
  for (Work* work : {&window_[device], &total_[device]}) {
    work->rows += static_cast<double>(rows_[device]);
    work->seconds += seconds;
  }
}

void WorkShares::rebalance() {
  for (size_t i = 0; i < window_.size(); ++i) {
    const double now = window_[i].speed();
    if (now <= 0) return;  // clock too coarse: keep the shares
    speeds_[i] = speeds_[i] > 0 ? (speeds_[i] + now) / 2 : now;
    window_[i] = {};
  }
  rows_ = split_batch(batch_, speeds_);
}

}  // namespace mixed_training

// SPDX-License-Identifier: Apache-2.0
// How many rows of each batch every device works on.
#ifndef KEEL_SAMPLES_MIXED_TRAINING_WORK_SHARES_H_
#define KEEL_SAMPLES_MIXED_TRAINING_WORK_SHARES_H_

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

namespace mixed_training {

// Shares are multiples of this: eight rows are what kernels block by, and noise of the
// clock below it would only make new shapes.
inline constexpr int64_t kShareRows = 8;

// |batch| rows, a multiple of kShareRows, in proportion to |speeds|: each device gets at
// least kShareRows, or its speed could never be measured again.
std::vector<int64_t> split_batch(int64_t batch, std::span<const double> speeds);

// Starts with equal shares and follows the measured speeds. When all devices are done at
// the same time, speeds and shares agree and nothing changes any more. Not thread-safe.
class WorkShares {
 public:
  WorkShares(int64_t batch, size_t devices);

  std::span<const int64_t> rows() const { return rows_; }
  // One step's time of a device for its rows.
  void add(size_t device, std::chrono::nanoseconds compute);
  // New shares from what was added since the last time. The new speed counts half: a
  // device that was held up for once would otherwise make shares swing.
  void rebalance();
  // Rows a second of compute, over all that was added.
  double mean_speed(size_t device) const { return total_[device].speed(); }

 private:
  struct Work {
    double rows = 0;
    double seconds = 0;
    double speed() const { return seconds > 0 ? rows / seconds : 0; }
  };

  int64_t batch_;
  std::vector<int64_t> rows_;
  std::vector<Work> window_;
  std::vector<Work> total_;
  std::vector<double> speeds_;  // 0 until measured
};

}  // namespace mixed_training

#endif  // KEEL_SAMPLES_MIXED_TRAINING_WORK_SHARES_H_

// SPDX-License-Identifier: Apache-2.0
// Splits the rows of each batch between the devices.
#ifndef KEEL_SAMPLES_MIXED_TRAINING_WORK_SHARES_H_
#define KEEL_SAMPLES_MIXED_TRAINING_WORK_SHARES_H_

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

namespace mixed_training {

// Shares are multiples of this number: kernels block by eight rows, and finer shares would follow
// the clock's noise and only create new shapes.
inline constexpr int64_t kShareRows = 8;

// Splits |batch| rows, a multiple of kShareRows, in proportion to |speeds|. Each device gets at
// least kShareRows, because a device without rows could not be measured again.
std::vector<int64_t> split_batch(int64_t batch, std::span<const double> speeds);

// Starts with equal shares and follows the measured speeds. Once all devices finish at the same
// time, shares match speeds and stay constant. Not thread-safe.
class WorkShares {
 public:
  WorkShares(int64_t batch, size_t devices);

  std::span<const int64_t> rows() const { return rows_; }
  // Adds one step's compute time of a device for its rows.
  void add(size_t device, std::chrono::nanoseconds compute);
  // Computes new shares from the times added since the last call. The new speed is weighted by one
  // half: otherwise a single delay of a device would make the shares oscillate.
  void rebalance();
  // Rows per second of compute, over all added times.
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

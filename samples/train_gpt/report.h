// SPDX-License-Identifier: Apache-2.0
// What the program tells: a line of progress, the results, and all of it as JSON.
#ifndef KEEL_SAMPLES_TRAIN_GPT_REPORT_H_
#define KEEL_SAMPLES_TRAIN_GPT_REPORT_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "samples/train_gpt/config.h"
#include "samples/train_gpt/trainer.h"

namespace train_gpt {

struct DeviceReport {
  std::string name;      // "vulkan:0"
  std::string hardware;  // what the vendor calls it
  uint32_t chip;         // several devices may be one chip
  // Operations a second of products alone; none where they could not be measured.
  std::optional<double> roof;
};

// Mean over the steps since the last one.
struct Interval {
  int64_t step;
  double loss;           // bits per byte
  double gradient_norm;  // of the last step
  double tokens_per_second;
  std::optional<double> utilization;  // of the devices' roofs together: MFU
  double seconds_left;
};

struct Report {
  ModelConfig model;
  TrainingSettings settings;
  int64_t parameters = 0;
  int64_t text_bytes = 0;
  uint64_t activation_bytes = 0;  // a device's
  int64_t first_step = 1;         // later than 1 where a training was resumed
  std::vector<DeviceReport> devices;
  std::vector<StepResult> steps;
  std::vector<Interval> intervals;
  double seconds = 0;
  std::string failure;  // why the run failed; empty: it did not
  // What follows, a run that failed has not.
  double held_out_bits_per_byte = 0;
  std::string prompt;
  std::string sample;

  std::optional<double> roof() const;  // of all chips; none where one has none
  // Of |steps|[first] and those behind it.
  Interval interval(size_t first) const;
  // Of the whole run but its first step, which compiles.
  double tokens_per_second() const;
  std::optional<double> utilization() const;

 private:
  std::optional<double> utilization_at(double tokens_a_second) const;
};

// Of an interval, at most |columns| wide: with a bar where there is room for one. |columns| 0: as
// wide as it is, without a bar.
std::string progress_line(const Interval& interval, int64_t steps, size_t columns);

// Shows intervals of a run: on a terminal a bar in place, else one line each.
class Progress {
 public:
  explicit Progress(int64_t steps);

  void show(const Interval& interval) const;

 private:
  int64_t steps_;
  bool terminal_;
};

void print_beginning(const Report& report);
void print_results(const Report& report);
void write_json(std::ostream& out, const Report& report);
void write_chart(std::ostream& out, const Report& report);

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_REPORT_H_

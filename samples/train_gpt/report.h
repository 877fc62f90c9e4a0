// SPDX-License-Identifier: Apache-2.0
// Reports of the program: a progress line, the results, and everything as JSON.
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
  std::string hardware;  // the vendor's name
  uint32_t chip;         // several devices may be one chip
  // Operations per second of matrix products alone; nothing if not measured.
  std::optional<double> roof;
};

// Means over the steps since the previous interval.
struct Interval {
  int64_t step;
  double loss;           // bits per byte
  double gradient_norm;  // of the last step
  double tokens_per_second;
  std::optional<double> utilization;  // fraction of the devices' total roof: MFU
  double seconds_left;
  const char* unit = "byte";
};

// Where the time of one step on a mesh went.
struct StepTimeline {
  std::string text;  // a table
  std::string json;
  std::string svg;
};

struct Report {
  ModelConfig model;
  TrainingSettings settings;
  int64_t parameters = 0;
  int64_t text_bytes = 0;
  std::string unit = "byte";      // of the text and of losses; "token" with token files
  uint64_t activation_bytes = 0;  // of one device
  int64_t first_step = 1;         // above 1 if training was resumed
  std::vector<DeviceReport> devices;
  std::vector<StepResult> steps;
  std::vector<Interval> intervals;
  double seconds = 0;
  std::string failure;  // why the run failed; empty on success
  // The following members are unset if the run failed.
  double held_out_bits_per_byte = 0;  // 0 with token files, which hold nothing out
  std::string prompt;
  std::string sample;
  std::optional<StepTimeline> timeline;  // of the last step, with --timeline

  // A device's part of its chip's roof, which devices of one chip share; 0 if not measured.
  double roof_of(size_t device) const;
  std::optional<double> roof() const;  // sum over the chips; nothing if one is missing
  // Returns the interval that starts at |steps|[first].
  Interval interval(size_t first) const;
  // Over the whole run except its first step, which compiles kernels.
  double tokens_per_second() const;
  std::optional<double> utilization() const;

 private:
  std::optional<double> utilization_at(double tokens_a_second) const;
};

// Returns an interval's line, at most |columns| wide, with a progress bar if there is room.
// |columns| 0: any width, no bar.
std::string progress_line(const Interval& interval, int64_t steps, size_t columns);

// Shows intervals during a run: a bar updated in place on a terminal, else one line each.
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

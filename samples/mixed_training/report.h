// SPDX-License-Identifier: Apache-2.0
// Reports of the program: a progress line, the results, and everything as JSON.
#ifndef KEEL_SAMPLES_MIXED_TRAINING_REPORT_H_
#define KEEL_SAMPLES_MIXED_TRAINING_REPORT_H_

#include <cstdint>
#include <keel/keel.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "samples/mixed_training/checks.h"
#include "samples/mixed_training/trainer.h"

namespace mixed_training {

struct DeviceReport {
  std::string name;      // "vulkan:0"
  std::string hardware;  // the vendor's name
  keel_comm_stats communication;
};

struct Report {
  TrainingSettings settings;
  int64_t text_bytes = 0;
  int64_t parameters = 0;
  std::vector<DeviceReport> devices;
  TrainingRun run;
  std::string reference_device;
  TrainingRun reference;
  std::vector<Check> checks;
  double held_out_bits_per_byte = 0;
  std::string prompt;
  std::string sample;

  bool passed() const;
};

// Shows intervals during a run: a bar updated in place on a terminal, else one line each.
class Progress {
 public:
  Progress(int64_t steps, std::vector<std::string> devices);

  void show(const Interval& interval) const;

 private:
  int64_t steps_;
  std::vector<std::string> devices_;
  bool terminal_;
};

void print_results(const Report& report);
void write_json(std::ostream& out, const Report& report);

}  // namespace mixed_training

#endif  // KEEL_SAMPLES_MIXED_TRAINING_REPORT_H_

// SPDX-License-Identifier: Apache-2.0
#include "samples/train_gpt/report.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <numbers>
#include <numeric>

#include "base/strict_json.h"
#include "samples/train_gpt/chart.h"

namespace train_gpt {
namespace {

using nlohmann::ordered_json;

std::string bar(int64_t done, int64_t total, int64_t width) {
  std::string text(static_cast<size_t>(width), '.');
  std::fill_n(text.begin(), std::min(width, done * width / total), '#');
  return "[" + text + "] ";
}

ordered_json or_null(std::optional<double> value) {
  return value ? ordered_json(*value) : ordered_json();
}

// Returns "45.6 %", or "not measured".
std::string percent(std::optional<double> share) {
  return share ? fmt::format("{:.1f} %", 100 * *share) : "not measured";
}

// Returns the terminal's columns; 80 if unknown.
size_t terminal_columns() {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

double bits(double nats) {
  return nats / std::numbers::ln2;
}

}  // namespace

// ---- what a report knows

std::optional<double> Report::roof() const {
  std::map<uint32_t, double> chips;
  for (const DeviceReport& device : devices) {
    if (!device.roof) return std::nullopt;
    double& roof = chips[device.chip];
    roof = std::max(roof, *device.roof);
  }
  return std::accumulate(chips.begin(), chips.end(), 0.0,
                         [](double sum, const auto& chip) { return sum + chip.second; });
}

double Report::roof_of(size_t device) const {
  double roof = 0, sharing = 0;
  for (const DeviceReport& each : devices) {
    if (each.chip != devices[device].chip) continue;
    if (!each.roof) return 0;
    roof = std::max(roof, *each.roof);
    ++sharing;
  }
  return roof / sharing;
}

Interval Report::interval(size_t first) const {
  double loss = 0;
  double seconds_of_steps = 0;
  for (size_t i = first; i < steps.size(); ++i) {
    loss += steps[i].loss;
    seconds_of_steps += steps[i].seconds;
  }
  const auto count = static_cast<double>(steps.size() - first);
  const double tokens =
      count * static_cast<double>(settings.batch * model.context) / seconds_of_steps;
  const StepResult& last = steps.back();
  return {last.step,
          bits(loss / count),
          last.gradient_norm,
          tokens,
          utilization_at(tokens),
          static_cast<double>(settings.steps - last.step) * seconds_of_steps / count,
          unit == "byte" ? "byte" : "token"};
}

double Report::tokens_per_second() const {
  return steps.empty() ? 0 : interval(steps.size() > 1 ? 1 : 0).tokens_per_second;
}

std::optional<double> Report::utilization_at(double tokens_a_second) const {
  const std::optional<double> whole = roof();
  if (!whole) return std::nullopt;
  return tokens_a_second * training_flops_per_token(model) / *whole;
}

std::optional<double> Report::utilization() const {
  return utilization_at(tokens_per_second());
}

// ---- progress

Progress::Progress(int64_t steps) : steps_(steps), terminal_(isatty(STDOUT_FILENO) == 1) {}

std::string progress_line(const Interval& interval, int64_t steps, size_t columns) {
  constexpr size_t kLongestBar = 24;
  constexpr size_t kShortestBar = 3;
  const auto seconds = static_cast<long long>(std::lround(interval.seconds_left));
  std::string line = fmt::format("{}/{}  {}:{:02} left  {:.3f} bits/{}  norm {:.2f}  {:.0f} tok/s",
                                 interval.step, steps, seconds / 60, seconds % 60, interval.loss,
                                 interval.unit, interval.gradient_norm, interval.tokens_per_second);
  if (interval.utilization) line += "  MFU " + percent(interval.utilization);
  if (columns == 0) return "step " + line;
  constexpr size_t kFrame = 3;  // brackets and a space
  if (line.size() + kFrame + kShortestBar <= columns) {
    const size_t width = std::min(kLongestBar, columns - line.size() - kFrame);
    return bar(interval.step, steps, static_cast<int64_t>(width)) + line;
  }
  line.resize(std::min(line.size(), columns));
  return line;
}

void Progress::show(const Interval& interval) const {
  // On a terminal each line replaces the previous one: a longer line would wrap and scroll.
  const std::string line = progress_line(interval, steps_, terminal_ ? terminal_columns() - 1 : 0);
  if (!terminal_) {
    std::printf("%s\n", line.c_str());
  } else {
    std::printf("\r%s\033[K%s", line.c_str(), interval.step == steps_ ? "\n" : "");
  }
  std::fflush(stdout);
}

// ---- results

void print_beginning(const Report& report) {
  std::printf("%s", fmt::format("{} {}s of text, {} of {} parameters in {} layers, batches of "
                                "{} x {} {}s, {}\n",
                                report.text_bytes, report.unit, name(report.model.architecture),
                                report.parameters, report.model.layers, report.settings.batch,
                                report.model.context, report.unit, name(report.settings.precision))
                        .c_str());
  for (const DeviceReport& device : report.devices) {
    const std::string roof = device.roof
                                 ? fmt::format("products of {:.3g} Tflop/s", *device.roof / 1e12)
                                 : "products not measured";
    std::printf("%s", fmt::format("  {:<10} {}, {}\n", device.name, device.hardware, roof).c_str());
  }
  std::fflush(stdout);
}

void print_results(const Report& report) {
  std::printf("%s", fmt::format("\n{} steps in {:.1f} s, {:.0f} tokens/s, MFU {} of what "
                                "products alone reach; {:.1f} MB of activations a device\n",
                                report.steps.size(), report.seconds, report.tokens_per_second(),
                                percent(report.utilization()),
                                static_cast<double>(report.activation_bytes) / 1e6)
                        .c_str());
  std::printf("\nafter \"%s\" it writes:\n%s\n", report.prompt.c_str(), report.sample.c_str());
  std::printf("\nheld-out text: %.3f bits per byte\n", report.held_out_bits_per_byte);
}

void write_json(std::ostream& out, const Report& report) {
  ordered_json devices = ordered_json::array();
  for (const DeviceReport& device : report.devices) {
    devices.push_back({{"name", device.name},
                       {"hardware", device.hardware},
                       {"roof_flops_per_second", or_null(device.roof)}});
  }
  ordered_json intervals = ordered_json::array();
  for (const Interval& interval : report.intervals) {
    intervals.push_back({{"step", interval.step},
                         {"loss_bits_per_byte", interval.loss},
                         {"gradient_norm", interval.gradient_norm},
                         {"tokens_per_second", interval.tokens_per_second},
                         {"mfu", or_null(interval.utilization)}});
  }
  ordered_json losses = ordered_json::array();
  for (const StepResult& step : report.steps) losses.push_back(step.loss);
  ordered_json all = {{"version", 1},
                      {"model", json_of(report.model)},
                      {"parameters", report.parameters},
                      {"settings", json_of(report.settings)},
                      {"text_bytes", report.text_bytes},
                      {"devices", devices},
                      {"first_step", report.first_step},
                      {"seconds", report.seconds},
                      {"flops_per_token", training_flops_per_token(report.model)},
                      {"activation_bytes", report.activation_bytes},
                      {"tokens_per_second", report.tokens_per_second()},
                      {"mfu", or_null(report.utilization())},
                      {"losses_nats_per_" + report.unit, losses},
                      {"intervals", intervals}};
  std::string error;  // the text is this process's own
  if (report.timeline) keel::parse_json(report.timeline->json, &all["step"], &error);
  if (report.failure.empty()) {
    if (report.unit == "byte") all["held_out_bits_per_byte"] = report.held_out_bits_per_byte;
    all["prompt"] = report.prompt;
    all["sample"] = report.sample;
  } else {
    all["failure"] = report.failure;
  }
  // The failure may contain a file name that is not UTF-8.
  out << all.dump(/*indent=*/2, ' ', false, ordered_json::error_handler_t::replace) << '\n'
      << std::flush;
}

void write_chart(std::ostream& out, const Report& report) {
  std::vector<double> losses;
  for (const StepResult& step : report.steps) losses.push_back(bits(step.loss));
  std::string devices;
  for (const DeviceReport& device : report.devices) {
    devices += (devices.empty() ? "" : ", ") + device.name;
  }
  out << loss_chart(losses, report.first_step,
                    fmt::format("{} of {} parameters, {}, on {}", name(report.model.architecture),
                                report.parameters, name(report.settings.precision), devices))
      << std::flush;
}

}  // namespace train_gpt

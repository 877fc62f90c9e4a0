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

#include "samples/train_gpt/chart.h"

namespace train_gpt {
namespace {

using nlohmann::ordered_json;

std::string bar(int64_t done, int64_t total) {
  constexpr int64_t kWidth = 24;
  std::string text(static_cast<size_t>(kWidth), '.');
  std::fill_n(text.begin(), std::min(kWidth, done * kWidth / total), '#');
  return "[" + text + "] ";
}

// Columns of the terminal; 80 where it does not say.
size_t terminal_columns() {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

double bits(double nats) {
  return nats / std::numbers::ln2;
}

}  // namespace

// ---- what a report knows

double Report::roof() const {
  std::map<uint32_t, double> chips;
  for (const DeviceReport& device : devices) {
    double& roof = chips[device.chip];
    roof = std::max(roof, device.roof);
  }
  return std::accumulate(chips.begin(), chips.end(), 0.0,
                         [](double sum, const auto& chip) { return sum + chip.second; });
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
          tokens * training_flops_per_token(model) / roof(),
          static_cast<double>(settings.steps - last.step) * seconds_of_steps / count};
}

double Report::tokens_per_second() const {
  return steps.empty() ? 0 : interval(steps.size() > 1 ? 1 : 0).tokens_per_second;
}

double Report::utilization() const {
  return tokens_per_second() * training_flops_per_token(model) / roof();
}

// ---- progress

Progress::Progress(int64_t steps) : steps_(steps), terminal_(isatty(STDOUT_FILENO) == 1) {}

void Progress::show(const Interval& interval) const {
  const auto seconds = static_cast<long long>(std::lround(interval.seconds_left));
  std::string line = terminal_ ? bar(interval.step, steps_) : std::string();
  line += fmt::format(
      "step {:5}/{}  {}:{:02} left  loss {:.3f} bits/byte  gradient {:.2f}  {:.0f} tokens/s  MFU "
      "{:.1f} %",
      interval.step, steps_, seconds / 60, seconds % 60, interval.loss, interval.gradient_norm,
      interval.tokens_per_second, 100 * interval.utilization);
  if (!terminal_) {
    std::printf("%s\n", line.c_str());
  } else {
    // One line, drawn over the one before: a longer one would wrap and scroll.
    line.resize(std::min(line.size(), terminal_columns() - 1));
    std::printf("\r%s\033[K%s", line.c_str(), interval.step == steps_ ? "\n" : "");
  }
  std::fflush(stdout);
}

// ---- results

void print_beginning(const Report& report) {
  std::printf("%s", fmt::format("{} bytes of text, {} of {} parameters in {} layers, batches of "
                                "{} x {} bytes, {}\n",
                                report.text_bytes, name(report.model.architecture),
                                report.parameters, report.model.layers, report.settings.batch,
                                report.model.context, name(report.settings.precision))
                        .c_str());
  for (const DeviceReport& device : report.devices) {
    std::printf("%s", fmt::format("  {:<10} {}, products of {:.3g} Tflop/s\n", device.name,
                                  device.hardware, device.roof / 1e12)
                          .c_str());
  }
  std::fflush(stdout);
}

void print_results(const Report& report) {
  std::printf("%s", fmt::format("\n{} steps in {:.1f} s, {:.0f} tokens/s, MFU {:.1f} % of what "
                                "products alone reach; {:.1f} MB of activations a device\n",
                                report.steps.size(), report.seconds, report.tokens_per_second(),
                                100 * report.utilization(),
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
                       {"roof_flops_per_second", device.roof}});
  }
  ordered_json intervals = ordered_json::array();
  for (const Interval& interval : report.intervals) {
    intervals.push_back({{"step", interval.step},
                         {"loss_bits_per_byte", interval.loss},
                         {"gradient_norm", interval.gradient_norm},
                         {"tokens_per_second", interval.tokens_per_second},
                         {"mfu", interval.utilization}});
  }
  ordered_json losses = ordered_json::array();
  for (const StepResult& step : report.steps) losses.push_back(step.loss);
  ordered_json all = {{"version", 1},
                      {"model", ordered_json::parse(to_json(report.model))},
                      {"parameters", report.parameters},
                      {"settings", ordered_json::parse(to_json(report.settings))},
                      {"text_bytes", report.text_bytes},
                      {"devices", devices},
                      {"first_step", report.first_step},
                      {"seconds", report.seconds},
                      {"flops_per_token", training_flops_per_token(report.model)},
                      {"activation_bytes", report.activation_bytes},
                      {"tokens_per_second", report.tokens_per_second()},
                      {"mfu", report.utilization()},
                      {"losses_nats_per_byte", losses},
                      {"intervals", intervals}};
  if (report.failure.empty()) {
    all["held_out_bits_per_byte"] = report.held_out_bits_per_byte;
    all["prompt"] = report.prompt;
    all["sample"] = report.sample;
  } else {
    all["failure"] = report.failure;
  }
  // A failure may name a file whose name is no UTF-8.
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

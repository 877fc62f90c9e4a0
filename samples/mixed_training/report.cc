// SPDX-License-Identifier: Apache-2.0
#include "samples/mixed_training/report.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

namespace mixed_training {
namespace {

using nlohmann::ordered_json;

std::string bar(int64_t done, int64_t total) {
  constexpr int64_t kWidth = 24;
  std::string text(static_cast<size_t>(kWidth), '.');
  std::fill_n(text.begin(), done * kWidth / total, '#');
  return "[" + text + "] ";
}

ordered_json intervals_json(const std::vector<Interval>& intervals) {
  ordered_json all = ordered_json::array();
  for (const Interval& interval : intervals) {
    all.push_back({{"step", interval.step},
                   {"seconds", interval.seconds},
                   {"loss_bits_per_byte", interval.loss},
                   {"tokens_per_second", interval.bytes_per_second},
                   {"rows", interval.rows},
                   {"device_tokens_per_second", interval.compute_speeds}});
  }
  return all;
}

ordered_json devices_json(const Report& report) {
  ordered_json all = ordered_json::array();
  const Interval& last = report.run.intervals.back();
  for (size_t rank = 0; rank < report.devices.size(); ++rank) {
    const DeviceReport& device = report.devices[rank];
    all.push_back({{"rank", rank},
                   {"name", device.name},
                   {"hardware", device.hardware},
                   {"rows_at_the_end", last.rows[rank]},
                   {"tokens_per_second", last.compute_speeds[rank]},
                   {"communicator",
                    {{"operations", device.communication.operations},
                     {"bytes_to_host", device.communication.bytes_to_host},
                     {"bytes_to_device", device.communication.bytes_to_device},
                     {"bytes_in_place", device.communication.bytes_in_place}}}});
  }
  return all;
}

ordered_json checks_json(const std::vector<Check>& checks) {
  ordered_json all = ordered_json::array();
  for (const Check& check : checks) {
    all.push_back({{"name", check.name},
                   {"value", check.value},
                   {"limit", check.limit},
                   {"passed", check.passed()}});
  }
  return all;
}

}  // namespace

bool Report::passed() const {
  return std::all_of(checks.begin(), checks.end(), [](const Check& c) { return c.passed(); });
}

Progress::Progress(int64_t steps, std::vector<std::string> devices)
    : steps_(steps), devices_(std::move(devices)), terminal_(isatty(STDOUT_FILENO) == 1) {}

namespace {

// Returns the terminal's columns; 80 if unknown.
size_t terminal_columns() {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

void Progress::show(const Interval& interval) const {
  const auto seconds =
      static_cast<long long>(std::lround(interval.seconds / static_cast<double>(interval.step) *
                                         static_cast<double>(steps_ - interval.step)));
  std::string line = terminal_ ? bar(interval.step, steps_) : std::string();
  line += fmt::format("step {:5}/{}  {}:{:02} left  loss {:.3f} bits/byte  {:.0f} tokens/s",
                      interval.step, steps_, seconds / 60, seconds % 60, interval.loss,
                      interval.bytes_per_second);
  for (size_t i = 0; i < devices_.size(); ++i) {
    line += fmt::format("  {} {} rows, {:.0f}/s", devices_[i], interval.rows[i],
                        interval.compute_speeds[i]);
  }
  if (!terminal_) {
    std::printf("%s\n", line.c_str());
  } else {
    // Each line replaces the previous one: a longer line would wrap and scroll.
    line.resize(std::min(line.size(), terminal_columns() - 1));
    std::printf("\r%s\033[K%s", line.c_str(), interval.step == steps_ ? "\n" : "");
  }
  std::fflush(stdout);
}

void print_results(const Report& report) {
  std::printf("\n%lld steps in %.1f s; %s alone: %zu steps in %.1f s\n",
              static_cast<long long>(report.settings.steps), report.run.seconds,
              report.reference_device.c_str(), report.reference.losses.size(),
              report.reference.seconds);
  for (const DeviceReport& device : report.devices) {
    const keel_comm_stats& stats = device.communication;
    std::printf(
        "%s: %llu collectives, %.1f MB staged to the host, %.1f MB back, %.1f MB in place\n",
        device.name.c_str(), static_cast<unsigned long long>(stats.operations),
        static_cast<double>(stats.bytes_to_host) / 1e6,
        static_cast<double>(stats.bytes_to_device) / 1e6,
        static_cast<double>(stats.bytes_in_place) / 1e6);
  }
  std::printf("\nafter \"%s\" it writes:\n%s\n", report.prompt.c_str(), report.sample.c_str());
  std::printf("\nheld-out text: %.3f bits per byte\n", report.held_out_bits_per_byte);
  std::printf("\nthe same training on %s alone, in float32:\n", report.reference_device.c_str());
  for (const Check& check : report.checks) {
    std::printf("  %s  %-62s %.1e (at most %.0e)\n", check.passed() ? "pass" : "FAIL",
                check.name.c_str(), check.value, check.limit);
  }
}

void write_json(std::ostream& out, const Report& report) {
  ordered_json shares = ordered_json::array();
  for (const ShareChange& change : report.run.shares) {
    shares.push_back({{"step", change.step}, {"rows", change.rows}});
  }
  const TrainingSettings& settings = report.settings;
  const ordered_json all = {{"version", 1},
                            {"passed", report.passed()},
                            {"settings",
                             {{"steps", settings.steps},
                              {"batch", settings.batch},
                              {"hidden", settings.hidden},
                              {"learning_rate", settings.learning_rate},
                              {"seed", settings.seed},
                              {"parameters", report.parameters},
                              {"text_bytes", report.text_bytes}}},
                            {"devices", devices_json(report)},
                            {"seconds", report.run.seconds},
                            {"intervals", intervals_json(report.run.intervals)},
                            {"shares", shares},
                            {"losses_nats_per_byte", report.run.losses},
                            {"reference",
                             {{"device", report.reference_device},
                              {"seconds", report.reference.seconds},
                              {"losses_nats_per_byte", report.reference.losses}}},
                            {"checks", checks_json(report.checks)},
                            {"held_out_bits_per_byte", report.held_out_bits_per_byte},
                            {"prompt", report.prompt},
                            {"sample", report.sample}};
  out << all.dump(/*indent=*/2) << '\n' << std::flush;
}

}  // namespace mixed_training

// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/perf_report.h"

#include <fmt/format.h>

#include <cstdio>
#include <numeric>

namespace keel::cli {
namespace {

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::string timing_text(const std::optional<PerfTiming>& timing) {
  if (!timing) return fmt::format("  {:>7}  {:>6}  {:>6}    N/A", "N/A", "N/A", "N/A");
  const std::string text = fmt::format(
      "  {:>7}  {:>6}  {:>6}", perf_number(timing->seconds * 1e6, 7),
      perf_number(timing->algorithm_bandwidth, 6), perf_number(timing->bus_bandwidth, 6));
  if (!timing->wrong) return text + "    N/A";
  return text + fmt::format("  {:>6}", fmt::format("{:g}", static_cast<double>(*timing->wrong)));
}

Json timing_json(const std::optional<PerfTiming>& timing) {
  if (!timing) return nullptr;
  return {{"time", timing->seconds * 1e6},
          {"alg_bw", timing->algorithm_bandwidth},
          {"bus_bw", timing->bus_bandwidth},
          {"nwrong", timing->wrong ? Json(*timing->wrong) : Json(nullptr)}};
}

std::string reduction_text(const PerfRow& row) {
  return row.reduction ? perf_reduction_name(*row.reduction) : "none";
}

// Shows each line as soon as it is complete.
void show(const std::string& text) {
  print(text);
  std::fflush(stdout);
}

}  // namespace

std::string perf_number(double value, size_t width) {
  size_t digits = 0;  // before the point
  for (double rest = value; rest >= 1; rest /= 10) ++digits;
  const int decimals = digits + 2 < width ? 2 : digits + 1 < width ? 1 : 0;
  if (digits > width) return fmt::format("{:.{}e}", value, width >= 7 ? 1 : 0);
  return fmt::format("{:.{}f}", value, decimals);
}

std::string perf_row_text(const PerfRow& row) {
  return fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", row.bytes, row.count,
                     perf_dtype_name(row.dtype), reduction_text(row),
                     row.root ? static_cast<int64_t>(*row.root) : -1) +
         timing_text(row.out_of_place) + timing_text(row.in_place) + "\n";
}

PerfReport::PerfReport(const PerfOptions& options, std::vector<PerfRankInfo> ranks)
    : options_(options), ranks_(std::move(ranks)) {}

void PerfReport::print_start() const {
  std::string text = fmt::format(
      "# keel perf, Keel {}.{}.{}\n"
      "# nThread {} nGpus {} minBytes {} maxBytes {} step: {}({}) warmup iters: {} iters: {} "
      "agg iters: 1 validation: {} graph: 0\n",
      keel_version() >> 16, keel_version() >> 8 & 255, keel_version() & 255, options_.threads,
      options_.devices_per_thread, options_.min_bytes, options_.max_bytes,
      options_.step_factor > 1 ? options_.step_factor : options_.step_bytes,
      options_.step_factor > 1 ? "factor" : "bytes", options_.warmup_iterations,
      options_.iterations, options_.check);
  if (options_.sync_each) text += "# Blocking Enabled: wait for completion after each collective\n";
  if (options_.foreign) text += "# Buffers are of malloc, registered with their device\n";
  text += "#\n# Using devices\n";
  for (const PerfRankInfo& each : ranks_) {
    text += fmt::format("#  Rank {:>2} Group {:>2} Pid {:>6} on {:>10} device {} {}\n", each.rank,
                        0, each.pid, each.host, each.device, each.name);
  }
  show(text);
}

void PerfReport::begin(const PerfOperation& operation) {
  operation_ = operation.name;
  bandwidths_.clear();
  wrong_rows_ = 0;
  const auto line = [](const char* size, const char* count, const char* type, const char* reduction,
                       const char* root) {
    return fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", size, count, type, reduction, root);
  };
  const auto columns = [](const char* time, const char* algorithm, const char* bus,
                          const char* wrong) {
    return fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", time, algorithm, bus, wrong);
  };
  const std::string names = columns("time", "algbw", "busbw", "#wrong");
  const std::string units = columns("(us)", "(GB/s)", "(GB/s)", "");
  show(fmt::format("#\n# Collective test starting: {}\n#\n", operation_) +
       line("", "", "", "", "") +
       "           out-of-place                       in-place          \n" +
       line("size", "count", "type", "redop", "root") + names + names + " \n" +
       line("(B)", "(elements)", "", "", "") + units + units + " \n");
}

void PerfReport::add(const PerfRow& row) {
  show(perf_row_text(row));
  for (const auto* timing : {&row.out_of_place, &row.in_place}) {
    if (!timing->has_value()) continue;
    bandwidths_.push_back((*timing)->bus_bandwidth);
    all_bandwidths_.push_back((*timing)->bus_bandwidth);
    if ((*timing)->wrong.value_or(0) == 0) continue;
    ++wrong_rows_;
    ++all_wrong_rows_;
  }
  results_.push_back({{"operation", operation_},
                      {"size", row.bytes},
                      {"count", row.count},
                      {"type", perf_dtype_name(row.dtype)},
                      {"redop", reduction_text(row)},
                      {"root", row.root ? static_cast<int64_t>(*row.root) : -1},
                      {"out_of_place", timing_json(row.out_of_place)},
                      {"in_place", timing_json(row.in_place)}});
}

void PerfReport::end() {
  show(fmt::format("# {:<20} : {} {}\n# {:<20} : {:g} \n#\n# Collective test concluded: {}\n",
                   "Out of bounds values", wrong_rows_, wrong_rows_ == 0 ? "OK" : "FAILED",
                   "Avg bus bandwidth", mean(bandwidths_), operation_));
}

Json PerfReport::json() const {
  Json ranks = Json::array();
  for (const PerfRankInfo& each : ranks_) {
    ranks.push_back({{"rank", each.rank},
                     {"pid", each.pid},
                     {"hostname", each.host},
                     {"device", each.device},
                     {"device_info", each.name}});
  }
  Json json;
  json["version"] = 1;
  json["keel_version"] = keel_version();
  json["config"] = {{"procs", options_.processes},
                    {"nthreads", options_.threads},
                    {"ngpus", options_.devices_per_thread},
                    {"minimum_bytes", options_.min_bytes},
                    {"maximum_bytes", options_.max_bytes},
                    {options_.step_factor > 1 ? "step_factor" : "step_bytes",
                     options_.step_factor > 1 ? options_.step_factor : options_.step_bytes},
                    {"warmup_iters", options_.warmup_iterations},
                    {"iterations", options_.iterations},
                    {"validation", options_.check},
                    {"blocking_collectives", options_.sync_each},
                    {"foreign", options_.foreign},
                    {"devices", ranks}};
  json["results"] = results_;
  json["out_of_bounds"] = {{"count", all_wrong_rows_}, {"okay", all_wrong_rows_ == 0}};
  json["average_bus_bandwidth"] = {{"bandwidth", mean(all_bandwidths_)}};
  return json;
}

}  // namespace keel::cli

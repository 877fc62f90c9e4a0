// SPDX-License-Identifier: Apache-2.0
#include "bench/collectives_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace keel::bench {

namespace {

using Ratio = std::optional<Estimate> Comparison::*;

constexpr std::pair<const char*, Ratio> kRatios[] = {
    {"best peer / Keel", &Comparison::peer_ratio},
    {"best peer / Keel, as a stream", &Comparison::stream_ratio},
    {"direct / Keel", &Comparison::direct_ratio},
    {"best peer / direct", &Comparison::peer_over_bound},
};

std::string time_text(const std::optional<Estimate>& time) {
  if (!time) return "–";
  return time->median < 100 ? fmt::format("{:.3g}", time->median)
                            : fmt::format("{:.0f}", time->median);
}

std::string ratio_text(const std::optional<Estimate>& ratio) {
  if (!ratio) return "–";
  return fmt::format("{:.2f} ({:.2f}–{:.2f})", ratio->median, ratio->low, ratio->high);
}

std::string mean_text(const std::optional<double>& mean) {
  return mean ? fmt::format("{:.2f}", *mean) : "–";
}

// Returns two table cells: the target, and whether it is met.
std::string target_text(const std::optional<Target>& target, const std::optional<Estimate>& ratio) {
  if (!target) return "– | –";
  const std::optional<bool> met = is_met(target, ratio);
  return fmt::format("{} {:.2f} | {}", target->of_low ? "surely" : "at least", target->bound,
                     !met   ? "not measured"
                     : *met ? "met"
                            : "missed");
}

// A mean has no interval.
std::optional<Estimate> estimate_of(const std::optional<double>& mean) {
  if (!mean) return std::nullopt;
  return Estimate{*mean, *mean, *mean};
}

void add_means(const CollectivesReport::PerSetting& part, std::string& text) {
  text +=
      "| geometric mean of | below 64 KiB | target | | from 64 KiB | target | |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const auto& [name, ratio] : kRatios) {
    const std::optional<double> small = mean_ratio(part.comparisons, ratio, /*large=*/false);
    const std::optional<double> large = mean_ratio(part.comparisons, ratio, /*large=*/true);
    if (!small && !large) continue;
    const auto target = [&](bool is_large) {
      return ratio == &Comparison::peer_ratio ? mean_target(part.setting, is_large) : std::nullopt;
    };
    text += fmt::format("| {} | {} | {} | {} | {} |\n", name, mean_text(small),
                        target_text(target(false), estimate_of(small)), mean_text(large),
                        target_text(target(true), estimate_of(large)));
  }
}

void add_cells(const CollectivesReport::PerSetting& part, std::string& text) {
  text +=
      "| operation | ranks | size | best peer | its algorithm | peer | Keel | Keel, stream | "
      "direct | peer / Keel | target | | direct / Keel | target | | peer / direct |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Comparison& row : part.comparisons) {
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
                        peers::name_of(row.cell.operation), row.cell.ranks,
                        size_text(row.cell.bytes), row.peer, row.peer_way, time_text(row.peer_time),
                        time_text(row.keel_time), time_text(row.stream_time),
                        time_text(row.direct_time), ratio_text(row.peer_ratio),
                        target_text(peer_target(part.setting, row.cell.bytes), row.peer_ratio),
                        ratio_text(row.direct_ratio),
                        target_text(direct_target(part.setting, row.cell.bytes), row.direct_ratio),
                        ratio_text(row.peer_over_bound));
  }
}

void add_list(const char* title, const std::vector<std::string>& lines, std::string& text) {
  if (lines.empty()) return;
  text += fmt::format("\n{}:\n\n", title);
  for (const std::string& line : lines) text += fmt::format("- {}\n", line);
}

nlohmann::ordered_json to_object(const std::optional<Estimate>& estimate) {
  if (!estimate) return nullptr;
  return {{"median", estimate->median}, {"low", estimate->low}, {"high", estimate->high}};
}

template <typename Value>
nlohmann::ordered_json or_null(const std::optional<Value>& value) {
  if (!value) return nullptr;
  return *value;
}

nlohmann::ordered_json to_object(const std::optional<Target>& target,
                                 const std::optional<Estimate>& ratio) {
  if (!target) return nullptr;
  return {{"bound", target->bound},
          {"of", target->of_low ? "low" : "median"},
          {"met", or_null(is_met(target, ratio))}};
}

nlohmann::ordered_json to_object(const Comparison& comparison, Setting setting) {
  const uint64_t bytes = comparison.cell.bytes;
  return {{"op", peers::name_of(comparison.cell.operation)},
          {"ranks", comparison.cell.ranks},
          {"bytes", comparison.cell.bytes},
          {"peer", comparison.peer},
          {"peer_way", comparison.peer_way},
          {"peer_us", to_object(comparison.peer_time)},
          {"keel_us", to_object(comparison.keel_time)},
          {"keel_stream_us", to_object(comparison.stream_time)},
          {"direct_us", to_object(comparison.direct_time)},
          {"peer_over_keel", to_object(comparison.peer_ratio)},
          {"peer_over_keel_target", to_object(peer_target(setting, bytes), comparison.peer_ratio)},
          {"peer_over_keel_stream", to_object(comparison.stream_ratio)},
          {"direct_over_keel", to_object(comparison.direct_ratio)},
          {"direct_over_keel_target",
           to_object(direct_target(setting, bytes), comparison.direct_ratio)},
          {"peer_over_direct", to_object(comparison.peer_over_bound)}};
}

nlohmann::ordered_json to_object(const CollectivesReport::PerSetting& part) {
  nlohmann::ordered_json cells = nlohmann::ordered_json::array();
  for (const Comparison& comparison : part.comparisons) {
    cells.push_back(to_object(comparison, part.setting));
  }
  nlohmann::ordered_json means = nlohmann::ordered_json::object();
  for (const auto& [name, ratio] : kRatios) {
    for (const bool large : {false, true}) {
      const std::optional<double> mean = mean_ratio(part.comparisons, ratio, large);
      if (mean) means[name][large ? "from_64_kib" : "below_64_kib"] = *mean;
    }
  }
  nlohmann::ordered_json targets = nlohmann::ordered_json::object();
  for (const bool large : {false, true}) {
    targets[large ? "from_64_kib" : "below_64_kib"] =
        to_object(mean_target(part.setting, large),
                  estimate_of(mean_ratio(part.comparisons, &Comparison::peer_ratio, large)));
  }
  return {{"setting", name_of(part.setting)},
          {"geometric_means", means},
          {"mean_targets", targets},
          {"cells", cells}};
}

}  // namespace

std::string size_text(uint64_t bytes) {
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

std::string to_markdown(const CollectivesReport& report) {
  std::string text = fmt::format(
      "# Collectives beside their peers\n\n"
      "{}, {} cores, load {:.2f} before and {:.2f} after, {}. {} launches of each program, in "
      "turns; a timed loop of {} s in each; {:.0f} minutes in all. All ranks are bound to even "
      "shares of the cores.\n\n"
      "Microseconds of one operation, float32, sums: the mean of a loop, of its slowest rank; "
      "the median of the launches. Ratios with the 95% interval of their median, above 1 where "
      "Keel is faster; a target is of the ratio before it, \"surely\" of the lower end of its "
      "interval. Bytes as nccl-tests counts them. Keel waits for every operation, as MPI's calls "
      "do; \"stream\": enqueued one after the other, and waited for together. A "
      "peer's broadcast is followed by a barrier, whose time is in it: Keel's is over on no rank "
      "before all have called it, as all its collectives. Gloo sums in place. **direct** is a "
      "bound: threads that read each other's buffers where they are.\n",
      report.machine.cpu, report.machine.cores, report.machine.load_before,
      report.machine.load_after, report.machine.date, report.relaunches, report.cell_seconds,
      report.minutes);
  for (const CollectivesReport::PerSetting& part : report.settings) {
    text += fmt::format("\n## {}\n\n", name_of(part.setting));
    add_means(part, text);
    text += "\n";
    add_cells(part, text);
  }
  add_list("Wrong results, which are in no figure", report.wrong, text);
  add_list("Launches that failed", report.failed, text);
  add_list("Left out", report.absent, text);
  return text;
}

std::string to_json(const CollectivesReport& report) {
  nlohmann::ordered_json settings = nlohmann::ordered_json::array();
  for (const CollectivesReport::PerSetting& part : report.settings) {
    settings.push_back(to_object(part));
  }
  const nlohmann::ordered_json json = {{"format", 2},
                                       {"machine",
                                        {{"cpu", report.machine.cpu},
                                         {"cores", report.machine.cores},
                                         {"load_before", report.machine.load_before},
                                         {"load_after", report.machine.load_after},
                                         {"date", report.machine.date},
                                         {"compiler", report.machine.compiler},
                                         {"keel", report.machine.keel}}},
                                       {"relaunches", report.relaunches},
                                       {"cell_seconds", report.cell_seconds},
                                       {"minutes", report.minutes},
                                       {"settings", settings},
                                       {"wrong", report.wrong},
                                       {"failed", report.failed},
                                       {"absent", report.absent}};
  return json.dump(2) + "\n";
}

}  // namespace keel::bench

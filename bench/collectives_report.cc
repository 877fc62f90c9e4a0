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

// Two cells of a table: what has to be reached, and whether it is.
std::string target_text(std::optional<double> target, std::optional<double> ratio) {
  if (!target) return "– | –";
  const std::optional<bool> met = is_met(target, ratio);
  return fmt::format("at least {:.2f} | {}", *target,
                     !met   ? "not measured"
                     : *met ? "met"
                            : "missed");
}

std::optional<double> target_of(const Comparison& comparison, Setting setting) {
  return bench::target_of(setting, comparison.cell.bytes >= kLarge);
}

std::optional<double> median_of(const std::optional<Estimate>& ratio) {
  if (!ratio) return std::nullopt;
  return ratio->median;
}

void add_means(const CollectivesReport::PerSetting& part, std::string& text) {
  text +=
      "| geometric mean of | below 64 KiB | from 64 KiB | target from 64 KiB | |\n"
      "|---|---|---|---|---|\n";
  for (const auto& [name, ratio] : kRatios) {
    const std::optional<double> small = mean_ratio(part.comparisons, ratio, /*large=*/false);
    const std::optional<double> large = mean_ratio(part.comparisons, ratio, /*large=*/true);
    if (!small && !large) continue;
    const auto target = ratio == &Comparison::peer_ratio
                            ? bench::target_of(part.setting, /*large=*/true)
                            : std::nullopt;
    text += fmt::format("| {} | {} | {} | {} |\n", name, mean_text(small), mean_text(large),
                        target_text(target, large));
  }
}

void add_cells(const CollectivesReport::PerSetting& part, std::string& text) {
  text +=
      "| operation | ranks | size | best peer | its algorithm | peer | Keel | Keel, stream | "
      "direct | peer / Keel | target | | direct / Keel | peer / direct |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Comparison& row : part.comparisons) {
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
                        peers::name_of(row.cell.operation), row.cell.ranks,
                        size_text(row.cell.bytes), row.peer, row.peer_way, time_text(row.peer_time),
                        time_text(row.keel_time), time_text(row.stream_time),
                        time_text(row.direct_time), ratio_text(row.peer_ratio),
                        target_text(target_of(row, part.setting), median_of(row.peer_ratio)),
                        ratio_text(row.direct_ratio), ratio_text(row.peer_over_bound));
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

nlohmann::ordered_json to_object(const Comparison& comparison, Setting setting) {
  const std::optional<double> target = target_of(comparison, setting);
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
          {"target", or_null(target)},
          {"met", or_null(is_met(target, median_of(comparison.peer_ratio)))},
          {"peer_over_keel_stream", to_object(comparison.stream_ratio)},
          {"direct_over_keel", to_object(comparison.direct_ratio)},
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
  const std::optional<double> target = bench::target_of(part.setting, /*large=*/true);
  const std::optional<double> large =
      mean_ratio(part.comparisons, &Comparison::peer_ratio, /*large=*/true);
  return {{"setting", name_of(part.setting)},
          {"geometric_means", means},
          {"target_from_64_kib", or_null(target)},
          {"met", or_null(is_met(target, large))},
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
      "turns; a timed loop of {} s in each; {:.0f} minutes in all.\n\n"
      "Microseconds of one operation, float32, sums: the mean of a loop, of its slowest rank; "
      "the median of the launches. Ratios with the 95% interval of their median, above 1 where "
      "Keel is faster; a target is of peer / Keel. Bytes as nccl-tests counts them. Keel waits for "
      "every operation, as "
      "MPI's calls do; \"stream\": enqueued one after the other, and waited for together. A "
      "broadcast is followed by a barrier, whose time is in it. Gloo sums in place. **direct** "
      "is a bound: threads that read each other's buffers where they are.\n",
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
  const nlohmann::ordered_json json = {{"format", 1},
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

// SPDX-License-Identifier: Apache-2.0
#include "bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace keel::bench {

namespace {

constexpr char kOnEmulated[] = "taken, on an emulated chip";

const char* unit_name(Unit unit) {
  switch (unit) {
    case Unit::kNanoseconds:
      return "ns";
    case Unit::kMicroseconds:
      return "us";
    case Unit::kMilliseconds:
      return "ms";
    case Unit::kGigaflops:
      return "GFLOP/s";
    case Unit::kGigabytes:
      return "GB/s";
    case Unit::kMebibytes:
      return "MiB";
    case Unit::kInstructions:
      return "instructions";
  }
  return "";
}

// Units per second for times, per byte for memory, per instruction; 0 for rates.
double scale_of(Unit unit) {
  switch (unit) {
    case Unit::kNanoseconds:
      return 1e9;
    case Unit::kMicroseconds:
      return 1e6;
    case Unit::kMilliseconds:
      return 1e3;
    case Unit::kMebibytes:
      return 0x1p-20;
    case Unit::kInstructions:
      return 1;
    default:
      return 0;
  }
}
bool is_rate(Unit unit) {
  return scale_of(unit) == 0;
}
bool is_time(Unit unit) {
  return !is_rate(unit) && unit != Unit::kMebibytes && unit != Unit::kInstructions;
}

double in_unit(Unit unit, const Timings& timings, double seconds) {
  return is_rate(unit) ? timings.work / seconds * 1e-9 : seconds * scale_of(unit);
}

double median_in_unit(Unit unit, const Timings& timings) {
  return in_unit(unit, timings, median(timings.seconds));
}

std::string with_unit(const Figure& figure, const std::string& contender) {
  return fmt::format("{:.4g} {}", median_in_unit(figure.unit, figure.find(contender)),
                     unit_name(figure.unit));
}

const char* comparison(const Figure& figure) {
  return is_rate(figure.unit) ? "at least" : "at most";
}

std::string target_text(const Figure& figure) {
  if (!figure.target) return "-";
  std::string text = comparison(figure);
  if (figure.measure == Measure::kRatio)
    return text + fmt::format(" {:.2f}x", figure.target->bound);
  text += fmt::format(" {:.4g} {}", figure.target->bound, unit_name(figure.unit));
  if (figure.measure == Measure::kDifference) text += " more";
  if (figure.target->instructions > 0) {
    text += fmt::format(" and {:.0f} instructions", figure.target->instructions);
  }
  return text;
}

const char* verdict(const Figure& figure) {
  const std::optional<bool> met = figure.met();
  if (met) return *met ? "met" : "missed";
  return figure.target ? "not measured" : "-";
}

std::string result_text(const Figure& figure) {
  const Estimate result = figure.result();
  if (figure.measure == Measure::kRatio) {
    return fmt::format("{:.3f}x [{:.3f}, {:.3f}]", result.median, result.low, result.high);
  }
  const char* sign = figure.measure == Measure::kDifference && result.median >= 0 ? "+" : "";
  std::string text = fmt::format("{}{:.4g} {} [{:.4g}, {:.4g}]", sign, result.median,
                                 unit_name(figure.unit), result.low, result.high);
  if (figure.instructions) {
    text += fmt::format(", +{:.0f} instructions",
                        figure.instructions->subject - figure.instructions->peer);
  }
  return text;
}

nlohmann::ordered_json machine_json(const Machine& machine) {
  nlohmann::ordered_json json = {{"cpu", machine.cpu},
                                 {"cores", machine.cores},
                                 {"load_before", machine.load_before},
                                 {"load_after", machine.load_after},
                                 {"compiler", machine.compiler},
                                 {"keel", machine.keel},
                                 {"onednn", machine.onednn},
                                 {"vulkan_device", machine.vulkan_device},
                                 {"vulkan_driver", machine.vulkan_driver},
                                 {"cuda_device", machine.cuda_device},
                                 {"cuda_driver", machine.cuda_driver}};
  if (!machine.cuda_pytorch.empty()) json["cuda_pytorch"] = machine.cuda_pytorch;
  return json;
}

const char* measure_name(const Figure& figure) {
  switch (figure.measure) {
    case Measure::kDifference:
      return "difference";
    case Measure::kSubject:
      return "subject";
    default:
      return is_rate(figure.unit)                 ? "ratio of rates"
             : figure.unit == Unit::kMebibytes    ? "ratio of bytes"
             : figure.unit == Unit::kInstructions ? "ratio of instructions"
                                                  : "ratio of times";
  }
}

// Returns the target, which figures that were not measured have too.
nlohmann::ordered_json target_json(const Figure& figure) {
  if (!figure.target) return nullptr;
  nlohmann::ordered_json json = {{"measure", measure_name(figure)},
                                 {"comparison", comparison(figure)},
                                 {"bound", figure.target->bound}};
  if (figure.target->instructions > 0) json["instructions"] = figure.target->instructions;
  return json;
}

nlohmann::ordered_json contender_json(const Figure& figure, const Timings& timings) {
  nlohmann::ordered_json json = {{"name", timings.name}};
  if (!figure.emulated) {
    json["median"] = median_in_unit(figure.unit, timings);
    json["best"] = in_unit(figure.unit, timings, fastest(timings));
    if (is_time(figure.unit) || is_rate(figure.unit)) {
      json["median_seconds"] = median(timings.seconds);
      json["min_seconds"] = fastest(timings);
    }
  }
  json["rounds"] = timings.seconds.size();
  json["repetitions"] = timings.repetitions;
  return json;
}

nlohmann::ordered_json result_json(const Figure& figure) {
  const Estimate result = figure.result();
  return {{"measure", measure_name(figure)},
          {"subject", figure.subject},
          {"peer", figure.peer},
          {"median", result.median},
          {"interval_95", {result.low, result.high}}};
}

nlohmann::ordered_json figure_json(const Figure& figure) {
  nlohmann::ordered_json json = {{"name", figure.name}};
  if (!figure.skipped.empty()) {
    json["skipped"] = figure.skipped;
    if (figure.failed) json["failed"] = true;
    if (!figure.target) return json;
    json["unit"] = unit_name(figure.unit);
    json["target"] = target_json(figure);
    json["met"] = nullptr;
    json["physical_limit"] = {{"contender", figure.limit}, {"value", nullptr}};
    return json;
  }
  json["about"] = figure.about;
  json["unit"] = unit_name(figure.unit);
  if (figure.emulated) json["emulated"] = true;
  for (const Timings& timings : figure.timings) {
    json["contenders"].push_back(contender_json(figure, timings));
  }
  json["result"] = nullptr;
  if (!figure.emulated) json["result"] = result_json(figure);
  if (figure.instructions) {
    json["instructions"] = {{"subject", figure.instructions->subject},
                            {"peer", figure.instructions->peer}};
  }
  json["target"] = target_json(figure);
  json["met"] = nullptr;
  if (const std::optional<bool> met = figure.met()) json["met"] = *met;
  json["physical_limit"] = {{"contender", figure.limit}, {"value", nullptr}};
  if (!figure.emulated) {
    json["physical_limit"]["value"] = median_in_unit(figure.unit, figure.find(figure.limit));
  }
  return json;
}

// Returns one cell for each column of to_markdown().
std::string row_text(const Figure& figure) {
  if (!figure.skipped.empty()) {
    return fmt::format("| {} | skipped: {} | | | {} | {} | {} |\n", figure.name, figure.skipped,
                       figure.target ? target_text(figure) : "",
                       figure.target ? verdict(figure) : "", figure.limit);
  }
  if (figure.emulated) {
    return fmt::format("| {} | {} | {} | | {} | {} | {} |\n", figure.name, kOnEmulated, figure.peer,
                       target_text(figure), verdict(figure), figure.limit);
  }
  return fmt::format("| {} | {} | {}: {} | {} | {} | {} | {}: {} |\n", figure.name,
                     with_unit(figure, figure.subject), figure.peer, with_unit(figure, figure.peer),
                     result_text(figure), target_text(figure), verdict(figure), figure.limit,
                     with_unit(figure, figure.limit));
}

}  // namespace

Figure Figure::skip(std::string name, std::string why) {
  Figure figure;
  figure.name = std::move(name);
  figure.leave_out(std::move(why));
  return figure;
}

Figure Figure::fail(std::string name, const std::string& why) {
  Figure figure;
  figure.name = std::move(name);
  figure.give_up(why);
  return figure;
}

void Figure::leave_out(std::string why) {
  skipped = std::move(why);
}

void Figure::give_up(const std::string& why) {
  leave_out("failed: " + why);
  failed = true;
}

const Timings& Figure::find(const std::string& contender) const {
  const auto found = std::find_if(timings.begin(), timings.end(),
                                  [&](const Timings& each) { return each.name == contender; });
  if (found == timings.end()) throw std::logic_error(name + " has no contender " + contender);
  return *found;
}

Estimate Figure::result() const {
  const double scale = scale_of(unit);
  const auto in_figures_unit = [&](const Estimate& seconds) {
    return Estimate{seconds.median * scale, seconds.low * scale, seconds.high * scale};
  };
  switch (measure) {
    case Measure::kDifference:
      return in_figures_unit(time_difference(find(subject), find(peer)));
    case Measure::kSubject:
      return in_figures_unit(estimate_median(find(subject).seconds));
    default:
      return is_rate(unit) ? rate_ratio(find(subject), find(peer))
                           : time_ratio(find(subject), find(peer));
  }
}

std::optional<bool> Figure::met() const {
  if (!target || !skipped.empty() || quick || emulated) return std::nullopt;
  const double reached = result().median;
  if (is_rate(unit)) return reached >= target->bound;
  const bool few = !instructions || target->instructions == 0 ||
                   std::round(instructions->subject - instructions->peer) <= target->instructions;
  return few && reached <= target->bound;
}

std::string to_line(const Figure& figure) {
  if (!figure.skipped.empty()) {
    return fmt::format("{:<26} skipped: {}", figure.name, figure.skipped);
  }
  if (figure.emulated) return fmt::format("{:<26} {}", figure.name, kOnEmulated);
  std::string line = fmt::format("{:<26} {}", figure.name, result_text(figure));
  if (figure.target) line += fmt::format("  {} ({})", verdict(figure), target_text(figure));
  for (const Timings& timings : figure.timings) {
    line += fmt::format("\n    {:<34} {:>10.4g} {}", timings.name,
                        median_in_unit(figure.unit, timings), unit_name(figure.unit));
  }
  return line;
}

std::string to_markdown(const Machine& machine, const std::vector<Figure>& figures, bool quick) {
  std::string text = fmt::format(
      "{}, {} cores, load {:.2f} before and {:.2f} after. {}; {}; {}; Keel {}, {}. {}\n\n",
      machine.cpu, machine.cores, machine.load_before, machine.load_after, machine.vulkan_device,
      machine.vulkan_driver, machine.onednn, machine.keel, machine.compiler, machine.date);
  if (quick) text += "Quick: small sizes and few rounds, which measure nothing.\n\n";
  text +=
      "| figure | Keel | against | result [95%] | target | | physical limit |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const Figure& figure : figures) text += row_text(figure);
  text += "\n";
  for (const Figure& figure : figures) {
    if (!figure.skipped.empty()) continue;
    text += fmt::format("- **{}**: {}", figure.name, figure.about);
    if (figure.emulated) {
      text += "\n";
      continue;
    }
    const char* before = " Medians: ";
    for (const Timings& timings : figure.timings) {
      text += fmt::format("{}{} {}", before, timings.name, with_unit(figure, timings.name));
      before = "; ";
    }
    text += ".\n";
  }
  return text;
}

std::string to_json(const Machine& machine) {
  nlohmann::ordered_json json = {{"date", machine.date}};
  json.update(machine_json(machine));
  return json.dump(2) + "\n";
}

std::string to_json(const Machine& machine, const std::vector<Figure>& figures, bool quick) {
  nlohmann::ordered_json json = {
      {"format", 2}, {"date", machine.date}, {"machine", machine_json(machine)}};
  if (quick) json["quick"] = true;
  json["figures"] = nlohmann::ordered_json::array();
  for (const Figure& figure : figures) json["figures"].push_back(figure_json(figure));
  return json.dump(2) + "\n";
}

}  // namespace keel::bench

#include "bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace keel::bench {

namespace {

const char* unit_name(Unit unit) {
  switch (unit) {
    case Unit::kMicroseconds:
      return "us";
    case Unit::kGigaflops:
      return "GFLOP/s";
    case Unit::kGigabytes:
      return "GB/s";
  }
  return "";
}

double in_unit(Unit unit, const Timings& timings, double seconds) {
  return unit == Unit::kMicroseconds ? seconds * 1e6 : timings.work / seconds * 1e-9;
}

double median_in_unit(Unit unit, const Timings& timings) {
  return in_unit(unit, timings, median(timings.seconds));
}

std::string with_unit(const Figure& figure, const std::string& contender) {
  return fmt::format("{:.4g} {}", median_in_unit(figure.unit, figure.find(contender)),
                     unit_name(figure.unit));
}

const char* comparison(const Figure& figure) {
  return figure.unit == Unit::kMicroseconds ? "at most" : "at least";
}

std::string target_text(const Figure& figure) {
  if (!figure.target) return "-";
  return fmt::format("{} {:.2f}x", comparison(figure), figure.target->ratio);
}

const char* verdict(const Figure& figure) {
  const std::optional<bool> met = figure.met();
  return !met ? "-" : *met ? "met" : "missed";
}

std::string ratio_text(const Estimate& ratio) {
  return fmt::format("{:.3f}x [{:.3f}, {:.3f}]", ratio.median, ratio.low, ratio.high);
}

nlohmann::ordered_json machine_json(const Machine& machine) {
  return {{"cpu", machine.cpu},
          {"cores", machine.cores},
          {"load_before", machine.load_before},
          {"load_after", machine.load_after},
          {"compiler", machine.compiler},
          {"keel", machine.keel},
          {"onednn", machine.onednn},
          {"vulkan_device", machine.vulkan_device},
          {"vulkan_driver", machine.vulkan_driver}};
}

nlohmann::ordered_json figure_json(const Figure& figure) {
  nlohmann::ordered_json json = {{"name", figure.name}};
  if (!figure.skipped.empty()) {
    json["skipped"] = figure.skipped;
    return json;
  }
  json["about"] = figure.about;
  json["unit"] = unit_name(figure.unit);
  for (const Timings& timings : figure.timings) {
    json["contenders"].push_back({{"name", timings.name},
                                  {"median", median_in_unit(figure.unit, timings)},
                                  {"best", in_unit(figure.unit, timings, fastest(timings))},
                                  {"median_seconds", median(timings.seconds)},
                                  {"min_seconds", fastest(timings)},
                                  {"rounds", timings.seconds.size()},
                                  {"repetitions", timings.repetitions}});
  }
  const Estimate ratio = figure.ratio();
  json["ratio"] = {{"subject", figure.subject},
                   {"peer", figure.peer},
                   {"of", figure.unit == Unit::kMicroseconds ? "time" : "rate"},
                   {"median", ratio.median},
                   {"interval_95", {ratio.low, ratio.high}}};
  if (figure.target) {
    json["target"] = {{"comparison", comparison(figure)}, {"ratio", figure.target->ratio}};
    json["met"] = *figure.met();
  } else {
    json["target"] = nullptr;
    json["met"] = nullptr;
  }
  json["physical_limit"] = {{"contender", figure.limit},
                            {"value", median_in_unit(figure.unit, figure.find(figure.limit))}};
  return json;
}

}  // namespace

Figure Figure::skip(std::string name, std::string why) {
  Figure figure;
  figure.name = std::move(name);
  figure.skipped = std::move(why);
  return figure;
}

const Timings& Figure::find(const std::string& contender) const {
  const auto found = std::find_if(timings.begin(), timings.end(),
                                  [&](const Timings& each) { return each.name == contender; });
  if (found == timings.end()) throw std::logic_error(name + " has no contender " + contender);
  return *found;
}

Estimate Figure::ratio() const {
  return unit == Unit::kMicroseconds ? time_ratio(find(subject), find(peer))
                                     : rate_ratio(find(subject), find(peer));
}

std::optional<bool> Figure::met() const {
  if (!target || !skipped.empty()) return std::nullopt;
  const double reached = ratio().median;
  return unit == Unit::kMicroseconds ? reached <= target->ratio : reached >= target->ratio;
}

std::string to_line(const Figure& figure) {
  if (!figure.skipped.empty()) {
    return fmt::format("{:<26} skipped: {}", figure.name, figure.skipped);
  }
  std::string line = fmt::format("{:<26} {}", figure.name, ratio_text(figure.ratio()));
  if (figure.target) line += fmt::format("  {} ({})", verdict(figure), target_text(figure));
  for (const Timings& timings : figure.timings) {
    line += fmt::format("\n    {:<34} {:>10.4g} {}", timings.name,
                        median_in_unit(figure.unit, timings), unit_name(figure.unit));
  }
  return line;
}

std::string to_markdown(const Machine& machine, const std::vector<Figure>& figures) {
  std::string text = fmt::format(
      "{}, {} cores, load {:.2f} before and {:.2f} after. {}; {}; {}; Keel {}, {}. {}\n\n",
      machine.cpu, machine.cores, machine.load_before, machine.load_after, machine.vulkan_device,
      machine.vulkan_driver, machine.onednn, machine.keel, machine.compiler, machine.date);
  text +=
      "| figure | Keel | against | ratio [95%] | target | | physical limit |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const Figure& figure : figures) {
    if (!figure.skipped.empty()) {
      text += fmt::format("| {} | skipped: {} | | | | | |\n", figure.name, figure.skipped);
      continue;
    }
    text +=
        fmt::format("| {} | {} | {}: {} | {} | {} | {} | {}: {} |\n", figure.name,
                    with_unit(figure, figure.subject), figure.peer, with_unit(figure, figure.peer),
                    ratio_text(figure.ratio()), target_text(figure), verdict(figure), figure.limit,
                    with_unit(figure, figure.limit));
  }
  text += "\n";
  for (const Figure& figure : figures) {
    if (!figure.skipped.empty()) continue;
    text += fmt::format("- **{}**: {}", figure.name, figure.about);
    const char* before = " Medians: ";
    for (const Timings& timings : figure.timings) {
      text += fmt::format("{}{} {}", before, timings.name, with_unit(figure, timings.name));
      before = "; ";
    }
    text += ".\n";
  }
  return text;
}

std::string to_json(const Machine& machine, const std::vector<Figure>& figures) {
  nlohmann::ordered_json json = {
      {"format", 1}, {"date", machine.date}, {"machine", machine_json(machine)}};
  json["figures"] = nlohmann::ordered_json::array();
  for (const Figure& figure : figures) json["figures"].push_back(figure_json(figure));
  return json.dump(2) + "\n";
}

}  // namespace keel::bench

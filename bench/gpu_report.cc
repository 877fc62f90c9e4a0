// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "base/strict_json.h"

namespace keel::bench {

namespace {

using Json = nlohmann::ordered_json;

constexpr char kConform[] = "conform-";  // followed by the backend
constexpr char kSanitizer[] = "sanitizer";
constexpr char kFigures[] = "figures";
constexpr char kNotMeasured[] = "not measured: ";

// ---- what the steps left --------------------------------------------------------------

// Returns whether the step ran `keel conform`.
bool is_conformance(const std::string& step) {
  return step.starts_with(kConform) || step == kSanitizer;
}

// Reads a file's lines, split at tabs, each padded to at least |columns| parts.
std::vector<std::vector<std::string>> read_table(std::istream& file, size_t columns) {
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string>& row = rows.emplace_back();
    std::istringstream parts(line);
    for (std::string part; std::getline(parts, part, '\t');) row.push_back(part);
    row.resize(std::max(row.size(), columns));
  }
  return rows;
}

// Keeps the few cases, of about a thousand, that add information to their level's totals.
void leave_out_passed(Json& report) {
  if (!report.contains("results")) return;
  Json kept = Json::array();
  for (const Json& result : report.at("results")) {
    const std::string outcome = result.value("outcome", "");
    if (outcome != "pass" && outcome != "unsupported") kept.push_back(result);
  }
  report["results"] = kept;
}

// Returns null if the file is missing or truncated.
Json read_result(const std::filesystem::path& file, const std::string& step) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return nullptr;
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  Json result;
  std::string error;
  if (!parse_json(text, &result, &error) || !result.is_object()) return nullptr;
  if (is_conformance(step)) leave_out_passed(result);
  return result;
}

// ---- JSON --------------------------------------------------------------------------------

// Removes the times of an emulated chip, which describe no real chip.
void leave_out_times(Json& figure) {
  figure["emulated"] = true;
  figure["result"] = nullptr;
  figure["met"] = nullptr;
  for (Json& contender : figure["contenders"]) {
    for (const char* time : {"median", "best", "median_seconds", "min_seconds"}) {
      contender.erase(time);
    }
  }
  figure["physical_limit"]["value"] = nullptr;
}

// Returns the figures, with "not measured: REASON" for skipped ones.
Json figures_of(const Json& result, bool emulated) {
  Json figures = result.value("figures", Json::array());
  for (Json& figure : figures) {
    if (figure.contains("skipped")) {
      figure["skipped"] = kNotMeasured + figure.at("skipped").get<std::string>();
    } else if (emulated) {
      leave_out_times(figure);
    }
  }
  return figures;
}

const GpuStep* find_step(const GpuRun& run, const std::string& name) {
  const auto found = std::find_if(run.steps.begin(), run.steps.end(),
                                  [&](const GpuStep& step) { return step.name == name; });
  return found == run.steps.end() || !found->result->is_object() ? nullptr : &*found;
}

// ---- Markdown ----------------------------------------------------------------------------

// Replaces line ends and bars, which a table cell cannot contain.
std::string cell(std::string text) {
  for (char& each : text) {
    if (each == '|') each = '/';
    if (each == '\n') each = ' ';
  }
  return text;
}

std::string contender_text(const Json& figure, const std::string& name) {
  for (const Json& contender : figure.at("contenders")) {
    if (contender.at("name") != name) continue;
    const Json& median = contender.at("median");
    if (!median.is_number()) return "-";  // non-finite values are written as null
    return fmt::format("{:.4g} {}", median.get<double>(), figure.at("unit").get<std::string>());
  }
  return "-";
}

// Returns whether the measure is a ratio ("ratio of rates"); the figures here have otherwise only
// differences of times.
bool is_ratio(const Json& measured) {
  return measured.at("measure").get<std::string>().starts_with("ratio");
}

std::string result_text(const Json& figure) {
  const Json& result = figure.at("result");
  const Json& interval = result.at("interval_95");
  if (!result.at("median").is_number() || !interval.at(0).is_number() ||
      !interval.at(1).is_number()) {
    return "not a number";
  }
  const auto median = result.at("median").get<double>();
  const auto low = interval.at(0).get<double>();
  const auto high = interval.at(1).get<double>();
  if (is_ratio(result)) return fmt::format("{:.3f}x [{:.3f}, {:.3f}]", median, low, high);
  return fmt::format("{:+.4g} {} [{:.4g}, {:.4g}]", median, figure.at("unit").get<std::string>(),
                     low, high);
}

bool has_target(const Json& figure) {
  return figure.contains("target") && figure.at("target").is_object();
}

std::string target_text(const Json& figure) {
  if (!has_target(figure)) return "-";
  const Json& target = figure.at("target");
  return fmt::format("{} {:g}{}", target.at("comparison").get<std::string>(),
                     target.at("bound").get<double>(),
                     is_ratio(target) ? "x" : " " + figure.at("unit").get<std::string>() + " more");
}

const char* verdict_text(const Json& figure) {
  if (!has_target(figure)) return "-";
  if (!figure.at("met").is_boolean()) return "not measured";
  return figure.at("met").get<bool>() ? "met" : "missed";
}

std::optional<double> rate_of(const Json& figure, const std::string& name) {
  for (const Json& contender : figure.at("contenders")) {
    if (contender.at("name") != name) continue;
    const Json median = contender.value("median", Json(nullptr));
    if (median.is_number() && median.get<double>() > 0) return median.get<double>();
  }
  return std::nullopt;
}

// Returns the limit's name and value. For a rate, also its ratio to the peer, if the peer is not
// the limit itself: no higher target can be met.
std::string limit_text(const Json& figure) {
  if (!figure.contains("physical_limit")) return "-";
  const Json& limit = figure.at("physical_limit");
  const std::string name = cell(limit.at("contender").get<std::string>());
  if (!limit.at("value").is_number()) return name;
  const auto value = limit.at("value").get<double>();
  std::string text =
      fmt::format("{}: {:.4g} {}", name, value, figure.at("unit").get<std::string>());
  const Json& result = figure.at("result");
  const auto peer = result.at("peer").get<std::string>();
  const std::optional<double> rate = rate_of(figure, peer);
  if (rate && peer != limit.at("contender") && result.at("measure") == "ratio of rates") {
    text += fmt::format(", {:.3f}x {}", value / *rate, cell(peer));
  }
  return text;
}

std::string figure_row(const Json& figure) {
  const std::string name = cell(figure.at("name").get<std::string>());
  std::string keel;
  std::string against;
  std::string result;
  if (figure.contains("skipped")) {
    keel = cell(figure.at("skipped").get<std::string>());
  } else if (figure.at("result").is_null()) {
    keel = "taken, on an emulated chip";
  } else {
    const auto subject = figure.at("result").at("subject").get<std::string>();
    const auto peer = figure.at("result").at("peer").get<std::string>();
    keel = contender_text(figure, subject);
    against = fmt::format("{}: {}", cell(peer), contender_text(figure, peer));
    result = result_text(figure);
  }
  return fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", name, keel, against, result,
                     target_text(figure), verdict_text(figure), limit_text(figure));
}

std::string figures_text(const GpuRun& run) {
  const GpuStep* const step = find_step(run, kFigures);
  if (step == nullptr) return fmt::format("{}the benchmarks wrote nothing.\n", kNotMeasured);
  std::string text =
      "| figure | Keel | against | result [95%] | target | | physical limit |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const Json& figure : figures_of(*step->result, run.emulated)) text += figure_row(figure);
  return text;
}

// Returns the PyTorch that the figures were compared with, or why there was none.
std::string pytorch_text(const GpuRun& run) {
  const GpuStep* const step = find_step(run, kFigures);
  if (step == nullptr) return "";
  const Json machine = step->result->value("machine", Json::object());
  const std::string pytorch = machine.value("cuda_pytorch", "");
  return pytorch.empty() ? "" : fmt::format("- pytorch: {}\n", pytorch);
}

// One line per step: its levels, with the number of passed cases and, if some did not pass, the
// total; and the number of cases run, if time ran out.
std::string conformance_text(const GpuRun& run) {
  std::string text;
  for (const GpuStep& step : run.steps) {
    if (!is_conformance(step.name) || !step.result->is_object()) continue;
    const Json& report = *step.result;
    const std::string name =
        step.name == kSanitizer ? step.name : step.name.substr(sizeof(kConform) - 1);
    text +=
        fmt::format("- **{}** ({}{}):", name, report.at("target").value("device_name", "no device"),
                    report.value("emulated", false) ? ", emulated" : "");
    const char* before = " ";
    for (const Json& level : report.at("levels")) {
      uint64_t failed = 0;
      for (const char* outcome : {"fail", "crash", "timeout"}) {
        failed += level.at("counts").at(outcome).get<uint64_t>();
      }
      const auto passed = level.at("counts").at("pass").get<uint64_t>();
      text += fmt::format("{}{} {}{}", before, level.at("level").get<std::string>(), passed,
                          failed == 0 ? "" : fmt::format(" of {}", passed + failed));
      text += level.at("certified").get<bool>() ? " (certified)" : "";
      before = ", ";
    }
    if (const std::string why = report.value("stopped", ""); !why.empty()) {
      const auto cases = report.at("cases").get<uint64_t>();
      text += fmt::format("; {} of {} cases, {}", cases - report.at("not_run").get<uint64_t>(),
                          cases, why);
    }
    text += "\n";
  }
  return text.empty() ? "Not run.\n" : text;
}

}  // namespace

GpuRun read_gpu_run(const std::filesystem::path& folder) {
  std::ifstream steps(folder / "steps.tsv");
  if (!steps) throw std::runtime_error((folder / "steps.tsv").string() + " cannot be read");
  GpuRun run;
  std::ifstream facts(folder / "facts.tsv");
  for (const auto& row : read_table(facts, 2)) run.facts.emplace_back(row[0], row[1]);
  for (const auto& row : read_table(steps, 4)) {
    const Json result = read_result(folder / (row[0] + ".json"), row[0]);
    uint32_t seconds = 0;
    std::from_chars(row[2].data(), row[2].data() + row[2].size(), seconds);
    run.steps.push_back({row[0], row[1], seconds, row[3], std::make_shared<const Json>(result)});
    run.emulated |= result.is_object() && result.value("emulated", false);
  }
  return run;
}

std::string to_json(const GpuRun& run) {
  Json json = {{"format", 1},
               {"date", run.date},
               {"emulated", run.emulated},
               {"quick", run.quick},
               {"facts", Json::object()},
               {"machine", nullptr},
               {"steps", Json::array()},
               {"figures", Json::array()}};
  for (const auto& [name, value] : run.facts) json["facts"][name] = value;
  for (const GpuStep& step : run.steps) {
    json["steps"].push_back({{"name", step.name},
                             {"outcome", step.outcome},
                             {"seconds", step.seconds},
                             {"reason", step.reason},
                             {"result", step.name == kFigures ? Json(nullptr) : *step.result}});
  }
  if (const GpuStep* const step = find_step(run, kFigures)) {
    json["machine"] = step->result->value("machine", Json(nullptr));
    json["figures"] = figures_of(*step->result, run.emulated);
  }
  // Output of programs may contain bytes that are not UTF-8.
  return json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

std::string to_markdown(const GpuRun& run) {
  std::string text = fmt::format("# All that needs a GPU{}, {}\n\n",
                                 run.emulated ? ", on an emulated one" : "", run.date);
  if (run.emulated) {
    text +=
        "**Emulated**: the vendor's libraries are Keel's own. This shows that every step can be "
        "taken, and says nothing of a chip, its driver or its numerics; no time is reported.\n\n";
  }
  if (run.quick) text += "Quick: small sizes and few rounds, which measure nothing.\n\n";
  for (const auto& [name, value] : run.facts) text += fmt::format("- {}: {}\n", name, value);
  text += pytorch_text(run);
  text += "\n## Steps\n\n| step | | s | |\n|---|---|---|---|\n";
  for (const GpuStep& step : run.steps) {
    text += fmt::format("| {} | {} | {} | {} |\n", step.name, step.outcome, step.seconds,
                        cell(step.reason));
  }
  text += "\n## Conformance\n\n" + conformance_text(run);
  text += "\n## Figures\n\n" + figures_text(run);
  return text;
}

}  // namespace keel::bench

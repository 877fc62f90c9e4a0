// SPDX-License-Identifier: Apache-2.0
#include "tools/keel/compare.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/printable.h"
#include "tensorfile/comparison.h"
#include "tools/command.h"
#include "tools/output_file.h"

namespace keel::cli {
namespace {

using tensorfile::Difference;
using tensorfile::Outcome;
using tensorfile::Place;
using tensorfile::shape_text;
using tensorfile::TensorComparison;

constexpr size_t kShown = 20;  // tensors, unless all are asked for
constexpr int kPart = 1;
constexpr int kIncomplete = 3;  // all compared tensors are equal

struct CompareOptions {
  std::string a, b;
  double tolerance = 0;
  bool has_tolerance = false;
  bool all = false;
  std::string json;
};

// The result of comparing two runs.
struct Findings {
  // Files missing on one side do not count. |tensors| includes those left out.
  uint64_t tensors = 0, equal = 0, close = 0, apart = 0;
  uint64_t steps = 0;                       // files present in both folders
  std::optional<TensorComparison> first;    // that differs
  std::vector<TensorComparison> differing;  // in order of computation
  std::vector<TensorComparison> left_out;   // likewise

  uint64_t compared() const { return tensors - left_out.size(); }
  void add(const TensorComparison& each) {
    if (!each.name.empty() && (tensors == 0 || each.file != last_file_)) {
      ++steps;
      last_file_ = each.file;
    }
    const bool is_apart = parts(each.outcome);
    if (!each.name.empty()) ++tensors;
    equal += each.outcome == Outcome::kEqual ? 1 : 0;
    close += each.outcome == Outcome::kClose ? 1 : 0;
    apart += is_apart ? 1 : 0;
    if (is_apart && !first) first = each;
    if (each.outcome == Outcome::kLeftOut) {
      left_out.push_back(each);
    } else if (each.outcome != Outcome::kEqual) {
      differing.push_back(each);
    }
  }

 private:
  std::string last_file_;
};

const char* name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kEqual:
      return "equal";
    case Outcome::kClose:
      return "close";
    case Outcome::kApart:
      return "apart";
    case Outcome::kShapes:
      return "shapes";
    case Outcome::kOnlyInA:
      return "only in A";
    case Outcome::kOnlyInB:
      return "only in B";
    case Outcome::kLeftOut:
      return "left out";
  }
  return "?";
}

// Returns "step_2.safetensors: layers.3.query.weight", or only the file or the tensor.
std::string full_name(const TensorComparison& each) {
  if (each.file.empty()) return printable(each.name);
  return printable(each.name.empty() ? each.file : each.file + ": " + each.name);
}

// Returns whether |value| is an integer that a double cannot distinguish from its neighbours.
bool is_long_integer(long double value) {
  return std::abs(value) > 0x1p53L && value >= -0x1p63L && value < 0x1p64L &&
         std::trunc(value) == value;
}

std::string value_text(long double value) {
  if (!is_long_integer(value)) return fmt::format("{}", static_cast<double>(value));
  if (value < 0) return fmt::format("{}", static_cast<int64_t>(value));
  return fmt::format("{}", static_cast<uint64_t>(value));
}

std::string place_text(const Place& place) {
  return shape_text(place.index);
}

// Shortens the dtype: a file may contain any text.
std::string dtype_text(const std::string& dtype) {
  constexpr size_t kLongest = 24;
  return printable(dtype.substr(0, kLongest)) + (dtype.size() > kLongest ? "..." : "");
}

std::string dtype_text(const TensorComparison& each) {
  const std::string a = dtype_text(each.dtype_a);
  const std::string b = dtype_text(each.dtype_b);
  if (a.empty() || b.empty()) return a + b;
  return each.dtype_a == each.dtype_b ? a : a + "/" + b;
}

std::string unlike_text(const Difference& difference) {
  const Place& first = *difference.first_unlike;
  return fmt::format("{} NaN or infinities that one alone has, the first at {}: {} and {}",
                     difference.unlike, place_text(first), value_text(first.a),
                     value_text(first.b));
}

// Text for outcomes without a figure.
std::string remark(const TensorComparison& each) {
  switch (each.outcome) {
    case Outcome::kShapes:
      return fmt::format("{} in A, {} in B", shape_text(each.shape_a), shape_text(each.shape_b));
    case Outcome::kOnlyInA:
    case Outcome::kOnlyInB:
      return name_of(each.outcome);
    default:
      break;
  }
  if (each.difference.unlike > 0) return unlike_text(each.difference);
  if (std::isinf(each.tolerance)) return "rounding alone";
  return parts(each.outcome) ? "apart" : "";
}

std::string row(const TensorComparison& each, size_t width) {
  std::string text = fmt::format("{:<{}}  {:<8}", full_name(each), width, dtype_text(each));
  const bool has_figures = each.outcome == Outcome::kClose || each.outcome == Outcome::kApart;
  if (has_figures) {
    const Difference& difference = each.difference;
    text += fmt::format(
        " {:>9.2e} {:>10.2e} {:>9.2e} {:>10} {:>10.7f}  {:<12}", difference.relative_norm,
        difference.largest_absolute, difference.largest_relative,
        difference.largest_ulps ? std::to_string(*difference.largest_ulps) : "-", difference.cosine,
        difference.largest_absolute_at ? place_text(*difference.largest_absolute_at) : "-");
  } else {
    text += fmt::format(" {:>9} {:>10} {:>9} {:>10} {:>10}  {:<12}", "-", "-", "-", "-", "-", "-");
  }
  text += "  " + remark(each);
  text.erase(text.find_last_not_of(' ') + 1);
  return text + '\n';
}

void print_table(const Findings& findings, bool all) {
  if (findings.differing.empty()) return;
  std::vector<const TensorComparison*> shown;
  shown.reserve(findings.differing.size());
  for (const TensorComparison& each : findings.differing) shown.push_back(&each);
  if (!all) {
    const auto worst = shown.begin() + static_cast<std::ptrdiff_t>(std::min(shown.size(), kShown));
    std::partial_sort(shown.begin(), worst, shown.end(), [](const auto* x, const auto* y) {
      const double excess_x = x->excess();
      const double excess_y = y->excess();
      return excess_x != excess_y ? excess_x > excess_y : x < y;  // ties in run order
    });
    shown.erase(worst, shown.end());
  }
  size_t width = 0;
  for (const TensorComparison* each : shown) width = std::max(width, full_name(*each).size());
  print(fmt::format("{:<{}}  {:<8} {:>9} {:>10} {:>9} {:>10} {:>10}  {:<12}  \n", "tensor", width,
                    "dtype", "rel.norm", "max abs", "max rel", "max ulps", "cosine", "at"));
  for (const TensorComparison* each : shown) print(row(*each, width));
  const size_t left_out = findings.differing.size() - shown.size();
  if (left_out != 0) {
    print(fmt::format("{} more that differ less; --all shows them, in the order of the runs\n",
                      left_out));
  }
  print("\n");
}

// Printed above the verdict, which is the last line of a run.
void print_left_out(const Findings& findings, bool all) {
  if (findings.left_out.empty()) return;
  print(
      "left out: both have the tensor, their bytes differ, and Keel does not know the values of "
      "the dtype\n");
  const size_t shown = all ? findings.left_out.size() : std::min(findings.left_out.size(), kShown);
  for (size_t i = 0; i < shown; ++i) {
    const TensorComparison& each = findings.left_out[i];
    print(
        fmt::format("  {}, {} {}\n", full_name(each), dtype_text(each), shape_text(each.shape_a)));
  }
  if (shown != findings.left_out.size()) {
    print(fmt::format("  and {} more; --all names them\n", findings.left_out.size() - shown));
  }
  print("\n");
}

std::string tensors_text(const Findings& findings) {
  const std::string text =
      fmt::format("{} tensor{}", findings.compared(), findings.compared() == 1 ? "" : "s");
  return findings.steps < 2 ? text : fmt::format("{} of {} steps", text, findings.steps);
}

// Explains why the first differing tensor differs.
std::string reason(const TensorComparison& first) {
  switch (first.outcome) {
    case Outcome::kOnlyInA:
      return "is only in A";
    case Outcome::kOnlyInB:
      return "is only in B";
    case Outcome::kShapes:
      return "has the shape " + remark(first);
    default:
      break;
  }
  if (first.difference.unlike > 0) return "has " + unlike_text(first.difference);
  const Place& at = *first.difference.largest_absolute_at;
  return fmt::format(
      "differs by {:.3g} of its norm, where {:.3g} is tolerated; at most by {:.3g}, at {}: {} and "
      "{}",
      first.difference.relative_norm, first.tolerance, first.difference.largest_absolute,
      place_text(at), value_text(at.a), value_text(at.b));
}

// Appended to the verdict; empty if nothing is left out.
std::string left_out_text(const Findings& findings) {
  const size_t count = findings.left_out.size();
  if (count == 0) return {};
  return fmt::format("; {} more {} left out, above", count, count == 1 ? "is" : "are");
}

std::string verdict(const Findings& findings) {
  const std::string rest = left_out_text(findings);
  if (findings.compared() == 0 && !findings.first) {
    return fmt::format("nothing is compared: all {} are left out, above\n",
                       findings.left_out.size());
  }
  if (findings.first) {
    const TensorComparison& first = *findings.first;
    std::string where = first.layer.empty() ? "" : ", layer " + first.layer;
    if (!first.file.empty() && !first.name.empty()) where += ", of " + first.file;
    where = (first.name.empty() ? first.file : first.name) + where;
    return fmt::format("they part at {}: it {}; {} of {} part{}\n", printable(where), reason(first),
                       findings.apart, tensors_text(findings), rest);
  }
  if (findings.close == 0) {
    return fmt::format("the same to the bit: {}{}\n", tensors_text(findings), rest);
  }
  const auto worst =
      std::max_element(findings.differing.begin(), findings.differing.end(),
                       [](const auto& x, const auto& y) { return x.excess() < y.excess(); });
  return fmt::format(
      "the same within their tolerance: {}, {} of them to the bit; the worst is {}, which differs "
      "by {:.3g} of its norm{}\n",
      tensors_text(findings), findings.equal, full_name(*worst), worst->difference.relative_norm,
      rest);
}

// ---- JSON

// JSON has no infinities and no NaN.
Json number(double value) {
  if (std::isfinite(value)) return value;
  return fmt::format("{}", value);
}

Json value_json(long double value) {
  if (!is_long_integer(value)) return number(static_cast<double>(value));
  return value < 0 ? Json(static_cast<int64_t>(value)) : Json(static_cast<uint64_t>(value));
}

Json place_json(const std::optional<Place>& place) {
  if (!place) return nullptr;
  return {{"index", place->index}, {"a", value_json(place->a)}, {"b", value_json(place->b)}};
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json tensor_json(const TensorComparison& each) {
  Json json = {{"file", text_or_null(each.file)},
               {"tensor", text_or_null(each.name)},
               {"layer", text_or_null(each.layer)},
               {"outcome", name_of(each.outcome)},
               {"dtype_a", text_or_null(each.dtype_a)},
               {"dtype_b", text_or_null(each.dtype_b)},
               {"shape_a", each.dtype_a.empty() ? Json(nullptr) : Json(each.shape_a)},
               {"shape_b", each.dtype_b.empty() ? Json(nullptr) : Json(each.shape_b)}};
  if (each.outcome != Outcome::kClose && each.outcome != Outcome::kApart) return json;
  const Difference& difference = each.difference;
  json["tolerance"] = number(each.tolerance);
  json["relative_norm"] = number(difference.relative_norm);
  json["largest_absolute"] = number(difference.largest_absolute);
  json["largest_absolute_at"] = place_json(difference.largest_absolute_at);
  json["largest_relative"] = number(difference.largest_relative);
  json["largest_relative_at"] = place_json(difference.largest_relative_at);
  json["largest_ulps"] = difference.largest_ulps ? Json(*difference.largest_ulps) : Json(nullptr);
  json["cosine"] = difference.cosine;
  json["unlike"] = difference.unlike;
  json["first_unlike"] = place_json(difference.first_unlike);
  return json;
}

Json findings_json(const CompareOptions& options, const Findings& findings) {
  const auto list = [](const std::vector<TensorComparison>& tensors) {
    Json all = Json::array();
    for (const TensorComparison& each : tensors) all.push_back(tensor_json(each));
    return all;
  };
  return {{"a", options.a},
          {"b", options.b},
          {"same", !findings.first.has_value() && findings.left_out.empty()},
          {"tensors", findings.tensors},
          {"steps", findings.steps},
          {"equal", findings.equal},
          {"close", findings.close},
          {"apart", findings.apart},
          {"first", findings.first ? tensor_json(*findings.first) : Json(nullptr)},
          {"differing", list(findings.differing)},
          {"left_out", list(findings.left_out)}};
}

// ---- the command

int run(const CompareOptions& options) {
  const OutputFile json("--json", options.json);
  Findings findings;
  tensorfile::ComparisonOptions how;
  if (options.has_tolerance) how.tolerance = options.tolerance;
  try {
    tensorfile::compare(options.a, options.b, how,
                        [&](const TensorComparison& each) { findings.add(each); });
  } catch (const tensorfile::FileError& error) {
    throw UsageError(error.what());
  }
  print_table(findings, options.all);
  print_left_out(findings, options.all);
  print(verdict(findings));
  if (!options.json.empty()) {
    const Json all = findings_json(options, findings);
    try {
      json.write(all.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + '\n');
    } catch (const std::runtime_error& error) {
      throw UsageError(error.what());  // exit code 1 would mean that the runs differ
    }
  }
  if (findings.first) return kPart;
  return findings.left_out.empty() ? 0 : kIncomplete;
}

// CLI11's own numbers accept NaN.
std::string check_tolerance(const std::string& text) {
  double value = 0;
  const bool is_tolerance =
      CLI::detail::lexical_cast(text, value) && value >= 0 && std::isfinite(value);
  return is_tolerance ? "" : "'" + text + "' is no tolerance: a number from 0 on";
}

}  // namespace

void add_compare_command(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "compare", "Show the first tensor in which two runs part, and by how much");
  command->footer(
      "A and B are safetensors files, or folders of them with a file a step. Exit codes: 0 if\n"
      "they are the same within the tolerance, 1 if they part, 2 if they cannot be compared,\n"
      "3 if tensors are left out, as Keel knows no values of their dtypes, and the rest is the\n"
      "same.\n"
      "Examples:\n"
      "  train_gpt --devices cpu:0 --steps 3 --dump a --dump-steps 3\n"
      "  train_gpt --devices vulkan:0 --steps 3 --dump b --dump-steps 3\n"
      "  keel compare a b\n"
      "  keel compare before.safetensors after.safetensors --rtol 0 --all --json out.json");
  auto options = std::make_shared<CompareOptions>();
  command->add_option("A", options->a, "A file or a folder")->required();
  command->add_option("B", options->b, "The other one")->required();
  CLI::Option* const tolerance =
      command
          ->add_option("--rtol", options->tolerance,
                       "Tolerance of ||a - b|| / ||a|| for all floats; default: F64 1e-12, F32 "
                       "1e-5, F16 4e-3, BF16 2e-2, F8_E4M3 0.1, F8_E5M2 0.2")
          ->check(check_tolerance);
  command->add_flag("--all", options->all,
                    "Show every tensor that differs, in the order of the runs, not the worst 20");
  command->add_option("--json", options->json, "Write all that was found to this file")
      ->type_name("FILE");
  command->callback([options, tolerance, exit_code] {
    options->has_tolerance = tolerance->count() != 0;
    *exit_code = run(*options);
  });
}

}  // namespace keel::cli

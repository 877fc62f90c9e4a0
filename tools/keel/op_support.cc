// SPDX-License-Identifier: Apache-2.0
#include "tools/keel/op_support.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/schema.h"
#include "ops/testing/cases.h"
#include "tools/command.h"
#include "tools/keel/op_question.h"

namespace keel::cli {
namespace {

// A backend's answers to the cases of one dtype combination, without strided tensors: strides
// depend on the kernel, not on the dtype.
struct Answers {
  bool takes = false;
  bool refuses = false;
};

// A longer list of dtypes would fill the page's first table with one operator.
constexpr size_t kMostListed = 24;

std::string cell(std::span<const Answers> combinations, std::span<const std::string> labels) {
  std::vector<std::string> taken;
  bool all = true;
  for (size_t i = 0; i < combinations.size(); ++i) {
    if (combinations[i].takes) {
      taken.push_back(labels[i] + (combinations[i].refuses ? " in part" : ""));
    }
    all = all && combinations[i].takes && !combinations[i].refuses;
  }
  return all ? "all" : taken.empty() ? "-" : join(taken);
}

}  // namespace

std::vector<Column> support_columns(const std::string& wanted) {
  std::vector<Column> columns;
  if (!wanted.empty()) {
    const keel_backend_info backend = find_backend(wanted);
    if (backend.device_count == 0) {
      throw Error(KEEL_NOT_FOUND,
                  fmt::format("backend '{}' has no device: {}", wanted, backend.reason));
    }
    columns.push_back({wanted, Device::find(wanted)});
    return columns;
  }
  for (const keel_backend_info& backend : backends()) {
    if (backend.device_count != 0) columns.push_back({backend.name, Device::find(backend.name)});
  }
  if (columns.empty()) throw Error(KEEL_NOT_FOUND, "no backend has a device: see 'keel devices'");
  return columns;
}

std::optional<keel_op_plan> own_plan(const OpCall& call, Device device) {
  try {
    return call.plan(device);
  } catch (const Error& error) {
    if (error.status() != KEEL_UNSUPPORTED) throw;
    return std::nullopt;
  }
}

std::string support_markdown(std::span<const Column> columns) {
  check(keel_op_forbid_fallback(1));
  std::string text = "| operator | dtypes |";
  std::string rule = "|---|---|";
  for (const Column& column : columns) {
    text += fmt::format(" {} |", column.backend);
    rule += "---|";
  }
  text += "\n" + rule + "\n";
  uint64_t asked = 0;
  std::vector<uint64_t> taken(columns.size());
  for (const ops::Schema* schema : ops::schemas()) {
    const size_t combinations = schema->dtypes.size();
    std::vector<std::string> labels(combinations);
    std::vector<std::vector<Answers>> answers(columns.size(), std::vector<Answers>(combinations));
    for (const ops::Case& each : ops::cases_of(*schema)) {
      ++asked;
      labels[each.combination] = dtype_label(each);
      const OpCall call = make_call(each);
      for (size_t c = 0; c < columns.size(); ++c) {
        const bool takes = own_plan(call, columns[c].device).has_value();
        if (takes) ++taken[c];
        if (each.strided) continue;
        Answers& answer = answers[c][each.combination];
        (takes ? answer.takes : answer.refuses) = true;
      }
    }
    // The section of the operator lists them all.
    const std::string all =
        combinations <= kMostListed ? join(labels) : fmt::format("{} combinations", combinations);
    text += fmt::format("| [{0}](#{0}-{1}) | {2} |", schema->name, schema->op, all);
    for (const std::vector<Answers>& each : answers)
      text += fmt::format(" {} |", cell(each, labels));
    text += '\n';
  }
  text += fmt::format("| cases | {} |", asked);
  for (const uint64_t count : taken) text += fmt::format(" {} |", count);
  return text + "\n";
}

}  // namespace keel::cli

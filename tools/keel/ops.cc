// SPDX-License-Identifier: Apache-2.0
#include "tools/keel/ops.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <keel/plugin_kit.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ops/docs.h"
#include "ops/schema.h"
#include "tools/command.h"
#include "tools/keel/op_question.h"
#include "tools/keel/op_support.h"
#ifdef KEEL_CLI_CONFORM
#include "conformance/emulated_libraries.h"
#endif

namespace keel::cli {
namespace {

// ---- list ------------------------------------------------------------------------

// One row: a dtype combination of an operator.
struct Row {
  const ops::Schema* schema;
  ops::Case example;
  std::string dtype;
  bool required;                                   // of backends with the ops capability
  std::vector<std::optional<keel_op_plan>> plans;  // one per column; nothing: unsupported
};

struct ListOptions {
  std::vector<std::string> plugins;
  std::string backend;
  bool missing = false;
  bool markdown = false;
  bool json = false;
};

std::vector<Row> list_rows(const std::vector<Column>& columns) {
  check(keel_op_forbid_fallback(1));
  std::vector<Row> rows;
  for (const ops::Schema* listed : ops::schemas()) {
    const ops::Schema& schema = *listed;
    for (ops::Case& example : representative_cases(schema)) {
      Row row{&schema, std::move(example), {}, false, {}};
      row.dtype = dtype_label(row.example);
      row.required = !schema.dtypes[row.example.combination].optional;
      const OpCall call = make_call(row.example);
      for (const Column& column : columns) row.plans.push_back(own_plan(call, column.device));
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

const char* level_name(const std::optional<keel_op_plan>& plan) {
  if (!plan) return "missing";
  return plan->level == KEEL_OP_NATIVE ? "native" : "composed";
}

void print_missing(const std::vector<Row>& rows, const std::vector<Column>& columns, bool json) {
  std::string text;
  Json out = {{"missing", Json::array()}};
  for (const Row& row : rows) {
    for (size_t c = 0; c < columns.size(); ++c) {
      if (!row.required || row.plans[c]) continue;
      text += fmt::format("{:<14} {:<24} {}\n", columns[c].backend, row.schema->name, row.dtype);
      out["missing"].push_back(
          {{"backend", columns[c].backend}, {"op", row.schema->name}, {"dtype", row.dtype}});
    }
  }
  json ? print_json(out) : print(text);
}

void print_table(const std::vector<Row>& rows, const std::vector<Column>& columns) {
  std::string text = fmt::format("{:<24} {:<10} {:<8}", "operator", "dtype", "required");
  for (const Column& column : columns) text += fmt::format(" {:<10}", column.backend);
  text += '\n';
  for (const Row& row : rows) {
    text += fmt::format("{:<24} {:<10} {:<8}", row.schema->name, row.dtype,
                        row.required ? "yes" : "no");
    for (const auto& plan : row.plans) text += fmt::format(" {:<10}", level_name(plan));
    text += '\n';
  }
  print(text);
}

Json dtype_names(std::span<const keel_dtype> dtypes) {
  Json names = Json::array();
  for (keel_dtype dtype : dtypes) names.push_back(kit::dtype_name(dtype));
  return names;
}

void print_list_json(const std::vector<Row>& rows, const std::vector<Column>& columns) {
  Json out = {{"backends", Json::array()}, {"ops", Json::array()}};
  for (const Column& column : columns) out["backends"].push_back(column.backend);
  for (const Row& row : rows) {
    const ops::DtypeCombination& dtypes = row.schema->dtypes[row.example.combination];
    Json support = Json::object();
    for (size_t c = 0; c < columns.size(); ++c) {
      Json& entry = support[columns[c].backend] = {{"level", level_name(row.plans[c])}};
      if (!row.plans[c]) continue;
      entry["score"] = row.plans[c]->score;
      entry["kernel"] = row.plans[c]->kernel;
    }
    out["ops"].push_back(
        {{"op", row.schema->name},
         {"dtype", row.dtype},
         {"inputs", dtype_names(std::span(dtypes.inputs).first(row.schema->inputs.size()))},
         {"outputs", dtype_names(std::span(dtypes.outputs).first(row.schema->outputs.size()))},
         {"required", row.required},
         {"case", row.example.id},
         {"support", support}});
  }
  print_json(out);
}

// Prints the backends missing from the page to standard error.
void print_markdown(const ListOptions& options) {
#ifdef KEEL_CLI_CONFORM
  // The page documents the backends, not this machine's chips.
  std::string none;
  conformance::use_emulated_libraries(&none);
#endif
  const Session session(options.plugins);
  std::vector<Column> columns = support_columns(options.backend);
  std::erase_if(columns, [](const Column& column) {
    return (column.device.info().capabilities & KEEL_CAPABILITY_OPS) == 0;
  });
  for (const keel_backend_info& backend : backends()) {
    if (!options.backend.empty() && backend.name != options.backend) continue;
    const auto is_it = [&](const Column& column) { return column.backend == backend.name; };
    if (std::ranges::any_of(columns, is_it)) continue;
    fmt::print(stderr, "keel: the page has no column of '{}': {}\n", backend.name,
               backend.device_count == 0 ? backend.reason : "its device has no operators");
  }
  print(ops::operators_markdown(support_markdown(columns)));
}

void run_list(const ListOptions& options) {
  if (options.markdown) return print_markdown(options);
  const Session session(options.plugins);
  const std::vector<Column> columns = support_columns(options.backend);
  const std::vector<Row> rows = list_rows(columns);
  if (options.missing) return print_missing(rows, columns, options.json);
  options.json ? print_list_json(rows, columns) : print_table(rows, columns);
}

void add_list_command(CLI::App& ops_command) {
  CLI::App* command =
      ops_command.add_subcommand("list", "Which backend has which operator, dtype by dtype");
  command->footer(
      "native: a kernel made for it; composed: put together from others; missing: the CPU's\n"
      "runs on staged copies.\n\n"
      "Examples:\n"
      "  keel ops list\n"
      "  keel ops list --backend vulkan --missing\n"
      "  keel ops list --markdown > docs/operators.md");
  auto options = std::make_shared<ListOptions>();
  add_plugin_option(*command, &options->plugins);
  command->add_option("--backend", options->backend, "Only this one")->type_name("NAME");
  auto* missing = command->add_flag("--missing", options->missing,
                                    "Only what is required and missing; nothing if all is there");
  auto* json = command->add_flag("--json", options->json, "Print JSON");
  command
      ->add_flag("--markdown", options->markdown,
                 "Print the operators' documentation instead, a GPU's backend asked on the "
                 "emulated chip")
      ->excludes(missing)
      ->excludes(json);
  command->callback([options] { run_list(*options); });
}

// ---- explain ---------------------------------------------------------------------

struct ExplainOptions {
  std::vector<std::string> plugins;
  std::string op;
  std::string device;
  CaseOptions question;
  bool json = false;
};

Json to_json(const ops::CaseTensor& tensor) {
  if (!tensor.present) return nullptr;
  return {{"dtype", kit::dtype_name(tensor.dtype)}, {"shape", tensor.shape}};
}

void print_explain_json(const ops::Case& each, const OpCall& call, Device device,
                        const std::string& text) {
  Json out = {{"op", keel_op_name(each.op)},
              {"device", device.name()},
              {"inputs", Json::array()},
              {"outputs", Json::array()}};
  for (const auto& tensor : each.inputs) out["inputs"].push_back(to_json(tensor));
  for (const auto& tensor : each.outputs) out["outputs"].push_back(to_json(tensor));
  out["plan"] = nullptr;
  if (const std::optional<keel_op_plan> plan = own_plan(call, device)) {
    out["plan"] = {{"kernel", plan->kernel},
                   {"level", level_name(plan)},
                   {"score", plan->score},
                   {"workspace_bytes", plan->workspace_bytes},
                   {"fallback", plan->fallback != 0},
                   {"candidates", plan->candidates}};
  }
  out["text"] = text;
  print_json(out);
}

void run_explain(const ExplainOptions& options) {
  const ops::Case each = make_case(find_op(options.op), options.question);
  const Session session(options.plugins);
  const Device device = find_device("--device", options.device);
  const OpCall call = make_call(each);
  std::string text;
  try {
    text = call.explain(device);
  } catch (const Error& error) {
    if (error.status() != KEEL_INVALID_ARGUMENT) throw;
    throw UsageError(keel_last_error());  // shapes or attributes do not fit
  }
  options.json ? print_explain_json(each, call, device, text) : print(text);
}

void add_explain_command(CLI::App& ops_command) {
  CLI::App* command =
      ops_command.add_subcommand("explain", "Which kernel would run a call, and why");
  command->footer(
      "Shapes are given for every tensor of the operator, inputs first, as docs/operators.md\n"
      "names them; without them a small ordinary call is asked about.\n\n"
      "Examples:\n"
      "  keel ops explain matmul --device vulkan:0\n"
      "  keel ops explain matmul --device cpu --dtype bf16_f32 --set trans_b=1 \\\n"
      "      --shape 64x128 32x128 none 64x32");
  auto options = std::make_shared<ExplainOptions>();
  CaseOptions& question = options->question;
  command->add_option("op", options->op, "Operator, such as matmul")->required();
  command->add_option("--device", options->device, "Device, such as vulkan:0")
      ->required()
      ->type_name("NAME");
  command->add_option("--dtype", question.dtype, "As 'keel ops list' names it: f32, bf16_f32")
      ->type_name("NAME");
  command->add_option("--shape", question.shapes, "64x128, scalar, or none for a left-out input")
      ->type_name("SHAPE");
  command->add_option("--set", question.attributes, "An attribute: trans_b=1; may be repeated")
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_plugin_option(*command, &options->plugins);
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options] { run_explain(*options); });
}

}  // namespace

void add_ops_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("ops", "Which operators run where, and why");
  command->require_subcommand(1);
  command->footer("Example:\n  keel ops list");
  add_list_command(*command);
  add_explain_command(*command);
}

}  // namespace keel::cli

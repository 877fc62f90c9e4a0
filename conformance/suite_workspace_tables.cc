// SPDX-License-Identifier: Apache-2.0
// Level ops, on the plugin's own table: an operator writes no more of its workspace than query()
// asked for. Core's workspaces come from a pool, in which the next bytes seldom belong to anybody.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "conformance/harness.h"
#include "conformance/table_objects.h"
#include "ops/schema.h"
#include "ops/testing/case_data.h"
#include "ops/testing/cases.h"

namespace keel::conformance {

namespace {

using OpCases = std::vector<ops::Case>;

// Larger calls take too long for the quick profile.
constexpr int64_t kMostElements = 150'000;
// Different kernels of one operator that a case runs.
constexpr size_t kMostKernels = 4;
constexpr uint64_t kRedBytes = 4096;

bool is_usable(const ops::Schema& schema, const ops::Case& op_case) {
  if (op_case.profile == ops::Profile::kFull) return false;
  int64_t elements = 0;
  const auto count = [&](const ops::CaseTensor& tensor) {
    if (!tensor.present) return;
    int64_t own = 1;
    for (const int64_t extent : tensor.shape) own *= extent;
    elements += own;
  };
  for (size_t i = 0; i < op_case.inputs.size(); ++i) {
    if (schema.inputs[i].packed) return false;  // only the device knows the content
    count(op_case.inputs[i]);
  }
  for (const ops::CaseTensor& tensor : op_case.outputs) count(tensor);
  return elements <= kMostElements;
}

// The call of a case without memory, for query() alone: much cheaper than ops::CaseData.
class BareCall {
 public:
  explicit BareCall(const ops::Case& op_case) {
    tensors_.reserve(op_case.inputs.size() + op_case.outputs.size());
    for (const ops::CaseTensor& tensor : op_case.inputs) add(tensor);
    for (const ops::CaseTensor& tensor : op_case.outputs) add(tensor);
    call_.op = op_case.op;
    call_.input_count = static_cast<uint32_t>(op_case.inputs.size());
    call_.output_count = static_cast<uint32_t>(op_case.outputs.size());
    call_.attribute_count = static_cast<uint32_t>(op_case.attributes.size());
    call_.inputs = pointers_.data();
    call_.outputs = pointers_.data() + op_case.inputs.size();
    call_.attributes = op_case.attributes.data();
  }
  BareCall(const BareCall&) = delete;
  BareCall& operator=(const BareCall&) = delete;

  const keel_op_call& get() const { return call_; }

 private:
  void add(const ops::CaseTensor& source) {
    keel_tensor& tensor = tensors_.emplace_back();
    tensor.size = sizeof(tensor);
    tensor.dtype = source.dtype;
    tensor.rank = static_cast<uint32_t>(source.shape.size());
    std::copy(source.shape.begin(), source.shape.end(), tensor.shape);
    std::copy(source.strides.begin(), source.strides.end(), tensor.strides);
    pointers_.push_back(source.present ? &tensor : nullptr);
  }

  std::vector<keel_tensor> tensors_;
  std::vector<const keel_tensor*> pointers_;
  keel_op_call call_ = KEEL_STRUCT_INIT(keel_op_call, KEEL_STRUCT_OP_CALL);
};

keel_op_support ask(const Context& context, const keel_op_call& call) {
  keel_op_support support = KEEL_STRUCT_INIT(keel_op_support, KEEL_STRUCT_OP_SUPPORT);
  const PluginDevice& device = device_of(context);
  const keel_status status = device.plugin().op->query(device.get(), &call, &support);
  if (status != KEEL_OK) support.level = KEEL_OP_NONE;
  return support;
}

// The indices of calls with a workspace, one for each kernel. Only the worker can ask the device.
std::vector<uint32_t> choose(const Context& context, const ops::Schema& schema,
                             const OpCases& cases) {
  std::vector<uint32_t> chosen;
  if (!judging()) {
    std::set<std::string> kernels;
    for (uint32_t i = 0; i < cases.size() && chosen.size() < kMostKernels; ++i) {
      if (!is_usable(schema, cases[i])) continue;
      const BareCall call(cases[i]);
      const keel_op_support support = ask(context, call.get());
      if (support.level == KEEL_OP_NONE || support.workspace_bytes == 0) continue;
      if (kernels.insert(support.kernel == nullptr ? "" : support.kernel).second) {
        chosen.push_back(i);
      }
    }
  }
  chosen.resize(observe(chosen.size()));
  for (uint32_t& index : chosen) {
    index = observe(index);
    check(index < cases.size(), "a call that is not in the list");
  }
  return chosen;
}

// Runs the call in a workspace of exactly the bytes asked for, with other bytes around it.
void run_in_exact_workspace(const Context& context, const ops::Case& op_case) {
  const keel_op_table& table = *device_of(context).plugin().op;
  ops::CaseData data(op_case, context.environment.seed);
  std::deque<TableBuffer> memory;
  const TableStream stream(context);
  const auto upload = [&](std::span<const std::byte> content) -> void* {
    if (content.empty()) return nullptr;
    const TableBuffer& buffer = memory.emplace_back(context, content.size());
    stream.copy(KEEL_COPY_HOST_TO_DEVICE, buffer.at(0), content.data(), content.size());
    return buffer.at(0);
  };
  std::vector<void*> inputs;
  std::vector<void*> outputs;
  for (uint32_t i = 0; i < op_case.inputs.size(); ++i) inputs.push_back(upload(data.input(i)));
  for (uint32_t o = 0; o < op_case.outputs.size(); ++o) {
    const int32_t input = op_case.in_place[o];
    outputs.push_back(input < 0 ? upload(data.output(o)) : inputs[static_cast<size_t>(input)]);
  }
  ops::CaseData::Storage storage;
  const keel_op_call call = data.rebind(inputs, outputs, &storage);
  const uint64_t size = observe(ask(context, call).workspace_bytes);
  const uint64_t before = std::max<uint64_t>(kRedBytes, context.environment.info.alignment);
  const std::vector<std::byte> red(before + size + kRedBytes, kRedZone);
  const TableBuffer& workspace = memory.emplace_back(context, red.size());
  stream.copy(KEEL_COPY_HOST_TO_DEVICE, workspace.at(0), red.data(), red.size());
  need(table.run(stream.get(), &call, workspace.at(before)),
       fmt::format("op.run of {}", op_case.id));
  need(stream.settle(), op_case.id);
  std::vector<std::byte> got(red.size());
  stream.copy(KEEL_COPY_DEVICE_TO_HOST, got.data(), workspace.at(0), got.size());
  observe_bytes(got);
  const std::span<const std::byte> all(got);
  compare(all.first(before), std::span(red).first(before),
          fmt::format("{}: the bytes before a workspace of {}", op_case.id, size));
  compare(all.subspan(before + size), std::span(red).first(kRedBytes),
          fmt::format("{}: the bytes behind a workspace of {}", op_case.id, size));
}

void exact_workspace(const Context& context, const ops::Schema& schema) {
  const keel_op_table* const table = device_of(context).plugin().op;
  check(observe(KEEL_HAS(keel_op_table, table, query) && KEEL_HAS(keel_op_table, table, run)),
        "OPS is claimed without query and run");
  const OpCases cases = ops::edge_cases(schema.op);
  const std::vector<uint32_t> chosen = choose(context, schema, cases);
  if (chosen.empty()) unsupported("query asks for no workspace in any call of the operator");
  for (const uint32_t index : chosen) run_in_exact_workspace(context, cases[index]);
}

}  // namespace

void add_workspace_table_cases(const Environment&, std::vector<Case>* cases) {
  for (const ops::Schema* const schema : ops::schemas()) {
    cases->push_back({fmt::format("ops/tables/workspace/{}", schema->name), KEEL_CAPABILITY_OPS,
                      /*full=*/false,
                      [schema](const Context& context) { exact_workspace(context, *schema); }});
  }
}

}  // namespace keel::conformance

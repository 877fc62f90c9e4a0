// SPDX-License-Identifier: Apache-2.0
// Level ops on the plugin's own table: query() of unsupported calls, stable answers of query(), and
// no reads of the caller's memory after run() returns. Core caches answers and copies calls, so
// keel.h hides these properties.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <keel/plugin_kit.hpp>
#include <string>
#include <utility>
#include <vector>

#include "conformance/harness.h"
#include "conformance/op_calls.h"
#include "conformance/table_bench.h"
#include "conformance/table_objects.h"

namespace keel::conformance {

namespace {

constexpr int64_t kElements = 4096;
constexpr uint64_t kBytes = kElements * sizeof(float);

// Builds a call on dense float32 tensors.
OpCall call_of(keel_op_id op, const std::vector<void*>& inputs, void* output,
               std::vector<keel_attribute> attributes = {}) {
  const auto dense = [](void* data) { return kit::make_tensor(data, KEEL_FLOAT32, {kElements}); };
  std::vector<keel_tensor> tensors;
  for (void* const input : inputs) tensors.push_back(dense(input));
  return {op, std::move(tensors), dense(output), std::move(attributes)};
}

struct Support {
  keel_op_level level;
  uint64_t workspace_bytes;
  std::string kernel;
};

// Queries into a struct with other values: the plugin must overwrite them.
Support ask(const Context& context, const keel_op_call* call, const std::string& what,
            Where where = Where::current()) {
  const PluginDevice& device = device_of(context);
  keel_op_support support = KEEL_STRUCT_INIT(keel_op_support, KEEL_STRUCT_OP_SUPPORT);
  support.level = 77;
  support.score = 77;
  need(device.plugin().op->query(device.get(), call, &support), what, where);
  const keel_op_level level = observe(support.level, where);
  check(level <= KEEL_OP_NATIVE, fmt::format("{} says level {}", what, level), where);
  if (level == KEEL_OP_NONE) return {level, 0, {}};
  check(observe(support.header.size, where) == sizeof(support), what + " changes the header",
        where);
  check(observe(support.kernel != nullptr, where), what + " names no kernel", where);
  return {level, observe(support.workspace_bytes, where),
          observe_text(support.kernel == nullptr ? "" : support.kernel, where)};
}

bool takes_operators(const Context& context) {
  const keel_op_table* const table = device_of(context).plugin().op;
  return observe(KEEL_HAS(keel_op_table, table, query) && KEEL_HAS(keel_op_table, table, run));
}

void has_slots(const Context& context) {
  check(takes_operators(context), "OPS is claimed without query and run");
}

// An unknown operator is unsupported, not a caller's error.
void unknown_operators(const Context& context) {
  has_slots(context);
  TableBuffer memory(context, 2 * kBytes);
  for (const keel_op_id op : {keel_op_id{KEEL_OP_COUNT}, keel_op_id{KEEL_OP_COUNT + 100},
                              keel_op_id{KEEL_OP_CUSTOM_BASE + 7}, keel_op_id{UINT32_MAX}}) {
    const OpCall call = call_of(op, {memory.at(0)}, memory.at(kBytes), {{.f = 1.0}});
    const Support support = ask(context, call.get(), fmt::format("op.query of operator {}", op));
    check(support.level == KEEL_OP_NONE, fmt::format("the device takes operator {}", op));
  }
}

// Equal queries must get equal answers, with and without addresses, and with other queries in
// between.
void answers_stay(const Context& context) {
  has_slots(context);
  TableBuffer memory(context, 3 * kBytes);
  const OpCall add = call_of(KEEL_OP_ADD, {memory.at(0), memory.at(kBytes)}, memory.at(2 * kBytes));
  const OpCall bare = call_of(KEEL_OP_ADD, {nullptr, nullptr}, nullptr);
  const OpCall fill = call_of(KEEL_OP_FILL, {}, memory.at(0), {{.f = 1.0}});
  const Support first = ask(context, add.get(), "op.query of add");
  check(first.level != KEEL_OP_NONE, "OPS is claimed, but there is no add of float32");
  for (uint32_t round = 0; round < 3; ++round) {
    check(ask(context, fill.get(), "op.query of fill").level != KEEL_OP_NONE,
          "OPS is claimed, but there is no fill of float32");
    for (const OpCall* const call : {&bare, &add}) {
      const Support again = ask(context, call->get(), "op.query of add, again");
      check(again.level == first.level && again.workspace_bytes == first.workspace_bytes &&
                again.kernel == first.kernel,
            fmt::format("op.query of add says level {}, {} bytes, '{}', and then level {}, {} "
                        "bytes, '{}'",
                        first.level, first.workspace_bytes, first.kernel, again.level,
                        again.workspace_bytes, again.kernel));
    }
  }
}

std::vector<std::byte> floats(float value) {
  std::vector<std::byte> bytes(kBytes);
  for (int64_t i = 0; i < kElements; ++i) {
    std::memcpy(bytes.data() + static_cast<uint64_t>(i) * sizeof(value), &value, sizeof(value));
  }
  return bytes;
}

// The caller may reuse the call struct, its tensors, lists and attributes once run() returns,
// however long the work remains queued.
void calls_are_borrowed(const Context& context) {
  has_slots(context);
  constexpr uint32_t kCalls = 16;
  TableBench bench(context, 1);
  const keel_op_table& table = *device_of(bench.context()).plugin().op;
  std::byte* const memory = bench.memory((kCalls + 1) * kBytes);
  std::byte* const host = bench.host_memory(kBytes);
  const OpCall wanted[] = {call_of(KEEL_OP_FILL, {}, memory, {{.f = 1.0}}),
                           call_of(KEEL_OP_ADD, {memory, memory}, memory + kBytes)};
  uint64_t most = 0;
  for (const OpCall& call : wanted) {
    most = std::max(most, ask(bench.context(), call.get(), "op.query").workspace_bytes);
  }
  std::byte* const workspace = most == 0 ? nullptr : bench.memory(most);
  bench.behind_work(0, [&] {
    const auto run = [&](OpCall call, const char* what) {
      need(table.run(bench.stream(0), call.get(), workspace), what);
      call.spoil();
    };
    run(call_of(KEEL_OP_FILL, {}, memory, {{.f = 1.0}}), "op.run of fill");
    for (uint32_t i = 1; i <= kCalls; ++i) {
      if (i % 4 == 1) {
        run(call_of(KEEL_OP_FILL, {}, memory + i * kBytes, {{.f = static_cast<double>(i)}}),
            "op.run of fill");
      } else {
        run(call_of(KEEL_OP_ADD, {memory, memory + (i - 1) * kBytes}, memory + i * kBytes),
            "op.run of add");
      }
    }
  });
  bench.settle();
  for (uint32_t i = 1; i <= kCalls; ++i) {
    bench.copy(0, KEEL_COPY_DEVICE_TO_HOST, host, memory + i * kBytes, kBytes);
    bench.settle();
    // Every fourth call fills with i, and each add behind it adds 1, so block i holds i.
    compare(read_host(host, kBytes), floats(static_cast<float>(i)),
            fmt::format("call {} of {}, whose struct was overwritten", i, kCalls));
  }
}

}  // namespace

void add_op_table_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const char* id, auto body) {
    cases->push_back({std::string("ops/tables/") + id, KEEL_CAPABILITY_OPS, /*full=*/false, body});
  };
  add("slots", has_slots);
  add("query/unknown_operators", unknown_operators);
  add("query/answers_stay", answers_stay);
  add("run/calls_are_borrowed", calls_are_borrowed);
}

}  // namespace keel::conformance

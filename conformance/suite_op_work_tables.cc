// SPDX-License-Identifier: Apache-2.0
// Level ops on the plugin's own tables: each operator behind held work, which run() must not wait
// for, and on several streams of several threads at once, whose results must not mix. The results
// of one call after the other, which other cases judge, are what these are compared with.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "conformance/harness.h"
#include "conformance/table_bench.h"
#include "ops/schema.h"
#include "ops/testing/case_data.h"
#include "ops/testing/cases.h"

namespace keel::conformance {

namespace {

constexpr uint32_t kStreams = 4;

int64_t elements_of(const ops::CaseTensor& tensor) {
  if (!tensor.present) return 0;
  int64_t count = 1;
  for (const int64_t extent : tensor.shape) count *= extent;
  return count;
}

// The tensors of a case in memory of the bench, for one stream.
class PlacedOp {
 public:
  PlacedOp(TableBench& bench, const ops::Case& op_case, uint64_t seed, uint32_t stream)
      : bench_(bench), data_(op_case, seed), stream_(stream) {
    for (uint32_t i = 0; i < op_case.inputs.size(); ++i) {
      inputs_.push_back(place(op_case.inputs[i], data_.input(i)));
    }
    for (uint32_t o = 0; o < op_case.outputs.size(); ++o) {
      outputs_.push_back(place(op_case.outputs[o], data_.output(o)));
      sizes_.push_back(op_case.outputs[o].present ? data_.output(o).size() : 0);
      before_.push_back(bench.memory(std::max<uint64_t>(sizes_.back(), 1)));
      if (sizes_.back() == 0) continue;
      bench.copy(stream, KEEL_COPY_HOST_TO_DEVICE, before_.back(), data_.output(o).data(),
                 sizes_.back());
    }
    bench.settle();
  }

  // Returns false if the device has no kernel for the call.
  bool is_supported() {
    ops::CaseData::Storage storage;
    const keel_op_call call = data_.rebind(inputs_, outputs_, &storage);
    keel_op_support support = KEEL_STRUCT_INIT(keel_op_support, KEEL_STRUCT_OP_SUPPORT);
    const PluginDevice& device = device_of(bench_.context());
    need(device.plugin().op->query(device.get(), &call, &support), "op.query");
    if (observe(support.level) == KEEL_OP_NONE) return false;
    const uint64_t bytes = observe(support.workspace_bytes);
    if (bytes != 0) workspace_ = bench_.memory(bytes);
    return true;
  }

  // Writes the outputs as they were before the call, and enqueues the call, whose structs are
  // overwritten once run() has returned. Observes nothing.
  keel_status enqueue() {
    const keel_stream_table& table = bench_.table();
    keel_plugin_stream* const stream = bench_.stream(stream_);
    keel_status status = KEEL_OK;
    for (size_t o = 0; o < outputs_.size() && status == KEEL_OK; ++o) {
      if (sizes_[o] == 0) continue;
      status = table.copy(stream, KEEL_COPY_DEVICE_TO_DEVICE, outputs_[o], before_[o], sizes_[o]);
    }
    if (status != KEEL_OK) return status;
    ops::CaseData::Storage storage;
    keel_op_call call = data_.rebind(inputs_, outputs_, &storage);
    std::vector<keel_attribute> attributes(call.attributes, call.attributes + call.attribute_count);
    if (!attributes.empty()) call.attributes = attributes.data();
    status = device_of(bench_.context()).plugin().op->run(stream, &call, workspace_);
    for (keel_tensor& tensor : storage.tensors) std::memset(&tensor, 0x11, sizeof(tensor));
    for (keel_attribute& attribute : attributes) std::memset(&attribute, 0x11, sizeof(attribute));
    std::fill(storage.pointers.begin(), storage.pointers.end(), nullptr);
    call = {};
    return status;
  }

  // The outputs, one behind the other; the stream must be idle. Observes nothing.
  keel_status read(std::vector<std::byte>* out_bytes) {
    out_bytes->clear();
    for (size_t o = 0; o < outputs_.size(); ++o) {
      if (sizes_[o] == 0) continue;
      std::vector<std::byte> bytes(sizes_[o]);
      keel_status status = bench_.table().copy(bench_.stream(stream_), KEEL_COPY_DEVICE_TO_HOST,
                                               bytes.data(), outputs_[o], bytes.size());
      if (status == KEEL_OK) status = settle();
      if (status != KEEL_OK) return status;
      out_bytes->insert(out_bytes->end(), bytes.begin(), bytes.end());
    }
    return KEEL_OK;
  }
  keel_status settle() { return bench_.stream_object(stream_).settle_unobserved(); }

 private:
  void* place(const ops::CaseTensor& tensor, std::span<const std::byte> content) {
    if (!tensor.present || content.empty()) return nullptr;
    std::byte* const memory = bench_.memory(content.size());
    bench_.copy(stream_, KEEL_COPY_HOST_TO_DEVICE, memory, content.data(), content.size());
    return memory;
  }

  TableBench& bench_;
  ops::CaseData data_;
  const uint32_t stream_;
  std::vector<void*> inputs_;
  std::vector<void*> outputs_;
  std::vector<uint64_t> sizes_;  // of the outputs
  std::vector<void*> before_;    // their content before the call
  void* workspace_ = nullptr;
};

// Cases of |op| that are neither small nor large, the largest first; strided ones, of the most axes
// first, if |strided|.
std::vector<ops::Case> candidates(keel_op_id op, bool strided) {
  constexpr int64_t kMost = 4'000;
  constexpr size_t kTried = 6;
  const auto size = [](const ops::Case& each) {
    int64_t count = 0;
    for (const ops::CaseTensor& tensor : each.inputs) count += elements_of(tensor);
    for (const ops::CaseTensor& tensor : each.outputs) count += elements_of(tensor);
    return count;
  };
  std::vector<ops::Case> all;
  for (ops::Case& each : ops::cases_of(*ops::find_schema(op))) {
    const bool is_alone =
        std::all_of(each.in_place.begin(), each.in_place.end(), [](int32_t i) { return i < 0; });
    if (each.strided != strided || each.profile != ops::Profile::kBySize || !is_alone ||
        size(each) > kMost || size(each) == 0) {
      continue;
    }
    all.push_back(std::move(each));
  }
  std::stable_sort(all.begin(), all.end(), [&](const ops::Case& one, const ops::Case& other) {
    const size_t rank = one.outputs[0].shape.size();
    const size_t other_rank = other.outputs[0].shape.size();
    if (strided && rank != other_rank) return rank > other_rank;
    return size(one) > size(other);
  });
  if (all.size() > kTried) all.erase(all.begin() + kTried, all.end());
  return all;
}

// Takes the first candidate for which the device has a kernel, places it for each stream, with
// other content, and returns the results of one call after the other.
std::vector<std::unique_ptr<PlacedOp>> placed(TableBench& bench, keel_op_id op, bool strided,
                                              std::vector<std::vector<std::byte>>* out_wanted) {
  std::vector<std::unique_ptr<PlacedOp>> all;
  for (const ops::Case& each : candidates(op, strided)) {
    all.push_back(std::make_unique<PlacedOp>(bench, each, bench.context().environment.seed, 0));
    if (!all.back()->is_supported()) {
      all.clear();
      continue;
    }
    for (uint32_t i = 1; i < bench.streams(); ++i) {
      all.push_back(
          std::make_unique<PlacedOp>(bench, each, bench.context().environment.seed + i, i));
      if (!all.back()->is_supported()) fail_case("a call on other content is not supported");
    }
    break;
  }
  if (all.empty()) unsupported("the device has no kernel for these calls");
  for (const auto& each : all) {
    std::vector<std::byte> bytes;
    need(each->enqueue(), "op.run");
    bench.settle();
    need(each->read(&bytes), "a download of a result");
    bytes.resize(observe(bytes.size()));
    observe_bytes(bytes);
    out_wanted->push_back(std::move(bytes));
  }
  return all;
}

void expect_result(PlacedOp& op, const std::vector<std::byte>& wanted, const std::string& what,
                   Where where = Where::current()) {
  std::vector<std::byte> got;
  need(op.read(&got), "a download of a result", where);
  got.resize(wanted.size());
  check_equal(got, wanted, what, where);
}

// run() returns while earlier work is held, and its work waits for its turn.
void behind_work(const Context& context, keel_op_id op, bool strided) {
  TableBench bench(context, 1);
  std::vector<std::vector<std::byte>> wanted;
  const auto ops = placed(bench, op, strided, &wanted);
  bench.behind_work(0, [&] { need(ops[0]->enqueue(), "op.run"); });
  bench.settle();
  expect_result(*ops[0], wanted[0], "a call behind held work, and the same call alone");
}

// The same operator on several streams, by a thread each.
void on_streams(const Context& context, keel_op_id op, bool strided) {
  constexpr uint32_t kRounds = 4;
  TableBench bench(context, kStreams);
  std::vector<std::vector<std::byte>> wanted;
  const auto ops = placed(bench, op, strided, &wanted);
  std::array<keel_status, kStreams> statuses = {};
  std::array<std::vector<std::byte>, kStreams> got;
  run_threads(kStreams, [&](uint32_t i) {
    Tally tally;
    for (uint32_t round = 0; round < kRounds && tally.first() == KEEL_OK; ++round) {
      tally.add(ops[i]->enqueue());
      if (round % 2 != 0) continue;
      if (tally.first() == KEEL_OK) tally.add(ops[i]->settle());
      if (tally.first() == KEEL_OK) tally.add(ops[i]->read(&got[i]));
      if (got[i] != wanted[i]) break;  // seen below
    }
    statuses[i] = tally.first();
  });
  bench.settle();
  for (uint32_t i = 0; i < kStreams; ++i) {
    need(statuses[i], fmt::format("the calls of stream {}", i));
    got[i].resize(wanted[i].size());
    check_equal(got[i], wanted[i],
                fmt::format("a call on stream {} of {}, and the same call alone", i, kStreams));
    expect_result(
        *ops[i], wanted[i],
        fmt::format("the last call on stream {} of {}, and the same call alone", i, kStreams));
  }
}

}  // namespace

void add_op_work_table_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const char* name, const ops::Schema& schema, bool strided, auto body) {
    const keel_op_id op = schema.op;
    cases->push_back(
        {fmt::format("ops/tables/{}/{}{}", name, schema.name, strided ? "/strided" : ""),
         KEEL_CAPABILITY_OPS | KEEL_CAPABILITY_ASYNC,
         /*full=*/false,
         [op, strided, body](const Context& context) { body(context, op, strided); }});
  };
  for (const ops::Schema* const schema : ops::schemas()) {
    const auto is_packed = [](const auto& tensor) { return tensor.packed; };
    if (std::any_of(schema->inputs.begin(), schema->inputs.end(), is_packed) ||
        std::any_of(schema->outputs.begin(), schema->outputs.end(), is_packed)) {
      continue;
    }
    add("behind_work", *schema, /*strided=*/false, behind_work);
    add("on_streams", *schema, /*strided=*/false, on_streams);
    const bool is_family = schema->op == KEEL_OP_ELEMENTWISE || schema->op == KEEL_OP_REDUCE ||
                           schema->op == KEEL_OP_GATHER || schema->op == KEEL_OP_SCATTER ||
                           schema->op == KEEL_OP_TRANSPOSE;
    if (!is_family) continue;
    add("behind_work", *schema, /*strided=*/true, behind_work);
    add("on_streams", *schema, /*strided=*/true, on_streams);
  }
}

}  // namespace keel::conformance

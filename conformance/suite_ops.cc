// SPDX-License-Identifier: Apache-2.0
// Level ops: every case of the operator table that the device supports, against the float64
// reference.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <keel/plugin/numbers.hpp>
#include <keel/plugin_kit.hpp>
#include <memory>

#include "conformance/emulated_libraries.h"
#include "conformance/harness.h"
#include "conformance/packed_weights.h"
#include "ops/schema.h"
#include "ops/testing/case_builder.h"
#include "ops/testing/case_data.h"
#include "ops/testing/cases.h"
#include "ops/testing/reference.h"

namespace keel::conformance {

namespace {

// Larger cases run only in the full profile: the reference takes 0.1 s per case on one core.
constexpr int64_t kQuickElements = 150'000;
// Size of the red zones around every tensor in the first run; a multiple of every alignment that a
// kernel may require of an allocation's start.
constexpr uint64_t kRedBytes = 4096;
// NaN in every float type, so that reads of a red zone show in the result.
constexpr std::byte kRed{0xff};
// The mean error of fewer elements is meaningless: if the terms of a few sums cancel, an error that
// is small relative to the terms is large relative to the sums.
constexpr size_t kElementsOfAMean = 64;
// Growth of a workspace allowed for tiles and alignment.
constexpr uint64_t kSpareBytes = 64 << 10;

// One tensor of the case in device memory, between red zones of |red_bytes| each.
class DeviceTensor {
 public:
  DeviceTensor(const Stream& stream, std::span<const std::byte> content, uint64_t red_bytes)
      : content_(content),
        red_bytes_(red_bytes),
        image_(content.size() + 2 * red_bytes, kRed),
        buffer_(stream.device(), KEEL_MEMORY_DEVICE, std::max<uint64_t>(image_.size(), 1)) {
    std::copy(content_.begin(), content_.end(), inside().begin());
    stream.upload(buffer_.data(), image_);
  }

  void* data() const { return content_.empty() ? nullptr : buffer_.at(red_bytes_); }
  // Reads the tensor back; inside() holds the device's bytes after synchronize and observe().
  void download(const Stream& stream) { stream.download(image_, buffer_.data()); }
  void observe() { observe_bytes(image_); }
  std::span<std::byte> inside() { return {image_.data() + red_bytes_, content_.size()}; }
  // The uploaded content.
  std::span<const std::byte> content() const { return content_; }
  std::span<const std::byte> before() const { return {image_.data(), red_bytes_}; }
  std::span<const std::byte> behind() const {
    return {image_.data() + red_bytes_ + content_.size(), red_bytes_};
  }

 private:
  std::span<const std::byte> content_;
  const uint64_t red_bytes_;
  std::vector<std::byte> image_;
  Buffer buffer_;
};

// A call of the case on host memory and on device memory, with its results.
class OpRun {
 public:
  OpRun(const Context& context, const ops::Case& op_case)
      : context_(context),
        case_(op_case),
        schema_(*ops::find_schema(op_case.op)),
        data_(op_case, context.environment.seed),
        stream_(context) {}

  void run() {
    const keel_op_call call = place(kRedBytes);
    ask(call);
    compute(call);
    // The float64 reference takes as long as the device, so the worker leaves it to the runner.
    if (!judged_elsewhere()) {
      const keel_status status = ops::run_reference(data_.call(), &reference_);
      check(status == KEEL_OK, fmt::format("the reference: {}", keel_status_name(status)));
    }
    for (uint32_t i = 0; i < inputs_.size(); ++i) check_input(i);
    for (uint32_t o = 0; o < case_.outputs.size(); ++o) check_output(o);
    check_repeatable();
  }

 private:
  template <typename Body>
  void for_each_tensor(const Body& body) {
    for (auto* tensors : {&inputs_, &outputs_}) {
      for (auto& tensor : *tensors) {
        if (tensor) body(*tensor);
      }
    }
  }

  void compute(const keel_op_call& call) {
    must(keel_op_run(stream_.get(), &call), "keel_op_run");
    for_each_tensor([&](DeviceTensor& tensor) { tensor.download(stream_); });
    stream_.synchronize();
    for_each_tensor([](DeviceTensor& tensor) { tensor.observe(); });
  }

  keel_op_call place(uint64_t red_bytes) {
    const auto on_device = [&](std::span<const std::byte> content) {
      return std::make_unique<DeviceTensor>(stream_, content, red_bytes);
    };
    for (uint32_t i = 0; i < case_.inputs.size(); ++i) {
      const bool present = case_.inputs[i].present;
      inputs_.push_back(present ? on_device(content_of_input(i)) : nullptr);
      input_pointers_.push_back(present ? inputs_.back()->data() : nullptr);
    }
    for (uint32_t o = 0; o < case_.outputs.size(); ++o) {
      const int32_t input = case_.in_place[o];
      outputs_.push_back(input < 0 ? on_device(data_.output(o)) : nullptr);
      output_pointers_.push_back(input < 0 ? outputs_.back()->data()
                                           : input_pointers_[static_cast<size_t>(input)]);
    }
    return data_.rebind(input_pointers_, output_pointers_, &storage_);
  }

  // Returns the input of the case, packed by the device if the schema says so.
  std::span<const std::byte> content_of_input(uint32_t index) {
    if (!schema_.inputs[index].packed) return data_.input(index);
    if (packed_.empty()) {
      const keel_tensor& a = *data_.call().inputs[0];
      const auto attributes = kit::attributes<keel_op_packed_matmul_attributes>(data_.call());
      const int64_t k = a.shape[attributes.trans_a != 0 ? 0 : 1];
      packed_ = pack(stream_, *data_.call().inputs[index], data_.input(index), k,
                     data_.call().outputs[0]->shape[1]);
    }
    return packed_;
  }

  // KEEL_CAPABILITY_OPS promises fill, add and cast for dense tensors of the non-optional dtypes; a
  // backend may leave all other calls to the CPU.
  bool promised() const {
    const bool basic =
        case_.op == KEEL_OP_FILL || case_.op == KEEL_OP_ADD || case_.op == KEEL_OP_CAST;
    return basic && !case_.strided && !schema_.dtypes[case_.combination].optional;
  }

  void ask(const keel_op_call& call) {
    keel_op_plan plan = KEEL_STRUCT_INIT(keel_op_plan, KEEL_STRUCT_OP_PLAN);
    const keel_status status = observe_status(keel_op_plan_get(context_.device(), &call, &plan));
    const bool has_kernel = status == KEEL_OK && observe(plan.fallback) == 0;
    if (status != KEEL_OK) must_be(KEEL_UNSUPPORTED, status, "keel_op_plan_get");
    if (has_kernel) {
      const std::string mark =
          context_.environment.emulated ? marshalling_of(observe_text(plan.kernel)) : std::string();
      if (!mark.empty()) note(mark);
      return;
    }
    if (promised())
      fail_case("the device claims OPS, which promises this call, but has no kernel for it");
    unsupported("the device has no kernel for this call");
  }

  void check_input(uint32_t index) {
    DeviceTensor* tensor = inputs_[index].get();
    if (tensor == nullptr || judged_elsewhere()) return;
    const std::string name = std::string("input ") + schema_.inputs[index].name;
    check_red_zones(*tensor, name);
    if (std::count(case_.in_place.begin(), case_.in_place.end(), static_cast<int32_t>(index)) ==
        0) {
      compare(tensor->inside(), tensor->content(), name + " was written to");
    }
  }

  DeviceTensor& output(uint32_t index) {
    const int32_t place = case_.in_place[index];
    return place < 0 ? *outputs_[index] : *inputs_[static_cast<size_t>(place)];
  }

  void check_output(uint32_t index) {
    DeviceTensor& tensor = output(index);
    const std::string name = std::string("output ") + schema_.outputs[index].name;
    keel_tensor view = *data_.call().outputs[index];
    if (schema_.outputs[index].packed) {
      view.data = tensor.data();
      return check_packed(index, view, name);
    }
    if (judged_elsewhere()) return;
    if (case_.in_place[index] < 0) check_red_zones(tensor, name);
    check_gaps(index, tensor.inside(), name);
    view.data = tensor.inside().data();
    check_values(index, view, name);
  }

  // |view| is in device memory. The device's own product must read the packed weights from it.
  void check_packed(uint32_t index, const keel_tensor& view, const std::string& name) {
    const keel_tensor& b = *data_.call().inputs[0];
    const bool trans_b =
        kit::attributes<keel_op_pack_weights_attributes>(data_.call()).trans_b != 0;
    const int64_t k = b.shape[trans_b ? 1 : 0];
    const int64_t n = b.shape[trans_b ? 0 : 1];
    const std::vector<double> got = unpack(stream_, view, k, n);
    if (judged_elsewhere()) return;
    DeviceTensor& tensor = output(index);
    if (case_.in_place[index] < 0) check_red_zones(tensor, name);
    check_gaps(index, tensor.inside(), name);
    for (int64_t i = 0; i < k * n; ++i) {
      const double wanted =
          reference_.outputs[index].values[static_cast<size_t>(i / n * view.shape[1] + i % n)];
      const double value = got[static_cast<size_t>(i)];
      if (value == wanted) continue;
      fail_case(fmt::format("{}: packed_matmul reads {:.9g} instead of {:.9g} at [{},{}]", name,
                            value, wanted, i / n, i % n));
    }
  }

  static void check_red_zones(const DeviceTensor& tensor, const std::string& name) {
    const std::vector<std::byte> red(kRedBytes, kRed);
    compare(tensor.before(), red, name + ": the red zone before it was written to");
    compare(tensor.behind(), red, name + ": the red zone behind it was written to");
  }

  // Bytes between the elements of a strided output must stay unchanged.
  void check_gaps(uint32_t index, std::span<const std::byte> got, const std::string& name) {
    std::vector<std::byte> wanted(data_.output(index).begin(), data_.output(index).end());
    const keel_tensor& layout = *data_.call().outputs[index];
    const uint32_t size = kit::dtype_size(layout.dtype);
    kit::for_each_element(layout, [&](int64_t offset) {
      const uint64_t at = layout.byte_offset + static_cast<uint64_t>(offset) * size;
      std::memcpy(wanted.data() + at, got.data() + at, size);
    });
    compare(got, wanted, name + ": bytes between its elements were written to");
  }

  void check_values(uint32_t index, const keel_tensor& view, const std::string& name) {
    const ops::Tolerance tolerance =
        ops::tolerance_of(data_.call(), schema_.dtypes[case_.combination].tolerance);
    const ops::ReferenceOutput& wanted = reference_.outputs[index];
    const std::vector<double> got = ops::read_tensor(view);
    check(got.size() == wanted.values.size(), name + ": the reference has another size");
    uint64_t wrong = 0;
    uint64_t first = 0;
    for (uint64_t i = got.size(); i-- > 0;) {
      if (ops::element_matches(tolerance, view.dtype, got[i], wanted.values[i],
                               wanted.magnitudes[i])) {
        continue;
      }
      first = i;
      ++wrong;
    }
    if (wrong != 0) {
      const double bound = ops::bound_of(tolerance, wanted.values[first], wanted.magnitudes[first]);
      const bool is_bounded = std::isfinite(wanted.values[first]) && !kit::is_integer(view.dtype);
      fail_case(fmt::format(
          "{}: {} of {} elements are out of bounds, first element {}: {:.9g} "
          "instead of {:.9g}{} (magnitude {:.3g})",
          name, wrong, got.size(), first, got[first], wanted.values[first],
          is_bounded ? fmt::format(", allowed is {:.3g}", bound) : "", wanted.magnitudes[first]));
    }
    if (got.size() < kElementsOfAMean) return;
    const double error = ops::normalised_error(got, wanted.values, tolerance.absolute);
    const double allowed = tolerance.nmse * wanted.roundings;
    check(error <= allowed, fmt::format("{}: normalised mean-square error {:.3g}, allowed {:.3g}",
                                        name, error, allowed));
  }

  // Equal inputs must give equal bits. In this run each tensor fills its allocation: with
  // KEEL_ALLOC=exact, a memory checker detects accesses outside of the allocation.
  void check_repeatable() {
    std::vector<std::vector<std::byte>> first;
    for (uint32_t o = 0; o < case_.outputs.size(); ++o) {
      const std::span<const std::byte> got = output(o).inside();
      first.emplace_back(got.begin(), got.end());
    }
    for (auto* tensors : {&inputs_, &outputs_}) tensors->clear();
    for (auto* pointers : {&input_pointers_, &output_pointers_}) pointers->clear();
    compute(place(/*red_bytes=*/0));
    if (judged_elsewhere()) return;
    for (uint32_t o = 0; o < case_.outputs.size(); ++o) {
      check_same_bits(o, first[o], output(o).inside());
    }
  }

  void check_same_bits(uint32_t index, std::span<std::byte> first, std::span<std::byte> second) {
    if (std::equal(first.begin(), first.end(), second.begin())) return;
    keel_tensor view = *data_.call().outputs[index];
    const uint32_t size = kit::dtype_size(view.dtype);
    uint64_t element = 0;
    uint64_t differing = UINT64_MAX;
    kit::for_each_element(view, [&](int64_t offset) {
      const uint64_t at = view.byte_offset + static_cast<uint64_t>(offset) * size;
      const bool differs = std::memcmp(first.data() + at, second.data() + at, size) != 0;
      if (differs && differing == UINT64_MAX) differing = element;
      ++element;
    });
    const auto value = [&](std::span<std::byte> of) {
      view.data = of.data();
      return differing < element ? ops::read_tensor(view)[differing] : 0.0;
    };
    fail_case(
        fmt::format("output {}: of the same inputs, element {} is {:.17g} in a first run and "
                    "{:.17g} in a second one",
                    schema_.outputs[index].name, differing, value(first), value(second)));
  }

  const Context& context_;
  const ops::Case& case_;
  const ops::Schema& schema_;
  ops::CaseData data_;
  ops::ReferenceResult reference_;
  const Stream stream_;
  std::vector<std::unique_ptr<DeviceTensor>> inputs_;
  std::vector<std::unique_ptr<DeviceTensor>> outputs_;
  std::vector<std::byte> packed_;
  std::vector<void*> input_pointers_;
  std::vector<void*> output_pointers_;
  ops::CaseData::Storage storage_;
};

// ---- memory of attention -----------------------------------------------------------

ops::Case attention_of(keel_op_id op, int64_t tokens) {
  const ops::CaseTensor heads = ops::dense(KEEL_FLOAT32, {tokens, 1, 16});
  const ops::CaseTensor rows = ops::dense(KEEL_FLOAT32, {1, tokens});
  const std::vector<keel_attribute> attributes = {ops::float_attribute(0.25), ops::int_attribute(1),
                                                  ops::float_attribute(0), ops::int_attribute(0),
                                                  ops::int_attribute(0)};
  if (op == KEEL_OP_ATTENTION) {
    return ops::make_case(op, 0, "memory",
                          {heads, heads, heads, ops::absent(), ops::absent(), ops::absent()},
                          {heads, rows}, attributes);
  }
  return ops::make_case(
      op, 0, "memory",
      {heads, heads, heads, heads, heads, rows, ops::absent(), ops::absent(), ops::absent()},
      {heads, heads, heads}, attributes);
}

uint64_t workspace_of(const Context& context, keel_op_id op, int64_t tokens) {
  const ops::CaseData data(attention_of(op, tokens), context.environment.seed);
  keel_op_plan plan = KEEL_STRUCT_INIT(keel_op_plan, KEEL_STRUCT_OP_PLAN);
  const keel_status status =
      observe_status(keel_op_plan_get(context.device(), &data.call(), &plan));
  if (status == KEEL_UNSUPPORTED || observe(plan.fallback) != 0) {
    unsupported("the device has no kernel for this call");
  }
  must(status, "keel_op_plan_get");
  return observe(plan.workspace_bytes);
}

// Fused attention must not store all weights at once: four times the tokens may need at most four
// times the workspace, whereas the weights would need sixteen times the bytes.
void check_attention_memory(const Context& context, keel_op_id op) {
  const uint64_t some = workspace_of(context, op, 2048);
  const uint64_t more = workspace_of(context, op, 8192);
  check(more <= 4 * some + kSpareBytes,
        fmt::format("a workspace of {} bytes for 2048 tokens, and of {} for 8192", some, more));
}

int64_t element_count(const ops::Case& op_case) {
  const auto count = [](const ops::CaseTensor& tensor) {
    int64_t elements = tensor.present ? 1 : 0;
    for (const int64_t extent : tensor.shape) elements *= extent;
    return elements;
  };
  int64_t total = 0;
  for (const ops::CaseTensor& tensor : op_case.inputs) total += count(tensor);
  for (const ops::CaseTensor& tensor : op_case.outputs) total += count(tensor);
  return total;
}

bool is_of_full_profile(const ops::Case& op_case) {
  if (op_case.profile != ops::Profile::kBySize) return op_case.profile == ops::Profile::kFull;
  return element_count(op_case) > kQuickElements;
}

}  // namespace

void add_ops_cases(const Environment&, std::vector<Case>* cases) {
  for (ops::Case& each : ops::all_cases()) {
    const auto op_case = std::make_shared<const ops::Case>(std::move(each));
    cases->push_back({"ops/" + op_case->id, KEEL_CAPABILITY_OPS, is_of_full_profile(*op_case),
                      [op_case](const Context& context) { OpRun(context, *op_case).run(); }});
  }
  for (const keel_op_id op : {KEEL_OP_ATTENTION, KEEL_OP_ATTENTION_BACKWARD}) {
    cases->push_back({fmt::format("ops/{}/memory", ops::find_schema(op)->name), KEEL_CAPABILITY_OPS,
                      /*full=*/false,
                      [op](const Context& context) { check_attention_memory(context, op); }});
  }
}

}  // namespace keel::conformance

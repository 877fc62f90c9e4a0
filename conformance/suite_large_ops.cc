// SPDX-License-Identifier: Apache-2.0
// Level ops: operators on more than 2^31 elements, whose count and whose byte offsets no 32-bit
// number holds. The reference of other cases holds each element in float64, 48 GiB here: these
// cases compare windows at both ends and around 2^30 and 2^31 elements with a formula.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <keel/plugin_kit.hpp>
#include <span>
#include <vector>

#include "conformance/harness.h"
#include "conformance/op_calls.h"
#include "ops/testing/reference.h"

namespace keel::conformance {

namespace {

constexpr uint64_t kElements = (uint64_t{1} << 31) + 20'011;
constexpr uint64_t kWindow = 4099;
constexpr uint64_t kRedBytes = 4096;
// First elements of the windows: in float16, 2^30 elements are 2^31 bytes and 2^31 are 2^32 bytes.
constexpr uint64_t kWindows[] = {0, (uint64_t{1} << 30) - 2000, (uint64_t{1} << 31) - 2000,
                                 kElements - kWindow};
// Elsewhere, where inputs hold 0.
constexpr uint64_t kBetween[] = {kWindow, uint64_t{1} << 29, (uint64_t{1} << 31) - 20'000,
                                 (uint64_t{1} << 31) + 3000};

// Returns the value of the element |index| of a tensor.
using Formula = std::function<double(uint64_t index)>;

// A tensor of kElements, with a red zone behind it.
class LargeTensor {
 public:
  // All bytes of the tensor and its red zone are those of |word| first.
  LargeTensor(const Context& context, const Stream& stream, keel_dtype dtype, uint32_t word)
      : stream_(stream),
        word_(word),
        dtype_(dtype),
        element_bytes_(kit::dtype_size(dtype)),
        memory_(context.device(), KEEL_MEMORY_DEVICE,
                (kElements * element_bytes_ + 3) / 4 * 4 + kRedBytes) {
    // A wait covers one piece: a host's memory is slow when it is first touched.
    constexpr uint64_t kPiece = 256 << 20;
    for (uint64_t at = 0; at < memory_.size(); at += kPiece) {
      stream_.fill(memory_.at(at), word, std::min(kPiece, memory_.size() - at));
      stream_.synchronize();
    }
  }

  keel_tensor tensor() const {
    return kit::make_tensor(memory_.data(), dtype_, {static_cast<int64_t>(kElements)});
  }
  void write_windows(const Formula& formula) const {
    for (const uint64_t first : kWindows) {
      stream_.upload(memory_.at(first * element_bytes_), window(first, formula));
      stream_.synchronize();
    }
  }
  // |between|: the value of all elements outside of the windows.
  void expect(const Formula& formula, double between, const std::string& what) const {
    for (const uint64_t first : kWindows) expect_window(first, formula, what);
    for (const uint64_t first : kBetween) {
      expect_window(
          first, [between](uint64_t) { return between; }, what);
    }
    const uint64_t end = kElements * element_bytes_;
    std::vector<std::byte> behind(memory_.size() - end);
    read(behind, end);
    // A word may begin before the end of the tensor, but all its bytes are equal.
    check_filled(behind, word_, what + ": bytes behind the last element");
  }

 private:
  std::vector<std::byte> window(uint64_t first, const Formula& formula) const {
    std::vector<std::byte> bytes(kWindow * element_bytes_);
    for (uint64_t i = 0; i < kWindow; ++i) {
      ops::store_element(bytes.data(), dtype_, static_cast<int64_t>(i), formula(first + i));
    }
    return bytes;
  }
  void read(std::span<std::byte> bytes, uint64_t at) const {
    stream_.download(bytes, memory_.at(at));
    stream_.synchronize();
  }
  void expect_window(uint64_t first, const Formula& formula, const std::string& what) const {
    std::vector<std::byte> got(kWindow * element_bytes_);
    read(got, first * element_bytes_);
    check_equal(got, window(first, formula), fmt::format("{}, from element {}", what, first));
  }

  const Stream& stream_;
  const uint32_t word_;
  const keel_dtype dtype_;
  const uint64_t element_bytes_;
  const Buffer memory_;
};

// Gives the gigabytes of a case back to the device: a host that is short of memory took a minute
// for the next case.
class TrimAtEnd {
 public:
  explicit TrimAtEnd(keel_device device) : device_(device) {}
  ~TrimAtEnd() {
    if (!judging()) keel_memory_trim(device_);
  }
  TrimAtEnd(const TrimAtEnd&) = delete;
  TrimAtEnd& operator=(const TrimAtEnd&) = delete;

 private:
  const keel_device device_;
};

// Ends the case unless the device has four times the memory of tensors of |element_bytes|: where it
// computes on the host, workers run the cases of this file side by side.
void need_memory(const Context& context, std::span<const uint64_t> element_bytes) {
  const keel_device_info& info = context.environment.info;
  uint64_t total = 0;
  for (const uint64_t each : element_bytes) {
    const uint64_t bytes = kElements * each + kRedBytes + 4;
    total += bytes;
    if (info.max_alloc_bytes != 0 && info.max_alloc_bytes < bytes) {
      unsupported(fmt::format("the device's largest allocation is shorter than {} bytes", bytes));
    }
  }
  if (info.memory_bytes != 0 && info.memory_bytes < 4 * total) {
    unsupported(fmt::format("the device has less than {} bytes", 4 * total));
  }
}

// Returns whether one of the device's own kernels computes |op| from |count| tensors of |from| to
// one of |to|, of one element.
bool has_kernel(const Context& context, keel_op_id op, uint32_t count, keel_dtype from,
                keel_dtype to) {
  const Buffer memory(context.device(), KEEL_MEMORY_DEVICE, 256);
  const auto tensor = [&](uint32_t index, keel_dtype dtype) {
    return kit::make_tensor(memory.at(uint64_t{index} * 64), dtype, {1});
  };
  std::vector<keel_tensor> inputs;
  for (uint32_t i = 0; i < count; ++i) inputs.push_back(tensor(i, from));
  std::vector<keel_attribute> attributes;
  if (op == KEEL_OP_FILL) attributes.push_back({.f = 1.0});
  const OpCall call(op, inputs, tensor(count, to), attributes);
  keel_op_plan plan = KEEL_STRUCT_INIT(keel_op_plan, KEEL_STRUCT_OP_PLAN);
  const keel_status status = observe_status(keel_op_plan_get(context.device(), call.get(), &plan));
  return status == KEEL_OK && observe(plan.fallback) == 0;
}

// |promised|: by KEEL_CAPABILITY_OPS, of tensors of any size.
void run(const Context& context, const Stream& stream, const OpCall& call, bool promised) {
  keel_op_plan plan = KEEL_STRUCT_INIT(keel_op_plan, KEEL_STRUCT_OP_PLAN);
  const keel_status status = observe_status(keel_op_plan_get(stream.device(), call.get(), &plan));
  if (status != KEEL_OK) must_be(KEEL_UNSUPPORTED, status, "keel_op_plan_get");
  if (status != KEEL_OK || observe(plan.fallback) != 0) {
    if (promised) fail_case("the device has no kernel for so many elements, which OPS promises");
    unsupported("the device has no kernel for so many elements");
  }
  must(keel_op_run(stream.get(), call.get()), "keel_op_run");
  // Gigabytes take a busy host longer than the quarter of a case's time that other waits have.
  must(keel_stream_synchronize(stream.get(), 3 * context.environment.wait_ns),
       "keel_stream_synchronize");
}

// Small whole numbers that differ between elements 2^30, 2^31 or 2^32 apart, since 59 and 61 are no
// powers of two. Each number and sum is exact in all dtypes below.
double small(uint64_t index) {
  return static_cast<double>(index % 59 + 1);
}
double other(uint64_t index) {
  return static_cast<double>(index % 61 + 1);
}

void fill(const Context& context) {
  const bool is_short = has_kernel(context, KEEL_OP_FILL, 0, KEEL_UINT8, KEEL_UINT8);
  const keel_dtype dtype = is_short ? KEEL_UINT8 : KEEL_FLOAT32;
  const uint64_t bytes[] = {kit::dtype_size(dtype)};
  need_memory(context, bytes);
  const Stream stream(context);
  const LargeTensor y(context, stream, dtype, 0);
  run(context, stream, OpCall(KEEL_OP_FILL, {}, y.tensor(), {{.f = 93.0}}), !is_short);
  y.expect([](uint64_t) { return 93.0; }, 93, "fill");
}

void add(const Context& context) {
  const bool is_short = has_kernel(context, KEEL_OP_ADD, 2, KEEL_FLOAT16, KEEL_FLOAT16);
  const keel_dtype dtype = is_short ? KEEL_FLOAT16 : KEEL_FLOAT32;
  const uint64_t bytes[] = {kit::dtype_size(dtype), kit::dtype_size(dtype)};
  need_memory(context, bytes);
  const Stream stream(context);
  const LargeTensor a(context, stream, dtype, 0);
  const LargeTensor b(context, stream, dtype, 0);
  a.write_windows(small);
  b.write_windows(other);
  run(context, stream, OpCall(KEEL_OP_ADD, {a.tensor(), b.tensor()}, a.tensor()), !is_short);
  a.expect([](uint64_t index) { return small(index) + other(index); }, 0, "add");
  b.expect(other, 0, "the second input of add");
}

void cast(const Context& context) {
  const bool is_short = has_kernel(context, KEEL_OP_CAST, 1, KEEL_UINT8, KEEL_INT8);
  const keel_dtype from = is_short ? KEEL_UINT8 : KEEL_FLOAT16;
  const keel_dtype to = is_short ? KEEL_INT8 : KEEL_FLOAT32;
  const uint64_t bytes[] = {kit::dtype_size(from), kit::dtype_size(to)};
  need_memory(context, bytes);
  const Stream stream(context);
  const LargeTensor x(context, stream, from, 0);
  const LargeTensor y(context, stream, to, 0x01010101);
  x.write_windows(small);
  y.write_windows(other);
  run(context, stream, OpCall(KEEL_OP_CAST, {x.tensor()}, y.tensor()), !is_short);
  y.expect(small, 0, "cast");
  x.expect(small, 0, "the input of cast");
}

}  // namespace

void add_large_ops_cases(const Environment&, std::vector<Case>* cases) {
  const auto add_case = [&](const char* id, void (*body)(const Context&)) {
    cases->push_back({id, KEEL_CAPABILITY_OPS, /*full=*/true, [body](const Context& context) {
                        const TrimAtEnd trim(context.device());
                        body(context);
                      }});
  };
  add_case("ops/fill/elements_past_31_bits", fill);
  add_case("ops/add/elements_past_31_bits", add);
  add_case("ops/cast/elements_past_31_bits", cast);
}

}  // namespace keel::conformance

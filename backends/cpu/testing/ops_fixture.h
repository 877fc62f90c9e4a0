// SPDX-License-Identifier: Apache-2.0
// Runs operators of the CPU plugin through the ABI on device tensors.
#ifndef KEEL_BACKENDS_CPU_TESTING_OPS_FIXTURE_H_
#define KEEL_BACKENDS_CPU_TESTING_OPS_FIXTURE_H_

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <keel/plugin_kit.hpp>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/testing/plugin_fixture.h"

namespace keel::cpu::testing {

inline keel_attribute real(double value) {
  keel_attribute attribute;
  attribute.f = value;
  return attribute;
}

inline keel_attribute integer(int64_t value) {
  keel_attribute attribute;
  attribute.i = value;
  return attribute;
}

inline std::vector<float> random_values(size_t count, uint32_t seed, float scale = 1.0f) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

template <typename Small, typename Convert>
std::vector<Small> narrowed(const std::vector<float>& values, Convert convert) {
  std::vector<Small> result;
  for (const float value : values) result.push_back(convert(value));
  return result;
}

// A tensor in device memory.
class DeviceTensor {
 public:
  DeviceTensor(keel_plugin_device* device, keel_dtype dtype, std::initializer_list<int64_t> shape)
      : tensor_(kit::make_tensor(nullptr, dtype, shape)),
        buffer_(device, std::max<uint64_t>(1, kit::span_bytes(tensor_))) {
    tensor_.data = buffer_.get();
  }
  operator const keel_tensor*() const { return &tensor_; }
  keel_tensor& view() { return tensor_; }
  void* data() const { return buffer_.get(); }
  size_t count() const { return static_cast<size_t>(kit::element_count(tensor_)); }

 private:
  keel_tensor tensor_;
  Buffer buffer_;
};

// Runs operators on a device of |cores| cores.
class OpRunner {
 public:
  using Tensors = std::vector<const keel_tensor*>;

  explicit OpRunner(const char* cores) : machine_({{"devices", "1"}, {"cores", cores}}) {}

  keel_op_support query(keel_op_id op, const Tensors& inputs, const Tensors& outputs,
                        const std::vector<keel_attribute>& attributes) {
    const keel_op_call call = make_call(op, inputs, outputs, attributes);
    keel_op_support support = {};
    support.header = kit::header<keel_op_support>(KEEL_STRUCT_OP_SUPPORT);
    EXPECT_EQ(plugin().op->query(device(), &call, &support), KEEL_OK);
    return support;
  }

  void run(keel_op_id op, const Tensors& inputs, const Tensors& outputs,
           const std::vector<keel_attribute>& attributes = {}) {
    const keel_op_support support = query(op, inputs, outputs, attributes);
    ASSERT_NE(support.level, KEEL_OP_NONE);
    ASSERT_NE(support.kernel, nullptr);
    const Buffer workspace(device(), std::max<uint64_t>(1, support.workspace_bytes));
    const keel_op_call call = make_call(op, inputs, outputs, attributes);
    ASSERT_EQ(
        plugin().op->run(stream_, &call, support.workspace_bytes > 0 ? workspace.get() : nullptr),
        KEEL_OK);
    ASSERT_EQ(stream_.synchronize(), KEEL_OK);
  }

  template <typename Element>
  DeviceTensor tensor(keel_dtype dtype, std::initializer_list<int64_t> shape,
                      const std::vector<Element>& values) {
    DeviceTensor result(device(), dtype, shape);
    upload(stream_, result.data(), values);
    return result;
  }
  DeviceTensor floats(std::initializer_list<int64_t> shape, const std::vector<float>& values) {
    return tensor(KEEL_FLOAT32, shape, values);
  }
  template <typename Element = float>
  std::vector<Element> values(const DeviceTensor& from) {
    return download<Element>(stream_, from.data(), from.count());
  }

  keel_plugin_device* device() { return machine_.device(); }

 protected:
  Machine machine_;
  StreamHandle stream_{machine_.device()};

 private:
  static keel_op_call make_call(keel_op_id op, const Tensors& inputs, const Tensors& outputs,
                                const std::vector<keel_attribute>& attributes) {
    return {kit::header<keel_op_call>(KEEL_STRUCT_OP_CALL),
            op,
            static_cast<uint32_t>(inputs.size()),
            static_cast<uint32_t>(outputs.size()),
            static_cast<uint32_t>(attributes.size()),
            inputs.data(),
            outputs.data(),
            attributes.data()};
  }
};

// Runs on both core budgets: one core, where work is not split, and two.
class CpuOps : public ::testing::TestWithParam<const char*>, public OpRunner {
 protected:
  CpuOps() : OpRunner(GetParam()) {}
};

inline void expect_near(const std::vector<float>& actual,
                        const std::function<double(size_t)>& expected, double relative,
                        double absolute) {
  for (size_t i = 0; i < actual.size(); ++i) {
    const double want = expected(i);
    if (static_cast<double>(actual[i]) == want) continue;  // infinities too
    ASSERT_LE(std::abs(static_cast<double>(actual[i]) - want), absolute + relative * std::abs(want))
        << "element " << i << " is " << actual[i] << ", not " << want;
  }
}

}  // namespace keel::cpu::testing

#endif  // KEEL_BACKENDS_CPU_TESTING_OPS_FIXTURE_H_

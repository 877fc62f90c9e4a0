// SPDX-License-Identifier: Apache-2.0
// Host tensors for the tests of the references, and gradients by central differences.
#ifndef KEEL_OPS_TESTING_REFERENCE_FIXTURE_H_
#define KEEL_OPS_TESTING_REFERENCE_FIXTURE_H_

#include <gtest/gtest.h>

#include <functional>
#include <keel/plugin_kit.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "ops/testing/case_data.h"
#include "ops/testing/reference.h"

namespace keel::ops {

// A host tensor that owns its values.
struct Host {
  Host(std::vector<int64_t> shape_, std::vector<float> values_) : shape(std::move(shape_)) {
    floats = std::move(values_);
    make(KEEL_FLOAT32, floats.data());
  }
  Host(std::vector<int64_t> shape_, std::vector<int32_t> values_) : shape(std::move(shape_)) {
    integers = std::move(values_);
    make(KEEL_INT32, integers.data());
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  void make(keel_dtype dtype, void* data) {
    tensor = {};
    tensor.size = sizeof(tensor);
    tensor.dtype = dtype;
    tensor.data = data;
    tensor.rank = static_cast<uint32_t>(shape.size());
    int64_t stride = 1;
    for (size_t axis = shape.size(); axis-- > 0;) {
      tensor.shape[axis] = shape[axis];
      tensor.strides[axis] = stride;
      stride *= shape[axis];
    }
  }

  std::vector<int64_t> shape;
  std::vector<float> floats;
  std::vector<int32_t> integers;
  keel_tensor tensor;
};

inline std::vector<float> random_floats(size_t count, uint32_t stream) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] =
        static_cast<float>(static_cast<double>(random_bits(3, 5, stream, i) >> 11) * 0x1p-52 - 1);
  }
  return values;
}

using Tensors = std::vector<const keel_tensor*>;

// Borrows from the arguments.
inline keel_op_call call_of(keel_op_id op, const Tensors& inputs, const Tensors& outputs,
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

inline ReferenceResult run(keel_op_id op, const Tensors& inputs, const Tensors& outputs,
                           const std::vector<keel_attribute>& attributes = {}) {
  const keel_op_call call = call_of(op, inputs, outputs, attributes);
  ReferenceResult result;
  CheckError error;
  error.text[0] = '\0';
  EXPECT_EQ(check_call(call, Check::kAll, &error), KEEL_OK) << error.text;
  EXPECT_EQ(run_reference(call, &result), KEEL_OK);
  return result;
}

// Returns the error text of a call that check_call refuses.
inline std::string refusal(keel_op_id op, const Tensors& inputs, const Tensors& outputs,
                           const std::vector<keel_attribute>& attributes) {
  const keel_op_call call = call_of(op, inputs, outputs, attributes);
  CheckError error;
  error.text[0] = '\0';
  EXPECT_EQ(check_call(call, Check::kLayout, &error), KEEL_INVALID_ARGUMENT);
  return error.text;
}

inline void expect_near(const std::vector<double>& got, const std::vector<double>& want,
                        double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << i;
}

// d loss / d x[i] for every i, with steps that are exact in float32.
inline std::vector<double> central_differences(std::vector<float>* x,
                                               const std::function<double()>& loss) {
  constexpr float kStep = 0x1p-10f;
  std::vector<double> result;
  for (float& value : *x) {
    const float saved = value;
    value = saved + kStep;
    const double above = value;
    const double loss_above = loss();
    value = saved - kStep;
    const double below = value;
    result.push_back((loss_above - loss()) / (above - below));
    value = saved;
  }
  return result;
}

inline double dot(const std::vector<double>& a, const std::vector<float>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

}  // namespace keel::ops

#endif  // KEEL_OPS_TESTING_REFERENCE_FIXTURE_H_

// SPDX-License-Identifier: Apache-2.0
// Working memory of a reference function: float64 copies of a call's inputs, and buffers for the
// outputs.
#ifndef KEEL_OPS_TESTING_REFERENCE_WORKSPACE_H_
#define KEEL_OPS_TESTING_REFERENCE_WORKSPACE_H_

#include <keel/plugin_kit.hpp>
#include <vector>

#include "ops/testing/reference.h"

namespace keel::ops {

// Inputs of a call in double, and an allocated element for every output element.
class Workspace {
 public:
  Workspace(const keel_op_call& call, ReferenceResult* result) : call_(call), result_(*result) {
    for (uint32_t i = 0; i < call.input_count; ++i) {
      if (call.inputs[i] != nullptr) inputs_[i] = read_tensor(*call.inputs[i]);
    }
    result->outputs.assign(call.output_count, {});
    for (uint32_t o = 0; o < call.output_count; ++o) {
      const auto count = static_cast<size_t>(kit::element_count(*call.outputs[o]));
      result->outputs[o].values.assign(count, 0);
      result->outputs[o].magnitudes.assign(count, 0);
    }
  }

  const std::vector<double>& in(uint32_t index) const { return inputs_[index]; }
  std::vector<double>& out(uint32_t index) { return result_.outputs[index].values; }
  std::vector<double>& size(uint32_t index) { return result_.outputs[index].magnitudes; }
  double& roundings(uint32_t index) { return result_.outputs[index].roundings; }
  int64_t extent(uint32_t input, uint32_t axis) const { return call_.inputs[input]->shape[axis]; }
  size_t count() const { return result_.outputs[0].values.size(); }
  template <typename Attributes>
  Attributes attributes() const {
    return kit::attributes<Attributes>(call_);
  }
  const keel_op_call& call() const { return call_; }

 private:
  const keel_op_call& call_;
  ReferenceResult& result_;
  std::vector<double> inputs_[kMaxInputs];
};

}  // namespace keel::ops

#endif  // KEEL_OPS_TESTING_REFERENCE_WORKSPACE_H_

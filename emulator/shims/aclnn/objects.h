// SPDX-License-Identifier: Apache-2.0
// The objects behind the handles of libnnopbase.so and libopapi.so, which share them.
#ifndef KEEL_EMULATOR_SHIMS_ACLNN_OBJECTS_H_
#define KEEL_EMULATOR_SHIMS_ACLNN_OBJECTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "emulator/queue.h"
#include "emulator/shims/aclnn/tensor.h"
#include "vendor/ascend/aclnn.h"

// A mark that destruction clears: the use of a destroyed descriptor is undefined in the real
// library.
struct aclTensor {
  uint32_t mark = kMark;
  keel::emulator::aclnn::Tensor tensor;
  static constexpr uint32_t kMark = 0x74656e73;
};
struct aclScalar {
  aclDataType type;
  double value;
  int64_t whole;  // the value of an integer type
};
struct aclIntArray {
  std::vector<int64_t> values;
};
struct aclBoolArray {
  std::vector<bool> values;
};

namespace keel::emulator::aclnn {

// Computes an operator: |operands| are the tensors of the first phase, in its order.
using Body = std::function<Status(std::vector<Operand>& operands)>;

// One prepared call. Shared with the work that the stream still runs.
struct Prepared {
  std::string name;
  std::vector<Tensor> tensors;
  Body body;
  uint64_t workspace = 0;
  double flops = 0;  // of the type of the first tensor; 0: work_of() knows
};

}  // namespace keel::emulator::aclnn

struct aclOpExecutor {
  uint32_t mark = kMark;
  bool is_repeatable = false;
  std::shared_ptr<const keel::emulator::aclnn::Prepared> prepared;
  static constexpr uint32_t kMark = 0x65786563;
};

#endif  // KEEL_EMULATOR_SHIMS_ACLNN_OBJECTS_H_

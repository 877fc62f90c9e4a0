// SPDX-License-Identifier: Apache-2.0
// Contents of the tensors of a case, and the call itself. Every element is a function of (seed,
// case, tensor, element) alone, so a failure repeats from its case and seed on any machine, in any
// order.
#ifndef KEEL_OPS_TESTING_CASE_DATA_H_
#define KEEL_OPS_TESTING_CASE_DATA_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ops/testing/cases.h"

namespace keel::ops {

// 64 random bits for one element: Philox4x32-10 with |seed| as the key.
uint64_t random_bits(uint64_t seed, uint64_t case_key, uint32_t tensor, uint64_t element);
// The case's contribution to the counter: FNV-1a of |id|.
uint64_t case_key(std::string_view id);

// Bytes from the start of the allocation to the end of the tensor's last element.
uint64_t allocation_bytes(const CaseTensor& tensor);

// Host memory for every tensor of a case, and the call on it.
class CaseData {
 public:
  // Fills the inputs, and the outputs with their content before the call. Gaps of strided tensors
  // are 0xA5 bytes. An in-place output shares the input's memory.
  CaseData(const Case& source, uint64_t seed);
  CaseData(const CaseData&) = delete;
  CaseData& operator=(const CaseData&) = delete;

  // Valid as long as this object. |inputs| and |outputs| point into host memory.
  const keel_op_call& call() const { return call_; }
  // The allocation of one tensor; empty for an absent tensor. For an in-place output, the input's.
  std::span<std::byte> input(uint32_t index);
  std::span<std::byte> output(uint32_t index);

  // The same call on other memory: |inputs| and |outputs| are the base addresses of the
  // allocations, NULL for an absent or empty tensor. The result points into |storage|.
  struct Storage {
    std::vector<keel_tensor> tensors;
    std::vector<const keel_tensor*> pointers;
  };
  keel_op_call rebind(std::span<void* const> inputs, std::span<void* const> outputs,
                      Storage* storage) const;

 private:
  const Case case_;
  std::vector<std::vector<std::byte>> memory_;  // inputs, then outputs
  Storage storage_;
  keel_op_call call_ = {};
};

}  // namespace keel::ops

#endif  // KEEL_OPS_TESTING_CASE_DATA_H_

// SPDX-License-Identifier: Apache-2.0
// Contents of the tensors of a case, and the call itself. Every element depends on
// (seed, case, tensor, element) and on nothing else, so that a failure is repeated from
// its case and seed alone, on any machine, in any order.
#ifndef KEEL_OPS_CASE_DATA_H_
#define KEEL_OPS_CASE_DATA_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ops/cases.h"

namespace keel::ops {

// 64 random bits for a place: Philox4x32-10 with |seed| as the key.
uint64_t random_bits(uint64_t seed, uint64_t case_key, uint32_t tensor, uint64_t element);
// The case's part of the place: FNV-1a of its id.
uint64_t case_key(std::string_view id);

// Bytes from the start of the allocation to the end of the tensor's last element.
uint64_t allocation_bytes(const CaseTensor& tensor);

// Host memory for every tensor of a case, and the call on it.
class CaseData {
 public:
  // Fills the inputs, and the outputs with what they hold before the call; gaps of
  // strided tensors are 0xA5 bytes. Outputs in place share the input's memory.
  CaseData(const Case& source, uint64_t seed);
  CaseData(const CaseData&) = delete;
  CaseData& operator=(const CaseData&) = delete;

  // Valid as long as this object. |inputs|, |outputs| point into host memory.
  const keel_op_call& call() const { return call_; }
  // The allocation of one tensor; empty for one that was left out. An output in place
  // gives the input's.
  std::span<std::byte> input(uint32_t index);
  std::span<std::byte> output(uint32_t index);

  // The same call on other memory: |inputs| and |outputs| hold the base address of each
  // allocation (NULL for a left-out or empty one). The result borrows from |storage|.
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

#endif  // KEEL_OPS_CASE_DATA_H_

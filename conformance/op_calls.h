// SPDX-License-Identifier: Apache-2.0
// Operator calls by hand, for suites that need some work of the device's own kernels.
#ifndef KEEL_CONFORMANCE_OP_CALLS_H_
#define KEEL_CONFORMANCE_OP_CALLS_H_

#include <cstdint>
#include <vector>

#include "conformance/harness.h"

namespace keel::conformance {

// A call of one output with all that it points to. An input without a dtype is left out.
class OpCall {
 public:
  OpCall(keel_op_id op, std::vector<keel_tensor> inputs, const keel_tensor& output,
         std::vector<keel_attribute> attributes = {});
  OpCall(const OpCall&) = delete;
  OpCall& operator=(const OpCall&) = delete;

  const keel_op_call* get() const { return &call_; }
  // Overwrites all of it, as a caller's stack may be once the call has returned.
  void spoil();

 private:
  std::vector<keel_tensor> inputs_;
  keel_tensor output_;
  std::vector<const keel_tensor*> input_pointers_;
  const keel_tensor* const output_pointer_ = &output_;
  std::vector<keel_attribute> attributes_;
  keel_op_call call_ = KEEL_STRUCT_INIT(keel_op_call, KEEL_STRUCT_OP_CALL);
};

// sum = sum + one over and over, in float32, whose result tells how many have run: small
// whole numbers are exact. Add in float32 is what KEEL_CLAIM_OPS promises at least.
class AddChain {
 public:
  // Enqueues zeroes and ones on |stream|, which must outlive the chain.
  AddChain(const Stream& stream, int64_t elements);
  // Enqueues |rounds| additions.
  void enqueue(uint32_t rounds, Where where = Where::current()) const;

  const std::byte* result() const { return sum_.data(); }
  uint64_t bytes() const { return sum_.size(); }
  // What every word of the result is after |rounds| additions.
  static uint32_t word(uint32_t rounds);

 private:
  const Stream& stream_;
  const int64_t elements_;
  Buffer sum_;
  Buffer one_;
};

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_OP_CALLS_H_

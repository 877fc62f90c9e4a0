// SPDX-License-Identifier: Apache-2.0
// Hand-built operator calls, for suites that need work from the device's own kernels.
#ifndef KEEL_CONFORMANCE_OP_CALLS_H_
#define KEEL_CONFORMANCE_OP_CALLS_H_

#include <cstdint>
#include <vector>

#include "conformance/harness.h"

namespace keel::conformance {

// A call with one output. The object owns the memory behind the call's pointers. Inputs without a
// dtype are passed as absent.
class OpCall {
 public:
  OpCall(keel_op_id op, std::vector<keel_tensor> inputs, const keel_tensor& output,
         std::vector<keel_attribute> attributes = {});
  OpCall(const OpCall&) = delete;
  OpCall& operator=(const OpCall&) = delete;

  const keel_op_call* get() const { return &call_; }
  // Overwrites the whole call, as a caller may reuse its stack after the call has returned.
  void spoil();

 private:
  std::vector<keel_tensor> inputs_;
  keel_tensor output_;
  std::vector<const keel_tensor*> input_pointers_;
  const keel_tensor* const output_pointer_ = &output_;
  std::vector<keel_attribute> attributes_;
  keel_op_call call_ = KEEL_STRUCT_INIT(keel_op_call, KEEL_STRUCT_OP_CALL);
};

// Repeats sum = sum + one in float32. Small whole numbers are exact, so the result counts the
// additions that ran. Float32 add is the minimum that KEEL_CAPABILITY_OPS promises.
class AddChain {
 public:
  // Enqueues the zeroes and ones on |stream|, which must outlive the chain.
  AddChain(const Stream& stream, int64_t elements);
  // Enqueues |rounds| additions.
  void enqueue(uint32_t rounds, Where where = Where::current()) const;

  const std::byte* result() const { return sum_.data(); }
  uint64_t bytes() const { return sum_.size(); }
  // Returns the value of every word of the result after |rounds| additions.
  static uint32_t word(uint32_t rounds);

 private:
  const Stream& stream_;
  const int64_t elements_;
  Buffer sum_;
  Buffer one_;
};

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_OP_CALLS_H_

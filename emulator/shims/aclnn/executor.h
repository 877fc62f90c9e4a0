// SPDX-License-Identifier: Apache-2.0
// The two phases that all operators share.
#ifndef KEEL_EMULATOR_SHIMS_ACLNN_EXECUTOR_H_
#define KEEL_EMULATOR_SHIMS_ACLNN_EXECUTOR_H_

#include <string>
#include <vector>

#include "emulator/shims/aclnn/objects.h"

namespace keel::emulator::aclnn {

// The library's answers to a bad call.
inline constexpr aclnnStatus kNullPointer = 161001;
inline constexpr aclnnStatus kBadParameter = 161002;
inline constexpr aclnnStatus kRuntimeError = 361001;

// Workspace of an operator that asks for one.
inline constexpr uint64_t kWorkspace = 4096;

// The tensor behind a handle; ends the process for a destroyed one.
const Tensor& tensor_of(const char* name, const aclTensor* handle);

// Returns whether |type| is float32, float16 or bfloat16: the operators of training lack float64.
bool is_training_type(aclDataType type);

// First phase: prepares |body| over |tensors|, of which none is NULL and the last is an output.
aclnnStatus prepare(const char* name, const std::vector<const aclTensor*>& tensors,
                    uint64_t workspace, Body body, uint64_t* out_workspace_size,
                    aclOpExecutor** out_executor, double flops = 0);
// Second phase: enqueues |executor|, and consumes it unless it is repeatable.
aclnnStatus execute(const char* name, void* workspace, uint64_t workspace_size,
                    aclOpExecutor* executor, aclrtStream stream);

}  // namespace keel::emulator::aclnn

extern "C" {

// For tests: how many executors the library has prepared, and how many of them are neither used up
// nor destroyed, nor run by work that is queued.
void keel_emulated_aclnn_executors(uint64_t* out_prepared, uint64_t* out_live);
// For tests: of the calls prepared from now on, counted from 1, number |nth| asks for at least
// |bytes| of workspace; 0: none does. The library records the names of these calls.
void keel_emulated_aclnn_grow_workspace(uint64_t nth, uint64_t bytes);
// The operator of the |nth| recorded call; NULL if there were fewer. Static.
const char* keel_emulated_aclnn_recorded(uint64_t nth);

}  // extern "C"

// Defines the second phase of an operator.
#define KEEL_SECOND_PHASE(operator_name)                                                    \
  aclnnStatus aclnn##operator_name(void* workspace, uint64_t workspaceSize,                 \
                                   aclOpExecutor* executor, aclrtStream stream) {           \
    return keel::emulator::aclnn::execute("aclnn" #operator_name, workspace, workspaceSize, \
                                          executor, stream);                                \
  }

#endif  // KEEL_EMULATOR_SHIMS_ACLNN_EXECUTOR_H_

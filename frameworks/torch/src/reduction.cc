// SPDX-License-Identifier: Apache-2.0
#include "reduction.h"

#include <c10/util/Exception.h>

#include "runtime.h"
#include "tensors.h"

namespace keel_torch {

Reduction::Reduction(const c10d::ReduceOp& op, c10::ScalarType type, keel_comm comm) : comm_(comm) {
  if (op != c10d::ReduceOp::PREMUL_SUM) {
    number_ = reduction_of(op, type);
    return;
  }
  const auto* const supplement =
      dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK(supplement != nullptr, "keel: PREMUL_SUM has no factor");
  const double factor = supplement->tensor_factor.defined()
                            ? supplement->tensor_factor.item<double>()
                            : supplement->double_factor;
  check(keel_premul_sum_create(comm_, factor, &number_), "creating a premultiplied sum");
  has_factor_ = true;
}

Reduction::~Reduction() {
  if (has_factor_) (void)keel_premul_sum_destroy(comm_, number_);
}

}  // namespace keel_torch

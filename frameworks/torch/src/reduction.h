// SPDX-License-Identifier: Apache-2.0
// The reduction of one collective.
#ifndef FRAMEWORKS_TORCH_SRC_REDUCTION_H_
#define FRAMEWORKS_TORCH_SRC_REDUCTION_H_

#include <c10/core/ScalarType.h>
#include <keel/keel.h>

#include <torch/csrc/distributed/c10d/Types.hpp>

namespace keel_torch {

// The keel reduction of |op| for |type|. A reduction with a factor ends with this object:
// operations that were enqueued before keep the factor, and a communicator has room for 65,536 at a
// time.
class Reduction {
 public:
  // Throws if there is no such reduction.
  Reduction(const c10d::ReduceOp& op, c10::ScalarType type, keel_comm comm);
  ~Reduction();
  Reduction(const Reduction&) = delete;
  Reduction& operator=(const Reduction&) = delete;

  operator keel_reduction() const { return number_; }

 private:
  const keel_comm comm_;
  keel_reduction number_ = KEEL_SUM;
  bool has_factor_ = false;
};

}  // namespace keel_torch

#endif  // FRAMEWORKS_TORCH_SRC_REDUCTION_H_

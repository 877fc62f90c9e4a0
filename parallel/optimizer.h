// SPDX-License-Identifier: Apache-2.0
// AdamW over what this rank owns of a stage's parameters; see Store::owned().
#ifndef KEEL_PARALLEL_OPTIMIZER_H_
#define KEEL_PARALLEL_OPTIMIZER_H_

#include <cstdint>
#include <keel/keel.hpp>
#include <keel/parallel/engine.hpp>
#include <vector>

#include "parallel/store.h"
#include "parallel/tensors.h"

namespace keel::parallel {

// Members enqueue on the memory's stream. Not thread-safe.
class Optimizer {
 public:
  // |store| outlives the optimizer.
  Optimizer(Memory& memory, Store& store);

  // Adds the squares of the owned gradients to two sums: of parameters that are divided over axis
  // tp, and of those that every rank of the axis has. A copy of another stage's parameter counts
  // there. |divided| and |whole| are scalars.
  void add_squares(const keel_tensor& divided, const keel_tensor& whole, const keel_tensor& found);
  // Scales gradients down to |settings|.clip, by the squared norm of the whole model's gradient in
  // |squares|; updates the owned values. |step| counts from 1.
  void update(const OptimizerSettings& settings, double rate, int64_t step,
              const keel_tensor& squares);

  std::vector<Engine::Piece> pieces() const;

 private:
  struct Moments {
    Tensor first, second;  // owned_size() elements of a unit
  };

  Memory& memory_;
  Store& store_;
  std::vector<Moments> moments_;
};

}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_OPTIMIZER_H_

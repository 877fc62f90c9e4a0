// SPDX-License-Identifier: Apache-2.0
#include "parallel/optimizer.h"

#include <algorithm>

namespace keel::parallel {

Optimizer::Optimizer(Memory& memory, Store& store) : memory_(memory), store_(store) {
  for (size_t unit = 0; unit < store.layout().units.size(); ++unit) {
    const int64_t size = store.owned_size(unit);
    moments_.push_back(
        {memory.zeroes({size}, Use::kMoments), memory.zeroes({size}, Use::kMoments)});
  }
}

void Optimizer::add_squares(const keel_tensor& divided, const keel_tensor& whole,
                            const keel_tensor& found) {
  for (size_t unit = 0; unit < moments_.size(); ++unit) {
    const Store::Owned owned = store_.owned(unit);
    for (const size_t id : store_.layout().units[unit].parameters) {
      const Parameter& parameter = store_.layout().parameters[id];
      const int64_t begin = std::max(owned.begin, parameter.offset);
      const int64_t end = std::min(owned.end, parameter.offset + parameter.size());
      if (begin >= end || parameter.tied) continue;
      const keel_tensor& total = parameter.shard_axis < 0 ? whole : divided;
      ops::sum_of_squares(memory_.stream(),
                          {.x = elements_of(owned.gradients, begin - owned.begin, end - begin),
                           .before = total,
                           .total = total,
                           .found = found});
    }
  }
}

void Optimizer::update(const OptimizerSettings& settings, double rate, int64_t step,
                       const keel_tensor& squares) {
  const Stream& stream = memory_.stream();
  for (size_t unit = 0; unit < moments_.size(); ++unit) {
    const Store::Owned owned = store_.owned(unit);
    const int64_t count = owned.end - owned.begin;
    if (count == 0) continue;
    const keel_tensor gradients = elements_of(owned.gradients, 0, count);
    if (settings.clip > 0) {
      ops::clip(stream, {.g = gradients,
                         .sum_of_squares = squares,
                         .g_out = gradients,
                         .max_norm = settings.clip});
    }
    // Vectors first, which do not decay, then matrices.
    const int64_t vectors =
        std::clamp<int64_t>(store_.layout().units[unit].matrices - owned.begin, 0, count);
    const auto run = [&](int64_t first, int64_t elements, double decay) {
      if (elements == 0) return;
      const keel_tensor values = elements_of(owned.values, first, elements);
      const keel_tensor m = elements_of(moments_[unit].first, first, elements);
      const keel_tensor v = elements_of(moments_[unit].second, first, elements);
      ops::adamw(stream, {.p = values,
                          .g = elements_of(gradients, first, elements),
                          .m = m,
                          .v = v,
                          .p_out = values,
                          .m_out = m,
                          .v_out = v,
                          .lr = rate,
                          .beta1 = settings.beta1,
                          .beta2 = settings.beta2,
                          .eps = settings.epsilon,
                          .weight_decay = decay,
                          .step = step});
    };
    run(0, vectors, 0);
    run(vectors, count - vectors, settings.weight_decay);
  }
}

std::vector<Engine::Piece> Optimizer::pieces() const {
  std::vector<Engine::Piece> pieces;
  for (size_t unit = 0; unit < moments_.size(); ++unit) {
    const Store::Owned owned = store_.owned(unit);
    for (const size_t id : store_.layout().units[unit].parameters) {
      const Parameter& parameter = store_.layout().parameters[id];
      const int64_t begin = std::max(owned.begin, parameter.offset);
      const int64_t end = std::min(owned.end, parameter.offset + parameter.size());
      if (begin >= end) continue;
      const auto part = [&](const keel_tensor& flat) {
        return elements_of(flat, begin - owned.begin, end - begin);
      };
      pieces.push_back({&parameter, begin - parameter.offset, end - parameter.offset,
                        part(owned.values), part(moments_[unit].first),
                        part(moments_[unit].second)});
    }
  }
  return pieces;
}

}  // namespace keel::parallel

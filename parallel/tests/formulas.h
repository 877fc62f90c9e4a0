// SPDX-License-Identifier: Apache-2.0
// Sizes that the formulas of bytes and memory count.
#ifndef KEEL_PARALLEL_TESTS_FORMULAS_H_
#define KEEL_PARALLEL_TESTS_FORMULAS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "parallel/tests/ranks.h"

namespace keel::parallel::testing {

inline Training train_on(const std::string& mesh, const Settings& settings, int64_t steps = 3) {
  Options options;
  options.mesh = mesh;
  options.steps = steps;
  Training training = train(settings, options);
  for (const std::string& failure : training.failures) EXPECT_EQ(failure, "");
  return training;
}

class FormulaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "the release build counts";
  }
};

// A model in which padding and small tensors are few.
inline Settings larger_settings(Architecture architecture) {
  Settings settings = tiny_settings(architecture);
  settings.model.width = 64;
  settings.model.mlp_width = 128;
  settings.model.vocabulary = 64;
  settings.model.context = 32;
  return settings;
}

// Sizes in floats, which the formulas count.
struct Sizes {
  double w, kv, m, u, h, v, n, layers;
  double matrices, vectors;  // of one layer
  explicit Sizes(const Settings& settings, double tokens)
      : w(static_cast<double>(settings.model.width)),
        kv(static_cast<double>(settings.model.kv_width())),
        m(static_cast<double>(settings.model.mlp_width)),
        u(settings.model.is_llama() ? 2 * m : m),
        h(static_cast<double>(settings.model.heads)),
        v(static_cast<double>(settings.model.vocabulary)),
        n(tokens),
        layers(static_cast<double>(settings.model.layers)),
        matrices(w * (2 * w + 2 * kv) + w * (u + m)),
        vectors(settings.model.is_llama() ? 2 * w : 4 * w + 3 * w + 2 * kv + m) {}
  double parameters(const Settings& settings) const {
    const double ends = settings.model.is_llama()
                            ? 2 * v * w + w
                            : v * w + static_cast<double>(settings.model.context) * w + 2 * w;
    return layers * (matrices + vectors) + ends;
  }
};

inline void expect_within(double got, double expected) {
  EXPECT_NEAR(got, expected, 0.05 * expected);
}

// What a layer keeps of a micro-batch between its passes, in floats: see Block::Saved. |parts|:
// ranks of axis tp that divide the rows.
struct LayerMemory {
  double whole, kept;  // without and with recomputation
  double held;         // from the input's gradient until the weights' gradients
  double gradients;    // at the peak of its backward pass: of the MLP
  double boundary;     // an input or output of a stage
  double head;         // of the model, as |held|

  LayerMemory(const Settings& settings, const Sizes& s, double parts = 1) {
    const bool divided = parts > 1;
    const double r = s.n / parts;
    const double norms = settings.model.is_llama() ? 2 * r : 4 * r;
    const double attention = s.n * s.w / parts + s.n * s.h / parts;  // what selective leaves out
    whole = r * s.w + s.n * s.w + s.n * (s.w + 2 * s.kv) / parts + attention + r * s.w + s.n * s.w +
            s.n * (s.u + s.m) / parts + norms;
    const Recompute recompute =
        settings.recompute.empty() ? Recompute::kNone : settings.recompute[0];
    kept = recompute == Recompute::kNone        ? whole
           : recompute == Recompute::kSelective ? whole - attention
                                                : r * s.w;
    // Inputs of the four products, and gradients of their outputs.
    held = s.n * (4 * s.w + (2 * s.w + 2 * s.kv + s.m + s.u) / parts) + norms;
    // The gradients of output, of hidden, of up, and of all rows where each rank has its own.
    gradients = r * s.w + (divided ? s.n * s.w : 0) + s.n * (s.m + s.u) / parts;
    boundary = r * s.w;
    head = s.n * (s.w + s.v / parts);
  }

  // A layer that keeps its input alone is computed again first; one without attention's output has
  // used the gradients before it runs attention again.
  double backward() const { return gradients + (kept <= boundary ? whole - kept : 0); }
};

}  // namespace keel::parallel::testing

#endif  // KEEL_PARALLEL_TESTS_FORMULAS_H_

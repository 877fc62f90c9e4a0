// SPDX-License-Identifier: Apache-2.0
// Evaluates a trained model: the loss on held-out text, and generated text.
#ifndef KEEL_SAMPLES_MIXED_TRAINING_EVALUATION_H_
#define KEEL_SAMPLES_MIXED_TRAINING_EVALUATION_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "samples/mixed_training/corpus.h"
#include "samples/mixed_training/model.h"

namespace mixed_training {

// Returns the mean loss over the held-out text in bits per byte. A model without knowledge reaches
// 8.
double held_out_bits_per_byte(Model& model, const Corpus& corpus);

// Returns |length| bytes that continue |prompt| (at least kContext bytes), drawn from the model's
// distribution with its logits divided by |temperature| > 0; deterministic for |seed|.
std::string generate(Model& model, std::string_view prompt, int64_t length, double temperature,
                     uint64_t seed);

// Replaces bytes that terminals do not show in place by '?'.
std::string printable(std::string text);

}  // namespace mixed_training

#endif  // KEEL_SAMPLES_MIXED_TRAINING_EVALUATION_H_

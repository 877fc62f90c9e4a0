// SPDX-License-Identifier: Apache-2.0
// What a trained model is worth: its loss on text it has not seen, and text it writes.
#ifndef KEEL_SAMPLES_MIXED_TRAINING_EVALUATION_H_
#define KEEL_SAMPLES_MIXED_TRAINING_EVALUATION_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "samples/mixed_training/corpus.h"
#include "samples/mixed_training/model.h"

namespace mixed_training {

// Mean loss over the held-out text, bits per byte. 8 knows nothing.
double held_out_bits_per_byte(Model& model, const Corpus& corpus);

// |length| bytes that follow |prompt| (at least kContext bytes), drawn from the model's
// distribution with its logits divided by |temperature| > 0; the same for the same seed.
std::string generate(Model& model, std::string_view prompt, int64_t length, double temperature,
                     uint64_t seed);

// Bytes that no terminal would show in place become '?'.
std::string printable(std::string text);

}  // namespace mixed_training

#endif  // KEEL_SAMPLES_MIXED_TRAINING_EVALUATION_H_

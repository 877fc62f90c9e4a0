// SPDX-License-Identifier: Apache-2.0
// Generates text with a trained model.
#ifndef KEEL_SAMPLES_TRAIN_GPT_GENERATE_H_
#define KEEL_SAMPLES_TRAIN_GPT_GENERATE_H_

#include <cstdint>
#include <keel/keel.hpp>
#include <string>
#include <string_view>

#include "samples/train_gpt/weights.h"

namespace train_gpt {

// Returns |length| bytes that continue the non-empty |prompt|. Deterministic for |seed|.
std::string generate(keel::Stream& stream, const Weights& weights, std::string_view prompt,
                     int64_t length, double temperature, uint64_t seed);

// Replaces bytes that terminals or JSON do not accept by '?'.
std::string printable(std::string text);

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_GENERATE_H_

// SPDX-License-Identifier: Apache-2.0
// A curve as a picture.
#ifndef KEEL_SAMPLES_TRAIN_GPT_CHART_H_
#define KEEL_SAMPLES_TRAIN_GPT_CHART_H_

#include <cstdint>
#include <span>
#include <string>

namespace train_gpt {

// The losses of steps first_step, first_step + 1, ... in bits per byte, as SVG: each one faint,
// their running mean over it. |title| is text.
std::string loss_chart(std::span<const double> losses, int64_t first_step,
                       const std::string& title);

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_CHART_H_

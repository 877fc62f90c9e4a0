// SPDX-License-Identifier: Apache-2.0
// Draws the loss curve.
#ifndef KEEL_SAMPLES_TRAIN_GPT_CHART_H_
#define KEEL_SAMPLES_TRAIN_GPT_CHART_H_

#include <cstdint>
#include <span>
#include <string>

namespace train_gpt {

// Returns SVG of the losses, in bits per byte, of steps first_step, first_step + 1, ...: each loss
// faint, their running mean on top. |title| is plain text.
std::string loss_chart(std::span<const double> losses, int64_t first_step,
                       const std::string& title);

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_CHART_H_

// SPDX-License-Identifier: Apache-2.0
// Draws a run: the loss, and the share of the batch that each device had.
#ifndef KEEL_SAMPLES_MIXED_TRAINING_PICTURE_H_
#define KEEL_SAMPLES_MIXED_TRAINING_PICTURE_H_

#include <string>

#include "samples/mixed_training/report.h"

namespace mixed_training {

// Returns SVG: on the left the loss of each step in bits per byte, on the right the rows of each
// device, stacked, with the device's share at the end and its speed.
std::string picture(const Report& report, const std::string& title);

}  // namespace mixed_training

#endif  // KEEL_SAMPLES_MIXED_TRAINING_PICTURE_H_

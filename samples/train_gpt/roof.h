// SPDX-License-Identifier: Apache-2.0
// Measures a device's peak rate for matrix products.
#ifndef KEEL_SAMPLES_TRAIN_GPT_ROOF_H_
#define KEEL_SAMPLES_TRAIN_GPT_ROOF_H_

#include <keel/keel.hpp>

#include "samples/train_gpt/config.h"

namespace train_gpt {

// Returns the best rate, in operations per second, of square products of 256, 512, ... up to 8192
// rows, ending at the first size that takes over 10 ms. The dtypes are those of training with
// |precision|. MFU is the rate of training divided by this rate.
double measure_product_roof(keel::Device device, Precision precision);

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_ROOF_H_

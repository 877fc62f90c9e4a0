// SPDX-License-Identifier: Apache-2.0
// How fast a device multiplies matrices when it does nothing else.
#ifndef KEEL_SAMPLES_TRAIN_GPT_ROOF_H_
#define KEEL_SAMPLES_TRAIN_GPT_ROOF_H_

#include <keel/keel.hpp>

#include "samples/train_gpt/config.h"

namespace train_gpt {

// Operations a second of a square product as large as the device takes to be at its best; of the
// dtypes that training with |precision| has. What training's own rate is held against: MFU.
double measure_product_roof(keel::Device device, Precision precision);

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_ROOF_H_

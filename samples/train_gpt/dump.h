// SPDX-License-Identifier: Apache-2.0
// What a step calculated, in a file for `keel compare`, which lays two runs side by side.
#ifndef KEEL_SAMPLES_TRAIN_GPT_DUMP_H_
#define KEEL_SAMPLES_TRAIN_GPT_DUMP_H_

#include <cstdint>
#include <filesystem>

#include "samples/train_gpt/trainer.h"

namespace train_gpt {

// Writes FOLDER/step_000001.safetensors and so on, one for each of the first |steps| steps that are
// trained: activations between the layers, of the whole batch however many devices share it, the
// loss of each token and their mean, and every gradient, as it is before it is clipped. They are
// listed as they came to be: forward through the layers, and backward.
class Dump {
 public:
  // Makes |folder|. Throws keel::tensorfile::FileError.
  Dump(std::filesystem::path folder, int64_t steps);

  // For Trainer::train_step, which calls it between gradients and optimizer.
  void operator()(Trainer& trainer);

 private:
  std::filesystem::path folder_;
  int64_t steps_left_;
};

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_DUMP_H_

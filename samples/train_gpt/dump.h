// SPDX-License-Identifier: Apache-2.0
// Writes the values of a training step to a file for `keel compare`, which compares two runs.
#ifndef KEEL_SAMPLES_TRAIN_GPT_DUMP_H_
#define KEEL_SAMPLES_TRAIN_GPT_DUMP_H_

#include <cstdint>
#include <filesystem>

#include "samples/train_gpt/trainer.h"

namespace train_gpt {

// Writes FOLDER/step_000001.safetensors and so on, one file for each of the first |steps| training
// steps: the activations between the layers, each token's loss and the mean loss, and every
// gradient before clipping. Activations cover the whole batch, however many devices share the
// batch. Tensors are listed in order of computation: forward through the layers, then backward.
class Dump {
 public:
  // Creates |folder|. Throws keel::tensorfile::FileError.
  Dump(std::filesystem::path folder, int64_t steps);

  // Passed to Trainer::train_step, which calls it between the gradients and the optimizer.
  void operator()(Trainer& trainer);

 private:
  std::filesystem::path folder_;
  int64_t steps_left_;
};

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_DUMP_H_

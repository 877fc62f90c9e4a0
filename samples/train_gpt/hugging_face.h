// SPDX-License-Identifier: Apache-2.0
// Reads and writes weights with the names and shapes of Hugging Face's GPT-2 and Llama.
#ifndef KEEL_SAMPLES_TRAIN_GPT_HUGGING_FACE_H_
#define KEEL_SAMPLES_TRAIN_GPT_HUGGING_FACE_H_

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "samples/train_gpt/parameters.h"

namespace train_gpt {

// Creates |folder| if absent. Throws FileError if files cannot be written in |folder|.
void prepare_export(const std::filesystem::path& folder);

// Replaces |folder|/config.json, then model.safetensors, each as a whole. |values| are flat, in the
// layout's order. Throws FileError.
void export_weights(const std::filesystem::path& folder, const ParameterLayout& layout,
                    std::span<const float> values);

// Reads |file| with float32, bfloat16 or float16 tensors. Names may start with "transformer."; a
// Llama without a head tensor uses the embedding as its head. Tensors that are not parameters, such
// as the masks of old files, are ignored. Throws FileError, naming the tensor that is missing, has
// another shape or does not belong to the model, or the value of another model in the config.json
// beside |file|, if present: many models differ in no tensor.
std::vector<float> import_weights(const std::filesystem::path& file, const ParameterLayout& layout);

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_HUGGING_FACE_H_

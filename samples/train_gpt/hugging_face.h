// SPDX-License-Identifier: Apache-2.0
// Weights under the names, and in the shapes, of Hugging Face's GPT-2 and Llama.
#ifndef KEEL_SAMPLES_TRAIN_GPT_HUGGING_FACE_H_
#define KEEL_SAMPLES_TRAIN_GPT_HUGGING_FACE_H_

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "samples/train_gpt/parameters.h"

namespace train_gpt {

// Makes |folder|, if it is not there. Throws FileError where files cannot be written in it.
void prepare_export(const std::filesystem::path& folder);

// Replaces |folder|/config.json, then model.safetensors, each as a whole. |values| are flat, as the
// layout has them. Throws FileError.
void export_weights(const std::filesystem::path& folder, const ParameterLayout& layout,
                    std::span<const float> values);

// Reads |file|, of float32, bfloat16 or float16. Names may begin with "transformer.", and a Llama
// without a head of its own has its embedding's. Tensors that are no parameters, as the masks of
// old files, are left alone. Throws FileError, naming the tensor that is missing, of another shape
// or none of the model's, or what the config.json beside |file|, where there is one, says of
// another model: many differ in no tensor.
std::vector<float> import_weights(const std::filesystem::path& file, const ParameterLayout& layout);

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_HUGGING_FACE_H_

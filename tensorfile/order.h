// SPDX-License-Identifier: Apache-2.0
// The creation order of a file's tensors, and the layer of each.
#ifndef KEEL_TENSORFILE_ORDER_H_
#define KEEL_TENSORFILE_ORDER_H_

#include <string>
#include <string_view>
#include <vector>

#include "tensorfile/safetensors.h"

namespace keel::tensorfile {

// Metadata key of a file's list of tensors in creation order: names, a line each.
inline constexpr const char* kOrderKey = "order";

// Orders digits as numbers: "layers.2" comes before "layers.10".
bool natural_less(std::string_view a, std::string_view b);

// The names of a file: first the names under kOrderKey, then all others in natural order.
std::vector<std::string> ordered_names(const SafetensorsFile& file);

// The names of both files, in the order of |a|; a name only in |b| follows its predecessor in |b|.
// If only |b| has kOrderKey, |a| and |b| change places.
std::vector<std::string> ordered_names(const SafetensorsFile& a, const SafetensorsFile& b);

// The lines of the metadata |key|; empty if the key is missing.
std::vector<std::string> metadata_lines(const SafetensorsFile& file, const std::string& key);

// "layers.3" of "model.layers.3.attention.query.weight": the first number between dots, and the
// word before it. Empty for a name without a number.
std::string layer_of(std::string_view name);

}  // namespace keel::tensorfile

#endif  // KEEL_TENSORFILE_ORDER_H_

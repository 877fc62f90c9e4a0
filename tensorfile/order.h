// SPDX-License-Identifier: Apache-2.0
// The order in which the tensors of a file were created, and the layer of each.
#ifndef KEEL_TENSORFILE_ORDER_H_
#define KEEL_TENSORFILE_ORDER_H_

#include <string>
#include <string_view>
#include <vector>

#include "tensorfile/safetensors.h"

namespace keel::tensorfile {

// Metadata key under which a file lists its tensors in the order of their creation: names, a line
// each.
inline constexpr const char* kOrderKey = "order";

// Orders digits as numbers: "layers.2" comes before "layers.10".
bool natural_less(std::string_view a, std::string_view b);

// The names of a file: first the names under kOrderKey, then all others in natural order.
std::vector<std::string> ordered_names(const SafetensorsFile& file);

// The names of both files, in the order of |a|; a name that only |b| has follows its predecessor in
// |b|. If only |b| has an order of its own, |a| and |b| change places.
std::vector<std::string> ordered_names(const SafetensorsFile& a, const SafetensorsFile& b);

// The lines of the metadata |key|; empty if the key is missing.
std::vector<std::string> metadata_lines(const SafetensorsFile& file, const std::string& key);

// "layers.3" of "model.layers.3.attention.query.weight": the first number between dots, and the
// word before it. Empty for a name without a number.
std::string layer_of(std::string_view name);

}  // namespace keel::tensorfile

#endif  // KEEL_TENSORFILE_ORDER_H_

// SPDX-License-Identifier: Apache-2.0
// In which order the tensors of a file are meaningful, and which layer each is of.
#ifndef KEEL_TENSORFILE_ORDER_H_
#define KEEL_TENSORFILE_ORDER_H_

#include <string>
#include <string_view>
#include <vector>

#include "tensorfile/safetensors.h"

namespace keel::tensorfile {

// The metadata key under which a file lists its tensors as they came to be: names, a line each.
inline constexpr const char* kOrderKey = "order";

// Digits compare as the numbers they are: "layers.2" comes before "layers.10".
bool natural_less(std::string_view a, std::string_view b);

// The names of a file: those of its order first, then the others in their natural order.
std::vector<std::string> ordered_names(const SafetensorsFile& file);

// The names of both, in the order of |a|; a name that only |b| has follows the one it follows
// there. If only |b| has an order of its own, the two change places.
std::vector<std::string> ordered_names(const SafetensorsFile& a, const SafetensorsFile& b);

// The lines of the metadata |key|; none where it is missing.
std::vector<std::string> metadata_lines(const SafetensorsFile& file, const std::string& key);

// "layers.3" of "model.layers.3.attention.query.weight": the first number between dots, and the
// word before it. Empty where there is none.
std::string layer_of(std::string_view name);

}  // namespace keel::tensorfile

#endif  // KEEL_TENSORFILE_ORDER_H_

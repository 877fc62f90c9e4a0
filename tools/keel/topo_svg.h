// SPDX-License-Identifier: Apache-2.0
// Draws the result of keel_topology_get.
#ifndef KEEL_TOOLS_KEEL_TOPO_SVG_H_
#define KEEL_TOOLS_KEEL_TOPO_SVG_H_

#include <string>

#include "tools/command.h"

namespace keel::cli {

// Returns "512.0 GiB"; "unknown memory" for null.
std::string size_text(const Json& bytes);
// Returns a code for the table of distances, like nvidia-smi's "PIX": "chip", "switch", "bridge",
// "node", "across", "?".
std::string distance_code(const std::string& distance);

// Returns a complete SVG document.
std::string draw_topology(const Json& topology);

}  // namespace keel::cli

#endif  // KEEL_TOOLS_KEEL_TOPO_SVG_H_

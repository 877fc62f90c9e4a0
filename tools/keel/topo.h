// SPDX-License-Identifier: Apache-2.0
// keel topo: shows packages, NUMA nodes, devices, network interfaces, and the distances.
#ifndef KEEL_TOOLS_KEEL_TOPO_H_
#define KEEL_TOOLS_KEEL_TOPO_H_

namespace CLI {
class App;
}

namespace keel::cli {

void add_topo_command(CLI::App& app);

}  // namespace keel::cli

#endif  // KEEL_TOOLS_KEEL_TOPO_H_

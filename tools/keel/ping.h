// SPDX-License-Identifier: Apache-2.0
// `keel ping`: round trip and bandwidth between each pair of hosts of a job.
#ifndef KEEL_TOOLS_KEEL_PING_H_
#define KEEL_TOOLS_KEEL_PING_H_

namespace CLI {
class App;
}

namespace keel::cli {

void add_ping_command(CLI::App& app);

}  // namespace keel::cli

#endif  // KEEL_TOOLS_KEEL_PING_H_

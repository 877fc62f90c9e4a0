// SPDX-License-Identifier: Apache-2.0
// keel ops: shows where operators run, and why.
#ifndef KEEL_TOOLS_KEEL_OPS_H_
#define KEEL_TOOLS_KEEL_OPS_H_

namespace CLI {
class App;
}

namespace keel::cli {

void add_ops_command(CLI::App& app);

}  // namespace keel::cli

#endif  // KEEL_TOOLS_KEEL_OPS_H_

// SPDX-License-Identifier: Apache-2.0
// keel devices: what this machine has, and why a backend has nothing.
#ifndef KEEL_CLI_DEVICES_H_
#define KEEL_CLI_DEVICES_H_

namespace CLI {
class App;
}

namespace keel::cli {

void add_devices_command(CLI::App& app);

}  // namespace keel::cli

#endif  // KEEL_CLI_DEVICES_H_

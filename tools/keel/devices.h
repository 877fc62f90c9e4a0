// SPDX-License-Identifier: Apache-2.0
// keel devices: lists the devices of this machine, and why a backend has no device.
#ifndef KEEL_TOOLS_KEEL_DEVICES_H_
#define KEEL_TOOLS_KEEL_DEVICES_H_

namespace CLI {
class App;
}

namespace keel::cli {

void add_devices_command(CLI::App& app);

}  // namespace keel::cli

#endif  // KEEL_TOOLS_KEEL_DEVICES_H_

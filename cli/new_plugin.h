// SPDX-License-Identifier: Apache-2.0
// `keel new-plugin`: the project of a plugin that is built out of Keel's tree.
#ifndef KEEL_CLI_NEW_PLUGIN_H_
#define KEEL_CLI_NEW_PLUGIN_H_

namespace CLI {
class App;
}

namespace keel::cli {

// A name that no plugin can have, and a folder that exists, are UsageErrors. A file that cannot be
// written is a std::filesystem::filesystem_error or std::runtime_error; the folder is left as far
// as it was written.
void add_new_plugin_command(CLI::App& app);

}  // namespace keel::cli

#endif  // KEEL_CLI_NEW_PLUGIN_H_

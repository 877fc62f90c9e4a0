// SPDX-License-Identifier: Apache-2.0
// `keel new-plugin`: creates the project of a plugin that is built outside Keel's tree.
#ifndef KEEL_TOOLS_KEEL_NEW_PLUGIN_H_
#define KEEL_TOOLS_KEEL_NEW_PLUGIN_H_

namespace CLI {
class App;
}

namespace keel::cli {

// Throws UsageError for an invalid plugin name or an existing folder. Throws
// std::filesystem::filesystem_error or std::runtime_error for a file that cannot be written; files
// written so far remain.
void add_new_plugin_command(CLI::App& app);

}  // namespace keel::cli

#endif  // KEEL_TOOLS_KEEL_NEW_PLUGIN_H_

// SPDX-License-Identifier: Apache-2.0
// `keel compare`: finds the first tensor in which two runs differ.
#ifndef KEEL_TOOLS_KEEL_COMPARE_H_
#define KEEL_TOOLS_KEEL_COMPARE_H_

namespace CLI {
class App;
}

namespace keel::cli {

// |exit_code| becomes 1 if the runs differ. Throws UsageError for files that cannot be compared.
void add_compare_command(CLI::App& app, int* exit_code);

}  // namespace keel::cli

#endif  // KEEL_TOOLS_KEEL_COMPARE_H_

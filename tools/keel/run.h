// SPDX-License-Identifier: Apache-2.0
// `keel run`: a job of several processes on this host.
#ifndef KEEL_TOOLS_KEEL_RUN_H_
#define KEEL_TOOLS_KEEL_RUN_H_

namespace CLI {
class App;
}

namespace keel::cli {

// |*exit_code| becomes the job's exit code.
void add_run_command(CLI::App& app, int* exit_code);

}  // namespace keel::cli

#endif  // KEEL_TOOLS_KEEL_RUN_H_

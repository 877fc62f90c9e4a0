// SPDX-License-Identifier: Apache-2.0
// `keel flight`: prints the records of a job's flight recorders.
#ifndef KEEL_TOOLS_KEEL_FLIGHT_H_
#define KEEL_TOOLS_KEEL_FLIGHT_H_

#include <string>

#include "tools/command.h"

namespace CLI {
class App;
}

namespace keel::cli {

void add_flight_command(CLI::App& app);

// Returns a sentence per line: the ranks of |communicator| (an element of "communicators" in the
// result of keel_flight_read) that are behind, have ended or have no file. Empty without findings.
std::string flight_findings(const Json& communicator);

}  // namespace keel::cli

#endif  // KEEL_TOOLS_KEEL_FLIGHT_H_

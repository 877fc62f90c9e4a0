// SPDX-License-Identifier: Apache-2.0
// The worker process: loads the plugin under test and runs the requested cases.
#ifndef KEEL_CONFORMANCE_WORKER_H_
#define KEEL_CONFORMANCE_WORKER_H_

namespace keel::conformance {

// Serves the single request on standard input (protocol.h) and returns the exit status of the
// process.
int worker_main();

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_WORKER_H_

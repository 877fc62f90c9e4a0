// SPDX-License-Identifier: Apache-2.0
// Operations of several communicators on several streams, in a random order per rank.
#ifndef KEEL_COLLECTIVES_TESTING_INTERLEAVING_H_
#define KEEL_COLLECTIVES_TESTING_INTERLEAVING_H_

#include <keel/keel.h>

#include <cstdint>
#include <string>

namespace keel::testing {

// Uses |world|, its duplicate and its split by rank parity, on three streams. Each round runs one
// operation on each of the three communicators: all ranks run the same operations, but draw the
// order within the round and the streams independently. Checks all results. Each rank calls on its
// own thread with the same |seed|. Returns the failure, or an empty text.
std::string run_interleaving(keel_device device, keel_comm world, uint32_t seed,
                             uint32_t operations);

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_INTERLEAVING_H_

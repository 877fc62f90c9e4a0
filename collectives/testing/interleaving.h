// SPDX-License-Identifier: Apache-2.0
// Operations of several communicators on several streams, in an order that each rank draws.
#ifndef KEEL_COLLECTIVES_TESTING_INTERLEAVING_H_
#define KEEL_COLLECTIVES_TESTING_INTERLEAVING_H_

#include <keel/keel.h>

#include <cstdint>
#include <string>

namespace keel::testing {

// |world|, a duplicate of it, and its parts by parity; three streams. Rounds of one operation
// on each of the three communicators: the operations are the same on all ranks, their order
// within the round and the streams are the rank's own. All are checked. Every rank calls it,
// each from a thread of its own, with the same |seed|. What went wrong, or nothing.
std::string run_interleaving(keel_device device, keel_comm world, uint32_t seed,
                             uint32_t operations);

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_INTERLEAVING_H_

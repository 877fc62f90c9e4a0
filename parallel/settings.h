// SPDX-License-Identifier: Apache-2.0
// Settings of an engine, checked against the mesh.
#ifndef KEEL_PARALLEL_SETTINGS_H_
#define KEEL_PARALLEL_SETTINGS_H_

#include <cstdint>
#include <keel/parallel/engine.hpp>

namespace keel::parallel {

// Fills in what |settings| leave open, for |chunks| stages a rank. Throws
// Error(KEEL_INVALID_ARGUMENT), naming the member, for what |mesh| cannot run.
Settings complete(Settings settings, const Mesh& mesh, int64_t chunks);

}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_SETTINGS_H_

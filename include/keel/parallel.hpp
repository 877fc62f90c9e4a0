// SPDX-License-Identifier: Apache-2.0
// Hybrid-parallel training over any mix of devices; docs/parallel.md introduces it. Failures are
// thrown as keel::Error.
#ifndef KEEL_PARALLEL_HPP_
#define KEEL_PARALLEL_HPP_

#include <keel/parallel/engine.hpp>
#include <keel/parallel/mesh.hpp>
#include <keel/parallel/model.hpp>
#include <keel/parallel/traffic.hpp>

#endif  // KEEL_PARALLEL_HPP_

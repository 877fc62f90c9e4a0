// SPDX-License-Identifier: Apache-2.0
// Hybrid-parallel training over any mix of devices; docs/parallel.md introduces it. Failures are
// thrown as keel::Error.
#ifndef KEEL_PARALLEL_HPP_
#define KEEL_PARALLEL_HPP_

#include <keel/parallel/checkpoint.hpp>
#include <keel/parallel/checkpoint_trigger.hpp>
#include <keel/parallel/engine.hpp>
#include <keel/parallel/engine_checkpoint.hpp>
#include <keel/parallel/loader.hpp>
#include <keel/parallel/mesh.hpp>
#include <keel/parallel/model.hpp>
#include <keel/parallel/pipeline.hpp>
#include <keel/parallel/pipelined.hpp>
#include <keel/parallel/report.hpp>
#include <keel/parallel/schedule.hpp>
#include <keel/parallel/timeline.hpp>
#include <keel/parallel/traffic.hpp>

#endif  // KEEL_PARALLEL_HPP_

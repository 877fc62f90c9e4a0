// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_PARALLEL_TESTING_THREAD_RANKS_H_
#define KEEL_PARALLEL_TESTING_THREAD_RANKS_H_

#include <cstdint>
#include <functional>
#include <keel/keel.hpp>
#include <span>
#include <string>
#include <vector>

namespace keel::parallel {

// Calls |body| for each rank of a new communicator, on a thread and a device of its own; returns
// the failures by rank, empty for success. Returns when all have returned.
std::vector<std::string> run_thread_ranks(
    std::span<const Device> devices,
    const std::function<void(uint32_t rank, Communicator& world, Device device)>& body);

}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_TESTING_THREAD_RANKS_H_

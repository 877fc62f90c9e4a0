// SPDX-License-Identifier: Apache-2.0
#include "parallel/testing/thread_ranks.h"

#include <exception>
#include <thread>

namespace keel::parallel {

std::vector<std::string> run_thread_ranks(
    std::span<const Device> devices,
    const std::function<void(uint32_t rank, Communicator& world, Device device)>& body) {
  const keel_unique_id id = make_unique_id();
  std::vector<std::string> failures(devices.size());
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < devices.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Communicator world =
            Communicator::join(devices[rank], id, rank, static_cast<uint32_t>(devices.size()));
        body(rank, world, devices[rank]);
      } catch (const std::exception& error) {
        failures[rank] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return failures;
}

}  // namespace keel::parallel

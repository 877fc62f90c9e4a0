// SPDX-License-Identifier: Apache-2.0
// A rank of the jobs in which host_faults.py kills another rank: reduces until an all_reduce fails,
// shrinks until one succeeds again, and prints when that was.
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <keel/communicators.hpp>
#include <keel/keel.hpp>
#include <vector>

namespace {

constexpr uint64_t kCount = 256 << 10;  // 1 MiB

// Sums over the ranks. Returns false if the operation fails, e.g. after the end of a rank.
bool sum(keel::Communicator& comm, const keel::Buffer& buffer, const keel::Stream& stream) {
  try {
    comm.all_reduce(buffer.data(), buffer.data(), kCount, KEEL_FLOAT32, KEEL_MAX, stream);
    stream.synchronize();
    return true;
  } catch (const keel::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return false;
  }
}

void run() {
  const keel::Runtime runtime;
  const keel::Device device = keel::Device::find("cpu");
  keel::Stream stream(device);
  const keel::Buffer buffer = keel::Buffer::of<float>(device, kCount);
  keel::Communicator comm = keel::Communicator::from_environment(device);
  uint64_t done = 0;
  while (sum(comm, buffer, stream)) {
    if (++done == 1) std::printf("running\n");
  }
  // Another rank may end while the survivors agree.
  uint32_t shrinks = 0;
  do {
    comm = keel::shrink(comm);
    stream.recover();
    ++shrinks;
  } while (!sum(comm, buffer, stream));
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  std::printf("reduces again: %u ranks, %u shrinks, at %ld.%09ld\n", comm.world(), shrinks,
              now.tv_sec, now.tv_nsec);
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

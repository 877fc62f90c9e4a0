// SPDX-License-Identifier: Apache-2.0
#include "collectives/testing/rounding.h"

#include <fmt/format.h>

#include <keel/float_types.hpp>
#include <random>

namespace keel::testing {

// The thread sanitizer took 55 s for two jobs of hosts with 70001 elements.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kLargest = 9001;
#else
constexpr uint64_t kLargest = 70001;
#endif

std::string inexact(keel_dtype dtype, uint64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> magnitude(0.5, 1.5);
  std::string bytes;
  for (uint64_t i = 0; i < count; ++i) {
    const double value = random() % 2 == 0 ? magnitude(random) : -magnitude(random);
    const auto add = [&](auto number) {
      bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
    };
    if (dtype == KEEL_FLOAT64) {
      add(value);
    } else if (dtype == KEEL_FLOAT32) {
      add(static_cast<float>(value));
    } else {
      add(to_bfloat16(static_cast<float>(value)));
    }
  }
  return bytes;
}

std::string compare_rounded(uint32_t rank, keel_device device, keel_comm comm, keel_stream stream) {
  for (const keel_dtype dtype : {KEEL_FLOAT32, KEEL_FLOAT64, KEEL_BFLOAT16}) {
    for (const uint64_t count : {uint64_t{13}, uint64_t{4099}, kLargest}) {
      const std::string sent = inexact(dtype, count, rank + 1);
      const uint64_t bytes = sent.size();
      std::string own(bytes, '\0');
      std::string first(bytes, '\0');
      void* sums = nullptr;
      void* shown = nullptr;
      const bool is_done =
          keel_alloc(device, KEEL_MEMORY_DEVICE, bytes, &sums) == KEEL_OK &&
          keel_alloc(device, KEEL_MEMORY_DEVICE, bytes, &shown) == KEEL_OK &&
          keel_copy(stream, device, sums, KEEL_HOST, sent.data(), bytes) == KEEL_OK &&
          keel_all_reduce(comm, sums, sums, count, dtype, KEEL_SUM, stream) == KEEL_OK &&
          keel_broadcast(comm, sums, shown, count, dtype, /*root=*/0, stream) == KEEL_OK &&
          keel_copy(stream, KEEL_HOST, own.data(), device, sums, bytes) == KEEL_OK &&
          keel_copy(stream, KEEL_HOST, first.data(), device, shown, bytes) == KEEL_OK &&
          keel_stream_synchronize(stream, KEEL_TIMEOUT_DEFAULT) == KEEL_OK;
      std::string problem = is_done ? "" : keel_last_error();
      if (keel_free(device, sums) != KEEL_OK && problem.empty()) problem = keel_last_error();
      if (keel_free(device, shown) != KEEL_OK && problem.empty()) problem = keel_last_error();
      if (problem.empty() && own == sent) problem = "nothing was added";
      if (problem.empty() && own != first) problem = "other bits than rank 0";
      if (problem.empty()) continue;
      return fmt::format("rank {}, dtype {}, {} elements: {}", rank, static_cast<int>(dtype), count,
                         problem);
    }
  }
  return "";
}

}  // namespace keel::testing

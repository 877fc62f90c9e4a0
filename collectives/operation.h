// What one rank asks for, and what all ranks together move.
#ifndef KEEL_COLLECTIVES_OPERATION_H_
#define KEEL_COLLECTIVES_OPERATION_H_

#include <keel/keel.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"

namespace keel {

// One rank's call. |count| as keel.h counts it for the collective.
struct Request {
  keel_collective collective = KEEL_BARRIER;
  keel_dtype dtype = KEEL_UINT8;
  keel_reduction reduction = KEEL_SUM;
  uint32_t root = 0;
  uint64_t count = 0;
  const void* send = nullptr;
  void* receive = nullptr;

  // Whether the other rank's call can be part of the same operation.
  bool matches(const Request& other) const;
  // "all_reduce(1024 float32, sum)"
  std::string describe() const;
  // Bytes of the send and receive buffers of |rank|.
  uint64_t send_bytes(uint32_t rank, uint32_t world) const;
  uint64_t receive_bytes(uint32_t world) const;
};

const char* collective_name(keel_collective collective);
const char* reduction_name(keel_reduction reduction);

// A piece of some rank's send or receive buffer.
struct Place {
  uint32_t rank;
  uint64_t offset;  // bytes
};

// |bytes| from each of |sources|, reduced (or copied, if there is one), to all
// |destinations|. Every collective is a list of these, and an element is produced for
// one segment only, in one place: that is why all ranks hold the same bits.
struct Segment {
  uint64_t bytes = 0;
  std::vector<Place> sources;
  std::vector<Place> destinations;
};

std::vector<Segment> segments_of(const Request& request, uint32_t world);

// KEEL_OK when all |requests|, one a rank, match; else a failure that names the odd
// rank, or where there is none (two ranks, or several camps), what each one called.
Status check_requests(const std::vector<Request>& requests);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_OPERATION_H_

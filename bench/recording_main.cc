// keel_bench_recording: `recorded COUNT` does to COUNT operations what makes a mismatch and a hang
// explicable, and nothing else; `bare COUNT` runs the same loop without. For callgrind.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "collectives/flight/recorder.h"
#include "collectives/operation.h"
#include "collectives/transports/control_segment.h"

namespace {

using keel::ControlSegment;
using keel::FlightRecorder;

constexpr uint32_t kWorld = 2;

keel::Request some_request() {
  keel::Request request;
  request.collective = KEEL_ALL_REDUCE;
  request.dtype = KEEL_FLOAT32;
  request.reduction = KEEL_SUM;
  request.count = 1 << 18;
  return request;
}

std::unique_ptr<ControlSegment> make_segment() {
  keel::FileDescriptor file;
  std::unique_ptr<ControlSegment> segment;
  if (!ControlSegment::create(kWorld, /*crowded=*/false, &file).ok() ||
      !ControlSegment::map(file, &segment).ok()) {
    std::abort();
  }
  return segment;
}

// As Communicator::enqueue, Runner::write_post, Runner::compare and Communicator::complete do.
// False where the fingerprints differ, which they do not.
bool run(uint64_t count, bool recorded) {
  const auto recorder = FlightRecorder::create({"bench", 0, kWorld, "cpu:0"});
  const auto segment = make_segment();
  keel::Request request = some_request();
  request.print = request.fingerprint();
  for (uint64_t at = 0; at < ControlSegment::kPosts; ++at) {
    segment->post(1, at).fingerprint = request.print;
  }
  for (uint64_t sequence = 0; sequence < count; ++sequence) {
    keel::Post& own = segment->post(0, sequence);
    // Neither loop may be computed ahead, or left out.
    asm volatile("" : : "r"(&request), "r"(&own) : "memory");
    if (!recorded) continue;
    request.print = request.fingerprint();
    FlightRecorder::Entry* const entry = recorder->begin(sequence, request.print, request.count);
    own.fingerprint = request.print;
    FlightRecorder::start(entry);
    if (!(segment->post(1, sequence).fingerprint == request.print)) return false;
    FlightRecorder::finish(entry, KEEL_OK);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const bool recorded = argc == 3 && std::strcmp(argv[1], "recorded") == 0;
  if (!recorded && (argc != 3 || std::strcmp(argv[1], "bare") != 0)) {
    std::fprintf(stderr, "keel_bench_recording recorded|bare COUNT\n");
    return 2;
  }
  const uint64_t count = std::strtoull(argv[2], nullptr, 10);
  return run(count, recorded) ? 0 : 1;
}

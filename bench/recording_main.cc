// SPDX-License-Identifier: Apache-2.0
// keel_bench_recording: measures the recording that explains mismatches and hangs. `recorded COUNT`
// records COUNT operations and does nothing else; `bare COUNT` runs the same loop without
// recording; both are for callgrind. `all_reduce ROUNDS` times operations of 1 MiB between two
// ranks, alternately recorded once, as always, and recorded a second time by the caller: the first
// recording cannot be disabled, but the second one shows the cost. Prints one line per round:
// seconds of an operation, with one and with two recordings.
#include <keel/keel.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/harness.h"
#include "collectives/flight/recorder.h"
#include "collectives/operation.h"
#include "collectives/transports/control_segment.h"

namespace {

using keel::ControlSegment;
using keel::FlightRecorder;
using keel::OperationBoard;

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
  if (!ControlSegment::create(kWorld, /*oversubscribed=*/false, &file).ok() ||
      !ControlSegment::map(file, &segment).ok()) {
    std::abort();
  }
  return segment;
}

// Same steps as Communicator::enqueue, Runner::write_descriptor, Runner::compare and
// Communicator::complete. Returns false if the fingerprints differ, which does not happen.
[[gnu::always_inline]] inline bool record(FlightRecorder& recorder, OperationBoard& board,
                                          uint64_t sequence, keel::Request& request,
                                          keel::OperationDescriptor& own) {
  request.print = request.fingerprint();
  FlightRecorder::Entry* const entry = recorder.begin(sequence, request.print, request.count);
  own.fingerprint = request.print;
  FlightRecorder::start(entry);
  if (!(board.descriptor(1, sequence).fingerprint == request.print)) return false;
  FlightRecorder::finish(entry, KEEL_OK);
  return true;
}

// Writes rank 1's descriptors for all operations.
void publish_all(OperationBoard& board, const keel::Request& request) {
  for (uint64_t at = 0; at < OperationBoard::kDescriptors; ++at) {
    board.descriptor(1, at).fingerprint = request.fingerprint();
  }
}

// Contains only the loop: an operation too has its objects at hand.
[[gnu::noinline]] bool repeat(FlightRecorder& recorder, OperationBoard& board,
                              keel::Request& request, uint64_t count, bool recorded) {
  for (uint64_t sequence = 0; sequence < count; ++sequence) {
    keel::OperationDescriptor& own = board.descriptor(0, sequence);
    // Keeps the compiler from precomputing or removing either loop.
    asm volatile("" : : "r"(&request), "r"(&own) : "memory");
    if (!recorded) continue;
    if (!record(recorder, board, sequence, request, own)) return false;
  }
  return true;
}

bool run(uint64_t count, bool recorded) {
  const auto recorder = FlightRecorder::create({"bench", 0, kWorld, "cpu:0"});
  const auto segment = make_segment();
  keel::Request request = some_request();
  publish_all(segment->board(), request);
  return repeat(*recorder, segment->board(), request, count, recorded);
}

// ---- within an operation --------------------------------------------------------

void require(keel_status status) {
  if (status == KEEL_OK) return;
  std::fprintf(stderr, "keel_bench_recording: %s\n", keel_last_error());
  std::exit(1);
}

// One of two ranks that sum 1 MiB, with the objects for the second recording.
class Rank {
 public:
  Rank(uint32_t rank, keel_device device, keel_comm comm)
      : comm_(comm),
        recorder_(FlightRecorder::create({"bench", rank, kWorld, "cpu:0"})),
        segment_(make_segment()) {
    require(keel_stream_create(device, 0, &stream_));
    require(keel_alloc(device, KEEL_MEMORY_DEVICE, kBytes, &data_));
    const uint32_t zero = 0;
    require(keel_fill(stream_, data_, &zero, sizeof(zero), kBytes));
    require(keel_stream_synchronize(stream_, KEEL_TIMEOUT_DEFAULT));
    publish_all(segment_->board(), request_);
  }

  void reduce(uint64_t count, bool twice) {
    for (uint64_t i = 0; i < count; ++i) {
      if (twice) record_once_more();
      require(keel_all_reduce(comm_, data_, data_, request_.count, request_.dtype,
                              request_.reduction, stream_));
      require(keel_stream_synchronize(stream_, KEEL_TIMEOUT_DEFAULT));
    }
  }

 private:
  static constexpr uint64_t kBytes = 1 << 20;

  void record_once_more() {
    keel::OperationDescriptor& own = segment_->board().descriptor(0, sequence_);
    if (!record(*recorder_, segment_->board(), sequence_, request_, own)) std::abort();
    ++sequence_;
  }

  const keel_comm comm_;
  const std::unique_ptr<FlightRecorder> recorder_;
  const std::unique_ptr<ControlSegment> segment_;
  keel::Request request_ = some_request();
  uint64_t sequence_ = 0;
  keel_stream stream_ = {};
  void* data_ = nullptr;
};

void time_all_reduce(uint32_t rounds) {
  constexpr uint64_t kOperations = 200;
  setenv("KEEL_CPU_DEVICES", "2", 1);
  auto options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  options.backends = "cpu";
  // The library is linked into this program, so its plugins are not in their usual relative folder.
  const std::string plugins =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../lib/keel/plugins";
  if (std::getenv("KEEL_PLUGIN_PATH") == nullptr) options.plugin_folder = plugins.c_str();
  require(keel_init(&options));
  keel_device devices[kWorld] = {};
  keel_comm comms[kWorld] = {};
  for (uint32_t rank = 0; rank < kWorld; ++rank) require(keel_device_get(rank, &devices[rank]));
  require(keel_comm_init_all(devices, kWorld, nullptr, comms));
  Rank first(0, devices[0], comms[0]);
  Rank second(1, devices[1], comms[1]);
  const auto reduce = [&](bool twice) {
    std::thread other([&] { second.reduce(kOperations, twice); });
    first.reduce(kOperations, twice);
    other.join();
  };
  const keel::bench::Contender contenders[] = {
      {"once", 1, [&] { reduce(false); }},
      {"twice", 1, [&] { reduce(true); }},
  };
  keel::bench::RaceOptions race;
  race.rounds = rounds;
  const std::vector<keel::bench::Timings> timings = keel::bench::race(contenders, race);
  for (size_t round = 0; round < timings[0].seconds.size(); ++round) {
    std::printf("%.9g %.9g\n", timings[0].seconds[round] / kOperations,
                timings[1].seconds[round] / kOperations);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc == 3 ? argv[1] : "";
  const uint64_t count = argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 0;
  if (what == "recorded" || what == "bare") return run(count, what == "recorded") ? 0 : 1;
  if (what == "all_reduce") {
    time_all_reduce(static_cast<uint32_t>(count));
    return 0;
  }
  std::fprintf(stderr, "keel_bench_recording recorded|bare COUNT, all_reduce ROUNDS\n");
  return 2;
}

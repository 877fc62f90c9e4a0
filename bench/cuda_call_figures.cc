// SPDX-License-Identifier: Apache-2.0
// Keel's overhead over the CUDA driver's calls, with almost no work per call.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "bench/cuda_figures.h"

namespace keel::bench {

namespace {

// A kernel that returns at once; compiled by the driver.
constexpr char kPtx[] = R"(.version 6.4
.target sm_52
.address_size 64
.visible .entry empty(.param .u32 number)
{
  ret;
}
)";
// The emulated chip accepts this image as a cubin; GPUs reject it.
constexpr uint8_t kSharedObject[] = {
#include "empty.inc"
};

// Far fewer than a GPU's queue holds: with a full queue, calls wait for room.
constexpr uint64_t kBatch = 128;
constexpr uint64_t kCopyBytes = 4096;

// Returns the host's seconds for |repetitions| of |call|, which only enqueues. The wait for the
// device after each batch is not timed.
template <typename Call, typename Wait>
double host_seconds(uint64_t repetitions, Call&& call, Wait&& wait) {
  using Clock = std::chrono::steady_clock;
  Clock::duration spent{};
  for (uint64_t done = 0; done < repetitions;) {
    const uint64_t batch = std::min(kBatch, repetitions - done);
    const Clock::time_point start = Clock::now();
    for (uint64_t i = 0; i < batch; ++i) call();
    spent += Clock::now() - start;
    wait();
    done += batch;
  }
  return std::chrono::duration<double>(spent).count();
}

constexpr char kKeel[] = "Keel";
constexpr char kDriver[] = "the driver";

// |call| enqueues one operation through Keel; |raw_call| enqueues the same operation through the
// driver.
template <typename Call, typename RawCall>
void added_time(Figure& figure, const std::string& about, Setup& setup, const Stream& stream,
                Call call, RawCall raw_call) {
  const Contender contenders[] = {
      {kKeel, 1, /*run=*/nullptr,
       [&](uint64_t repetitions) {
         return host_seconds(repetitions, call, [&] { stream.synchronize(); });
       }},
      {kDriver, 1, /*run=*/nullptr,
       [&](uint64_t repetitions) {
         return host_seconds(repetitions, raw_call, [&] { setup.raw_cuda->wait(); });
       }},
  };
  figure.about = about + ", until the call returns, against the driver's function alone.";
  figure.timings = race(contenders, setup.race);
}

struct LoadedKernel {
  Module module;
  Kernel kernel;
};

// Loads the first image that the device accepts, through Keel and through the driver.
std::optional<LoadedKernel> load_kernel(Device device, RawCuda& raw) {
  const std::span<const std::byte> images[] = {std::as_bytes(std::span(kPtx)),
                                               std::as_bytes(std::span(kSharedObject))};
  for (const std::span<const std::byte> image : images) {
    if (!raw.load(image, "empty")) continue;
    Module module(device, KEEL_BINARY_CUBIN, image);
    const Kernel kernel = module.kernel("empty");
    return LoadedKernel{std::move(module), kernel};
  }
  return std::nullopt;
}

void take_launch(Figure& figure, Setup& setup) {
  RawCuda& raw = *setup.raw_cuda;
  const std::optional<LoadedKernel> loaded = load_kernel(*setup.cuda, raw);
  if (!loaded) {
    figure.leave_out("the device takes neither PTX nor code for the host");
    return;
  }
  const Stream stream(*setup.cuda);
  const uint32_t number = 0;
  const void* const arguments[] = {&number};
  const uint32_t sizes[] = {sizeof(number)};
  keel_launch launch = KEEL_STRUCT_INIT(keel_launch, KEEL_STRUCT_LAUNCH);
  std::ranges::fill(launch.grid, 1u);
  std::ranges::fill(launch.block, 1u);
  launch.argument_count = 1;
  launch.arguments = arguments;
  launch.argument_sizes = sizes;
  const keel_kernel kernel = loaded->kernel.get();
  added_time(
      figure, "launch of a kernel that does nothing", setup, stream,
      [&] { check(keel_kernel_launch(stream.get(), kernel, &launch)); }, [&] { raw.launch(); });
}

void take_copy(Figure& figure, Setup& setup) {
  RawCuda& raw = *setup.raw_cuda;
  Stream stream(*setup.cuda);
  const Buffer memory(*setup.cuda, KEEL_MEMORY_DEVICE, kCopyBytes);
  const Buffer host(*setup.cuda, KEEL_MEMORY_PINNED, kCopyBytes);
  added_time(
      figure, fmt::format("copy of {} bytes of pinned memory to the device", kCopyBytes), setup,
      stream, [&] { stream.copy(memory, host); },
      [&] { raw.upload(memory.data(), host.data(), kCopyBytes); });
}

void take_record(Figure& figure, Setup& setup) {
  const Stream stream(*setup.cuda);
  Event event;
  added_time(
      figure, "record of an event without a time", setup, stream, [&] { event.record(stream); },
      [&] { setup.raw_cuda->record(); });
}

CudaFigure make_figure(const char* name, void (*take)(Figure& figure, Setup& setup)) {
  Figure figure;
  figure.name = name;
  figure.unit = Unit::kNanoseconds;
  figure.measure = Measure::kDifference;
  figure.subject = kKeel;
  figure.peer = figure.limit = kDriver;
  figure.target = Target{100};
  return {{figure},
          [take](std::span<Figure> figures, Setup& setup) { take(figures.front(), setup); }};
}

}  // namespace

std::vector<Figure> cuda_calls(Setup& setup) {
  take_cuda_figures(setup, {make_figure("cuda_calls/launch", take_launch),
                            make_figure("cuda_calls/copy", take_copy),
                            make_figure("cuda_calls/record", take_record)});
  return {};
}

}  // namespace keel::bench

// SPDX-License-Identifier: Apache-2.0
#include "conformance/perf_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "conformance/harness.h"
#include "conformance/perf_meter.h"
#include "conformance/perf_workloads.h"

namespace keel::conformance {

namespace {

constexpr uint64_t kSmallest = 64 << 10;
constexpr uint64_t kLine = 64;
constexpr double kMicro = 1e-6;
constexpr double kGiga = 1e9;
constexpr int kFigures = 24;  // the run's seconds are divided among them

const std::string& no_case() {
  static const std::string& name = *new std::string("perf");
  return name;
}

void run_call(const Stream& stream, const OpCall& call) {
  must(keel_op_run(stream.get(), call.get()), "keel_op_run");
}

// Returns whether one of the device's own kernels computes the call.
bool is_native(keel_device device, const OpCall& call) {
  keel_op_plan plan = KEEL_STRUCT_INIT(keel_op_plan, KEEL_STRUCT_OP_PLAN);
  return keel_op_plan_get(device, call.get(), &plan) == KEEL_OK && plan.fallback == 0;
}

// Measures the figures in order; earlier figures are the roofs of later ones.
class Survey {
 public:
  Survey(const Environment& environment, const PerfSettings& settings)
      : environment_(environment),
        context_{environment, no_case()},
        wait_hint_(wait_hint(settings.has_event_wait)),
        meter_(settings.seconds / kFigures),
        bytes_(std::max(settings.bytes / kLine * kLine, kSmallest)),
        stream_(context_) {
    for (const NamedDevice& device : environment.foreign_devices) {
      keel_device_info info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
      if (!other_ && keel_device_info_get(device.handle, &info) == KEEL_OK &&
          info.type == KEEL_DEVICE_CPU) {
        other_ = device;
      }
    }
  }

  PerfFigures run() {
    host_ = measure_host_memory(bytes_);
    latencies();
    copies();
    operators();
    collectives();
    return std::move(result_);
  }

 private:
  // An empty |name| means that there is no roof.
  struct Roof {
    std::string name;
    double value = 0;
  };

  // Adds the latency |seconds|, with |hint| if it exceeds |limit| times the roof.
  void add_latency(const std::string& name, double seconds, const Roof& roof, double limit,
                   const std::string& hint) {
    PerfFigure figure{
        name, PerfUnit::kMicroseconds, seconds / kMicro, 0, roof.name, roof.value / kMicro, ""};
    if (figure.has_roof() && figure.ratio() > limit) figure.hint = hint;
    result_.figures.push_back(std::move(figure));
  }
  // Adds |rate| per second, with |hint| if it is below |limit| times the roof.
  void add_rate(const std::string& name, PerfUnit unit, double rate, uint64_t bytes,
                const Roof& roof, double limit, const char* hint) {
    PerfFigure figure{name, unit, rate / kGiga, bytes, roof.name, roof.value / kGiga, ""};
    if (figure.has_roof() && figure.ratio() < limit) figure.hint = hint;
    result_.figures.push_back(std::move(figure));
  }
  void leave_out(const std::string& name, std::string reason) {
    result_.left_out.push_back({name, std::move(reason)});
  }

  bool is_cpu() const { return environment_.target.backend == "cpu"; }
  // Measures the same on the CPU device, which shows Keel's own overhead. No roof for the CPU
  // itself.
  Roof on_cpu(const std::function<double(const Stream&)>& measure) const {
    if (is_cpu() || !other_) return {};
    const Stream stream(context_, other_->handle);
    return {"the same on " + other_->name, measure(stream)};
  }

  // ---- latencies ---------------------------------------------------------------------

  double enqueue_fill(const Stream& stream) const {
    const Buffer memory(stream.device(), KEEL_MEMORY_DEVICE, kLine);
    return meter_.time_enqueue([&] { stream.fill(memory.data(), 1, kLine); },
                               [&] { stream.synchronize(); });
  }
  double enqueue_operator(const Stream& stream) const {
    const Addition addition(stream, kLine);
    return meter_.time_enqueue([&] { run_call(stream, addition.call()); },
                               [&] { stream.synchronize(); });
  }
  // Throws CaseUnsupported if there is no binary in a format that the device takes.
  double enqueue_launch(const Stream& stream) const {
    Environment environment;
    environment.device = stream.device();
    const KernelLaunch launch({environment, no_case()}, stream);
    return meter_.time_enqueue([&] { launch.enqueue(stream); }, [&] { stream.synchronize(); });
  }
  Roof launch_on_cpu() const {
    try {
      return on_cpu([&](const Stream& s) { return enqueue_launch(s); });
    } catch (const CaseUnsupported&) {
      return {};  // the kernels are a vendor's, for its own device
    }
  }
  double fill_and_wait(const Stream& stream) const {
    const Buffer memory(stream.device(), KEEL_MEMORY_DEVICE, kLine);
    return meter_.time([&](uint64_t runs) {
      for (uint64_t i = 0; i < runs; ++i) {
        stream.fill(memory.data(), 1, kLine);
        stream.synchronize();
      }
    });
  }
  // Measures an empty stream, whose requests complete almost at once.
  double record_and_query(const Stream& stream) const {
    const Event event;
    return meter_.time([&](uint64_t runs) {
      for (uint64_t i = 0; i < runs; ++i) {
        event.record(stream);
        keel_status status = KEEL_NOT_READY;
        while (status == KEEL_NOT_READY) status = keel_event_query(event.get());
        must(status, "keel_event_query");
      }
    });
  }
  // Copies 64 bytes to the device, within the device, and back to the host.
  double round_trip_by_copies() {
    const Buffer there(context_.device(), KEEL_MEMORY_DEVICE, 2 * kLine);
    return meter_.time([&](uint64_t runs) {
      std::array<std::byte, kLine> line = {};
      std::array<std::byte, kLine> back = {};
      for (uint64_t i = 0; i < runs; ++i) {
        line[0] = static_cast<std::byte>(i + 1);
        stream_.upload(there.data(), line);
        stream_.copy(there.at(kLine), there.data(), kLine);
        stream_.download(back, there.at(kLine));
        stream_.synchronize();
        check(back == line, "a line of memory came back changed");
      }
    });
  }
  double round_trip_by_alias() {
    const Buffer there(context_.device(), KEEL_MEMORY_DEVICE, 2 * kLine);
    keel_memory_info info = KEEL_STRUCT_INIT(keel_memory_info, KEEL_STRUCT_MEMORY_INFO);
    must(keel_memory_find(context_.device(), there.data(), &info), "keel_memory_find");
    check(info.host_alias != nullptr, "HOST_ALIAS is claimed, but device memory has none");
    std::byte* const alias = static_cast<std::byte*>(info.host_alias) +
                             (there.data() - static_cast<std::byte*>(info.base));
    return meter_.time([&](uint64_t runs) {
      std::array<std::byte, kLine> line = {};
      for (uint64_t i = 0; i < runs; ++i) {
        line[0] = static_cast<std::byte>(i + 1);
        std::memcpy(alias, line.data(), kLine);
        stream_.copy(there.at(kLine), there.data(), kLine);
        stream_.synchronize();
        check(std::memcmp(alias + kLine, line.data(), kLine) == 0,
              "a line of memory came back changed through its alias");
      }
    });
  }

  void latencies() {
    constexpr double kFar = 10;
    constexpr const char* kEnqueue =
        "every enqueueing call pays this on its caller's thread: look for a lock that all streams "
        "share, one submission to the driver a call, and what is allocated in it";
    add_latency("latency/enqueue/fill", enqueue_fill(stream_),
                on_cpu([&](const Stream& s) { return enqueue_fill(s); }), kFar, kEnqueue);
    if (is_native(context_.device(), Addition(stream_, kLine).call())) {
      add_latency("latency/enqueue/operator", enqueue_operator(stream_),
                  on_cpu([&](const Stream& s) { return enqueue_operator(s); }), kFar, kEnqueue);
    } else {
      leave_out("latency/enqueue/operator", "the device does not compute add in float32");
    }
    if (!context_.has(KEEL_CAPABILITY_KERNELS)) {
      leave_out("latency/enqueue/launch", "KERNELS is not claimed");
    } else {
      try {
        add_latency("latency/enqueue/launch", enqueue_launch(stream_), launch_on_cpu(), kFar,
                    kEnqueue);
      } catch (const CaseUnsupported& missing) {
        leave_out("latency/enqueue/launch", missing.what());
      }
    }
    stream_.synchronize();
    add_latency("latency/fill_and_wait", fill_and_wait(stream_),
                on_cpu([&](const Stream& s) { return fill_and_wait(s); }), kFar, wait_hint_);
    add_latency(
        "latency/event_record_query", record_and_query(stream_),
        on_cpu([&](const Stream& s) { return record_and_query(s); }), kFar,
        "answer event_query from memory that the device writes rather than by a call of the "
        "driver, and keep events for their next recording");
    copies_round_trip_ = round_trip_by_copies();
    add_latency("latency/round_trip/copies", copies_round_trip_, {}, 0, "");
    if (!context_.has(KEEL_CAPABILITY_HOST_ALIAS)) {
      leave_out("latency/round_trip/alias", "HOST_ALIAS is not claimed");
    } else {
      add_latency("latency/round_trip/alias", round_trip_by_alias(),
                  {"latency/round_trip/copies", copies_round_trip_}, 1.5,
                  "memory behind host_alias has to be as fast for the host as its own: cached, not "
                  "write-combined; do not claim HOST_ALIAS otherwise");
    }
  }

  // ---- copies ------------------------------------------------------------------------

  // Returns the bytes per second of |enqueue|(bytes), and the number of bytes.
  std::pair<double, uint64_t> rate_of(const std::function<void(uint64_t)>& enqueue) const {
    const uint64_t bytes = meter_.largest_that_fits(kSmallest, bytes_, 4, [&](uint64_t size) {
      enqueue(size);
      stream_.synchronize();
    });
    const double seconds = meter_.time([&](uint64_t runs) {
      for (uint64_t i = 0; i < runs; ++i) enqueue(bytes);
      stream_.synchronize();
    });
    return {static_cast<double>(bytes) / seconds, bytes};
  }

  Roof host_roof() const {
    return {fmt::format("memcpy by {} thread{}", host_.threads, host_.threads == 1 ? "" : "s"),
            host_.bytes_per_second};
  }

  // Measures both directions between |there| and |host|.
  void copies_of(const std::string& kind, const Buffer& there, std::span<std::byte> host,
                 const char* hint) {
    const auto [in, in_bytes] =
        rate_of([&](uint64_t bytes) { stream_.upload(there.data(), host.first(bytes)); });
    add_rate("copy/host_to_device/" + kind, PerfUnit::kGigabytes, in, in_bytes, host_roof(), 0.4,
             hint);
    const auto [out, out_bytes] =
        rate_of([&](uint64_t bytes) { stream_.download(host.first(bytes), there.data()); });
    add_rate("copy/device_to_host/" + kind, PerfUnit::kGigabytes, out, out_bytes, host_roof(), 0.4,
             hint);
    link_rate_ = std::max(link_rate_, std::min(in, out));
  }

  void copies() {
    const Buffer there(context_.device(), KEEL_MEMORY_DEVICE, bytes_);
    const Buffer beside(context_.device(), KEEL_MEMORY_DEVICE, bytes_);
    stream_.fill(beside.data(), 0, bytes_);
    constexpr const char* kOnHost =
        "a copy on the host's cores wants several threads, and stores past the caches from about "
        "half of the last one's size";
    const bool on_host = computes_on_host(environment_);
    {
      std::vector<std::byte> pageable(bytes_, std::byte{1});
      copies_of("pageable", there, pageable,
                on_host ? kOnHost
                        : "pageable memory is copied twice: overlap the two in pieces of about "
                          "1 MiB, or let the device read the pages itself");
    }
    if (context_.has(KEEL_CAPABILITY_PINNED)) {
      const Buffer pinned(context_.device(), KEEL_MEMORY_PINNED, bytes_);
      std::memset(pinned.data(), 1, bytes_);
      copies_of("pinned", there, pinned.host(),
                on_host ? kOnHost
                        : "the wires may be slower than the host's memory; where they are not: is "
                          "the memory locked by the SDK, on the chip's NUMA node, and moved by a "
                          "copy engine?");
    } else {
      leave_out("copy/host_to_device/pinned", "PINNED is not claimed");
      leave_out("copy/device_to_host/pinned", "PINNED is not claimed");
    }
    const Roof memory = on_host ? host_roof() : Roof{};
    const auto [moved, moved_bytes] =
        rate_of([&](uint64_t bytes) { stream_.copy(there.data(), beside.data(), bytes); });
    add_rate("copy/within_device", PerfUnit::kGigabytes, moved, moved_bytes, memory, 0.5, kOnHost);
    // A copy reads and writes each byte.
    traffic_ = {"twice copy/within_device", 2 * moved};
    const auto [filled, filled_bytes] =
        rate_of([&](uint64_t bytes) { stream_.fill(there.data(), 7, bytes); });
    add_rate("fill", PerfUnit::kGigabytes, filled, filled_bytes, traffic_, 0.3,
             "a fill only writes: use the chip's own fill for patterns of all four sizes and claim "
             "FILL, or vector stores");
  }

  // ---- operators ---------------------------------------------------------------------

  void operators() {
    if (!is_native(context_.device(), Addition(stream_, kLine).call())) {
      leave_out("operator/add/float32", "the device does not compute it");
    } else {
      const uint64_t largest = std::max(bytes_ / 3 / kLine * kLine, kSmallest);
      const uint64_t bytes = meter_.largest_that_fits(kSmallest, largest, 4, [&](uint64_t size) {
        const Addition addition(stream_, size);
        run_call(stream_, addition.call());
        stream_.synchronize();
      });
      const Addition addition(stream_, bytes);
      const double seconds = time_call(stream_, addition.call());
      // The operator reads two tensors and writes one.
      add_rate(
          "operator/add/float32", PerfUnit::kGigabytes, 3 * static_cast<double>(bytes) / seconds,
          3 * bytes, traffic_, 0.5,
          "an elementwise operator is as fast as memory: load and store 16 bytes a thread, and "
          "start enough of them");
    }
    if (!is_native(context_.device(), Product(stream_, 64).call())) {
      leave_out("operator/matmul/float32", "the device does not compute it");
      return;
    }
    const auto largest = static_cast<uint64_t>(std::sqrt(static_cast<double>(bytes_) / 4 / 3));
    const auto extent = static_cast<int64_t>(meter_.largest_that_fits(
        64, std::clamp<uint64_t>(largest, 64, 4096), 64, [&](uint64_t size) {
          const Product product(stream_, static_cast<int64_t>(size));
          run_call(stream_, product.call());
          stream_.synchronize();
        }));
    const double operations = 2.0 * static_cast<double>(extent * extent * extent);
    const auto rate = [&](const Stream& stream) {
      const Product product(stream, extent);
      return operations / time_call(stream, product.call());
    };
    add_rate("operator/matmul/float32", PerfUnit::kGigaflops, rate(stream_),
             static_cast<uint64_t>(3 * extent * extent) * sizeof(float), on_cpu(rate), 1,
             "slower than this machine's CPU: tiles in the chip's own memory, several products a "
             "thread, or the vendor's library");
  }

  double time_call(const Stream& stream, const OpCall& call) const {
    return meter_.time([&](uint64_t runs) {
      for (uint64_t i = 0; i < runs; ++i) run_call(stream, call);
      stream.synchronize();
    });
  }

  // ---- collectives -------------------------------------------------------------------

  void collectives() {
    constexpr uint64_t kLatencyBytes = 1024;
    const uint64_t large = std::min<uint64_t>(bytes_, 16 << 20);
    if (!other_) {
      leave_out("all_reduce", "there is no CPU device beside this one");
      return;
    }
    const auto time = [&](uint64_t bytes) {
      const TwoRanks ranks(context_, *other_, bytes);
      return meter_.time([&](uint64_t runs) {
        for (uint64_t i = 0; i < runs; ++i) {
          ranks.all_reduce();
          ranks.synchronize();
        }
      });
    };
    add_latency("all_reduce/1KiB", time(kLatencyBytes),
                {"latency/round_trip/copies", copies_round_trip_}, 3,
                "without HOST_ALIAS each rank's data is staged by copies and waits: claim it where "
                "the host reaches the memory, or shorten latency/fill_and_wait");
    add_rate(fmt::format("all_reduce/{}MiB", large >> 20), PerfUnit::kGigabytes,
             static_cast<double>(large) / time(large), large,
             {"the slower direction of the copies", link_rate_}, 0.3,
             "claim HOST_REGISTER, so that windows are copied without a bounce, and let copies in "
             "both directions go on at once");
  }

  const Environment& environment_;
  const Context context_;
  const std::string wait_hint_;
  const PerfMeter meter_;
  const uint64_t bytes_;
  const Stream stream_;
  std::optional<NamedDevice> other_;
  HostMemoryRoof host_;
  double copies_round_trip_ = 0;
  double link_rate_ = 0;
  Roof traffic_;
  PerfFigures result_;
};

}  // namespace

const char* unit_text(PerfUnit unit) {
  switch (unit) {
    case PerfUnit::kMicroseconds:
      return "us";
    case PerfUnit::kGigabytes:
      return "GB/s";
    case PerfUnit::kGigaflops:
      break;
  }
  return "GFLOP/s";
}

std::string wait_hint(std::optional<bool> has_event_wait) {
  constexpr const char* kSubmit = "submit at once when the stream is idle";
  if (has_event_wait.value_or(false)) {
    return fmt::format(
        "the way from the host to the device and back: core waits by the plugin's "
        "event_wait, so that the rest is the SDK's own wait and submission; {}",
        kSubmit);
  }
  return fmt::format(
      "the way from the host to the device and back: event_wait{} spares core's "
      "pauses of up to 50 us between two queries; {}",
      has_event_wait.has_value() ? ", which the plugin lacks," : "", kSubmit);
}

PerfFigures measure_figures(const Environment& environment, const PerfSettings& settings) {
  return Survey(environment, settings).run();
}

}  // namespace keel::conformance

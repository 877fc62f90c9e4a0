// SPDX-License-Identifier: Apache-2.0
// Keel's overhead on the CPU: over oneDNN called directly, and over a bare hand-off between two
// threads.
#include <fmt/format.h>

#include <memory>
#include <random>
#include <vector>

#include "bench/cpu_roof.h"
#include "bench/figures.h"
#include "bench/onednn_peer.h"
#include "bench/worker.h"

namespace keel::bench {

namespace {

std::vector<float> random_values(int64_t count) {
  std::mt19937 random(/*seed=*/1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = uniform(random);
  return values;
}

// Keel enqueues, and oneDNN runs, |per_wait| products per wait: a training step waits once in
// hundreds of operators, and core_stream_handoff measures the cost of a wait.
Figure cpu_matmul_of(int64_t size, int per_wait, const Setup& setup) {
  const Device device = *setup.cpu;
  const uint32_t cores = device.info().compute_units;
  const std::vector<float> a = random_values(size * size);
  const std::vector<float> b = random_values(size * size);
  std::vector<float> c(a.size());

  Stream stream(device);
  const Buffer device_a = Buffer::of<float>(device, a.size());
  const Buffer device_b = Buffer::of<float>(device, b.size());
  const Buffer device_c = Buffer::of<float>(device, c.size());
  stream.upload(device_a, a);
  stream.upload(device_b, b);
  const OpCall matmul(
      KEEL_OP_MATMUL,
      {device_a.tensor<float>({size, size}), device_b.tensor<float>({size, size}), nullptr},
      {device_c.tensor<float>({size, size})}, {0, 0, 1.0, 0.0, 0});
  CpuRoof roof(cores);

  const double operations = 2.0 * static_cast<double>(size * size * size) * per_wait;
  const Contender contenders[] = {
      {"Keel", operations,
       [&] {
         for (int i = 0; i < per_wait; ++i) matmul.run(stream);
         stream.synchronize();
       }},
      {"oneDNN", operations,
       [&] {
         for (int i = 0; i < per_wait; ++i) {
           OnednnPeer::multiply({size, size, size}, a.data(), b.data(), c.data(), cores);
         }
       }},
      {"multiply-adds in registers", roof.operations(), [&] { roof.run(); }},
  };
  Figure figure;
  figure.name = fmt::format("cpu_matmul/{}", size);
  figure.about = fmt::format(
      "float32 product of two {0} x {0} matrices through keel_op_run, one "
      "keel_stream_synchronize for {1}, against dnnl_sgemm on as many threads ({2}).",
      size, per_wait, cores);
  figure.unit = Unit::kGigaflops;
  figure.timings = race(contenders, setup.race);
  figure.subject = "Keel";
  figure.peer = "oneDNN";
  figure.limit = "multiply-adds in registers";
  figure.target = Target{0.97};
  return figure;
}

}  // namespace

std::vector<Figure> cpu_matmul(Setup& setup) {
  if (!setup.cpu) return {Figure::skip("cpu_matmul", setup.no_cpu)};
  if (!OnednnPeer::is_here()) return {Figure::skip("cpu_matmul", OnednnPeer::describe())};
  std::vector<Figure> figures;
  for (const int64_t size : {256, 512, 1024, 2048}) {
    // About half a GFLOP, 2 ms, per wait.
    const auto per_wait =
        static_cast<int>(std::max<int64_t>(1, (256 << 20) / (size * size * size)));
    figures.push_back(cpu_matmul_of(size, per_wait, setup));
  }
  // Overhead of a wait after each of the smallest products.
  figures.push_back(cpu_matmul_of(256, /*per_wait=*/1, setup));
  figures.back().name += "/wait_each";
  figures.back().target = {};
  return figures;
}

std::vector<Figure> core_stream_handoff(Setup& setup) {
  Figure figure;
  figure.name = "core_stream_handoff";
  if (!setup.cpu) return {Figure::skip(figure.name, setup.no_cpu)};
  constexpr uint64_t kBytes = 64;
  Stream stream(*setup.cpu);
  const Buffer buffer(*setup.cpu, KEEL_MEMORY_DEVICE, kBytes);
  Worker worker;
  const std::function<void()> nothing = [] {};
  const Contender contenders[] = {
      {"Keel", 1,
       [&] {
         stream.fill<float>(buffer, 1.0f);
         stream.synchronize();
       }},
      {"two threads, one condition variable", 1,
       [&] {
         worker.start(nothing);
         worker.wait();
       }},
  };
  figure.about =
      "a fill of 64 bytes on an idle CPU stream and the wait for it, against handing an empty "
      "function to a sleeping thread and waiting for it.";
  figure.unit = Unit::kMicroseconds;
  figure.timings = race(contenders, setup.race);
  figure.subject = "Keel";
  figure.peer = "two threads, one condition variable";
  figure.limit = figure.peer;
  figure.target = Target{1.3};
  return {figure};
}

}  // namespace keel::bench

// SPDX-License-Identifier: Apache-2.0
// Keel's overhead on a Vulkan device over a program that calls Vulkan directly, and its rate
// compared with the device's peak arithmetic.
#include <vector>

#include "bench/figures.h"

namespace keel::bench {

namespace {

std::string missing(const Setup& setup) {
  return !setup.vulkan ? setup.no_vulkan : setup.raw_vulkan == nullptr ? setup.no_raw_vulkan : "";
}

}  // namespace

std::vector<Figure> vulkan_dispatch(Setup& setup) {
  Figure figure;
  figure.name = "vulkan_dispatch";
  if (const std::string why = missing(setup); !why.empty()) return {Figure::skip(figure.name, why)};
  constexpr int64_t kElements = 64;
  const Stream stream(*setup.vulkan);
  const Buffer x = Buffer::of<float>(*setup.vulkan, kElements);
  const Buffer y = Buffer::of<float>(*setup.vulkan, kElements);
  const OpCall scale(KEEL_OP_SCALE, {x.tensor<float>({kElements})}, {y.tensor<float>({kElements})},
                     {0.5});
  RawVulkan& raw = *setup.raw_vulkan;
  const Contender contenders[] = {
      {"Keel", 1,
       [&] {
         scale.run(stream);
         stream.synchronize();
       }},
      {"raw Vulkan", 1, [&] { raw.record_dispatch_and_wait(); }},
      {"raw Vulkan, recorded once", 1, [&] { raw.submit_dispatch_and_wait(); }},
      {"empty submission", 1, [&] { raw.submit_nothing_and_wait(); }},
  };
  figure.about =
      "one operator on 64 floats and the wait for it, through keel_op_run, against the same in "
      "plain Vulkan: record, submit, wait for a timeline semaphore, each time anew.";
  figure.unit = Unit::kMicroseconds;
  figure.timings = race(contenders, setup.race);
  figure.subject = "Keel";
  figure.peer = "raw Vulkan";
  figure.limit = "empty submission";
  figure.target = Target{1.15};
  return {figure};
}

std::vector<Figure> vulkan_matmul(Setup& setup) {
  Figure figure;
  figure.name = "vulkan_matmul/1024";
  if (const std::string why = missing(setup); !why.empty()) return {Figure::skip(figure.name, why)};
  constexpr int64_t kSize = 1024;
  Stream stream(*setup.vulkan);
  const std::vector<float> ones(kSize * kSize, 1.0f);
  const Buffer a = Buffer::of<float>(*setup.vulkan, kSize * kSize);
  const Buffer b = Buffer::of<float>(*setup.vulkan, kSize * kSize);
  const Buffer c = Buffer::of<float>(*setup.vulkan, kSize * kSize);
  stream.upload(a, ones);
  stream.upload(b, ones);
  const OpCall matmul(KEEL_OP_MATMUL,
                      {a.tensor<float>({kSize, kSize}), b.tensor<float>({kSize, kSize}), nullptr},
                      {c.tensor<float>({kSize, kSize})}, {0, 0, 1.0, 0.0, 0});
  RawVulkan& raw = *setup.raw_vulkan;
  const Contender contenders[] = {
      {"Keel", 2.0 * kSize * kSize * kSize,
       [&] {
         matmul.run(stream);
         stream.synchronize();
       }},
      {"multiply-adds in registers", raw.multiply_add_operations(),
       [&] { raw.multiply_add_and_wait(); }},
  };
  figure.about =
      "float32 product of two 1024 x 1024 matrices on the Vulkan device, against a shader that "
      "only multiplies and adds in registers, on all cores.";
  figure.unit = Unit::kGigaflops;
  figure.timings = race(contenders, setup.race);
  figure.subject = "Keel";
  figure.peer = "multiply-adds in registers";
  figure.limit = figure.peer;
  figure.target = Target{0.5};
  return {figure};
}

}  // namespace keel::bench

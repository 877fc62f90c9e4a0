// SPDX-License-Identifier: Apache-2.0
// What recording costs: the calls of operator new.
#include <gtest/gtest.h>

#include <cstdlib>
#include <keel/parallel/timeline.hpp>
#include <keel/parallel/traffic.hpp>
#include <new>

namespace {

// On threads that count.
thread_local bool t_counts = false;
thread_local uint64_t t_allocations = 0;

}  // namespace

void* operator new(size_t size) {
  if (t_counts) ++t_allocations;
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
// std::stable_sort's; without it the address sanitizer's would meet the delete below.
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  if (t_counts) ++t_allocations;
  return std::malloc(size == 0 ? 1 : size);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace keel::parallel {
namespace {

template <typename Call>
uint64_t allocations(const Call& call) {
  t_allocations = 0;
  t_counts = true;
  call();
  t_counts = false;
  return t_allocations;
}

TEST(RecorderAllocationsTest, OnlyTheFirstStepAllocates) {
  setenv("KEEL_CPU_DEVICES", "3", /*overwrite=*/1);
  keel_init_options options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  options.backends = "cpu";
  const Runtime runtime(options);
  Stream stream(Device::find("cpu:0"));
  StepRecorder recorder;
  constexpr int kSpans = 200;
  uint64_t first = 0, later = 0;
  for (int step = 0; step < 4; ++step) {
    recorder.start(stream);
    const uint64_t count = allocations([&] {
      for (int i = 0; i < kSpans; ++i) {
        recorder.end(recorder.begin(stream, SpanKind::kForward), stream);
      }
    });
    (step == 0 ? first : later) += count;
    EXPECT_EQ(recorder.finish().size(), static_cast<size_t>(kSpans));
  }
  EXPECT_GT(first, 0U) << "nothing counts";
  EXPECT_EQ(later, 0U);
}

}  // namespace
}  // namespace keel::parallel

// SPDX-License-Identifier: Apache-2.0
// Computes c = a + b on every device of this machine and checks the result on the host. Uses the
// C++ interface: objects own their resources, and failures are exceptions.
#include <cstdio>
#include <exception>
#include <keel/keel.hpp>
#include <vector>

namespace {

constexpr int64_t kCount = 1 << 20;

// Returns the number of elements that differ from |expected|.
int64_t add_on(keel::Device device, const std::vector<float>& a, const std::vector<float>& b,
               const std::vector<float>& expected) {
  keel::Stream stream(device);
  const auto device_a = keel::Buffer::of<float>(device, kCount);
  const auto device_b = keel::Buffer::of<float>(device, kCount);
  const auto device_c = keel::Buffer::of<float>(device, kCount);
  std::vector<float> c(kCount);

  // Enqueued in order; no call blocks until synchronize.
  stream.upload(device_a, a);
  stream.upload(device_b, b);
  keel::ops::add(stream, {.a = device_a.tensor<float>({kCount}),
                          .b = device_b.tensor<float>({kCount}),
                          .c = device_c.tensor<float>({kCount})});
  stream.download(c, device_c);
  stream.synchronize();

  int64_t wrong = 0;
  for (int64_t i = 0; i < kCount; ++i) wrong += c[i] == expected[i] ? 0 : 1;
  return wrong;
}

int run() {
  keel::Runtime runtime;
  std::vector<float> a(kCount);
  std::vector<float> b(kCount);
  std::vector<float> expected(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    a[i] = static_cast<float>(i) * 0.25f;
    b[i] = 1.0f / static_cast<float>(i + 1);
    expected[i] = a[i] + b[i];  // rounded once, like the operator
  }

  const std::vector<keel::Device> devices = keel::Device::all();
  bool failed = devices.empty();
  for (keel::Device device : devices) {
    const int64_t wrong = add_on(device, a, b, expected);
    std::printf("%-12s %lld elements added, %lld wrong\n", device.name().c_str(),
                static_cast<long long>(kCount), static_cast<long long>(wrong));
    failed |= wrong != 0;
  }
  return failed ? 1 : 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "vector_add: %s\n", error.what());
    return 1;
  }
}

// SPDX-License-Identifier: Apache-2.0
// Computes y = a x + y with a user's kernel on every device that can run one. The launch is the
// same for each device; only the binary format differs. |argv[1]|: the folder with the binaries
// saxpy.so and saxpy.spv.
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <keel/keel.hpp>
#include <optional>
#include <string>
#include <vector>

namespace {

constexpr uint32_t kCount = 1'000'003;  // not a multiple of the block
constexpr uint32_t kBlock = 256;

struct Binary {
  keel_binary_format format;
  const char* file;
  const char* kernel;  // in GLSL always main
};
constexpr Binary kBinaries[] = {{KEEL_BINARY_SPIRV, "saxpy.spv", "main"},
                                {KEEL_BINARY_SHARED_OBJECT, "saxpy.so", "saxpy"}};

std::vector<char> read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Loaded {
  const Binary& binary;
  keel::Module module;
};

// Returns the first existing binary that |device| accepts.
std::optional<Loaded> load(keel::Device device, const std::string& folder) {
  for (const Binary& binary : kBinaries) {
    const std::vector<char> bytes = read(folder + "/" + binary.file);
    if (bytes.empty()) continue;
    try {
      return Loaded{binary, keel::Module(device, binary.format, std::as_bytes(std::span(bytes)))};
    } catch (const keel::Error& error) {
      if (error.status() != KEEL_UNSUPPORTED) throw;
    }
  }
  return std::nullopt;
}

// Returns the number of wrong elements.
uint32_t run_on(keel::Device device, const Loaded& loaded) {
  std::vector<float> x(kCount);
  std::vector<float> y(kCount);
  for (uint32_t i = 0; i < kCount; ++i) {
    x[i] = static_cast<float>(i % 1000);
    y[i] = static_cast<float>(i % 7);
  }
  std::vector<float> result(kCount);

  keel::Stream stream(device);
  const auto device_x = keel::Buffer::of<float>(device, kCount);
  const auto device_y = keel::Buffer::of<float>(device, kCount);
  stream.upload(device_x, x);
  stream.upload(device_y, y);
  loaded.module.kernel(loaded.binary.kernel)
      .launch(stream, {(kCount + kBlock - 1) / kBlock}, {kBlock}, device_x.data(), device_y.data(),
              2.0F, kCount);
  stream.download(result, device_y);
  stream.synchronize();

  uint32_t wrong = 0;
  for (uint32_t i = 0; i < kCount; ++i) wrong += result[i] == 2.0F * x[i] + y[i] ? 0 : 1;
  return wrong;
}

int run(const std::string& folder) {
  keel::Runtime runtime;
  bool failed = false;
  bool ran = false;
  for (keel::Device device : keel::Device::all()) {
    const std::string name = device.name();
    const bool claims = (device.info().capabilities & KEEL_CAPABILITY_KERNELS) != 0;
    const std::optional<Loaded> loaded = claims ? load(device, folder) : std::nullopt;
    if (!loaded) {
      std::printf("%-12s %s\n", name.c_str(),
                  claims ? "takes neither binary" : "runs no kernels of the caller");
      continue;
    }
    const uint32_t wrong = run_on(device, *loaded);
    std::printf("%-12s %s: %u elements, %u wrong\n", name.c_str(), loaded->binary.file, kCount,
                wrong);
    ran = true;
    failed |= wrong != 0;
  }
  return failed || !ran ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: user_kernels FOLDER\n");
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "user_kernels: %s\n", error.what());
    return 1;
  }
}

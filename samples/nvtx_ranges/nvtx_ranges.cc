// SPDX-License-Identifier: Apache-2.0
// Shows Keel's calls as NVTX ranges in Nvidia's tools: a profiler of keel_profiler_set opens a
// range before each enqueueing call and closes it afterwards. A short computation on two ranks
// makes the calls.
//
//   nvtx_ranges [BACKEND [KERNEL]]                    default: cpu, no user kernel
//   nsys profile --trace=nvtx,cuda nvtx_ranges cuda
//
// KERNEL: saxpy.so of samples/user_kernels, for devices that run shared objects. Without a tool
// that injects its library, a range costs one empty call.
#include <nvtx3/nvToolsExt.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <keel/keel.hpp>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

// During the object's lifetime each enqueueing call is a range with the call's name, and each
// change of the memory allocated on |devices| is a mark with the bytes as its payload.
class NvtxRanges {
 public:
  explicit NvtxRanges(const std::vector<keel::Device>& devices) {
    // Otherwise the first call would load the tool.
    nvtxInitialize(nullptr);
    // Device names are fetched here because the callbacks must not call Keel.
    for (keel::Device device : devices) texts_[device.get().id] = device.name() + " allocated";
    keel_profiler profiler = KEEL_STRUCT_INIT(keel_profiler, KEEL_STRUCT_PROFILER);
    profiler.user = this;
    profiler.begin = begin;
    profiler.end = end;
    profiler.memory = memory;
    keel::check(keel_profiler_set(&profiler));
  }
  NvtxRanges(const NvtxRanges&) = delete;
  NvtxRanges& operator=(const NvtxRanges&) = delete;
  ~NvtxRanges() { (void)keel_profiler_set(nullptr); }

 private:
  // Called from several threads at once, which NVTX allows.
  static uint64_t begin(void*, const char* name, keel_device, keel_stream) {
    return nvtxRangeStartA(name);
  }
  static void end(void*, uint64_t token, keel_status) { nvtxRangeEnd(token); }
  static void memory(void* user, keel_device device, uint64_t allocated_bytes) {
    const auto& texts = static_cast<const NvtxRanges*>(user)->texts_;
    const auto found = texts.find(device.id);
    if (found == texts.end()) return;
    nvtxEventAttributes_t mark = {};
    mark.version = NVTX_VERSION;
    mark.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    mark.messageType = NVTX_MESSAGE_TYPE_ASCII;
    mark.message.ascii = found->second.c_str();
    mark.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    mark.payload.ullValue = allocated_bytes;
    nvtxMarkEx(&mark);
  }

  std::map<uint64_t, std::string> texts_;  // of marks, by device
};

constexpr int64_t kCount = 1 << 16;
constexpr uint32_t kBlock = 256;

// Computes the sum over the ranks of x + y, plus 2 x if there is a kernel.
class Rank {
 public:
  Rank(keel::Device device, keel::Communicator communicator, const std::vector<char>& kernel)
      : communicator_(std::move(communicator)),
        stream_(device),
        x_(keel::Buffer::of<float>(device, kCount)),
        y_(keel::Buffer::of<float>(device, kCount)),
        sum_(keel::Buffer::of<float>(device, kCount)),
        host_(kCount) {
    if (kernel.empty()) return;
    modules_.emplace_back(device, KEEL_BINARY_SHARED_OBJECT, std::as_bytes(std::span(kernel)));
  }

  // Enqueues all work; does not block.
  void enqueue() {
    for (int64_t i = 0; i < kCount; ++i) host_[i] = static_cast<float>(i);
    stream_.upload(x_, host_);
    stream_.fill(y_, 1.0f);
    for (const keel::Module& module : modules_) {
      module.kernel("saxpy").launch(stream_, {kCount / kBlock}, {kBlock}, x_.data(), y_.data(),
                                    2.0f, static_cast<uint32_t>(kCount));
    }
    keel::ops::add(stream_, {.a = x_.tensor<float>({kCount}),
                             .b = y_.tensor<float>({kCount}),
                             .c = sum_.tensor<float>({kCount})});
    communicator_.all_reduce(sum_.data(), sum_.data(), kCount, KEEL_FLOAT32, KEEL_SUM, stream_);
    stream_.download(host_, sum_);
  }

  // Blocks until all work is done. Returns the number of wrong elements.
  int64_t wait() {
    stream_.synchronize();
    const auto ranks = static_cast<float>(communicator_.world());
    const float factor = modules_.empty() ? 1 : 3;
    int64_t wrong = 0;
    for (int64_t i = 0; i < kCount; ++i) {
      wrong += host_[i] == ranks * (factor * static_cast<float>(i) + 1) ? 0 : 1;
    }
    return wrong;
  }

 private:
  keel::Communicator communicator_;
  keel::Stream stream_;
  keel::Buffer x_;
  keel::Buffer y_;
  keel::Buffer sum_;
  std::vector<keel::Module> modules_;  // one or none
  std::vector<float> host_;
};

int run(const std::string& backend, const std::string& kernel_file) {
  keel::Runtime runtime;
  const std::vector<keel::Device> devices(2, keel::Device::find(backend));
  const NvtxRanges ranges(devices);

  std::ifstream file(kernel_file, std::ios::binary);
  const std::vector<char> kernel(std::istreambuf_iterator<char>(file), {});
  if (!kernel_file.empty() && kernel.empty()) throw std::runtime_error("no file " + kernel_file);
  std::vector<keel::Communicator> communicators = keel::Communicator::all(devices);
  std::vector<Rank> ranks;
  for (size_t i = 0; i < devices.size(); ++i) {
    ranks.emplace_back(devices[i], std::move(communicators[i]), kernel);
  }
  for (Rank& rank : ranks) rank.enqueue();
  int64_t wrong = 0;
  for (Rank& rank : ranks) wrong += rank.wait();
  std::printf("2 ranks on %s: %lld elements each, %lld wrong\n", devices[0].name().c_str(),
              static_cast<long long>(kCount), static_cast<long long>(wrong));
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 3) {
    std::fprintf(stderr, "usage: nvtx_ranges [BACKEND [KERNEL]]\n");
    return 2;
  }
  try {
    return run(argc > 1 ? argv[1] : "cpu", argc > 2 ? argv[2] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nvtx_ranges: %s\n", error.what());
    return 1;
  }
}

// SPDX-License-Identifier: Apache-2.0
// Level kernels: loading, launching in stream order and unloading the caller's binaries.
#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <keel/thread_start.hpp>
#include <mutex>
#include <thread>

#include "conformance/harness.h"
#include "conformance/kernel_calls.h"

namespace keel::conformance {

namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kRedBytes = 4096;

// ---- cases -----------------------------------------------------------------------------

// The device must accept some format, and refuse random bytes of that format as invalid.
void formats(const Context& context) {
  const std::vector<std::byte> rubbish = random_bytes(context, 0, 4096);
  int taken = 0;
  for (keel_binary_format format = KEEL_BINARY_SPIRV; format <= KEEL_BINARY_VENDOR; ++format) {
    keel_module module = {};
    const keel_status status = observe_status(
        keel_module_load(context.device(), format, rubbish.data(), rubbish.size(), &module));
    if (status == KEEL_UNSUPPORTED) continue;
    if (status == KEEL_OK) keel_module_unload(module);
    must_be(KEEL_INVALID_ARGUMENT, status, fmt::format("rubbish as format {}", format));
    ++taken;
  }
  if (taken == 0) {
    fail_case("KERNELS is claimed, but no format is taken: " + observe_text(keel_last_error()));
  }
}

// A size of |file| that ends inside its last loadable segment, whose beginning is there; 0 if
// |file| is no ELF file of 64 bits and this host's byte order, or has no such segment.
uint64_t size_in_segment(std::span<const std::byte> file) {
  Elf64_Ehdr header;
  if (file.size() < sizeof(header)) return 0;
  std::memcpy(&header, file.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phoff > file.size() ||
      header.e_phnum > (file.size() - header.e_phoff) / sizeof(Elf64_Phdr)) {
    return 0;
  }
  uint64_t size = 0;
  for (uint32_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, file.data() + header.e_phoff + i * sizeof(segment), sizeof(segment));
    if (segment.p_type != PT_LOAD || segment.p_filesz < 2) continue;
    size = std::max<uint64_t>(size, segment.p_offset + segment.p_filesz / 2);
  }
  return size < file.size() ? size : 0;
}

// A truncated module must be refused, and the complete one load afterwards.
void damaged(const Context& context) {
  const KernelSet& set = choose_set(context);
  const std::span<const std::byte> whole = set.number.module;
  for (const uint64_t size :
       {uint64_t{1}, uint64_t{4}, uint64_t{20}, whole.size() / 4, size_in_segment(whole)}) {
    if (size == 0) continue;
    keel_module module = {};
    const keel_status status =
        keel_module_load(context.device(), set.format, whole.data(), size, &module);
    if (status == KEEL_OK) keel_module_unload(module);
    must_be(KEEL_INVALID_ARGUMENT, status, fmt::format("the first {} bytes of a module", size));
  }
  const Module module(context, set, set.number);
}

void missing(const Context& context) {
  const KernelSet& set = choose_set(context);
  const Module module(context, set, set.number);
  for (const char* name : {"there_is_no_such_kernel", "", "mai", "main_", "printf"}) {
    keel_kernel kernel = {};
    must_be(KEEL_NOT_FOUND, keel_kernel_find(module.get(), name, &kernel),
            fmt::format("keel_kernel_find of '{}'", name));
  }
}

// Small whole numbers: each product and sum is exact, fused or not.
void axpy(const Context& context, uint32_t count) {
  const KernelSet& set = choose_set(context);
  const Module module(context, set, set.axpy);
  const Stream stream(context);
  const uint64_t bytes = uint64_t{count} * sizeof(float);
  const Buffer x(context.device(), KEEL_MEMORY_DEVICE, bytes);
  const Buffer y(context.device(), KEEL_MEMORY_DEVICE, bytes + 2 * kRedBytes);
  std::vector<float> x_values(count);
  std::vector<float> y_values(count);
  std::vector<float> sums(count);
  for (uint32_t i = 0; i < count; ++i) {
    x_values[i] = static_cast<float>(i * 7 % 1001);
    y_values[i] = static_cast<float>(i * 3 % 997);
    sums[i] = 5.0F * x_values[i] + y_values[i];
  }
  std::vector<std::byte> wanted(y.size(), kRedZone);
  std::memcpy(wanted.data() + kRedBytes, y_values.data(), bytes);
  stream.upload(x.data(), std::as_bytes(std::span(x_values)));
  stream.upload(y.data(), wanted);
  must(launch(stream, module.kernel(), {{(count + 63) / 64, 1, 1}, {64, 1, 1}},
              static_cast<void*>(x.data()), static_cast<void*>(y.at(kRedBytes)), 5.0F, count),
       "keel_kernel_launch");
  std::vector<std::byte> received(y.size());
  stream.download(received, y.data());
  stream.synchronize();
  std::memcpy(wanted.data() + kRedBytes, sums.data(), bytes);
  check_equal(received, wanted, "a x + y, with 4 KiB before and behind it");
}

void grid(const Context& context, const Extents& extents) {
  const KernelSet& set = choose_set(context);
  const Module module(context, set, set.number);
  const Stream stream(context);
  const uint64_t words = extents.threads();
  const Buffer result(context.device(), KEEL_MEMORY_DEVICE, words * 4 + kRedBytes);
  std::vector<std::byte> wanted(result.size(), kRedZone);
  std::vector<std::byte> received(result.size());
  stream.upload(result.data(), wanted);
  stream.fill(result.data(), 0, words * 4);
  must(launch(stream, module.kernel(), extents, static_cast<void*>(result.data()), 9U),
       "keel_kernel_launch");
  stream.download(received, result.data());
  stream.synchronize();
  const std::vector<std::byte> numbered = numbers(words, 9);
  std::copy(numbered.begin(), numbered.end(), wanted.begin());
  check_equal(received, wanted, "each thread's number, with 4 KiB behind");
}

// A launch behind slow fills must read the last of them, and later work must read the launch's
// result. Launches are over the end of the memory, which a fill reaches last: a chip that
// interprets kernels takes 2 us a thread, and all of the memory took it longer than a case's
// deadline.
void order(const Context& context) {
  constexpr uint64_t kBytes = 16 * kMiB;
  constexpr uint64_t kLaunched = 2 * kMiB;
  const KernelSet& set = choose_set(context);
  const Module module(context, set, set.number);
  const Stream stream(context);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, kBytes);
  const Buffer copy(context.device(), KEEL_MEMORY_DEVICE, kLaunched);
  std::byte* const end = device.at(kBytes - kLaunched);
  std::vector<std::byte> received(kLaunched);
  keep_busy(stream, device, 1000, /*rounds=*/8);
  must(launch_number(stream, module, end, kLaunched / 4, 1), "keel_kernel_launch");
  must(launch_number(stream, module, end, kLaunched / 4, 1), "keel_kernel_launch");
  stream.copy(copy.data(), end, kLaunched);
  stream.fill(end, 0xbadbadba, kLaunched);
  stream.download(received, copy.data());
  stream.synchronize();
  std::vector<uint32_t> wanted(kLaunched / 4);
  for (uint32_t i = 0; i < wanted.size(); ++i) wanted[i] = 1000 + 2 * (i + 1);
  check_equal(received, bytes_of(wanted.data(), kLaunched),
              "two launches between fills and a copy");
}

// A launch on another stream, behind an event, must read the data written before the event.
void order_by_event(const Context& context) {
  constexpr uint64_t kBytes = 16 * kMiB;
  const KernelSet& set = choose_set(context);
  const Module module(context, set, set.number);
  const Stream writer(context);
  const Stream reader(context);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, kBytes);
  std::vector<std::byte> received(kBytes);
  const Event written;
  const Event numbered;
  keep_busy(writer, device, 0, /*rounds=*/8);
  written.record(writer);
  must(keel_stream_wait_event(reader.get(), written.get()), "keel_stream_wait_event");
  must(launch_number(reader, module, device.data(), kBytes / 4, 5), "keel_kernel_launch");
  numbered.record(reader);
  must(keel_stream_wait_event(writer.get(), numbered.get()), "keel_stream_wait_event");
  writer.download(received, device.data());
  writer.synchronize();
  check_equal(received, numbers(kBytes / 4, 5), "a launch between two events");
}

// The caller destroys the arguments when launch() returns, long before a busy stream runs the
// kernel.
void arguments_are_copied(const Context& context) {
  constexpr uint64_t kBytes = 16 * kMiB;
  constexpr uint64_t kWords = 1024;
  constexpr uint32_t kLaunches = 100;
  const KernelSet& set = choose_set(context);
  const Module module(context, set, set.number);
  const Stream stream(context);
  const Buffer busy(context.device(), KEEL_MEMORY_DEVICE, kBytes);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, kLaunches * kWords * 4);
  std::vector<std::byte> received(device.size());
  stream.fill(device.data(), 0, device.size());
  keep_busy(stream, busy, 1, /*rounds=*/8);
  for (uint32_t i = 0; i < kLaunches; ++i) {
    must(launch_number(stream, module, device.at(i * kWords * 4), kWords, i * 1'000'000),
         "keel_kernel_launch");
  }
  stream.download(received, device.data());
  stream.synchronize();
  for (uint32_t i = 0; i < kLaunches; ++i) {
    check_equal(std::span(received).subspan(i * kWords * 4, kWords * 4),
                numbers(kWords, i * 1'000'000), fmt::format("launch {} of {}", i, kLaunches));
  }
}

void behind_gate(const Context& context) {
  constexpr uint64_t kWords = 4096;
  const KernelSet& set = choose_set(context);
  Module module(context, set, set.number);
  const Stream stream(context);
  const Stream witness(context);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, kWords * 4);
  std::vector<std::byte> received(kWords * 4);
  stream.fill(device.data(), 0, kWords * 4);
  stream.synchronize();
  const Gate gate;
  must(keel_stream_wait_gate(stream.get(), gate.get()), "keel_stream_wait_gate");
  must(launch_number(stream, module, device.data(), kWords, 3), "keel_kernel_launch");
  must(module.unload(), "keel_module_unload with a launch held");
  witness.download(received, device.data());
  witness.synchronize();
  check_filled(received, 0, "what a launch behind a closed gate would change");
  gate.open();
  stream.download(received, device.data());
  stream.synchronize();
  check_equal(received, numbers(kWords, 3), "a launch whose module was unloaded while it was held");
}

void unload_in_flight(const Context& context) {
  constexpr uint64_t kBytes = 16 * kMiB;
  const KernelSet& set = choose_set(context);
  const Stream stream(context);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, kBytes);
  std::vector<std::byte> received(kBytes);
  for (uint32_t round = 0; round < 4; ++round) {
    Module module(context, set, set.number);
    keep_busy(stream, device, 0, /*rounds=*/4);
    must(launch_number(stream, module, device.data(), kBytes / 4, round), "keel_kernel_launch");
    must(module.unload(), "keel_module_unload with a launch in flight");
    const Module next(context, set, set.number);  // may reuse the memory of the unloaded module
    stream.download(received, device.data());
    stream.synchronize();
    check_equal(received, numbers(kBytes / 4, round), "a launch whose module was unloaded");
  }
}

// If a module declares its arguments, or their number alone, a mismatch must be refused without
// harm.
void wrong_arguments(const Context& context) {
  const KernelSet& set = choose_set(context);
  if (!set.knows_argument_count()) {
    unsupported(fmt::format("{} does not say what arguments its kernels take", set.format_name));
  }
  const Module module(context, set, set.number);
  const Stream stream(context);
  const Buffer device(context.device(), KEEL_MEMORY_DEVICE, 256);
  const Extents one = {{1, 1, 1}, {64, 1, 1}};
  void* const result = device.data();
  must_be(KEEL_INVALID_ARGUMENT, launch(stream, module.kernel(), one, result),
          "a launch with one argument of two");
  must_be(KEEL_INVALID_ARGUMENT, launch(stream, module.kernel(), one, result, 1U, 2U),
          "a launch with three arguments of two");
  if (set.knows_arguments) {
    must_be(KEEL_INVALID_ARGUMENT, launch(stream, module.kernel(), one, result, uint64_t{1}),
            "a launch with an argument of 8 bytes for one of 4");
  }
  std::vector<std::byte> received(256);
  stream.fill(device.data(), 0, 256);
  must(launch(stream, module.kernel(), one, result, 1U), "the right launch after the wrong ones");
  stream.download(received, device.data());
  stream.synchronize();
  check_equal(received, numbers(64, 1), "the right launch after the wrong ones");
}

// Each thread uses its own module and stream, and all launch from one shared module.
void threads(const Context& context) {
  constexpr uint64_t kWords = 2048;
  const KernelSet& set = choose_set(context);
  const Module shared(context, set, set.number);
  constexpr uint32_t kThreads = 4;
  constexpr uint32_t kRounds = 20;
  constexpr uint32_t kModules = 2;
  std::vector<std::vector<std::byte>> received(size_t{kThreads} * kRounds * kModules);
  for (std::vector<std::byte>& each : received) each.resize(kWords * 4);
  run_threads(kThreads, [&](uint32_t index) {
    const Stream stream(context);
    const Buffer device(context.device(), KEEL_MEMORY_DEVICE, kWords * 4);
    for (uint32_t round = 0; round < kRounds; ++round) {
      const Module own(context, set, set.number);
      const Module* const modules[kModules] = {&shared, &own};
      for (uint32_t i = 0; i < kModules; ++i) {
        stream.fill(device.data(), 0, kWords * 4);
        must(launch_number(stream, *modules[i], device.data(), kWords, index * 1000 + round),
             "keel_kernel_launch");
        stream.download(received[(index * kRounds + round) * kModules + i], device.data());
        stream.synchronize();
      }
    }
  });
  for (uint32_t i = 0; i < received.size(); ++i) {
    const uint32_t index = i / kModules / kRounds;
    const uint32_t round = i / kModules % kRounds;
    check_equal(received[i], numbers(kWords, index * 1000 + round),
                fmt::format("thread {}, round {}", index, round));
  }
}

}  // namespace

void add_kernels_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](std::string id, auto body) {
    cases->push_back({"kernels/" + std::move(id), KEEL_CAPABILITY_KERNELS, false, std::move(body)});
  };
  add("load/formats", formats);
  add("load/damaged", damaged);
  add("find/missing", missing);
  for (const uint32_t count : {1U, 63U, 64U, 1000U, 65537U, 1U << 20}) {
    add(fmt::format("axpy/{}", count), [count](const Context& c) { axpy(c, count); });
  }
  const Extents all[] = {
      {{1, 1, 1}, {1, 1, 1}},  {{3, 1, 1}, {64, 1, 1}}, {{5, 3, 2}, {4, 2, 2}},
      {{1, 77, 1}, {8, 1, 1}}, {{1, 1, 9}, {1, 1, 16}}, {{4096, 1, 1}, {32, 1, 1}},
  };
  for (const Extents& extents : all) {
    add(fmt::format("grid/{}_of_{}", fmt::join(extents.grid, "x"), fmt::join(extents.block, "x")),
        [extents](const Context& c) { grid(c, extents); });
  }
  add("order/copies", order);
  add("order/by_event", order_by_event);
  add("arguments/copied", arguments_are_copied);
  add("arguments/wrong", wrong_arguments);
  add("unload/behind_gate", behind_gate);
  add("unload/in_flight", unload_in_flight);
  add("threads", threads);
}

}  // namespace keel::conformance

// SPDX-License-Identifier: Apache-2.0
// Level kernels, cases on the plugin's own kernel table: calls that core does not pass on, and
// behaviour that core's own work hides.
#include <elf.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>

#include "conformance/kernel_calls.h"
#include "conformance/process_counts.h"
#include "conformance/table_objects.h"

namespace keel::conformance {

namespace {

using Bytes = std::vector<std::byte>;

const keel_kernel_table& table_of(const Context& context) {
  const keel_kernel_table* const table = device_of(context).plugin().kernel;
  check(observe(KEEL_HAS(keel_kernel_table, table, load) &&
                KEEL_HAS(keel_kernel_table, table, unload) &&
                KEEL_HAS(keel_kernel_table, table, find) &&
                KEEL_HAS(keel_kernel_table, table, launch)),
        "KERNELS is claimed without the slots load, unload, find and launch");
  return *table;
}

keel_status load(const Context& context, keel_binary_format format,
                 std::span<const std::byte> module, keel_plugin_module** out_module) {
  return table_of(context).load(device_of(context).get(), format, module.data(), module.size(),
                                out_module);
}

// Like choose_set(), which finds the flavour of the format that the device accepts.
const KernelSet& table_set(const Context& context) {
  for (const KernelSet& set : kernel_sets()) {
    keel_plugin_module* module = nullptr;
    const keel_status status =
        observe_status(load(context, set.format, set.number.module, &module));
    if (status != KEEL_OK) continue;
    table_of(context).unload(module);
    return set;
  }
  unsupported(
      "there is no binary in a format that the device takes; --kernels names a folder with "
      "some");
}

// A module with one of its kernels. Settle the stream of its launches before destruction.
class TableModule {
 public:
  TableModule(const Context& context, const KernelSet& set, std::span<const std::byte> module,
              const std::string& name, Where where = Where::current())
      : context_(context) {
    need(load(context, set.format, module, &module_), "kernel.load", where);
    check(observe(module_ != nullptr, where), "kernel.load gives no module", where);
    kernel_ = find(name, where);
  }
  TableModule(const Context& context, const KernelSet& set, const KernelBinary& binary,
              Where where = Where::current())
      : TableModule(context, set, binary.module, binary.name, where) {}
  ~TableModule() { unload(); }
  TableModule(const TableModule&) = delete;
  TableModule& operator=(const TableModule&) = delete;

  keel_plugin_module* get() const { return module_; }
  keel_plugin_kernel* kernel() const { return kernel_; }
  keel_plugin_kernel* find(const std::string& name, Where where = Where::current()) const {
    keel_plugin_kernel* kernel = nullptr;
    need(table_of(context_).find(module_, name.c_str(), &kernel), "kernel.find of " + name, where);
    check(observe(kernel != nullptr, where), "kernel.find gives no kernel", where);
    return kernel;
  }
  void unload() {
    if (module_ != nullptr) device_of(context_).plugin().kernel->unload(module_);
    module_ = nullptr;
  }

 private:
  const Context& context_;
  keel_plugin_module* module_ = nullptr;
  keel_plugin_kernel* kernel_ = nullptr;
};

// Launches with a struct that has more members than today's abi.h, filled with ones. The plugin
// must not read the struct or the arguments after the call returns.
keel_status launch_on(const Context& context, const TableStream& stream, keel_plugin_kernel* kernel,
                      uint32_t blocks, uint32_t threads, const std::vector<Bytes>& values) {
  struct Longer {
    keel_launch known;
    std::array<std::byte, 64> more;
  };
  auto call = std::make_unique<Longer>();
  std::fill(call->more.begin(), call->more.end(), std::byte{0xff});
  call->known = {};
  call->known.header = {sizeof(Longer), KEEL_STRUCT_LAUNCH, nullptr};
  std::vector<Bytes> copies = values;
  std::vector<const void*> pointers;
  std::vector<uint32_t> sizes;
  for (const Bytes& each : copies) {
    pointers.push_back(each.data());
    sizes.push_back(static_cast<uint32_t>(each.size()));
  }
  const uint32_t grid[3] = {blocks, 1, 1};
  const uint32_t block[3] = {threads, 1, 1};
  std::copy_n(grid, 3, call->known.grid);
  std::copy_n(block, 3, call->known.block);
  call->known.argument_count = static_cast<uint32_t>(values.size());
  call->known.arguments = pointers.data();
  call->known.argument_sizes = sizes.data();
  const keel_status status =
      device_of(context).plugin().kernel->launch(stream.get(), kernel, &call->known);
  for (Bytes& each : copies) std::fill(each.begin(), each.end(), kRedZone);
  std::fill(sizes.begin(), sizes.end(), 0);
  std::fill(pointers.begin(), pointers.end(), nullptr);
  call->known = {};
  return status;
}

template <typename Value>
Bytes as_bytes_of(Value value) {
  return bytes_of(&value, sizeof(value));
}

// result[i] += i + |first| over |words| words, a multiple of 128; with twin, result[i] = 3
// result[i] + |first|.
void launch_words(const Context& context, const TableStream& stream, keel_plugin_kernel* kernel,
                  std::byte* result, uint32_t words, uint32_t first,
                  Where where = Where::current()) {
  need(launch_on(context, stream, kernel, words / 128, 128,
                 {as_bytes_of(result), as_bytes_of(first)}),
       "kernel.launch", where);
}

// Zeroes device memory.
void clear(const TableStream& stream, const TableBuffer& memory, Where where = Where::current()) {
  const Bytes zeroes(memory.size());
  stream.copy(KEEL_COPY_HOST_TO_DEVICE, memory.at(0), zeroes.data(), zeroes.size(), where);
}

void check_words(const TableStream& stream, const TableBuffer& memory,
                 std::span<const std::byte> wanted, const std::string& what,
                 Where where = Where::current()) {
  Bytes got(wanted.size());
  stream.copy(KEEL_COPY_DEVICE_TO_HOST, got.data(), memory.at(0), got.size(), where);
  check_equal(got, wanted, what, where);
}

// Launches number once and checks the result.
void expect_numbers(const Context& context, const TableStream& stream, keel_plugin_kernel* kernel,
                    const std::string& what, Where where = Where::current()) {
  const TableBuffer memory(context, 1024 * 4);
  clear(stream, memory, where);
  launch_words(context, stream, kernel, memory.at(0), 1024, 5, where);
  need(stream.settle(where), what, where);
  check_words(stream, memory, numbers(1024, 5), what, where);
}

// ---- load ---------------------------------------------------------------------------------------

// A refused load must leave its out-parameter unchanged.
void refused_loads(const Context& context) {
  const KernelSet& set = table_set(context);
  const std::span<const std::byte> whole = set.number.module;
  auto* const untouched = reinterpret_cast<keel_plugin_module*>(uintptr_t{0x1230});
  const auto attempt = [&](keel_binary_format format, std::span<const std::byte> bytes,
                           bool is_rubbish, const std::string& what) {
    keel_plugin_module* module = untouched;
    const keel_status status = observe_status(load(context, format, bytes, &module));
    if (status == KEEL_OK && !is_rubbish) return table_of(context).unload(module);
    check(status != KEEL_OK, what + " is taken");
    check(observe(module == untouched), what + " is refused, and *out_module written");
    check(status == KEEL_UNSUPPORTED ? format != set.format : status == KEEL_INVALID_ARGUMENT,
          fmt::format("{}: {} instead of KEEL_INVALID_ARGUMENT", what, keel_status_name(status)));
  };
  const Bytes rubbish = random_bytes(context, 0, 4096);
  for (keel_binary_format format = KEEL_BINARY_SPIRV; format <= KEEL_BINARY_VENDOR; ++format) {
    attempt(format, rubbish, true, fmt::format("rubbish as format {}", format));
  }
  for (const uint64_t size : {uint64_t{1}, uint64_t{3}, uint64_t{4}, uint64_t{16}, uint64_t{20},
                              uint64_t{63}, whole.size() / 8, whole.size() / 4}) {
    attempt(set.format, whole.first(size), true,
            fmt::format("the first {} bytes of a module", size));
  }
  // A longer prefix may be complete enough for a driver that reads only the required parts.
  for (const uint64_t size : {whole.size() / 2, whole.size() * 3 / 4}) {
    attempt(set.format, whole.first(size), false,
            fmt::format("the first {} bytes of a module", size));
  }
  Bytes other(whole.begin(), whole.end());
  for (size_t i = 0; i < 4; ++i) other[i] = ~other[i];
  attempt(set.format, other, true, "a module whose first four bytes are inverted");
  attempt(set.format, Bytes(64, std::byte{0}), true, "64 zeroes");
  const TableStream stream(context);
  const TableModule module(context, set, set.number);
  expect_numbers(context, stream, module.kernel(), "a launch after modules that were refused");
}

// Sizes at which |file| ends inside its table of section headers: none if |file| is no ELF file of
// 64 bits, or has none.
std::vector<uint64_t> sizes_in_sections(std::span<const std::byte> file) {
  Elf64_Ehdr header;
  if (file.size() < sizeof(header)) return {};
  std::memcpy(&header, file.data(), sizeof(header));
  const uint64_t bytes = uint64_t{header.e_shnum} * sizeof(Elf64_Shdr);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      bytes == 0 || header.e_shoff > file.size() || bytes > file.size() - header.e_shoff) {
    return {};
  }
  return {header.e_shoff + 1, header.e_shoff + bytes / 2, header.e_shoff + bytes - 1};
}

// The plugin may read |data| only during the call, at any address, and not behind its end.
void borrowed_data(const Context& context) {
  const KernelSet& set = table_set(context);
  const std::span<const std::byte> whole = set.number.module;
  const TableStream stream(context);
  for (const size_t offset : {size_t{0}, size_t{1}, size_t{2}, size_t{5}}) {
    Bytes memory(whole.size() + offset);
    std::copy(whole.begin(), whole.end(), memory.begin() + static_cast<std::ptrdiff_t>(offset));
    keel_plugin_module* loaded = nullptr;
    need(load(context, set.format, std::span(memory).subspan(offset), &loaded),
         fmt::format("kernel.load of a module at an address of {} more than a multiple of 8",
                     offset));
    std::fill(memory.begin(), memory.end(), kRedZone);
    keel_plugin_kernel* kernel = nullptr;
    need(table_of(context).find(loaded, set.number.name.c_str(), &kernel),
         "kernel.find once the binary is overwritten");
    expect_numbers(context, stream, kernel, "a launch once the binary is overwritten");
    table_of(context).unload(loaded);
  }
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t room = (whole.size() + page - 1) / page * page;
  void* const mapped = mmap(nullptr, room + page, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, /*offset=*/0);
  if (mapped == MAP_FAILED) unsupported("the machine has no memory to map");
  auto* const end = static_cast<std::byte*>(mapped) + room;
  mprotect(end, page, PROT_NONE);
  for (const uint64_t size : sizes_in_sections(whole)) {
    std::memcpy(end - size, whole.data(), size);
    keel_plugin_module* cut = nullptr;
    const keel_status status = observe_status(load(context, set.format, {end - size, size}, &cut));
    // A loader that needs no sections may load it.
    if (status == KEEL_OK) {
      table_of(context).unload(cut);
    } else if (status != KEEL_INVALID_ARGUMENT) {
      fail_case(fmt::format("kernel.load of the first {} bytes of a module: {}", size,
                            keel_status_name(status)));
    }
  }
  std::memcpy(end - whole.size(), whole.data(), whole.size());
  keel_plugin_module* loaded = nullptr;
  const keel_status status = load(context, set.format, {end - whole.size(), whole.size()}, &loaded);
  munmap(mapped, room + page);
  need(status, "kernel.load of a module with no memory behind it");
  keel_plugin_kernel* kernel = nullptr;
  need(table_of(context).find(loaded, set.number.name.c_str(), &kernel), "kernel.find");
  expect_numbers(context, stream, kernel, "a launch once the binary is unmapped");
  table_of(context).unload(loaded);
}

// ---- find ---------------------------------------------------------------------------------------

// Functions of the process, and of libraries that the module links, are no kernels of the module.
void found_kernels(const Context& context) {
  const KernelSet& set = table_set(context);
  const TableModule module(context, set, set.number);
  auto* const untouched = reinterpret_cast<keel_plugin_kernel*>(uintptr_t{0x1230});
  for (const std::string& name :
       {std::string("there_is_no_such_kernel"), std::string(), set.number.name.substr(0, 3),
        set.number.name + "_", std::string("malloc"), std::string("qsort")}) {
    keel_plugin_kernel* kernel = untouched;
    need_be(KEEL_NOT_FOUND, table_of(context).find(module.get(), name.c_str(), &kernel),
            fmt::format("kernel.find of '{}'", name));
    check(observe(kernel == untouched), "kernel.find finds nothing, and writes *out_kernel");
  }
  // The plugin may read the name only during the call.
  std::string name = set.number.name;
  keel_plugin_kernel* const kernel = module.find(name);
  std::fill(name.begin(), name.end(), 'x');
  keel_plugin_kernel* const again = module.find(set.number.name);
  const TableStream stream(context);
  expect_numbers(context, stream, kernel, "a kernel whose name was overwritten");
  expect_numbers(context, stream, again, "a kernel that was found twice");
  expect_numbers(context, stream, module.kernel(), "a kernel that was found three times");
}

// ---- launch ------------------------------------------------------------------------------------

// Launches between copies, without waits of the host.
void in_its_place(const Context& context) {
  constexpr uint32_t kWords = 64 * 1024;
  constexpr uint32_t kRounds = 6;
  const KernelSet& set = table_set(context);
  const TableModule number(context, set, set.number);
  const TableModule twin(context, set, set.twin);
  const TableStream stream(context);
  const keel_stream_table& streams = *device_of(context).plugin().stream;
  const TableBuffer memory(context, kWords * 4);
  const TableBuffer copies(context, uint64_t{kRounds} * kWords * 4);
  clear(stream, memory);
  std::vector<uint32_t> words(kWords, 0);
  Bytes wanted;
  for (uint32_t round = 0; round < kRounds; ++round) {
    launch_words(context, stream, number.kernel(), memory.at(0), kWords, round);
    launch_words(context, stream, twin.kernel(), memory.at(0), 128 << (round % 4), 100 + round);
    need(streams.copy(stream.get(), KEEL_COPY_DEVICE_TO_DEVICE,
                      copies.at(uint64_t{round} * kWords * 4), memory.at(0), kWords * 4),
         "stream.copy");
    for (uint32_t i = 0; i < kWords; ++i) words[i] += i + round;
    for (uint32_t i = 0; i < 128U << (round % 4); ++i) words[i] = 3 * words[i] + 100 + round;
    const Bytes own = bytes_of(words.data(), kWords * 4);
    wanted.insert(wanted.end(), own.begin(), own.end());
  }
  need(stream.settle(), "launches and copies by turns");
  check_words(stream, copies, wanted, "what copies between launches saw");
}

// An event recorded behind a launch must not complete before it.
void event_behind(const Context& context) {
  constexpr uint32_t kWords = 2 << 20;
  const KernelSet& set = table_set(context);
  const TableModule number(context, set, set.number);
  const TableStream stream(context);
  const TableStream reader(context);
  const TableBuffer memory(context, uint64_t{kWords} * 4);
  clear(stream, memory);
  const TableEvent event(context);
  for (uint32_t i = 0; i < 4; ++i) {
    launch_words(context, stream, number.kernel(), memory.at(0), kWords, i);
  }
  event.record(stream);
  need(event.poll(), "an event behind launches");
  Bytes got(4096);
  reader.copy(KEEL_COPY_DEVICE_TO_HOST, got.data(), memory.at(uint64_t{kWords} * 4 - 4096), 4096);
  std::vector<uint32_t> wanted(1024);
  for (uint32_t i = 0; i < 1024; ++i) wanted[i] = 4 * (kWords - 1024 + i) + 6;
  check_equal(got, std::as_bytes(std::span(wanted)), "the last words once an event says done");
}

// A module is unloaded as soon as its work is done, before its stream and its memory are destroyed.
void unloaded_once_done(const Context& context) {
  const KernelSet& set = table_set(context);
  const TableStream stream(context);
  const TableBuffer memory(context, 4096 * 4);
  std::vector<uint32_t> words(4096, 0);
  clear(stream, memory);
  for (uint32_t round = 0; round < 8; ++round) {
    TableModule number(context, set, set.number);
    TableModule twin(context, set, set.twin);
    launch_words(context, stream, number.kernel(), memory.at(0), 4096, round);
    launch_words(context, stream, twin.kernel(), memory.at(0), 4096, round);
    need(stream.settle(), "launches");
    (round % 2 == 0 ? number : twin).unload();
    for (uint32_t i = 0; i < 4096; ++i) words[i] = 3 * (words[i] + i + round) + round;
  }
  check_words(stream, memory, bytes_of(words.data(), 4096 * 4),
              "launches of modules that were unloaded once they were done");
}

// Threads launch one kernel at once, each on its own stream with its own arguments.
void several_threads(const Context& context) {
  constexpr uint32_t kThreads = 4;
  constexpr uint32_t kRounds = 24;
  const KernelSet& set = table_set(context);
  const TableModule module(context, set, set.number);
  std::deque<TableStream> streams;
  std::deque<TableBuffer> memory;
  std::vector<keel_status> statuses(kThreads, KEEL_OK);
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    streams.emplace_back(context);
    memory.emplace_back(context, kRounds * 1024 * 4);
    clear(streams.back(), memory.back());
  }
  run_threads(kThreads, [&](uint32_t thread) {
    for (uint32_t round = 0; round < kRounds; ++round) {
      const keel_status status = launch_on(
          context, streams[thread], module.kernel(), 8, 128,
          {as_bytes_of(memory[thread].at(round * 1024 * 4)), as_bytes_of(thread * 100 + round)});
      if (status != KEEL_OK) statuses[thread] = status;
    }
  });
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    need(statuses[thread], fmt::format("kernel.launch on thread {}", thread));
    need(streams[thread].settle(), "launches");
    Bytes wanted;
    for (uint32_t round = 0; round < kRounds; ++round) {
      const Bytes own = numbers(1024, thread * 100 + round);
      wanted.insert(wanted.end(), own.begin(), own.end());
    }
    check_words(streams[thread], memory[thread], wanted, fmt::format("thread {}", thread));
  }
}

// Threads load, launch and unload concurrently.
void loads_of_threads(const Context& context) {
  constexpr uint32_t kThreads = 3;
  const KernelSet& set = table_set(context);
  const keel_kernel_table& table = table_of(context);
  std::vector<keel_status> statuses(kThreads, KEEL_OK);
  std::deque<TableStream> streams;
  std::deque<TableBuffer> memory;
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    streams.emplace_back(context);
    memory.emplace_back(context, 1024 * 4);
    clear(streams.back(), memory.back());
  }
  run_threads(kThreads, [&](uint32_t thread) {
    for (uint32_t round = 0; round < 8 && statuses[thread] == KEEL_OK; ++round) {
      keel_plugin_module* module = nullptr;
      keel_plugin_kernel* kernel = nullptr;
      keel_status status = load(context, set.format, set.number.module, &module);
      if (status == KEEL_OK) status = table.find(module, set.number.name.c_str(), &kernel);
      if (status == KEEL_OK) {
        status = launch_on(context, streams[thread], kernel, 8, 128,
                           {as_bytes_of(memory[thread].at(0)), as_bytes_of(thread)});
      }
      if (status == KEEL_OK) status = streams[thread].settle_unobserved();
      if (module != nullptr) table.unload(module);
      statuses[thread] = status;
    }
  });
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    need(statuses[thread], fmt::format("load, find, launch and unload on thread {}", thread));
    std::vector<uint32_t> words(1024);
    for (uint32_t i = 0; i < 1024; ++i) words[i] = 8 * (i + thread);
    check_words(streams[thread], memory[thread], bytes_of(words.data(), 4096),
                fmt::format("thread {}", thread));
  }
}

// Unloaded modules must release all resources.
void given_back(const Context& context) {
  const KernelSet& set = table_set(context);
  const TableStream stream(context);
  const TableBuffer memory(context, 128 * 4);
  expect_given_back(
      24,
      [&] {
        TableModule module(context, set, set.number);
        launch_words(context, stream, module.kernel(), memory.at(0), 128, 1);
        need(stream.settle(), "a launch");
      },
      "modules that are unloaded");
}

}  // namespace

void add_kernel_table_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const std::string& id, auto body) {
    cases->push_back({"kernels/tables/" + id, KEEL_CAPABILITY_KERNELS, false, std::move(body)});
  };
  add("load/refused", refused_loads);
  add("load/borrowed", borrowed_data);
  add("find", found_kernels);
  add("launch/order", in_its_place);
  add("launch/event", event_behind);
  add("launch/threads", several_threads);
  add("unload/done", unloaded_once_done);
  add("unload/threads", loads_of_threads);
  add("unload/given_back", given_back);
}

}  // namespace keel::conformance

// SPDX-License-Identifier: Apache-2.0
// Level kernels: several modules, kernels and streams at once, and the order of launches.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <deque>
#include <set>

#include "conformance/harness.h"
#include "conformance/kernel_calls.h"

namespace keel::conformance {

namespace {

constexpr uint64_t kMiB = 1 << 20;

// Words on the device, and their expected values. A sequence of twin (word = 3 word + |first|) and
// number (word += index + |first|) gives different words in any other order.
class Words {
 public:
  Words(const Stream& stream, uint64_t count, Where where = Where::current())
      : expected_(count, 0), memory_(stream.device(), KEEL_MEMORY_DEVICE, count * 4, where) {
    stream.fill(memory_.data(), 0, count * 4, where);
    stream.synchronize(where);
  }
  // |count|: a multiple of 128.
  void number(const Stream& stream, const Module& module, uint64_t count, uint32_t first,
              Where where = Where::current()) {
    must(launch_number(stream, module, memory_.data(), count, first), "keel_kernel_launch", where);
    for (uint64_t i = 0; i < count; ++i) expected_[i] += static_cast<uint32_t>(i) + first;
  }
  void twin(const Stream& stream, const Module& module, uint64_t count, uint32_t first,
            Where where = Where::current()) {
    must(launch_number(stream, module, memory_.data(), count, first), "keel_kernel_launch", where);
    for (uint64_t i = 0; i < count; ++i) expected_[i] = 3 * expected_[i] + first;
  }
  void check_words(const Stream& stream, const std::string& what, Where where = Where::current()) {
    std::vector<std::byte> got(expected_.size() * 4);
    stream.download(got, memory_.data(), where);
    stream.synchronize(where);
    check_equal(got, std::as_bytes(std::span(expected_)), what, where);
  }
  const Buffer& memory() const { return memory_; }
  const std::vector<uint32_t>& expected() const { return expected_; }

 private:
  std::vector<uint32_t> expected_;
  const Buffer memory_;
};

// ---- formats -----------------------------------------------------------------------------------

// A complete binary that the device cannot load has an unsupported format and must be refused as
// such, unless the device accepts another flavour of that format.
void foreign_formats(const Context& context) {
  const KernelSet& taken = choose_set(context);
  if (!has_own_kernels()) unsupported("the kernels are of a vendor");
  std::set<keel_binary_format> own = {taken.format};
  for (const KernelSet& set : kernel_sets()) {
    if (own.count(set.format) != 0) continue;
    keel_module module = {};
    const keel_status status = observe_status(keel_module_load(
        context.device(), set.format, set.number.module.data(), set.number.module.size(), &module));
    if (status == KEEL_OK) {
      own.insert(set.format);
      must(keel_module_unload(module), "keel_module_unload");
    } else if (set.format != KEEL_BINARY_SPIRV || !takes_opencl_spirv(context)) {
      check(status == KEEL_UNSUPPORTED,
            fmt::format("{} cannot be read, and is refused with {} instead of KEEL_UNSUPPORTED",
                        set.format_name, keel_status_name(status)));
    }
  }
}

// ---- names ------------------------------------------------------------------------------------

const KernelBinary* all_of(const KernelSet& set, size_t i) {
  const KernelBinary* const all[] = {&set.axpy,   &set.number, &set.twin,
                                     &set.values, &set.places, &set.shared};
  return i < std::size(all) ? all[i] : nullptr;
}

// Names similar to kernel names, and names of kernels in other modules, must not be found; the
// right name is found before and after.
void names(const Context& context) {
  const KernelSet& set = choose_set(context);
  std::set<std::string> real;
  for (size_t i = 0; const KernelBinary* kernel = all_of(set, i); ++i) {
    if (kernel->exists()) real.insert(kernel->name);
  }
  for (size_t i = 0; const KernelBinary* kernel = all_of(set, i); ++i) {
    if (!kernel->exists()) continue;
    const Module module(context, set, *kernel);
    const auto refuse = [&](const std::string& name) {
      keel_kernel found = {};
      must_be(KEEL_NOT_FOUND, keel_kernel_find(module.get(), name.c_str(), &found),
              fmt::format("keel_kernel_find of '{}' in the module of '{}'", name.substr(0, 100),
                          kernel->name));
      check(observe(found.id) == 0, "keel_kernel_find gives a kernel, and says that there is none");
    };
    const std::string& name = kernel->name;
    std::string upper = name;
    for (char& letter : upper) letter = static_cast<char>(std::toupper(letter));
    for (const std::string& other :
         {std::string(), name.substr(0, name.size() - 1), name.substr(1), name + name, name + "_",
          "_" + name, name + " ", " " + name, name + "0", name + "\n", upper, name + "\xff",
          std::string(10'000, 'k'), "*" + name, name + "*"}) {
      if (real.count(other) == 0) refuse(other);
    }
    for (size_t j = 0; const KernelBinary* other = all_of(set, j); ++j) {
      const bool elsewhere =
          other->exists() && other->module.data() != kernel->module.data() && other->name != name;
      bool is_here_too = false;
      for (size_t k = 0; const KernelBinary* own = all_of(set, k); ++k) {
        is_here_too |= own->module.data() == kernel->module.data() && own->name == other->name;
      }
      if (elsewhere && !is_here_too) refuse(other->name);
    }
    keel_kernel again = {};
    must(keel_kernel_find(module.get(), name.c_str(), &again), "keel_kernel_find, again");
  }
}

// Two modules with kernels of the same name, loaded in either order; then one is unloaded.
void twins(const Context& context) {
  const KernelSet& set = choose_set(context);
  const Stream stream(context);
  for (const bool number_first : {true, false}) {
    std::deque<Module> modules;
    modules.emplace_back(context, set, number_first ? set.number : set.twin);
    modules.emplace_back(context, set, number_first ? set.twin : set.number);
    Module& number = modules[number_first ? 0 : 1];
    Module& twin = modules[number_first ? 1 : 0];
    Words words(stream, 1024);
    for (uint32_t i = 0; i < 6; ++i) {
      words.number(stream, number, 1024, i);
      words.twin(stream, twin, 1024, 10 + i);
    }
    must(modules.front().unload(), "keel_module_unload");
    for (uint32_t i = 0; i < 3; ++i) {
      if (number_first) {
        words.twin(stream, twin, 1024, i);
      } else {
        words.number(stream, number, 1024, i);
      }
    }
    words.check_words(stream, "launches of two kernels of one name");
  }
}

// ---- modules ----------------------------------------------------------------------------------

// Loading one binary twice creates two modules: one is unloaded while its launches, and those of
// the other, run.
void loaded_twice(const Context& context) {
  constexpr uint64_t kWords = 256 * 1024;
  const KernelSet& set = choose_set(context);
  const Stream stream(context);
  const Stream other(context);
  Module first(context, set, set.number);
  const Module second(context, set, set.number);
  check(observe(first.get().id) != observe(second.get().id) &&
            observe(first.kernel().id) != observe(second.kernel().id),
        "a binary that is loaded twice gives one handle");
  Words words(stream, kWords);
  Words more(other, kWords);
  for (uint32_t i = 0; i < 6; ++i) {
    words.number(stream, first, kWords, i);
    more.number(other, second, kWords, 100 + i);
  }
  must(first.unload(), "keel_module_unload");
  for (uint32_t i = 0; i < 6; ++i) {
    words.number(stream, second, kWords, 7 * i);
    more.number(other, second, kWords, i);
  }
  keel_kernel again = {};
  must(keel_kernel_find(second.get(), set.number.name.c_str(), &again), "keel_kernel_find");
  words.check_words(stream, "launches of a module, and of its like once it was unloaded");
  more.check_words(other, "launches of a module whose like was unloaded");
}

// Kernels of an unloaded module must be refused.
void unloaded(const Context& context) {
  const KernelSet& set = choose_set(context);
  const Stream stream(context);
  Words words(stream, 128);
  Module module(context, set, set.number);
  const keel_module handle = module.get();
  must(module.unload(), "keel_module_unload");
  keel_kernel found = {};
  must_be(KEEL_INVALID_HANDLE, keel_kernel_find(handle, set.number.name.c_str(), &found),
          "keel_kernel_find in a module that was unloaded");
  must_be(KEEL_INVALID_HANDLE, launch_number(stream, module, words.memory().data(), 128, 1),
          "a launch of a kernel whose module was unloaded");
  must_be(KEEL_INVALID_HANDLE, keel_module_unload(handle), "a second keel_module_unload");
  words.check_words(stream, "what a refused launch left");
}

// Modules are loaded and unloaded, with and without launches, also with their work in flight.
void come_and_go(const Context& context) {
  constexpr uint32_t kRounds = 24;
  const KernelSet& set = choose_set(context);
  const Stream stream(context);
  Words words(stream, 4096);
  for (uint32_t round = 0; round < kRounds; ++round) {
    Module number(context, set, set.number);
    Module twin(context, set, set.twin);
    const Module idle(context, set, set.axpy);
    words.number(stream, number, 4096, round);
    words.twin(stream, twin, 4096, round);
    must(twin.unload(), "keel_module_unload");
    must(number.unload(), "keel_module_unload");
  }
  words.check_words(stream, "launches of modules that were unloaded at once");
}

// ---- order ------------------------------------------------------------------------------------

// Small launches must not overtake large ones, nor the reverse.
void large_and_small(const Context& context) {
  constexpr uint64_t kLarge = 1 << 20;
  const KernelSet& set = choose_set(context);
  const Module number(context, set, set.number);
  const Module twin(context, set, set.twin);
  const Stream stream(context);
  Words words(stream, kLarge);
  const uint64_t sizes[] = {kLarge, 128, 128, 4096, kLarge, 65'536, 128, 1024};
  for (uint32_t i = 0; i < 24; ++i) {
    const uint64_t count = sizes[i % std::size(sizes)];
    if (i % 3 == 1) {
      words.twin(stream, twin, count, i);
    } else {
      words.number(stream, number, count, i);
    }
  }
  words.check_words(stream, "launches over many and few words by turns");
}

// One module's launches on two streams that wait for each other.
void two_streams(const Context& context) {
  constexpr uint64_t kWords = 256 * 1024;
  constexpr uint32_t kRounds = 12;
  const KernelSet& set = choose_set(context);
  const Module number(context, set, set.number);
  const Module twin(context, set, set.twin);
  const Stream streams[] = {Stream(context), Stream(context)};
  std::deque<Event> events;
  Words words(streams[0], kWords);
  for (uint32_t round = 0; round < kRounds; ++round) {
    const Stream& stream = streams[round % 2];
    if (!events.empty()) {
      must(keel_stream_wait_event(stream.get(), events.back().get()), "keel_stream_wait_event");
    }
    words.number(stream, number, kWords, round);
    words.twin(stream, twin, kWords, round);
    events.emplace_back();
    events.back().record(stream);
  }
  words.check_words(streams[(kRounds - 1) % 2], "launches on two streams by turns");
}

// An event behind launches must not complete before them: another stream reads their results then.
void event_is_not_early(const Context& context) {
  constexpr uint64_t kWords = 2 * kMiB;
  constexpr uint64_t kSeen = 1024;
  const KernelSet& set = choose_set(context);
  const Module number(context, set, set.number);
  const Stream stream(context);
  const Stream reader(context);
  const Buffer memory(context.device(), KEEL_MEMORY_DEVICE, kWords * 4);
  for (uint32_t round = 0; round < 2; ++round) {
    stream.fill(memory.data(), 0, kWords * 4);
    stream.synchronize();
    for (uint32_t i = 0; i < 4; ++i) {
      must(launch_number(stream, number, memory.data(), kWords, i), "keel_kernel_launch");
    }
    const Event event;
    event.record(stream);
    must(poll([&] { return keel_event_query(event.get()); }, context.environment.wait_ns),
         "keel_event_query");
    std::vector<std::byte> got(kSeen * 4);
    reader.download(got, memory.at((kWords - kSeen) * 4));
    reader.synchronize();
    std::vector<uint32_t> wanted(kSeen);
    for (uint64_t i = 0; i < kSeen; ++i) {
      wanted[i] = static_cast<uint32_t>(4 * (kWords - kSeen + i) + 6);
    }
    check_equal(got, std::as_bytes(std::span(wanted)), "the last words once an event says done");
  }
}

// launch() must return before the work is done: a query still reports the work as unfinished, and
// the call took less than half of the work's time. A host that is delayed in between may miss both,
// and little work ends early on a fast chip, so the case retries with more work. It begins with 64
// Ki threads, some 0.1 s of an emulated chip that interprets kernels.
void returns_early(const Context& context) {
  constexpr uint64_t kMostWords = 4 * kMiB;
  constexpr uint32_t kMostLaunches = 256;
  const KernelSet& set = choose_set(context);
  const Module number(context, set, set.number);
  const Stream stream(context);
  const Buffer memory(context.device(), KEEL_MEMORY_DEVICE, kMostWords * 4);
  const Event event;
  uint64_t words = kMostWords / 256;
  uint32_t launches = 4;
  while (launches <= kMostLaunches) {
    const int64_t start = observe_now();
    for (uint32_t i = 0; i < launches; ++i) {
      must(launch_number(stream, number, memory.data(), words, i), "keel_kernel_launch");
    }
    const int64_t away = observe_now() - start;
    event.record(stream);
    const keel_status status = observe_status(keel_event_query(event.get()));
    stream.synchronize();
    const int64_t whole = observe_now() - start;
    if (status == KEEL_NOT_READY && 2 * away < whole) return;
    check(status == KEEL_OK || status == KEEL_NOT_READY, "keel_event_query fails");
    if (words < kMostWords) {
      words *= 4;
    } else {
      launches *= 2;
    }
  }
  fail_case(
      fmt::format("{} launches over 16 MiB returned only when they were done", kMostLaunches));
}

}  // namespace

void add_kernel_modules_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](std::string id, auto body, uint64_t capabilities = 0) {
    cases->push_back({"kernels/" + std::move(id), KEEL_CAPABILITY_KERNELS | capabilities, false,
                      std::move(body)});
  };
  add("load/foreign", foreign_formats);
  add("find/names", names);
  add("find/twins", twins);
  add("modules/twice", loaded_twice);
  add("modules/unloaded", unloaded);
  add("modules/come_and_go", come_and_go);
  add("order/large_and_small", large_and_small);
  add("order/two_streams", two_streams);
  add("order/event_not_early", event_is_not_early);
  add("order/returns_early", returns_early, KEEL_CAPABILITY_ASYNC);
}

}  // namespace keel::conformance

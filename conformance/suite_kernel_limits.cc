// SPDX-License-Identifier: Apache-2.0
// Level kernels: the arguments and extents of a launch, and their limits.
#include <fmt/format.h>

#include <deque>

#include "conformance/harness.h"
#include "conformance/kernel_calls.h"

namespace keel::conformance {

namespace {

constexpr const char* kAxes[3] = {"x", "y", "z"};

// Zeroed device memory with 4 KiB before and behind it that no kernel may write.
class Area {
 public:
  Area(const Stream& stream, uint64_t bytes, Where where = Where::current())
      : stream_(stream),
        content_(bytes + 2 * kRedBytes, kRedZone),
        memory_(stream.device(), KEEL_MEMORY_DEVICE, content_.size(), where) {
    std::fill_n(content_.begin() + kRedBytes, bytes, std::byte{0});
    stream_.upload(memory_.data(), content_, where);
    stream_.synchronize(where);
  }
  std::byte* data() const { return memory_.at(kRedBytes); }
  uint64_t size() const { return content_.size() - 2 * kRedBytes; }
  // Waits for the stream. The memory must begin with |wanted|; the rest must be unchanged.
  void check_holds(std::span<const std::byte> wanted, const std::string& what,
                   Where where = Where::current()) {
    std::copy(wanted.begin(), wanted.end(), content_.begin() + kRedBytes);
    std::vector<std::byte> got(content_.size());
    stream_.download(got, memory_.data(), where);
    stream_.synchronize(where);
    check_equal(got, content_, what + ", with 4 KiB before and behind it", where);
  }

 private:
  static constexpr uint64_t kRedBytes = 4096;
  const Stream& stream_;
  std::vector<std::byte> content_;
  const Buffer memory_;
};

// Returns whether the device accepted the launch. A launch beyond the device's limits must be
// refused with KEEL_INVALID_ARGUMENT; one with shared memory, where the format has none, with
// KEEL_UNSUPPORTED too.
bool is_taken(keel_status status, const std::string& what, bool may_be_unsupported = false,
              Where where = Where::current()) {
  status = observe_status(status, where);
  if (status == KEEL_OK) return true;
  if (status != KEEL_INVALID_ARGUMENT && !(may_be_unsupported && status == KEEL_UNSUPPORTED)) {
    const std::string text = observe_text(keel_last_error(), where);
    fail_case(fmt::format("{}: {} instead of KEEL_INVALID_ARGUMENT, or success: {}", what,
                          keel_status_name(status), text),
              where);
  }
  return false;
}

// A valid launch, which must also work after a refused one.
void expect_works(const Stream& stream, const Module& number, const std::string& what,
                  Where where = Where::current()) {
  Area area(stream, 512);
  must(launch_number(stream, number, area.data(), 128, 7), what, where);
  area.check_holds(numbers(128, 7), what, where);
}

// ---- arguments ----------------------------------------------------------------------------

using Values = std::vector<std::vector<std::byte>>;

Values values_of(const Context& context, const KernelSet& set, uint32_t round) {
  Values values;
  for (const uint32_t bytes : set.value_bytes) {
    values.push_back(
        random_bytes(context, round * 256 + static_cast<uint32_t>(values.size()), bytes));
  }
  return values;
}

std::vector<std::byte> joined(const Values& values) {
  std::vector<std::byte> all;
  for (const std::vector<std::byte>& value : values) {
    all.insert(all.end(), value.begin(), value.end());
  }
  return all;
}

keel_status launch_with(const Stream& stream, keel_kernel kernel, std::byte* result,
                        const Values& values) {
  void* const pointer = result;
  std::vector<std::span<const std::byte>> all = {std::as_bytes(std::span(&pointer, 1))};
  for (const std::vector<std::byte>& value : values) all.emplace_back(value);
  return launch_values(stream, kernel, {{1, 1, 1}, {1, 1, 1}}, all);
}

// The maximum number of arguments, sizes and bytes of the format. The kernel must receive each
// argument completely, even though the caller overwrites its memory after the call.
void many_values(const Context& context) {
  constexpr uint32_t kRounds = 24;
  const KernelSet& set = choose_set(context);
  const Module module(context, set, set.values);
  const Stream stream(context);
  const uint64_t bytes = joined(values_of(context, set, 0)).size();
  Area area(stream, kRounds * bytes);
  std::vector<std::byte> wanted;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const Values values = values_of(context, set, round);
    must(launch_with(stream, module.kernel(), area.data() + round * bytes, values),
         "keel_kernel_launch");
    const std::vector<std::byte> own = joined(values);
    wanted.insert(wanted.end(), own.begin(), own.end());
  }
  area.check_holds(wanted,
                   fmt::format("{} launches with {} bytes of arguments each", kRounds, bytes));
}

// Several threads launch one kernel at once, each on its own stream with its own arguments.
void values_of_threads(const Context& context) {
  constexpr uint32_t kThreads = 4;
  constexpr uint32_t kRounds = 16;
  const KernelSet& set = choose_set(context);
  const Module module(context, set, set.values);
  const uint64_t bytes = joined(values_of(context, set, 0)).size();
  std::vector<std::vector<std::byte>> wanted(kThreads);
  std::vector<std::vector<std::byte>> got(kThreads, std::vector<std::byte>(kRounds * bytes));
  std::vector<std::vector<Values>> values(kThreads);
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    for (uint32_t round = 0; round < kRounds; ++round) {
      values[thread].push_back(values_of(context, set, thread * kRounds + round));
      const std::vector<std::byte> own = joined(values[thread].back());
      wanted[thread].insert(wanted[thread].end(), own.begin(), own.end());
    }
  }
  run_threads(kThreads, [&](uint32_t thread) {
    const Stream stream(context);
    const Buffer memory(context.device(), KEEL_MEMORY_DEVICE, kRounds * bytes);
    for (uint32_t round = 0; round < kRounds; ++round) {
      must(launch_with(stream, module.kernel(), memory.at(round * bytes), values[thread][round]),
           "keel_kernel_launch");
    }
    stream.download(got[thread], memory.data());
    stream.synchronize();
  });
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    check_equal(got[thread], wanted[thread], fmt::format("the arguments of thread {}", thread));
  }
}

// Kernels with few and many arguments alternate, from one module if the format permits: no kernel
// may receive another's arguments.
void kernels_by_turns(const Context& context) {
  constexpr uint32_t kRounds = 12;
  const KernelSet& set = choose_set(context);
  const Module number(context, set, set.number);
  const Stream stream(context);
  std::deque<Module> others;
  const auto find = [&](const KernelBinary& binary) {
    if (binary.module.data() != set.number.module.data()) {
      others.emplace_back(context, set, binary);
      return others.back().kernel();
    }
    keel_kernel kernel = {};
    must(keel_kernel_find(number.get(), binary.name.c_str(), &kernel), "keel_kernel_find");
    return kernel;
  };
  const keel_kernel with_values = find(set.values);
  const keel_kernel axpy = find(set.axpy);
  const uint64_t bytes = joined(values_of(context, set, 0)).size();
  Area counted(stream, kRounds * 512);
  Area valued(stream, kRounds * bytes);
  Area added(stream, 256 * 4);
  Area ones(stream, 256 * 4);
  stream.fill(ones.data(), 0x3f800000, 256 * 4);  // 1.0F
  std::vector<std::byte> wanted_counts;
  std::vector<std::byte> wanted_values;
  float sum = 0;
  for (uint32_t round = 0; round < kRounds; ++round) {
    must(launch_number(stream, number, counted.data() + round * 512, 128, round), "number");
    const Values values = values_of(context, set, round);
    must(launch_with(stream, with_values, valued.data() + round * bytes, values), "values");
    must(launch(stream, axpy, {{4, 1, 1}, {64, 1, 1}}, static_cast<void*>(ones.data()),
                static_cast<void*>(added.data()), static_cast<float>(round), uint32_t{255}),
         "axpy");
    const std::vector<std::byte> counts = numbers(128, round);
    wanted_counts.insert(wanted_counts.end(), counts.begin(), counts.end());
    const std::vector<std::byte> own = joined(values);
    wanted_values.insert(wanted_values.end(), own.begin(), own.end());
    sum += static_cast<float>(round);
  }
  counted.check_holds(wanted_counts, "numbers");
  valued.check_holds(wanted_values, "values");
  const std::vector<float> sums(255, sum);
  added.check_holds(std::as_bytes(std::span(sums)), "sums of 255 of 256 threads");
}

// If a module declares its kernels' arguments, each argument is checked, or their number alone.
void wrong_values(const Context& context) {
  const KernelSet& set = choose_set(context);
  if (!set.knows_argument_count()) {
    unsupported(fmt::format("{} does not say what arguments its kernels take", set.format_name));
  }
  const Module module(context, set, set.values);
  const Stream stream(context);
  const Values right = values_of(context, set, 0);
  Area area(stream, joined(right).size());
  const auto refuse = [&](const Values& values, const std::string& what) {
    // Core accepts 4,096 bytes including the pointer to the result.
    constexpr size_t kMost = 4096 - sizeof(void*);
    must_be(joined(values).size() > kMost ? KEEL_OUT_OF_RANGE : KEEL_INVALID_ARGUMENT,
            launch_with(stream, module.kernel(), area.data(), values), what);
  };
  for (size_t i = 0; set.knows_arguments && i < right.size(); ++i) {
    Values wrong = right;
    wrong[i].push_back(std::byte{1});
    refuse(wrong, fmt::format("argument {} with a byte more than its {}", i + 1, right[i].size()));
    if (right[i].size() == 1) continue;
    wrong[i].resize(right[i].size() - 1);
    refuse(wrong, fmt::format("argument {} with a byte less than its {}", i + 1, right[i].size()));
  }
  Values fewer = right;
  fewer.pop_back();
  refuse(fewer, "an argument less");
  Values more = right;
  more.push_back(right.front());
  refuse(more, "an argument more");
  refuse({}, "one argument");
  // More than a kernel of few arguments takes: what is behind the plugin's list of them may look
  // like the size of one.
  const Module number(context, set, set.number);
  for (uint32_t bytes = 1; bytes <= 128; ++bytes) {
    void* const result = area.data();
    const uint32_t first = 3;
    const std::vector<std::byte> surplus(bytes);
    const std::span<const std::byte> all[] = {std::as_bytes(std::span(&result, 1)),
                                              std::as_bytes(std::span(&first, 1)), surplus};
    must_be(KEEL_INVALID_ARGUMENT,
            launch_values(stream, number.kernel(), {{1, 1, 1}, {1, 1, 1}}, all),
            fmt::format("a third argument, of {} bytes, of a kernel of two", bytes));
  }
  area.check_holds({}, "what refused launches left");
  must(launch_with(stream, module.kernel(), area.data(), right),
       "the right launch after wrong ones");
  area.check_holds(joined(right), "the right launch after wrong ones");
}

// Addresses inside an allocation, at any element.
void inner_pointers(const Context& context) {
  const KernelSet& set = choose_set(context);
  const Module module(context, set, set.number);
  const Stream stream(context);
  for (const uint64_t word : {1ULL, 2ULL, 3ULL, 7ULL, 31ULL, 1025ULL}) {
    Area area(stream, 8192);
    must(launch_number(stream, module, area.data() + word * 4, 128, 5), "keel_kernel_launch");
    std::vector<std::byte> wanted(word * 4, std::byte{0});
    const std::vector<std::byte> numbered = numbers(128, 5);
    wanted.insert(wanted.end(), numbered.begin(), numbered.end());
    area.check_holds(wanted, fmt::format("numbers from word {} of an allocation on", word));
  }
}

// ---- grids and blocks ----------------------------------------------------------------------

// Each thread must receive its own position and the sizes of grid and block.
void places(const Context& context, const Extents& extents) {
  constexpr uint64_t kWords = 12;
  const KernelSet& set = choose_set(context);
  const Module module(context, set, set.places);
  const Stream stream(context);
  const uint64_t threads = extents.threads();
  Area area(stream, threads * kWords * 4);
  must(launch(stream, module.kernel(), extents, static_cast<void*>(area.data()),
              static_cast<uint32_t>(threads)),
       "keel_kernel_launch");
  std::vector<uint32_t> wanted;
  const auto extent = [&](size_t axis) { return extents.grid[axis] * extents.block[axis]; };
  for (uint32_t z = 0; z < extent(2); ++z) {
    for (uint32_t y = 0; y < extent(1); ++y) {
      for (uint32_t x = 0; x < extent(0); ++x) {
        const uint32_t at[3] = {x, y, z};
        for (size_t i = 0; i < 3; ++i) wanted.push_back(at[i] / extents.block[i]);
        for (size_t i = 0; i < 3; ++i) wanted.push_back(at[i] % extents.block[i]);
        wanted.insert(wanted.end(), extents.grid.begin(), extents.grid.end());
        wanted.insert(wanted.end(), extents.block.begin(), extents.block.end());
      }
    }
  }
  area.check_holds(std::as_bytes(std::span(wanted)),
                   "twelve words a thread: its block, its place in it, grid and block");
}

// A launch of |extents| must either number each thread, or be refused and have no effect.
bool try_extents(const Stream& stream, const Module& module, const Extents& extents) {
  const std::string what = fmt::format("a grid of {} blocks of {}", fmt::join(extents.grid, "x"),
                                       fmt::join(extents.block, "x"));
  const uint64_t threads = extents.threads();
  Area area(stream, threads * 4);
  const bool taken =
      is_taken(launch(stream, module.kernel(), extents, static_cast<void*>(area.data()), 3U), what);
  area.check_holds(taken ? numbers(threads, 3) : std::vector<std::byte>(),
                   taken ? what : what + ", which was refused");
  return taken;
}

// Blocks along |axis| up to and beyond the device's limit.
void block_limits(const Context& context, size_t axis) {
  const KernelSet& set = choose_set(context);
  const Module module(context, set, set.number);
  const Stream stream(context);
  uint32_t largest = 0;
  for (const uint32_t threads : {33U, 64U, 128U, 256U, 1000U, 1024U, 1025U, 4096U, 262'144U}) {
    Extents extents = {{2, 1, 1}, {1, 1, 1}};
    extents.block[axis] = threads;
    if (try_extents(stream, module, extents)) {
      largest = threads;
    } else if (axis < 2 && threads <= set.block_threads) {
      fail_case(fmt::format("a block of {} threads along {} is refused, {} takes {}", threads,
                            kAxes[axis], set.format_name, set.block_threads));
    }
  }
  // Extents along two axes, limited by their product.
  try_extents(stream, module, {{1, 2, 1}, {64, 64, 1}});
  try_extents(stream, module, {{1, 1, 2}, {8, 8, 64}});
  expect_works(stream, module, "a launch after others that were too large");
  note(fmt::format("the largest block taken has {} threads", largest));
}

void grid_limits(const Context& context, size_t axis) {
  const KernelSet& set = choose_set(context);
  const Module module(context, set, set.number);
  const Stream stream(context);
  uint32_t largest = 0;
  for (const uint32_t blocks : {255U, 256U, 4097U, 65'535U, 65'536U, 70'001U}) {
    Extents extents = {{1, 1, 1}, {1, 1, 1}};
    extents.grid[axis] = blocks;
    if (try_extents(stream, module, extents)) {
      largest = blocks;
    } else if (blocks <= set.grid_blocks) {
      fail_case(fmt::format("a grid of {} blocks along {} is refused, {} takes {}", blocks,
                            kAxes[axis], set.format_name, set.grid_blocks));
    }
  }
  expect_works(stream, module, "a launch after others that were too large");
  note(fmt::format("the largest grid taken has {} blocks in {}", largest, kAxes[axis]));
}

// Extents of 0, and thread counts that overflow.
void bad_extents(const Context& context) {
  const KernelSet& set = choose_set(context);
  const Module module(context, set, set.number);
  const Stream stream(context);
  Area area(stream, 4096);
  const auto attempt = [&](const Extents& extents) {
    return launch(stream, module.kernel(), extents, static_cast<void*>(area.data()), 3U);
  };
  for (size_t axis = 0; axis < 3; ++axis) {
    Extents extents = {{1, 1, 1}, {64, 1, 1}};
    extents.grid[axis] = 0;
    must_be(KEEL_INVALID_ARGUMENT, attempt(extents), fmt::format("grid[{}] of 0", axis));
    extents = {{1, 1, 1}, {64, 1, 1}};
    extents.block[axis] = 0;
    must_be(KEEL_INVALID_ARGUMENT, attempt(extents), fmt::format("block[{}] of 0", axis));
  }
  check(observe_status(attempt({{1, 1, 1}, {UINT32_MAX, 2, 1}})) != KEEL_OK,
        "a block of 2^33 - 2 threads is taken");
  check(observe_status(attempt({{UINT32_MAX, UINT32_MAX, 1}, {64, 1, 1}})) != KEEL_OK,
        "a grid of more than 2^69 threads is taken");
  area.check_holds({}, "what refused launches left");
  expect_works(stream, module, "a launch after refused ones");
}

// ---- shared memory --------------------------------------------------------------------------

// Shared memory per block: each thread writes a word, and another thread reads the word after a
// barrier.
void shared_limits(const Context& context) {
  const KernelSet& set = choose_set(context);
  const Stream stream(context);
  const Module number(context, set, set.number);
  if (!set.shared.exists()) {
    // The module fixes the size of shared memory, and the launch must not give one.
    Area area(stream, 512);
    void* const result = area.data();
    const uint32_t first = 3;
    const std::span<const std::byte> values[] = {std::as_bytes(std::span(&result, 1)),
                                                 std::as_bytes(std::span(&first, 1))};
    const bool taken =
        is_taken(launch_values(stream, number.kernel(), {{1, 1, 1}, {128, 1, 1}}, values, 1024),
                 "dynamic_shared_bytes of a format without", /*may_be_unsupported=*/true);
    area.check_holds(taken ? numbers(128, 3) : std::vector<std::byte>(),
                     "1024 dynamic_shared_bytes");
    expect_works(stream, number, "a launch without dynamic_shared_bytes");
    note(set.format_name + " has no dynamic_shared_bytes");
    return;
  }
  constexpr uint32_t kBlocks = 3;
  const Module module(context, set, set.shared);
  // Uses the first |words| words.
  const auto attempt_part = [&](uint32_t bytes, uint32_t words) {
    Area area(stream, uint64_t{kBlocks} * words * 4);
    void* const result = area.data();
    const std::span<const std::byte> values[] = {std::as_bytes(std::span(&result, 1)),
                                                 std::as_bytes(std::span(&words, 1))};
    const std::string what = fmt::format("{} bytes of shared memory", bytes);
    const bool taken = is_taken(
        launch_values(stream, module.kernel(), {{kBlocks, 1, 1}, {64, 1, 1}}, values, bytes), what);
    std::vector<uint32_t> wanted(taken ? kBlocks * words : 0);
    for (uint32_t i = 0; i < wanted.size(); ++i) {
      wanted[i] = i / words * words + (words - 1 - i % words);
    }
    area.check_holds(std::as_bytes(std::span(wanted)), what);
    return taken;
  };
  const auto attempt = [&](uint32_t bytes) { return attempt_part(bytes, bytes / 4); };
  for (const uint32_t bytes :
       {4U, 64U, 100U, set.shared_bytes / 16, set.shared_bytes / 8, set.shared_bytes / 4,
        set.shared_bytes / 8 * 3, set.shared_bytes / 2, set.shared_bytes - 4, set.shared_bytes}) {
    check(attempt(bytes), fmt::format("{} bytes of shared memory are refused, {} gives a block {}",
                                      bytes, set.format_name, set.shared_bytes));
  }
  // Beyond what every device of the format has: a device that takes a size takes each smaller one.
  uint32_t refused = 0;
  for (const uint32_t bytes : {set.shared_bytes + 4, 2 * set.shared_bytes, 2 * set.shared_bytes + 4,
                               3 * set.shared_bytes, 4 * set.shared_bytes}) {
    const bool taken = attempt(bytes);
    check(!taken || refused == 0,
          fmt::format("{} bytes of shared memory are taken, and {} refused", bytes, refused));
    if (!taken && refused == 0) refused = bytes;
  }
  attempt_part(1U << 30, 64);
  // After a large launch, a small one must not have more shared memory, and one without must have
  // none.
  check(attempt(256), "256 bytes of shared memory are refused");
  expect_works(stream, number, "a launch without shared memory");
}

}  // namespace

void add_kernel_limits_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](std::string id, auto body) {
    cases->push_back({"kernels/" + std::move(id), KEEL_CAPABILITY_KERNELS, false, std::move(body)});
  };
  add("arguments/values", many_values);
  add("arguments/kernels_by_turns", kernels_by_turns);
  add("arguments/values_of_threads", values_of_threads);
  add("arguments/wrong_values", wrong_values);
  add("arguments/inner_pointers", inner_pointers);
  const Extents all[] = {
      {{1, 1, 1}, {1, 1, 1}}, {{5, 3, 2}, {4, 2, 2}},  {{2, 7, 3}, {3, 5, 1}},
      {{1, 2, 9}, {1, 8, 4}}, {{11, 1, 1}, {1, 1, 7}}, {{1, 13, 1}, {16, 1, 1}},
  };
  for (const Extents& extents : all) {
    add(fmt::format("places/{}_of_{}", fmt::join(extents.grid, "x"), fmt::join(extents.block, "x")),
        [extents](const Context& context) { places(context, extents); });
  }
  for (size_t axis = 0; axis < 3; ++axis) {
    add(fmt::format("limits/block/{}", kAxes[axis]),
        [axis](const Context& context) { block_limits(context, axis); });
    add(fmt::format("limits/grid/{}", kAxes[axis]),
        [axis](const Context& context) { grid_limits(context, axis); });
  }
  add("limits/extents", bad_extents);
  add("limits/shared", shared_limits);
}

}  // namespace keel::conformance

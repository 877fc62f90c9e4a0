// SPDX-License-Identifier: Apache-2.0
// Level collectives: element types and reductions that the plugin's own tables do not have. A
// library gets bool and complex numbers as numbers of its own; bitwise reductions go by Keel's
// algorithms. Either way, the result is the same on every device.
#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <keel/plugin_kit.hpp>
#include <string>

#include "conformance/collective_ranks.h"
#include "conformance/collective_values.h"
#include "conformance/harness.h"

namespace keel::conformance {

namespace {

using Value = std::function<uint64_t(uint32_t rank, uint64_t index)>;

// |count| elements of |size| bytes.
Bytes elements_of(uint64_t count, uint32_t size, const std::function<uint64_t(uint64_t)>& value) {
  Bytes bytes(count * size);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t word = value(i);
    std::memcpy(&bytes[i * size], &word, size);  // the low bytes
  }
  return bytes;
}

// Runs all_reduce on data of |value|(rank, index), and expects |wanted|(index) on all ranks; then
// gathers what all ranks hold.
void run(const Context& context, keel_dtype dtype, uint32_t size, keel_reduction reduction,
         const Value& value, const std::function<uint64_t(uint64_t, uint32_t world)>& wanted) {
  const Ranks ranks(context);
  const uint32_t world = ranks.world();
  for (const uint64_t count : {1ULL, 1009ULL, 65'539ULL}) {
    std::vector<Buffer> memory;
    std::vector<Buffer> gathered;
    std::vector<Bytes> sent(world);  // read while the uploads run
    Bytes all;
    for (uint32_t rank = 0; rank < world; ++rank) {
      memory.push_back(ranks.buffer(rank, count * size));
      gathered.push_back(ranks.buffer(rank, world * count * size));
      sent[rank] = elements_of(count, size, [&](uint64_t i) { return value(rank, i); });
      all.insert(all.end(), sent[rank].begin(), sent[rank].end());
      ranks.stream(rank).upload(memory[rank].data(), sent[rank]);
    }
    for (uint32_t rank = 0; rank < world; ++rank) {
      must(keel_all_gather(ranks.comm(rank), memory[rank].data(), gathered[rank].data(), count,
                           dtype, ranks.stream(rank).get()),
           fmt::format("keel_all_gather on rank {}", rank));
    }
    for (uint32_t rank = 0; rank < world; ++rank) {
      must(keel_all_reduce(ranks.comm(rank), memory[rank].data(), memory[rank].data(), count, dtype,
                           reduction, ranks.stream(rank).get()),
           fmt::format("keel_all_reduce on rank {}", rank));
    }
    const Bytes reduced = elements_of(count, size, [&](uint64_t i) { return wanted(i, world); });
    std::vector<Bytes> got(world, Bytes(reduced.size()));
    std::vector<Bytes> got_all(world, Bytes(all.size()));
    for (uint32_t rank = 0; rank < world; ++rank) {
      ranks.stream(rank).download(got[rank], memory[rank].data());
      ranks.stream(rank).download(got_all[rank], gathered[rank].data());
    }
    ranks.synchronize();
    for (uint32_t rank = 0; rank < world; ++rank) {
      check_equal(got_all[rank], all,
                  fmt::format("keel_all_gather of {}, rank {} of {}", count, rank, world));
      check_equal(got[rank], reduced,
                  fmt::format("keel_all_reduce of {}, rank {} of {}", count, rank, world));
    }
  }
}

uint64_t bit(uint32_t rank, uint64_t index) {
  return index >> (rank % 8) & 1;
}

void run_bool(const Context& context, keel_reduction reduction) {
  run(context, KEEL_BOOL, 1, reduction, bit, [&](uint64_t index, uint32_t world) {
    uint64_t ones = 0;
    for (uint32_t rank = 0; rank < world; ++rank) ones += bit(rank, index);
    if (reduction == KEEL_BXOR) return ones & 1;
    const bool is_and = reduction == KEEL_PROD || reduction == KEEL_MIN || reduction == KEEL_BAND;
    return uint64_t{is_and ? ones == world : ones != 0};
  });
}

// Whole numbers, whose sums are exact: two float32 in a word.
uint64_t word_of(float real, float imaginary) {
  const float parts[2] = {real, imaginary};
  uint64_t word = 0;
  std::memcpy(&word, parts, sizeof(word));
  return word;
}

void run_complex(const Context& context) {
  run(
      context, KEEL_COMPLEX64, 8, KEEL_SUM,
      [](uint32_t rank, uint64_t index) {
        return word_of(static_cast<float>(rank + index % 100), -static_cast<float>(rank));
      },
      [](uint64_t index, uint32_t world) {
        const uint32_t ranks = world * (world - 1) / 2;
        return word_of(static_cast<float>(ranks + world * (index % 100)),
                       -static_cast<float>(ranks));
      });
}

void run_bitwise(const Context& context, keel_dtype dtype, keel_reduction reduction) {
  const auto value = [](uint32_t rank, uint64_t index) {
    return (index + 1) * (0x9e3779b97f4a7c15u + 2 * rank);
  };
  run(context, dtype, kit::dtype_size(dtype), reduction, value,
      [&](uint64_t index, uint32_t world) {
        uint64_t bits = value(0, index);
        for (uint32_t rank = 1; rank < world; ++rank) {
          if (reduction == KEEL_BAND) bits &= value(rank, index);
          if (reduction == KEEL_BOR) bits |= value(rank, index);
          if (reduction == KEEL_BXOR) bits ^= value(rank, index);
        }
        return bits;
      });
}

}  // namespace

void add_element_type_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const std::string& id, auto body) {
    cases->push_back({"collectives/" + id, KEEL_CAPABILITY_CCL, false, std::move(body)});
  };
  struct Name {
    keel_reduction reduction;
    const char* text;
  };
  constexpr Name kBitwise[] = {{KEEL_BAND, "band"}, {KEEL_BOR, "bor"}, {KEEL_BXOR, "bxor"}};
  for (const Name& name : {Name{KEEL_SUM, "sum"}, Name{KEEL_PROD, "prod"}, Name{KEEL_MIN, "min"},
                           Name{KEEL_MAX, "max"}, kBitwise[0], kBitwise[1], kBitwise[2]}) {
    add(fmt::format("all_reduce/bool/{}", name.text),
        [reduction = name.reduction](const Context& context) { run_bool(context, reduction); });
  }
  add("all_reduce/complex64/sum", run_complex);
  for (keel_dtype dtype = KEEL_INT8; dtype <= KEEL_UINT64; ++dtype) {
    for (const Name& name : kBitwise) {
      add(fmt::format("all_reduce/{}/{}", kit::dtype_name(dtype), name.text),
          [dtype, reduction = name.reduction](const Context& context) {
            run_bitwise(context, dtype, reduction);
          });
    }
  }
}

}  // namespace keel::conformance

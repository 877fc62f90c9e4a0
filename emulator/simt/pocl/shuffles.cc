// SPDX-License-Identifier: Apache-2.0
#include "emulator/simt/pocl/shuffles.h"

#include <cstddef>
#include <map>
#include <vector>

namespace keel::emulator::simt {

namespace {

constexpr size_t kHeaderWords = 5;
enum : uint16_t {
  kOpEntryPoint = 15,
  kOpFunction = 54,
  kOpFunctionCall = 57,
  kOpSubgroupShuffleXor = 5574,
};

}  // namespace

std::set<std::string> kernels_that_shuffle(std::span<const uint32_t> module) {
  std::map<uint32_t, std::string> kernels;
  std::map<uint32_t, std::vector<uint32_t>> callers;  // of a function
  std::vector<uint32_t> found;                        // functions that shuffle, callers last
  std::set<uint32_t> known;
  uint32_t function = 0;
  for (size_t at = kHeaderWords; at < module.size();) {
    const uint32_t words = module[at] >> 16;
    if (words == 0 || words > module.size() - at) break;
    const std::span<const uint32_t> operands = module.subspan(at + 1, words - 1);
    switch (module[at] & 0xffff) {
      case kOpEntryPoint:
        kernels[operands[1]] = reinterpret_cast<const char*>(&operands[2]);
        break;
      case kOpFunction:
        function = operands[1];
        break;
      case kOpFunctionCall:
        callers[operands[2]].push_back(function);
        break;
      case kOpSubgroupShuffleXor:
        if (known.insert(function).second) found.push_back(function);
        break;
      default:
        break;
    }
    at += words;
  }
  for (size_t i = 0; i < found.size(); ++i) {
    for (const uint32_t caller : callers[found[i]]) {
      if (known.insert(caller).second) found.push_back(caller);
    }
  }
  std::set<std::string> names;
  for (const uint32_t each : found) {
    const auto kernel = kernels.find(each);
    if (kernel != kernels.end()) names.insert(kernel->second);
  }
  return names;
}

}  // namespace keel::emulator::simt

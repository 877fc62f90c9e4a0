// SPDX-License-Identifier: Apache-2.0
#include "backends/level_zero/spirv.h"

#include <algorithm>
#include <cstring>
#include <keel/plugin_kit.hpp>
#include <map>
#include <set>
#include <span>
#include <utility>

namespace keel::gpu {
namespace {

constexpr uint32_t kMagic = 0x07230203;
constexpr size_t kHeaderWords = 5;
// Larger types have no known size. Keeps all sums below overflow.
constexpr uint64_t kMaxBytes = uint64_t{1} << 32;

enum Opcode : uint32_t {
  kEntryPoint = 15,
  kCapability = 17,
  kTypeInt = 21,
  kTypeFloat = 22,
  kTypeVector = 23,
  kTypeArray = 28,
  kTypeStruct = 30,
  kTypePointer = 32,
  kConstant = 43,
  kFunction = 54,
  kFunctionParameter = 55,
  kFunctionEnd = 56,
  kDecorate = 71
};
constexpr uint32_t kCapabilityShader = 1;
constexpr uint32_t kCapabilityKernel = 6;
constexpr uint32_t kModelKernel = 6;
constexpr uint32_t kPacked = 10;  // a decoration
constexpr uint32_t kWorkgroup = 4;
constexpr uint32_t kPrivate = 7;  // SPIR-V's Function

struct Type {
  uint64_t bytes = SpirvParameter::kUnknown;
  uint64_t alignment = 1;
  bool is_pointer = false;
  uint32_t storage = 0;
  uint32_t element = 0;
};

// Reads a module from front to back. A pointer to private memory is a value passed in memory: the
// host passes the value.
class Reader {
 public:
  explicit Reader(std::vector<uint32_t> words) : words_(std::move(words)) {}

  // Returns the defect; NULL for none.
  const char* read(std::vector<SpirvKernel>* out_kernels) {
    if (words_.size() < kHeaderWords || words_[0] != kMagic) return "it is no SPIR-V";
    for (size_t at = kHeaderWords; at < words_.size();) {
      const uint32_t length = words_[at] >> 16;
      if (length == 0 || length > words_.size() - at) return "it is cut short";
      const uint32_t code = words_[at] & 0xffff;
      const auto operands = std::span(words_).subspan(at + 1, length - 1);
      if (code == kFunction) {
        if (is_inside_) return "a function has no end";
        is_inside_ = true;
      }
      if (code == kFunctionEnd) is_inside_ = false;
      if (!take(code, operands)) return "an instruction is cut short";
      at += length;
    }
    if (is_inside_) return "it is cut short";
    if (is_shader_ || !is_kernel_) return "it is not for OpenCL: no capability Kernel, or Shader";
    if (entries_.empty()) return "it has no kernel";
    for (const auto& [id, name] : entries_) {
      const auto function = functions_.find(id);
      if (function == functions_.end()) return "a kernel has no function";
      SpirvKernel kernel = {name, {}};
      for (const uint32_t type : function->second) kernel.parameters.push_back(parameter_of(type));
      out_kernels->push_back(std::move(kernel));
    }
    return nullptr;
  }

 private:
  using Operands = std::span<const uint32_t>;

  Type type(uint32_t id) const {
    const auto found = types_.find(id);
    return found == types_.end() ? Type{} : found->second;
  }

  SpirvParameter parameter_of(uint32_t id) const {
    const Type its = type(id);
    if (!its.is_pointer) return {its.bytes, false};
    if (its.storage == kPrivate) return {type(its.element).bytes, false};
    return {its.bytes, its.storage == kWorkgroup};
  }

  void add(uint32_t id, Type type) {
    if (type.bytes > kMaxBytes) type.bytes = SpirvParameter::kUnknown;
    types_[id] = type;
  }

  void add_struct(Operands operands) {
    const bool is_packed = packed_.count(operands[0]) != 0;
    Type made = {.bytes = 0};
    for (const uint32_t id : operands.subspan(1)) {
      const Type member = type(id);
      if (member.bytes > kMaxBytes || made.bytes > kMaxBytes) return add(operands[0], {});
      const uint64_t alignment = is_packed ? 1 : member.alignment;
      made.bytes = (made.bytes + alignment - 1) / alignment * alignment + member.bytes;
      made.alignment = std::max(made.alignment, alignment);
    }
    made.bytes = (made.bytes + made.alignment - 1) / made.alignment * made.alignment;
    add(operands[0], made);
  }

  void add_sequence(Operands operands, bool is_vector) {
    const Type element = type(operands[1]);
    uint64_t count = operands[2];
    if (!is_vector) {
      const auto constant = constants_.find(operands[2]);
      count = constant == constants_.end() ? 0 : constant->second;
    }
    if (is_vector && count == 3) count = 4;  // as OpenCL stores it
    if (count == 0 || count > kMaxBytes || element.bytes > kMaxBytes || element.bytes == 0 ||
        count > kMaxBytes / element.bytes) {
      return add(operands[0], {});
    }
    const uint64_t bytes = element.bytes * count;
    add(operands[0], {.bytes = bytes, .alignment = is_vector ? bytes : element.alignment});
  }

  // Reads the name of an entry point; it ends with a zero byte.
  static bool read_name(Operands operands, std::string* out_name) {
    for (const uint32_t word : operands) {
      for (uint32_t byte = 0; byte < 4; ++byte) {
        const char letter = static_cast<char>(word >> (8 * byte) & 0xff);
        if (letter == '\0') return true;
        *out_name += letter;
      }
    }
    return false;
  }

  // Returns false for too few operands.
  bool take(uint32_t code, Operands operands) {
    const size_t count = operands.size();
    switch (code) {
      case kCapability:
        if (count < 1) return false;
        is_kernel_ = is_kernel_ || operands[0] == kCapabilityKernel;
        is_shader_ = is_shader_ || operands[0] == kCapabilityShader;
        return true;
      case kEntryPoint: {
        std::string name;
        if (count < 3 || !read_name(operands.subspan(2), &name)) return false;
        if (operands[0] == kModelKernel) entries_.emplace_back(operands[1], std::move(name));
        return true;
      }
      case kDecorate:
        if (count < 2) return false;
        if (operands[1] == kPacked) packed_.insert(operands[0]);
        return true;
      case kTypeInt:
      case kTypeFloat: {
        if (count < 2) return false;
        const uint64_t bytes = operands[1] / 8;
        if (bytes == 0 || bytes > 8) return true;
        add(operands[0], {.bytes = bytes, .alignment = bytes});
        return true;
      }
      case kTypeVector:
      case kTypeArray:
        if (count < 3) return false;
        add_sequence(operands, code == kTypeVector);
        return true;
      case kTypeStruct:
        if (count < 1) return false;
        add_struct(operands);
        return true;
      case kTypePointer:
        if (count < 3) return false;
        add(operands[0], {8, 8, true, operands[1], operands[2]});
        return true;
      case kConstant:
        if (count < 3) return false;
        constants_[operands[1]] =
            operands[2] | (count > 3 ? static_cast<uint64_t>(operands[3]) << 32 : 0);
        return true;
      case kFunction:
        if (count < 4) return false;
        current_ = operands[1];
        functions_[current_].clear();
        return true;
      case kFunctionParameter:
        if (count < 2) return false;
        if (is_inside_) functions_[current_].push_back(operands[0]);
        return true;
      default:
        return true;
    }
  }

  const std::vector<uint32_t> words_;
  std::map<uint32_t, Type> types_;
  std::map<uint32_t, uint64_t> constants_;
  std::map<uint32_t, std::vector<uint32_t>> functions_;  // types of parameters
  std::vector<std::pair<uint32_t, std::string>> entries_;
  std::set<uint32_t> packed_;
  uint32_t current_ = 0;
  bool is_inside_ = false;
  bool is_kernel_ = false;
  bool is_shader_ = false;
};

}  // namespace

keel_status read_spirv(const void* data, uint64_t size, std::vector<SpirvKernel>* out_kernels) {
  std::vector<uint32_t> words(size / sizeof(uint32_t));
  if (!words.empty()) std::memcpy(words.data(), data, words.size() * sizeof(uint32_t));
  const char* const defect = size % sizeof(uint32_t) != 0
                                 ? "it has no whole number of words"
                                 : Reader(std::move(words)).read(out_kernels);
  if (defect == nullptr) return KEEL_OK;
  return kit::fail(KEEL_INVALID_ARGUMENT, "level_zero: the module cannot be loaded: %s", defect);
}

}  // namespace keel::gpu

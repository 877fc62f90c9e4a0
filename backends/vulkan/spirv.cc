// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/spirv.h"

#include <algorithm>
#include <cstring>
#include <keel/plugin_kit.hpp>
#include <map>
#include <optional>
#include <span>
#include <utility>

#ifdef KEEL_VULKAN_SPIRV_TOOLS
#include <spirv-tools/libspirv.h>
#endif

namespace keel::vulkan {

namespace {

// Numbers of the SPIR-V specification, section 3.
constexpr uint32_t kMagic = 0x07230203;
constexpr uint32_t kVersion1_4 = 0x00010400;
constexpr uint32_t kVersion1_5 = 0x00010500;  // the newest version that Vulkan 1.2 accepts
enum Opcode : uint32_t {
  kOpEntryPoint = 15,
  kOpExecutionMode = 16,
  kOpCapability = 17,
  kOpTypeInt = 21,
  kOpTypeFloat = 22,
  kOpTypeVector = 23,
  kOpTypeArray = 28,
  kOpTypeStruct = 30,
  kOpTypePointer = 32,
  kOpTypeForwardPointer = 39,
  kOpConstant = 43,
  kOpConstantComposite = 44,
  kOpSpecConstant = 50,
  kOpSpecConstantComposite = 51,
  kOpVariable = 59,
  kOpDecorate = 71,
  kOpMemberDecorate = 72,
};
constexpr uint32_t kModelGlCompute = 5;
constexpr uint32_t kModeLocalSize = 17;
constexpr uint32_t kDecorationSpecId = 1;
constexpr uint32_t kDecorationArrayStride = 6;
constexpr uint32_t kDecorationBuiltIn = 11;
constexpr uint32_t kDecorationOffset = 35;
constexpr uint32_t kBuiltInWorkgroupSize = 25;
constexpr uint32_t kStorageUniformConstant = 0;
constexpr uint32_t kStorageUniform = 2;
constexpr uint32_t kStoragePushConstant = 9;
constexpr uint32_t kStorageBuffer = 12;

// More arguments than any device has bytes for; limits the list that each kernel of a module gets.
constexpr size_t kMaxArguments = 256;

using Words = std::span<const uint32_t>;  // of the module, which outlives the reader

// A 0-terminated string in the words from |begin|; |*out_next| is the word behind it.
std::optional<std::string> read_string(Words words, size_t begin, size_t* out_next) {
  std::string text;
  for (size_t i = begin; i < words.size(); ++i) {
    char bytes[4];
    std::memcpy(bytes, &words[i], sizeof(bytes));
    for (char byte : bytes) {
      if (byte == '\0') {
        *out_next = i + 1;
        return text;
      }
      text += byte;
    }
  }
  return std::nullopt;
}

// The parsed instructions of a module, by id; operands exclude the opcode word.
class Reader {
 public:
  // Returns false and sets |why| for malformed words.
  bool read(Words words) {
    version_ = words[1];
    for (size_t at = 5; at < words.size();) {
      const uint32_t count = words[at] >> 16;
      const uint32_t opcode = words[at] & 0xffff;
      if (count == 0 || count > words.size() - at) {
        return refuse("an instruction runs over the end of the module");
      }
      if (!read_instruction(opcode, words.subspan(at + 1, count - 1))) {
        return why == nullptr ? refuse("an instruction is too short") : false;
      }
      at += count;
    }
    return true;
  }

  // Converts the parsed instructions to kernels.
  bool describe(SpirvModule* out_module) {
    out_module->capabilities = capabilities_;
    for (const EntryPoint& entry : entry_points_) {
      SpirvKernel kernel;
      kernel.name = entry.name;
      if (!describe_workgroup(entry, &kernel) || !describe_arguments(entry, &kernel)) return false;
      out_module->kernels.push_back(std::move(kernel));
    }
    return out_module->kernels.empty() ? refuse("it has no compute kernel") : true;
  }

  const char* why = nullptr;

 private:
  struct EntryPoint {
    uint32_t id;
    std::string name;
    Words interface;
  };
  struct Constant {
    uint32_t value;
    bool specialised;
  };

  bool refuse(const char* text) {
    why = text;
    return false;
  }

  bool read_instruction(uint32_t opcode, Words operands) {
    const auto has = [&](size_t count) { return operands.size() >= count; };
    switch (opcode) {
      case kOpCapability:
        if (!has(1)) return false;
        capabilities_.push_back(operands[0]);
        return true;
      case kOpEntryPoint:
        return read_entry_point(operands);
      case kOpExecutionMode:
        if (!has(2)) return false;
        if (operands[1] != kModeLocalSize) return true;
        if (!has(5)) return false;
        local_sizes_[operands[0]] = {operands[2], operands[3], operands[4]};
        return true;
      case kOpTypeInt:
      case kOpTypeFloat:
      case kOpTypeVector:
      case kOpTypeArray:
      case kOpTypeStruct:
      case kOpTypePointer:
        if (!has(1)) return false;
        return types_.emplace(operands[0], std::pair(opcode, operands)).second ||
               refuse("an id is given twice");
      case kOpConstant:
      case kOpSpecConstant:
        if (!has(3)) return false;
        constants_[operands[1]] = {operands[2], opcode == kOpSpecConstant};
        return true;
      case kOpConstantComposite:
      case kOpSpecConstantComposite:
        if (!has(2)) return false;
        composites_[operands[1]] = operands.subspan(2);
        return true;
      case kOpVariable:
        return read_variable(operands);
      case kOpDecorate:
        if (!has(2)) return false;
        if (!has(3)) return true;
        if (operands[1] == kDecorationSpecId) constant_ids_[operands[0]] = operands[2];
        if (operands[1] == kDecorationArrayStride) strides_[operands[0]] = operands[2];
        if (operands[1] == kDecorationBuiltIn && operands[2] == kBuiltInWorkgroupSize) {
          workgroup_size_ = operands[0];
        }
        return true;
      case kOpMemberDecorate:
        if (!has(3)) return false;
        if (operands[2] != kDecorationOffset) return true;
        if (!has(4)) return false;
        offsets_[{operands[0], operands[1]}] = operands[3];
        return true;
      default:
        return true;
    }
  }

  bool read_entry_point(Words operands) {
    if (operands.size() < 3) return false;
    size_t next = 0;
    const auto name = read_string(operands, 2, &next);
    if (!name) return refuse("the name of an entry point has no end");
    if (operands[0] != kModelGlCompute) return true;  // a graphics shader
    entry_points_.push_back({operands[1], *name, operands.subspan(next)});
    return true;
  }

  bool read_variable(Words operands) {
    if (operands.size() < 3) return false;
    const uint32_t storage = operands[2];
    if (storage == kStorageUniformConstant || storage == kStorageUniform ||
        storage == kStorageBuffer) {
      return refuse("it binds descriptors: kernels take addresses as push constants");
    }
    if (storage == kStoragePushConstant) push_constants_[operands[1]] = operands[0];
    return true;
  }

  bool describe_workgroup(const EntryPoint& entry, SpirvKernel* out_kernel) {
    if (workgroup_size_ == 0) {
      const auto fixed = local_sizes_.find(entry.id);
      if (fixed == local_sizes_.end()) return refuse("a kernel says nothing of its workgroup size");
      for (size_t axis = 0; axis < 3; ++axis) {
        out_kernel->workgroup[axis].value = fixed->second[axis];
      }
    } else {
      const auto composite = composites_.find(workgroup_size_);
      if (composite == composites_.end() || composite->second.size() != 3) {
        return refuse("its workgroup size is no vector of three constants");
      }
      for (size_t axis = 0; axis < 3; ++axis) {
        const uint32_t id = composite->second[axis];
        const auto constant = constants_.find(id);
        if (constant == constants_.end()) return refuse("its workgroup size is computed");
        SpirvExtent& extent = out_kernel->workgroup[axis];
        extent.value = constant->second.value;
        const auto constant_id = constant_ids_.find(id);
        if (!constant->second.specialised || constant_id == constant_ids_.end()) continue;
        for (size_t other = 0; other < axis; ++other) {
          const SpirvExtent& before = out_kernel->workgroup[other];
          if (before.specialised && before.constant_id == constant_id->second) {
            return refuse("two axes of its workgroup size share a constant");
          }
        }
        extent.specialised = true;
        extent.constant_id = constant_id->second;
      }
    }
    for (const SpirvExtent& extent : out_kernel->workgroup) {
      if (!extent.specialised && extent.value == 0) return refuse("a workgroup size is 0");
    }
    return true;
  }

  // Finds the push constant block of a kernel: from SPIR-V 1.4 on the kernel's interface names the
  // block; earlier versions have a single block.
  bool describe_arguments(const EntryPoint& entry, SpirvKernel* out_kernel) {
    uint32_t pointer = 0;
    if (version_ >= kVersion1_4) {
      for (uint32_t id : entry.interface) {
        const auto variable = push_constants_.find(id);
        if (variable != push_constants_.end()) pointer = variable->second;
      }
    } else if (push_constants_.size() > 1) {
      return refuse("it has several push constant blocks, which takes SPIR-V 1.4");
    } else if (!push_constants_.empty()) {
      pointer = push_constants_.begin()->second;
    }
    if (pointer == 0) return true;  // no arguments
    const auto pointer_type = types_.find(pointer);
    if (pointer_type == types_.end() || pointer_type->second.first != kOpTypePointer ||
        pointer_type->second.second.size() < 3) {
      return refuse("a push constant block has no type");
    }
    const uint32_t block = pointer_type->second.second[2];
    const auto type = types_.find(block);
    if (type == types_.end() || type->second.first != kOpTypeStruct) {
      return refuse("a push constant block is no struct");
    }
    const Words members = type->second.second;
    if (members.size() > 1 + kMaxArguments) return refuse("it has too many push constants");
    for (uint32_t i = 1; i < members.size(); ++i) {
      const auto offset = offsets_.find({block, i - 1});
      const uint64_t size = type_size(members[i], /*depth=*/0);
      if (offset == offsets_.end() || size == 0) {
        return refuse("a push constant block has a member of a type that no argument can have");
      }
      if (offset->second > 1 << 16 || size > 1 << 16) return refuse("a push constant is too large");
      out_kernel->arguments.push_back({offset->second, static_cast<uint32_t>(size)});
    }
    auto& arguments = out_kernel->arguments;
    std::sort(arguments.begin(), arguments.end(),
              [](const SpirvArgument& a, const SpirvArgument& b) { return a.offset < b.offset; });
    for (size_t i = 1; i < arguments.size(); ++i) {
      if (arguments[i].offset < arguments[i - 1].offset + arguments[i - 1].size) {
        return refuse("members of a push constant block overlap");
      }
    }
    return true;
  }

  // Bytes of a value of the type; 0 for types without a size or layout.
  uint64_t type_size(uint32_t id, int depth) {
    if (const auto known = sizes_.find(id); known != sizes_.end()) return known->second;
    const uint64_t size = measure_type(id, depth);
    // A 0 is not cached: the depth limit may have caused it, and 0 rejects the module anyway.
    if (size != 0) sizes_[id] = size;
    return size;
  }

  uint64_t measure_type(uint32_t id, int depth) {
    constexpr int kMaxDepth = 8;
    constexpr uint64_t kMaxSize = 1 << 20;
    const auto found = types_.find(id);
    if (found == types_.end() || depth > kMaxDepth) return 0;
    const Words operands = found->second.second;
    const auto at = [&](size_t i) { return i < operands.size() ? operands[i] : 0; };
    switch (found->second.first) {
      case kOpTypeInt:
      case kOpTypeFloat:
        return at(1) <= 64 ? at(1) / 8 : 0;
      case kOpTypePointer:
        return sizeof(uint64_t);
      case kOpTypeVector:
        return at(2) <= 4 ? type_size(at(1), depth + 1) * at(2) : 0;
      case kOpTypeArray: {
        const auto length = constants_.find(at(2));
        const auto stride = strides_.find(id);
        if (length == constants_.end() || stride == strides_.end()) return 0;
        const uint64_t size = uint64_t{length->second.value} * stride->second;
        return size <= kMaxSize ? size : 0;
      }
      case kOpTypeStruct: {
        uint64_t end = 0;
        for (uint32_t i = 1; i < operands.size(); ++i) {
          const auto offset = offsets_.find({id, i - 1});
          const uint64_t size = type_size(operands[i], depth + 1);
          if (offset == offsets_.end() || size == 0 || offset->second > kMaxSize) return 0;
          end = std::max(end, offset->second + size);
        }
        return end;
      }
      default:
        return 0;
    }
  }

  uint32_t version_ = 0;
  std::vector<uint32_t> capabilities_;
  std::vector<EntryPoint> entry_points_;
  std::map<uint32_t, std::array<uint32_t, 3>> local_sizes_;  // by entry point
  std::map<uint32_t, std::pair<uint32_t, Words>> types_;     // opcode and operands
  std::map<uint32_t, Constant> constants_;                   // the low word of each
  std::map<uint32_t, Words> composites_;                     // ids of the constituents
  std::map<uint32_t, uint32_t> constant_ids_;                // SpecId
  std::map<uint32_t, uint32_t> strides_;                     // of arrays
  // Sizes of types: each type is measured once, since structs of structs would take exponential
  // time.
  std::map<uint32_t, uint64_t> sizes_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> offsets_;  // of (struct, member)
  std::map<uint32_t, uint32_t> push_constants_;                // pointer types of variables
  uint32_t workgroup_size_ = 0;                                // id, 0: none
};

}  // namespace

keel_status read_spirv(const void* data, uint64_t size, SpirvModule* out_module) {
  const auto refuse = [](const char* why) {
    return kit::fail(KEEL_INVALID_ARGUMENT, "vulkan: the SPIR-V module cannot be loaded: %s", why);
  };
  if (size < 5 * sizeof(uint32_t) || size % sizeof(uint32_t) != 0) {
    return refuse("it is no whole number of words, or too short");
  }
  std::vector<uint32_t> words(size / sizeof(uint32_t));
  std::memcpy(words.data(), data, size);
  if (words[0] != kMagic) return refuse("it does not begin with SPIR-V's number");
  if (words[1] > kVersion1_5) return refuse("it is newer than SPIR-V 1.5, the last of Vulkan 1.2");
  Reader reader;
  if (!reader.read(words) || !reader.describe(out_module)) return refuse(reader.why);
  return KEEL_OK;
}

#ifdef KEEL_VULKAN_SPIRV_TOOLS
keel_status validate_spirv(const void* data, uint64_t size) {
  const spv_context context = spvContextCreate(SPV_ENV_VULKAN_1_2);
  if (context == nullptr) return kit::fail(KEEL_OUT_OF_MEMORY, "vulkan: no context of SPIRV-Tools");
  std::vector<uint32_t> words(size / sizeof(uint32_t));
  std::memcpy(words.data(), data, size);
  spv_diagnostic diagnostic = nullptr;
  const spv_result_t result = spvValidateBinary(context, words.data(), words.size(), &diagnostic);
  keel_status status = KEEL_OK;
  if (result != SPV_SUCCESS) {
    status = kit::fail(KEEL_INVALID_ARGUMENT, "vulkan: the SPIR-V module is not valid: %.300s",
                       diagnostic == nullptr ? "no reason given" : diagnostic->error);
  }
  spvDiagnosticDestroy(diagnostic);
  spvContextDestroy(context);
  return status;
}
#else
keel_status validate_spirv(const void*, uint64_t) {
  return KEEL_OK;
}
#endif

}  // namespace keel::vulkan

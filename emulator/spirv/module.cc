// SPDX-License-Identifier: Apache-2.0
#include "emulator/spirv/module.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <stdexcept>

namespace keel::emulator::spirv {
namespace {

constexpr size_t kHeaderWords = 5;
constexpr uint32_t kMaxIds = 1 << 16;
constexpr uint64_t kMaxTypeBytes = 1 << 20;
constexpr uint32_t kCapabilityShader = 1;
constexpr uint32_t kCapabilityKernel = 6;
constexpr uint32_t kCapabilityFloat64 = 10;
constexpr uint32_t kPhysical64 = 2;
constexpr uint32_t kModelKernel = 6;
constexpr uint32_t kDecorationBuiltIn = 11;
constexpr uint32_t kDecorationFuncParamAttr = 38;
constexpr uint32_t kByVal = 2;

// A reason for which a module is not compiled.
struct Refusal {
  std::string why;
};

[[noreturn]] void refuse(std::string why) {
  throw Refusal{std::move(why)};
}

}  // namespace

// Reads a module once, from front to back.
class Parser {
 public:
  explicit Parser(std::vector<uint32_t> words) : words_(std::move(words)), module_(new Module) {}

  std::unique_ptr<Module> parse() {
    if (words_.size() < kHeaderWords || words_[0] != kSpirvMagic) refuse("the module is no SPIR-V");
    if (words_[3] == 0 || words_[3] > kMaxIds) refuse("the module has no sensible bound of ids");
    for (size_t at = kHeaderWords; at < words_.size();) {
      const uint32_t length = words_[at] >> 16;
      if (length == 0 || at + length > words_.size()) refuse("the module is cut short");
      code_ = words_[at] & 0xffff;
      operands_.assign(words_.begin() + static_cast<ptrdiff_t>(at) + 1,
                       words_.begin() + static_cast<ptrdiff_t>(at + length));
      read();
      at += length;
    }
    if (current_ != nullptr) refuse("the module is cut short");
    if (!is_kernel_) refuse("the module is not for OpenCL: it has no capability Kernel");
    if (!is_physical_) refuse("the module has no 64-bit addresses");
    if (entries_.empty()) refuse("the module has no kernel");
    for (const auto& [id, name] : entries_) add_kernel(id, name);
    check_functions();
    module_->ids_.resize(words_[3]);
    const auto at = [&](uint32_t id) -> Module::Id& { return module_->ids_.at(id); };
    for (const auto& [id, type] : module_->types_) at(id).type = &type;
    for (const auto& [id, type] : types_of_) at(id).type_of = &module_->types_.at(type);
    for (const auto& [id, value] : module_->constants_) at(id).constant = &value;
    for (const auto& [id, vector] : builtins_) at(id).builtin = vector;
    return std::move(module_);
  }

 private:
  uint32_t operand(size_t i) const {
    if (i >= operands_.size()) refuse(fmt::format("instruction {} is cut short", code_));
    return operands_[i];
  }
  const Type& type(uint32_t id) const {
    const auto found = module_->types_.find(id);
    if (found == module_->types_.end()) refuse(fmt::format("%{} is no type", id));
    return found->second;
  }
  std::string text(size_t first) const {
    std::string read;
    for (size_t i = first; i < operands_.size(); ++i) {
      for (uint32_t byte = 0; byte < 4; ++byte) {
        const char letter = static_cast<char>(operands_[i] >> (8 * byte) & 0xff);
        if (letter == '\0') return read;
        read += letter;
      }
    }
    refuse("a name has no end");
  }

  void add_type(Type type) {
    if (type.bytes > kMaxTypeBytes) refuse("a type is too large");
    module_->types_[operand(0)] = std::move(type);
  }
  void add_struct() {
    Type made{.kind = TypeKind::kStruct};
    for (size_t i = 1; i < operands_.size(); ++i) {
      const Type& member = type(operands_[i]);
      made.bytes = (made.bytes + member.alignment - 1) / member.alignment * member.alignment;
      made.members.push_back(operands_[i]);
      made.offsets.push_back(made.bytes);
      made.bytes += member.bytes;
      made.alignment = std::max(made.alignment, member.alignment);
    }
    made.bytes = (made.bytes + made.alignment - 1) / made.alignment * made.alignment;
    add_type(std::move(made));
  }
  void add_sequence(bool is_vector) {
    const Type& element = type(operand(1));
    uint64_t count = operand(2);
    if (!is_vector) {
      const auto constant = module_->constants_.find(operand(2));
      if (constant == module_->constants_.end()) refuse("an array has no constant length");
      count = constant->second.words[0];
    }
    if (element.bytes == 0 || count == 0 || count > kMaxTypeBytes || (is_vector && count > 4)) {
      refuse("a vector or an array has too many elements");
    }
    const uint64_t padded = is_vector && count == 3 ? 4 : count;
    add_type({.kind = is_vector ? TypeKind::kVector : TypeKind::kArray,
              .bytes = element.bytes * padded,
              .alignment = is_vector ? element.bytes * padded : element.alignment,
              .element = operand(1),
              .count = static_cast<uint32_t>(count)});
  }

  void add_constant(Value value) {
    (void)type(operand(0));
    module_->constants_[operand(1)] = value;
    types_of_[operand(1)] = operand(0);
  }

  void read() {
    if (current_ != nullptr && code_ != kOpFunctionEnd) return read_body();
    switch (code_) {
      case kOpCapability:
        if (operand(0) == kCapabilityShader) refuse("the module is Vulkan's, not OpenCL's");
        is_kernel_ = is_kernel_ || operand(0) == kCapabilityKernel;
        return;
      case kOpMemoryModel:
        is_physical_ = operand(0) == kPhysical64;
        return;
      case kOpEntryPoint:
        if (operand(0) == kModelKernel) entries_.emplace_back(operand(1), text(2));
        return;
      case kOpDecorate:
        if (operand(1) == kDecorationBuiltIn) builtins_[operand(0)] = operand(2);
        if (operand(1) == kDecorationFuncParamAttr && operand(2) == kByVal) {
          by_value_.insert(operand(0));
        }
        return;
      case kOpTypeVoid:
        return add_type({});
      case kOpTypeBool:
        return add_type({.kind = TypeKind::kBool, .bytes = 1});
      case kOpTypeInt:
      case kOpTypeFloat:
        if (operand(1) == 0 || operand(1) > 64 || operand(1) % 8 != 0) {
          refuse("a number has no bits, or over 64");
        }
        return add_type({.kind = code_ == kOpTypeInt ? TypeKind::kInteger : TypeKind::kFloat,
                         .bytes = operand(1) / 8,
                         .alignment = operand(1) / 8});
      case kOpTypeVector:
      case kOpTypeArray:
        return add_sequence(code_ == kOpTypeVector);
      case kOpTypeStruct:
        return add_struct();
      case kOpTypePointer:
        return add_type({.kind = TypeKind::kPointer,
                         .bytes = 8,
                         .alignment = 8,
                         .element = operand(2),
                         .storage = operand(1)});
      case kOpTypeFunction:
        return add_type({});
      case kOpConstantTrue:
      case kOpConstantFalse:
        return add_constant({{code_ == kOpConstantTrue ? 1u : 0u}});
      case kOpConstantNull:
      case kOpUndef:
        return add_constant({});
      case kOpConstant:
        return add_constant(
            {{operand(2) | (operands_.size() > 3 ? uint64_t{operand(3)} << 32 : 0)}});
      case kOpVariable:
        if (operand(2) != kInput) refuse("the module has variables of its own");
        types_of_[operand(1)] = operand(0);
        module_->constants_[operand(1)] = {};
        return;
      case kOpFunction:
        current_ = &module_->functions_[operand(1)];
        (void)type(operand(0));
        return;
      case kOpFunctionEnd:
        current_ = nullptr;
        return;
      default:
        return;  // names and the like
    }
  }

  void read_body() {
    static const std::set<uint32_t> kWithResult = {kOpFunctionParameter,
                                                   kOpFunctionCall,
                                                   kOpVariable,
                                                   kOpLoad,
                                                   kOpPtrAccessChain,
                                                   kOpInBoundsPtrAccessChain,
                                                   kOpVectorExtractDynamic,
                                                   kOpCompositeExtract,
                                                   kOpUConvert,
                                                   kOpSConvert,
                                                   kOpBitcast,
                                                   kOpIAdd,
                                                   kOpFAdd,
                                                   kOpISub,
                                                   kOpFSub,
                                                   kOpIMul,
                                                   kOpFMul,
                                                   kOpUDiv,
                                                   kOpFDiv,
                                                   kOpUMod,
                                                   kOpSelect,
                                                   kOpIEqual,
                                                   kOpINotEqual,
                                                   kOpUGreaterThan,
                                                   kOpSGreaterThan,
                                                   kOpUGreaterThanEqual,
                                                   kOpSGreaterThanEqual,
                                                   kOpULessThan,
                                                   kOpSLessThan,
                                                   kOpULessThanEqual,
                                                   kOpSLessThanEqual,
                                                   kOpShiftRightLogical,
                                                   kOpShiftLeftLogical,
                                                   kOpBitwiseOr,
                                                   kOpBitwiseXor,
                                                   kOpBitwiseAnd,
                                                   kOpNot};
    static const std::set<uint32_t> kWithout = {
        kOpStore,       kOpCopyMemorySized, kOpControlBarrier,    kOpLoopMerge,   kOpSelectionMerge,
        kOpLabel,       kOpBranch,          kOpBranchConditional, kOpSwitch,      kOpReturn,
        kOpReturnValue, kOpUnreachable,     kOpLifetimeStart,     kOpLifetimeStop};
    constexpr uint32_t kOpLine = 8;
    constexpr uint32_t kOpNoLine = 317;
    if (code_ == kOpLine || code_ == kOpNoLine) return;
    const bool has_result = kWithResult.count(code_) != 0;
    if (!has_result && kWithout.count(code_) == 0) {
      refuse(fmt::format("this driver does not compile SPIR-V's instruction {}", code_));
    }
    Instruction made = {code_, 0, 0, operands_};
    if (has_result) {
      made.type = operand(0);
      made.result = operand(1);
      (void)type(made.type);
      if (made.result == 0 || made.result >= words_[3])
        refuse("an id is beyond the module's bound");
      made.operands.erase(made.operands.begin(), made.operands.begin() + 2);
      types_of_[made.result] = made.type;
      current_->first_id =
          current_->first_id == 0 ? made.result : std::min(current_->first_id, made.result);
      current_->last_id = std::max(current_->last_id, made.result);
    }
    if (code_ == kOpFunctionParameter) {
      current_->parameters.push_back(made.result);
    } else if (code_ == kOpLabel) {
      current_->labels[operand(0)] = current_->body.size();
    } else {
      current_->body.push_back(std::move(made));
    }
  }

  bool reaches_barrier(uint32_t id, std::set<uint32_t>* seen) const {
    const auto found = module_->functions_.find(id);
    if (found == module_->functions_.end() || !seen->insert(id).second) return false;
    for (const Instruction& each : found->second.body) {
      if (each.code == kOpControlBarrier) return true;
      if (each.code == kOpFunctionCall && !each.operands.empty() &&
          reaches_barrier(each.operands[0], seen)) {
        return true;
      }
    }
    return false;
  }

  void add_kernel(uint32_t id, const std::string& name) {
    const auto found = module_->functions_.find(id);
    if (found == module_->functions_.end()) refuse("a kernel has no function");
    std::set<uint32_t> seen;
    Kernel kernel = {name, &found->second, {}, reaches_barrier(id, &seen)};
    for (const uint32_t parameter : found->second.parameters) {
      const Type& its = type(types_of_.at(parameter));
      using Kind = Parameter::Kind;
      if (its.kind != TypeKind::kPointer) {
        if (its.kind != TypeKind::kInteger && its.kind != TypeKind::kFloat) {
          refuse(fmt::format("kernel {} takes what is neither number nor pointer", name));
        }
        kernel.parameters.push_back({Kind::kValue, its.bytes});
      } else if (its.storage == kFunction && by_value_.count(parameter) != 0) {
        kernel.parameters.push_back({Kind::kValueInMemory, type(its.element).bytes});
      } else if (its.storage == kWorkgroup) {
        kernel.parameters.push_back({Kind::kLocal, 0});
      } else if (its.storage == kCrossWorkgroup) {
        kernel.parameters.push_back({Kind::kAddress, 8});
      } else {
        refuse(fmt::format("kernel {} takes a pointer of storage class {}", name, its.storage));
      }
    }
    module_->kernels_.push_back(std::move(kernel));
  }

  // Every function ends and can be entered. The interpreter checks ids where it uses them.
  void check_functions() const {
    for (const auto& [id, function] : module_->functions_) {
      if (function.body.empty()) refuse("a function has no body: it is imported");
      const uint32_t last = function.body.back().code;
      if (last < kOpBranch || last > kOpUnreachable) refuse("a function has no end");
      for (const auto& [label, at] : function.labels) {
        if (at >= function.body.size()) refuse("a block is empty");
      }
    }
  }

  const std::vector<uint32_t> words_;
  std::unique_ptr<Module> module_;
  uint32_t code_ = 0;
  std::vector<uint32_t> operands_;
  bool is_kernel_ = false;
  bool is_physical_ = false;
  std::vector<std::pair<uint32_t, std::string>> entries_;
  std::set<uint32_t> by_value_;
  std::map<uint32_t, uint32_t> types_of_;  // of values, by id
  std::map<uint32_t, uint32_t> builtins_;
  Function* current_ = nullptr;
};

bool needs_doubles(const void* data, size_t bytes) {
  // Capabilities are the first instructions.
  const auto* const from = static_cast<const std::byte*>(data);
  const size_t count = bytes / sizeof(uint32_t);
  for (size_t at = kHeaderWords; at + 1 < count; at += 2) {
    uint32_t words[2];
    std::memcpy(words, from + at * sizeof(uint32_t), sizeof(words));
    if ((words[0] & 0xffff) != kOpCapability) return false;
    if (words[1] == kCapabilityFloat64) return true;
  }
  return false;
}

std::unique_ptr<Module> Module::parse(const void* data, size_t bytes, std::string* out_why) {
  std::vector<uint32_t> words(bytes / sizeof(uint32_t));
  if (!words.empty()) std::memcpy(words.data(), data, words.size() * sizeof(uint32_t));
  try {
    if (bytes % sizeof(uint32_t) != 0) refuse("the module is cut short");
    return Parser(std::move(words)).parse();
  } catch (const Refusal& refusal) {
    *out_why = refusal.why;
  } catch (const std::out_of_range&) {
    *out_why = "the module refers to an id that it does not have";
  }
  return nullptr;
}

const Kernel* Module::find(const std::string& name) const {
  for (const Kernel& kernel : kernels_) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

}  // namespace keel::emulator::spirv

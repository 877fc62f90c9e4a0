// SPDX-License-Identifier: Apache-2.0
#include "backends/level_zero/testing/spirv_code.h"

#include <algorithm>
#include <array>

namespace keel::testing {
namespace {

constexpr uint32_t kMagic = 0x07230203;
constexpr size_t kHeaderWords = 5;

enum Opcode : uint32_t {
  kExtension = 10,
  kExtInstImport = 11,
  kExtInst = 12,
  kMemoryModel = 14,
  kEntryPoint = 15,
  kExecutionMode = 16,
  kCapability = 17,
  kTypeInt = 21,
  kTypeFloat = 22,
  kTypeVector = 23,
  kTypeArray = 28,
  kTypeStruct = 30,
  kTypePointer = 32,
  kConstant = 43,
  kSpecConstantOp = 52,
  kFunction = 54,
  kFunctionParameter = 55,
  kFunctionEnd = 56,
  kFunctionCall = 57,
  kVariable = 59,
  kDecorate = 71,
  kFNegate = 127,
  kFAdd = 129,
  kFSub = 131,
  kFMul = 133,
  kFDiv = 136,
  kFRem = 140,
  kFMod = 141,
  kLabel = 248,
  kSubgroupShuffleXor = 5574
};
constexpr uint32_t kModelKernel = 6;
constexpr uint32_t kWorkgroup = 4;  // storage classes
constexpr uint32_t kPrivate = 7;    // SPIR-V's Function
constexpr uint32_t kNoStorage = UINT32_MAX;
constexpr uint32_t kLocalSize = 17;  // execution modes
constexpr uint32_t kContractionOff = 31;
constexpr uint32_t kSubgroupSize = 35;
constexpr uint32_t kBuiltIn = 11;  // decorations
constexpr uint32_t kFuncParamAttr = 38;
constexpr uint32_t kLinkage = 41;
constexpr uint32_t kByValue = 2;
constexpr uint32_t kImport = 1;
constexpr uint32_t kFloat64 = 10;  // a capability
// Every device that the plugin takes has these: addresses, integers of 8 to 64 bits, 16-bit floats
// in memory, and subgroups. Linkage is that of functions within the module.
constexpr std::array<std::pair<uint32_t, const char*>, 10> kCapabilities = {
    {{4, "Addresses"},
     {5, "Linkage"},
     {6, "Kernel"},
     {8, "Float16Buffer"},
     {11, "Int64"},
     {22, "Int16"},
     {38, "GenericPointer"},
     {39, "Int8"},
     {58, "SubgroupDispatch"},
     {5568, "SubgroupShuffleINTEL"}}};

// Text up to a zero byte; |*out_words| is the number of words that it takes.
std::string text_of(std::span<const uint32_t> operands, size_t* out_words) {
  std::string text;
  for (*out_words = 1; *out_words <= operands.size(); ++*out_words) {
    for (uint32_t byte = 0; byte < 4; ++byte) {
      const char letter = static_cast<char>(operands[*out_words - 1] >> (8 * byte) & 0xff);
      if (letter == '\0') return text;
      text += letter;
    }
  }
  return text;
}

// The operands of an instruction within a function that are ids: all but its literal numbers.
std::vector<uint32_t> ids_of(uint32_t code, std::span<const uint32_t> operands) {
  // Instructions of which only the first operands are ids.
  static const std::map<uint32_t, size_t> leading = {
      {8, 0},    // Line
      {54, 2},   // Function
      {59, 2},   // Variable, here without an initializer
      {61, 3},   // Load
      {62, 2},   // Store
      {63, 2},   // CopyMemory
      {64, 3},   // CopyMemorySized
      {79, 4},   // VectorShuffle
      {81, 3},   // CompositeExtract
      {82, 4},   // CompositeInsert
      {123, 3},  // GenericCastToPtrExplicit
      {246, 2},  // LoopMerge
      {247, 1},  // SelectionMerge
      {250, 3},  // BranchConditional
      {251, 2},  // Switch
      {256, 1},  // LifetimeStart
      {257, 1}   // LifetimeStop
  };
  std::vector<uint32_t> ids(operands.begin(), operands.end());
  if (const auto found = leading.find(code); found != leading.end()) {
    ids.resize(std::min(ids.size(), found->second));
  }
  if (code == kExtInst) ids.erase(ids.begin() + 3);  // number of the function
  return ids;
}

bool is_float_arithmetic(uint32_t code) {
  return code == kFNegate || code == kFAdd || code == kFSub || code == kFMul || code == kFDiv ||
         code == kFRem || code == kFMod;
}

}  // namespace

SpirvCode::SpirvCode(std::span<const uint32_t> words) {
  if (words.size() < kHeaderWords || words[0] != kMagic) {
    unreadable_.emplace_back("it is no SPIR-V");
    return;
  }
  for (size_t at = kHeaderWords; at < words.size();) {
    const uint32_t length = words[at] >> 16;
    if (length == 0 || length > words.size() - at) {
      unreadable_.emplace_back("it is cut short");
      return;
    }
    // Instructions that are read here have up to four operands that must be there.
    std::vector<uint32_t> operands(words.begin() + static_cast<ptrdiff_t>(at) + 1,
                                   words.begin() + static_cast<ptrdiff_t>(at + length));
    operands.resize(std::max<size_t>(operands.size(), 4));
    take(words[at] & 0xffff, operands);
    at += length;
  }
  if (current_ != nullptr) unreadable_.emplace_back("it is cut short");
}

void SpirvCode::take(uint32_t code, Operands operands) {
  size_t words = 0;
  if (current_ != nullptr) {
    current_->opcodes.insert(code);
    const std::vector<uint32_t> ids = ids_of(code, operands);
    current_->ids.insert(ids.begin(), ids.end());
    if (is_float_arithmetic(code) && halves_.count(operands[0]) != 0) computes_in_half_ = true;
  }
  switch (code) {
    case kCapability:
      capabilities_.insert(operands[0]);
      break;
    case kExtension:
      extensions_.push_back(text_of(operands, &words));
      break;
    case kExtInstImport:
      instruction_sets_.push_back(text_of(operands.subspan(1), &words));
      break;
    case kMemoryModel:  // Physical64, OpenCL
      is_for_opencl_ = operands[0] == 2 && operands[1] == 2;
      break;
    case kEntryPoint:
      if (operands[0] == kModelKernel) {
        entries_.emplace_back(text_of(operands.subspan(2), &words), operands[1]);
      }
      break;
    case kExecutionMode:
      modes_[operands[0]][operands[1]] = {operands.begin() + 2, operands.end()};
      break;
    case kDecorate:
      if (operands[1] == kBuiltIn) built_in_.insert(operands[0]);
      if (operands[1] == kFuncParamAttr && operands[2] == kByValue) by_value_.insert(operands[0]);
      if (operands[1] == kLinkage) take_linkage(operands);
      break;
    case kConstant:
      constants_[operands[1]] = operands[2] | static_cast<uint64_t>(operands[3]) << 32;
      break;
    case kSpecConstantOp:
      unreadable_.emplace_back("a constant is computed, for which group memory is not counted");
      break;
    case kVariable:
      if (operands[2] == kWorkgroup) {
        const Type& pointer = types_[operands[0]];
        group_variables_[operands[1]] = types_[pointer.element].bytes;
        if (types_[pointer.element].bytes == 0) {
          unreadable_.emplace_back("a variable of group memory has no known size");
        }
      }
      break;
    case kFunction:
      current_ = &functions_[operands[1]];
      break;
    case kFunctionParameter:
      if (current_ != nullptr) current_->parameters.emplace_back(operands[1], operands[0]);
      break;
    case kLabel:
      if (current_ != nullptr) current_->has_body = true;
      break;
    case kFunctionCall:
      if (current_ != nullptr) current_->callees.insert(operands[2]);
      break;
    case kFunctionEnd:
      current_ = nullptr;
      break;
    default:
      take_type(code, operands);
  }
}

void SpirvCode::take_linkage(Operands operands) {
  size_t words = 0;
  const std::string name = text_of(operands.subspan(2), &words);
  if (2 + words < operands.size() && operands[2 + words] == kImport) imports_[operands[0]] = name;
}

// Sizes as OpenCL lays values out in memory.
void SpirvCode::take_type(uint32_t code, Operands operands) {
  Type made = {.storage = kNoStorage};
  switch (code) {
    case kTypeFloat:
      if (operands[1] == 64) has_doubles_ = true;
      if (operands[1] == 16) halves_.insert(operands[0]);
      [[fallthrough]];
    case kTypeInt:
      made.bytes = made.alignment = operands[1] / 8;
      break;
    case kTypeVector: {
      const uint64_t count = operands[2] == 3 ? 4 : operands[2];
      made.bytes = made.alignment = types_[operands[1]].bytes * count;
      if (halves_.count(operands[1]) != 0) halves_.insert(operands[0]);
      break;
    }
    case kTypeArray:
      made.bytes = types_[operands[1]].bytes * constants_[operands[2]];
      made.alignment = types_[operands[1]].alignment;
      break;
    case kTypeStruct:
      for (const uint32_t member : operands.subspan(1)) {
        if (member == 0) continue;  // beyond the operands
        const Type& type = types_[member];
        made.bytes =
            (made.bytes + type.alignment - 1) / type.alignment * type.alignment + type.bytes;
        made.alignment = std::max(made.alignment, type.alignment);
      }
      made.bytes = (made.bytes + made.alignment - 1) / made.alignment * made.alignment;
      break;
    case kTypePointer:
      made = {.bytes = 8, .alignment = 8, .storage = operands[1], .element = operands[2]};
      break;
    default:
      return;
  }
  made.alignment = std::max<uint64_t>(made.alignment, 1);
  add_type(operands[0], made);
}

std::set<uint32_t> SpirvCode::reached_from(uint32_t id) const {
  std::set<uint32_t> reached = {id};
  for (std::vector<uint32_t> rest = {id}; !rest.empty();) {
    const auto function = functions_.find(rest.back());
    rest.pop_back();
    if (function == functions_.end()) continue;
    for (const uint32_t callee : function->second.callees) {
      if (reached.insert(callee).second) rest.push_back(callee);
    }
  }
  return reached;
}

bool SpirvCode::reaches(uint32_t id, uint32_t opcode) const {
  const std::set<uint32_t> reached = reached_from(id);
  return std::any_of(reached.begin(), reached.end(), [&](uint32_t each) {
    const auto function = functions_.find(each);
    return function != functions_.end() && function->second.opcodes.count(opcode) != 0;
  });
}

const uint32_t* SpirvCode::entry(const std::string& kernel) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const auto& each) { return each.first == kernel; });
  return found == entries_.end() ? nullptr : &found->second;
}

bool SpirvCode::shuffles(const std::string& kernel) const {
  const uint32_t* const id = entry(kernel);
  return id != nullptr && reaches(*id, kSubgroupShuffleXor);
}

uint64_t SpirvCode::local_bytes(const std::string& kernel) const {
  const uint32_t* const id = entry(kernel);
  if (id == nullptr) return 0;
  std::set<uint32_t> used;
  for (const uint32_t each : reached_from(*id)) {
    const auto function = functions_.find(each);
    if (function == functions_.end()) continue;
    for (const auto& [variable, bytes] : group_variables_) {
      if (function->second.ids.count(variable) != 0) used.insert(variable);
    }
  }
  uint64_t sum = 0;
  for (const uint32_t variable : used) sum += group_variables_.at(variable);
  return sum;
}

void SpirvCode::check_module(bool has_doubles, std::vector<std::string>& out) const {
  if (!is_for_opencl_) out.emplace_back("its memory model is not OpenCL's of 64 bits");
  for (const uint32_t each : capabilities_) {
    const bool is_known = std::any_of(kCapabilities.begin(), kCapabilities.end(),
                                      [&](const auto& known) { return known.first == each; });
    if (is_known || (each == kFloat64 && has_doubles)) continue;
    out.push_back("it declares capability " + std::to_string(each) + ", for which nobody asks");
  }
  for (const std::string& each : extensions_) {
    if (each != "SPV_INTEL_subgroups") out.push_back("it needs the extension " + each);
  }
  for (const std::string& each : instruction_sets_) {
    if (each != "OpenCL.std") out.push_back("it needs the instruction set " + each);
  }
  for (const auto& [id, name] : imports_) {
    if (built_in_.count(id) == 0) out.push_back("it imports " + name);
  }
  for (const auto& [id, function] : functions_) {
    if (!function.has_body) out.push_back("function " + std::to_string(id) + " has no body");
    for (const uint32_t callee : function.callees) {
      if (functions_.count(callee) == 0) out.push_back("a function that is called is not there");
    }
  }
  if (has_doubles_ && !has_doubles) out.emplace_back("it has 64-bit floats");
  if (computes_in_half_) out.emplace_back("it computes in 16-bit floats, which it only stores");
}

void SpirvCode::check_kernel(const KernelCall& call, uint64_t local_bytes,
                             std::vector<std::string>& out) const {
  const auto say = [&](const std::string& text) { out.push_back(call.name + " " + text); };
  const uint32_t* const id = entry(call.name);
  if (id == nullptr) return say("has no entry point");
  const auto function = functions_.find(*id);
  if (function == functions_.end()) return say("has no entry point");
  const auto& parameters = function->second.parameters;
  if (parameters.size() != 1) {
    return say("takes " + std::to_string(parameters.size()) + " arguments, not 1");
  }
  const auto pointer = types_.find(parameters[0].second);
  const auto type = pointer == types_.end() ? types_.end() : types_.find(pointer->second.element);
  if (type == types_.end() || pointer->second.storage != kPrivate ||
      by_value_.count(parameters[0].first) == 0) {
    say("does not take its argument by value");
  } else if (type->second.bytes != call.argument_bytes) {
    say("takes " + std::to_string(type->second.bytes) + " bytes, not " +
        std::to_string(call.argument_bytes));
  }
  const auto found = modes_.find(*id);
  const auto mode = [&](uint32_t which) {
    if (found == modes_.end() || found->second.count(which) == 0) return std::vector<uint32_t>();
    return found->second.at(which);
  };
  const std::vector<uint32_t> group = mode(kLocalSize);
  if (group.size() < 3 || group[0] != call.threads || group[1] != 1 || group[2] != 1) {
    say("does not require groups of " + std::to_string(call.threads));
  }
  const std::vector<uint32_t> subgroup = mode(kSubgroupSize);
  if (subgroup.empty() || subgroup[0] != call.subgroup) {
    say("does not require subgroups of " + std::to_string(call.subgroup));
  }
  // A driver may fuse a product and a sum otherwise.
  const bool may_fuse = reaches(*id, kFMul) && (reaches(*id, kFAdd) || reaches(*id, kFSub));
  if (may_fuse && (found == modes_.end() || found->second.count(kContractionOff) == 0)) {
    say("allows contraction");
  }
  if (const uint64_t used = this->local_bytes(call.name); used > local_bytes) {
    say("takes " + std::to_string(used) + " bytes of group memory of " +
        std::to_string(local_bytes));
  }
}

std::vector<std::string> SpirvCode::defects(const std::vector<KernelCall>& calls, bool has_doubles,
                                            uint64_t local_bytes) const {
  std::vector<std::string> found = unreadable_;
  check_module(has_doubles, found);
  for (const KernelCall& call : calls) check_kernel(call, local_bytes, found);
  for (const auto& entry : entries_) {
    const bool is_named = std::any_of(calls.begin(), calls.end(), [&](const KernelCall& call) {
      return call.name == entry.first;
    });
    if (!is_named) found.push_back(entry.first + " is a kernel that nobody launches");
  }
  return found;
}

}  // namespace keel::testing

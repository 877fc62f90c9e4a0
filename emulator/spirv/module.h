// SPDX-License-Identifier: Apache-2.0
// Modules of SPIR-V with OpenCL's kernels, as a driver reads them. The parser takes the code that
// compilers write for scalar kernels in C without an optimiser, and refuses other modules with a
// reason.
#ifndef KEEL_EMULATOR_SPIRV_MODULE_H_
#define KEEL_EMULATOR_SPIRV_MODULE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace keel::emulator::spirv {

inline constexpr uint32_t kSpirvMagic = 0x07230203;

// A value of an instruction: a scalar, an address, or up to four components of a vector.
struct Value {
  uint64_t words[4] = {};
};

enum class TypeKind : uint8_t {
  kVoid,
  kBool,
  kInteger,
  kFloat,
  kVector,
  kArray,
  kStruct,
  kPointer
};

// The storage classes in use.
enum StorageClass : uint32_t { kInput = 1, kWorkgroup = 4, kCrossWorkgroup = 5, kFunction = 7 };

struct Type {
  TypeKind kind = TypeKind::kVoid;
  uint64_t bytes = 0;
  uint64_t alignment = 1;
  uint32_t element = 0;  // type id of a vector's, an array's or a pointer's element
  uint32_t count = 0;    // elements
  uint32_t storage = 0;  // of a pointer
  std::vector<uint32_t> members = {};
  std::vector<uint64_t> offsets = {};  // of |members|
};

struct Instruction {
  uint32_t code;
  uint32_t type;    // 0: none
  uint32_t result;  // 0: none
  std::vector<uint32_t> operands;
};

struct Function {
  std::vector<uint32_t> parameters;
  std::vector<Instruction> body;
  std::map<uint32_t, size_t> labels;  // places in |body|
  // The ids of its values.
  uint32_t first_id = 0;
  uint32_t last_id = 0;
};

// A parameter of a kernel, as the host sets it.
struct Parameter {
  enum class Kind : uint8_t { kAddress, kLocal, kValue, kValueInMemory };
  Kind kind;
  uint64_t bytes;  // of a value
};

struct Kernel {
  std::string name;
  const Function* function = nullptr;
  std::vector<Parameter> parameters;
  bool has_barrier = false;  // in its function, or in one that it calls
};

// Whether |bytes| declare 64-bit floats, whatever else they are.
bool needs_doubles(const void* data, size_t bytes);

// Immutable after parse.
class Module {
 public:
  // Returns NULL with a reason if |bytes| are no module, or one that this driver does not compile.
  static std::unique_ptr<Module> parse(const void* data, size_t bytes, std::string* out_why);

  // NULL if there is no such kernel.
  const Kernel* find(const std::string& name) const;
  // These throw std::out_of_range for an id that is no type, has no type, or is no function.
  const Type& type(uint32_t id) const { return checked(ids_.at(id).type); }
  const Type& type_of(uint32_t id) const { return checked(ids_.at(id).type_of); }
  const Function& function(uint32_t id) const { return functions_.at(id); }
  // The value of a constant; NULL for any other id. Their ids lie between those of functions.
  const Value* constant(uint32_t id) const { return ids_.at(id).constant; }
  // The built-in vector of a variable of the module, in SPIR-V's numbers; 0 for any other id.
  uint32_t builtin(uint32_t id) const { return ids_.at(id).builtin; }

 private:
  friend class Parser;
  Module() = default;

  // Facts about an id.
  struct Id {
    const Type* type = nullptr;     // that it is
    const Type* type_of = nullptr;  // that its value has
    const Value* constant = nullptr;
    uint32_t builtin = 0;
  };

  static const Type& checked(const Type* type) {
    if (type == nullptr) throw std::out_of_range("id");
    return *type;
  }

  std::vector<Id> ids_;  // up to the module's bound
  std::map<uint32_t, Type> types_;
  std::map<uint32_t, Value> constants_;
  std::map<uint32_t, Function> functions_;
  std::vector<Kernel> kernels_;
};

// Instructions by their numbers.
enum Opcode : uint32_t {
  kOpName = 5,
  kOpMemoryModel = 14,
  kOpEntryPoint = 15,
  kOpCapability = 17,
  kOpTypeVoid = 19,
  kOpTypeBool = 20,
  kOpTypeInt = 21,
  kOpTypeFloat = 22,
  kOpTypeVector = 23,
  kOpTypeArray = 28,
  kOpTypeStruct = 30,
  kOpTypePointer = 32,
  kOpTypeFunction = 33,
  kOpConstantTrue = 41,
  kOpConstantFalse = 42,
  kOpConstant = 43,
  kOpConstantNull = 46,
  kOpUndef = 1,
  kOpFunction = 54,
  kOpFunctionParameter = 55,
  kOpFunctionEnd = 56,
  kOpFunctionCall = 57,
  kOpVariable = 59,
  kOpLoad = 61,
  kOpStore = 62,
  kOpCopyMemorySized = 64,
  kOpPtrAccessChain = 67,
  kOpInBoundsPtrAccessChain = 70,
  kOpDecorate = 71,
  kOpVectorExtractDynamic = 77,
  kOpCompositeExtract = 81,
  kOpUConvert = 113,
  kOpSConvert = 114,
  kOpBitcast = 124,
  kOpIAdd = 128,
  kOpFAdd = 129,
  kOpISub = 130,
  kOpFSub = 131,
  kOpIMul = 132,
  kOpFMul = 133,
  kOpUDiv = 134,
  kOpFDiv = 136,
  kOpUMod = 137,
  kOpSelect = 169,
  kOpIEqual = 170,
  kOpINotEqual = 171,
  kOpUGreaterThan = 172,
  kOpSGreaterThan = 173,
  kOpUGreaterThanEqual = 174,
  kOpSGreaterThanEqual = 175,
  kOpULessThan = 176,
  kOpSLessThan = 177,
  kOpULessThanEqual = 178,
  kOpSLessThanEqual = 179,
  kOpShiftRightLogical = 194,
  kOpShiftLeftLogical = 196,
  kOpBitwiseOr = 197,
  kOpBitwiseXor = 198,
  kOpBitwiseAnd = 199,
  kOpNot = 200,
  kOpControlBarrier = 224,
  kOpLoopMerge = 246,
  kOpSelectionMerge = 247,
  kOpLabel = 248,
  kOpBranch = 249,
  kOpBranchConditional = 250,
  kOpSwitch = 251,
  kOpReturn = 253,
  kOpReturnValue = 254,
  kOpUnreachable = 255,
  kOpLifetimeStart = 256,
  kOpLifetimeStop = 257
};

}  // namespace keel::emulator::spirv

#endif  // KEEL_EMULATOR_SPIRV_MODULE_H_

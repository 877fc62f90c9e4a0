// SPDX-License-Identifier: Apache-2.0
// Reads a SPIR-V module of operators' kernels for what a driver would refuse or compute otherwise.
#ifndef KEEL_BACKENDS_LEVEL_ZERO_TESTING_SPIRV_CODE_H_
#define KEEL_BACKENDS_LEVEL_ZERO_TESTING_SPIRV_CODE_H_

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace keel::testing {

// One kernel as its callers and the device know it.
struct KernelCall {
  std::string name;
  uint64_t argument_bytes;  // of its one argument, a struct
  uint32_t threads;         // of a group
  uint32_t subgroup;
};

class SpirvCode {
 public:
  // |words| may be anything: what cannot be read is a defect.
  explicit SpirvCode(std::span<const uint32_t> words);

  // Each defect of the module as a sentence, for devices with |local_bytes| of group memory.
  // |calls|: all kernels that it must have. |has_doubles|: it may use 64-bit floats.
  std::vector<std::string> defects(const std::vector<KernelCall>& calls, bool has_doubles,
                                   uint64_t local_bytes) const;
  // Bytes of group memory of a kernel and the functions that it calls; 0 for an unknown kernel.
  uint64_t local_bytes(const std::string& kernel) const;
  // Whether a kernel, or a function that it calls, shuffles within a subgroup.
  bool shuffles(const std::string& kernel) const;

 private:
  using Operands = std::span<const uint32_t>;
  struct Type {
    uint64_t bytes = 0;  // 0: unknown
    uint64_t alignment = 1;
    uint32_t storage = 0;  // of a pointer, else kNoStorage
    uint32_t element = 0;  // type of a pointer's target
  };
  struct Function {
    bool has_body = false;
    std::vector<std::pair<uint32_t, uint32_t>> parameters;  // id and type
    std::set<uint32_t> opcodes;
    std::set<uint32_t> ids;  // operands
    std::set<uint32_t> callees;
  };

  void take(uint32_t code, Operands operands);
  void take_type(uint32_t code, Operands operands);
  void take_linkage(Operands operands);
  void add_type(uint32_t id, const Type& type) { types_[id] = type; }
  // The ids of the function |id| and of those that it calls, directly or not.
  std::set<uint32_t> reached_from(uint32_t id) const;
  bool reaches(uint32_t id, uint32_t opcode) const;
  const uint32_t* entry(const std::string& kernel) const;
  void check_module(bool has_doubles, std::vector<std::string>& out) const;
  void check_kernel(const KernelCall& call, uint64_t local_bytes,
                    std::vector<std::string>& out) const;

  std::vector<std::string> unreadable_;
  std::set<uint32_t> capabilities_;
  std::vector<std::string> extensions_;
  std::vector<std::string> instruction_sets_;
  std::vector<std::pair<std::string, uint32_t>> entries_;                // name and function
  std::map<uint32_t, std::map<uint32_t, std::vector<uint32_t>>> modes_;  // of entries
  std::map<uint32_t, Type> types_;
  std::map<uint32_t, uint64_t> constants_;
  std::map<uint32_t, uint64_t> group_variables_;  // bytes
  std::map<uint32_t, std::string> imports_;
  std::set<uint32_t> built_in_;
  std::set<uint32_t> by_value_;  // parameters
  std::map<uint32_t, Function> functions_;
  std::set<uint32_t> halves_;  // types
  Function* current_ = nullptr;
  bool has_doubles_ = false;
  bool is_for_opencl_ = false;
  bool computes_in_half_ = false;
};

}  // namespace keel::testing

#endif  // KEEL_BACKENDS_LEVEL_ZERO_TESTING_SPIRV_CODE_H_

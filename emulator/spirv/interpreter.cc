// SPDX-License-Identifier: Apache-2.0
#include "emulator/spirv/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "emulator/spirv/arithmetic.h"

namespace keel::emulator::spirv {
namespace {

// Private memory of a thread, and calls within calls.
constexpr uint64_t kPrivateBytes = 16 << 10;
constexpr size_t kMaxFrames = 64;
constexpr uint64_t kMaxLocalBytes = 64 << 10;
constexpr std::byte kPoison{0xa5};

// The built-in vectors, in SPIR-V's numbers.
enum BuiltIn : uint32_t {
  kNumWorkgroups = 24,
  kWorkgroupSize = 25,
  kWorkgroupId = 26,
  kLocalInvocationId = 27,
  kGlobalInvocationId = 28,
  kGlobalSize = 31
};

struct Failure {
  Status status;
};

[[noreturn]] void fail(std::string why) {
  throw Failure{{Code::kFailed, std::move(why)}};
}

using Triple = std::array<uint32_t, 3>;

struct Frame {
  const Function* function;
  size_t at;           // in its body
  size_t values;       // where its values begin on the stack
  uint64_t memory;     // the private memory in use before
  uint32_t result_id;  // of the call, in the frame below; 0: none
};

struct Thread {
  std::vector<Frame> frames;
  std::vector<Value> stack;
  std::vector<std::byte> memory = std::vector<std::byte>(kPrivateBytes);
  uint64_t memory_used = 0;
  Triple id = {};
  bool is_at_barrier = false;
};

class Interpreter {
 public:
  Interpreter(const Module& module, const Kernel& kernel, const Launch& launch, Access& access)
      : module_(module), kernel_(kernel), launch_(launch), access_(access) {}

  void run() {
    uint64_t local_bytes = 0;
    for (const Argument& argument : launch_.arguments) {
      local_bytes += (argument.local_bytes + 15) / 16 * 16;
    }
    if (local_bytes > kMaxLocalBytes) fail("more local memory than a group has");
    local_.resize(local_bytes);
    const Triple& size = launch_.group;
    threads_.resize(kernel_.has_barrier ? size_t{size[0]} * size[1] * size[2] : 1);
    const Triple& grid = launch_.grid;
    for (group_[2] = 0; group_[2] < grid[2]; ++group_[2]) {
      for (group_[1] = 0; group_[1] < grid[1]; ++group_[1]) {
        for (group_[0] = 0; group_[0] < grid[0]; ++group_[0]) run_group();
      }
    }
  }

 private:
  // ---- groups ----

  void run_group() {
    std::fill(local_.begin(), local_.end(), kPoison);
    const Triple& size = launch_.group;
    const uint32_t count = size[0] * size[1] * size[2];
    const auto place = [&](Thread& thread, uint32_t at) {
      thread.id = {at % size[0], at / size[0] % size[1], at / size[0] / size[1]};
      start(thread);
    };
    // Without a barrier the threads run one after the other, in the same memory.
    for (uint32_t i = 0; !kernel_.has_barrier && i < count; ++i) {
      place(threads_[0], i);
      while (!threads_[0].frames.empty()) step(threads_[0]);
    }
    if (!kernel_.has_barrier) return;
    for (uint32_t i = 0; i < count; ++i) place(threads_[i], i);
    while (true) {
      size_t waiting = 0;
      for (Thread& thread : threads_) {
        if (thread.frames.empty()) continue;
        thread.is_at_barrier = false;
        while (!thread.frames.empty() && !thread.is_at_barrier) step(thread);
        if (thread.is_at_barrier) ++waiting;
      }
      if (waiting == 0) return;
      if (waiting != threads_.size()) fail("a barrier that not all threads of the group reach");
    }
  }

  void start(Thread& thread) {
    thread.stack.clear();
    thread.memory_used = 0;
    enter(thread, *kernel_.function, /*result_id=*/0);
    uint64_t local_used = 0;
    for (size_t i = 0; i < kernel_.parameters.size(); ++i) {
      const Parameter& parameter = kernel_.parameters[i];
      const Argument& argument = launch_.arguments[i];
      Value value;
      if (parameter.kind == Parameter::Kind::kLocal) {
        local_used = (local_used + 15) / 16 * 16;
        value.words[0] = reinterpret_cast<uintptr_t>(local_.data() + local_used);
        local_used += argument.local_bytes;
      } else if (parameter.kind == Parameter::Kind::kValueInMemory) {
        std::byte* const copy = allocate(thread, argument.bytes.size());
        std::copy(argument.bytes.begin(), argument.bytes.end(), copy);
        value.words[0] = reinterpret_cast<uintptr_t>(copy);
      } else {
        std::memcpy(value.words, argument.bytes.data(), argument.bytes.size());
      }
      set(thread, kernel_.function->parameters[i], value);
    }
  }

  void enter(Thread& thread, const Function& function, uint32_t result_id) {
    if (thread.frames.size() >= kMaxFrames) fail("too many calls within calls");
    thread.frames.push_back({&function, 0, thread.stack.size(), thread.memory_used, result_id});
    const size_t values = function.first_id == 0 ? 0 : function.last_id - function.first_id + 1;
    thread.stack.resize(thread.stack.size() + values);
  }

  void leave(Thread& thread, const Value* result) {
    const Frame frame = thread.frames.back();
    thread.frames.pop_back();
    thread.stack.resize(frame.values);
    thread.memory_used = frame.memory;
    if (result != nullptr && frame.result_id != 0) set(thread, frame.result_id, *result);
  }

  std::byte* allocate(Thread& thread, uint64_t bytes) {
    const uint64_t begin = (thread.memory_used + 15) / 16 * 16;
    if (bytes > kPrivateBytes || begin + bytes > kPrivateBytes) fail("too much private memory");
    thread.memory_used = begin + bytes;
    std::byte* const memory = thread.memory.data() + begin;
    std::fill_n(memory, bytes, kPoison);
    return memory;
  }

  // ---- values ----

  void set(Thread& thread, uint32_t id, const Value& value) const {
    const Frame& frame = thread.frames.back();
    thread.stack[frame.values + id - frame.function->first_id] = value;
  }
  const Value& get(const Thread& thread, uint32_t id) const {
    if (const Value* const constant = module_.constant(id)) return *constant;
    const Frame& frame = thread.frames.back();
    if (frame.function->first_id == 0 || id < frame.function->first_id ||
        id > frame.function->last_id) {
      throw std::out_of_range("id");
    }
    return thread.stack[frame.values + id - frame.function->first_id];
  }
  uint64_t number(const Thread& thread, uint32_t id) const { return get(thread, id).words[0]; }
  // The same with the sign of an integer of |id|'s type.
  int64_t signed_number(const Thread& thread, uint32_t id) const {
    const uint64_t bits = 8 * module_.type_of(id).bytes;
    const auto value = number(thread, id);
    return bits >= 64 ? static_cast<int64_t>(value)
                      : static_cast<int64_t>(value << (64 - bits)) >> (64 - bits);
  }
  static uint64_t cut(uint64_t value, uint64_t bytes) {
    return bytes >= 8 ? value : value & ((uint64_t{1} << (8 * bytes)) - 1);
  }

  // ---- memory ----

  static bool is_within(const std::vector<std::byte>& memory, uint64_t address, uint64_t size) {
    const auto begin = reinterpret_cast<uintptr_t>(memory.data());
    return address >= begin && size <= memory.size() && address - begin <= memory.size() - size;
  }

  std::byte* reach(Thread& thread, uint32_t pointer_id, uint64_t size) {
    const Type& pointer = module_.type_of(pointer_id);
    const uint64_t address = number(thread, pointer_id);
    if (pointer.storage == kFunction || pointer.storage == kWorkgroup) {
      const auto& memory = pointer.storage == kFunction ? thread.memory : local_;
      if (is_within(memory, address, size)) return reinterpret_cast<std::byte*>(address);
      throw Failure{{Code::kIllegalAddress, "an access outside of private or local memory"}};
    }
    if (pointer.storage != kCrossWorkgroup) fail("a pointer of another storage class");
    for (const Reach& known : known_) {
      if (address >= known.begin && size <= known.size &&
          address - known.begin <= known.size - size) {
        return known.data + (address - known.begin);
      }
    }
    std::byte* data = nullptr;
    Status status = access_.reach(address, size, &data);
    Reach block = {};
    if (status.ok()) status = access_.reach_block(address, &block);
    if (!status.ok()) throw Failure{std::move(status)};
    known_.push_back(block);
    return data;
  }

  void load(Thread& thread, const Instruction& now) {
    if (const uint32_t builtin = module_.builtin(now.operands.at(0)); builtin != 0) {
      return set(thread, now.result, vector(thread, builtin));
    }
    const Type& type = module_.type(now.type);
    const std::byte* const from = reach(thread, now.operands[0], type.bytes);
    Value value;
    if (type.kind == TypeKind::kVector) {
      const uint64_t each = module_.type(type.element).bytes;
      for (uint32_t i = 0; i < type.count; ++i) std::memcpy(&value.words[i], from + i * each, each);
    } else if (type.bytes <= 8) {
      std::memcpy(value.words, from, type.bytes);
    } else {
      fail("a load of a whole array or struct");
    }
    set(thread, now.result, value);
  }

  void store(Thread& thread, const Instruction& now) {
    const Type& type = module_.type_of(now.operands.at(1));
    std::byte* const to = reach(thread, now.operands[0], type.bytes);
    const Value& value = get(thread, now.operands[1]);
    if (type.kind == TypeKind::kVector) {
      const uint64_t each = module_.type(type.element).bytes;
      for (uint32_t i = 0; i < type.count; ++i) std::memcpy(to + i * each, &value.words[i], each);
    } else if (type.bytes <= 8) {
      std::memcpy(to, value.words, type.bytes);
    } else {
      fail("a store of a whole array or struct");
    }
  }

  // The address of an element of an element ... of what the pointer's element follows.
  uint64_t chain(const Thread& thread, const Instruction& now) const {
    const uint32_t base = now.operands.at(0);
    uint32_t type = module_.type_of(base).element;
    uint64_t address =
        number(thread, base) +
        module_.type(type).bytes * static_cast<uint64_t>(signed_number(thread, now.operands.at(1)));
    for (size_t i = 2; i < now.operands.size(); ++i) {
      const Type& outer = module_.type(type);
      const int64_t index = signed_number(thread, now.operands[i]);
      if (outer.kind == TypeKind::kStruct) {
        const auto member = static_cast<size_t>(index);
        address += outer.offsets.at(member);
        type = outer.members.at(member);
      } else {
        type = outer.element;
        address += module_.type(type).bytes * static_cast<uint64_t>(index);
      }
    }
    return address;
  }

  Value vector(const Thread& thread, uint32_t builtin) const {
    Value value;
    for (uint32_t axis = 0; axis < 3; ++axis) {
      const uint64_t size = launch_.group[axis];
      switch (builtin) {
        case kNumWorkgroups:
          value.words[axis] = launch_.grid[axis];
          break;
        case kWorkgroupSize:
          value.words[axis] = size;
          break;
        case kWorkgroupId:
          value.words[axis] = group_[axis];
          break;
        case kLocalInvocationId:
          value.words[axis] = thread.id[axis];
          break;
        case kGlobalInvocationId:
          value.words[axis] = group_[axis] * size + thread.id[axis];
          break;
        case kGlobalSize:
          value.words[axis] = launch_.grid[axis] * size;
          break;
        default:
          fail(fmt::format("a built-in variable of another kind, {}", builtin));
      }
    }
    return value;
  }

  // ---- arithmetic ----

  uint64_t compute(const Thread& thread, const Instruction& now) const {
    const uint64_t bytes = module_.type(now.type).bytes;
    const uint32_t first = now.operands.at(0);
    const uint32_t second = now.code == kOpNot ? first : now.operands.at(1);
    uint64_t result = 0;
    const bool done =
        is_real(now.code)
            ? compute_real(now.code, bytes, number(thread, first), number(thread, second), &result)
            : compute_integer(now.code, number(thread, first), number(thread, second),
                              signed_number(thread, first), signed_number(thread, second), &result);
    if (!done) fail(fmt::format("instruction {} cannot run", now.code));
    return cut(result, bytes);
  }

  // ---- control ----

  static void go_to(Thread& thread, uint32_t label) {
    Frame& frame = thread.frames.back();
    frame.at = frame.function->labels.at(label);
  }

  void choose(Thread& thread, const Instruction& now) const {
    const uint32_t selector = now.operands.at(0);
    const uint64_t value = number(thread, selector);
    const size_t literal_words = module_.type_of(selector).bytes > 4 ? 2 : 1;
    uint32_t label = now.operands.at(1);
    for (size_t i = 2; i + literal_words < now.operands.size(); i += literal_words + 1) {
      uint64_t literal = now.operands[i];
      if (literal_words == 2) literal |= uint64_t{now.operands[i + 1]} << 32;
      if (literal == value) label = now.operands[i + literal_words];
    }
    go_to(thread, label);
  }

  void call(Thread& thread, const Instruction& now) {
    const Function& called = module_.function(now.operands.at(0));
    if (called.parameters.size() + 1 != now.operands.size()) fail("a call with other arguments");
    std::vector<Value> arguments;
    for (size_t i = 1; i < now.operands.size(); ++i) {
      arguments.push_back(get(thread, now.operands[i]));
    }
    enter(thread, called, now.result);
    for (size_t i = 0; i < arguments.size(); ++i) set(thread, called.parameters[i], arguments[i]);
  }

  // Runs one instruction.
  void step(Thread& thread) {
    Frame& frame = thread.frames.back();
    const Instruction& now = frame.function->body.at(frame.at++);
    switch (now.code) {
      case kOpVariable: {
        const Type& pointer = module_.type(now.type);
        if (pointer.storage != kFunction) fail("a variable of another storage class");
        std::byte* const memory = allocate(thread, module_.type(pointer.element).bytes);
        return set(thread, now.result, {{reinterpret_cast<uintptr_t>(memory)}});
      }
      case kOpLoad:
        return load(thread, now);
      case kOpStore:
        return store(thread, now);
      case kOpCopyMemorySized: {
        const uint64_t size = number(thread, now.operands.at(2));
        std::memmove(reach(thread, now.operands[0], size), reach(thread, now.operands[1], size),
                     size);
        return;
      }
      case kOpPtrAccessChain:
      case kOpInBoundsPtrAccessChain:
        return set(thread, now.result, {{chain(thread, now)}});
      case kOpVectorExtractDynamic:
        return set(
            thread, now.result,
            {{get(thread, now.operands.at(0)).words[number(thread, now.operands.at(1)) % 4]}});
      case kOpCompositeExtract:
        return set(thread, now.result,
                   {{get(thread, now.operands.at(0)).words[now.operands.at(1) % 4]}});
      case kOpBitcast:
        return set(thread, now.result, get(thread, now.operands.at(0)));
      case kOpUConvert:
        return set(thread, now.result,
                   {{cut(number(thread, now.operands.at(0)), module_.type(now.type).bytes)}});
      case kOpSConvert:
        return set(thread, now.result,
                   {{cut(static_cast<uint64_t>(signed_number(thread, now.operands.at(0))),
                         module_.type(now.type).bytes)}});
      case kOpSelect:
        return set(thread, now.result,
                   get(thread, now.operands.at(number(thread, now.operands.at(0)) != 0 ? 1 : 2)));
      case kOpFunctionCall:
        return call(thread, now);
      case kOpControlBarrier:
        thread.is_at_barrier = true;
        return;
      case kOpLoopMerge:
      case kOpSelectionMerge:
      case kOpLifetimeStart:
      case kOpLifetimeStop:
        return;
      case kOpBranch:
        return go_to(thread, now.operands.at(0));
      case kOpBranchConditional:
        return go_to(thread, now.operands.at(number(thread, now.operands.at(0)) != 0 ? 1 : 2));
      case kOpSwitch:
        return choose(thread, now);
      case kOpReturn:
        return leave(thread, nullptr);
      case kOpReturnValue: {
        const Value result = get(thread, now.operands.at(0));
        return leave(thread, &result);
      }
      case kOpUnreachable:
        fail("a kernel reaches what it calls unreachable");
      default:
        return set(thread, now.result, {{compute(thread, now)}});
    }
  }

  const Module& module_;
  const Kernel& kernel_;
  const Launch& launch_;
  Access& access_;
  Triple group_ = {};
  std::vector<Thread> threads_;
  std::vector<std::byte> local_;
  std::vector<Reach> known_;
};

}  // namespace

Status run(const Module& module, const Kernel& kernel, const Launch& launch, Access& access) {
  try {
    if (launch.arguments.size() != kernel.parameters.size()) fail("arguments are missing");
    for (size_t i = 0; i < launch.arguments.size(); ++i) {
      const Parameter& parameter = kernel.parameters[i];
      if (parameter.kind != Parameter::Kind::kLocal &&
          launch.arguments[i].bytes.size() != parameter.bytes) {
        fail(fmt::format("argument {} has another size", i));
      }
    }
    Interpreter(module, kernel, launch, access).run();
    return {};
  } catch (const Failure& failure) {
    return failure.status;
  } catch (const std::out_of_range&) {
    return {Code::kFailed, "the kernel refers to an id that its module does not have"};
  }
}

}  // namespace keel::emulator::spirv

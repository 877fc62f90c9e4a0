// SPDX-License-Identifier: Apache-2.0
// Modules and kernels: those of kernels/gpu, which run from their own source.
#include <algorithm>
#include <cstring>

#include "emulator/shims/level_zero/api.h"
#include "emulator/shims/level_zero/handles.h"
#include "emulator/shims/level_zero/simt_kernels.h"

using namespace keel::emulator::level_zero;  // NOLINT: the functions below are C functions

namespace {

constexpr uint32_t kSpirvMagic = 0x07230203;

constexpr size_t kSpirvHeaderWords = 5;
constexpr uint32_t kOpCapability = 17;
constexpr uint32_t kCapabilityFloat64 = 10;

// Whether a module declares 64-bit floats. Capabilities are its first instructions.
bool needs_doubles(const uint8_t* bytes, size_t size) {
  const auto word = [&](size_t i) {
    uint32_t value = 0;
    std::memcpy(&value, bytes + i * sizeof(value), sizeof(value));
    return value;
  };
  const size_t count = size / sizeof(uint32_t);
  size_t at = kSpirvHeaderWords;
  while (at + 1 < count && (word(at) & 0xffff) == kOpCapability) {
    if (word(at + 1) == kCapabilityFloat64) return true;
    at += 2;
  }
  return false;
}

ze::Result fail_build(ze::BuildLog* log, std::string why) {
  if (log != nullptr)
    *log = Logs::get().add(std::make_shared<LogObject>(LogObject{std::move(why)}));
  return ze::kModuleBuildFailure;
}

}  // namespace

extern "C" {

ze::Result zeModuleCreate(ze::Context context, ze::Device device, const ze::ModuleDesc* desc,
                          ze::Module* module, ze::BuildLog* log) {
  return answer("zeModuleCreate", [&](Driver& driver) {
    (void)Contexts::get().find("zeModuleCreate", context);
    Chip& chip = driver.chip("zeModuleCreate", device);
    if (desc == nullptr || desc->data == nullptr || module == nullptr) {
      return ze::kInvalidNullPointer;
    }
    if (desc->format != ze::kModuleIlSpirv) return ze::kInvalidNativeBinary;
    uint32_t magic = 0;
    if (desc->bytes >= sizeof(magic)) std::memcpy(&magic, desc->data, sizeof(magic));
    if (magic != kSpirvMagic) return fail_build(log, "the module is no SPIR-V");
    if (driver.settings().doubles == 0 && needs_doubles(desc->data, desc->bytes)) {
      return fail_build(log, "the module has 64-bit floats, and the device has none");
    }
    std::string why;
    const keel::emulator::simt::Library* const library =
        find_simt_kernels(desc->data, desc->bytes, &why);
    if (library == nullptr) return fail_build(log, std::move(why));
    *module = Modules::get().add(std::make_shared<ModuleObject>(ModuleObject{&chip, library}));
    if (log != nullptr) *log = Logs::get().add(std::make_shared<LogObject>());
    return ze::kSuccess;
  });
}

ze::Result zeModuleDestroy(ze::Module module) {
  return answer("zeModuleDestroy", [&](Driver&) {
    Modules::get().remove("zeModuleDestroy", module);
    return ze::kSuccess;
  });
}

ze::Result zeModuleBuildLogDestroy(ze::BuildLog log) {
  return answer("zeModuleBuildLogDestroy", [&](Driver&) {
    Logs::get().remove("zeModuleBuildLogDestroy", log);
    return ze::kSuccess;
  });
}

ze::Result zeModuleBuildLogGetString(ze::BuildLog log, size_t* size, char* text) {
  return answer("zeModuleBuildLogGetString", [&](Driver&) {
    const auto found = Logs::get().find("zeModuleBuildLogGetString", log);
    if (size == nullptr) return ze::kInvalidNullPointer;
    const size_t whole = found->text.size() + 1;
    if (text != nullptr) {
      if (*size < whole) return ze::kInvalidSize;
      std::memcpy(text, found->text.c_str(), whole);
    }
    *size = whole;
    return ze::kSuccess;
  });
}

ze::Result zeKernelCreate(ze::Module module, const ze::KernelDesc* desc, ze::Kernel* kernel) {
  return answer("zeKernelCreate", [&](Driver&) {
    auto made = std::make_shared<KernelObject>();
    made->module = Modules::get().find("zeKernelCreate", module);
    if (desc == nullptr || desc->name == nullptr || kernel == nullptr) {
      return ze::kInvalidNullPointer;
    }
    made->kernel = made->module->library->find(made->module->library->family, desc->name);
    if (made->kernel == nullptr) return ze::kInvalidKernelName;
    *kernel = Kernels::get().add(std::move(made));
    return ze::kSuccess;
  });
}

ze::Result zeKernelDestroy(ze::Kernel kernel) {
  return answer("zeKernelDestroy", [&](Driver&) {
    Kernels::get().remove("zeKernelDestroy", kernel);
    return ze::kSuccess;
  });
}

ze::Result zeKernelSetGroupSize(ze::Kernel kernel, uint32_t x, uint32_t y, uint32_t z) {
  return answer("zeKernelSetGroupSize", [&](Driver&) {
    const auto found = Kernels::get().find("zeKernelSetGroupSize", kernel);
    // The kernels are compiled for this size alone.
    if (x != found->kernel->threads || y != 1 || z != 1) return ze::kInvalidGroupSize;
    const std::lock_guard lock(found->mutex);
    found->is_group_set = true;
    return ze::kSuccess;
  });
}

ze::Result zeKernelSetArgumentValue(ze::Kernel kernel, uint32_t index, size_t size,
                                    const void* value) {
  return answer("zeKernelSetArgumentValue", [&](Driver&) {
    const auto found = Kernels::get().find("zeKernelSetArgumentValue", kernel);
    if (index != 0) return ze::kInvalidArgumentIndex;
    if (size != found->kernel->argument_bytes || value == nullptr) return ze::kInvalidArgumentSize;
    const auto* const bytes = static_cast<const std::byte*>(value);
    const std::lock_guard lock(found->mutex);
    found->argument.assign(bytes, bytes + size);
    found->is_argument_set = true;
    return ze::kSuccess;
  });
}

ze::Result zeKernelSetIndirectAccess(ze::Kernel kernel, uint32_t flags) {
  return answer("zeKernelSetIndirectAccess", [&](Driver&) {
    const auto found = Kernels::get().find("zeKernelSetIndirectAccess", kernel);
    if ((flags & ~uint32_t{7}) != 0) return ze::kInvalidEnumeration;
    const std::lock_guard lock(found->mutex);
    found->indirect = flags;
    return ze::kSuccess;
  });
}

}  // extern "C"

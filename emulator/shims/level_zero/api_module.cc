// SPDX-License-Identifier: Apache-2.0
// Modules and kernels: those of kernels/gpu, which run from their own source, and SPIR-V of the
// caller, which is interpreted.
#include <algorithm>
#include <cstring>

#include "emulator/shims/level_zero/api.h"
#include "emulator/shims/level_zero/handles.h"
#include "emulator/shims/level_zero/simt_kernels.h"

using namespace keel::emulator::level_zero;  // NOLINT: the functions below are C functions
namespace spirv = keel::emulator::spirv;     // NOLINT: likewise

namespace {

constexpr uint32_t kSpirvMagic = 0x07230203;

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
    if (driver.settings().doubles == 0 && spirv::needs_doubles(desc->data, desc->bytes)) {
      return fail_build(log, "the module has 64-bit floats, and the device has none");
    }
    std::string why;
    auto made = std::make_shared<ModuleObject>();
    made->chip = &chip;
    made->library = find_simt_kernels(desc->data, desc->bytes, &why);
    if (made->library == nullptr) {
      std::string defect;
      made->spirv = spirv::Module::parse(desc->data, desc->bytes, &defect);
      if (made->spirv == nullptr) return fail_build(log, std::move(defect) + "; " + why);
    }
    *module = Modules::get().add(std::move(made));
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
    if (const auto* const library = made->module->library; library != nullptr) {
      made->kernel = library->find(library->family, desc->name);
      made->arguments.resize(1);
    } else if ((made->spirv = made->module->spirv->find(desc->name)) != nullptr) {
      made->arguments.resize(made->spirv->parameters.size());
    }
    if (made->kernel == nullptr && made->spirv == nullptr) return ze::kInvalidKernelName;
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
    constexpr uint64_t kMost = 1024;
    const bool is_allowed = found->kernel == nullptr
                                ? x != 0 && y != 0 && z != 0 && x <= kMost && y <= kMost &&
                                      z <= kMost && uint64_t{x} * y * z <= kMost
                                // The kernels are compiled for this size alone.
                                : x == found->kernel->threads && y == 1 && z == 1;
    if (!is_allowed) return ze::kInvalidGroupSize;
    const std::lock_guard lock(found->mutex);
    found->group = {x, y, z};
    return ze::kSuccess;
  });
}

ze::Result zeKernelSetArgumentValue(ze::Kernel kernel, uint32_t index, size_t size,
                                    const void* value) {
  return answer("zeKernelSetArgumentValue", [&](Driver&) {
    const auto found = Kernels::get().find("zeKernelSetArgumentValue", kernel);
    if (index >= found->arguments.size()) return ze::kInvalidArgumentIndex;
    using spirv::Parameter;
    const Parameter parameter =
        found->kernel == nullptr
            ? found->spirv->parameters[index]
            : Parameter{Parameter::Kind::kValueInMemory, found->kernel->argument_bytes};
    spirv::Argument argument;
    if (parameter.kind == Parameter::Kind::kLocal) {
      if (value != nullptr || size == 0) return ze::kInvalidArgumentSize;
      argument.local_bytes = size;
    } else {
      if (value == nullptr || size != parameter.bytes) return ze::kInvalidArgumentSize;
      const auto* const bytes = static_cast<const std::byte*>(value);
      argument.bytes.assign(bytes, bytes + size);
    }
    const std::lock_guard lock(found->mutex);
    found->arguments[index] = std::move(argument);
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

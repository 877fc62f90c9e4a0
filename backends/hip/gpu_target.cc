// SPDX-License-Identifier: Apache-2.0
// Keel on AMD's GPUs, through HIP's runtime, opened at run time. The tables are those of
// backends/gpu, which backends/cuda uses too.
//
// Mapping of the slots (docs/abi-coverage.md lists the calls, docs/vendors/hip.md what no GPU has
// confirmed):
//
// Devices are the runtime's, in the runtime's order (HIP_VISIBLE_DEVICES applies). HIP's contexts
// are deprecated: every call selects its device for the calling thread and restores the previous
// one.
//
// Memory: hipMalloc, hipHostMalloc and hipMallocManaged. Export: the runtime's IPC handle of the
// whole allocation.
//
// Streams do not synchronise with stream 0. As in the CUDA plugin, waits with a deadline are
// core's.
//
// Failures: the runtime of ROCm 5 ends the process on a memory fault of a kernel. Where the runtime
// returns an error instead, the device is lost for the process.
//
// Kernels: code objects (HSACO) and bundles of code objects. HIP does not report parameters, so
// arguments are not checked.
//
// Collectives: RCCL, opened at run time beside the runtime. 8-bit floats are not claimed: on some
// chips RCCL's are of the kind without infinities and negative zero.
//
// Operators: kernels/gpu, if a code object of this build is for the device's architecture, or,
// asked by KEEL_HIPRTC=1, compiled when the device is opened; matrix products by rocBLAS, if found.
//
// Health: whether the device is lost; ECC errors, retired pages and heat by ROCm SMI, if found.
//
// Settings: "library_folder", the folder of libamdhip64.so.7, .6 or .5; default
// KEEL_HIP_LIBRARY_FOLDER. "driver_file", another file's name there. "rccl_folder", the folder of
// librccl.so.1; default KEEL_RCCL_LIBRARY_FOLDER, else the runtime's folder setting.
// "rocblas_folder", the folder of librocblas.so.5, .4, .3 or .0; default
// KEEL_ROCBLAS_LIBRARY_FOLDER, else the runtime's folder setting.
// "rccl_cga_cluster_size", "rccl_min_ctas", "rccl_max_ctas", "rccl_net_name": see nccl_settings.h.
#include "backends/hip/gpu_target.h"

#include <elf.h>

#include <cstring>
#include <keel/plugin_kit.hpp>
#include <limits>

#include "backends/gpu/kernels.h"
#include "backends/gpu/result_codes.h"
#include "backends/hip/run_time_compiler.h"
#include "kernels/gpu/image.h"

namespace keel::gpu {
namespace {

constexpr uint16_t kGpuMachine = 224;  // EM_AMDGPU
#if defined(__x86_64__)
constexpr uint16_t kHostMachine = EM_X86_64;
#else
constexpr uint16_t kHostMachine = EM_AARCH64;
#endif
constexpr char kBundleMagic[] = "__CLANG_OFFLOAD_BUNDLE__";
constexpr size_t kMagicBytes = sizeof(kBundleMagic) - 1;

// Reads a |Value| at |offset| and moves |offset| behind it; false past the end.
template <typename Value>
bool take(const char* bytes, uint64_t size, uint64_t* offset, Value* out_value) {
  if (size < sizeof(*out_value) || *offset > size - sizeof(*out_value)) return false;
  std::memcpy(out_value, bytes + *offset, sizeof(*out_value));
  *offset += sizeof(*out_value);
  return true;
}

bool is_inside(uint64_t offset, uint64_t bytes, uint64_t size) {
  return offset <= size && bytes <= size - offset;
}

const char* bundle_defect(const char* bytes, uint64_t size) {
  constexpr uint64_t kMostEntries = 1024;
  uint64_t offset = kMagicBytes;
  uint64_t count = 0;
  if (!take(bytes, size, &offset, &count)) return "the bundle is cut short";
  if (count == 0 || count > kMostEntries) return "the bundle has no plausible number of entries";
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t begin = 0;
    uint64_t length = 0;
    uint64_t name = 0;
    if (!take(bytes, size, &offset, &begin) || !take(bytes, size, &offset, &length) ||
        !take(bytes, size, &offset, &name) || !is_inside(offset, name, size) ||
        !is_inside(begin, length, size)) {
      return "an entry of the bundle reaches past its end";
    }
    offset += name;
  }
  return nullptr;
}

const char* elf_defect(const char* bytes, uint64_t size) {
  Elf64_Ehdr header;
  if (size < sizeof(header)) return "the ELF header is cut short";
  std::memcpy(&header, bytes, sizeof(header));
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return "the ELF file is not of 64 bits";
  // The emulated chip runs code for the host, which the runtime of a GPU refuses.
  if (header.e_machine != kGpuMachine && header.e_machine != kHostMachine) {
    return "the ELF file is for another machine";
  }
  if (!is_inside(header.e_shoff, uint64_t{header.e_shnum} * header.e_shentsize, size) ||
      !is_inside(header.e_phoff, uint64_t{header.e_phnum} * header.e_phentsize, size) ||
      (header.e_shnum != 0 && header.e_shentsize != sizeof(Elf64_Shdr)) ||
      (header.e_phnum != 0 && header.e_phentsize != sizeof(Elf64_Phdr))) {
    return "a table of the ELF file reaches past its end";
  }
  for (uint16_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, bytes + header.e_shoff + uint64_t{i} * sizeof(section), sizeof(section));
    if (section.sh_type != SHT_NOBITS && !is_inside(section.sh_offset, section.sh_size, size)) {
      return "a section of the ELF file reaches past its end";
    }
  }
  for (uint16_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, bytes + header.e_phoff + uint64_t{i} * sizeof(segment), sizeof(segment));
    if (!is_inside(segment.p_offset, segment.p_filesz, size)) {
      return "a segment of the ELF file reaches past its end";
    }
  }
  return nullptr;
}

}  // namespace

const char* result_name(const Functions& hip, Result result) {
  return hip.GetErrorName(result);
}

const char* result_text(const Functions& hip, Result result) {
  return hip.GetErrorString(result);
}

Result context_of(const Functions& hip, NativeStream stream, NativeContext expected,
                  NativeContext* out_context) {
  *out_context = expected;
  // Stream 0 is each device's own.
  if (stream == nullptr || hip.StreamGetCtx == nullptr) return kSuccess;
  return hip.StreamGetCtx(stream, out_context);
}

keel_status native_handle(NativeContext /*context*/, NativeDevice device, uint32_t which,
                          void** out_handle) {
  // The ordinal, as CUDA's number 1: HIP has no contexts, and the main handle is no NULL.
  if (which != 1) {
    return kit::fail(KEEL_UNSUPPORTED, "hip: no native handle %u: 1, the device", which);
  }
  *out_handle = reinterpret_cast<void*>(static_cast<intptr_t>(device));
  return KEEL_OK;
}

std::span<const simt::Image> images() {
  return simt::hip_images();
}

// Only loading tells whether an image has code for a device.
int image_version() {
  return std::numeric_limits<int>::max();
}

Result load_family(const Functions& hip, NativeDevice device, int runtime_version,
                   const simt::Image& image, NativeModule* out_module, std::string* out_log) {
  const Result loaded = load_image(hip, image.bytes.data(), out_module, out_log);
  if (loaded != kErrorNoBinaryForGpu) return loaded;
  keel_device_info info = {};
  describe_device(hip, device, &info);
  const std::string full = info.architecture;  // "gfx90a:sramecc+:xnack-"
  const std::string* code = nullptr;
  if (!compile_family(image.family, full.substr(0, full.find(':')), runtime_version,
                      reinterpret_cast<const void*>(hip.Init), &code, out_log)) {
    return loaded;
  }
  return load_image(hip, code->data(), out_module, out_log);
}

void describe_device(const Functions& hip, NativeDevice device, keel_device_info* out_info) {
  // Returns 0 if the runtime is too old for the attribute.
  const auto attribute = [&](hipDeviceAttribute_t which) {
    int value = 0;
    return hip.DeviceGetAttribute(&value, which, device) == kSuccess ? value : 0;
  };
  // "gfx90a:sramecc+:xnack-": the name that code objects have.
  hipDevicePropR0000 properties = {};
  if (hip.GetDeviceProperties(&properties, device) != kSuccess) properties = {};
  properties.gcnArchName[sizeof(properties.gcnArchName) - 1] = '\0';
  const std::string architecture(properties.gcnArchName);
  const size_t room = sizeof(out_info->architecture) - 1;
  kit::copy_text(out_info->architecture, architecture.substr(0, room).c_str());
  out_info->numa_node = -1;
  if (attribute(hipDeviceAttributeStreamPrioritiesSupported) != 0) {
    out_info->capabilities |= KEEL_CAPABILITY_PRIORITY;
  }
  // Without this attribute the host may not access managed memory while the device works.
  if (attribute(hipDeviceAttributeConcurrentManagedAccess) != 0) {
    out_info->capabilities |= KEEL_CAPABILITY_MANAGED;
  }
}

const char* image_defect(const void* data, uint64_t size) {
  const char* const bytes = static_cast<const char*>(data);
  if (size >= kMagicBytes && std::memcmp(bytes, kBundleMagic, kMagicBytes) == 0) {
    return bundle_defect(bytes, size);
  }
  if (size < SELFMAG || std::memcmp(bytes, ELFMAG, SELFMAG) != 0) {
    return "no code object: neither an ELF file nor a bundle";
  }
  return elf_defect(bytes, size);
}

}  // namespace keel::gpu

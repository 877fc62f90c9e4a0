// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/cuda/host_image.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace keel::emulator::cuda {
namespace {

constexpr uint16_t kCudaMachine = 190;  // EM_CUDA
constexpr uint16_t kAmdMachine = 224;   // EM_AMDGPU
constexpr uint32_t kFatBinary = 0xba55ed50;
constexpr char kBundleMagic[] = "__CLANG_OFFLOAD_BUNDLE__";
constexpr size_t kBundleMagicBytes = sizeof(kBundleMagic) - 1;

// One of the entries behind the magic and their number; a name follows.
struct BundleEntry {
  uint64_t offset;
  uint64_t size;
  uint64_t name_bytes;
};

#if defined(__x86_64__)
constexpr uint16_t kHostMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kHostMachine = EM_AARCH64;
#else
constexpr uint16_t kHostMachine = EM_NONE;
#endif

template <typename Header>
Header read(const std::byte* bytes) {
  Header header;
  std::memcpy(&header, bytes, sizeof(header));
  return header;
}

// Returns the size of an ELF file: the end of its section headers or of its last section or
// segment.
uint64_t elf_size(const std::byte* image) {
  const auto header = read<Elf64_Ehdr>(image);
  uint64_t end = header.e_shoff + uint64_t{header.e_shnum} * header.e_shentsize;
  for (uint16_t i = 0; i < header.e_phnum; ++i) {
    const auto segment =
        read<Elf64_Phdr>(image + header.e_phoff + uint64_t{i} * header.e_phentsize);
    end = std::max(end, segment.p_offset + segment.p_filesz);
  }
  for (uint16_t i = 0; i < header.e_shnum; ++i) {
    const auto section =
        read<Elf64_Shdr>(image + header.e_shoff + uint64_t{i} * header.e_shentsize);
    if (section.sh_type != SHT_NOBITS) end = std::max(end, section.sh_offset + section.sh_size);
  }
  return end;
}

std::string path_of(int fd) {
  return "/proc/self/fd/" + std::to_string(fd);
}

// Creates a memory file with the bytes; -1 if the system refuses.
int make_file(const std::byte* data, uint64_t size) {
  const int fd = memfd_create("keel-emulated-module", MFD_CLOEXEC);
  for (uint64_t written = 0; fd >= 0 && written < size;) {
    const ssize_t count = write(fd, data + written, size - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      close(fd);
      return -1;
    }
    written += static_cast<uint64_t>(count);
  }
  return fd;
}

}  // namespace

bool is_fat_binary(const void* image) {
  return is_bundle(image) || read<uint32_t>(static_cast<const std::byte*>(image)) == kFatBinary;
}

bool is_bundle(const void* image) {
  return std::strncmp(static_cast<const char*>(image), kBundleMagic, kBundleMagicBytes) == 0;
}

uint64_t bundle_size(const void* image) {
  const auto* next = static_cast<const std::byte*>(image) + kBundleMagicBytes;
  auto count = read<uint64_t>(next);
  next += sizeof(count);
  uint64_t end = 0;
  for (; count != 0; --count) {
    const auto entry = read<BundleEntry>(next);
    next += sizeof(entry) + entry.name_bytes;
    end = std::max(end, entry.offset + entry.size);
  }
  return end;
}

CUresult HostImage::open(const void* image, std::shared_ptr<const HostImage>* out_image,
                         std::string* out_why) {
  const auto* const bytes = static_cast<const std::byte*>(image);
  if (std::memcmp(bytes, ELFMAG, SELFMAG) != 0) {
    *out_why = "the emulated GPU runs code for the host, not PTX or fat binaries";
    const bool is_fat = is_fat_binary(image);
    // Text that begins like PTX: a directive or a comment.
    const char first = static_cast<char>(bytes[0]);
    const bool is_text = first == '.' || first == '/' || first == '\n' || first == ' ';
    return is_fat || is_text ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_ERROR_INVALID_IMAGE;
  }
  const auto header = read<Elf64_Ehdr>(bytes);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kHostMachine) {
    *out_why = "the emulated GPU runs code for the host, this is for another machine";
    const bool is_of_gpu = header.e_machine == kCudaMachine || header.e_machine == kAmdMachine;
    return is_of_gpu ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_ERROR_INVALID_IMAGE;
  }
  const int fd = make_file(bytes, elf_size(bytes));
  if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  void* const library = dlopen(path_of(fd).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    *out_why = why == nullptr ? "dlopen" : why;
    close(fd);
    return CUDA_ERROR_INVALID_IMAGE;
  }
  out_image->reset(new HostImage(fd, library));
  return CUDA_SUCCESS;
}

HostImage::~HostImage() {
  dlclose(library_);
  // The loader finds an object that is still loaded by its path, so the descriptor number must not
  // be reused for the next object.
  void* const still_there = dlopen(path_of(fd_).c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (still_there == nullptr) {
    close(fd_);
  } else {
    dlclose(still_there);
  }
}

bool HostImage::find(const char* name, keel_cpu_kernel* out_kernel,
                     const uint32_t** out_parameters) const {
  void* const function = dlsym(library_, name);
  void* const parameters = dlsym(library_, (std::string(name) + "_parameters").c_str());
  if (function == nullptr || parameters == nullptr) return false;
  std::memcpy(out_kernel, &function, sizeof(function));
  *out_parameters = static_cast<const uint32_t*>(parameters);
  return true;
}

}  // namespace keel::emulator::cuda

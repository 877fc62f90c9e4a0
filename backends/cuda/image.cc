// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/image.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace keel::cuda {
namespace {

constexpr uint32_t kFatBinary = 0xba55ed50;

struct FatHeader {
  uint32_t magic;
  uint16_t version;
  uint16_t header_size;
  uint64_t size;  // bytes behind the header
};

// Reads a |Value| at |offset| of |data|, which must contain it.
template <typename Value>
Value read(const char* data, uint64_t offset = 0) {
  Value value;
  std::memcpy(&value, data + offset, sizeof(value));
  return value;
}

bool lies_inside(uint64_t offset, uint64_t length, uint64_t size) {
  return offset <= size && length <= size - offset;
}

constexpr const char* kHeadersBehindEnd = "its headers lie behind its end: is it cut short?";

const char* find_elf_defect(const char* data, uint64_t size) {
  if (size < sizeof(Elf64_Ehdr)) return "it is too short for an ELF header";
  const auto header = read<Elf64_Ehdr>(data);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return "it is no 64-bit little-endian ELF file";
  }
  const bool has_sections = header.e_shnum != 0 || header.e_shoff != 0;
  if ((header.e_phnum != 0 && header.e_phentsize != sizeof(Elf64_Phdr)) ||
      (has_sections && header.e_shentsize != sizeof(Elf64_Shdr))) {
    return "its headers have sizes that nobody knows";
  }
  uint64_t sections = header.e_shnum;
  uint64_t segments = header.e_phnum;
  // If the counts exceed the header's fields, the first section holds them.
  if (header.e_shoff != 0) {
    if (!lies_inside(header.e_shoff, sizeof(Elf64_Shdr), size)) return kHeadersBehindEnd;
    const auto first = read<Elf64_Shdr>(data, header.e_shoff);
    if (sections == 0) sections = first.sh_size;
    if (segments == PN_XNUM) segments = first.sh_info;
  }
  if (segments > size / sizeof(Elf64_Phdr) || sections > size / sizeof(Elf64_Shdr) ||
      !lies_inside(header.e_phoff, segments * sizeof(Elf64_Phdr), size) ||
      !lies_inside(header.e_shoff, sections * sizeof(Elf64_Shdr), size)) {
    return kHeadersBehindEnd;
  }
  for (uint64_t i = 0; i < segments; ++i) {
    const auto segment = read<Elf64_Phdr>(data, header.e_phoff + i * sizeof(Elf64_Phdr));
    if (!lies_inside(segment.p_offset, segment.p_filesz, size)) {
      return "a segment ends behind its end: is it cut short?";
    }
  }
  for (uint64_t i = 0; i < sections; ++i) {
    const auto section = read<Elf64_Shdr>(data, header.e_shoff + i * sizeof(Elf64_Shdr));
    const bool has_bytes = section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL;
    if (has_bytes && !lies_inside(section.sh_offset, section.sh_size, size)) {
      return "a section ends behind its end: is it cut short?";
    }
  }
  return nullptr;
}

const char* find_fat_defect(const char* data, uint64_t size) {
  if (size < sizeof(FatHeader)) return "it is too short for a fat binary's header";
  const auto header = read<FatHeader>(data);
  if (header.header_size < sizeof(FatHeader) ||
      !lies_inside(header.header_size, header.size, size)) {
    return "the fat binary ends behind its end: is it cut short?";
  }
  return nullptr;
}

// PTX begins with ".version" after comments and white space.
const char* find_ptx_defect(std::string_view text) {
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  if (text.find('\0') != std::string_view::npos) return "it is no ELF file, fat binary or PTX";
  while (true) {
    const size_t first = text.find_first_not_of(" \t\r\n");
    text.remove_prefix(first == std::string_view::npos ? text.size() : first);
    if (text.starts_with("//")) {
      text.remove_prefix(std::min(text.find('\n'), text.size()));
    } else if (text.starts_with("/*")) {
      const size_t end = text.find("*/", 2);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 2);
    } else {
      return text.starts_with(".version") ? nullptr : "it is no ELF file, fat binary or PTX";
    }
  }
}

}  // namespace

const char* find_image_defect(const void* data, uint64_t size) {
  const char* const bytes = static_cast<const char*>(data);
  if (size >= SELFMAG && std::memcmp(bytes, ELFMAG, SELFMAG) == 0) {
    return find_elf_defect(bytes, size);
  }
  if (size >= sizeof(uint32_t) && read<uint32_t>(bytes) == kFatBinary) {
    return find_fat_defect(bytes, size);
  }
  return find_ptx_defect({bytes, size});
}

}  // namespace keel::cuda

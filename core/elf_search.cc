// SPDX-License-Identifier: Apache-2.0
#include "core/elf_search.h"

#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace keel {

namespace {

using Bytes = std::span<const std::byte>;

// Reads |out| from |file| at |offset|, which may be unaligned. False beyond the end.
template <typename Struct>
bool read_at(Bytes file, uint64_t offset, Struct* out) {
  if (offset > file.size() || file.size() - offset < sizeof(Struct)) return false;
  std::memcpy(out, file.data() + offset, sizeof(Struct));
  return true;
}

std::vector<ElfW(Phdr)> read_segments(Bytes file) {
  std::vector<ElfW(Phdr)> segments;
  ElfW(Ehdr) head = {};
  constexpr unsigned char kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  if (!read_at(file, 0, &head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_ident[EI_CLASS] != kClass || head.e_phentsize != sizeof(ElfW(Phdr))) {
    return segments;
  }
  for (uint64_t i = 0; i < head.e_phnum; ++i) {
    ElfW(Phdr) segment = {};
    if (!read_at(file, head.e_phoff + i * sizeof(segment), &segment)) return {};
    segments.push_back(segment);
  }
  return segments;
}

std::vector<ElfW(Dyn)> read_dynamic(Bytes file, const std::vector<ElfW(Phdr)>& segments) {
  std::vector<ElfW(Dyn)> entries;
  for (const ElfW(Phdr) & segment : segments) {
    if (segment.p_type != PT_DYNAMIC) continue;
    ElfW(Dyn) entry = {};
    for (uint64_t at = 0; at + sizeof(entry) <= segment.p_filesz; at += sizeof(entry)) {
      if (!read_at(file, segment.p_offset + at, &entry) || entry.d_tag == DT_NULL) break;
      entries.push_back(entry);
    }
  }
  return entries;
}

// Returns the bytes of the file from the virtual address |address| to the end of its segment.
Bytes at_address(Bytes file, const std::vector<ElfW(Phdr)>& segments, uint64_t address) {
  for (const ElfW(Phdr) & segment : segments) {
    if (segment.p_type != PT_LOAD || address < segment.p_vaddr ||
        address - segment.p_vaddr >= segment.p_filesz) {
      continue;
    }
    const uint64_t within = address - segment.p_vaddr;
    if (segment.p_offset > file.size() || within > file.size() - segment.p_offset) return {};
    const uint64_t begin = segment.p_offset + within;
    return file.subspan(begin, std::min<uint64_t>(segment.p_filesz - within, file.size() - begin));
  }
  return {};
}

std::string text_at(Bytes strings, uint64_t offset) {
  if (offset >= strings.size()) return {};
  const auto* begin = reinterpret_cast<const char*>(strings.data() + offset);
  return {begin, strnlen(begin, strings.size() - offset)};
}

std::vector<std::string> split_folders(std::string_view list) {
  std::vector<std::string> folders;
  while (!list.empty()) {
    const size_t end = std::min(list.find(':'), list.size());
    if (end != 0) folders.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return folders;
}

std::string with_origin(std::string folder, const std::string& origin) {
  for (const std::string_view token : {"${ORIGIN}", "$ORIGIN"}) {
    for (size_t at = folder.find(token); at != std::string::npos;
         at = folder.find(token, at + origin.size())) {
      folder.replace(at, token.size(), origin);
    }
  }
  return folder;
}

}  // namespace

ElfSearch read_elf_search(Bytes file) {
  const std::vector<ElfW(Phdr)> segments = read_segments(file);
  const std::vector<ElfW(Dyn)> entries = read_dynamic(file, segments);
  Bytes strings;
  for (const ElfW(Dyn) & entry : entries) {
    if (entry.d_tag == DT_STRTAB) strings = at_address(file, segments, entry.d_un.d_ptr);
  }
  ElfSearch search;
  std::string runpath;
  std::string rpath;
  for (const ElfW(Dyn) & entry : entries) {
    if (entry.d_tag == DT_NEEDED) search.needed.push_back(text_at(strings, entry.d_un.d_val));
    if (entry.d_tag == DT_RUNPATH) runpath = text_at(strings, entry.d_un.d_val);
    if (entry.d_tag == DT_RPATH) rpath = text_at(strings, entry.d_un.d_val);
  }
  search.is_runpath = !runpath.empty();
  search.folders = split_folders(search.is_runpath ? runpath : rpath);
  return search;
}

std::string find_beside(const ElfSearch& search, const std::string& name, const std::string& origin,
                        const char* library_path) {
  // The loader opens a name with a slash as a path, without a search.
  if (name.empty() || name.find('/') != std::string::npos) return {};
  const auto has = [&](const std::string& folder) {
    return access((folder + "/" + name).c_str(), R_OK) == 0;
  };
  if (search.is_runpath && library_path != nullptr) {
    const std::vector<std::string> before = split_folders(library_path);
    if (std::any_of(before.begin(), before.end(), has)) return {};
  }
  for (const std::string& folder : search.folders) {
    const std::string real = with_origin(folder, origin);
    if (has(real)) return real == folder ? "" : real + "/" + name;
  }
  return {};
}

}  // namespace keel

// SPDX-License-Identifier: Apache-2.0
// Fuzzes module images of the caller, as the CUDA backend checks them before passing them to the
// driver, which receives no size. In an accepted image all headers, and all ranges they refer to,
// are inside the image.
#include <elf.h>

#include <cstring>

#include "backends/cuda/image.h"
#include "backends/gpu/image_copy.h"

namespace {

void require(bool holds) {
  if (!holds) __builtin_trap();
}

// Checks with sums that cannot wrap.
void require_inside(uint64_t offset, uint64_t count, uint64_t bytes, uint64_t size) {
  using Wide = unsigned __int128;
  require(Wide{offset} + Wide{count} * bytes <= size);
}

template <typename Header>
Header header_at(const uint8_t* data, uint64_t offset) {
  Header header;
  std::memcpy(&header, data + offset, sizeof(header));
  return header;
}

void require_whole_elf(const uint8_t* data, uint64_t size) {
  require_inside(0, 1, sizeof(Elf64_Ehdr), size);
  const auto header = header_at<Elf64_Ehdr>(data, 0);
  uint64_t sections = header.e_shnum;
  uint64_t segments = header.e_phnum;
  // Counts beyond these fields are stored in the first section.
  if (header.e_shoff != 0) {
    require_inside(header.e_shoff, 1, sizeof(Elf64_Shdr), size);
    const auto first = header_at<Elf64_Shdr>(data, header.e_shoff);
    if (sections == 0) sections = first.sh_size;
    if (segments == PN_XNUM) segments = first.sh_info;
  }
  require_inside(header.e_shoff, sections, sizeof(Elf64_Shdr), size);
  require_inside(header.e_phoff, segments, sizeof(Elf64_Phdr), size);
  for (uint64_t i = 0; i < sections; ++i) {
    const auto section = header_at<Elf64_Shdr>(data, header.e_shoff + i * sizeof(Elf64_Shdr));
    if (section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL) continue;
    require_inside(section.sh_offset, section.sh_size, 1, size);
  }
  for (uint64_t i = 0; i < segments; ++i) {
    const auto segment = header_at<Elf64_Phdr>(data, header.e_phoff + i * sizeof(Elf64_Phdr));
    require_inside(segment.p_offset, segment.p_filesz, 1, size);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (keel::cuda::find_image_defect(data, size) != nullptr) return 0;
  const bool is_elf = size >= SELFMAG && std::memcmp(data, ELFMAG, SELFMAG) == 0;
  if (is_elf) require_whole_elf(data, size);
  const keel::gpu::ImageCopy image(data, size);
  const auto* const copy = static_cast<const uint8_t*>(image.data());
  require(std::memcmp(copy, data, size) == 0 && copy[size] == 0);
  return 0;
}

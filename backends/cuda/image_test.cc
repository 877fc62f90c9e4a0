// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/image.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "backends/gpu/image_copy.h"

namespace keel::cuda {
namespace {

std::string defect(const std::string& image) {
  // Exactly this size, so that the address sanitizer detects reads beyond the end.
  const std::vector<char> exact(image.begin(), image.end());
  const char* const found = find_image_defect(exact.data(), exact.size());
  return found == nullptr ? "" : found;
}

template <typename Header>
std::string bytes_of(const Header& header) {
  return {reinterpret_cast<const char*>(&header), sizeof(header)};
}

// A well-formed cubin: a header, 100 bytes, and a section header for the 100 bytes.
struct Cubin {
  Elf64_Ehdr header = {};
  Elf64_Shdr section = {};

  Cubin() {
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_machine = 190;
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = 1;
    header.e_shoff = sizeof(header) + 100;
    section.sh_type = SHT_PROGBITS;
    section.sh_offset = sizeof(header);
    section.sh_size = 100;
  }
  std::string image() const { return bytes_of(header) + std::string(100, 'x') + bytes_of(section); }
};

TEST(CudaImageTest, ACubinIsTakenWholeOrNotAtAll) {
  const std::string whole = Cubin().image();
  EXPECT_EQ(defect(whole), "");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(defect(whole.substr(0, size)), "") << size;
  }
}

TEST(CudaImageTest, OffsetsThatLieAreRefused) {
  for (const uint64_t far : {uint64_t{1000}, UINT64_MAX, UINT64_MAX - 63}) {
    Cubin cubin;
    cubin.header.e_shoff = far;
    EXPECT_NE(defect(cubin.image()), "");
    cubin = {};
    cubin.section.sh_offset = far;
    EXPECT_NE(defect(cubin.image()), "");
    cubin = {};
    cubin.section.sh_size = far;
    EXPECT_NE(defect(cubin.image()), "");
    cubin.section.sh_type = SHT_NOBITS;  // occupies no file space
    EXPECT_EQ(defect(cubin.image()), "");
    cubin = {};
    cubin.header.e_phnum = 1;
    cubin.header.e_phentsize = sizeof(Elf64_Phdr);
    cubin.header.e_phoff = far;
    EXPECT_NE(defect(cubin.image()), "");
  }
  Cubin cubin;
  cubin.header.e_shentsize = 1;
  EXPECT_NE(defect(cubin.image()), "");
  cubin = {};
  cubin.header.e_ident[EI_CLASS] = ELFCLASS32;
  EXPECT_NE(defect(cubin.image()), "");
}

// Counts beyond the header's fields: the first section holds the counts, which may be wrong, too.
TEST(CudaImageTest, NumbersInTheFirstSection) {
  const auto image = [](uint64_t sections, uint32_t segments, uint64_t offset) {
    Cubin cubin;
    cubin.header.e_shnum = 0;
    cubin.header.e_shoff = offset;
    if (segments != 0) {
      cubin.header.e_phnum = PN_XNUM;
      cubin.header.e_phentsize = sizeof(Elf64_Phdr);
      cubin.header.e_phoff = sizeof(cubin.header);
    }
    cubin.section.sh_type = SHT_NULL;
    cubin.section.sh_size = sections;
    cubin.section.sh_info = segments;
    return cubin.image();
  };
  constexpr uint64_t kOffset = sizeof(Elf64_Ehdr) + 100;
  EXPECT_EQ(defect(image(1, 0, kOffset)), "");
  for (const uint64_t sections : {uint64_t{2}, uint64_t{1} << 58, UINT64_MAX}) {
    EXPECT_NE(defect(image(sections, 0, kOffset)), "") << sections;
  }
  EXPECT_NE(defect(image(1, UINT32_MAX, kOffset)), "");
  for (const uint64_t offset : {kOffset + 1, kOffset + sizeof(Elf64_Shdr), UINT64_MAX}) {
    EXPECT_NE(defect(image(1, 0, offset)), "") << offset;
  }
}

TEST(CudaImageTest, FatBinaries) {
  struct {
    uint32_t magic = 0xba55ed50;
    uint16_t version = 1;
    uint16_t header_size = 16;
    uint64_t size = 24;
  } header;
  EXPECT_EQ(defect(bytes_of(header) + std::string(24, 'x')), "");
  EXPECT_NE(defect(bytes_of(header) + std::string(23, 'x')), "");
  EXPECT_NE(defect(bytes_of(header).substr(0, 15)), "");
  header.size = UINT64_MAX;
  EXPECT_NE(defect(bytes_of(header) + std::string(24, 'x')), "");
  header.size = 24;
  header.header_size = 8;
  EXPECT_NE(defect(bytes_of(header) + std::string(24, 'x')), "");
}

TEST(CudaImageTest, Ptx) {
  EXPECT_EQ(defect(".version 8.0\n.target sm_75\n"), "");
  EXPECT_EQ(defect("//\n// Generated\n\t/* and\nmore */ .version 8.0\n"), "");
  EXPECT_EQ(defect(std::string(".version 8.0\n\0\0", 15)), "");
  for (const char* text : {"", " ", "//", "// .version", "/*", "/* .version 8.0", "version 8.0",
                           ".target sm_75", "int main() {}"}) {
    EXPECT_NE(defect(text), "") << text;
  }
  EXPECT_NE(defect(std::string(".version\0 8.0", 13)), "");
  EXPECT_NE(defect(std::string(4096, '\xa7')), "");
}

TEST(CudaImageTest, TheCopyEndsWithAZero) {
  for (const size_t size : {size_t{1}, size_t{63}, size_t{64}, size_t{65}}) {
    const std::string text(size, 'p');
    const gpu::ImageCopy image(text.data(), text.size());
    EXPECT_STREQ(static_cast<const char*>(image.data()), text.c_str());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(image.data()) % 64, 0u);
  }
}

}  // namespace
}  // namespace keel::cuda

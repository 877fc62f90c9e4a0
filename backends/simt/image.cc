// SPDX-License-Identifier: Apache-2.0
#include "backends/simt/image.h"

// KEEL_SIMT_CUDA_IMAGE: the fat binary's path.
asm(R"(
  .pushsection .rodata
  .balign 64
keel_simt_cuda_image:
  .incbin ")" KEEL_SIMT_CUDA_IMAGE R"("
keel_simt_cuda_image_end:
  .byte 0
  .popsection
  .hidden keel_simt_cuda_image
  .hidden keel_simt_cuda_image_end
  .globl keel_simt_cuda_image
  .globl keel_simt_cuda_image_end
)");

extern "C" const std::byte keel_simt_cuda_image[];
extern "C" const std::byte keel_simt_cuda_image_end[];

namespace keel::simt {

std::span<const std::byte> cuda_image() {
  return {keel_simt_cuda_image, keel_simt_cuda_image_end};
}

int cuda_image_version() {
  return KEEL_SIMT_CUDA_VERSION;
}

}  // namespace keel::simt

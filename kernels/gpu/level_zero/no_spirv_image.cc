// SPDX-License-Identifier: Apache-2.0
// The images of a build without llvm-spirv: none.
#include "kernels/gpu/level_zero/spirv_image.h"

namespace keel::simt {

std::span<const SpirvImage> spirv_images() {
  return {};
}

}  // namespace keel::simt

// SPDX-License-Identifier: Apache-2.0
// load and store of tensor elements that have KEEL_STORED bits: 32 (float32) or 16 (float16 or
// bfloat16). CMakeLists.txt compiles a source that includes this file once for each width.
#include "elements.glsl"

// The variant of the pipeline. With 16 bits, the lowest bit selects bfloat16.
layout(constant_id = 2) const uint kVariant = 0;

#if KEEL_STORED == 32
#include "stored_32.glsl"
#elif KEEL_STORED == 16
#include "stored_16.glsl"
#else
#error "KEEL_STORED must be 32 or 16"
#endif

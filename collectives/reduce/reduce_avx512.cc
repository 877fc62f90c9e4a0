// SPDX-License-Identifier: Apache-2.0
#define KEEL_VECTOR_BYTES 64
#include "collectives/reduce/reduce_kernel.h"
#include "collectives/reduce/reduce_loops.h"

namespace keel {

void reduce_avx512(const ReduceCall& call) {
  reduce_call(call);
}

}  // namespace keel

# SPDX-License-Identifier: Apache-2.0
# KEEL_SIMT_FAMILIES: the sources FAMILY.cc of kernels/gpu, as kernels.h there lists them, each one
# piece for a compiler. Few, since nvcc takes nearly two seconds of each before it comes to the
# kernels; and none above a quarter of a minute.
set(KEEL_SIMT_COMMON_FAMILIES attention attention_backward elements matmul reductions)
# Those of 64-bit floats, which Level Zero does without.
set(KEEL_SIMT_FAMILIES ${KEEL_SIMT_COMMON_FAMILIES} functions tensors)

# SPDX-License-Identifier: Apache-2.0
# KEEL_SIMT_FAMILIES: the sources FAMILY.cc of kernels/gpu, as kernels.h there lists them, each one
# piece for a compiler. Few, since nvcc takes nearly two seconds of each before it comes to the
# kernels; and none above a quarter of a minute.
set(KEEL_SIMT_FAMILIES
  attention attention_backward elements matmul reductions functions tensors doubles)

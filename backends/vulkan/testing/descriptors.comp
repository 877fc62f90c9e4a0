// SPDX-License-Identifier: Apache-2.0
#version 460
// Wants a descriptor, which kernels of the caller do not get.
layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) buffer Words {
  uint at[];
};

void main() {
  at[0] = 1;
}

// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10: the four words of a counter.

uvec4 philox(uvec4 counter, uvec2 round_key) {
  for (int i = 0; i < 10; ++i) {
    uint high0, low0, high1, low1;
    umulExtended(0xD2511F53u, counter.x, high0, low0);
    umulExtended(0xCD9E8D57u, counter.z, high1, low1);
    counter = uvec4(high1 ^ counter.y ^ round_key.x, low1, high0 ^ counter.w ^ round_key.y, low0);
    round_key += uvec2(0x9E3779B9u, 0xBB67AE85u);
  }
  return counter;
}

// The words of the counter |offset| + |index|.
uvec4 philox_at(uvec2 offset, uint index, uvec2 key) {
  uint carry;
  const uint lower = uaddCarry(offset.x, index, carry);
  return philox(uvec4(lower, offset.y + carry, 0u, 0u), key);
}

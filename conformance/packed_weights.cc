// SPDX-License-Identifier: Apache-2.0
#include "conformance/packed_weights.h"

#include <algorithm>
#include <cstring>
#include <keel/float_types.hpp>
#include <keel/plugin_kit.hpp>

#include "conformance/op_calls.h"
#include "ops/testing/case_builder.h"
#include "ops/testing/reference.h"

namespace keel::conformance {
namespace {

// Allocates device memory for a tensor, which may be empty.
Buffer buffer_for(const Stream& stream, uint64_t bytes) {
  return {stream.device(), KEEL_MEMORY_DEVICE, std::max<uint64_t>(bytes, 1)};
}

void run(const Stream& stream, const OpCall& call) {
  const keel_op_id op = call.get()->op;
  const keel_status status = observe_status(keel_op_run(stream.get(), call.get()));
  if (status == KEEL_UNSUPPORTED) unsupported("the device has no kernel for this call");
  must(status, keel_op_name(op));
}

// Returns the identity [k,k] in one of the three dtypes of weights.
std::vector<std::byte> identity(keel_dtype dtype, int64_t k) {
  const uint64_t size = kit::dtype_size(dtype);
  std::vector<std::byte> bytes(static_cast<uint64_t>(k * k) * size);
  const auto put_one = [&](const auto& one) {
    for (int64_t i = 0; i < k; ++i) {
      std::memcpy(bytes.data() + static_cast<uint64_t>(i * k + i) * size, &one, size);
    }
  };
  if (dtype == KEEL_FLOAT32) {
    put_one(1.0F);
  } else if (dtype == KEEL_BFLOAT16) {
    put_one(to_bfloat16(1.0F));
  } else {
    put_one(to_float16(1.0F));
  }
  return bytes;
}

}  // namespace

std::vector<std::byte> pack(const Stream& stream, const keel_tensor& packed,
                            std::span<const std::byte> content, int64_t k, int64_t n) {
  const Buffer from = buffer_for(stream, content.size());
  const Buffer to = buffer_for(stream, content.size());
  stream.upload(from.data(), content);
  stream.upload(to.data(), content);
  keel_tensor b = packed;
  b.data = from.data();
  b.shape[0] = k;
  b.shape[1] = n;
  keel_tensor result = packed;
  result.data = to.data();
  run(stream, {KEEL_OP_PACK_WEIGHTS, {b}, result, {ops::int_attribute(0)}});
  std::vector<std::byte> bytes(content.size());
  stream.download(bytes, to.data());
  stream.synchronize();
  observe_bytes(bytes);
  return bytes;
}

std::vector<double> unpack(const Stream& stream, const keel_tensor& packed, int64_t k, int64_t n) {
  const std::vector<std::byte> ones = identity(packed.dtype, k);
  std::vector<std::byte> product(static_cast<uint64_t>(k * n) * kit::dtype_size(packed.dtype));
  const Buffer a_memory = buffer_for(stream, ones.size());
  const Buffer c_memory = buffer_for(stream, product.size());
  stream.upload(a_memory.data(), ones);
  const keel_tensor a = kit::make_tensor(a_memory.data(), packed.dtype, {k, k});
  keel_tensor c = kit::make_tensor(c_memory.data(), packed.dtype, {k, n});
  run(stream, {KEEL_OP_PACKED_MATMUL,
               {a, packed, /*bias=*/{}},
               c,
               {ops::int_attribute(0), ops::float_attribute(1), ops::float_attribute(0),
                ops::int_attribute(0)}});
  stream.download(product, c_memory.data());
  stream.synchronize();
  observe_bytes(product);
  c.data = product.data();
  return ops::read_tensor(c);
}

}  // namespace keel::conformance

// SPDX-License-Identifier: Apache-2.0
#include "bench/onednn_peer.h"

#include <fmt/format.h>
#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

namespace keel::bench {

bool OnednnPeer::is_here() {
  return true;
}

std::string OnednnPeer::describe() {
  const dnnl_version_t* const version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

bool OnednnPeer::has_bf16() {
  static const bool has = [] {
    try {
      const OnednnProduct product({16, 16, 16}, /*bfloat16=*/true, /*threads=*/1);
      return true;
    } catch (const dnnl::error&) {
      return false;
    }
  }();
  return has;
}

void OnednnPeer::multiply(const Product& product, const float* a, const float* b, float* c,
                          uint32_t threads) {
  omp_set_num_threads(static_cast<int>(threads));
  dnnl::error::wrap_c_api(dnnl_sgemm('N', 'N', product.m, product.n, product.k, /*alpha=*/1.0f, a,
                                     product.k, b, product.n, /*beta=*/0.0f, c, product.n),
                          "dnnl_sgemm failed");
}

struct OnednnProduct::Compiled {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::matmul primitive;
  dnnl::memory a, b, c;
  bool is_packed = false;
  std::unordered_map<int, dnnl::memory> arguments;
  int threads = 1;
};

OnednnProduct::OnednnProduct(const Product& product, bool bfloat16, uint32_t threads,
                             const void* packed)
    : compiled_(std::make_unique<Compiled>()) {
  using dnnl::memory;
  Compiled& made = *compiled_;
  made.threads = static_cast<int>(threads);
  omp_set_num_threads(made.threads);  // the kernel is compiled for this number
  const auto type = bfloat16 ? memory::data_type::bf16 : memory::data_type::f32;
  const auto describe = [&](int64_t rows, int64_t columns) {
    return memory::desc({rows, columns}, type, memory::dims{columns, 1});
  };
  const memory::desc a = describe(product.m, product.k);
  const memory::desc b = describe(product.k, product.n);
  const memory::desc c = describe(product.m, product.n);
  made.is_packed = packed != nullptr;
  const memory::desc any({product.k, product.n}, type, memory::format_tag::any);
  const dnnl::matmul::primitive_desc chosen(dnnl::matmul::desc(a, made.is_packed ? any : b, c),
                                            made.engine);
  made.primitive = dnnl::matmul(chosen);
  made.a = memory(a, made.engine, DNNL_MEMORY_NONE);
  if (made.is_packed) {
    memory from(b, made.engine, const_cast<void*>(packed));
    made.b = memory(chosen.weights_desc(), made.engine);
    dnnl::reorder(from, made.b).execute(made.stream, from, made.b);
    made.stream.wait();
  } else {
    made.b = memory(b, made.engine, DNNL_MEMORY_NONE);
  }
  made.c = memory(c, made.engine, DNNL_MEMORY_NONE);
  made.arguments = {{DNNL_ARG_SRC, made.a}, {DNNL_ARG_WEIGHTS, made.b}, {DNNL_ARG_DST, made.c}};
}

OnednnProduct::~OnednnProduct() = default;

void OnednnProduct::run(const void* a, const void* b, void* c) {
  Compiled& made = *compiled_;
  omp_set_num_threads(made.threads);
  made.a.set_data_handle(const_cast<void*>(a));
  if (!made.is_packed) made.b.set_data_handle(const_cast<void*>(b));
  made.c.set_data_handle(c);
  made.primitive.execute(made.stream, made.arguments);
  made.stream.wait();
}

}  // namespace keel::bench

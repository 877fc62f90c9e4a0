// SPDX-License-Identifier: Apache-2.0
#include <omp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include "backends/cpu/gemm/gemm_bf16.h"
#include "backends/cpu/runtime/scratch.h"

namespace keel::cpu::gemm {
namespace {

// Whether the kernel lets this process use AMX tiles, which requires a permission request (since
// Linux 5.16; Documentation/arch/x86/xstate.rst).
bool may_use_tiles() {
#if defined(__x86_64__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

// Call before the library's first use. Some virtual machines announce AMX but do not let processes
// use AMX tiles; the library (2.6.3) then dies of an illegal instruction.
void leave_amx_where_it_is_barred() {
  static const bool done = [] {
    if (std::getenv("ONEDNN_MAX_CPU_ISA") == nullptr && !may_use_tiles()) {
      dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
    }
    return true;
  }();
  (void)done;
}

// Limits the library to one OpenMP thread, a setting of each calling thread. The library then runs
// on its caller, starts no team and leaves the device's core budget to ThreadPool. (A team would
// also spin for milliseconds after each call.)
void hold_to_one_thread() {
  thread_local bool held = false;
  if (held) return;
  leave_amx_where_it_is_barred();
  omp_set_num_threads(1);
  held = true;
}

// Whether the library uses the instruction set |isa| and all that it includes. The enumerators are
// bit masks.
bool has_isa(uint32_t isa) {
  leave_amx_where_it_is_barred();
  static const uint32_t effective = dnnl_get_effective_cpu_isa();
  return (effective & isa) == isa;
}

// ---- primitives, compiled for their shape and kept -----------------------------

using dnnl::memory;

struct Key {
  int64_t m, n, k, a_stride, b_stride, b_panel, c_stride;
  uint32_t a_transposed, b_transposed, c_dtype;
  float alpha;
  uint32_t accumulate;
  bool operator==(const Key& other) const = default;
};

// The library's own layout of b, for products by vectors and by tiles: panels of 64 columns, in
// groups of 32 rows, with pairs of rows interleaved.
constexpr int64_t kPanel = 64;
constexpr int64_t kRowsOfPanel = 32;
constexpr auto kPanels = memory::format_tag::BA16a64b2a;

memory::desc describe(int64_t rows, int64_t columns, keel_dtype dtype, const Matrix& matrix) {
  if (matrix.panel != 0) return {{rows, columns}, memory::data_type::bf16, kPanels};
  const memory::dims strides =
      matrix.transposed ? memory::dims{1, matrix.stride} : memory::dims{matrix.stride, 1};
  const auto type = dtype == KEEL_FLOAT32 ? memory::data_type::f32 : memory::data_type::bf16;
  return {{rows, columns}, type, strides};
}

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// Scratch memory of the calling thread's primitives, used by one primitive at a time.
Scratch& scratchpad_of_thread() {
  thread_local Scratch scratchpad;
  return scratchpad;
}

// One compiled product with its oneDNN objects. Used by one thread only, so that calls need no
// lock.
class CompiledProduct {
 public:
  CompiledProduct(const Key& key, const Product& product) : key_(key), stream_(cpu_engine()) {
    const memory::desc a = describe(product.m, product.k, KEEL_BFLOAT16, product.a);
    const memory::desc b = describe(product.k, product.n, KEEL_BFLOAT16, product.b);
    const memory::desc c = describe(product.m, product.n, key.c_dtype, product.c);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    dnnl::post_ops after;
    if (product.alpha == 0.0f) {
      // Given a scale of 0, the library (2.6.3) does not multiply and scales c, even by a beta of
      // 0: NaN in a c that must not be read remains.
      after.append_eltwise(1.0f, dnnl::algorithm::eltwise_linear, 0.0f, 0.0f);
    } else if (product.alpha != 1.0f) {
      attributes.set_output_scales(0, {product.alpha});
    }
    if (product.beta != 0.0f) after.append_sum(product.beta);
    if (after.len() > 0) attributes.set_post_ops(after);
    const dnnl::matmul::primitive_desc descriptor(dnnl::matmul::desc(a, b, c), attributes,
                                                  cpu_engine());
    primitive_ = dnnl::matmul(descriptor);
    a_ = memory(a, cpu_engine(), DNNL_MEMORY_NONE);
    b_ = memory(b, cpu_engine(), DNNL_MEMORY_NONE);
    c_ = memory(c, cpu_engine(), DNNL_MEMORY_NONE);
    scratchpad_ = memory(descriptor.scratchpad_desc(), cpu_engine(), DNNL_MEMORY_NONE);
    scratchpad_size_ = descriptor.scratchpad_desc().get_size();
    arguments_ = {{{DNNL_ARG_SRC, a_.get()},
                   {DNNL_ARG_WEIGHTS, b_.get()},
                   {DNNL_ARG_DST, c_.get()},
                   {DNNL_ARG_SCRATCHPAD, scratchpad_.get()}}};
  }

  const Key& key() const { return key_; }

  void run(const Product& product) {
    a_.set_data_handle(product.a.data);
    b_.set_data_handle(product.b.data);
    c_.set_data_handle(product.c.data);
    scratchpad_.set_data_handle(scratchpad_of_thread().room(scratchpad_size_));
    // Calls the C interface: the C++ interface allocates a copy of the arguments.
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(primitive_.get(), stream_.get(), static_cast<int>(arguments_.size()),
                               arguments_.data()),
        "the product failed");
    stream_.wait();
  }

 private:
  Key key_;
  dnnl::stream stream_;
  dnnl::matmul primitive_;
  memory a_, b_, c_, scratchpad_;
  size_t scratchpad_size_ = 0;
  std::array<dnnl_exec_arg_t, 4> arguments_ = {};
};

keel_status multiply_compiled(const Product& product, keel_dtype c_dtype) try {
  hold_to_one_thread();
  // A training step has a few dozen shapes; a new product evicts the oldest.
  constexpr size_t kKept = 64;
  thread_local std::vector<CompiledProduct> compiled;
  thread_local size_t oldest = 0;

  Key key = {product.m,
             product.n,
             product.k,
             product.a.stride,
             product.b.stride,
             product.b.panel,
             product.c.stride,
             product.a.transposed,
             product.b.transposed,
             c_dtype,
             product.alpha,
             0};
  std::memcpy(&key.accumulate, &product.beta, sizeof(key.accumulate));
  for (CompiledProduct& candidate : compiled) {
    if (candidate.key() == key) {
      candidate.run(product);
      return KEEL_OK;
    }
  }
  if (compiled.size() < kKept) {
    compiled.emplace_back(key, product).run(product);
    return KEEL_OK;
  }
  CompiledProduct& slot = compiled[oldest];
  oldest = (oldest + 1) % kKept;
  slot = CompiledProduct(key, product);
  slot.run(product);
  return KEEL_OK;
} catch (const dnnl::error& error) {
  return error.status == dnnl_out_of_memory ? KEEL_OUT_OF_MEMORY : KEEL_INTERNAL;
} catch (const std::bad_alloc&) {
  return KEEL_OUT_OF_MEMORY;
}

}  // namespace

bool has_bf16() {
  // Below AVX-512 the library has no bfloat16 product. Without a bfloat16 instruction the library
  // emulates products in pairs; for an odd k the last element is paired with zero, and zero times
  // an infinity of the next row is NaN.
  return has_isa(dnnl_cpu_isa_avx512_core_bf16);
}

bool has_bf16_tiles() {
  return has_isa(dnnl_cpu_isa_avx512_core_amx);
}

keel_status multiply_bf16(const Product& product, keel_dtype c_dtype) {
  return multiply_compiled(product, c_dtype);
}

Matrix panels_of_bf16(int64_t k) {
  const int64_t rows = (k + kRowsOfPanel - 1) / kRowsOfPanel * kRowsOfPanel;
  return {nullptr, kPanel, /*transposed=*/false, rows * kPanel};
}

keel_status pack_bf16(const Matrix& b, int64_t k, int64_t first, int64_t columns,
                      const Matrix& panels) try {
  hold_to_one_thread();
  const auto element = [](const Matrix& matrix, int64_t column) {
    return static_cast<uint16_t*>(matrix.data) + matrix.offset(0, column);
  };
  dnnl::stream stream(cpu_engine());
  memory from(describe(k, columns, KEEL_BFLOAT16, b), cpu_engine(), element(b, first));
  memory to(describe(k, columns, KEEL_BFLOAT16, panels), cpu_engine(), element(panels, first));
  dnnl::reorder(from, to).execute(stream, from, to);
  stream.wait();
  return KEEL_OK;
} catch (const dnnl::error& error) {
  return error.status == dnnl_out_of_memory ? KEEL_OUT_OF_MEMORY : KEEL_INTERNAL;
}

const char* bf16_library() {
  static const std::string text = [] {
    const dnnl_version_t* const version = dnnl_version();
    return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
           std::to_string(version->patch);
  }();
  return text.c_str();
}

}  // namespace keel::cpu::gemm

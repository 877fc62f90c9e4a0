// SPDX-License-Identifier: Apache-2.0
// librocblas.so over the emulated chip. Products are the float64 reference that the emulated
// cuBLASLt computes: a passing test shows that the caller's arguments are marshalled correctly, and
// nothing about a library's kernels.
#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "emulator/shims/beside.h"
#include "emulator/shims/cublaslt/problem.h"
#include "emulator/shims/cublaslt/product.h"
#include "emulator/shims/rocblas/library.h"

namespace keel::emulator::rocblas {
namespace {

using cublaslt::Layout;
using cublaslt::Operation;
using cublaslt::Product;

// Kernels with a workspace require sums of kLongSum terms or more.
constexpr rocblas_int kLongSum = 64;
// The limit of a grid's z.
constexpr rocblas_int kMostMatrices = 65535;

// Runs |body|; lets no exception escape.
template <typename Body>
rocblas_status answer(Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return rocblas_status_memory_error;
  } catch (...) {
    return rocblas_status_internal_error;
  }
}

// Runs |body| with the object behind |handle|, which no other thread may use meanwhile.
template <typename Body>
rocblas_status answer_of(rocblas_handle handle, const char* call, Body&& body) noexcept {
  return answer([&] {
    auto* const own = reinterpret_cast<Handle*>(handle);
    if (own == nullptr) return rocblas_status_invalid_handle;
    if (own->is_in_use.exchange(true)) undefined(call, "two threads use one handle");
    const rocblas_status result = body(*own);
    own->is_in_use.store(false);
    return result;
  });
}

rocblas_status result_of(const Status& status) {
  switch (status.code()) {
    case Code::kOk:
      return rocblas_status_success;
    case Code::kOutOfMemory:
      return fail(rocblas_status_memory_error, status.text());
    default:
      return fail(rocblas_status_internal_error, status.text());
  }
}

// Returns the type's number in the reference; -1 for a type that the shim does not support.
int32_t type_of(rocblas_datatype type) {
  switch (type) {
    case rocblas_datatype_f32_r:
      return CUDA_R_32F;
    case rocblas_datatype_f16_r:
      return CUDA_R_16F;
    case rocblas_datatype_bf16_r:
      return CUDA_R_16BF;
    default:
      return -1;
  }
}

bool is_operation(rocblas_operation operation) {
  return operation == rocblas_operation_none || operation == rocblas_operation_transpose;
}

Layout layout_of(rocblas_datatype type, rocblas_int rows, rocblas_int columns, rocblas_int leading,
                 rocblas_stride stride, rocblas_int batch) {
  Layout layout;
  layout.type = type_of(type);
  layout.rows = static_cast<uint64_t>(rows);
  layout.columns = static_cast<uint64_t>(columns);
  layout.leading = leading;
  layout.batch = batch;
  layout.batch_stride = stride;
  return layout;
}

}  // namespace
}  // namespace keel::emulator::rocblas

using namespace keel::emulator::rocblas;  // NOLINT: the functions below are C functions
using keel::emulator::Access;
using keel::emulator::Status;
using keel::emulator::undefined;

extern "C" {

uint64_t keel_emulated_rocblas_handles() {
  return Library::get().handles.load();
}

uint64_t keel_emulated_rocblas_products() {
  return Library::get().products.load();
}

const char* rocblas_status_to_string(rocblas_status status) {
  switch (status) {
    case rocblas_status_success:
      return "rocblas_status_success";
    case rocblas_status_invalid_handle:
      return "rocblas_status_invalid_handle";
    case rocblas_status_not_implemented:
      return "rocblas_status_not_implemented";
    case rocblas_status_invalid_pointer:
      return "rocblas_status_invalid_pointer";
    case rocblas_status_invalid_size:
      return "rocblas_status_invalid_size";
    case rocblas_status_memory_error:
      return "rocblas_status_memory_error";
    case rocblas_status_internal_error:
      return "rocblas_status_internal_error";
    case rocblas_status_invalid_value:
      return "rocblas_status_invalid_value";
    default:
      return "<undefined rocblas_status value>";
  }
}

rocblas_status rocblas_get_version_string(char* buf, size_t len) {
  return answer([&] {
    const std::string& version = Library::get().settings().version;
    if (buf == nullptr) return rocblas_status_invalid_pointer;
    if (len <= version.size()) return rocblas_status_invalid_size;
    std::memcpy(buf, version.c_str(), version.size() + 1);
    return rocblas_status_success;
  });
}

rocblas_status rocblas_create_handle(rocblas_handle* handle) {
  return answer([&] {
    if (handle == nullptr) return rocblas_status_invalid_handle;
    Library& library = Library::get();
    if (library.settings().create != rocblas_status_success) return library.settings().create;
    auto own = std::make_unique<Handle>();
    const Status found = library.chip(&own->chip);
    if (!found.ok()) return result_of(found);
    library.handles.fetch_add(1);
    *handle = reinterpret_cast<rocblas_handle>(own.release());
    return rocblas_status_success;
  });
}

rocblas_status rocblas_destroy_handle(rocblas_handle handle) {
  return answer([&] {
    if (handle == nullptr) return rocblas_status_invalid_handle;
    delete reinterpret_cast<Handle*>(handle);
    Library::get().handles.fetch_sub(1);
    return rocblas_status_success;
  });
}

rocblas_status rocblas_set_stream(rocblas_handle handle, hipStream_t stream) {
  return answer_of(handle, "rocblas_set_stream", [&](Handle& own) {
    keel::emulator::Stream* found = nullptr;
    const Status status = Library::get().stream(stream, &found);
    if (!status.ok()) return fail(rocblas_status_invalid_value, status.text());
    own.stream = stream;
    return rocblas_status_success;
  });
}

rocblas_status rocblas_set_workspace(rocblas_handle handle, void* addr, size_t size) {
  return answer_of(handle, "rocblas_set_workspace", [&](Handle& own) {
    const bool is_callers = addr != nullptr && size != 0;
    own.workspace = is_callers ? keel::emulator::address_of(addr) : 0;
    own.workspace_bytes = is_callers ? size : 0;
    return rocblas_status_success;
  });
}

// Sums have one order here, with and without atomics.
rocblas_status rocblas_set_atomics_mode(rocblas_handle handle, rocblas_atomics_mode atomics_mode) {
  return answer_of(handle, "rocblas_set_atomics_mode", [&](Handle& /*own*/) {
    return atomics_mode == rocblas_atomics_allowed || atomics_mode == rocblas_atomics_not_allowed
               ? rocblas_status_success
               : rocblas_status_invalid_value;
  });
}

rocblas_status rocblas_gemm_strided_batched_ex(
    rocblas_handle handle, rocblas_operation transA, rocblas_operation transB, rocblas_int m,
    rocblas_int n, rocblas_int k, const void* alpha, const void* a, rocblas_datatype a_type,
    rocblas_int lda, rocblas_stride stride_a, const void* b, rocblas_datatype b_type,
    rocblas_int ldb, rocblas_stride stride_b, const void* beta, const void* c,
    rocblas_datatype c_type, rocblas_int ldc, rocblas_stride stride_c, void* d,
    rocblas_datatype d_type, rocblas_int ldd, rocblas_stride stride_d, rocblas_int batch_count,
    rocblas_datatype compute_type, rocblas_gemm_algo algo, int32_t solution_index, uint32_t flags) {
  constexpr char kCall[] = "rocblas_gemm_strided_batched_ex";
  return answer_of(handle, kCall, [&](Handle& own) {
    if (batch_count > kMostMatrices) return rocblas_status_invalid_size;
    if (!is_operation(transA) || !is_operation(transB)) return rocblas_status_invalid_value;
    const bool trans_a = transA == rocblas_operation_transpose;
    const bool trans_b = transB == rocblas_operation_transpose;
    if (m < 0 || n < 0 || k < 0 || batch_count < 0 || ldc < m || ldd < m ||
        lda < (trans_a ? k : m) || ldb < (trans_b ? n : k)) {
      return fail(rocblas_status_invalid_size,
                  fmt::format("{} x {} x {} with leading dimensions {}, "
                              "{}, {} and {}",
                              m, n, k, lda, ldb, ldc, ldd));
    }
    if (m == 0 || n == 0 || batch_count == 0) return rocblas_status_success;
    if (alpha == nullptr || beta == nullptr || a == nullptr || b == nullptr || c == nullptr ||
        d == nullptr) {
      return rocblas_status_invalid_pointer;
    }
    if (c == d && (c_type != d_type || ldc != ldd || stride_c != stride_d)) {
      return fail(rocblas_status_invalid_value, "c and d are one matrix of two descriptions");
    }
    if (k == 0 || algo != rocblas_gemm_algo_standard || solution_index != 0 || flags != 0) {
      undefined(kCall, "a use that the emulated library leaves out");
    }
    if (compute_type != rocblas_datatype_f32_r || type_of(a_type) == -1 || type_of(d_type) == -1) {
      return rocblas_status_not_implemented;
    }
    const Settings& settings = Library::get().settings();
    if (settings.gemm != rocblas_status_success) return settings.gemm;
    if (!Library::get().has_kernels()) undefined(kCall, "no kernels for the device's architecture");
    Product product = {};
    Operation operation;
    operation.compute = CUBLAS_COMPUTE_32F;
    operation.scale = CUDA_R_32F;
    operation.trans_a = trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    operation.trans_b = trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    std::string why;
    const cublasStatus_t made = make_problem(
        operation, layout_of(a_type, trans_a ? k : m, trans_a ? m : k, lda, stride_a, batch_count),
        layout_of(b_type, trans_b ? n : k, trans_b ? k : n, ldb, stride_b, batch_count),
        layout_of(c_type, m, n, ldc, stride_c, batch_count),
        layout_of(d_type, m, n, ldd, stride_d, batch_count), &product.problem, &why);
    if (made == CUBLAS_STATUS_NOT_SUPPORTED) return rocblas_status_not_implemented;
    if (made != CUBLAS_STATUS_SUCCESS) return fail(rocblas_status_invalid_size, why);
    product.a = keel::emulator::address_of(a);
    product.b = keel::emulator::address_of(b);
    product.c = keel::emulator::address_of(c);
    product.d = keel::emulator::address_of(d);
    std::memcpy(&product.alpha, alpha, sizeof(product.alpha));
    std::memcpy(&product.beta, beta, sizeof(product.beta));
    if (k >= kLongSum && own.workspace_bytes >= settings.workspace) {
      product.workspace = own.workspace;
      product.workspace_bytes = settings.workspace;
    }
    keel::emulator::Stream* on = nullptr;
    const Status found = Library::get().stream(own.stream, &on);
    if (!found.ok()) return result_of(found);
    if (&on->device() != own.chip.get()) undefined(kCall, "a handle of another device");
    uint64_t bytes = 0;
    (void)extent_of(product.problem.d, &bytes);
    const Status launched =
        on->launch(work_of(product), {product.d, bytes},
                   [product, computes = on->device().options().computes](Access& access) {
                     const Status status = run_product(product, computes, access);
                     if (!status.ok()) (void)fail(rocblas_status_internal_error, status.text());
                     return status;
                   });
    if (launched.ok()) Library::get().products.fetch_add(1);
    return result_of(launched);
  });
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
// Products by rocBLAS on one device. A handle has one stream and serves one thread at a time, so a
// product borrows a handle, sets the stream and the caller's workspace, and returns the handle.
// The library keeps the workspace of one call apart from those of other streams, since the caller
// owns each.
#include <atomic>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include "backends/gpu/device.h"
#include "backends/gpu/library_products.h"
#include "backends/gpu/stream.h"
#include "backends/hip/rocblas.h"

namespace keel::gpu {
namespace {

rocblas_datatype type_of(keel_dtype dtype) {
  if (dtype == KEEL_FLOAT32) return rocblas_datatype_f32_r;
  return dtype == KEEL_BFLOAT16 ? rocblas_datatype_bf16_r : rocblas_datatype_f16_r;
}

rocblas_operation transposition(bool is_transposed) {
  return is_transposed ? rocblas_operation_transpose : rocblas_operation_none;
}

bool succeeded(rocblas_status status) {
  return status == rocblas_status_success || status == rocblas_status_perf_degraded;
}

// Whether |status| says that the library never computes products of these dtypes on this device.
bool is_refusal(rocblas_status status) {
  return status == rocblas_status_not_implemented || status == rocblas_status_excluded_from_build ||
         status == rocblas_status_arch_mismatch;
}

// The bit of a pair of dtypes.
uint32_t bit_of(const Product& product) {
  const uint32_t in = product.in == KEEL_FLOAT32 ? 0 : product.in == KEEL_BFLOAT16 ? 1 : 2;
  return 1U << (in * 2 + (product.out == KEEL_FLOAT32 ? 1 : 0));
}

bool is_int(int64_t value) {
  return value <= std::numeric_limits<rocblas_int>::max();
}

}  // namespace

class LibraryProducts::Plans {
 public:
  Plans(Device& device, std::string folder) : device_(device), folder_(std::move(folder)) {}
  ~Plans() {
    if (idle_.empty()) return;
    (void)device_.release("rocblas_destroy_handle", [&](const Functions&) {
      for (rocblas_handle handle : idle_) {
        (void)library_->functions().destroy_handle(handle);
      }
      return kSuccess;
    });
  }
  Plans(const Plans&) = delete;
  Plans& operator=(const Plans&) = delete;

  bool takes(const Product& product) {
    std::call_once(started_, [&] { start(); });
    return is_used_ && (refused_.load(std::memory_order_relaxed) & bit_of(product)) == 0 &&
           is_int(product.a_row) && is_int(product.b_row) && is_int(product.c_row);
  }

  keel_status run(const Stream& stream, const Product& product, const Factors& factors,
                  void* workspace, bool* out_ran) {
    const char* call = "";
    rocblas_status result = rocblas_status_success;
    const keel_status status =
        stream.call("rocblas_gemm_strided_batched_ex", [&](const Functions& hip) {
          rocblas_handle handle = nullptr;
          result = borrow(&handle, &call);
          if (handle != nullptr) {
            result = enqueue(handle, stream.native(), product, factors, workspace, &call);
            give_back(handle);
          }
          if (succeeded(result)) return Result{kSuccess};
          // The library reports only that a call failed; if the device is lost, the runtime reports
          // the cause.
          size_t free = 0;
          size_t total = 0;
          return hip.MemGetInfo(&free, &total);
        });
    *out_ran = true;
    if (status != KEEL_OK || succeeded(result)) return status;
    const std::string text = library_->text_of(call, result);
    if (!is_refusal(result) && result != rocblas_status_memory_error) {
      return kit::fail(KEEL_INTERNAL, "hip: %s", text.c_str());
    }
    // Nothing was enqueued.
    *out_ran = false;
    if (is_refusal(result)) refused_.fetch_or(bit_of(product), std::memory_order_relaxed);
    device_.driver().warn_once("hip: a matrix product by Keel's own kernel: " + text);
    return KEEL_OK;
  }

 private:
  void start() {
    const RocBlas& library = RocBlas::of(folder_);
    if (!library.is_usable()) return;  // RocBlas has logged why
    library_ = &library;
    keel_device_info info = {};
    describe_device(device_.functions(), device_.handle(), &info);
    const std::string full = info.architecture;  // "gfx90a:sramecc+:xnack-"
    const std::string architecture = full.substr(0, full.find(':'));
    if (architecture.empty() || !library.has_kernels_for(architecture)) {
      device_.driver().warn_once("hip: matrix products by Keel's own kernels: " +
                                 library.description() + " has no kernels for " +
                                 (architecture.empty() ? "a nameless architecture" : architecture));
      return;
    }
    rocblas_handle handle = nullptr;
    const char* call = "";
    rocblas_status created = rocblas_status_success;
    const Result asked = device_.ask([&](const Functions&) {
      created = borrow(&handle, &call);
      return kSuccess;
    });
    if (handle != nullptr) {
      give_back(handle);
      is_used_ = true;
    } else if (asked == kSuccess) {
      device_.driver().warn_once("hip: matrix products by Keel's own kernels: " +
                                 library.text_of(call, created) + "; " + library.description());
    }
  }

  // Sets |*out_handle| to an idle handle or a new one; NULL with the status of |*out_call|. Atomics
  // are off, so that equal products give equal bits.
  rocblas_status borrow(rocblas_handle* out_handle, const char** out_call) {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        *out_handle = idle_.back();
        idle_.pop_back();
        return rocblas_status_success;
      }
    }
    const RocBlasFunctions& blas = library_->functions();
    *out_call = "rocblas_create_handle";
    rocblas_handle handle = nullptr;
    rocblas_status status = blas.create_handle(&handle);
    if (status != rocblas_status_success) return status;
    *out_call = "rocblas_set_atomics_mode";
    status = blas.set_atomics_mode(handle, rocblas_atomics_not_allowed);
    if (status == rocblas_status_success) {
      *out_handle = handle;
    } else {
      (void)blas.destroy_handle(handle);
    }
    return status;
  }

  void give_back(rocblas_handle handle) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(handle);
  }

  // A row-major matrix is its transpose in column-major order: c^T = op(b)^T op(a)^T, so b comes
  // first and both operands keep their transposition.
  rocblas_status enqueue(rocblas_handle handle, NativeStream stream, const Product& p,
                         const Factors& factors, void* workspace, const char** out_call) const {
    const RocBlasFunctions& blas = library_->functions();
    *out_call = "rocblas_set_stream";
    rocblas_status status = blas.set_stream(handle, stream);
    if (status != rocblas_status_success) return status;
    *out_call = "rocblas_set_workspace";
    status = blas.set_workspace(handle, workspace, kWorkspaceBytes);
    if (status != rocblas_status_success) return status;
    *out_call = "rocblas_gemm_strided_batched_ex";
    const auto integer = [](int64_t value) { return static_cast<rocblas_int>(value); };
    return blas.gemm_strided_batched_ex(
        handle, transposition(p.trans_b), transposition(p.trans_a), integer(p.n), integer(p.m),
        integer(p.k), &factors.alpha, factors.b, type_of(p.in), integer(p.b_row), p.b_batch,
        factors.a, type_of(p.in), integer(p.a_row), p.a_batch, &factors.beta, factors.c,
        type_of(p.out), integer(p.c_row), p.c_batch, factors.c, type_of(p.out), integer(p.c_row),
        p.c_batch, integer(p.batch), rocblas_datatype_f32_r, rocblas_gemm_algo_standard,
        /*solution_index=*/0, /*flags=*/0);
  }

  Device& device_;
  const std::string folder_;
  std::once_flag started_;
  const RocBlas* library_ = nullptr;
  bool is_used_ = false;
  std::atomic<uint32_t> refused_{0};  // bits of pairs of dtypes
  std::mutex mutex_;                  // of idle_
  std::vector<rocblas_handle> idle_;
};

LibraryProducts::LibraryProducts(Device& device, std::string folder)
    : plans_(std::make_unique<Plans>(device, std::move(folder))) {}

LibraryProducts::~LibraryProducts() = default;

bool LibraryProducts::adds_bias() {
  return false;
}

bool LibraryProducts::takes(const Product& product, uint64_t* out_workspace_bytes) {
  if (!plans_->takes(product)) return false;
  *out_workspace_bytes = kWorkspaceBytes;
  return true;
}

keel_status LibraryProducts::run(const Stream& stream, const Product& product,
                                 const Factors& factors, void* workspace, bool* out_ran) {
  *out_ran = false;
  if (workspace == nullptr || !plans_->takes(product)) return KEEL_OK;
  return plans_->run(stream, product, factors, workspace, out_ran);
}

}  // namespace keel::gpu

// SPDX-License-Identifier: Apache-2.0
// libcublasLt.so over the emulated chip. Products are the float64 reference: a passing test shows
// that the caller's arguments are marshalled correctly, and nothing about a library's kernels.
#include <cublasLt.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "emulator/shims/cublaslt/library.h"
#include "emulator/shims/cublaslt/problem.h"
#include "emulator/shims/cublaslt/product.h"

namespace keel::emulator::cublaslt {
namespace {

// Kernels with a workspace require sums of kLongSum terms or more.
constexpr uint64_t kLongSum = 64;
constexpr uint64_t kWorkspaceAlignment = 256;

// Runs |body|; lets no exception escape.
template <typename Body>
cublasStatus_t answer(Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return CUBLAS_STATUS_ALLOC_FAILED;
  } catch (...) {
    return CUBLAS_STATUS_INTERNAL_ERROR;
  }
}

// Stores |object| in the |size| bytes of the caller's descriptor.
template <typename Object, typename Opaque>
cublasStatus_t set_up(const Object& object, size_t size, Opaque* out_opaque) {
  if (out_opaque == nullptr) return fail(CUBLAS_STATUS_INVALID_VALUE, "a descriptor that is NULL");
  if (size < sizeof(Object)) {
    return fail(CUBLAS_STATUS_ALLOC_FAILED, fmt::format("a descriptor of {} bytes", size));
  }
  store(object, out_opaque);
  return CUBLAS_STATUS_SUCCESS;
}

// Copies the |size| bytes at |value| to |out_field|, whose size must be equal.
template <typename Field>
cublasStatus_t assign(const void* value, size_t size, Field* out_field) {
  if (value == nullptr || size != sizeof(Field)) {
    return fail(CUBLAS_STATUS_INVALID_VALUE, fmt::format("an attribute of {} bytes", size));
  }
  std::memcpy(out_field, value, size);
  return CUBLAS_STATUS_SUCCESS;
}

// Applies |body| to the |Object| in |opaque|, and stores the object if |body| succeeds.
template <typename Object, typename Opaque, typename Body>
cublasStatus_t change(Opaque* opaque, Body&& body) {
  if (opaque == nullptr) return fail(CUBLAS_STATUS_INVALID_VALUE, "a descriptor that is NULL");
  Object object = load<Object>(*opaque);
  if (object.mark != Object::kMark) {
    return fail(CUBLAS_STATUS_INVALID_VALUE, "a descriptor that was never set up");
  }
  const cublasStatus_t result = body(&object);
  if (result == CUBLAS_STATUS_SUCCESS) store(object, opaque);
  return result;
}

cublasStatus_t unknown(const char* what, int attribute) {
  return fail(CUBLAS_STATUS_NOT_SUPPORTED,
              fmt::format("the emulated library has no {} attribute {}", what, attribute));
}

cublasStatus_t result_of(const Status& status) {
  switch (status.code()) {
    case Code::kOk:
      return CUBLAS_STATUS_SUCCESS;
    case Code::kOutOfMemory:
      return fail(CUBLAS_STATUS_ALLOC_FAILED, status.text());
    case Code::kInvalidArgument:
      return fail(CUBLAS_STATUS_NOT_INITIALIZED, status.text());
    default:
      return fail(CUBLAS_STATUS_EXECUTION_FAILED, status.text());
  }
}

// Reads the descriptors of a call; refuses NULL.
cublasStatus_t read_problem(cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                            cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                            cublasLtMatrixLayout_t d, Problem* out_problem) {
  if (operation == nullptr || a == nullptr || b == nullptr || c == nullptr || d == nullptr) {
    return fail(CUBLAS_STATUS_INVALID_VALUE, "a descriptor that is NULL");
  }
  std::string why;
  const cublasStatus_t result =
      make_problem(load<Operation>(*operation), load<Layout>(*a), load<Layout>(*b),
                   load<Layout>(*c), load<Layout>(*d), out_problem, &why);
  return result == CUBLAS_STATUS_SUCCESS ? result : fail(result, why);
}

// Returns the object behind |handle| if its context is current; else NULL.
Handle* handle_here(cublasLtHandle_t handle) {
  auto* const own = reinterpret_cast<Handle*>(handle);
  std::shared_ptr<Device> chip;
  if (own == nullptr || !Library::get().chip(&chip).ok() || chip != own->chip) return nullptr;
  return own;
}

uint32_t alignment_of(Address address) {
  return static_cast<uint32_t>(std::min<Address>(address & (~address + 1), 256));
}

// Returns why |algorithm| does not apply to the call; empty if it applies.
std::string objection(const Algorithm& algorithm, const Product& product,
                      uint64_t workspace_bytes) {
  if (algorithm.mark != Algorithm::kMark) return "an algorithm that no heuristic has found";
  if (algorithm.problem != product.problem.digest()) return "an algorithm for another product";
  const Address addresses[] = {product.a, product.b, product.c, product.d};
  for (size_t i = 0; i < std::size(addresses); ++i) {
    if (addresses[i] == 0) return "a matrix that is nowhere";
    if (addresses[i] % algorithm.alignment[i] != 0) {
      return fmt::format("matrix {} is less aligned than the {} bytes that were promised",
                         "ABCD"[i], algorithm.alignment[i]);
    }
  }
  if (product.problem.has_bias() &&
      product.problem.operation.bias % algorithm.bias_alignment != 0) {
    return "the bias is less aligned than the one that was asked about";
  }
  if (algorithm.workspace == 0) return {};
  if (workspace_bytes < algorithm.workspace || product.workspace == 0) {
    return fmt::format("{} bytes of workspace for a kernel that wants {}", workspace_bytes,
                       algorithm.workspace);
  }
  return product.workspace % kWorkspaceAlignment == 0 ? "" : "an unaligned workspace";
}

}  // namespace
}  // namespace keel::emulator::cublaslt

using namespace keel::emulator::cublaslt;  // NOLINT: the functions below are C functions
using keel::emulator::Address;
using keel::emulator::Status;

extern "C" {

uint64_t keel_emulated_cublaslt_heuristics() {
  return Library::get().heuristics.load();
}

uint64_t keel_emulated_cublaslt_products() {
  return Library::get().products.load();
}

size_t cublasLtGetVersion() {
  return Library::get().settings().version;
}

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "an unknown cublasStatus_t";
  }
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* lightHandle) {
  return answer([&] {
    if (lightHandle == nullptr) return fail(CUBLAS_STATUS_INVALID_VALUE, "no place for a handle");
    const cublasStatus_t refusal = Library::get().settings().create;
    if (refusal != CUBLAS_STATUS_SUCCESS) return refusal;
    auto handle = std::make_unique<Handle>();
    const Status found = Library::get().chip(&handle->chip);
    if (!found.ok()) return fail(CUBLAS_STATUS_NOT_INITIALIZED, found.text());
    *lightHandle = reinterpret_cast<cublasLtHandle_t>(handle.release());
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t lightHandle) {
  return answer([&] {
    delete reinterpret_cast<Handle*>(lightHandle);
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t matmulDesc, size_t size,
                                               cublasComputeType_t computeType,
                                               cudaDataType_t scaleType) {
  return answer([&] {
    Operation operation;
    operation.compute = computeType;
    operation.scale = scaleType;
    return set_up(operation, size, matmulDesc);
  });
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmulDesc,
                                              cublasLtMatmulDescAttributes_t attr, const void* buf,
                                              size_t sizeInBytes) {
  return answer([&] {
    return change<Operation>(matmulDesc, [&](Operation* operation) {
      switch (attr) {
        case CUBLASLT_MATMUL_DESC_TRANSA:
          return assign(buf, sizeInBytes, &operation->trans_a);
        case CUBLASLT_MATMUL_DESC_TRANSB:
          return assign(buf, sizeInBytes, &operation->trans_b);
        case CUBLASLT_MATMUL_DESC_EPILOGUE:
          return assign(buf, sizeInBytes, &operation->epilogue);
        case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
          return assign(buf, sizeInBytes, &operation->bias);
        case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
          return assign(buf, sizeInBytes, &operation->bias_type);
        default:
          return unknown("operation", attr);
      }
    });
  });
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t matLayout, size_t size,
                                                 cudaDataType type, uint64_t rows, uint64_t cols,
                                                 int64_t ld) {
  return answer([&] {
    Layout layout;
    layout.type = type;
    layout.rows = rows;
    layout.columns = cols;
    layout.leading = ld;
    return set_up(layout, size, matLayout);
  });
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t matLayout,
                                                cublasLtMatrixLayoutAttribute_t attr,
                                                const void* buf, size_t sizeInBytes) {
  return answer([&] {
    return change<Layout>(matLayout, [&](Layout* layout) {
      switch (attr) {
        case CUBLASLT_MATRIX_LAYOUT_ORDER:
          return assign(buf, sizeInBytes, &layout->order);
        case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
          return assign(buf, sizeInBytes, &layout->batch);
        case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
          return assign(buf, sizeInBytes, &layout->batch_stride);
        default:
          return unknown("layout", attr);
      }
    });
  });
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t pref, size_t size) {
  return answer([&] { return set_up(Preference(), size, pref); });
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
                                                    cublasLtMatmulPreferenceAttributes_t attr,
                                                    const void* buf, size_t sizeInBytes) {
  return answer([&] {
    return change<Preference>(pref, [&](Preference* preference) {
      switch (attr) {
        case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
          return assign(buf, sizeInBytes, &preference->workspace);
        case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
          return assign(buf, sizeInBytes, &preference->reductions);
        case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
          return assign(buf, sizeInBytes, &preference->alignment[0]);
        case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
          return assign(buf, sizeInBytes, &preference->alignment[1]);
        case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
          return assign(buf, sizeInBytes, &preference->alignment[2]);
        case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
          return assign(buf, sizeInBytes, &preference->alignment[3]);
        default:
          return unknown("preference", attr);
      }
    });
  });
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t operationDesc, cublasLtMatrixLayout_t Adesc,
    cublasLtMatrixLayout_t Bdesc, cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
    cublasLtMatmulPreference_t preference, int requestedAlgoCount,
    cublasLtMatmulHeuristicResult_t heuristicResultsArray[], int* returnAlgoCount) {
  return answer([&] {
    Library& library = Library::get();
    library.heuristics.fetch_add(1);
    if (handle_here(lightHandle) == nullptr) {
      return fail(CUBLAS_STATUS_NOT_INITIALIZED, "a handle that is not of the current context");
    }
    if (preference == nullptr || requestedAlgoCount <= 0 || heuristicResultsArray == nullptr ||
        returnAlgoCount == nullptr) {
      return fail(CUBLAS_STATUS_INVALID_VALUE, "no preference, or no room for an algorithm");
    }
    *returnAlgoCount = 0;
    Problem problem;
    const cublasStatus_t result = read_problem(operationDesc, Adesc, Bdesc, Cdesc, Ddesc, &problem);
    if (result != CUBLAS_STATUS_SUCCESS) return result;
    const auto wanted = load<Preference>(*preference);
    if (wanted.mark != Preference::kMark) {
      return fail(CUBLAS_STATUS_INVALID_VALUE, "a preference that was never set up");
    }
    Algorithm algorithm;
    algorithm.problem = problem.digest();
    for (size_t i = 0; i < std::size(wanted.alignment); ++i) {
      algorithm.alignment[i] = wanted.alignment[i];
      const bool is_power = (wanted.alignment[i] & (wanted.alignment[i] - 1)) == 0;
      if (!is_power || wanted.alignment[i] < size_of(i < 2 ? problem.a.type : problem.d.type)) {
        return fail(CUBLAS_STATUS_INVALID_VALUE,
                    fmt::format("an alignment of {} bytes", wanted.alignment[i]));
      }
    }
    if (problem.has_bias()) algorithm.bias_alignment = alignment_of(problem.operation.bias);
    const Settings& settings = library.settings();
    if (settings.heuristic != CUBLAS_STATUS_SUCCESS) return settings.heuristic;
    if (!settings.kernels) return CUBLAS_STATUS_SUCCESS;
    // A split sum keeps partial sums in the workspace, if the workspace is large enough.
    const bool may_split = (wanted.reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0;
    if (may_split && problem.k >= kLongSum && settings.workspace <= wanted.workspace) {
      algorithm.workspace = settings.workspace;
    }
    cublasLtMatmulHeuristicResult_t found = {};
    store(algorithm, &found.algo);
    found.workspaceSize = algorithm.workspace;
    found.state = CUBLAS_STATUS_SUCCESS;
    found.wavesCount = 1;
    heuristicResultsArray[0] = found;
    *returnAlgoCount = 1;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t computeDesc,
                              const void* alpha, const void* A, cublasLtMatrixLayout_t Adesc,
                              const void* B, cublasLtMatrixLayout_t Bdesc, const void* beta,
                              const void* C, cublasLtMatrixLayout_t Cdesc, void* D,
                              cublasLtMatrixLayout_t Ddesc, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspaceSizeInBytes, cudaStream_t stream) {
  return answer([&] {
    Library& library = Library::get();
    if (handle_here(lightHandle) == nullptr) {
      return fail(CUBLAS_STATUS_NOT_INITIALIZED, "a handle that is not of the current context");
    }
    if (alpha == nullptr || beta == nullptr || algo == nullptr) {
      return fail(CUBLAS_STATUS_INVALID_VALUE, "no alpha, no beta, or no algorithm");
    }
    Product product = {};
    const cublasStatus_t result =
        read_problem(computeDesc, Adesc, Bdesc, Cdesc, Ddesc, &product.problem);
    if (result != CUBLAS_STATUS_SUCCESS) return result;
    product.a = keel::emulator::address_of(A);
    product.b = keel::emulator::address_of(B);
    product.c = keel::emulator::address_of(C);
    product.d = keel::emulator::address_of(D);
    std::memcpy(&product.alpha, alpha, sizeof(product.alpha));
    std::memcpy(&product.beta, beta, sizeof(product.beta));
    const auto algorithm = load<Algorithm>(*algo);
    product.workspace = keel::emulator::address_of(workspace);
    product.workspace_bytes = algorithm.workspace;
    const std::string why = objection(algorithm, product, workspaceSizeInBytes);
    if (!why.empty()) return fail(CUBLAS_STATUS_INVALID_VALUE, why);
    if (library.settings().matmul != CUBLAS_STATUS_SUCCESS) return library.settings().matmul;
    keel::emulator::Stream* on = nullptr;
    const Status found = library.stream(stream, &on);
    if (!found.ok()) return result_of(found);
    uint64_t bytes = 0;
    (void)extent_of(product.problem.d, &bytes);
    const Status launched = on->launch(
        work_of(product), {product.d, bytes},
        [product, computes = on->device().options().computes](keel::emulator::Access& access) {
          const Status status = run_product(product, computes, access);
          // The driver's interface returns only a number, so the text goes to stderr.
          if (!status.ok()) (void)fail(CUBLAS_STATUS_EXECUTION_FAILED, status.text());
          return status;
        });
    if (launched.ok()) library.products.fetch_add(1);
    return result_of(launched);
  });
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
#include "backends/kunlun/bkcl.h"

#include <dlfcn.h>

#include <map>
#include <memory>
#include <mutex>

namespace keel::kunlun {
namespace {

// A header that is not the vendor's names its kind, and a library that was compiled with such a
// header returns the name.
#ifdef BKCL_HEADER_KIND
constexpr const char* kHeaderKind = BKCL_HEADER_KIND;
#else
constexpr const char* kHeaderKind = "";
#endif

std::string kind_text(const std::string& kind) {
  return kind.empty() ? "the vendor's bkcl.h" : "the bkcl.h of kind '" + kind + "'";
}

}  // namespace

const Bkcl& Bkcl::of(const std::string& folder) {
  // Never destroyed, like the libraries.
  static std::mutex& mutex = *new std::mutex;
  static auto& libraries = *new std::map<std::string, std::unique_ptr<Bkcl>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Bkcl>& library = libraries[folder];
  if (library == nullptr) library.reset(new Bkcl(folder));
  return *library;
}

Bkcl::Bkcl(const std::string& folder) {
  if (open(folder)) reason_.clear();
}

bool Bkcl::open(const std::string& folder) {
  const bool is_open = folder.empty()
                           ? library_.open(folder, {"libbkcl.so", "/usr/local/xccl/so/libbkcl.so"})
                           : library_.open(folder, {"libbkcl.so"});
  if (!is_open) {
    reason_ = "no BKCL: " + library_.error();
    return false;
  }
  std::string missing;
#define KEEL_BKCL_FIND(name)                                             \
  if (!library_.find("bkcl_" #name, &functions_.name)) {                 \
    missing += std::string(missing.empty() ? "" : ", ") + "bkcl_" #name; \
  }
  KEEL_BKCL_FUNCTIONS(KEEL_BKCL_FIND)
#undef KEEL_BKCL_FIND
  library_.find("bkcl_comm_abort", &functions_.comm_abort);
  std::string path = "libbkcl.so";
  Dl_info info;
  if (functions_.init_rank != nullptr &&
      dladdr(reinterpret_cast<void*>(functions_.init_rank), &info) != 0 &&
      info.dli_fname != nullptr) {
    path = info.dli_fname;
  }
  if (!missing.empty()) {
    reason_ = "unusable BKCL " + path + ": symbols missing: " + missing;
    return false;
  }
  const char* (*header_kind)() = nullptr;
  const std::string kind = library_.find("bkcl_header_kind", &header_kind) ? header_kind() : "";
  if (kind != kHeaderKind) {
    reason_ = "BKCL " + path + " was compiled with " + kind_text(kind) + ", this plugin with " +
              kind_text(kHeaderKind) + ": their enumerators have other numbers";
    return false;
  }
  name_ = kind.empty() ? "BKCL" : "BKCL (" + kind + ")";
  return true;
}

bool translate(keel_dtype dtype, BKCLDataType* out_type) {
  switch (dtype) {
    case KEEL_UINT8:
      *out_type = BKCL_UINT8;
      return true;
    case KEEL_INT32:
      *out_type = BKCL_INT32;
      return true;
    case KEEL_INT64:
      *out_type = BKCL_INT64;
      return true;
    case KEEL_FLOAT16:
      *out_type = BKCL_FLOAT16;
      return true;
    case KEEL_BFLOAT16:
      *out_type = BKCL_BFLOAT16;
      return true;
    case KEEL_FLOAT32:
      *out_type = BKCL_FLOAT;
      return true;
    case KEEL_FLOAT64:
      *out_type = BKCL_FLOAT64;
      return true;
    default:
      return false;
  }
}

// BKCL_AVG is newer than most headers, and its rounding is not documented: core averages.
bool translate(keel_reduction reduction, BKCLOp* out_op) {
  switch (reduction) {
    case KEEL_SUM:
      *out_op = BKCL_ADD;
      return true;
    case KEEL_PROD:
      *out_op = BKCL_PRODUCT;
      return true;
    case KEEL_MIN:
      *out_op = BKCL_MIN;
      return true;
    case KEEL_MAX:
      *out_op = BKCL_MAX;
      return true;
    default:
      return false;
  }
}

bool Bkcl::can(keel_collective collective, keel_dtype dtype, keel_reduction reduction) {
  BKCLDataType type = {};
  BKCLOp op = {};
  if (!translate(dtype, &type)) return false;
  switch (collective) {
    case KEEL_ALL_REDUCE:
    case KEEL_REDUCE:
    case KEEL_REDUCE_SCATTER:
      return translate(reduction, &op);
    case KEEL_BROADCAST:
    case KEEL_ALL_GATHER:
    case KEEL_ALL_TO_ALL:
    case KEEL_ALL_TO_ALL_V:
    case KEEL_SEND:
    case KEEL_RECV:
      return true;
    default:
      return false;
  }
}

keel_status fail(const char* call, BKCLResult_t result) {
  switch (result) {
    case BKCL_INVALID_ARGUMENT:
      return kit::fail(KEEL_INVALID_ARGUMENT, "kunlun: %s: BKCL_INVALID_ARGUMENT", call);
    case BKCL_RUNTIME_ERROR:
      return kit::fail(KEEL_INTERNAL, "kunlun: %s: BKCL_RUNTIME_ERROR", call);
    case BKCL_SYSTEM_ERROR:
      return kit::fail(KEEL_UNAVAILABLE, "kunlun: %s: BKCL_SYSTEM_ERROR", call);
    case BKCL_INTERNAL_ERROR:
      return kit::fail(KEEL_INTERNAL, "kunlun: %s: BKCL_INTERNAL_ERROR", call);
    default:
      return kit::fail(KEEL_INTERNAL, "kunlun: %s: BKCL result %d", call, static_cast<int>(result));
  }
}

}  // namespace keel::kunlun

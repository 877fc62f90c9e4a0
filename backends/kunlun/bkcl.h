// SPDX-License-Identifier: Apache-2.0
// BKCL of one folder, opened at run time. The plugin does not link to BKCL, so the plugin loads on
// machines without it and then reports no collectives.
//
// No public source gives the numbers of BKCL's enumerators: they come from the bkcl.h that this
// plugin is compiled with. A library with other numbers would compute something else without an
// error, so the plugin refuses a library of another kind than its header's.
#ifndef KEEL_BACKENDS_KUNLUN_BKCL_H_
#define KEEL_BACKENDS_KUNLUN_BKCL_H_

#include <bkcl.h>
#include <keel/abi.h>

#include <keel/plugin_kit.hpp>
#include <string>

namespace keel::kunlun {

#define KEEL_BKCL_FUNCTIONS(X) \
  X(all_gather)                \
  X(all_reduce)                \
  X(all_to_all)                \
  X(all_to_all_v)              \
  X(broadcast)                 \
  X(destroy_context)           \
  X(get_unique_id)             \
  X(group_end)                 \
  X(group_start)               \
  X(init_rank)                 \
  X(recv)                      \
  X(reduce)                    \
  X(reduce_scatter)            \
  X(send)

struct BkclFunctions {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is declared takes none.
#define KEEL_BKCL_MEMBER(name) decltype(&::bkcl_##name) name = nullptr;
  KEEL_BKCL_FUNCTIONS(KEEL_BKCL_MEMBER)
#undef KEEL_BKCL_MEMBER
  // Newer than some headers; NULL if the library lacks it.
  BKCLResult_t (*comm_abort)(BKCLContext_t context) = nullptr;
};

// Opened once per folder, for all instances, and never closed. Immutable; thread-safe.
class Bkcl {
 public:
  // |folder| contains libbkcl.so; if empty, the dynamic loader searches, and then the folder in
  // which the vendor installs it.
  static const Bkcl& of(const std::string& folder);

  bool is_usable() const { return reason_.empty(); }
  // Why the library is not usable.
  const std::string& reason() const { return reason_; }
  const BkclFunctions& functions() const { return functions_; }
  // "BKCL, vendor's header". Two libraries with different names refuse to form a communicator.
  const std::string& name() const { return name_; }
  // Whether BKCL supports the operation.
  static bool can(keel_collective collective, keel_dtype dtype, keel_reduction reduction);

 private:
  explicit Bkcl(const std::string& folder);
  bool open(const std::string& folder);

  kit::VendorLibrary library_;
  BkclFunctions functions_;
  std::string name_;
  std::string reason_;
};

// Map a dtype and a reduction to BKCL's. Return false if there is none.
bool translate(keel_dtype dtype, BKCLDataType* out_type);
bool translate(keel_reduction reduction, BKCLOp* out_op);
// Maps a failure |result|, and passes core a sentence that names |call|.
keel_status fail(const char* call, BKCLResult_t result);

}  // namespace keel::kunlun

#endif  // KEEL_BACKENDS_KUNLUN_BKCL_H_

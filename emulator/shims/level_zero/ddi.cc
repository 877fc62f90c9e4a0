// SPDX-License-Identifier: Apache-2.0
// The tables of functions that the loader asks a driver for. A function that this driver lacks is
// there, and answers that the feature is unsupported.
#include <algorithm>
#include <string_view>

#include "emulator/shims/level_zero/api.h"

namespace {

ze::Result unsupported() {
  return ze::kUnsupportedFeature;
}

// The address of any function.
using AnyFunction = void*;

template <typename Function>
AnyFunction erased(Function* function) {
  return reinterpret_cast<void*>(function);
}

enum class Table {
#define KEEL_ZE_NAME(table, slots) k##table,
  KEEL_ZE_TABLES(KEEL_ZE_NAME)
#undef KEEL_ZE_NAME
};

void set_functions(Table wanted, AnyFunction* functions) {
#define KEEL_ZE_SET_IF(table, name, slot, arguments) \
  if (wanted == Table::k##table) functions[slot] = erased(&KEEL_ZE_##table(name));
  KEEL_ZE_FUNCTIONS(KEEL_ZE_SET_IF)
  KEEL_ZE_OPTIONAL_FUNCTIONS(KEEL_ZE_SET_IF)
#undef KEEL_ZE_SET_IF
}

void set_zes_functions(std::string_view wanted, AnyFunction* functions) {
#define KEEL_ZES_SET_IF(table, name, slot, arguments) \
  if (wanted == #table) functions[slot] = erased(&zes##table##name);
  KEEL_ZES_FUNCTIONS(KEEL_ZES_SET_IF)
#undef KEEL_ZES_SET_IF
}
void set_zet_functions(std::string_view, AnyFunction*) {}

}  // namespace

#define KEEL_ZE_TABLE(table, slots)                                                   \
  extern "C" ze::Result zeGet##table##ProcAddrTable(uint32_t version, void* filled) { \
    if (filled == nullptr) return ze::kInvalidNullPointer;                            \
    /* A loader of another major version has other tables. */                         \
    if (version >> 16 != 1) return ze::kUnsupportedVersion;                           \
    auto* const functions = static_cast<AnyFunction*>(filled);                        \
    std::fill_n(functions, slots, erased(&unsupported));                              \
    set_functions(Table::k##table, functions);                                        \
    return ze::kSuccess;                                                              \
  }
KEEL_ZE_TABLES(KEEL_ZE_TABLE)
#undef KEEL_ZE_TABLE

// The driver has next to nothing of these interfaces, but a loader drops a driver without their
// tables.
#define KEEL_ZE_EMPTY(prefix, table, slots)                                                 \
  extern "C" ze::Result prefix##Get##table##ProcAddrTable(uint32_t version, void* filled) { \
    if (filled == nullptr) return ze::kInvalidNullPointer;                                  \
    if (version >> 16 != 1) return ze::kUnsupportedVersion;                                 \
    std::fill_n(static_cast<AnyFunction*>(filled), slots, erased(&unsupported));            \
    set_##prefix##_functions(#table, static_cast<AnyFunction*>(filled));                    \
    return ze::kSuccess;                                                                    \
  }
#define KEEL_ZET_TABLE(table, slots) KEEL_ZE_EMPTY(zet, table, slots)
#define KEEL_ZES_TABLE(table, slots) KEEL_ZE_EMPTY(zes, table, slots)
KEEL_ZET_TABLES(KEEL_ZET_TABLE)
KEEL_ZES_TABLES(KEEL_ZES_TABLE)

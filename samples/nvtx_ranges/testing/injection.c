// SPDX-License-Identifier: Apache-2.0
/* A test's stand-in for the library that Nvidia's tools inject into a program with NVTX. Replaces
 * ranges and marks, and writes each to the file named by NVTX_INJECTION_LOG:
 *   start ID NAME | end ID | mark PAYLOAD TEXT */
#include <inttypes.h>
#include <nvtx3/nvToolsExt.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static FILE* written;
static atomic_uint_fast64_t ranges;

static nvtxRangeId_t start(const char* name) {
  const nvtxRangeId_t id = atomic_fetch_add(&ranges, 1) + 1;
  fprintf(written, "start %" PRIu64 " %s\n", id, name);
  return id;
}

static void end(nvtxRangeId_t id) {
  fprintf(written, "end %" PRIu64 "\n", id);
}

static void mark(const nvtxEventAttributes_t* attributes) {
  fprintf(written, "mark %" PRIu64 " %s\n", attributes->payload.ullValue,
          attributes->message.ascii);
}

/* Called once by NVTX, which looks up this name. Returns 0 if the tool cannot be used. */
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_export_table) {
  const NvtxExportTableCallbacks* callbacks = get_export_table(NVTX_ETID_CALLBACKS);
  const char* path = getenv("NVTX_INJECTION_LOG");
  NvtxFunctionTable table;
  unsigned int size;
  if (callbacks == NULL || path == NULL) return 0;
  if (!callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size)) return 0;
  if (size <= NVTX_CBID_CORE_RangeEnd) return 0;
  written = fopen(path, "w"); /* closed at exit */
  if (written == NULL) return 0;
  *table[NVTX_CBID_CORE_RangeStartA] = (NvtxFunctionPointer)start;
  *table[NVTX_CBID_CORE_RangeEnd] = (NvtxFunctionPointer)end;
  *table[NVTX_CBID_CORE_MarkEx] = (NvtxFunctionPointer)mark;
  return 1;
}

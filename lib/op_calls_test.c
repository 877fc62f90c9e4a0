// SPDX-License-Identifier: Apache-2.0
/* The named calls of C, in C11: c = (a b) + bias on |stream|, with defaults where |attributes| are
 * NULL; then y = c cut to [0, 1]. */
#include <keel/comm_start.h>
#include <keel/op_calls.h>
#include <keel/rank_status.h>
#include <keel/shrink.h>
#include <keel/store.h>

keel_status keel_test_calls_in_c(keel_stream stream, const keel_tensor* a, const keel_tensor* b,
                                 const keel_tensor* bias, const keel_tensor* c,
                                 const keel_tensor* y) {
  const keel_op_clamp_attributes bounds = {.min = 0, .max = 1};
  const keel_status status = keel_op_matmul(stream, a, b, bias, c, NULL);
  return status != KEEL_OK ? status : keel_op_clamp(stream, c, y, &bounds);
}

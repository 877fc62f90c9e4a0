// SPDX-License-Identifier: Apache-2.0
/* A library whose thread-local memory has to have a fixed place in every thread. */
static __thread long room __attribute__((tls_model("initial-exec"))) = 1;
long* keel_static_room(void) {
  return &room;
}

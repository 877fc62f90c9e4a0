# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT, the entries of the table in hip_sources.cc, from the files FILES below ROOT.
set(text "")
foreach(name IN LISTS FILES)
  file(READ "${ROOT}/${name}" content)
  string(REGEX REPLACE "^kernels/gpu/hip/" "" name "${name}")
  string(APPEND text "{\"${name}\", R\"keel_source(${content})keel_source\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "${text}")

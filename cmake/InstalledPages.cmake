# SPDX-License-Identifier: Apache-2.0
# Runs at installation, for one component (KEEL_PAGES): points the links of installed pages at the
# installation. Include files, the sample plugin and the kernels' sources are there at another place
# than in the source tree; a link to a file that is not installed becomes its text. KeelInstall.cmake
# sets KEEL_PAGE_SOURCE and the installed folders, all relative to the prefix.
set(root "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")

# keel_install_page(SOURCE FOLDER UP): |FOLDER| is the installed page's, relative to the prefix, and
# |UP| the way from the source page to the top of the source tree: "../", or empty.
function(keel_install_page source folder up)
  string(REPLACE "." "\\." top "${up}")
  file(READ "${source}" text)
  # <PLACE> stands for the way to an installed folder.
  foreach(pair "include/keel/=<INCLUDEDIR>keel/"
               "samples/out_of_tree_plugin=<DATADIR>keel/out_of_tree_plugin"
               "backends/skeleton/README\\.md=<DATADIR>keel/skeleton/project/README.md"
               "conformance/kernels=<DATADIR>keel/conformance_kernels"
               "docs/=<DOCDIR>")
    string(REPLACE "=" ";" pair "${pair}")
    list(POP_FRONT pair from)
    string(REGEX REPLACE "\\]\\(${top}${from}" "](${pair}" text "${text}")
  endforeach()
  if(up STREQUAL "")
    set(top "[A-Z]+\\.md")
  endif()
  string(REGEX REPLACE "\\[([^][]+)\\]\\(${top}[^)]*\\)" "\\1" text "${text}")
  foreach(place INCLUDEDIR DATADIR DOCDIR)
    file(RELATIVE_PATH way "/${folder}" "/${KEEL_PAGE_${place}}")
    string(REGEX REPLACE "([^/])$" "\\1/" way "${way}")
    string(REPLACE "](<${place}>" "](${way}" text "${text}")
  endforeach()
  get_filename_component(name "${source}" NAME)
  file(WRITE "${root}/${folder}/${name}" "${text}")
endfunction()

if(KEEL_PAGES STREQUAL "doc")
  file(GLOB_RECURSE pages RELATIVE "${KEEL_PAGE_SOURCE}/docs" "${KEEL_PAGE_SOURCE}/docs/*.md")
  foreach(page IN LISTS pages)
    get_filename_component(inner "${page}" DIRECTORY)
    if(inner STREQUAL "")
      keel_install_page("${KEEL_PAGE_SOURCE}/docs/${page}" "${KEEL_PAGE_DOCDIR}" "../")
    else()
      keel_install_page("${KEEL_PAGE_SOURCE}/docs/${page}" "${KEEL_PAGE_DOCDIR}/${inner}" "../../")
    endif()
  endforeach()
  keel_install_page("${KEEL_PAGE_SOURCE}/CHANGELOG.md" "${KEEL_PAGE_DOCDIR}" "")
else()
  keel_install_page("${KEEL_PAGE_SOURCE}/samples/out_of_tree_plugin/README.md"
                    "${KEEL_PAGE_DATADIR}/keel/out_of_tree_plugin" "../../")
endif()

# SPDX-License-Identifier: Apache-2.0
# How targets of this project are compiled, named and laid out.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/archive")
set(KEEL_PLUGIN_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib/keel/plugins")
# Vendors' libraries over the emulated chip, a folder each: `keel --emulated` finds them here.
set(KEEL_EMULATED_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib/keel/emulated")
# Beside the test programs, which find them there.
set(KEEL_TEST_PLUGIN_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests/plugins")
set(CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(KEEL_CCACHE ccache)
if(KEEL_CCACHE)
  set(launcher "${CMAKE_CURRENT_LIST_DIR}/ccache.sh" "${KEEL_CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER "${launcher}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${launcher}")
endif()
# Clang's precompiled headers hold times of files, by which ccache finds nothing again.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(KEEL_PRECOMPILE OFF)
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
include(KeelPlugin)

add_compile_options(-Wall -Wextra -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC bug 105651: it warns of overlap inside std::string::operator+.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(KEEL_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(KEEL_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(KEEL_SANITIZE STREQUAL "fuzzer")
  # A number of a file that fits no integer is a fault that clang's "undefined" leaves out. Loops
  # with checks in them stay as they are, and clang would say so of each that asks for vectors.
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined,float-cast-overflow
                      -fno-sanitize-recover=undefined,float-cast-overflow
                      -fno-omit-frame-pointer -Wno-pass-failed)
  add_link_options(-fsanitize=address,undefined)
elseif(KEEL_SANITIZE)
  message(FATAL_ERROR
    "KEEL_SANITIZE is '${KEEL_SANITIZE}': empty, address, thread or fuzzer (with clang)")
endif()

# GCC bug 105651 once more: behind precompiled headers std::string is no system header's.
set(KEEL_PRECOMPILED_OPTIONS "")
if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  set(KEEL_PRECOMPILED_OPTIONS -Wno-stringop-overflow)
endif()
# Programs read command lines and write reports, and take twice as long to compile with more.
set(KEEL_PROGRAM_OPTIONS -O1)
# What tests look at is the library: their own code takes half the time to compile so, and a third
# where it is not sanitized itself.
set(KEEL_TEST_OPTIONS -O0)
if(KEEL_SANITIZE)
  set(KEEL_PROGRAM_OPTIONS -O0)
  list(APPEND KEEL_TEST_OPTIONS -fno-sanitize=undefined)
endif()

# keel_precompile(TARGET KIND): |TARGET|'s C++ sources are compiled with the precompiled headers of
# cmake/precompiled/KIND.h. KIND: library, or program or test for targets that have the options
# KEEL_PROGRAM_OPTIONS or KEEL_TEST_OPTIONS. Programs are compiled with -fPIC like libraries, not
# with -fPIE, so that one precompiled header serves both.
function(keel_precompile target kind)
  if(NOT KEEL_PRECOMPILE)
    return()
  endif()
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  target_precompile_headers(${target} REUSE_FROM keel_precompiled_${kind})
  target_compile_options(${target} PRIVATE ${KEEL_PRECOMPILED_OPTIONS})
  target_compile_definitions(${target} PRIVATE
    $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>)
endfunction()

# keel_program(TARGET): a program with a command line, or a library of such, of which nothing is timed.
function(keel_program target)
  target_compile_options(${target} PRIVATE ${KEEL_PROGRAM_OPTIONS})
  keel_precompile(${target} program)
endfunction()

# keel_plugin(NAME [UNINSTALLED] SOURCES...): a backend, built as a vendor's plugin is.
function(keel_plugin name)
  cmake_parse_arguments(arg "UNINSTALLED" "" "" ${ARGN})
  keel_add_plugin(${name} ${arg_UNPARSED_ARGUMENTS})
  if(NOT KEEL_SANITIZE)
    target_link_options(keel_${name} PRIVATE "LINKER:--no-undefined")
  endif()
  add_dependencies(keel_thread_tests keel_${name})
  set_target_properties(keel_${name} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY "${KEEL_PLUGIN_OUTPUT_DIRECTORY}"
    INSTALL_RPATH "$ORIGIN;$ORIGIN/../..")
  if(NOT arg_UNINSTALLED)
    set_property(GLOBAL APPEND PROPERTY KEEL_BACKENDS ${name})
    install(TARGETS keel_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/keel/plugins
            COMPONENT ${name})
  endif()
endfunction()

# What the thread-sanitizer build needs: its tests, and the plugins they load.
add_custom_target(keel_thread_tests)

# keel_test(NAME SOURCES files... LIBRARIES libs... [GUARD] [VALIDATE] [SIM]
#           [ENVIRONMENT VAR=VALUE...] [PROCESS] [THREADS] [WAITS] [IN_TREE] [SLOW reason]
#           [LONG reason]):
# a GoogleTest program, run as one ctest test and linked to the launcher of base/ipc.
# GUARD: run once more as NAME.guard with KEEL_CPU_GUARD=1, where CPU device memory is out of the
# host's reach; not under a sanitizer, which would see nothing there that the release build does not.
# VALIDATE: run once more as NAME.validate with KEEL_VALIDATE=1, the validation layer; under a
# sanitizer by `./dev test --all` alone, since the layer's own tests run there.
# SIM: run once more as NAME.sim, with devices of the emulated chip in the CPU's place.
# WAITS: waits for half of its time or more, so it takes half a core's place beside others.
# IN_TREE: looks at files of the source or build tree, so it is not bundled (`./dev bundle --tests`).
# LONG: why it takes over 20 s; `./dev times` names those that give no reason. A file's tests are
# selected by GoogleTest's filters: `build/tests/NAME --gtest_filter=...`.
# Labels, by which ctest selects tests and keel_label_test sets their time limit:
#   unit      the default: one process, no variant
#   process   PROCESS: starts processes
#   long      LONG, in their place
#   variant   NAME.guard, NAME.validate and NAME.sim
#   threads   THREADS, beside one of these: run by the thread-sanitizer build
#   slow      SLOW, in the place of all but threads: run by `./dev test --all` alone, for |reason|
# Tests that are no GoogleTest programs have the labels conform, sample and packaging.
function(keel_test name)
  if(NOT KEEL_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "GUARD;VALIDATE;SIM;PROCESS;THREADS;WAITS;IN_TREE" "SLOW;LONG"
                        "SOURCES;LIBRARIES;ENVIRONMENT" ${ARGN})
  # Whatever `keel perf --tune` has measured on this machine.
  list(PREPEND arg_ENVIRONMENT "KEEL_COLLECTIVE_TABLE=builtin")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} keel_ipc GTest::gtest GTest::gtest_main
                                        Threads::Threads)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_options(${name} PRIVATE ${KEEL_TEST_OPTIONS})
  keel_precompile(${name} test)
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  set(threads "")
  if(arg_THREADS)
    add_dependencies(keel_thread_tests ${name})
    set(threads threads)
  endif()
  set(label unit)
  set(variant variant)
  if(arg_PROCESS)
    set(label process)
  endif()
  if(arg_LONG)
    set(label long)
  endif()
  if(arg_SLOW)
    set(label slow)
    set(variant slow)
  endif()
  keel_add_test(${name} ${name} "${arg_ENVIRONMENT}" ${label} ${threads})
  keel_list_test(${name} ${name} "${arg_ENVIRONMENT}" ${arg_IN_TREE})
  if(arg_WAITS)
    set_tests_properties(${name} PROPERTIES PROCESSORS 1)
  endif()
  if(arg_GUARD AND NOT KEEL_SANITIZE)
    keel_add_test(${name}.guard ${name} "KEEL_CPU_GUARD=1;${arg_ENVIRONMENT}" ${variant})
    keel_list_test(${name}.guard ${name} "KEEL_CPU_GUARD=1;${arg_ENVIRONMENT}" ${arg_IN_TREE})
  endif()
  if(arg_VALIDATE)
    set(validated ${variant})
    if(KEEL_SANITIZE)
      set(validated slow)
    endif()
    keel_add_test(${name}.validate ${name} "KEEL_VALIDATE=1;${arg_ENVIRONMENT}" ${validated}
                  ${threads})
    keel_list_test(${name}.validate ${name} "KEEL_VALIDATE=1;${arg_ENVIRONMENT}" ${arg_IN_TREE})
    # All it finds, but leaks: "validation: leak: ...".
    set_tests_properties(${name}.validate PROPERTIES
      FAIL_REGULAR_EXPRESSION "validation: ([^l]|l[^e]|le[^a])")
  endif()
  if(arg_SIM)
    set(on_sim "KEEL_TEST_BACKEND=sim;KEEL_BACKENDS=cpu,sim;${arg_ENVIRONMENT}")
    keel_add_test(${name}.sim ${name} "${on_sim}" ${variant} ${threads})
    keel_list_test(${name}.sim ${name} "${on_sim}" ${arg_IN_TREE})
  endif()
  if(arg_SLOW OR arg_LONG)
    set_property(GLOBAL APPEND_STRING PROPERTY KEEL_LONG_TESTS
                 "${name}\t${arg_SLOW}${arg_LONG}\n")
  endif()
endfunction()

# keel_add_test(TEST TARGET ENVIRONMENT LABELS...): a GoogleTest program as the ctest test |TEST|.
function(keel_add_test test_name target environment)
  add_test(NAME ${test_name} COMMAND ${target}
           "--gtest_output=xml:${CMAKE_BINARY_DIR}/test-results/${test_name}.xml")
  set_tests_properties(${test_name} PROPERTIES ENVIRONMENT
    "KEEL_PLUGIN_PATH=${KEEL_PLUGIN_OUTPUT_DIRECTORY};KEEL_TEST_BIN=${CMAKE_BINARY_DIR}/bin;${environment}")
  keel_label_test(${test_name} ${ARGN})
endfunction()

# keel_label_test(TEST LABEL...): the labels of |TEST|, and the seconds after which ctest kills it,
# by the first: several times what the slowest of that label takes on two cores.
function(keel_label_test test_name label)
  set(seconds_unit 240)
  set(seconds_variant 300)
  set(seconds_process 300)
  set(seconds_long 600)
  set(seconds_conform 600)
  set(seconds_sample 120)
  set(seconds_packaging 400)
  set(seconds_slow 1200)
  if(NOT DEFINED seconds_${label})
    message(FATAL_ERROR "${test_name}: no label '${label}'")
  endif()
  set(labels ${label} ${ARGN})
  set(seconds ${seconds_${label}})
  if(KEEL_SANITIZE)
    math(EXPR seconds "3 * ${seconds}")
  elseif(CMAKE_CROSSCOMPILING)
    math(EXPR seconds "10 * ${seconds}")  # under qemu
  endif()
  # The longest first, so that the last to end are short. Processors count in halves, for WAITS.
  set_tests_properties(${test_name} PROPERTIES LABELS "${labels}" TIMEOUT ${seconds}
                       COST ${seconds} PROCESSORS 2)
endfunction()

# tests/list.txt of the build: for each test that may be bundled its name, its program and
# its environment, with tabs between.
function(keel_list_test test_name target environment in_tree)
  if(NOT in_tree)
    list(JOIN environment "\t" environment)
    set_property(GLOBAL APPEND_STRING PROPERTY KEEL_TEST_LIST
                 "${test_name}\t${target}\t${environment}\n")
  endif()
endfunction()

function(keel_write_test_list)
  get_property(list GLOBAL PROPERTY KEEL_TEST_LIST)
  file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/tests/list.txt" CONTENT "${list}" @ONLY)
  get_property(long GLOBAL PROPERTY KEEL_LONG_TESTS)
  file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/tests/long.txt" CONTENT "${long}" @ONLY)
endfunction()

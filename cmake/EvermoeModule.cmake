# One function per kind of target, so that every module's CMakeLists.txt is a list of its files.
# Members left out of a designated initializer have their defaults on purpose.
set(EVERMOE_WARNINGS -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -Werror)
# GCC 12 sees copies out of bounds and overlaps inside its own std::string (GCC bugs 105329, 105651): whether it does
# depends on what was inlined, even on the length of the source folder's path.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND EVERMOE_WARNINGS
    -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread)
endif()
# With its checks around every access GCC cannot tell any more which alternative of a variant is there; the other
# builds have this warning.
if(EVERMOE_SANITIZE STREQUAL "address")
  list(APPEND EVERMOE_WARNINGS $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()

# What tests run is optimized; they themselves hardly compute, and compile in two thirds of the time. (Those that see
# libtorch share its precompiled header, which serves only the same flags.)
if(NOT EVERMOE_SANITIZE)
  set(EVERMOE_TEST_OPTIMIZATION -O1)
endif()

# Headers that most sources include, read once: most of the time of a small source goes to the standard library,
# abseil and GoogleTest. Sources still include what they use, and what clang compiles (the preset fuzz and
# tests/tidy/thread_safety.py) does without, so that a missing include is seen.
if(NOT EVERMOE_FUZZ)
  if(NOT EXISTS ${CMAKE_BINARY_DIR}/generated/nothing.cc)
    file(WRITE ${CMAKE_BINARY_DIR}/generated/nothing.cc "")
  endif()
  add_library(evermoe_precompiled STATIC ${CMAKE_BINARY_DIR}/generated/nothing.cc)
  target_compile_options(evermoe_precompiled PRIVATE ${EVERMOE_WARNINGS})
  target_link_libraries(evermoe_precompiled PRIVATE absl::statusor absl::str_format absl::time)
  target_precompile_headers(evermoe_precompiled PRIVATE
    <algorithm> <cmath> <functional> <map> <memory> <optional> <set> <span> <string> <string_view> <utility> <variant>
    <vector> <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_format.h> <absl/strings/str_join.h>
    <absl/time/time.h>)
  add_library(evermoe_precompiled_tests STATIC ${CMAKE_BINARY_DIR}/generated/nothing.cc)
  target_compile_options(evermoe_precompiled_tests PRIVATE ${EVERMOE_WARNINGS} ${EVERMOE_TEST_OPTIMIZATION})
  target_link_libraries(evermoe_precompiled_tests PRIVATE absl::statusor absl::str_format absl::time GTest::gmock)
  target_precompile_headers(evermoe_precompiled_tests PRIVATE
    <gmock/gmock.h> <gtest/gtest.h> <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_format.h>
    <absl/strings/str_join.h> <absl/time/time.h>)
endif()

# Eight sources at a time: most of the time of a small one goes to what it includes. So names in unnamed namespaces
# differ within a module, and within the tests of an executable.
function(evermoe_compile_together target)
  if(EVERMOE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    # To the compiler all eight are headers, in which an unnamed namespace would be a mistake; and across them it
    # inlines so much that it takes a moved-from value for one without a value.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage -Wno-error=uninitialized)
  endif()
endfunction()

# evermoe_module(NAME SOURCES a.cc ... DEPS module|target ... [TORCH])
# A module is a static library evermoe_NAME; include paths are folder paths ("comm/transport/transport.h").
# TORCH lets it see libtorch's headers, through the one shared precompiled header.
function(evermoe_module name)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;DEPS" ${ARGN})
  add_library(evermoe_${name} STATIC ${ARG_SOURCES})
  target_include_directories(evermoe_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_compile_options(evermoe_${name} PRIVATE ${EVERMOE_WARNINGS})
  target_link_libraries(evermoe_${name} PUBLIC ${ARG_DEPS})
  if(ARG_TORCH)
    target_link_libraries(evermoe_${name} PUBLIC evermoe_libtorch)
    if(NOT name STREQUAL "tensor")
      target_precompile_headers(evermoe_${name} REUSE_FROM evermoe_tensor)
    endif()
  elseif(TARGET evermoe_precompiled)
    target_precompile_headers(evermoe_${name} REUSE_FROM evermoe_precompiled)
  endif()
  evermoe_compile_together(evermoe_${name})
endfunction()

# Seconds after which any test is taken to hang: more than twice what the longest has taken beside others on the slowest
# machine so far. What is slow because others compete for the processors does not hang.
set(EVERMOE_TEST_TIMEOUT 1800)
if(EVERMOE_SANITIZE)
  # Instrumented code is slow: transport_test takes 57 s of processor time under `thread` instead of 4 s.
  math(EXPR EVERMOE_TEST_TIMEOUT "10 * ${EVERMOE_TEST_TIMEOUT}")
endif()

# evermoe_test(NAME SOURCES a_test.cc ... DEPS ... [TORCH] [PROCESSORS n] [LABELS l])
function(evermoe_test name)
  cmake_parse_arguments(ARG "TORCH" "PROCESSORS;LABELS" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_compile_options(${name} PRIVATE ${EVERMOE_WARNINGS})
  target_compile_definitions(${name} PRIVATE
    EVERMOE_SOURCE_DIR="${CMAKE_SOURCE_DIR}" EVERMOE_BINARY_DIR="${CMAKE_BINARY_DIR}")
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests_bin)
  if(ARG_TORCH)
    target_precompile_headers(${name} REUSE_FROM evermoe_tensor)
  elseif(TARGET evermoe_precompiled_tests)
    target_compile_options(${name} PRIVATE ${EVERMOE_TEST_OPTIMIZATION})
    target_precompile_headers(${name} REUSE_FROM evermoe_precompiled_tests)
  endif()
  evermoe_compile_together(${name})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${EVERMOE_TEST_TIMEOUT}
    ENVIRONMENT "UCX_MEM_EVENTS=n;UCX_HANDLE_ERRORS=none;UCX_LOG_LEVEL=error")
  if(ARG_PROCESSORS)
    set_tests_properties(${name} PROPERTIES PROCESSORS ${ARG_PROCESSORS})
  endif()
  if(ARG_LABELS)
    set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}")
  endif()
endfunction()

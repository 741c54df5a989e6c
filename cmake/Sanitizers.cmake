# What sanitizers and libraries are told when tests of an instrumented build run, and the programs that
# those start. ctest itself reads it, so that a test with an environment of its own keeps it.
if(EVERMOE_SANITIZE)
  set(sanitizer_environment ${CMAKE_BINARY_DIR}/generated/sanitizer_environment.cmake)
  file(CONFIGURE OUTPUT ${sanitizer_environment} @ONLY CONTENT [[
set(ENV{TSAN_OPTIONS} "suppressions=@CMAKE_SOURCE_DIR@/tests/sanitizers/thread.txt")
set(ENV{UBSAN_OPTIONS} "print_stacktrace=1")
set(ENV{ASAN_OPTIONS} "detect_stack_use_after_return=1")
# UCX replaces madvise() otherwise, which the end of a thread calls when ThreadSanitizer has forgotten the thread
# already: a segmentation fault.
set(ENV{UCX_MEM_EVENTS} n)
set(ENV{UCX_HANDLE_ERRORS} none)
]])
  set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY TEST_INCLUDE_FILES ${sanitizer_environment})
endif()

# Writes OUT, the source file of build_fingerprint(), for the sources below SOURCES (a folder) and VERSION.
# cmake -DSOURCES=... -DVERSION=... -DOUT=... -P WriteBuildFingerprint.cmake
file(GLOB_RECURSE sources RELATIVE ${SOURCES} ${SOURCES}/*.cc ${SOURCES}/*.h)
list(FILTER sources EXCLUDE REGEX "_test\\.cc$|_testing\\.h$|_fuzz|/testing/")
list(SORT sources)
set(hashes "")
foreach(source IN LISTS sources)
  file(SHA256 ${SOURCES}/${source} hash)
  string(APPEND hashes "${source} ${hash}\n")
endforeach()
string(SHA256 hash "${hashes}")
string(SUBSTRING ${hash} 0 12 hash)
file(CONFIGURE OUTPUT ${OUT} CONTENT [[
#include "base/build_fingerprint.h"

namespace evermoe {

const char* build_fingerprint() { return "@VERSION@-@hash@"; }

}  // namespace evermoe
]] @ONLY)

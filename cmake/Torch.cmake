# Links libtorch straight from the pip wheel. The wheel's own CMake package is not used: it redefines
# protobuf targets and, in CUDA builds of the wheel, asks for a CUDA toolkit that no build of ours needs.
set(EVERMOE_PYTHON ${CMAKE_SOURCE_DIR}/.venv/bin/python CACHE FILEPATH "Python that has torch")
set(EVERMOE_TORCH_DIR "" CACHE PATH "The folder `torch` of an unpacked wheel; empty: that of EVERMOE_PYTHON")
if(NOT EVERMOE_TORCH_DIR)
  # Found, not imported: a CUDA wheel cannot be where its libraries are missing.
  execute_process(
    COMMAND ${EVERMOE_PYTHON} -c
      "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0], end='')"
    OUTPUT_VARIABLE EVERMOE_TORCH_FOLDER RESULT_VARIABLE torch_missing ERROR_QUIET)
  if(torch_missing)
    message(FATAL_ERROR "no PyTorch in ${EVERMOE_PYTHON}: run ./quickstart, or configure with -DEVERMOE_TORCH=OFF")
  endif()
else()
  set(EVERMOE_TORCH_FOLDER ${EVERMOE_TORCH_DIR})
endif()
file(STRINGS ${EVERMOE_TORCH_FOLDER}/version.py torch_version REGEX "^__version__ *= *'")
string(REGEX REPLACE "^__version__ *= *'(.*)'.*" "\\1" torch_version "${torch_version}")

add_library(evermoe_libtorch INTERFACE)
target_include_directories(evermoe_libtorch SYSTEM INTERFACE
  ${EVERMOE_TORCH_FOLDER}/include ${EVERMOE_TORCH_FOLDER}/include/torch/csrc/api/include)
# Before libtorch, which has std::filesystem of an older compiler in it and shows it: PyTorch 2.11's is not that of
# our compiler, and a call of it ends in nowhere.
target_link_libraries(evermoe_libtorch INTERFACE
  -Wl,--push-state,--no-as-needed stdc++ -Wl,--pop-state
  ${EVERMOE_TORCH_FOLDER}/lib/libtorch.so ${EVERMOE_TORCH_FOLDER}/lib/libtorch_cpu.so ${EVERMOE_TORCH_FOLDER}/lib/libc10.so)
if(EXISTS ${EVERMOE_TORCH_FOLDER}/lib/libtorch_cuda.so)
  # Nothing calls it by name: it registers its kernels where it is loaded. What it stands on (cuBLAS, cuDNN, ...)
  # is found by its own search path, or not at all on a machine that only builds.
  message(STATUS "PyTorch ${torch_version} with CUDA")
  target_link_libraries(evermoe_libtorch INTERFACE
    -Wl,--push-state,--no-as-needed ${EVERMOE_TORCH_FOLDER}/lib/libtorch_cuda.so ${EVERMOE_TORCH_FOLDER}/lib/libc10_cuda.so -Wl,--pop-state)
  target_link_options(evermoe_libtorch INTERFACE -Wl,--allow-shlib-undefined)
endif()
target_link_options(evermoe_libtorch INTERFACE -Wl,-rpath,${EVERMOE_TORCH_FOLDER}/lib)
# libtorch has oneDNN inside, but neither shows it nor offers BF16 products with FP32 results on CPUs.
find_library(EVERMOE_ONEDNN dnnl REQUIRED)
target_compile_definitions(evermoe_libtorch INTERFACE EVERMOE_TORCH_VERSION="${torch_version}")

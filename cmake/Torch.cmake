# Links libtorch straight from the pip wheel. The wheel's own CMake package is not used: it redefines
# protobuf targets and, in CUDA builds of the wheel, asks for a CUDA toolkit that a CPU build does not need.
set(EVERMOE_PYTHON ${CMAKE_SOURCE_DIR}/.venv/bin/python CACHE FILEPATH "Python that has torch")
execute_process(
  COMMAND ${EVERMOE_PYTHON} -c "import torch,os; print(os.path.dirname(torch.__file__)); print(torch.__version__)"
  OUTPUT_VARIABLE torch_facts OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE torch_missing)
if(torch_missing)
  message(FATAL_ERROR "no PyTorch in ${EVERMOE_PYTHON}: run ./quickstart, or configure with -DEVERMOE_TORCH=OFF")
endif()
string(REPLACE "\n" ";" torch_facts "${torch_facts}")
list(GET torch_facts 0 EVERMOE_TORCH_DIR)
list(GET torch_facts 1 EVERMOE_TORCH_VERSION)

add_library(evermoe_libtorch INTERFACE)
target_include_directories(evermoe_libtorch SYSTEM INTERFACE
  ${EVERMOE_TORCH_DIR}/include ${EVERMOE_TORCH_DIR}/include/torch/csrc/api/include)
target_link_libraries(evermoe_libtorch INTERFACE
  ${EVERMOE_TORCH_DIR}/lib/libtorch.so ${EVERMOE_TORCH_DIR}/lib/libtorch_cpu.so ${EVERMOE_TORCH_DIR}/lib/libc10.so)
target_link_options(evermoe_libtorch INTERFACE -Wl,-rpath,${EVERMOE_TORCH_DIR}/lib)
# libtorch has oneDNN inside, but neither shows it nor offers BF16 products with FP32 results on CPUs.
find_library(EVERMOE_ONEDNN dnnl REQUIRED)
target_compile_definitions(evermoe_libtorch INTERFACE EVERMOE_TORCH_VERSION="${EVERMOE_TORCH_VERSION}")

# Finds the libtorch that lies inside a Python's torch package, CPU or CUDA build alike.
#
# torch's own CMake package stops when a CUDA build of torch meets a machine without nvcc. What we need of it is
# less: where the headers and libraries are.
#
#   in    LACUNA_PYTHON            the Python that is asked; unset: pip's where that builds a wheel, .venv of the
#                                  checkout, else python3
#   out   LacunaTorch_FOUND        and LacunaTorch_VERSION, LacunaTorch_FOLDER (the package's folder)
#         LacunaTorch_CUDA         whether it is a CUDA build
#         LacunaTorch_REASON       in words, where it was not found
#         lacuna::torch            headers (as system headers), libraries, run path through the linked libraries
#         lacuna::torch_cuda       the libraries of its CUDA half, for who calls them; nothing beside a CPU build
#
# torch is found, not imported: that takes seconds, and a CUDA build cannot be imported without NVIDIA's packages.
# -E: in the isolated environment that pip builds wheels in, PYTHONPATH hides the packages of the environment that the
# wheel is for.
set(_find_torch "import importlib.util, os
folder = os.path.dirname(importlib.util.find_spec('torch').origin)
names = {}
exec(open(os.path.join(folder, 'version.py')).read(), names)
print(folder, names['__version__'], sep=';')")
set(_python ${LACUNA_PYTHON})
if(NOT _python AND SKBUILD)
  set(_python ${Python_EXECUTABLE})
endif()
if(NOT _python AND EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python)
  set(_python ${CMAKE_SOURCE_DIR}/.venv/bin/python)
endif()
if(NOT _python)
  find_program(LACUNA_SYSTEM_PYTHON python3)
  set(_python ${LACUNA_SYSTEM_PYTHON})
endif()

set(LacunaTorch_REASON "")
if(NOT _python)
  set(LacunaTorch_REASON "no Python was found")
elseif(NOT "${_python}" STREQUAL "${LACUNA_TORCH_PYTHON}" OR NOT EXISTS "${LACUNA_TORCH_DIR}/version.py")
  foreach(_flag -E -B)  # the second time with PYTHONPATH, for a torch that lies only there
    execute_process(COMMAND ${_python} ${_flag} -c "${_find_torch}" OUTPUT_VARIABLE _answer ERROR_VARIABLE _why
                    RESULT_VARIABLE _failed OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT _failed)
      break()
    endif()
  endforeach()
  if(_failed)
    string(REGEX REPLACE "^.*\n([^\n]+)\n*$" "\\1" _why "${_why}")
    set(LacunaTorch_REASON "${_python} has no torch (${_why})")
    unset(LACUNA_TORCH_PYTHON CACHE)
  else()
    list(GET _answer 0 _dir)
    list(GET _answer 1 _version)
    set(LACUNA_TORCH_PYTHON ${_python} CACHE INTERNAL "the Python whose torch is used")
    set(LACUNA_TORCH_DIR ${_dir} CACHE INTERNAL "its torch folder")
    set(LACUNA_TORCH_VERSION ${_version} CACHE INTERNAL "its version")
  endif()
endif()

if(NOT LacunaTorch_REASON)
  set(LacunaTorch_FOLDER ${LACUNA_TORCH_DIR})
  set(LacunaTorch_VERSION ${LACUNA_TORCH_VERSION})
  set(LacunaTorch_CUDA OFF)
  set(_libraries)
  set(_cuda_libraries)
  foreach(_name c10 torch_cpu torch c10_cuda torch_cuda)
    set(_file ${LacunaTorch_FOLDER}/lib/lib${_name}.so)
    if(EXISTS ${_file} AND _name MATCHES cuda)
      list(APPEND _cuda_libraries ${_file})
    elseif(EXISTS ${_file})
      list(APPEND _libraries ${_file})
    elseif(NOT _name MATCHES cuda)
      set(LacunaTorch_REASON "${_file} does not exist")
    endif()
  endforeach()
  if(EXISTS ${LacunaTorch_FOLDER}/lib/libtorch_cuda.so)
    set(LacunaTorch_CUDA ON)
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LacunaTorch REQUIRED_VARS LacunaTorch_FOLDER VERSION_VAR LacunaTorch_VERSION
                                  REASON_FAILURE_MESSAGE "${LacunaTorch_REASON}")
if(LacunaTorch_REASON)
  set(LacunaTorch_FOUND OFF)
endif()
if(LacunaTorch_FOUND AND NOT TARGET lacuna::torch)
  add_library(lacuna::torch INTERFACE IMPORTED)
  target_include_directories(lacuna::torch INTERFACE
    ${LacunaTorch_FOLDER}/include ${LacunaTorch_FOLDER}/include/torch/csrc/api/include)
  target_compile_definitions(lacuna::torch INTERFACE _GLIBCXX_USE_CXX11_ABI=1)  # as every torch from 2.7 on
  target_link_libraries(lacuna::torch INTERFACE ${_libraries})
  # libtorch.so brings the CUDA half, which registers itself when it is loaded; no symbol of ours asks for it, and Ubuntu's
  # linker would drop it. What it needs in turn (NVIDIA's libraries) is found by its own run path when the program starts.
  target_link_options(lacuna::torch INTERFACE -Wl,--no-as-needed -Wl,--allow-shlib-undefined)
  # Apart from the above: what names these libraries does not load beside a CPU build of the same torch.
  add_library(lacuna::torch_cuda INTERFACE IMPORTED)
  target_link_libraries(lacuna::torch_cuda INTERFACE ${_cuda_libraries})
endif()

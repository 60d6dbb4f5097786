# liblacuna_torch.so: lacuna/torch, nn, train and measure on libtorch, without Python.h, used by the program and by Python alike.
set(LACUNA_HAVE_TORCH OFF)
set(torch_folders torch nn train measure)
set(torch_sources)
foreach(folder ${torch_folders})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS lacuna/${folder}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "_(test|bench)\\.cpp$")
  list(APPEND torch_sources ${sources})
endforeach()
if(NOT LACUNA_TORCH STREQUAL "OFF")
  find_package(LacunaTorch QUIET)
  if(LacunaTorch_FOUND)
    message(STATUS "torch ${LacunaTorch_VERSION} in ${LacunaTorch_FOLDER}")
    set(LACUNA_HAVE_TORCH ON)
    # What is installed finds torch where it was built against it. (CMake adds such folders by itself, but not those
    # inside the checkout, such as .venv.)
    # A wheel finds it beside itself, or where Python has loaded it already.
    if(SKBUILD)
      set(torch_install_rpath ${CMAKE_INSTALL_RPATH} $ORIGIN/../../torch/lib)
    else()
      set(torch_install_rpath ${CMAKE_INSTALL_RPATH} ${LacunaTorch_FOLDER}/lib)
    endif()
  elseif(LACUNA_TORCH STREQUAL "ON")
    message(FATAL_ERROR "LACUNA_TORCH=ON, but ${LacunaTorch_REASON}; `make build` installs torch into the checkout, "
                        "-DLACUNA_PYTHON=... names a Python that has it, -DLACUNA_TORCH=OFF builds without it")
  else()
    message(STATUS "no torch (${LacunaTorch_REASON}): what needs it is left out")
  endif()
endif()
if(LACUNA_HAVE_TORCH AND torch_sources)
  add_library(lacuna_torch SHARED ${torch_sources})
  add_library(lacuna::lacuna_torch ALIAS lacuna_torch)
  target_link_libraries(lacuna_torch PUBLIC lacuna lacuna::torch)  # in this order: our fmt before torch's
  # torch's libraries export copies of std::filesystem (that of torch 2.11 crashes in remove_all()), and the loader takes
  # the first it meets: libstdc++ comes before them, here and in every program that links this.
  target_link_options(lacuna_torch BEFORE PUBLIC LINKER:--push-state,--no-as-needed -lstdc++ LINKER:--pop-state)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    # False alarms in torch::autograd::Function.
    target_compile_options(lacuna_torch PRIVATE -Wno-array-bounds)
  endif()
  if(LACUNA_HAVE_CUDA)
    target_link_libraries(lacuna_torch PUBLIC lacuna_cuda)
  endif()
  if(LacunaTorch_CUDA AND LACUNA_HAVE_CUDA)  # torch's CUDA headers compile only beside a CUDA torch and a toolkit
    target_compile_definitions(lacuna_torch PRIVATE LACUNA_TORCH_CUDA=1)
    target_link_libraries(lacuna_torch PUBLIC lacuna::torch_cuda)
  endif()
  target_compile_definitions(lacuna_torch PRIVATE LACUNA_VERSION="${PROJECT_VERSION}")
  lacuna_unite(lacuna_torch)
  lacuna_version(lacuna_torch)
  set_target_properties(lacuna_torch PROPERTIES INSTALL_RPATH "${torch_install_rpath}")
  # Read by `import lacuna`, which says so beside another torch instead of failing on a symbol.
  file(WRITE ${CMAKE_BINARY_DIR}/built_for_torch ${LacunaTorch_VERSION})

  # A file with torch's headers takes 1 to 2 GB to compile: as many at a time as memory holds.
  cmake_host_system_information(RESULT memory_mb QUERY TOTAL_PHYSICAL_MEMORY)
  math(EXPR torch_jobs "1 + ${memory_mb} / 3000")
  set_property(GLOBAL APPEND PROPERTY JOB_POOLS torch=${torch_jobs})
  set_target_properties(lacuna_torch PROPERTIES JOB_POOL_COMPILE torch)
endif()

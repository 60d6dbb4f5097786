# lacuna._core, the library's objects in Python (python/core), built with nanobind beside the libraries. The package
# python/lacuna finds it there, or in its own folder where it was installed.
if(NOT LACUNA_HAVE_TORCH)
  return()
endif()
execute_process(COMMAND ${LACUNA_TORCH_PYTHON} -m nanobind --cmake_dir
                OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE no_nanobind)
if(no_nanobind)
  message(STATUS "${LACUNA_TORCH_PYTHON} has no nanobind: without lacuna._core (`pip install nanobind` there)")
  return()
endif()
set(Python_EXECUTABLE ${LACUNA_TORCH_PYTHON})
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module ${SKBUILD_SABI_COMPONENT})
find_package(nanobind CONFIG REQUIRED)
file(GLOB core_sources CONFIGURE_DEPENDS python/core/*.cpp)
nanobind_add_module(lacuna_core STABLE_ABI NB_STATIC NOMINSIZE NB_SUPPRESS_WARNINGS ${core_sources})
target_include_directories(lacuna_core PRIVATE python/core)
target_link_libraries(lacuna_core PRIVATE lacuna)
lacuna_link_fmt(lacuna_core)
set_target_properties(lacuna_core PROPERTIES OUTPUT_NAME _core UNITY_BUILD ON INSTALL_RPATH "$ORIGIN/lib;$ORIGIN")
if(SKBUILD)  # a wheel: everything lies inside the package
  install(TARGETS lacuna_core DESTINATION .)
  install(FILES ${CMAKE_BINARY_DIR}/built_for_torch DESTINATION lib)
endif()

# lacuna_unite(<target>): the sources of a folder are compiled as one, which parses their headers once: a third of the
# time for most, a sixth beside torch. A name in an anonymous namespace is therefore to be used once in a folder; the
# compiler says so where it is not. Highway's files include themselves once an instruction set, and stay alone.
# -DLACUNA_UNITY=OFF compiles every file alone: faster where one file is changed again and again.
option(LACUNA_UNITY "Compile the sources of a folder as one" ON)
function(lacuna_unite target)
  if(NOT LACUNA_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    file(STRINGS ${source} includes_itself REGEX "hwy/foreach_target\\.h")
    if(NOT includes_itself)
      get_filename_component(folder ${source} DIRECTORY)
      file(RELATIVE_PATH group ${CMAKE_CURRENT_SOURCE_DIR} ${folder})
      string(MAKE_C_IDENTIFIER ${group} group)
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
    endif()
  endforeach()
endfunction()

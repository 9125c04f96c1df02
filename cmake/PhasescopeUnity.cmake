# phasescope_compile_together(target SIZE n [APART file or folder ...]): the target's files are compiled in
# groups of up to n of one folder. Nearly all of a file's time goes into headers and what they instantiate,
# which a group does once. APART are those that have a name in common with another file of their folder; so
# has CMake every file with definitions of its own.

function(phasescope_compile_together target)
  cmake_parse_arguments(ARG "" "SIZE" "APART" ${ARGN})
  if(NOT PHASESCOPE_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    get_filename_component(folder "${source}" DIRECTORY)
    if(source IN_LIST ARG_APART OR (folder AND folder IN_LIST ARG_APART) OR NOT source MATCHES "\\.cpp$")
      continue()
    endif()
    string(MAKE_C_IDENTIFIER "in_${folder}" group)
    math(EXPR number "0${${group}_files} / ${ARG_SIZE}")
    math(EXPR ${group}_files "0${${group}_files} + 1")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group}_${number})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # gcc takes the .cpp files of a group for headers, and so what only one of them has for shared.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()

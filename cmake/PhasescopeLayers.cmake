# phasescope_write_layers(): writes "target: what it links" for every target of ours to layers.txt in
# the build folder, where tests/build reads it and holds it against the allowed dependencies.

function(phasescope_targets_below directory out)
  get_directory_property(found DIRECTORY ${directory} BUILDSYSTEM_TARGETS)
  get_directory_property(folders DIRECTORY ${directory} SUBDIRECTORIES)
  foreach(folder IN LISTS folders)
    phasescope_targets_below(${folder} below)
    list(APPEND found ${below})
  endforeach()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

function(phasescope_write_layers)
  phasescope_targets_below(${CMAKE_SOURCE_DIR} targets)
  set(text "")
  foreach(target IN LISTS targets)
    get_target_property(links ${target} LINK_LIBRARIES)
    get_target_property(interface ${target} INTERFACE_LINK_LIBRARIES)
    string(REPLACE ";" " " line "${target}: ${links} ${interface}")
    string(APPEND text "${line}\n")
  endforeach()
  file(WRITE ${CMAKE_BINARY_DIR}/layers.txt "${text}")
endfunction()

# OpenMP::OpenMP_CXX, and which runtime library stands behind it.
#
# LibTorch's wheel brings a libgomp.so.1 of its own beside libtorch_cpu.so. Programs that link LibTorch run with that
# one: its folder is in their run path, and both have one name, so a process has one of them. CMake, told of
# gcc's own by its whole path, warned of exactly this for every such program. gcc knows its library by -fopenmp.
find_package(OpenMP REQUIRED COMPONENTS CXX)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set_property(TARGET OpenMP::OpenMP_CXX PROPERTY INTERFACE_LINK_LIBRARIES ${OpenMP_CXX_FLAGS})
endif()

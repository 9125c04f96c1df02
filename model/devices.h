#pragma once

#include <ATen/core/Tensor.h>

#include <string>

// The devices that models can live on, and their names. Every request, job and option resolves its
// device here.

namespace phasescope::model {

// How many CUDA devices LibTorch shows. Loads its CUDA half where there is a driver.
std::size_t cuda_devices();

// Why a driver that is there cannot be used; empty where it can, or where there is none.
const std::string& cuda_fault();

// The device of a name: "cpu" (or nothing), "cuda" (the first one), "cuda:1". Throws Error
// "bad_usage" for a name that is none, "device_unavailable" for a device that is not there.
at::Device device_named(const std::string& name);

}  // namespace phasescope::model

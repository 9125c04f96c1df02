#pragma once

namespace phasescope::kernels {

/// Gives the scratch memory back that is kept between calls.
void release_scratch();

}  // namespace phasescope::kernels

#include "app/cli/run.h"

#include "app/cli/output.h"

namespace phasescope::app {

nlohmann::json Run::sidecar(const nlohmann::json& provenance) const {
  return sidecar_of(command(), provenance);
}

}  // namespace phasescope::app

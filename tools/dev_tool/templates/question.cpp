#include "analysis/questions/NEW_NAME.h"

#include "formats/error.h"

namespace phasescope::analysis {

protocol::NewNameResult analyse_NEW_NAME(const protocol::NewNameRequest& request) {
  throw formats::bad_input("write me: nothing is measured yet", request.model);
}

}  // namespace phasescope::analysis

// The explicit list of checkpoint families: one line each.
#include "model/families/family.h"
#include "model/families/llama.h"
#include "model/families/phasescope.h"
#include "model/families/tape_public.h"

namespace phasescope::model {

const std::vector<Family>& families() {
  static const std::vector<Family> list = {
      phasescope_family(),
      tape_public_family(),
      llama_family(),
  };
  return list;
}

}  // namespace phasescope::model
